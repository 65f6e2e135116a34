//! Rows as the bytes of columns, in parts.

use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use arrow::row::{RowConverter, SortField};

/// Rows of a part, the last of which may have fewer. All columns of a part that a scan needs are near together.
pub(super) const PART_ROWS: usize = 65_536;
/// Parts of a column begin with a block that has a checksum of its own.
const PART_ALIGN: usize = 4096;

/// Gathers batches to parts.
#[derive(Default)]
pub(super) struct Parts {
    pending: Vec<RecordBatch>,
    rows: usize,
}

impl Parts {
    /// The parts that are full with `batch`: each some batches with [`PART_ROWS`] rows together.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Vec<Vec<RecordBatch>> {
        let mut full = Vec::new();
        let mut begin = 0;
        while begin < batch.num_rows() {
            let taken = (PART_ROWS - self.rows).min(batch.num_rows() - begin);
            self.pending.push(batch.slice(begin, taken));
            self.rows += taken;
            begin += taken;
            if self.rows == PART_ROWS {
                full.push(std::mem::take(self).pending);
            }
        }
        full
    }

    /// The last part, if there are rows left.
    pub(super) fn finish(self) -> Option<Vec<RecordBatch>> {
        (self.rows > 0).then_some(self.pending)
    }
}

/// A column: for each part, where its bytes are, as a stream of Arrow's format with this column alone.
#[derive(Default)]
pub(super) struct EncodedColumn {
    pub(super) bytes: Vec<u8>,
    pub(super) parts: Vec<Range<usize>>,
}

impl EncodedColumn {
    /// Adds a part: its values in this column of some batches.
    pub(super) fn push(
        &mut self,
        field: &FieldRef,
        part: &[RecordBatch],
        column: usize,
    ) -> Result<(), ArrowError> {
        let own = Arc::new(Schema::new(vec![Arc::clone(field)]));
        let values: Vec<&dyn Array> = part
            .iter()
            .map(|batch| batch.column(column).as_ref())
            .collect();
        let values = compact(concat(&values)?);
        let begin = self.bytes.len().next_multiple_of(PART_ALIGN);
        self.bytes.resize(begin, 0);
        let batch = RecordBatch::try_new(Arc::clone(&own), vec![values])?;
        let mut writer = StreamWriter::try_new(&mut self.bytes, &own)?;
        writer.write(&batch)?;
        writer.finish()?;
        drop(writer);
        self.parts.push(begin..self.bytes.len());
        Ok(())
    }
}

/// Views without the bytes that none of them sees.
fn compact(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        _ => values,
    }
}

/// The column of these bytes.
pub(super) fn decoded(mut bytes: Buffer) -> Result<Option<ArrayRef>, ArrowError> {
    let mut decoder = StreamDecoder::new();
    while !bytes.is_empty() {
        if let Some(batch) = decoder.decode(&mut bytes)? {
            return Ok(batch.columns().first().cloned());
        }
    }
    Ok(None)
}

/// The batch with the columns of `schema`, cast to its types.
pub(super) fn stored(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let fields = schema.fields().iter();
    let columns = batch.columns().iter().zip(fields);
    let columns = columns.map(
        |(values, field)| match values.data_type() == field.data_type() {
            true => Ok(Arc::clone(values)),
            false => cast(values, field.data_type()),
        },
    );
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, _>>()?)
}

/// What rows are known again by, in whatever order they come: how many they are, and the sum of their hashes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Digest {
    pub(super) rows: u64,
    sum: u64,
}

/// Makes a [`Digest`].
pub(super) struct Digester {
    converter: RowConverter,
    digest: Digest,
}

impl Digester {
    /// Of rows of this schema.
    pub(super) fn new(schema: &Schema) -> Result<Self, ArrowError> {
        let fields = schema.fields().iter();
        let fields = fields.map(|field| SortField::new(field.data_type().clone()));
        Ok(Self {
            converter: RowConverter::new(fields.collect())?,
            digest: Digest::default(),
        })
    }

    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.digest.rows += batch.num_rows() as u64;
        let rows = self.converter.convert_columns(batch.columns())?;
        for row in &rows {
            let mut hasher = DefaultHasher::new();
            hasher.write(row.as_ref());
            self.digest.sum = self.digest.sum.wrapping_add(hasher.finish());
        }
        Ok(())
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    fn batch(rows: Range<i64>) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone()));
        let texts = rows.map(|row| (row % 3 != 0).then(|| format!("a text of the row {row}")));
        let texts: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
        RecordBatch::try_from_iter_with_nullable([("n", numbers, false), ("t", texts, true)])
            .unwrap()
    }

    #[test]
    fn parts_have_the_same_rows_however_batches_are_cut() {
        let sizes = |cuts: &[i64]| -> Vec<usize> {
            let mut parts = Parts::default();
            let cut = cuts.windows(2).map(|cut| batch(cut[0]..cut[1]));
            let mut all: Vec<_> = cut.flat_map(|batch| parts.push(&batch)).collect();
            all.extend(parts.finish());
            let rows = |part: &Vec<RecordBatch>| part.iter().map(RecordBatch::num_rows).sum();
            all.iter().map(rows).collect()
        };
        let expected = vec![PART_ROWS, PART_ROWS, 18_928];
        assert_eq!(sizes(&[0, 150_000]), expected);
        assert_eq!(sizes(&[0, 1, 65_536, 65_537, 140_000, 150_000]), expected);
        assert_eq!(sizes(&[0, 65_536]), vec![PART_ROWS]);
        assert!(sizes(&[0]).is_empty());
    }

    #[test]
    fn parts_of_columns_are_read_as_they_were_written() {
        let rows = batch(0..1000);
        let mut encoded = EncodedColumn::default();
        let field = Arc::new(rows.schema().field(1).clone());
        let part = [rows.slice(0, 10), rows.slice(10, 20)];
        encoded.push(&field, &part, 1).unwrap();
        encoded.push(&field, &[rows.slice(900, 100)], 1).unwrap();
        let read = |part: usize| {
            let bytes = encoded.bytes[encoded.parts[part].clone()].to_vec();
            decoded(Buffer::from_vec(bytes)).unwrap().unwrap()
        };
        assert_eq!(&read(0), &rows.slice(0, 30).column(1).clone());
        assert_eq!(&read(1), &rows.slice(900, 100).column(1).clone());
        assert!(encoded.parts[1].start.is_multiple_of(PART_ALIGN));
        let all_bytes = encoded.bytes.len();
        assert!(all_bytes < 12_000, "{all_bytes}: texts of other rows");
        assert!(
            decoded(Buffer::from_vec(Vec::<u8>::new()))
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn digests_know_rows_in_any_order_and_no_others() {
        let digest = |batches: &[RecordBatch]| {
            let mut digester = Digester::new(&batches[0].schema()).unwrap();
            for batch in batches {
                digester.push(batch).unwrap();
            }
            digester.digest()
        };
        let whole = digest(&[batch(0..100)]);
        assert_eq!(whole, digest(&[batch(60..100), batch(0..60)]));
        assert_eq!(whole.rows, 100);
        assert_ne!(whole, digest(&[batch(1..101)]));
        assert_ne!(whole, digest(&[batch(0..99)]));
        // A row that is there twice, instead of another one.
        assert_ne!(whole, digest(&[batch(0..99), batch(0..1)]));
    }
}
