//! Arrays from PostgreSQL's text and binary forms, and those of several dimensions as texts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::{Buf, Bytes};
use datafusion::scalar::ScalarValue;
use pgwire::api::Type;
use postgres_types::Kind;

/// The type of an array's elements.
pub fn element_of(kind: &Type) -> Option<Type> {
    match kind.kind() {
        Kind::Array(element) => Some(element.clone()),
        _ => None,
    }
}

/// The elements of an array of one dimension in its binary form (`array_send`): dimensions, whether there
/// are nulls, the type of the elements; of each dimension the length and where it begins; then each
/// element's length and bytes, with a length of -1 for null.
pub fn binary_elements(mut bytes: Bytes) -> Option<Vec<Option<Bytes>>> {
    if bytes.len() < 12 {
        return None;
    }
    let dimensions = bytes.get_i32();
    let _has_nulls = bytes.get_i32();
    let _element = bytes.get_u32();
    match dimensions {
        0 => return Some(Vec::new()),
        1 if bytes.len() >= 8 => {}
        _ => return None,
    }
    let count = usize::try_from(bytes.get_i32()).ok()?;
    let _begins_at = bytes.get_i32();
    // Each element has a length at least.
    if count > bytes.len() / 4 {
        return None;
    }
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        if bytes.len() < 4 {
            return None;
        }
        elements.push(match bytes.get_i32() {
            -1 => None,
            length => {
                let length = usize::try_from(length).ok()?;
                (length <= bytes.len())
                    .then(|| bytes.split_to(length))
                    .map(Some)?
            }
        });
    }
    bytes.is_empty().then_some(elements)
}

/// An array of values.
pub fn list(values: &[ScalarValue], element: &DataType) -> ScalarValue {
    ScalarValue::List(ScalarValue::new_list_nullable(values, element))
}

/// Arrays as PostgreSQL writes an `int2vector`, `1 2`.
pub fn vector_texts(arrays: &ArrayRef) -> ArrayRef {
    let texts = (0..arrays.len()).map(|row| {
        let elements = arrays.as_list_opt::<i32>()?;
        let elements = arrays.is_valid(row).then(|| elements.value(row))?;
        let texts = (0..elements.len()).map(|at| text(&elements, at));
        Some(texts.collect::<Vec<_>>().join(" "))
    });
    Arc::new(texts.collect::<StringArray>())
}

/// Arrays of several dimensions as PostgreSQL writes them, `{{1,2},{3,4}}`.
pub fn array_texts(arrays: &ArrayRef) -> ArrayRef {
    let texts = (0..arrays.len()).map(|row| arrays.is_valid(row).then(|| text(arrays, row)));
    Arc::new(texts.collect::<StringArray>())
}

fn text(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    if let Some(lists) = array.as_list_opt::<i32>() {
        let elements = lists.value(row);
        let texts = (0..elements.len()).map(|at| text(&elements, at));
        return format!("{{{}}}", texts.collect::<Vec<_>>().join(","));
    }
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options);
    let value = formatter.map_or_else(|_| String::new(), |values| values.value(row).to_string());
    let is_special = |c: char| c.is_whitespace() || "{},\"\\".contains(c);
    match value.is_empty() || value.eq_ignore_ascii_case("null") || value.contains(is_special) {
        true => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
        false => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_arrays_are_read() {
        let of = |bytes: &'static [u8]| binary_elements(Bytes::from_static(bytes));
        let none = b"\0\0\0\0\0\0\0\0\0\0\0\x17";
        assert_eq!(of(none), Some(vec![]));
        let two = b"\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x01a\xff\xff\xff\xff";
        assert_eq!(of(two), Some(vec![Some(Bytes::from_static(b"a")), None]));
        for wrong in [&two[..20], &two[..25], b"\0\0\0\x02", b""] {
            assert_eq!(of(wrong), None);
        }
    }
}
