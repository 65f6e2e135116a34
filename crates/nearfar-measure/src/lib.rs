//! Access benchmarks, the schema of results, and reports.
//!
//! * [`access`] runs access benchmarks that a specification describes.
//! * [`probe`] finds latency and bandwidth of a tier, and whether a modelled tier behaves as its
//!   profile says.
//! * [`graph`] ranks the nodes of a placed graph, as a program under test.
//! * [`inference`] streams the weights of a language model, as another.
//! * [`operators`] runs operators over near and far buffers in virtual time.
//! * [`scan`] passes over columns in virtual time, as the filtering scan does.
//! * [`compare`] sets two results side by side.
//! * [`results`] writes figures for programs: one JSON object per line.
//! * [`report`] writes them for people: one self-contained HTML page.
//!
//! Every figure carries its [`Kind`]: measured, modelled, published or estimated.

#![deny(unsafe_code)]
#![deny(missing_docs)]

pub mod access;
pub mod calibrate;
pub mod compare;
mod divided;
pub mod graph;
pub mod inference;
pub mod interference;
mod known;
mod machine;
pub mod operators;
pub mod probe;
mod process;
mod random;
pub mod report;
pub mod reproduce;
pub mod results;
pub mod scan;
mod statistics;

pub use machine::Machine;
pub use results::Kind;
pub use statistics::Summary;
