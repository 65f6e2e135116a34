//! Few rows of a statement, value by value.
//!
//! A statement that reads or adds a row, or changes one of twenty columns of a row, has little to do with arrays of a single
//! value for each column, which a commit writes behind others and a server sends. Here values are as a tail has them, in two
//! pieces of memory.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use super::segment::Segment;
use crate::segment::{
    ColumnSegment, FewRows, OneValue, RowSet, RowValues, Tail, array_of, heap_column,
};

/// Few rows, value by value. Cloned cheaply; never changed.
#[derive(Debug, Clone)]
pub struct PackedRows(Arc<Contents>);

#[derive(Debug)]
struct Contents {
    schema: SchemaRef,
    /// Whether a column has the values of rows that were there before; nothing where none has.
    are_kept: Vec<bool>,
    /// The values of the first column, then those of the next.
    values: Vec<Packed>,
    rows: usize,
    texts: Vec<u8>,
}

/// A value.
#[derive(Debug)]
enum Packed {
    Null,
    Fixed(u128),
    /// Where it is among the texts.
    Bytes(Range<usize>),
}

impl PackedRows {
    /// More rows than these are not packed.
    const ROWS_MAX: usize = 16;

    /// Whether so many rows of a table of `schema` can be packed, if their texts are short.
    pub fn takes(schema: &SchemaRef, rows: usize) -> bool {
        let bytes = rows * schema.fields().len() * size_of::<Packed>();
        rows <= Self::ROWS_MAX && bytes <= FewRows::BYTES_MAX && Tail::takes(schema)
    }

    /// `rows` of the segment `before`, of a table of `schema` that [is taken](Self::takes), with other values in the
    /// columns that `new` has some for, which are of the columns' types. None where values of the other columns are not in
    /// memory, or where there are too many or too long ones.
    #[must_use]
    pub fn updated(
        schema: &SchemaRef,
        (before, rows): (&Segment, &[u32]),
        new: &[Option<ArrayRef>],
    ) -> Option<Self> {
        let are_kept = new.iter().map(Option::is_none).collect();
        let mut contents = Contents::new(schema, are_kept, rows.len());
        for (column, new) in new.iter().enumerate() {
            if let Some(new) = new {
                (0..rows.len()).try_for_each(|row| contents.push(OneValue::in_array(new, row)))?;
            } else {
                contents.push_of(before, column, rows.iter().map(|row| *row as usize))?;
            }
        }
        Some(Self(Arc::new(contents)))
    }

    /// The values of `columns` in these rows of segments, which are to be of `schema`, that [is taken](Self::takes). None as for
    /// [`Self::updated`].
    #[must_use]
    pub fn read_of<'a>(
        schema: &SchemaRef,
        rows: impl ExactSizeIterator<Item = (&'a Segment, usize)> + Clone,
        columns: &[usize],
    ) -> Option<Self> {
        let mut contents = Contents::new(schema, Vec::new(), rows.len());
        for column in columns {
            let mut rows = rows.clone();
            rows.try_for_each(|(segment, row)| contents.push_of(segment, *column, once(row)))?;
        }
        Some(Self(Arc::new(contents)))
    }

    /// A row with these values, one for each column of `schema`, which [is taken](Self::takes), and of its type. None
    /// where they are too long.
    #[must_use]
    pub fn one<'a>(schema: &SchemaRef, values: impl Iterator<Item = OneValue<'a>>) -> Option<Self> {
        let mut contents = Contents::new(schema, Vec::new(), 1);
        values
            .map(|value| contents.push(value))
            .collect::<Option<()>>()?;
        debug_assert_eq!(contents.values.len(), schema.fields().len());
        Some(Self(Arc::new(contents)))
    }

    /// Whether they have the values of before in a column.
    pub fn keeps(&self, column: usize) -> bool {
        self.0.are_kept.get(column) == Some(&true)
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.0.bytes() as u64
    }

    /// The values of a column for some of them.
    pub fn read(&self, column: usize, rows: RowSet<'_>) -> ArrayRef {
        let kind = self.0.schema.field(column).data_type();
        let value = |at| self.value(column, rows.row(at));
        array_of((0..rows.len()).map(value), kind)
    }

    /// Their columns.
    pub fn segments(&self) -> impl Iterator<Item = ColumnSegment> + '_ {
        self.arrays().map(|values| heap_column(&values))
    }

    /// Their columns' names and types.
    pub fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }

    /// The same as arrays.
    ///
    /// # Errors
    /// Nulls in a column that has none by the schema.
    pub fn batch(&self) -> Result<RecordBatch, ArrowError> {
        let rows = RecordBatchOptions::new().with_row_count(Some(self.0.rows));
        let schema = Arc::clone(&self.0.schema);
        RecordBatch::try_new_with_options(schema, self.arrays().collect(), &rows)
    }

    /// The values of all columns.
    pub fn arrays(&self) -> impl Iterator<Item = ArrayRef> + '_ {
        let (start, len) = (0, self.0.rows);
        (0..self.0.schema.fields().len())
            .map(move |column| self.read(column, RowSet::Run { start, len }))
    }
}

impl Contents {
    /// Room for so many `rows`.
    fn new(schema: &SchemaRef, are_kept: Vec<bool>, rows: usize) -> Self {
        Self {
            schema: Arc::clone(schema),
            values: Vec::with_capacity(schema.fields().len() * rows),
            are_kept,
            rows,
            texts: Vec::new(),
        }
    }

    /// Adds a value. None where they take too much memory with it.
    fn push(&mut self, value: OneValue<'_>) -> Option<()> {
        self.values.push(match value {
            OneValue::Null => Packed::Null,
            OneValue::Fixed(bits) => Packed::Fixed(bits),
            OneValue::Bytes(text) => {
                let start = self.texts.len();
                if self.bytes() + text.len() > FewRows::BYTES_MAX {
                    return None;
                }
                self.texts.extend_from_slice(text);
                Packed::Bytes(start..self.texts.len())
            }
        });
        Some(())
    }

    /// Adds the values of some rows of a segment. None too where they are not in memory.
    fn push_of(
        &mut self,
        segment: &Segment,
        column: usize,
        mut rows: impl Iterator<Item = usize>,
    ) -> Option<()> {
        if let Some(written) = segment.written() {
            return rows.try_for_each(|row| self.push(written.value(column, row)));
        }
        let values = segment.columns()[column].in_memory()?;
        rows.try_for_each(|row| self.push(values.value(row)))
    }

    fn bytes(&self) -> usize {
        self.values.len() * size_of::<Packed>() + self.texts.len()
    }
}

impl RowValues for PackedRows {
    fn rows(&self) -> usize {
        self.0.rows
    }

    fn value(&self, column: usize, row: usize) -> OneValue<'_> {
        match &self.0.values[column * self.0.rows + row] {
            Packed::Null => OneValue::Null,
            Packed::Fixed(bits) => OneValue::Fixed(*bits),
            Packed::Bytes(range) => OneValue::Bytes(&self.0.texts[range.clone()]),
        }
    }
}
