//! Rows on their way into a table.

use arrow::array::RecordBatch;
use nearfar_memory::TierBytes;
use std::sync::Arc;

use crate::error::TableError;
use crate::placement::{ColumnPlacements, Storage};
use crate::table::{
    PackedRows, Segment, Table, TableBuilder, TableRules, batch_bytes, batch_with_one_zero,
};

/// Rows of one statement that are many enough to be encoded immediately, where the table's columns are.
const SEGMENT_ROWS_MIN: usize = 1 << 16;

/// The same of wide rows, in bytes.
const SEGMENT_BYTES_MIN: u64 = 32 << 20;

/// Rows that are to be added to a table: segments where they are many, else batches for the delta.
#[derive(Debug)]
pub struct NewRows {
    /// Encoded rows.
    pub segments: Vec<Arc<Segment>>,
    /// Where the columns of `segments` are.
    pub placed: ColumnPlacements,
    /// Rows for the delta.
    pub batches: Vec<RecordBatch>,
    /// Few rows for the delta. Where they keep columns of others, these are deleted with them, row by row. There are no
    /// other rows then.
    pub packed: Option<PackedRows>,
    /// What was declared of the table's rows before they were held against it.
    pub rules: Arc<TableRules>,
}

impl NewRows {
    /// No rows for `table`, as it is now.
    pub fn none(table: &Table) -> Self {
        Self {
            segments: Vec::new(),
            placed: table.placements(),
            batches: Vec::new(),
            packed: None,
            rules: table.rules(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.batches.is_empty() && self.packed.is_none()
    }
}

/// Collects the rows that one statement adds: for the delta, or as segments of their own when they
/// are many. At most the rows of one segment wait to be stored.
#[derive(Debug)]
pub struct NewRowsBuilder {
    table: Arc<Table>,
    storage: Storage,
    placed: ColumnPlacements,
    rules: Arc<TableRules>,
    batches: Vec<RecordBatch>,
    batch_bytes: u64,
    builder: Option<TableBuilder>,
    rows: usize,
}

impl NewRowsBuilder {
    /// A builder of rows for `table`.
    pub fn new(table: Arc<Table>, storage: &Storage) -> Self {
        Self {
            placed: table.placements(),
            rules: table.rules(),
            storage: table.storage(storage),
            table,
            batches: Vec::new(),
            batch_bytes: 0,
            builder: None,
            rows: 0,
        }
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Adds rows, columns in the order of the table's and of types that cast to them.
    ///
    /// # Errors
    /// A value that does not cast; a region that is refused.
    pub fn push(&mut self, batch: RecordBatch) -> Result<(), TableError> {
        self.rows += batch.num_rows();
        if let Some(builder) = &mut self.builder {
            return builder.push(&batch);
        }
        let batch = batch_with_one_zero(batch);
        self.batch_bytes += batch_bytes(&batch);
        if batch.num_rows() > 0 {
            self.batches.push(batch);
        }
        if self.rows >= SEGMENT_ROWS_MIN || self.batch_bytes >= SEGMENT_BYTES_MIN {
            let schema = Arc::clone(self.table.schema());
            let mut builder = TableBuilder::new(schema, self.placed.clone(), self.storage.clone());
            for batch in std::mem::take(&mut self.batches) {
                builder.push(&batch)?;
            }
            self.builder = Some(builder);
        }
        Ok(())
    }

    /// Bytes of segments per tier that were written since this was last asked.
    pub fn take_written(&mut self) -> TierBytes {
        let builder = self.builder.as_mut();
        builder.map_or(TierBytes::ZERO, TableBuilder::take_written)
    }

    /// All rows that were added, and how many they are.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(self) -> Result<(NewRows, u64), TableError> {
        let segments = self.builder.map(TableBuilder::finish).transpose()?;
        let rows = NewRows {
            segments: segments.unwrap_or_default(),
            placed: self.placed,
            batches: self.batches,
            packed: None,
            rules: self.rules,
        };
        Ok((rows, self.rows as u64))
    }
}
