//! The size of batches.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};

/// Bytes of the values of a batch: of buffers that it shares with other batches, only what is its
/// own.
pub fn batch_bytes(batch: &RecordBatch) -> u64 {
    batch
        .columns()
        .iter()
        .map(|column| array_bytes(column.as_ref()))
        .sum()
}

fn array_bytes(array: &dyn Array) -> u64 {
    /// Bytes of the view of a text.
    const VIEW_BYTES: usize = 16;
    let width = match array.data_type() {
        DataType::Utf8View | DataType::BinaryView => Some(VIEW_BYTES),
        other => other.primitive_width(),
    };
    let own = match width {
        Some(width) => array.len() * width + array.nulls().map_or(0, |_| array.len().div_ceil(8)),
        None => {
            let own = array.to_data().get_slice_memory_size();
            own.unwrap_or_else(|_| array.get_buffer_memory_size())
        }
    } as u64;
    own + match array.data_type() {
        DataType::Utf8View => viewed_bytes::<StringViewType>(array),
        DataType::BinaryView => viewed_bytes::<BinaryViewType>(array),
        _ => 0,
    }
}

/// Bytes that the views of an array point to.
fn viewed_bytes<T: ByteViewType>(array: &dyn Array) -> u64 {
    /// Shorter values lie in the view itself.
    const INLINE_BYTES: u64 = 12;
    let lengths = array
        .as_byte_view::<T>()
        .views()
        .iter()
        .map(|view| u64::from(*view as u32));
    lengths.filter(|length| *length > INLINE_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use std::sync::Arc;

    #[test]
    fn slices_count_what_is_theirs() {
        let long = "a string that does not fit the view";
        let texts =
            StringViewArray::from_iter_values((0..100).map(|i| if i < 10 { long } else { "" }));
        let columns: [(&str, ArrayRef); 2] = [
            ("a", Arc::new(Int64Array::from_iter_values(0..100))),
            ("b", Arc::new(texts)),
        ];
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        assert_eq!(
            batch_bytes(&batch.slice(0, 10)),
            10 * (8 + 16 + long.len() as u64)
        );
        assert_eq!(batch_bytes(&batch.slice(50, 10)), 10 * (8 + 16));
    }
}
