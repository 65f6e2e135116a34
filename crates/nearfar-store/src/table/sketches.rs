//! The sketches of a segment's columns, which stay where they are kept until somebody asks.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::sketch::DistinctSketch;
use crate::error::StoreError;

/// Sketches of a segment, one for each column: nothing where its values were not looked at.
pub type ColumnSketches = Vec<Option<DistinctSketch>>;

/// Sketches that are kept outside of this process's memory.
pub trait StoredSketches: fmt::Debug + Send + Sync {
    /// Reads them.
    ///
    /// # Errors
    /// Bytes that are gone or damaged.
    fn load(&self) -> Result<ColumnSketches, StoreError>;
}

/// The sketches of a segment. They are two thirds of what is known of it, and as long as the main
/// storage of a table does not change, its summary has them already.
#[derive(Debug)]
pub struct SegmentSketches {
    known: OnceLock<ColumnSketches>,
    stored: Option<Arc<dyn StoredSketches>>,
}

impl SegmentSketches {
    pub(crate) fn of(known: ColumnSketches) -> Self {
        Self {
            known: OnceLock::from(known),
            stored: None,
        }
    }

    /// Sketches that are read when somebody first asks.
    pub(crate) fn stored(stored: Arc<dyn StoredSketches>) -> Self {
        Self {
            known: OnceLock::new(),
            stored: Some(stored),
        }
    }

    /// All of them; none where they can't be read: the planner then knows less, and no answer is
    /// wrong.
    pub fn all(&self) -> &[Option<DistinctSketch>] {
        self.known.get_or_init(|| {
            let loaded = self.stored.as_ref().map(|stored| stored.load());
            loaded.transpose().map_or_else(
                |error| {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, "numbers of distinct values are not known");
                    Vec::new()
                },
                Option::unwrap_or_default,
            )
        })
    }

    /// That of a column, if it is known.
    pub fn of_column(&self, column: usize) -> Option<&DistinctSketch> {
        self.all().get(column)?.as_ref()
    }
}
