//! What the driver says of itself.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::constants::ADBC_VERSION_1_1_0;
use adbc_core::error::Result;
use adbc_core::options::InfoCode;
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow::array::{
    ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array, UnionArray, new_empty_array,
};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;

/// The answers, all of them or those of `codes`.
pub fn of_driver(codes: Option<&HashSet<InfoCode>>) -> Result<RecordBatch> {
    let texts = [
        (InfoCode::VendorName, "Nearfar"),
        (InfoCode::VendorVersion, env!("CARGO_PKG_VERSION")),
        (InfoCode::DriverName, "Nearfar's ADBC driver"),
        (InfoCode::DriverVersion, env!("CARGO_PKG_VERSION")),
    ];
    let is_wanted = |code: &InfoCode| codes.is_none_or(|codes| codes.contains(code));
    let texts: Vec<_> = texts
        .into_iter()
        .filter(|(code, _)| is_wanted(code))
        .collect();
    let version = InfoCode::DriverAdbcVersion;
    let numbers: Vec<i64> = match is_wanted(&version) {
        true => vec![i64::from(ADBC_VERSION_1_1_0)],
        false => Vec::new(),
    };
    let names = texts.iter().map(|(code, _)| u32::from(code));
    let names: UInt32Array = names
        .chain(numbers.iter().map(|_| u32::from(&version)))
        .collect();
    let of_texts = (0..texts.len()).map(|offset| (0_i8, offset as i32));
    let of_numbers = (0..numbers.len()).map(|offset| (2_i8, offset as i32));
    let (kinds, offsets): (Vec<i8>, Vec<i32>) = of_texts.chain(of_numbers).unzip();
    let schema = GET_INFO_SCHEMA.clone();
    let DataType::Union(fields, _) = schema.field(1).data_type() else {
        unreachable!("ADBC's information is a union");
    };
    let texts: StringArray = texts.iter().map(|(_, text)| Some(*text)).collect();
    let children = fields.iter().map(|(kind, field)| -> ArrayRef {
        match kind {
            0 => Arc::new(texts.clone()),
            2 => Arc::new(Int64Array::from(numbers.clone())),
            _ => new_empty_array(field.data_type()),
        }
    });
    let children = children.collect();
    let (kinds, offsets) = (ScalarBuffer::from(kinds), ScalarBuffer::from(offsets));
    let values = UnionArray::try_new(fields.clone(), kinds, Some(offsets), children)?;
    Ok(RecordBatch::try_new(
        schema,
        vec![Arc::new(names), Arc::new(values)],
    )?)
}
