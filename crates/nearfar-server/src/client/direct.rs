//! Rows of integers, texts and decimals, written as messages where they lie.
//!
//! Most statements that read a row by its key give nothing else, and what writes rows of any type
//! ([`Rows`](super::rows::Rows)) takes longer than they do.

use std::io;

use arrow::datatypes::DataType;
use bytes::{BufMut, BytesMut};
use nearfar_sql::engine::ReadyRows;
use nearfar_table::segment::OneValue;
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
    /// Integers of so many bytes.
    Integers {
        bytes: usize,
        is_text: bool,
    },
    /// Decimals with so many digits behind the point.
    Decimals {
        scale: i8,
        is_text: bool,
    },
    Texts,
}

impl Form {
    /// None for other types than those of this module.
    fn of(data_type: &DataType, info: &FieldInfo) -> Option<Self> {
        let is_text = info.format() == FieldFormat::Text;
        let kind = info.datatype();
        let integers = |bytes| Some(Self::Integers { bytes, is_text });
        match data_type {
            DataType::Int16 if *kind == Type::INT2 => integers(size_of::<i16>()),
            DataType::Int32 if *kind == Type::INT4 => integers(size_of::<i32>()),
            DataType::Int64 if *kind == Type::INT8 => integers(size_of::<i64>()),
            DataType::Utf8View if [Type::TEXT, Type::VARCHAR].contains(kind) => Some(Self::Texts),
            DataType::Decimal128(_, scale) if *kind == Type::NUMERIC => Some(Self::Decimals {
                scale: *scale,
                is_text,
            }),
            _ => None,
        }
    }

    /// Writes a value of its type that is not null.
    fn write(self, value: OneValue<'_>, out: &mut BytesMut) {
        let (numeric, is_text) = match (self, value) {
            (Self::Texts, OneValue::Bytes(text)) => return out.put_slice(text),
            (Self::Integers { bytes, is_text }, OneValue::Fixed(bits)) => {
                let above = i64::BITS - 8 * bytes as u32;
                let value = (bits as i64) << above >> above;
                if !is_text {
                    return out.put_int(value, bytes);
                }
                let value = value.into();
                (Numeric { value, scale: 0 }, true)
            }
            (Self::Decimals { scale, is_text }, OneValue::Fixed(bits)) => {
                let value = bits as i128;
                (Numeric { value, scale }, is_text)
            }
            _ => unreachable!("the value is of the form's type, and not null"),
        };
        match is_text {
            true => numeric.write_text(out),
            false => numeric.write_binary(out),
        }
    }
}

/// Adds `rows`, whose columns clients know as `fields`. False where a column is of another type than those of this
/// module, and nothing is added.
///
/// # Errors
/// A row that is longer than the protocol allows.
pub fn add_rows<'a, W: AsyncWrite + Unpin>(
    writer: &mut Writer<W>,
    rows: &ReadyRows,
    fields: impl Iterator<Item = &'a FieldInfo>,
) -> io::Result<bool> {
    let forms = rows.schema().fields().iter().zip(fields);
    let forms = forms.map(|(field, info)| Form::of(field.data_type(), info));
    let Some(forms) = forms.collect::<Option<Vec<Form>>>() else {
        return Ok(false);
    };
    for row in 0..rows.count() {
        writer.add_message(DATA_ROW, |out| {
            out.put_i16(forms.len() as i16);
            for (column, form) in forms.iter().enumerate() {
                let value = rows.value(column, row);
                if value == OneValue::Null {
                    out.put_i32(-1);
                    continue;
                }
                let start = out.len();
                out.put_i32(0);
                form.write(value, out);
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
        ArrayRef, BooleanArray, Decimal128Array, Int16Array, Int32Array, Int64Array, RecordBatch,
        StringViewArray,
    };
    use nearfar_table::table::PackedRows;
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
    fn written(rows: &ReadyRows, formats: &[i16]) -> (Option<BytesMut>, BytesMut) {
        let columns = Columns::new(rows.schema(), formats).expect("columns");
        let mut writer = Writer::new(tokio::io::sink());
        let is_written = add_rows(&mut writer, rows, columns.infos()).expect("short rows");
        let direct = is_written.then(|| writer.added().clone());
        let mut all = Writer::new(tokio::io::sink());
        let batch = rows.clone().into_batch().expect("arrays");
        let mut rows = columns.rows(&batch).expect("rows");
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
            let batch = batch(&rows);
            let (direct, all) = written(&batch.clone().into(), &formats);
            prop_assert_eq!(direct, Some(all));
            for row in 0..rows.len() {
                let values = batch.columns().iter();
                let values = values.map(|column| OneValue::in_array(column, row));
                let one = PackedRows::one(batch.schema_ref(), values).expect("a short row");
                let (direct, all) = written(&one.into(), &formats);
                prop_assert_eq!(direct, Some(all));
            }
        }
    }

    #[test]
    fn other_types_are_left_to_others() {
        let values: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
        let batch = RecordBatch::try_from_iter([("b", values)]).expect("a batch");
        let (direct, all) = written(&batch.into(), &[]);
        assert!(direct.is_none() && !all.is_empty());
    }
}
