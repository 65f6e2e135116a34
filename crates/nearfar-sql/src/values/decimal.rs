//! Decimal numbers: from texts and floats, and divided with as many digits as PostgreSQL gives.

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, PrimitiveArray};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, FieldRef, Float64Type, Int64Type, i256,
};
use datafusion::error::Result;
use datafusion::logical_expr::ReturnFieldArgs;
use std::sync::Arc;

use super::error::ValueError;
use super::function::{Function, result};

/// Digits behind the point of a quotient, unless an operand has more.
const QUOTIENT_SCALE: i8 = 18;
/// The same of an average, as PostgreSQL shows those of small integers.
const AVERAGE_SCALE: i8 = 16;
/// Most digits behind the point that a product keeps; beyond, it is rounded.
pub const PRODUCT_SCALE_MAX: i8 = 28;
/// The scale of a `numeric` that says none, where the value does not tell.
pub const FREE_SCALE: i8 = 10;
/// Digits of a double that are sure.
const FLOAT_DIGITS: usize = 15;

/// Ten to a power that fits.
fn power(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

/// A type of `precision` digits, as many as there can be.
pub fn widest(scale: i8) -> DataType {
    DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale)
}

/// The type that holds an integer type's values, or a decimal type itself.
pub fn exact(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Int8 => DataType::Decimal128(3, 0),
        DataType::Int16 | DataType::UInt8 => DataType::Decimal128(5, 0),
        DataType::Int32 | DataType::UInt16 => DataType::Decimal128(10, 0),
        DataType::Int64 | DataType::UInt32 => DataType::Decimal128(19, 0),
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Decimal128(..) => data_type.clone(),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        _ => return None,
    })
}

/// A number's digits and how many of them are behind the point; none if it is not written as one.
pub fn digits(text: &str) -> Option<(bool, String, i64)> {
    let text = text.trim();
    let (is_negative, text) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let all = [whole, part].concat();
    if all.is_empty() || !all.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let scale = i64::try_from(part.len()).ok()? - i64::from(exponent);
    Some((is_negative, all, scale))
}

/// What a text is in units of `scale`, rounded half away from zero.
///
/// # Errors
/// [`ValueError::Text`], [`ValueError::OutOfRange`].
pub fn parse(text: &str, precision: u8, scale: i8) -> Result<i128, ValueError> {
    let overflow = || ValueError::out_of_range("numeric value");
    let (is_negative, digits, given) =
        digits(text).ok_or_else(|| ValueError::text("numeric", text))?;
    let digits = digits.trim_start_matches('0');
    let shift = i64::from(scale) - given;
    let kept = i64::try_from(digits.len()).map_err(|_| overflow())? + shift;
    let value = if kept < 0 || digits.is_empty() {
        0
    } else if shift >= 0 {
        let shift = u32::try_from(shift).map_err(|_| overflow())?;
        let value: i128 = digits.parse().map_err(|_| overflow())?;
        let unit = power(shift).ok_or_else(overflow)?;
        value.checked_mul(unit).ok_or_else(overflow)?
    } else {
        let (kept, cut) = digits.split_at(usize::try_from(kept).map_err(|_| overflow())?);
        let up = i128::from(cut.as_bytes()[0] >= b'5');
        let kept: i128 = match kept.is_empty() {
            true => 0,
            false => kept.parse().map_err(|_| overflow())?,
        };
        kept + up
    };
    let limit = power(u32::from(precision)).ok_or_else(overflow)?;
    if value >= limit {
        return Err(overflow());
    }
    Ok(if is_negative { -value } else { value })
}

/// What a double is in units of `scale`: of its digits only those that are sure.
///
/// # Errors
/// As [`parse`].
pub fn of_float(value: f64, precision: u8, scale: i8) -> Result<i128, ValueError> {
    if !value.is_finite() {
        return Err(ValueError::out_of_range("numeric value"));
    }
    parse(
        &format!("{value:.digits$e}", digits = FLOAT_DIGITS - 1),
        precision,
        scale,
    )
}

/// The double that is next to a decimal.
pub fn to_float(value: i128, scale: i8) -> f64 {
    /// Whole numbers up to here are doubles.
    const EXACT_MAX: u128 = 1 << 53;
    /// Powers of ten up to this one are doubles.
    const EXACT_POWER_MAX: i8 = 22;
    /// Powers of ten up to this one have 64 bits at most.
    const SHORT_POWER_MAX: i8 = 19;
    if value.unsigned_abs() <= EXACT_MAX && (0..=EXACT_POWER_MAX).contains(&scale) {
        return value as f64 / 10_f64.powi(i32::from(scale));
    }
    if (0..=SHORT_POWER_MAX).contains(&scale) {
        // At least 63 bits, with all that is behind them in the last one: they are rounded once.
        let magnitude = value.unsigned_abs();
        let shift = magnitude.leading_zeros();
        let (shifted, power) = (magnitude << shift, 10_u128.pow(scale.unsigned_abs().into()));
        let quotient = (shifted / power) | u128::from(shifted % power != 0);
        let float = quotient as f64 * 0.5_f64.powi(shift as i32);
        return match value < 0 {
            true => -float,
            false => float,
        };
    }
    format!("{value}e{}", -i32::from(scale))
        .parse()
        .unwrap_or(f64::NAN)
}

