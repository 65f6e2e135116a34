//! The simulator in virtual time: requests of up to 64 virtual threads on their way through cores,
//! caches, the shared request table and devices.
//!
//! A [`Machine`] comes from a profile. A [`Program`] is what one thread does: a benchmark's
//! [`pattern`], or real code whose accesses arrive through a [`VirtualProbe`]. The [`Simulation`]
//! steps the cores in the order of virtual time, so the same programs give the same
//! [`Outcome`] on every machine.
//!
//! What is simulated, and what each part stands on, is told in `docs/model-virtual.md`.

mod beside;
mod cache;
mod copies;
mod core;
mod filter;
mod locks;
mod machine;
mod network;
pub mod pattern;
mod pending;
mod placement;
mod prefetch;
mod program;
mod recorder;
mod requests;
mod scheduler;
mod sets;
mod slots;
mod threads;
mod time;
mod times;
mod waits;
mod window;

pub use self::beside::{Explained, Group, Span, explain_beside, run_beside};
pub use self::filter::{FilterProbe, PositionStores};
pub use self::machine::{Machine, MachineError, THREADS_MAX, TierName};
pub use self::network::{DeviceIndex, TableVisit};
pub use self::placement::AddressMap;
pub use self::program::{Access, Operation, Program};
pub use self::recorder::{AddressSpace, OperationCost, Recorder};
pub use self::scheduler::{Caches, Outcome, Simulation, TableCounts};
pub use self::slots::{SlotShares, SlotTimes};
pub use self::threads::{PlacedBuffer, VirtualProbe};
