//! `CAST(value AS numeric)` without digits: as many as the value has.

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::ReturnFieldArgs;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::decimal::{FREE_SCALE, digits, exact, parse, widest};
use super::function::{Function, result};

/// `numeric(value)`.
pub const NUMERIC: Function = Function {
    name: "numeric",
    takes: |types| match types {
        [text] if text.is_string() || text.is_null() => Ok(vec![DataType::Utf8]),
        [DataType::Float16 | DataType::Float32] => Ok(vec![DataType::Float32]),
        [DataType::Float64] => Ok(vec![DataType::Float64]),
        [number] => match exact(number) {
            Some(number) => Ok(vec![number]),
            None => datafusion::common::plan_err!("cannot cast type {number} to numeric"),
        },
        _ => datafusion::common::plan_err!("one value is needed"),
    },
    gives,
    compute,
};

fn gives(arguments: &ReturnFieldArgs<'_>) -> Result<FieldRef> {
    let given = arguments.arg_fields[0].data_type();
    if let DataType::Decimal128(..) = given {
        return result(given.clone());
    }
    let text = match arguments.scalar_arguments.first() {
        Some(Some(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
        )) => digits(text),
        _ => None,
    };
    let Some((_, digits, scale)) = text else {
        return result(widest(FREE_SCALE));
    };
    let most = i64::from(DECIMAL128_MAX_PRECISION);
    let scale = scale.clamp(0, most);
    let whole = i64::try_from(digits.len())
        .unwrap_or(most)
        .max(scale)
        .max(1);
    let precision = u8::try_from(whole.min(most)).unwrap_or(DECIMAL128_MAX_PRECISION);
    // A number with an exponent has more digits than are written.
    let precision = match scale {
        0 => DECIMAL128_MAX_PRECISION,
        _ => precision,
    };
    result(DataType::Decimal128(precision, scale as i8))
}

fn compute(arrays: &[ArrayRef], field: &FieldRef) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = *field.data_type() else {
        return datafusion::common::internal_err!("a numeric is a decimal");
    };
    let target = field.data_type();
    match arrays[0].data_type() {
        given if given == target => Ok(Arc::clone(&arrays[0])),
        DataType::Utf8 => {
            let texts = arrays[0].as_string::<i32>().iter();
            let values =
                texts.map(|text| text.map(|text| parse(text, precision, scale)).transpose());
            let values: Decimal128Array = values.collect::<std::result::Result<_, _>>()?;
            Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
        }
        _ => super::cast::cast(&arrays[0], target),
    }
}
