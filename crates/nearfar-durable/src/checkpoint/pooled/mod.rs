//! Checkpoints in a pool: main storage that a later process uses where it lies.
//!
//! Every column of a segment of the main storage is an extent; so is what is known of a segment, and
//! each segment of the delta. What is published names the extents and has everything else. Columns
//! that are placed on the tier that the pool lies on are used in place, by this process and by later
//! ones; of the others the pool has a copy, which a later process reads when it needs it.
//!
//! * [`TablePool`] is the pool that this process owns; `publish` writes into it what is committed, and
//!   `attach` reads what an earlier process has published.
//! * [`SharedPool`] is the pool of another process, whose tables this one reads.
//! * `column` is a column that lies in a pool, and is looked at when it is first needed.

mod attach;
mod column;
mod options;
mod place;
mod publication;
mod publish;
mod shared;
mod table_pool;

pub(crate) use attach::Publication;
pub(crate) use options::DataLink;
pub use options::{SharedPoolOptions, TablePoolOptions, Verify};
pub use shared::{SharedPool, SharedPublication};
pub use table_pool::TablePool;
