//! The binary form of rows (PostgreSQL, "COPY", Binary Format).
//!
//! ```text
//!  PGCOPY\n\xff\r\n\0 | flags: u32 | bytes of an extension: u32, and these
//!  columns: u16 | length: i32, value | length: i32, value | …               for each row
//!  -1: i16
//! ```
//!
//! A length of -1 is a null. What a client says of lengths is not believed: nothing is set aside for a value
//! before its bytes have come.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use datafusion::scalar::ScalarValue;
use pgwire::messages::data::DataRow;

use super::read::{BATCH_BYTES, BATCH_ROWS};
use crate::client::arrays::element_of;
use crate::client::failure::{Failure, state};
use crate::client::values::Parameter;
use crate::columns::{described, is_nested_list};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// The signature, flags, and the length of the extension.
const HEADER_BYTES: usize = SIGNATURE.len() + 8;
/// Flags whose meaning a reader has to know.
const CRITICAL_FLAGS: u32 = 0xffff_0000;
/// The number of columns that no row has.
const END: i16 = -1;
const NULL: i32 = -1;

/// What comes before the rows.
pub fn header() -> Bytes {
    let mut header = BytesMut::with_capacity(HEADER_BYTES);
    header.put_slice(SIGNATURE);
    header.put_u64(0);
    header.freeze()
}

/// A row, of values in binary form, which results have in the same way.
pub fn row(row: &DataRow) -> Bytes {
    let mut bytes = BytesMut::with_capacity(2 + row.data.len());
    bytes.put_i16(row.field_count);
    bytes.put_slice(&row.data);
    bytes.freeze()
}

/// What comes behind the rows.
pub fn trailer() -> Bytes {
    const TRAILER: [u8; 2] = END.to_be_bytes();
    Bytes::from_static(&TRAILER)
}

/// What comes next of what a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Header,
    /// So many bytes of an extension that are passed over.
    Extension(u32),
    Row,
    /// The value of this column.
    Value(usize),
    /// Nothing.
    End,
}

/// Reads the bytes of a `COPY … FROM STDIN` in binary form as batches of rows.
pub struct BinaryDecoder {
    table: String,
    schema: SchemaRef,
    /// What the values of the columns are.
    columns: Vec<Parameter>,
    value_bytes_max: usize,
    /// What has come and is not read yet.
    buffer: BytesMut,
    next: Next,
    /// The row that is read, from 1.
    row: u64,
    /// The values of rows that are no batch yet, column by column.
    values: Vec<Vec<ScalarValue>>,
    /// Their bytes.
    bytes: usize,
}

impl BinaryDecoder {
    /// A reader of rows with the columns of `schema`, for errors about `table`. No value may be longer than
    /// `value_bytes_max`.
    ///
    /// # Errors
    /// A column whose values are not read in this form, such as arrays of arrays, and a table without columns.
    pub fn new(table: String, schema: SchemaRef, value_bytes_max: usize) -> Result<Self, Failure> {
        let cannot = |what: String| {
            let message =
                format!("COPY {table}: {what} can't be read in binary form: use the text format");
            Failure::new(state::FEATURE_NOT_SUPPORTED, message)
        };
        if schema.fields().is_empty() {
            return Err(cannot("rows without columns".to_owned()));
        }
        let columns = schema.fields().iter().map(|field| {
            let info = described(field)?;
            let kind = field.data_type();
            let is_array = element_of(info.datatype()).is_some() && !is_nested_list(kind);
            if kind.is_nested() && !is_array {
                return Err(cannot(format!("column `{}`", field.name())));
            }
            Ok(Parameter::of_column(info.datatype(), field.data_type()))
        });
        let columns: Vec<Parameter> = columns.collect::<Result<_, Failure>>()?;
        Ok(Self {
            values: columns.iter().map(|_| Vec::new()).collect(),
            table,
            schema,
            columns,
            value_bytes_max,
            buffer: BytesMut::new(),
            next: Next::Header,
            row: 0,
            bytes: 0,
        })
    }

