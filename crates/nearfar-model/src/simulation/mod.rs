//! The simulator in virtual time.

mod cache;
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

pub use self::machine::{Machine, MachineError, THREADS_MAX, TierName};
pub use self::network::DeviceIndex;
pub use self::placement::AddressMap;
pub use self::program::{Access, Operation, Program};
pub use self::scheduler::{Caches, Outcome, Simulation};
