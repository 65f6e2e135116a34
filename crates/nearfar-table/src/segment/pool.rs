//! Memory of column segments that outlives the process, as tables know it.

use nearfar_memory::Placement;
use std::fmt;

use super::memory::SegmentMemory;
use crate::error::TableError;

/// A place for the bytes of column segments that outlives the process.
pub trait ColumnPool: fmt::Debug + Send + Sync {
    /// Whether columns of this placement are used in it.
    fn holds(&self, placement: &Placement) -> bool;

    /// Puts bytes into it.
    ///
    /// # Errors
    /// No room; a place that another process has taken over.
    fn write(&self, bytes: &[u8]) -> Result<SegmentMemory, TableError>;

    /// Whether this process may still change what there is.
    ///
    /// # Errors
    /// Another process has taken it over.
    fn check_owner(&self) -> Result<(), TableError>;
}
