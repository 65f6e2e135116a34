//! What a client sends as text, as batches.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch, StringArray, StringBuilder};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;
use arrow_pg::datatypes::into_pg_type;
use bytes::{Buf, BytesMut};
use nearfar_sql::sql::CopyOptions;

use super::split::{Scanner, values};
use crate::client::failure::{Failure, state};
use crate::client::values::unhex;

/// Rows of a batch.
pub const BATCH_ROWS: usize = 8 << 10;
/// Bytes of values after which a batch is made of fewer.
pub const BATCH_BYTES: usize = 4 << 20;
/// The end of what is copied, which clients of old send.
const END: &[u8] = b"\\.";
/// Characters of a wrong value that are told.
const TOLD_CHARS_MAX: usize = 60;

/// Reads the bytes of a `COPY … FROM STDIN` as batches of rows.
pub struct TextDecoder {
    table: String,
    schema: SchemaRef,
    options: CopyOptions,
    record_bytes_max: usize,
    /// What has come of records that are not read yet.
    buffer: BytesMut,
    scanner: Scanner,
    /// The line that the next record begins at, from 1.
    line: u64,
    is_header_next: bool,
    is_ended: bool,
    rows: Rows,
}

/// Rows that are no batch yet.
#[derive(Default)]
struct Rows {
    columns: Vec<StringBuilder>,
    /// The line of each.
    lines: Vec<u64>,
    bytes: usize,
}

impl TextDecoder {
    /// A reader of rows with the columns of `schema`, for errors about `table`. No record may be
    /// longer than `record_bytes_max`.
    ///
    /// # Errors
    /// A column whose type is not read from text.
    pub fn new(
        table: String,
        schema: SchemaRef,
        options: CopyOptions,
        record_bytes_max: usize,
    ) -> Result<Self, Failure> {
        let unreadable = |field: &&Arc<Field>| {
            field.data_type().is_nested() || !can_cast_types(&DataType::Utf8, field.data_type())
        };
        if let Some(field) = schema.fields().iter().find(unreadable) {
            let (name, kind) = (field.name(), field.data_type());
            let message = format!(
                "column `{name}` of table `{table}` has type {kind}, which COPY can't read"
            );
            return Err(Failure::new(state::FEATURE_NOT_SUPPORTED, message));
        }
        let columns = schema.fields().iter().map(|_| StringBuilder::new());
        let rows = Rows {
            columns: columns.collect(),
            ..Rows::default()
        };
        Ok(Self {
            is_header_next: options.header,
            table,
            schema,
            options,
            record_bytes_max,
            buffer: BytesMut::new(),
            scanner: Scanner::default(),
            line: 1,
            is_ended: false,
            rows,
        })
    }

