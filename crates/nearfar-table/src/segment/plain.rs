//! Columns as Arrow holds them, with their buffers in a region.

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, MutableArrayData, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;
use std::ops::Range;
use std::sync::Arc;

use super::column::{ColumnSegment, Encoding};
use super::encode::Target;
use super::layout::Layout;
use super::memory::SegmentMemory;
use super::zones::Zones;
use crate::error::TableError;

/// The Arrow buffers as they are, every one of them copied into the region.
pub(super) fn encode_plain(
    arrays: &[ArrayRef],
    target: Target<'_>,
) -> Result<ColumnSegment, TableError> {
    let mut columns = encode_together(&[arrays.to_vec()], target)?;
    Ok(columns.remove(0))
}

/// Columns, each the arrays of one, plain and all in one region: what is soon to be encoded anew is
/// worth no region for every column.
///
/// # Errors
/// Whatever refuses the region: budget, a node without room, misplaced pages.
pub fn encode_together(
    columns: &[Vec<ArrayRef>],
    target: Target<'_>,
) -> Result<Vec<ColumnSegment>, TableError> {
    let all = columns
        .iter()
        .map(|arrays| Ok(gathered(arrays)?.to_data()))
        .collect::<Result<Vec<ArrayData>, TableError>>()?;
    let mut layout = Layout::default();
    for data in &all {
        visit_buffers(data, &mut |buffer| {
            layout.part(buffer.len());
        });
    }
    let region = target.memory(layout.bytes(), |bytes| {
        let mut layout = Layout::default();
        for data in &all {
            visit_buffers(data, &mut |buffer| {
                bytes[layout.part(buffer.len())].copy_from_slice(buffer);
            });
        }
    })?;
    let mut layout = Layout::default();
    all.iter()
        .map(|data| plain_column(data, &region, &mut layout))
        .collect()
}

/// The column of `data`, whose buffers lie in `region` where `layout` puts its next parts.
fn plain_column(
    data: &ArrayData,
    region: &SegmentMemory,
    layout: &mut Layout,
) -> Result<ColumnSegment, TableError> {
    let start = layout.bytes();
    let moved = map_buffers(data, &mut |buffer| region.buffer(layout.part(buffer.len())))?;
    let part: Range<usize> = start..layout.bytes();
    let values = make_array(moved);
    let nulls = values.logical_nulls();
    let column = ColumnSegment::new(
        region.clone(),
        Encoding::Plain { values },
        nulls,
        Zones::default(),
    );
    Ok(column.within(part))
}

/// All of `arrays` in one, with buffers that hold nothing else: those of slices and views may be far
/// larger, and shared.
fn gathered(arrays: &[ArrayRef]) -> Result<ArrayRef, TableError> {
    let refs: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    let all = match &refs[..] {
        [one] => {
            let data = one.to_data();
            let mut copy = MutableArrayData::new(vec![&data], false, data.len());
            copy.try_extend(0, 0, data.len())?;
            make_array(copy.freeze())
        }
        refs => arrow::compute::concat(refs)?,
    };
    Ok(match all.data_type() {
        DataType::Utf8View => Arc::new(all.as_string_view().gc()),
        DataType::BinaryView => Arc::new(all.as_binary_view().gc()),
        _ => all,
    })
}

fn visit_buffers(data: &ArrayData, visit: &mut impl FnMut(&Buffer)) {
    data.buffers().iter().for_each(&mut *visit);
    if let Some(nulls) = data.nulls() {
        visit(nulls.buffer());
    }
    for child in data.child_data() {
        visit_buffers(child, visit);
    }
}

/// `data` with every buffer replaced by what `map` makes of it, visited in the order of
/// [`visit_buffers`].
pub(super) fn map_buffers(
    data: &ArrayData,
    map: &mut impl FnMut(&Buffer) -> Buffer,
) -> Result<ArrayData, TableError> {
    let buffers = data.buffers().iter().map(&mut *map).collect();
    let nulls = data.nulls().map(|nulls| {
        let bits = BooleanBuffer::new(map(nulls.buffer()), nulls.offset(), nulls.len());
        NullBuffer::new(bits)
    });
    let children = data
        .child_data()
        .iter()
        .map(|child| map_buffers(child, map))
        .collect::<Result<_, _>>()?;
    Ok(ArrayData::builder(data.data_type().clone())
        .len(data.len())
        .offset(data.offset())
        .buffers(buffers)
        .nulls(nulls)
        .child_data(children)
        .build()?)
}

/// The types of an array's children, in the order in which Arrow keeps them.
pub(super) fn child_types(data_type: &DataType) -> Vec<DataType> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field.data_type().clone()],
        DataType::Struct(fields) => fields.iter().map(|f| f.data_type().clone()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, f)| f.data_type().clone()).collect(),
        DataType::Dictionary(_, values) => vec![values.as_ref().clone()],
        DataType::RunEndEncoded(ends, values) => {
            vec![ends.data_type().clone(), values.data_type().clone()]
        }
        _ => Vec::new(),
    }
}
