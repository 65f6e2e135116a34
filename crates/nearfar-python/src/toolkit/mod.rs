//! Nearfar beside its SQL: the machine's tiers, measuring and modelling, prices, and trees on tiers.
//!
//! What has many fields goes to Python as JSON, in the results schema where it is figures.

mod calibration;
mod figures;
mod machine;
mod plan;
mod tree;

pub use calibration::calibrate;
pub use figures::{measure, presets};
pub use machine::{builtin_profiles, profile, tiers};
pub use plan::cheapest;
pub use tree::PyTree;

use serde::Serialize;
use std::fmt::Display;

use crate::failure::Failure;

/// A library's complaint about what the caller gave it.
fn wrong(error: impl Display) -> Failure {
    Failure::Argument(error.to_string())
}

fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Internal(error.to_string()))
}