    /// Takes bytes and gives the batches that are full.
    ///
    /// # Errors
    /// A row that is none of the table's; the message names it.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<RecordBatch>, Failure> {
        self.buffer.extend_from_slice(bytes);
        let mut full = Vec::new();
        while self.step()? {
            let is_full = self.rows() >= BATCH_ROWS || self.bytes >= BATCH_BYTES;
            if self.next == Next::Row && is_full {
                full.push(self.batch()?);
            }
        }
        Ok(full)
    }

    /// The rows that are left, if there are some.
    ///
    /// # Errors
    /// What ends within a row or before the first.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>, Failure> {
        // The protocol's own end is enough.
        let is_whole = matches!(self.next, Next::Row | Next::End) && self.buffer.is_empty();
        if !is_whole {
            let message = match self.next {
                Next::Header => "the signature and header are not whole",
                _ => "unexpected end of the data",
            };
            return Err(self.refuse(state::BAD_COPY_FORMAT, message));
        }
        match self.rows() {
            0 => Ok(None),
            _ => self.batch().map(Some),
        }
    }

    fn rows(&self) -> usize {
        self.values.last().map_or(0, Vec::len)
    }

    /// Reads what comes next, if it is there; whether it was.
    fn step(&mut self) -> Result<bool, Failure> {
        match self.next {
            Next::Header => self.read_header(),
            Next::Extension(left) => {
                let passed = self.buffer.len().min(left as usize);
                self.buffer.advance(passed);
                let left = left - passed as u32;
                self.next = if left > 0 {
                    Next::Extension(left)
                } else {
                    Next::Row
                };
                Ok(left == 0)
            }
            Next::Row => self.begin_row(),
            Next::Value(column) => self.read_value(column),
            Next::End if self.buffer.is_empty() => Ok(false),
            Next::End => Err(self.refuse(state::BAD_COPY_FORMAT, "data behind the end marker")),
        }
    }

    fn read_header(&mut self) -> Result<bool, Failure> {
        let begin = self.buffer.len().min(SIGNATURE.len());
        if self.buffer[..begin] != SIGNATURE[..begin] {
            let message = "the signature of binary data is missing";
            return Err(self.refuse(state::BAD_COPY_FORMAT, message));
        }
        if self.buffer.len() < HEADER_BYTES {
            return Ok(false);
        }
        self.buffer.advance(SIGNATURE.len());
        let flags = self.buffer.get_u32();
        if flags & CRITICAL_FLAGS != 0 {
            let message = format!("the header has unknown flags ({flags:#x})");
            return Err(self.refuse(state::BAD_COPY_FORMAT, &message));
        }
        let extension = self.buffer.get_i32();
        let Ok(extension) = u32::try_from(extension) else {
            let message = format!("the header's extension has {extension} bytes");
            return Err(self.refuse(state::BAD_COPY_FORMAT, &message));
        };
        self.next = Next::Extension(extension);
        Ok(true)
    }

    fn begin_row(&mut self) -> Result<bool, Failure> {
        if self.buffer.len() < size_of::<i16>() {
            return Ok(false);
        }
        let (count, expected) = (self.buffer.get_i16(), self.columns.len());
        if count == END {
            self.next = Next::End;
            return Ok(true);
        }
        self.row += 1;
        if usize::try_from(count) != Ok(expected) {
            let message = format!("it has {count} values where {expected} are expected");
            return Err(self.refuse(state::BAD_COPY_FORMAT, &message));
        }
        self.next = Next::Value(0);
        Ok(true)
    }

    fn read_value(&mut self, column: usize) -> Result<bool, Failure> {
        let Some(mut length) = self.buffer.get(..size_of::<i32>()) else {
            return Ok(false);
        };
        let length = length.get_i32();
        let value = match usize::try_from(length) {
            Ok(length) if length > self.value_bytes_max => {
                let message = format!("a value is longer than {} bytes", self.value_bytes_max);
                return Err(self.refuse(state::PROGRAM_LIMIT_EXCEEDED, &message));
            }
            Ok(length) if self.buffer.len() < size_of::<i32>() + length => return Ok(false),
            Ok(length) => {
                self.buffer.advance(size_of::<i32>());
                Some(self.buffer.split_to(length).freeze())
            }
            Err(_) if length == NULL => {
                self.buffer.advance(size_of::<i32>());
                None
            }
            Err(_) => {
                let message = format!("a value has {length} bytes");
                return Err(self.refuse(state::BAD_COPY_FORMAT, &message));
            }
        };
        let value = self.value(column, value.as_ref())?;
        self.values[column].push(value);
        self.next = match column + 1 < self.columns.len() {
            true => Next::Value(column + 1),
            false => Next::Row,
        };
        Ok(true)
    }

    /// A value of a column.
    fn value(&mut self, column: usize, bytes: Option<&Bytes>) -> Result<ScalarValue, Failure> {
        let (field, parameter) = (self.schema.field(column), &self.columns[column]);
        if bytes.is_none() && !field.is_nullable() {
            let message = format!("column `{}` does not allow nulls", field.name());
            return Err(self.refuse(state::NOT_NULL_VIOLATION, &message));
        }
        let value = parameter.read(bytes, false).map_err(|failure| {
            let message = format!("column `{}`: {}", field.name(), failure.message);
            self.refuse(failure.code, &message)
        })?;
        // Nulls take memory, too.
        self.bytes += size_of::<ScalarValue>() + bytes.map_or(0, Bytes::len);
        Ok(value)
    }

    fn refuse(&self, code: &'static str, message: &str) -> Failure {
        let table = &self.table;
        Failure::new(
            code,
            match self.row {
                0 => format!("COPY {table}: {message}"),
                row => format!("COPY {table}, row {row}: {message}"),
            },
        )
    }

    /// A batch of the rows so far.
    fn batch(&mut self) -> Result<RecordBatch, Failure> {
        self.bytes = 0;
        let columns = self.values.iter_mut().map(std::mem::take);
        let arrays = columns.map(ScalarValue::iter_to_array);
        let arrays = arrays.collect::<Result<Vec<ArrayRef>, _>>();
        let internal = |error: String| Failure::new(state::INTERNAL_ERROR, error);
        let arrays = arrays.map_err(|error| internal(error.to_string()))?;
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
            .map_err(|error| internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use proptest::prelude::*;

    fn decoder() -> BinaryDecoder {
        let fields = vec![
            Field::new("a", DataType::Int64, false),
            Field::new("b", DataType::Utf8View, true),
        ];
        let schema = Arc::new(Schema::new(fields));
        BinaryDecoder::new("t".to_owned(), schema, 1 << 20).expect("readable")
    }

    fn row_of(a: i64, b: Option<&str>) -> Vec<u8> {
        let mut row = vec![0, 2, 0, 0, 0, 8];
        row.extend(a.to_be_bytes());
        match b {
            Some(b) => {
                row.extend((b.len() as u32).to_be_bytes());
                row.extend(b.as_bytes());
            }
            None => row.extend(NULL.to_be_bytes()),
        }
        row
    }

    fn rows(pieces: &[&[u8]]) -> Result<Vec<(i64, Option<String>)>, Failure> {
        let mut decoder = decoder();
        let mut batches = Vec::new();
        for piece in pieces {
            batches.extend(decoder.push(piece)?);
        }
        batches.extend(decoder.finish()?);
        let mut rows = Vec::new();
        for batch in batches {
            let numbers = batch.column(0).as_primitive::<Int64Type>();
            let texts = batch.column(1).as_string_view();
            for row in 0..batch.num_rows() {
                let value = texts.is_valid(row).then(|| texts.value(row).to_owned());
                rows.push((numbers.value(row), value));
            }
        }
        Ok(rows)
    }

    #[test]
    fn rows_are_read_in_pieces_of_any_size() {
        let mut header = header().to_vec();
        // An extension that nobody knows.
        header[SIGNATURE.len() + 7] = 3;
        header.extend(b"abc");
        let data = [
            header,
            row_of(1, Some("é")),
            row_of(-2, None),
            trailer().to_vec(),
        ]
        .concat();
        let expected = vec![(1, Some("é".to_owned())), (-2, None)];
        for size in 1..data.len() {
            let pieces: Vec<&[u8]> = data.chunks(size).collect();
            assert_eq!(rows(&pieces), Ok(expected.clone()), "{size}");
        }
        let without_trailer = &data[..data.len() - 2];
        assert_eq!(rows(&[without_trailer]), Ok(expected));
        assert_eq!(rows(&[&header_only(), &trailer()]), Ok(Vec::new()));
    }

    fn header_only() -> Vec<u8> {
        header().to_vec()
    }

    #[test]
    fn what_is_cut_off_or_wrong_is_refused() {
        let whole = [header_only(), row_of(1, Some("abc"))].concat();
        for length in 0..whole.len() {
            let refused = rows(&[&whole[..length]]);
            match length == HEADER_BYTES {
                true => assert_eq!(refused, Ok(Vec::new())),
                false => assert_eq!(refused.expect_err("cut off").code, "22P04", "{length}"),
            }
        }
        let with = |bytes: &[u8]| [&header_only()[..], bytes].concat();
        let value = |length: i32| [&[0, 2][..], &length.to_be_bytes()].concat();
        let mut flags = header_only();
        flags[SIGNATURE.len()] = 1;
        let mut extension = header_only();
        extension[SIGNATURE.len() + 4] = 0xff;
        for (data, code, said) in [
            (b"1\tx\n".to_vec(), "22P04", "signature"),
            (flags, "22P04", "unknown flags (0x1000000)"),
            (extension, "22P04", "extension has -16777216 bytes"),
            (
                with(&[0, 3]),
                "22P04",
                "row 1: it has 3 values where 2 are expected",
            ),
            (with(&[0xff, 0xfe]), "22P04", "it has -2 values"),
            (with(&value(-2)), "22P04", "a value has -2 bytes"),
            (
                with(&value(i32::MIN)),
                "22P04",
                "a value has -2147483648 bytes",
            ),
            (with(&value(i32::MAX)), "54000", "longer than 1048576 bytes"),
            (
                with(&value(NULL)),
                "23502",
                "column `a` does not allow nulls",
            ),
            (
                with(&[&value(3)[..], b"abc"].concat()),
                "22P03",
                "column `a`",
            ),
            (with(&row_of(1, Some("a\0"))), "22021", "0x00"),
            (with(b"\xff\xff1"), "22P04", "behind the end marker"),
        ] {
            let failure = rows(&[&data]).expect_err(said);
            assert_eq!(failure.code, code, "{failure:?}");
            assert!(failure.message.contains(said), "{failure:?}");
        }
    }

    #[test]
    fn many_rows_are_several_batches() {
        let count = BATCH_ROWS as i64 + 5;
        let data: Vec<u8> = (0..count).flat_map(|row| row_of(row, None)).collect();
        let data = [header_only(), data].concat();
        assert_eq!(decoder().push(&data).map(|full| full.len()), Ok(1));
        assert_eq!(rows(&[&data]).map(|rows| rows.len()), Ok(count as usize));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
        ) {
            let mut decoder = decoder();
            decoder.push(&header()).expect("a header");
            let read = pieces.iter().try_for_each(|piece| decoder.push(piece).map(drop));
            let _ = read.and_then(|()| decoder.finish().map(drop));
        }
    }
}
