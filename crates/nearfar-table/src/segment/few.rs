//! The few rows of one statement, as the arrays that they were made as.
//!
//! They lie in the process's heap, and no budget is asked for them: a commit writes them behind others
//! ([`Tail`](super::Tail)), or puts them together with others, before there are many such parts.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use std::sync::Arc;

use super::column::{ColumnSegment, Encoding};
use super::memory::SegmentMemory;
use super::rows::RowSet;
use super::value::OneValue;
use super::zones::Zones;

/// The few rows of one statement. Cloned cheaply; never changed.
#[derive(Debug, Clone)]
pub struct FewRows {
    columns: Vec<ArrayRef>,
    bytes: usize,
}

impl FewRows {
    /// Bytes of memory that they keep at most.
    pub const BYTES_MAX: usize = 16 << 10;

    /// Rows of these values, of types that a [tail takes](super::Tail::takes). None where their arrays keep more than
    /// [`Self::BYTES_MAX`], also where they share it with others; texts are copied where they do.
    pub fn of(columns: &[ArrayRef]) -> Option<Self> {
        let columns: Vec<ArrayRef> = columns.iter().map(with_own_texts).collect();
        let sizes = columns.iter().map(|column| column.get_buffer_memory_size());
        let bytes = sizes.sum();
        let is_taken = bytes <= Self::BYTES_MAX && columns.iter().all(starts_at_a_byte);
        is_taken.then_some(Self { columns, bytes })
    }

    /// The values, column by column.
    pub fn arrays(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// Bytes that they keep.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The values of a column for some of them.
    ///
    /// # Errors
    /// Rows that there are not.
    pub fn read(&self, column: usize, rows: RowSet<'_>) -> Result<ArrayRef, ArrowError> {
        let values = &self.columns[column];
        match rows {
            RowSet::Run { start, len } => Ok(values.slice(start, len)),
            RowSet::Positions([row]) => Ok(values.slice(*row as usize, 1)),
            RowSet::Positions(rows) => {
                let rows = UInt32Array::from_iter_values(rows.iter().copied());
                take(values, &rows, None)
            }
        }
    }

    /// The value of a column in one of them.
    pub fn value(&self, column: usize, row: usize) -> OneValue<'_> {
        OneValue::in_array(&self.columns[column], row)
    }

    /// Their columns.
    pub fn segments(&self) -> impl Iterator<Item = ColumnSegment> + '_ {
        self.columns.iter().map(heap_column)
    }
}

/// Values in the process's heap as a column.
pub(crate) fn heap_column(values: &ArrayRef) -> ColumnSegment {
    let first = values.to_data().buffers().first().cloned();
    let memory = SegmentMemory::Heap(first.unwrap_or_default());
    let beside = values.get_buffer_memory_size().saturating_sub(memory.len());
    let (nulls, values) = (values.nulls().cloned(), Arc::clone(values));
    let column = ColumnSegment::new(memory, Encoding::Plain { values }, nulls, Zones::default());
    column.with_bytes_beside(beside)
}

/// Buffers of texts are made with so much room, or more, by whoever does not know how long the texts become.
const ROOMY_BYTES: usize = 1 << 10;

/// The same values, with memory for nothing but these where they are texts.
fn with_own_texts(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        _ if values.get_buffer_memory_size() < ROOMY_BYTES => Arc::clone(values),
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        _ => Arc::clone(values),
    }
}

/// Whether the bits of an array begin with a byte of their own, as whoever reads buffers expects.
fn starts_at_a_byte(values: &ArrayRef) -> bool {
    let bits = match values.data_type() {
        DataType::Boolean => values.as_boolean().values().offset(),
        _ => 0,
    };
    bits == 0 && values.nulls().is_none_or(|nulls| nulls.offset() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Int64Array, StringViewArray};

    #[test]
    fn rows_are_read_as_they_were_made() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![
            "a",
            "longer than a view holds",
            "",
        ]));
        let rows = FewRows::of(&[numbers.clone(), texts.clone()]).expect("few");
        for (column, values) in [numbers, texts].iter().enumerate() {
            let read = |wanted| rows.read(column, wanted).expect("rows that there are");
            let all = read(RowSet::Run { start: 0, len: 3 });
            assert_eq!(&all, values);
            let second = read(RowSet::Positions(&[1]));
            assert_eq!(&second, &values.slice(1, 1));
            let picked = read(RowSet::Positions(&[2, 0]));
            assert_eq!(&picked.slice(0, 1), &values.slice(2, 1));
            assert_eq!(&picked.slice(1, 1), &values.slice(0, 1));
        }
        let bytes: usize = rows.segments().map(|column| column.bytes()).sum();
        assert_eq!(bytes as u64, rows.bytes());
    }

    #[test]
    fn arrays_that_keep_much_memory_are_not_taken() {
        let many: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
        assert!(FewRows::of(&[many.slice(0, 1)]).is_none());
        let bits: ArrayRef = Arc::new(BooleanArray::from(vec![true; 20]));
        assert!(FewRows::of(&[bits.slice(3, 2)]).is_none());
        assert!(FewRows::of(&[bits.slice(0, 2)]).is_some());
        let long = "a text that no view has room for";
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![long; 1000]));
        let own = FewRows::of(&[texts.slice(7, 2)]).expect("copied");
        assert!(own.bytes() < 1000);
        assert_eq!(own.arrays()[0].as_string_view().value(1), long);
        assert!(FewRows::of(&[texts]).is_none());
    }
}
