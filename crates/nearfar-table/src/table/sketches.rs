//! The sketches of a segment's columns, which stay where they are kept until somebody asks.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::sketch::DistinctSketch;
use crate::error::TableError;

/// Sketches of a segment, one for each column: nothing where its values were not looked at.
pub type ColumnSketches = Vec<Option<DistinctSketch>>;

/// Sketches that are kept outside of this process's memory.
pub trait StoredSketches: fmt::Debug + Send + Sync {
    /// Reads them.
    ///
    /// # Errors
    /// Bytes that are gone or damaged.
    fn load(&self) -> Result<ColumnSketches, TableError>;

    /// Checks their bytes where they are, if that brings nothing to memory.
    ///
    /// # Errors
    /// Damaged bytes.
    fn verify(&self) -> Result<(), TableError> {
        Ok(())
    }
}

/// The sketches of a segment. They are most of what is known of it, and as long as the rows of a
/// table do not change, nobody needs them: the numbers of distinct values are kept with the table.
#[derive(Debug)]
pub enum SegmentSketches {
    /// Of values that this process has looked at.
    InMemory(ColumnSketches),
    /// Kept elsewhere.
    Stored {
        /// Where.
        stored: Arc<dyn StoredSketches>,
        /// What was read.
        read: OnceLock<ColumnSketches>,
    },
}

impl SegmentSketches {
    /// Sketches that are read when somebody first asks.
    pub fn stored(stored: Arc<dyn StoredSketches>) -> Self {
        Self::Stored {
            stored,
            read: OnceLock::new(),
        }
    }

    /// All of them.
    ///
    /// # Errors
    /// Bytes that are gone or damaged. It is tried again by whoever asks next.
    pub fn all(&self) -> Result<&[Option<DistinctSketch>], TableError> {
        match self {
            Self::InMemory(sketches) => Ok(sketches),
            Self::Stored { stored, read } => {
                if let Some(sketches) = read.get() {
                    return Ok(sketches);
                }
                let loaded = stored.load()?;
                Ok(read.get_or_init(|| loaded))
            }
        }
    }

    /// Checks those that have not been read yet.
    ///
    /// # Errors
    /// Damaged ones.
    pub fn verify(&self) -> Result<(), TableError> {
        match self {
            Self::Stored { stored, read } if read.get().is_none() => stored.verify(),
            _ => Ok(()),
        }
    }
}