/// The scale of a decimal type.
pub fn scale_of(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// Types that were known only in part when a statement was planned may turn out to be floats.
fn two_decimals(types: &[DataType]) -> Result<Vec<DataType>> {
    let is_float = |kind: &DataType| matches!(kind, DataType::Float32 | DataType::Float64);
    if types.iter().any(is_float) {
        return Ok(vec![DataType::Float64; types.len()]);
    }
    let decimals: Option<Vec<DataType>> = types.iter().map(exact).collect();
    match decimals {
        Some(decimals) if decimals.len() == 2 => Ok(decimals),
        _ => datafusion::common::plan_err!("decimal numbers are needed, not {types:?}"),
    }
}

/// Computes a decimal of two, in more bits where they are needed.
fn binary(
    arrays: &[ArrayRef],
    target: i8,
    one: impl Fn(i128, i128) -> Result<Option<i128>, ValueError>,
) -> Result<ArrayRef> {
    let left = arrays[0].as_primitive::<Decimal128Type>();
    let right = arrays[1].as_primitive::<Decimal128Type>();
    let mut values = Vec::with_capacity(left.len());
    for (left, right) in left.iter().zip(right.iter()) {
        values.push(match left.zip(right) {
            None => None,
            Some((left, right)) => {
                let overflow = || ValueError::out_of_range("numeric value");
                Some(one(left, right)?.ok_or_else(overflow)?)
            }
        });
    }
    let array = Decimal128Array::from(values);
    Ok(Arc::new(array.with_precision_and_scale(
        DECIMAL128_MAX_PRECISION,
        target,
    )?))
}

/// A quotient, rounded half away from zero.
fn quotient(left: i128, right: i128, shift: u32) -> Option<i128> {
    let product = power(shift).and_then(|unit| left.checked_mul(unit));
    let rounded = match product {
        Some(left) => {
            let (whole, rest) = (left.checked_div(right)?, left.checked_rem(right)?);
            let is_up = rest.unsigned_abs() >= right.unsigned_abs() - rest.unsigned_abs();
            let sign = if (left < 0) == (right < 0) { 1 } else { -1 };
            whole.checked_add(if is_up { sign } else { 0 })?
        }
        None => {
            let (left, right) = (i256::from_i128(left), i256::from_i128(right));
            let unit = i256::from_i128(10).checked_pow(shift)?;
            let left = left.checked_mul(unit)?;
            let (whole, rest) = (left.checked_div(right)?, left.checked_rem(right)?);
            let is_negative = left.is_negative() != right.is_negative();
            let (rest, right) = (rest.checked_abs()?, right.checked_abs()?);
            let is_up = rest >= right.checked_sub(rest)?;
            let one = i256::from_i128(if is_negative { -1 } else { 1 });
            let whole = match is_up {
                true => whole.checked_add(one)?,
                false => whole,
            };
            whole.to_i128()?
        }
    };
    let limit = power(u32::from(DECIMAL128_MAX_PRECISION))?;
    (rounded.unsigned_abs() < limit.unsigned_abs()).then_some(rounded)
}

fn floats(arrays: &[ArrayRef]) -> (Option<&Float64Array>, Option<&Float64Array>) {
    let of = |at: usize| arrays[at].as_primitive_opt::<Float64Type>();
    (of(0), of(1))
}

fn divided(arrays: &[ArrayRef], target: i8) -> Result<ArrayRef> {
    if let (Some(left), Some(right)) = floats(arrays) {
        let quotients = left.iter().zip(right).map(|(left, right)| {
            let Some((left, right)) = left.zip(right) else {
                return Ok(None);
            };
            match right == 0.0 {
                true => Err(ValueError::DivisionByZero),
                false => Ok(Some(left / right)),
            }
        });
        let quotients: Result<Float64Array, ValueError> = quotients.collect();
        return Ok(Arc::new(quotients?));
    }
    let (left, right) = (
        scale_of(arrays[0].data_type()),
        scale_of(arrays[1].data_type()),
    );
    let shift = i32::from(target) - i32::from(left) + i32::from(right);
    binary(arrays, target, |left, right| {
        if right == 0 {
            return Err(ValueError::DivisionByZero);
        }
        Ok(u32::try_from(shift)
            .ok()
            .and_then(|shift| quotient(left, right, shift)))
    })
}

/// The field of a quotient or product.
fn wide(arguments: &ReturnFieldArgs<'_>) -> Result<FieldRef> {
    match arguments.arg_fields[0].data_type() {
        DataType::Float64 => result(DataType::Float64),
        _ => result(widest(quotient_scale(arguments, QUOTIENT_SCALE))),
    }
}

fn quotient_scale(arguments: &ReturnFieldArgs<'_>, least: i8) -> i8 {
    let scales = arguments.arg_fields.iter();
    let scales = scales.map(|field| scale_of(field.data_type()));
    scales.fold(least, i8::max)
}

/// `left / right`.
pub const DIVIDE: Function = Function {
    name: "numeric_div",
    takes: two_decimals,
    gives: wide,
    compute: |arrays, field| divided(arrays, scale_of(field.data_type())),
};

/// `left * right`, where the product has more digits behind the point than are kept.
pub const MULTIPLY: Function = Function {
    name: "numeric_mul",
    takes: two_decimals,
    gives: wide,
    compute: |arrays, field| {
        if let (Some(left), Some(right)) = floats(arrays) {
            let product: Float64Array = arrow::compute::binary(left, right, |a, b| a * b)?;
            return Ok(Arc::new(product));
        }
        let target = scale_of(field.data_type());
        let given = arrays
            .iter()
            .map(|array| i32::from(scale_of(array.data_type())));
        let cut = given.sum::<i32>() - i32::from(target);
        let unit = u32::try_from(cut).ok().and_then(|cut| {
            let ten = i256::from_i128(10);
            ten.checked_pow(cut)
        });
        binary(arrays, target, |left, right| {
            let product = i256::from_i128(left).checked_mul(i256::from_i128(right));
            let rounded = product.zip(unit).and_then(|(product, unit)| {
                let (whole, rest) = (product.checked_div(unit)?, product.checked_rem(unit)?);
                let rest = rest.checked_abs()?;
                let one = i256::from_i128(if product.is_negative() { -1 } else { 1 });
                let is_up = rest >= unit.checked_sub(rest)?;
                let whole = if is_up {
                    whole.checked_add(one)?
                } else {
                    whole
                };
                whole.to_i128()
            });
            Ok(rounded)
        })
    },
};

/// A sum over a number of rows: null of none.
pub const AVERAGE: Function = Function {
    name: "mean_of",
    takes: |types| match types {
        [DataType::Float64 | DataType::Float32, _] => Ok(vec![DataType::Float64, DataType::Int64]),
        [sum, _] => match exact(sum) {
            Some(sum) => Ok(vec![sum, DataType::Int64]),
            None => datafusion::common::plan_err!("avg is not known of {sum}"),
        },
        _ => datafusion::common::plan_err!("avg takes one argument"),
    },
    gives: |arguments| match arguments.arg_fields[0].data_type() {
        DataType::Float64 => result(DataType::Float64),
        sum => result(widest(scale_of(sum).max(AVERAGE_SCALE))),
    },
    compute: |arrays, field| {
        let counts = arrays[1].as_primitive::<Int64Type>();
        if let Some(sums) = arrays[0].as_primitive_opt::<Float64Type>() {
            let means: PrimitiveArray<Float64Type> =
                arrow::compute::binary(sums, counts, |sum, count| sum / count as f64)?;
            return Ok(Arc::new(means));
        }
        let counts = arrow::compute::cast(counts, &DataType::Decimal128(19, 0))?;
        let sums = Arc::clone(&arrays[0]);
        // Where there are no rows the sum is null, and nothing is divided.
        divided(&[sums, counts], scale_of(field.data_type()))
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_rounded_half_away_from_zero() {
        for (text, scale, expected) in [
            ("1.005", 2, 101),
            ("-1.005", 2, -101),
            ("0.5", 0, 1),
            ("0.49", 0, 0),
            ("  12e-1 ", 1, 12),
            ("1e3", 2, 100_000),
            (".05", 1, 1),
            ("0.004", 1, 0),
        ] {
            assert_eq!(parse(text, 38, scale), Ok(expected), "{text}");
        }
        assert!(parse("100", 2, 0).is_err());
        assert!(parse("1x", 38, 0).is_err());
        assert!(parse("", 38, 0).is_err());
    }

    #[test]
    fn doubles_are_the_ones_next_to_a_decimal() {
        let edges = [
            1,
            (1 << 53) + 1,
            (1 << 54) + 2,
            12_345_678_901_234_567_890,
            i128::MAX,
            i128::MIN,
        ];
        let mut random = 0x9e37_79b9_7f4a_7c15_u128;
        let random = std::iter::repeat_with(|| {
            random = random.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645) | 1;
            (random >> (random >> 121)).cast_signed()
        });
        for value in edges.into_iter().chain(random.take(2_000)) {
            for scale in 0..=25 {
                let text = format!("{value}e{}", -i32::from(scale));
                assert_eq!(Ok(to_float(value, scale)), text.parse(), "{text}");
            }
        }
    }

    #[test]
    fn quotients_are_rounded() {
        assert_eq!(quotient(2, 3, 3), Some(667));
        assert_eq!(quotient(-2, 3, 3), Some(-667));
        assert_eq!(quotient(1, 3, 3), Some(333));
        let large = 10_i128.pow(37);
        assert_eq!(quotient(large, large, 20), Some(10_i128.pow(20)));
        assert_eq!(quotient(large, 1, 20), None);
    }

    #[test]
    fn doubles_are_the_nearest() {
        assert_eq!(
            to_float(30_000_000_000_000_004, 17),
            0.300_000_000_000_000_04
        );
        assert_eq!(to_float(-15, 1), -1.5);
        assert_eq!(of_float(1.005, 38, 2), Ok(101));
    }
}
