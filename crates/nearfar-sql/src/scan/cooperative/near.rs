//! Columns of a part that are near while it is read.

use nearfar_memory::TierBytes;
use std::sync::Arc;

use super::parts::CopiedColumn;
use nearfar_table::segment::{ColumnSegment, RowSet};

/// Columns of a part that are near while a scan reads it, though the table has them far.
#[derive(Debug, Default)]
pub struct NearColumns {
    copies: Vec<CopiedColumn>,
    /// Those that this scan has read far to copy them.
    own: Vec<usize>,
}

impl NearColumns {
    /// These copies, of which a scan has made its `own`.
    pub fn of(copies: &[CopiedColumn], own: &[usize]) -> Self {
        Self {
            copies: copies.to_vec(),
            own: own.to_vec(),
        }
    }

    /// The columns, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Arc<ColumnSegment>)> {
        self.copies.iter().map(|copy| (copy.column, &copy.near))
    }

    /// What another scan has saved this one that reads `rows` of a column.
    pub fn saved(&self, column: usize, rows: RowSet<'_>) -> Option<TierBytes> {
        let mut copies = self.copies.iter();
        let copy = copies.find(|copy| copy.column == column)?;
        (!self.own.contains(&column)).then(|| copy.far.bytes_read(rows))
    }
}
