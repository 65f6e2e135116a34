//! Our trees in virtual time: real trees, whose accesses run in the simulator of `nearfar-model` on
//! up to 64 virtual cores, under placement policies.
//!
//! Operations run one after the other on one thread of this machine: each does its work and
//! leaves the list of its accesses, which the virtual core then makes in virtual time. So there is
//! no spinning, and a run is the same wherever it runs; two operations that meet in a node delay each
//! other in virtual time, where a core waits for the lock of another. Placement runs between slices of
//! virtual time, and the bytes that it moves are read and written by one more virtual core.
//!
//! A tree and a machine are made smaller by the same factor, see [`Scale`](crate::placed::Scale), or neither is: then
//! most operations are followed without being simulated, and windows tell the figures, see [`Sampling`].

mod cores;
mod costs;
mod in_place;
mod live;
mod migrator;
mod pages;
mod run;
mod sampled;
mod sampling;
mod space;
mod untimed;

pub(crate) use costs::Counted;
pub use costs::{INSTRUCTIONS_PER_NS, Instructions, Work};
pub(crate) use in_place::{InPlace, Measured};
pub use run::{ModelledMachine, run};
pub use sampling::Sampling;
pub(crate) use sampling::{PAGES_REFUSED, SHIFT_REFUSED, too_short};