    /// Takes bytes and gives the batches that are full.
    ///
    /// # Errors
    /// A record that is none of the table's; the message names its line.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<RecordBatch>, Failure> {
        let mut full = Vec::new();
        if self.is_ended {
            return Ok(full);
        }
        self.buffer.extend_from_slice(bytes);
        while let Some(end) = self.scanner.end(&self.buffer, &self.options) {
            let record = self.buffer.split_to(end);
            let record = record.strip_suffix(b"\n").unwrap_or(&record);
            self.take(record.strip_suffix(b"\r").unwrap_or(record))?;
            if self.is_ended {
                self.buffer.clear();
                return Ok(full);
            }
            if self.rows.lines.len() == BATCH_ROWS || self.rows.bytes >= BATCH_BYTES {
                full.push(self.batch()?);
            }
        }
        if self.buffer.len() > self.record_bytes_max {
            let message = format!("the row is longer than {} bytes", self.record_bytes_max);
            return Err(self.refuse(state::PROGRAM_LIMIT_EXCEEDED, self.line, &message));
        }
        Ok(full)
    }

    /// The rows that are left, if there are some.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(&mut self) -> Result<Option<RecordBatch>, Failure> {
        if self.scanner.is_quoted() {
            let message = "a quote is not closed";
            return Err(self.refuse(state::BAD_COPY_FORMAT, self.line, message));
        }
        if self.buffer.has_remaining() {
            let record = self.buffer.split();
            self.take(record.strip_suffix(b"\r").unwrap_or(&record))?;
        }
        match self.rows.lines.is_empty() {
            true => Ok(None),
            false => self.batch().map(Some),
        }
    }

    fn take(&mut self, record: &[u8]) -> Result<(), Failure> {
        let line = self.line;
        self.line += std::mem::take(&mut self.scanner).lines;
        if std::mem::take(&mut self.is_header_next) {
            return Ok(());
        }
        if record == END {
            self.is_ended = true;
            return Ok(());
        }
        let fields = self.schema.fields();
        let rows = &mut self.rows;
        let mut at = 0;
        let cut = values(record, &self.options, |value| {
            let column = rows.columns.get_mut(at).ok_or_else(|| {
                (
                    state::BAD_COPY_FORMAT,
                    "extra data after last expected column".to_owned(),
                )
            })?;
            match value {
                None if !fields[at].is_nullable() => {
                    let message = format!("column `{}` does not allow nulls", fields[at].name());
                    return Err((state::NOT_NULL_VIOLATION, message));
                }
                None => column.append_null(),
                Some(bytes) => column.append_value(text(bytes)?),
            }
            rows.bytes += value.map_or(0, <[u8]>::len);
            at += 1;
            Ok(())
        });
        let missing = |at: usize| {
            let message = format!("missing data for column \"{}\"", fields[at].name());
            (state::BAD_COPY_FORMAT, message)
        };
        let cut = match cut {
            Ok(()) if at < fields.len() => Err(missing(at)),
            cut => cut,
        };
        self.rows.lines.push(line);
        cut.map_err(|(code, message)| self.refuse(code, line, &message))
    }

    fn refuse(&self, code: &'static str, line: u64, message: &str) -> Failure {
        Failure::new(code, format!("COPY {}, line {line}: {message}", self.table))
    }

    /// A batch of the rows so far.
    fn batch(&mut self) -> Result<RecordBatch, Failure> {
        let lines = std::mem::take(&mut self.rows.lines);
        self.rows.bytes = 0;
        let mut arrays = Vec::with_capacity(self.rows.columns.len());
        for at in 0..self.rows.columns.len() {
            let texts = self.rows.columns[at].finish();
            let wanted = self.schema.field(at).data_type();
            let array = typed(&texts, wanted).map_err(|_| self.wrong_value(at, &texts, &lines))?;
            arrays.push(array);
        }
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
            .map_err(|error| Failure::new(state::INTERNAL_ERROR, error.to_string()))
    }

    /// The first of `texts` that is no value of its column.
    fn wrong_value(&self, column: usize, texts: &StringArray, lines: &[u64]) -> Failure {
        let field = self.schema.field(column);
        let found = lines.iter().enumerate().find_map(|(row, line)| {
            let error = typed(&texts.slice(row, 1), field.data_type()).err()?;
            Some((texts.value(row), *line, error))
        });
        let Some((value, line, error)) = found else {
            let message = format!("column `{}` can't be read", field.name());
            return Failure::new(state::INTERNAL_ERROR, message);
        };
        let told: String = value.chars().take(TOLD_CHARS_MAX).collect();
        let kind = into_pg_type(field.data_type());
        let kind = kind.map_or_else(
            |_| field.data_type().to_string(),
            |kind| kind.name().to_owned(),
        );
        let message = format!(
            "column `{}`: \"{told}\" is no value of type {kind} ({error})",
            field.name()
        );
        self.refuse(state::INVALID_TEXT_REPRESENTATION, line, &message)
    }
}

fn text(bytes: &[u8]) -> Result<&str, (&'static str, String)> {
    let wrong = |why: &str| (state::UNTRANSLATABLE_TEXT, why.to_owned());
    if bytes.contains(&0) {
        return Err(wrong("invalid byte sequence for encoding \"UTF8\": 0x00"));
    }
    std::str::from_utf8(bytes).map_err(|_| wrong("invalid byte sequence for encoding \"UTF8\""))
}

