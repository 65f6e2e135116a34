//! Pools: memory that outlives a process or a host, with what was published in it.
//!
//! A [`Pool`] is a file in memory (tmpfs), a file of a DAX file system or a DAX device, cut into
//! extents. Its one owner writes extents and *publishes* them with a catalog, all or nothing, even
//! if the process, the host or its power fails in the middle. Whoever attaches the pool later finds
//! the last catalog that was published, in place, and can check every byte of it.
//! `docs/restart-format.md` describes the layout.
//!
//! * [`Pool`] creates and attaches, reads and verifies what was published.
//! * [`Owner`] is the right to write, which a later owner takes away.
//! * [`Reader`] is another process or host that uses what the owner publishes, in place.
//! * [`Medium`] is how writes reach the memory for good.

mod attach;
mod catalog;
mod checksum;
mod error;
mod extent;
mod identity;
mod intents;
mod medium;
mod memory;
mod owner;
mod ownership;
mod reader;
mod reader_slots;
mod root;
mod space;
mod watch;

pub use attach::{Pool, PoolOptions};
pub use error::PoolError;
pub use extent::{Extent, ExtentHandle};
pub use medium::Medium;
pub use memory::PoolMemory;
pub use owner::{Owner, Published};
pub use ownership::{Claim, OwnerName, OwnerRecord, TakeOver};
pub use reader::Reader;
pub use reader_slots::ReaderRecord;
pub use watch::{OwnerWatch, Watched};
