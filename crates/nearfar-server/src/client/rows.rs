//! Rows as clients read them: batches of Arrow as rows of PostgreSQL's types.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Schema};
use arrow_pg::encoder::encode_value;
use bytes::{Bytes, BytesMut};
use nearfar_sql::columns::is_vector;
use nearfar_sql::values::text::texts;
use nearfar_sql::values::{Declared, is_json};
use pgwire::api::Type;
use pgwire::api::results::{DataRowEncoder, FieldFormat, FieldInfo};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};

use super::arrays::{array_texts, vector_texts};
use super::failure::{Failure, state};
use super::numeric::Numeric;
use crate::columns::{info, is_nested_list, sent_as};

/// The columns of a result: what a client is told of them, and as what they are sent.
#[derive(Debug, Clone)]
pub struct Columns {
    fields: Arc<Vec<FieldInfo>>,
    /// As they are encoded, which is not always as they come.
    sent: Arc<[FieldRef]>,
    /// The message that describes them, once it was sent.
    described: Arc<OnceLock<Bytes>>,
}

impl Columns {
    /// The columns of `schema`, written as `formats` say: none for text, one for all, or one each.
    ///
    /// # Errors
    /// A type that no client could read; formats for other columns.
    pub fn new(schema: &Schema, formats: &[i16]) -> Result<Self, Failure> {
        let fields = schema.fields();
        if formats.len() > 1 && formats.len() != fields.len() {
            let (given, wanted) = (formats.len(), fields.len());
            let message = format!("{given} formats are given for {wanted} columns");
            return Err(Failure::new(state::PROTOCOL_VIOLATION, message));
        }
        let format = |at: usize| match formats {
            [] => FieldFormat::Text,
            [all] => FieldFormat::from(*all),
            each => FieldFormat::from(each[at]),
        };
        let mut infos = Vec::with_capacity(fields.len());
        let mut sent = Vec::with_capacity(fields.len());
        for (at, field) in fields.iter().enumerate() {
            let field = match is_vector(field) && format(at) == FieldFormat::Binary {
                // In this form it is an array like others.
                true => Arc::clone(field),
                false => sent_as(field)?,
            };
            infos.push(info(&field, format(at))?);
            sent.push(field);
        }
        Ok(Self {
            fields: Arc::new(infos),
            sent: sent.into(),
            described: Arc::default(),
        })
    }

    /// What describes them to the client.
    pub fn description(&self) -> PgWireBackendMessage {
        let fields = self.fields.iter().map(FieldDescription::from).collect();
        PgWireBackendMessage::RowDescription(RowDescription::new(fields))
    }

    /// The bytes of that, which are made once.
    ///
    /// # Errors
    /// A message that is longer than the protocol allows.
    pub fn described(&self) -> std::io::Result<&Bytes> {
        if let Some(bytes) = self.described.get() {
            return Ok(bytes);
        }
        let mut bytes = BytesMut::new();
        self.description().encode(&mut bytes)?;
        Ok(self.described.get_or_init(|| bytes.freeze()))
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.fields.len()
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(FieldInfo::name)
    }

    /// Whether others look the same to a client.
    pub fn are_like(&self, other: &Self) -> bool {
        let (own, others) = (self.fields.iter(), other.fields.iter());
        own.map(FieldInfo::datatype)
            .eq(others.map(FieldInfo::datatype))
    }

    /// What clients know of them.
    pub fn infos(&self) -> impl Iterator<Item = &FieldInfo> {
        self.fields.iter()
    }

    /// The rows of a batch.
    ///
    /// # Errors
    /// A value that can't be sent as its column is.
    pub fn rows(&self, batch: &RecordBatch) -> Result<Rows, Failure> {
        let columns = batch.columns().iter().zip(self.sent.iter());
        let arrays = columns.map(
            |(array, field)| match array.data_type() == field.data_type() {
                true => Ok(Arc::clone(array)),
                false if is_vector(field) => Ok(vector_texts(array)),
                false if is_nested_list(array.data_type()) => Ok(array_texts(array)),
                false => cast(array, field.data_type()),
            },
        );
        let arrays: Result<Vec<ArrayRef>, _> = arrays.collect();
        let arrays =
            arrays.map_err(|error| Failure::new(state::DATA_EXCEPTION, error.to_string()))?;
        let columns = arrays
            .into_iter()
            .zip(self.sent.iter())
            .zip(self.fields.iter());
        let arrays = columns.map(|((array, field), info)| match info.format() {
            FieldFormat::Text => match texts(&array) {
                Some(texts) => Arc::new(texts),
                None => padded(array, field),
            },
            FieldFormat::Binary => padded(array, field),
        });
        Ok(Rows {
            arrays: arrays.collect(),
            count: batch.num_rows(),
            at: 0,
            columns: self.clone(),
            encoder: DataRowEncoder::new(Arc::clone(&self.fields)),
        })
    }
}

