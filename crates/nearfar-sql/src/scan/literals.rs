//! Integers of encoded columns as literals of plans, and back.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use nearfar_table::segment::{integers, is_integer_like};

/// The integer behind a literal of an integer-like type, in the type's own unit.
pub fn literal(value: &ScalarValue) -> Option<i128> {
    use ScalarValue as S;
    Some(match value {
        S::Int8(v) => i128::from((*v)?),
        S::Int16(v) => i128::from((*v)?),
        S::Int32(v) | S::Date32(v) | S::Decimal32(v, ..) => i128::from((*v)?),
        S::Time32Second(v) | S::Time32Millisecond(v) => i128::from((*v)?),
        S::Int64(v) | S::Date64(v) | S::Decimal64(v, ..) => i128::from((*v)?),
        S::Time64Microsecond(v) | S::Time64Nanosecond(v) => i128::from((*v)?),
        S::TimestampSecond(v, _) | S::TimestampMillisecond(v, _) => i128::from((*v)?),
        S::TimestampMicrosecond(v, _) | S::TimestampNanosecond(v, _) => i128::from((*v)?),
        S::DurationSecond(v) | S::DurationMillisecond(v) => i128::from((*v)?),
        S::DurationMicrosecond(v) | S::DurationNanosecond(v) => i128::from((*v)?),
        S::UInt8(v) => i128::from((*v)?),
        S::UInt16(v) => i128::from((*v)?),
        S::UInt32(v) => i128::from((*v)?),
        S::UInt64(v) => i128::from((*v)?),
        S::Decimal128(v, ..) => (*v)?,
        _ => return None,
    })
}

/// A literal of `data_type` for `value`, the inverse of [`literal`].
pub fn scalar(value: i128, data_type: &DataType) -> Option<ScalarValue> {
    let one = is_integer_like(data_type).then(|| integers(value, 1, data_type))?;
    ScalarValue::try_from_array(&one, 0).ok()
}