/// Texts as values of a type.
fn typed(texts: &StringArray, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe: false,
        format_options: FormatOptions::default(),
    };
    let is_binary = |kind: &DataType| {
        matches!(
            kind,
            DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_)
        )
    };
    if !is_binary(wanted) {
        return cast_with_options(texts, wanted, &options);
    }
    let bytes = texts.iter().map(
        |text| match text.map(|text| (text, text.strip_prefix("\\x"))) {
            None => Ok(None),
            Some((_, Some(digits))) => unhex(digits)
                .map(Some)
                .ok_or_else(|| ArrowError::CastError("use \\x and pairs of digits".to_owned())),
            Some((plain, None)) => Ok(Some(plain.as_bytes().to_vec())),
        },
    );
    let bytes: Vec<Option<Vec<u8>>> = bytes.collect::<Result<_, _>>()?;
    let bytes = BinaryArray::from_iter(bytes);
    cast_with_options(&bytes, wanted, &options)
}

#[cfg(test)]
mod tests {
    use super::super::split::tests::{csv, text};
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Int64Type, Schema};
    use proptest::prelude::*;

    fn decoder(options: CopyOptions) -> TextDecoder {
        let fields = vec![
            Field::new("a", DataType::Int64, false),
            Field::new("b", DataType::Utf8View, true),
        ];
        let schema = Arc::new(Schema::new(fields));
        TextDecoder::new("t".to_owned(), schema, options, 1 << 20).expect("readable")
    }

    fn rows(
        decoder: &mut TextDecoder,
        bytes: &[u8],
    ) -> Result<Vec<(i64, Option<String>)>, Failure> {
        let mut batches = decoder.push(bytes)?;
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
    fn rows_of_both_formats_are_read() {
        let expected = vec![(1, Some("x\ty".to_owned())), (-2, None)];
        let read = rows(&mut decoder(text()), b"1\tx\\ty\r\n-2\t\\N\n\\.\nignored");
        assert_eq!(read, Ok(expected.clone()));
        let with_header = CopyOptions {
            header: true,
            ..csv()
        };
        let read = rows(&mut decoder(with_header), b"a,b\n1,\"x\ty\"\n-2,");
        assert_eq!(read, Ok(expected));
        assert_eq!(rows(&mut decoder(text()), b""), Ok(Vec::new()));
    }

    #[test]
    fn errors_name_their_line() {
        for (options, bytes, code, said) in [
            (
                text(),
                &b"1\tx\n2\n"[..],
                "22P04",
                "line 2: missing data for column \"b\"",
            ),
            (text(), b"1\tx\n2\ty\tz\n", "22P04", "line 2: extra data"),
            (text(), b"1\tx\n\\N\ty\n", "23502", "line 2: column `a`"),
            (
                csv(),
                b"1,\"x\n\"\nz,y\n",
                "22P02",
                "line 3: column `a`: \"z\" is no value of type int8",
            ),
            (csv(), b"1,\"x\n", "22P04", "line 1: a quote is not closed"),
            (
                text(),
                b"1\t\xff\n",
                "22021",
                "line 1: invalid byte sequence",
            ),
        ] {
            let failure = rows(&mut decoder(options), bytes).expect_err("wrong");
            assert_eq!(failure.code, code, "{failure:?}");
            assert!(failure.message.contains(said), "{failure:?}");
        }
    }

    #[test]
    fn a_record_without_end_is_refused() {
        let mut decoder = decoder(text());
        let refused = (0..100).find_map(|_| decoder.push(&[b'x'; 64 << 10]).err());
        assert_eq!(refused.map(|failure| failure.code), Some("54000"));
        assert!(decoder.buffer.len() <= 2 << 20);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            pieces in prop::collection::vec(
                prop::collection::vec(prop::sample::select(b"1a\n\r\\\",\t.N\xff\0".to_vec()), 0..40), 0..6),
            is_csv: bool,
        ) {
            let mut decoder = decoder(if is_csv { csv() } else { text() });
            let read = pieces.iter().try_for_each(|piece| decoder.push(piece).map(drop));
            let _ = read.and_then(|()| decoder.finish().map(drop));
        }
    }
}
