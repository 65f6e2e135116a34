//! Checkpoints: the complete committed state of all permanent tables at one position of the log.
//!
//! [`directory`] keeps them as files: one for each segment, written once and shared by later
//! checkpoints, and a manifest that is renamed last. [`pooled`] keeps them in a pool, where a later process
//! uses them in place. `docs/restart-format.md` describes the layout.

pub mod directory;
mod lease;
pub mod pooled;
mod publisher;
mod segment_file;

pub use lease::Lease;
pub use publisher::{Publisher, TakeCommitted, Verifier};
pub(crate) use segment_file::SegmentFile;
