//! What runs where: the one list of it, and running it.

mod checks;
mod failover;
mod outcome;
mod report;
mod run;

pub use checks::{CHECKS, Check};
pub use outcome::Outcome;
pub use report::{list, table};
pub use run::{packages, run};
