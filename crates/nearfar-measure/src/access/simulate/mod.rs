//! Running a plan in the model, in virtual time.
//!
//! The same batches, patterns and mixes as in [`super::run`], on virtual processors: each thread is
//! a program of the simulator, whose operations follow from the specification.

mod execute;
mod place;
mod tiers;
mod worker;

pub(crate) use self::execute::simulate;
pub use self::place::DevicePages;
pub(crate) use self::place::{HUGE_PAGE_BYTES, PAGE_BYTES, place};
pub(crate) use self::tiers::DeviceTiers;
