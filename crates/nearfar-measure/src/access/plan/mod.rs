//! Specifications held against a machine: this one, or the one of a profile in virtual time.

mod estimate;
mod memory;
mod pins;
mod planned;
mod simulated;
mod steps;

pub(crate) use self::memory::available_bytes;
pub use self::planned::{Plan, PlanError, PlanTarget, PlannedPlacement, PlannedRegion, PlannedRun};
pub use self::simulated::{DevicePages, Window};
