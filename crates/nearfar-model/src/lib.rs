//! The memory-system model: what a far tier would cost on a machine that has none.
//!
//! This crate owns three things and never calls the kernel beyond reading the clock and sleeping:
//!
//! * the **probe** ([`Probe`]): the generic parameter through which kernels and trees tell what
//!   they access. All implementations are here, so that the same access is charged in one way.
//!   [`Native`] compiles to nothing; [`AccessLog`] keeps a list, [`StreamedRun`] what was streamed,
//!   [`StreamMeter`] hands on how much was, [`EachAccess`] calls a function.
//! * **simulation in virtual time** ([`simulation`]): programs and real code on up to 64 virtual
//!   threads, see the module.
//! * **emulated tiers** ([`EmulatedTier`]): code runs in wall-clock time over ordinary memory, and a
//!   thread is delayed for as long as the modelled tier would have kept it waiting. All that a thread
//!   does on such tiers is charged to its modelled [`Core`]: scans tell what they read
//!   ([`EmulatedTier::read`]), a pointer chase uses [`EmulatedTier::dependent_read`], random accesses
//!   of joins and aggregates are charged by an estimate ([`EmulatedTier::heap_delay`]), and code that
//!   reports single accesses runs on an [`EmulatedThread`](emulation::EmulatedThread).
//!
//! What emulation reproduces, and what it does not:
//!
//! | effect | in the model |
//! |---|---|
//! | idle latency of dependent reads | yes, per access |
//! | bandwidth of the tier, shared by all cores | yes, one link per direction |
//! | what one core can keep in flight, on all its tiers together | yes, outstanding lines x 64 B / latency |
//! | hardware prefetch: work on one chunk hides the transfer of the next | yes, one chunk deep |
//! | random access of a hash table | estimated from counts, see [`HeapAccess`] |
//! | rising latency under load, below saturation | no: a core sees the queue, not its variance |
//!
//! A figure obtained this way is *modelled* (or, for heaps, *a modelled estimate*) and is to be
//! labelled so wherever it is shown.
//!
//! Time comes from a [`Clock`], so that every rule above is tested in virtual time.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod access_log;
mod clock;
mod each_access;
pub mod emulation;
mod probe;
pub mod simulation;
mod stream_meter;
mod streamed_run;

pub use access_log::{AccessLog, LoggedAccess};
pub use clock::{Clock, RealClock, Stamp, VirtualClock};
pub use each_access::EachAccess;
pub use emulation::{
    BandwidthShare, Core, Direction, EmulatedTier, EmulationParameters, HeapAccess, OVERLAP_SHARE,
    ParameterError, Pattern,
};
pub use probe::{Native, Probe};
pub use stream_meter::StreamMeter;
pub use streamed_run::StreamedRun;

/// Bytes of a cache line, the unit in which every modelled tier transfers.
pub const CACHE_LINE_BYTES: u64 = 64;
