//! DAX devices as memory of tiers: opened by one process at a time, and given out in extents.
//!
//! A device in mode devdax (`/dev/dax0.0`) is memory that the kernel maps and does not allocate. What
//! is taken of it belongs to this process alone: nothing on the device says so, and what is left there
//! means nothing to the next process. Pools, which outlive a process, are in [`crate::pool`].
//!
//! A file may stand for a device, as in tests.

mod device;
mod error;
mod extents;

pub(crate) use device::{DaxDevice, DaxExtents};
pub use error::DaxError;

/// The first word of a device or file that holds a pool, which is not to be overwritten.
pub(crate) const POOL_MAGIC: u64 = u64::from_le_bytes(*b"NFARPOOL");
