//! From record batches to segments.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use nearfar_memory::TierBytes;
use std::sync::Arc;

use super::batch::batch_bytes;
use super::facts::ColumnFacts;
use super::segment::{ColumnSlot, Segment};
use super::sketch::DistinctSketch;
use super::sketches::SegmentSketches;
use super::zeros::with_one_zero;
use crate::error::TableError;
use crate::placement::{ColumnPlacements, Storage};
use crate::segment::encode_column;

/// Rows of a full segment.
pub const SEGMENT_ROWS: usize = 1 << 19;

/// A segment of wide rows is full when its rows take this much unencoded.
const SEGMENT_BYTES: u64 = 256 << 20;

/// The type a column of `data_type` has as a table's column: strings become string views, and
/// dictionaries their values, since the table chooses encodings itself.
pub fn stored_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Dictionary(_, values) => stored_type(values),
        other => other.clone(),
    }
}

/// `schema` with every column of its [`stored_type`].
pub fn stored_schema(schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| {
        let data_type = stored_type(field.data_type());
        Arc::new(field.as_ref().clone().with_data_type(data_type))
    };
    Arc::new(Schema::new(
        schema.fields().iter().map(field).collect::<Vec<_>>(),
    ))
}

/// Collects rows into full segments. At most one segment's rows are held unencoded, and no more than
/// 256 MiB and a batch of them.
#[derive(Debug)]
pub struct TableBuilder {
    schema: SchemaRef,
    placements: ColumnPlacements,
    storage: Storage,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: u64,
    segments: Vec<Arc<Segment>>,
    /// Since that was last taken.
    written: TierBytes,
    /// Whether the segments take the place of others of the same table.
    replaces: bool,
}

impl TableBuilder {
    /// A builder for rows of `schema`, which [`stored_schema`] made.
    pub fn new(schema: SchemaRef, placements: ColumnPlacements, storage: Storage) -> Self {
        Self {
            schema,
            placements,
            storage,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
            segments: Vec::new(),
            written: TierBytes::ZERO,
            replaces: false,
        }
    }

    /// The same builder, of segments that take the place of others of the table.
    #[must_use]
    pub fn replacing(self) -> Self {
        Self {
            replaces: true,
            ..self
        }
    }

    /// Adds rows, columns in the order of the schema and of types that cast to its own.
    ///
    /// # Errors
    /// A column with a value that does not cast, or a segment whose region is refused.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        let mut offset = 0;
        while offset < batch.num_rows() {
            let rows = (batch.num_rows() - offset).min(SEGMENT_ROWS - self.pending_rows);
            let slice = batch.slice(offset, rows);
            self.pending_bytes += batch_bytes(&slice);
            self.pending.push(slice);
            self.pending_rows += rows;
            offset += rows;
            if self.pending_rows == SEGMENT_ROWS || self.pending_bytes >= SEGMENT_BYTES {
                self.seal()?;
            }
        }
        Ok(())
    }

    /// Bytes of segments per tier that were written since this was last asked.
    pub fn take_written(&mut self) -> TierBytes {
        std::mem::take(&mut self.written)
    }

    /// The segments of all rows added.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self) -> Result<Vec<Arc<Segment>>, TableError> {
        if self.pending_rows > 0 {
            self.seal()?;
        }
        Ok(self.segments)
    }

    fn seal(&mut self) -> Result<(), TableError> {
        let batches = std::mem::take(&mut self.pending);
        let rows = std::mem::take(&mut self.pending_rows);
        self.pending_bytes = 0;
        let columns = (0..self.schema.fields().len())
            .map(|column| self.seal_column(column, &batches))
            .collect::<Result<Vec<_>, _>>()?;
        let (columns, sketches) = columns.into_iter().unzip();
        let segment = Segment::new(rows, columns, SegmentSketches::InMemory(sketches));
        let budget = self.storage.temporary.as_ref();
        let segment = match self.replaces {
            true => segment.charged_anyway(budget),
            false => segment.charged_to(budget)?,
        };
        self.written += segment.tier_bytes();
        self.segments.push(Arc::new(segment));
        Ok(())
    }

    fn seal_column(
        &self,
        column: usize,
        batches: &[RecordBatch],
    ) -> Result<(ColumnSlot, Option<DistinctSketch>), TableError> {
        let field = self.schema.field(column);
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let arrays: Vec<ArrayRef> = batches
            .iter()
            .map(|batch| {
                let array = cast_with_options(batch.column(column), field.data_type(), &strict)?;
                Ok(with_one_zero(array))
            })
            .collect::<Result<_, TableError>>()?;
        let target = self.storage.target(self.placements.of(field.name()));
        let segment = encode_column(&arrays, field.data_type(), target)?;
        let (facts, sketch) = ColumnFacts::of(&segment);
        Ok((ColumnSlot::new(segment, facts), sketch))
    }
}
