//! Emulated tiers, in wall-clock time: real threads work on real data, and each is delayed for as long
//! as the far tier of a profile would have kept it waiting.
//!
//! Code that reads and writes in order, or counts what it does, says so to an [`EmulatedTier`]; the
//! modelled [`Core`] of its thread knows what overlaps. For single accesses, an operation runs natively, over near memory, and reports its accesses to an [`EmulatedProbe`].
//! After a few operations their thread charges those to the far tier ([`EmulatedThread::settle`]): a
//! line that is not in the model of a core's share of the cache takes the difference of far and near
//! latency, lines that do not depend on each other take it together, as many as a core has in flight,
//! and prefetched ones while others are waited for. Then the thread waits for the latency, or for its
//! lines to pass the link of the tier, which all threads share, whichever is longer
//! ([`EmulatedTier::settle`]).
//!
//! ```
//! use nearfar_model::emulation::{EmulatedProbe, EmulatedThread};
//! use nearfar_model::{BandwidthShare, EmulatedTier, Probe};
//! use nearfar_topology::Profile;
//!
//! let profile = Profile::builtin("cxl-card")?;
//! let tier = EmulatedTier::new(&profile, BandwidthShare::Threads(1))?;
//! let mut thread = EmulatedThread::new(&tier, 0);
//! let far = [0_u64; 8];
//! let range = far.as_ptr_range();
//! let probe = EmulatedProbe::new(range.start.addr()..range.end.addr());
//! probe.read(far.as_ptr().addr(), 8);
//! probe.end_operation();
//! thread.settle(&probe); // returns when the far tier would have delivered the line
//! assert!(thread.charged().lines_read >= 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod core;
mod heap;
mod line_cache;
mod link;
mod misses;
mod parameters;
mod probe;
mod thread;
mod tier;

pub use self::core::{Core, Direction, Pattern};
pub use heap::{HeapAccess, OVERLAP_SHARE};
pub use misses::Charged;
pub use parameters::{BandwidthShare, EmulationParameters, ParameterError};
pub use probe::EmulatedProbe;
pub use thread::EmulatedThread;
pub use tier::EmulatedTier;
