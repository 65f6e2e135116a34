//! The form that a `COPY` asks for.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use nearfar_sql::sql::{CopyFormat, CopyOptions};
use pgwire::messages::data::DataRow;

use super::binary::{self, BinaryDecoder};
use super::read::TextDecoder;
use super::write::TextEncoder;
use crate::client::failure::Failure;
use crate::client::statement::TEXT;

/// The format of values that are binary.
const BINARY: i16 = 1;

/// As what all values of a `COPY` are announced.
fn wire_format(format: CopyFormat) -> i16 {
    match format {
        CopyFormat::Text | CopyFormat::Csv => TEXT,
        CopyFormat::Binary => BINARY,
    }
}

/// Reads the bytes of a `COPY … FROM STDIN` as batches of rows.
pub enum Decoder {
    /// Of text or CSV.
    Text(Box<TextDecoder>),
    /// Of the binary form.
    Binary(Box<BinaryDecoder>),
}

impl Decoder {
    /// A reader of rows with the columns of `schema`, for errors about `table`. No record, and in binary form no
    /// value, may be longer than `bytes_max`.
    ///
    /// # Errors
    /// A column whose type is not read in this form.
    pub fn new(
        table: String,
        schema: SchemaRef,
        options: CopyOptions,
        bytes_max: usize,
    ) -> Result<Self, Failure> {
        Ok(match options.format {
            CopyFormat::Text | CopyFormat::Csv => Self::Text(Box::new(TextDecoder::new(
                table, schema, options, bytes_max,
            )?)),
            CopyFormat::Binary => {
                Self::Binary(Box::new(BinaryDecoder::new(table, schema, bytes_max)?))
            }
        })
    }

    /// As what the values are announced.
    pub fn wire_format(&self) -> i16 {
        match self {
            Self::Text(_) => TEXT,
            Self::Binary(_) => BINARY,
        }
    }

    /// Takes bytes and gives the batches that are full.
    ///
    /// # Errors
    /// A record that is none of the table's; the message names its line or row.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<RecordBatch>, Failure> {
        match self {
            Self::Text(decoder) => decoder.push(bytes),
            Self::Binary(decoder) => decoder.push(bytes),
        }
    }

    /// The rows that are left, if there are some.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(&mut self) -> Result<Option<RecordBatch>, Failure> {
        match self {
            Self::Text(decoder) => decoder.finish(),
            Self::Binary(decoder) => decoder.finish(),
        }
    }
}

/// Writes rows of a `COPY … TO STDOUT`.
#[derive(Debug, Clone)]
pub struct Encoder {
    text: TextEncoder,
    format: CopyFormat,
}

impl Encoder {
    /// A writer of rows in the form of `options`.
    pub fn new(options: CopyOptions) -> Self {
        Self {
            format: options.format,
            text: TextEncoder::new(options),
        }
    }

    /// The form of the values that [`Self::row`] takes, as what they are announced too.
    pub fn wire_format(&self) -> i16 {
        wire_format(self.format)
    }

    /// What comes before the rows, if that is a row of its own.
    pub fn header<'a>(&self, names: impl Iterator<Item = &'a str>) -> Option<Bytes> {
        match self.format {
            CopyFormat::Text | CopyFormat::Csv => self.text.header(names),
            CopyFormat::Binary => None,
        }
    }

    /// What is sent first, a row or the end: the header of the binary form is in one message with it, as PostgreSQL
    /// sends it and some drivers expect.
    pub fn first(&self, bytes: Bytes) -> Bytes {
        match self.format {
            CopyFormat::Text | CopyFormat::Csv => bytes,
            CopyFormat::Binary => [binary::header(), bytes].concat().into(),
        }
    }

    /// A row.
    pub fn row(&self, row: &DataRow) -> Bytes {
        match self.format {
            CopyFormat::Text | CopyFormat::Csv => self.text.row(row),
            CopyFormat::Binary => binary::row(row),
        }
    }

    /// What comes behind the rows, if anything does.
    pub fn trailer(&self) -> Option<Bytes> {
        (self.format == CopyFormat::Binary).then(binary::trailer)
    }
}
