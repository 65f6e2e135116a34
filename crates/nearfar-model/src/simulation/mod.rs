//! The simulator in virtual time.

mod core;
mod machine;
mod network;
pub mod pattern;
mod placement;
mod prefetch;
mod program;
mod scheduler;
mod time;
mod times;

pub use self::machine::{CoreParameters, MachineParameters, TierParameters};
pub use self::placement::AddressMap;
pub use self::program::{Access, Operation, Program};
pub use self::scheduler::{Outcome, Simulation};
