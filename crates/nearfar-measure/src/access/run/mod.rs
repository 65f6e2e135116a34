//! Running a plan.

mod delays;
mod execute;
mod host;
mod memory;
mod queue;
mod worker;

pub use self::execute::{ExecuteError, Observer, execute};
pub(crate) use self::execute::{Target, Until};
pub(super) use self::queue::{Batch, Queue};
pub(super) use self::worker::{GRAIN_BYTES, Worked};
