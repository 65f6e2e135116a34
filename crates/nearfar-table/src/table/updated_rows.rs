//! Rows of a statement that has given some of their columns new values.
//!
//! They are copied value by value, and not made into arrays that a commit writes behind others: a statement that changes
//! one of twenty columns of a row has little to do with the other ones.

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use std::ops::Range;
use std::sync::Arc;

use super::segment::Segment;
use crate::segment::{
    ColumnSegment, FewRows, OneValue, RowSet, RowValues, Tail, array_of, heap_column, value_in,
};

/// Few rows of which some columns have new values. Cloned cheaply; never changed.
#[derive(Debug, Clone)]
pub struct UpdatedRows(Arc<Contents>);

#[derive(Debug)]
struct Contents {
    schema: SchemaRef,
    /// Whether a column has new values.
    are_new: Vec<bool>,
    /// The values of the first column, then those of the next.
    values: Vec<Copied>,
    rows: usize,
    texts: Vec<u8>,
}

/// A value that was copied.
#[derive(Debug)]
enum Copied {
    Null,
    Fixed(u128),
    /// Where it is among the texts.
    Bytes(Range<usize>),
}

impl UpdatedRows {
    /// More rows than these are not copied value by value.
    pub const ROWS_MAX: usize = 16;

    /// Whether rows of a table of `schema` can be copied so.
    pub fn takes(schema: &SchemaRef) -> bool {
        Tail::takes(schema)
    }

    /// `rows` of the segment `before`, of a table of `schema` that [is taken](Self::takes), with other values in the
    /// columns that `new` has some for, which are of the columns' types. None where values of the other columns are not in
    /// memory, or where there are too many or too long ones.
    #[must_use]
    pub fn of(
        schema: &SchemaRef,
        (before, rows): (&Segment, &[u32]),
        new: &[Option<ArrayRef>],
    ) -> Option<Self> {
        if rows.len() > Self::ROWS_MAX {
            return None;
        }
        let mut contents = Contents {
            schema: Arc::clone(schema),
            are_new: new.iter().map(Option::is_some).collect(),
            values: Vec::with_capacity(new.len() * rows.len()),
            rows: rows.len(),
            texts: Vec::new(),
        };
        for (column, new) in new.iter().enumerate() {
            if let Some(new) = new {
                (0..rows.len()).for_each(|row| contents.push(value_in(new, row)));
            } else if let Some(written) = before.written() {
                let rows = rows.iter().map(|row| *row as usize);
                rows.for_each(|row| contents.push(written.value(column, row)));
            } else {
                let values = before.columns()[column].in_memory()?;
                let rows = rows.iter().map(|row| *row as usize);
                rows.for_each(|row| contents.push(values.value(row)));
            }
        }
        (contents.bytes() <= FewRows::BYTES_MAX).then(|| Self(Arc::new(contents)))
    }

    /// Whether they have the values of before in a column.
    pub fn keeps(&self, column: usize) -> bool {
        !self.0.are_new[column]
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

    /// The values of all columns.
    pub fn arrays(&self) -> impl Iterator<Item = ArrayRef> + '_ {
        let (start, len) = (0, self.0.rows);
        (0..self.0.are_new.len()).map(move |column| self.read(column, RowSet::Run { start, len }))
    }
}

impl Contents {
    fn push(&mut self, value: OneValue<'_>) {
        self.values.push(match value {
            OneValue::Null => Copied::Null,
            OneValue::Fixed(bits) => Copied::Fixed(bits),
            OneValue::Bytes(text) => {
                let start = self.texts.len();
                self.texts.extend_from_slice(text);
                Copied::Bytes(start..self.texts.len())
            }
        });
    }

    fn bytes(&self) -> usize {
        self.values.len() * size_of::<Copied>() + self.texts.len()
    }
}

impl RowValues for UpdatedRows {
    fn rows(&self) -> usize {
        self.0.rows
    }

    fn value(&self, column: usize, row: usize) -> OneValue<'_> {
        match &self.0.values[column * self.0.rows + row] {
            Copied::Null => OneValue::Null,
            Copied::Fixed(bits) => OneValue::Fixed(*bits),
            Copied::Bytes(range) => OneValue::Bytes(&self.0.texts[range.clone()]),
        }
    }
}
