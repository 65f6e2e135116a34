//! Savepoints: the complete committed state of all permanent tables at one position of the log.
//!
//! [`directory`] keeps them as files: one for each segment, written once and shared by later
//! savepoints, and a manifest that is renamed last. `docs/restart-format.md` describes the layout.

pub mod directory;
mod error;
mod segment_file;

pub use error::SavepointError;
pub use segment_file::SegmentFile;
