//! Comparisons with other engines over the same data, in one run of the program.
//!
//! [`compare`] writes TPC-H or TPC-DS to Parquet files, has every [`Contender`] load them, checks that their
//! answers agree, and times each query on Nearfar and on one rival in turn. Contenders are processes
//! of their own that speak the lines of [`protocol`]; a program that wants to compare passes
//! [`Processes`] and calls [`serve()`] when it is started as one.

mod contender;
mod error;
mod field;
mod files;
mod memory;
mod metrics;
mod outcome;
pub mod protocol;
mod run;
mod serve;

pub use contender::{Contender, Launch, Processes, Rival, Who};
pub use error::BenchError;
pub use outcome::{
    BenchOutcome, ComparedMemory, Comparison, ContenderLoads, Ended, Missed, QueryComparison, Turns,
};
pub use run::{BenchEvent, BenchObserver, BenchOptions, compare};
pub use serve::{Role, UnknownRole, serve};

pub(crate) use files::{read_answer, write_table};
pub(crate) use serve::{Failure, chain, install, load_nearfar};
