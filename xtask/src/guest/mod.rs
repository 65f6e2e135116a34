//! Running machines: what is passed in, what comes out, and how they end.

mod accelerator;
mod exchange;
mod job;
mod launch;
mod machine;

pub use accelerator::Accelerator;
pub use job::{Job, Step};
pub use launch::{Launcher, Place};
pub use machine::{End, Machine};
