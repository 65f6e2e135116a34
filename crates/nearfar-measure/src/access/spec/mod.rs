//! Specifications: what is to be run, as it was written and as it is meant.
//!
//! A specification has settings of the run, named regions, named tasks, and a matrix. Every setting
//! is a field of the tables in [`fields`], from which files, flags and `docs/measure.md` take their
//! names. A [`Document`] holds the settings as text, each with the place where it was written;
//! [`Document::expand`] makes one [`RunSpec`] per point of the matrix and names the place of what
//! means nothing.

mod document;
mod error;
mod expand;
pub mod fields;
mod flags;
mod from_toml;
mod from_yaml;
mod reader;
mod resolve;
mod tree;

pub use self::document::{Document, TEXT_BYTES_MAX};
pub(crate) use self::error::Mistake;
pub use self::error::{Origin, SpecError, SpecErrorKind};
pub use self::expand::{Context, RUNS_MAX};
pub use self::flags::Flag;
pub use self::resolve::{Length, Pin, RegionSpec, RunSpec, Size, StepSpec, TaskSpec};