/// The rows of one batch.
pub struct Rows {
    arrays: Vec<ArrayRef>,
    count: usize,
    at: usize,
    columns: Columns,
    encoder: DataRowEncoder,
}

impl Rows {
    /// The next row.
    ///
    /// # Errors
    /// A value that its type in PostgreSQL can't hold.
    pub fn next_row(&mut self) -> Option<Result<DataRow, Failure>> {
        if self.at == self.count {
            return None;
        }
        for (index, array) in self.arrays.iter().enumerate() {
            let (field, info) = (&self.columns.sent[index], &self.columns.fields[index]);
            let encoded = match array.data_type() {
                // Of intervals, the crate that writes the others does not ask.
                _ if array.is_null(self.at) => {
                    let (kind, options) = (&Type::TEXT, info.format_options());
                    let format = FieldFormat::Text;
                    self.encoder.encode_field_with_type_and_format(
                        &None::<&str>,
                        kind,
                        format,
                        options,
                    )
                }
                DataType::Decimal128(_, scale) => {
                    let values = array.as_primitive::<Decimal128Type>();
                    let value = values.is_valid(self.at).then(|| Numeric {
                        value: values.value(self.at),
                        scale: *scale,
                    });
                    let (kind, options) = (info.datatype(), info.format_options());
                    self.encoder.encode_field_with_type_and_format(
                        &value,
                        kind,
                        info.format(),
                        options,
                    )
                }
                // In PostgreSQL's form already.
                DataType::Utf8
                    if *field.data_type() != DataType::Utf8
                        || is_vector(field)
                        || is_json(field) =>
                {
                    let values = array.as_string::<i32>();
                    let value = values.is_valid(self.at).then(|| values.value(self.at));
                    let (kind, options) = (&Type::TEXT, info.format_options());
                    let format = FieldFormat::Text;
                    self.encoder
                        .encode_field_with_type_and_format(&value, kind, format, options)
                }
                _ => encode_value(&mut self.encoder, array, self.at, field, info),
            };
            if let Err(error) = encoded {
                return Some(Err(Failure::new(state::DATA_EXCEPTION, error.to_string())));
            }
        }
        self.at += 1;
        Some(Ok(self.encoder.take_row()))
    }
}

/// Texts with the spaces that their column was declared with.
fn padded(array: ArrayRef, field: &Field) -> ArrayRef {
    let Some(declared @ Declared::Char(_)) = Declared::of(field) else {
        return array;
    };
    match array.as_string_view_opt() {
        Some(texts) => {
            let texts = texts
                .iter()
                .map(|text| text.map(|text| declared.padded(text)));
            Arc::new(texts.collect::<StringViewArray>())
        }
        None => array,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, DictionaryArray, Int8Array, NullArray};
    use arrow::datatypes::Int8Type;

    fn texts(batch: &RecordBatch) -> Vec<BytesMut> {
        let columns = Columns::new(&batch.schema(), &[]).expect("columns");
        let mut rows = columns.rows(batch).expect("rows");
        let mut found = Vec::new();
        while let Some(row) = rows.next_row() {
            found.push(row.expect("a row").data);
        }
        found
    }

    #[test]
    fn types_that_the_protocol_lacks_are_sent_as_the_next() {
        let words: DictionaryArray<Int8Type> = ["a", "b"].into_iter().collect();
        let batch = RecordBatch::try_from_iter([
            (
                "i",
                Arc::new(Int8Array::from(vec![Some(-1), None])) as ArrayRef,
            ),
            ("n", Arc::new(NullArray::new(2))),
            ("d", Arc::new(words)),
        ]);
        let rows = texts(&batch.expect("a batch"));
        assert_eq!(&rows[0][..], b"\0\0\0\x02-1\xff\xff\xff\xff\0\0\0\x01a");
        assert_eq!(&rows[1][..], b"\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x01b");
    }

    #[test]
    fn the_longest_decimals_are_sent() {
        let most = 10_i128.pow(38) - 1;
        let values = Decimal128Array::from(vec![most, -most, 5]);
        let values = values.with_precision_and_scale(38, 10).expect("in range");
        let batch = RecordBatch::try_from_iter([("d", Arc::new(values) as ArrayRef)]);
        let rows = texts(&batch.expect("a batch"));
        assert_eq!(&rows[0][4..], b"9999999999999999999999999999.9999999999");
        assert_eq!(&rows[1][4..5], b"-");
        assert_eq!(&rows[2][4..], b"0.0000000005");
    }
}
