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
use crate::segment::ColumnBuilder;

/// Rows of a full segment.
pub const SEGMENT_ROWS: usize = 1 << 19;

/// A segment of wide rows is full when its rows took this much in the batches that they came in.
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

/// Collects rows into full segments. At most one segment's rows wait, in about the memory that they take in it; no more
/// than come in 256 MiB and a batch.
#[derive(Debug)]
pub struct TableBuilder {
    schema: SchemaRef,
    placements: ColumnPlacements,
    storage: Storage,
    /// Those of the segment that is not full yet.
    columns: Vec<ColumnBuilder>,
    pending_rows: usize,
    /// Of the batches that they came in.
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
            columns: columns_of(&schema),
            schema,
            placements,
            storage,
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
    /// A column with a value that does not cast, or a segment whose region is refused. The builder is of no use then.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        let mut offset = 0;
        while offset < batch.num_rows() {
            let rows = (batch.num_rows() - offset).min(SEGMENT_ROWS - self.pending_rows);
            let slice = batch.slice(offset, rows);
            self.hold(&slice)?;
            offset += rows;
            if self.pending_rows == SEGMENT_ROWS || self.pending_bytes >= SEGMENT_BYTES {
                self.seal()?;
            }
        }
        Ok(())
    }

    fn hold(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        debug_assert_eq!(batch.num_columns(), self.columns.len());
        let arrays = self.schema.fields().iter().zip(batch.columns());
        let arrays = arrays.map(|(field, array)| stored_array(array, field.data_type()));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>, TableError>>()?;
        for (column, array) in self.columns.iter_mut().zip(&arrays) {
            column.push(array)?;
        }
        self.pending_bytes += batch_bytes(batch);
        self.pending_rows += batch.num_rows();
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
        let columns = std::mem::replace(&mut self.columns, columns_of(&self.schema));
        let rows = std::mem::take(&mut self.pending_rows);
        self.pending_bytes = 0;
        let fields = self.schema.fields().iter();
        let columns = fields
            .zip(columns)
            .map(|(field, column)| self.seal_column(field, column))
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
        field: &Field,
        column: ColumnBuilder,
    ) -> Result<(ColumnSlot, Option<DistinctSketch>), TableError> {
        let target = self.storage.target(self.placements.of(field.name()));
        let segment = column.finish(target)?;
        let (facts, sketch) = ColumnFacts::of(&segment);
        Ok((ColumnSlot::new(segment, facts), sketch))
    }
}

fn columns_of(schema: &Schema) -> Vec<ColumnBuilder> {
    let fields = schema.fields().iter();
    fields
        .map(|field| ColumnBuilder::new(field.data_type()))
        .collect()
}

/// The values as a table's column of `data_type` has them.
fn stored_array(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, TableError> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let array = cast_with_options(array, data_type, &strict)?;
    Ok(with_one_zero(array))
}
