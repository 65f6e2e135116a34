//! Rows of a table as bytes: the Arrow buffers of each column, without their slack.

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BufferSpec, MutableArrayData, RecordBatch,
    RecordBatchOptions, layout, make_array,
};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use std::sync::Arc;

use crate::error::DurableError;
use crate::manifest::{Decoder, Encoder, ManifestError};
use nearfar_table::error::TableError;

/// More rows are in no record.
const ROWS_MAX: usize = 1 << 20;

/// Appends the rows of `batch`. The types are not kept: they are those of the table.
pub(super) fn write_rows(out: &mut Encoder, batch: &RecordBatch) -> Result<(), DurableError> {
    out.count(batch.num_rows());
    batch
        .columns()
        .iter()
        .try_for_each(|column| write_array(out, &compact(column)?))
}

/// `array` in buffers that hold nothing else, from their first bit on.
fn compact(array: &ArrayRef) -> Result<ArrayData, DurableError> {
    let data = match array.data_type() {
        DataType::Utf8View => return Ok(array.as_string_view().gc().into_data()),
        DataType::BinaryView => return Ok(array.as_binary_view().gc().into_data()),
        _ => array.to_data(),
    };
    if let (0, Some(width), [values]) = (
        data.offset(),
        data.data_type().primitive_width(),
        data.buffers(),
    ) && values.len() == width * data.len()
    {
        return Ok(data);
    }
    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
    copy.try_extend(0, 0, data.len())?;
    Ok(copy.freeze())
}

fn write_array(out: &mut Encoder, data: &ArrayData) -> Result<(), DurableError> {
    if data.offset() != 0 {
        return Err(TableError::Internal {
            message: "an array that was copied begins behind its buffers' start".to_owned(),
        }
        .into());
    }
    out.count(data.len());
    out.flag(data.nulls().is_some());
    if let Some(nulls) = data.nulls() {
        out.bytes(&nulls.inner().sliced());
    }
    out.count(data.buffers().len());
    data.buffers().iter().for_each(|buffer| out.bytes(buffer));
    data.child_data()
        .iter()
        .try_for_each(|child| write_array(out, child))
}

/// Rows of `schema`.
///
/// # Errors
/// Bytes that are no rows of these types.
pub(super) fn read_rows(bytes: &[u8], schema: &SchemaRef) -> Result<RecordBatch, ManifestError> {
    let mut input = Decoder::new(bytes);
    let rows = input.count("a number of rows")?;
    if rows > ROWS_MAX {
        return Err(ManifestError::Invalid {
            what: "a number of rows",
        });
    }
    let columns = schema.fields().iter().map(|field| {
        let array = make_array(read_array(&mut input, field.data_type())?);
        match array.len() == rows {
            true => Ok(array),
            false => Err(ManifestError::Invalid {
                what: "a column of so many rows",
            }),
        }
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    input.finish("the end of the rows")?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
    batch.map_err(|_| ManifestError::Invalid {
        what: "rows of the table's types",
    })
}

fn read_array(input: &mut Decoder<'_>, data_type: &DataType) -> Result<ArrayData, ManifestError> {
    let len = input.count("a number of values")?;
    // Values of no width, such as those of the null type, have no buffers that would bound them.
    if len > i32::MAX as usize {
        return Err(ManifestError::Invalid {
            what: "a number of values",
        });
    }
    let nulls = match input.flag("whether there are nulls")? {
        true => {
            let bits = input.bytes("nulls")?;
            if bits.len() < len.div_ceil(8) {
                return Err(ManifestError::Invalid {
                    what: "nulls of all values",
                });
            }
            Some(Buffer::from(bits))
        }
        false => None,
    };
    let buffers = input.list("buffers", |input| {
        Ok(Buffer::from(input.bytes("a buffer")?))
    })?;
    check_widths(data_type, &buffers)?;
    let children = child_types(data_type)
        .iter()
        .map(|child| read_array(input, child))
        .collect::<Result<Vec<_>, _>>()?;
    let data = ArrayData::builder(data_type.clone())
        .len(len)
        .null_bit_buffer(nulls)
        .buffers(buffers)
        .child_data(children)
        .build();
    data.map_err(|_| ManifestError::Invalid {
        what: "values of the column's type",
    })
}

/// Refuses buffers that end within a value: Arrow takes for granted that none does.
fn check_widths(data_type: &DataType, buffers: &[Buffer]) -> Result<(), ManifestError> {
    let ends_within = |(buffer, spec): (&Buffer, &BufferSpec)| match spec {
        BufferSpec::FixedWidth { byte_width, .. } => {
            buffer.len().checked_rem(*byte_width) > Some(0)
        }
        _ => false,
    };
    match buffers
        .iter()
        .zip(&layout(data_type).buffers)
        .any(ends_within)
    {
        true => Err(ManifestError::Invalid {
            what: "a buffer of whole values",
        }),
        false => Ok(()),
    }
}

fn child_types(data_type: &DataType) -> Vec<DataType> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field.data_type().clone()],
        DataType::Struct(fields) => fields.iter().map(|f| f.data_type().clone()).collect(),
        _ => Vec::new(),
    }
}
