//! Rows of integers, texts and decimals, written as messages where they lie.
//!
//! Most statements that read a row by its key give nothing else, and what writes rows of any type
//! ([`Rows`](super::rows::Rows)) takes longer than they do.

use std::io;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Int16Type, Int32Type, Int64Type};
use bytes::{BufMut, BytesMut};
use pgwire::api::Type;
use pgwire::api::results::{FieldFormat, FieldInfo};
use tokio::io::AsyncWrite;

use super::numeric::Numeric;
use crate::wire::Writer;

/// The first byte of a row.
const DATA_ROW: u8 = b'D';

/// How the values of a column are written.
#[derive(Debug, Clone, Copy)]
enum Form {
    Integers,
    IntegerTexts,
    Texts,
    Decimals(i8),
    DecimalTexts(i8),
}

impl Form {
    /// None for other types than those of this module.
    fn of(array: &ArrayRef, info: &FieldInfo) -> Option<Self> {
        let is_text = info.format() == FieldFormat::Text;
        let kind = info.datatype();
        match array.data_type() {
            DataType::Int16 if *kind == Type::INT2 => Some(Self::of_integers(is_text)),
            DataType::Int32 if *kind == Type::INT4 => Some(Self::of_integers(is_text)),
            DataType::Int64 if *kind == Type::INT8 => Some(Self::of_integers(is_text)),
            DataType::Utf8View if [Type::TEXT, Type::VARCHAR].contains(kind) => Some(Self::Texts),
            DataType::Decimal128(_, scale) if *kind == Type::NUMERIC => Some(match is_text {
                true => Self::DecimalTexts(*scale),
                false => Self::Decimals(*scale),
            }),
            _ => None,
        }
    }

    fn of_integers(is_text: bool) -> Self {
        match is_text {
            true => Self::IntegerTexts,
            false => Self::Integers,
        }
    }

    /// Writes a value that is not null.
    fn write(self, array: &ArrayRef, row: usize, out: &mut BytesMut) {
        match self {
            Self::Integers => match array.data_type() {
                DataType::Int16 => out.put_i16(array.as_primitive::<Int16Type>().value(row)),
                DataType::Int32 => out.put_i32(array.as_primitive::<Int32Type>().value(row)),
                _ => out.put_i64(array.as_primitive::<Int64Type>().value(row)),
            },
            Self::IntegerTexts => {
                let value = match array.data_type() {
                    DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
                    DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
                    _ => i128::from(array.as_primitive::<Int64Type>().value(row)),
                };
                Numeric { value, scale: 0 }.write_text(out);
            }
            Self::Texts => out.put_slice(array.as_string_view().value(row).as_bytes()),
            Self::Decimals(scale) | Self::DecimalTexts(scale) => {
                let value = array.as_primitive::<Decimal128Type>().value(row);
                let numeric = Numeric { value, scale };
                match self {
                    Self::Decimals(_) => numeric.write_binary(out),
                    _ => numeric.write_text(out),
                }
            }
        }
    }
}

/// Adds the rows of `batch`, whose columns clients know as `fields`. False where a column is of another type than those of this
/// module, and nothing is added.
///
/// # Errors
/// A row that is longer than the protocol allows.
pub fn add_rows<'a, W: AsyncWrite + Unpin>(
    writer: &mut Writer<W>,
    batch: &RecordBatch,
    fields: impl Iterator<Item = &'a FieldInfo>,
) -> io::Result<bool> {
    let columns = batch.columns().iter().zip(fields);
    let columns = columns.map(|(array, info)| Some((array, Form::of(array, info)?)));
    let Some(columns) = columns.collect::<Option<Vec<(&ArrayRef, Form)>>>() else {
        return Ok(false);
    };
    for row in 0..batch.num_rows() {
        writer.add_message(DATA_ROW, |out| {
            out.put_i16(columns.len() as i16);
            for (array, form) in &columns {
                if array.is_null(row) {
                    out.put_i32(-1);
                    continue;
                }
                let start = out.len();
                out.put_i32(0);
                form.write(array, row, out);
                let bytes = (out.len() - start - size_of::<i32>()) as i32;
                out[start..][..size_of::<i32>()].copy_from_slice(&bytes.to_be_bytes());
            }
        })?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::rows::Columns;
    use arrow::array::{
        BooleanArray, Decimal128Array, Int16Array, Int32Array, Int64Array, StringViewArray,
    };
    use pgwire::messages::PgWireBackendMessage;
    use proptest::prelude::*;
    use std::sync::Arc;

    type Row = (
        Option<i16>,
        Option<i32>,
        Option<i64>,
        Option<String>,
        Option<i64>,
    );

    fn batch(rows: &[Row]) -> RecordBatch {
        let decimals: Decimal128Array = rows.iter().map(|row| row.4.map(i128::from)).collect();
        let decimals = decimals.with_precision_and_scale(30, 3).expect("in range");
        let texts = rows.iter().map(|row| row.3.as_deref());
        let columns: [ArrayRef; 5] = [
            Arc::new(rows.iter().map(|row| row.0).collect::<Int16Array>()),
            Arc::new(rows.iter().map(|row| row.1).collect::<Int32Array>()),
            Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
            Arc::new(texts.collect::<StringViewArray>()),
            Arc::new(decimals),
        ];
        let names = ["a", "b", "c", "d", "e"];
        let columns = names
            .into_iter()
            .zip(columns)
            .map(|(name, column)| (name, column, true));
        RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
    }

    /// What is sent of a batch, by this module and by what writes rows of any type.
    fn written(batch: &RecordBatch, formats: &[i16]) -> (Option<BytesMut>, BytesMut) {
        let columns = Columns::new(&batch.schema(), formats).expect("columns");
        let mut writer = Writer::new(tokio::io::sink());
        let is_written = add_rows(&mut writer, batch, columns.infos()).expect("short rows");
        let direct = is_written.then(|| writer.added().clone());
        let mut all = Writer::new(tokio::io::sink());
        let mut rows = columns.rows(batch).expect("rows");
        while let Some(row) = rows.next_row() {
            let row = PgWireBackendMessage::DataRow(row.expect("a row"));
            all.add(&row).expect("a short row");
        }
        (direct, all.added().clone())
    }

    proptest! {
        #[test]
        fn rows_are_those_that_are_written_otherwise(
            rows in prop::collection::vec(any::<Row>(), 0..5),
            formats in prop::collection::vec(0..2_i16, 5),
        ) {
            let (direct, all) = written(&batch(&rows), &formats);
            prop_assert_eq!(direct, Some(all));
        }
    }

    #[test]
    fn other_types_are_left_to_others() {
        let values: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
        let batch = RecordBatch::try_from_iter([("b", values)]).expect("a batch");
        let (direct, all) = written(&batch, &[]);
        assert!(direct.is_none() && !all.is_empty());
    }
}
