//! Functions of real numbers that refuse what they are not defined for, and rounding.

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type,
};
use datafusion::error::Result;
use datafusion::logical_expr::ReturnFieldArgs;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::decimal::{exact, widest};
use super::error::ValueError;
use super::function::{Function, result};

type Unary = fn(f64) -> std::result::Result<f64, ValueError>;

fn floats(types: &[DataType]) -> Result<Vec<DataType>> {
    let is_number = |kind: &DataType| kind.is_numeric() || kind.is_null() || kind.is_string();
    match types.iter().all(is_number) {
        true => Ok(vec![DataType::Float64; types.len()]),
        false => datafusion::common::plan_err!("numbers are needed, not {types:?}"),
    }
}

fn one(types: &[DataType]) -> Result<Vec<DataType>> {
    match types.len() {
        1 => floats(types),
        _ => datafusion::common::plan_err!("one argument is needed"),
    }
}

fn two(types: &[DataType]) -> Result<Vec<DataType>> {
    match types.len() {
        2 => floats(types),
        _ => datafusion::common::plan_err!("two arguments are needed"),
    }
}

fn mapped(array: &ArrayRef, of: Unary) -> Result<ArrayRef> {
    let values = array.as_primitive::<Float64Type>().iter();
    let values = values.map(|value| value.map(of).transpose());
    let values: Float64Array = values.collect::<std::result::Result<_, _>>()?;
    Ok(Arc::new(values))
}

/// A function of one number in all its names.
macro_rules! unary {
    ($name:literal, $of:expr) => {
        Function {
            name: $name,
            takes: one,
            gives: |_| result(DataType::Float64),
            compute: |arrays, _| mapped(&arrays[0], $of),
        }
    };
}

fn positive(value: f64) -> std::result::Result<f64, ValueError> {
    if value == 0.0 {
        return Err(ValueError::Logarithm { what: "zero" });
    }
    if value < 0.0 {
        let what = "a negative number";
        return Err(ValueError::Logarithm { what });
    }
    Ok(value)
}

fn within(value: f64, is_within: bool) -> std::result::Result<f64, ValueError> {
    match is_within || value.is_nan() {
        true => Ok(value),
        false => Err(ValueError::out_of_range("input is")),
    }
}

fn finite(value: f64, of: f64) -> std::result::Result<f64, ValueError> {
    match value.is_infinite() && of.is_finite() {
        true => Err(ValueError::out_of_range("value")),
        false => Ok(value),
    }
}

fn powered(base: f64, exponent: f64) -> std::result::Result<f64, ValueError> {
    if base == 0.0 && exponent < 0.0 {
        let what = "zero raised to a negative power is undefined";
        return Err(ValueError::Power { what });
    }
    if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        let what = "a negative number raised to a non-integer power yields a complex result";
        return Err(ValueError::Power { what });
    }
    let value = base.powf(exponent);
    match exponent.is_finite() {
        true => finite(value, base),
        false => Ok(value),
    }
}

/// `base ^ exponent`.
pub const POWER: Function = Function {
    name: "power",
    takes: two,
    gives: |_| result(DataType::Float64),
    compute: |arrays, _| {
        let (bases, exponents) = (
            arrays[0].as_primitive::<Float64Type>(),
            arrays[1].as_primitive::<Float64Type>(),
        );
        let values = bases.iter().zip(exponents.iter());
        let values = values.map(|(base, exponent)| {
            let given = base.zip(exponent);
            given
                .map(|(base, exponent)| powered(base, exponent))
                .transpose()
        });
        let values: Float64Array = values.collect::<std::result::Result<_, _>>()?;
        Ok(Arc::new(values) as ArrayRef)
    },
};

/// `log(number)` to base 10, or `log(base, number)`.
const LOG: Function = Function {
    name: "log",
    takes: |types| match types.len() {
        1 | 2 => floats(types),
        _ => datafusion::common::plan_err!("log takes a number, or a base and a number"),
    },
    gives: |_| result(DataType::Float64),
    compute: |arrays, _| match arrays {
        [numbers] => mapped(numbers, |number| Ok(positive(number)?.log10())),
        [bases, numbers, ..] => {
            let bases = mapped(bases, |base| Ok(positive(base)?.ln()))?;
            let numbers = mapped(numbers, |number| Ok(positive(number)?.ln()))?;
            let bases = bases.as_primitive::<Float64Type>();
            if bases.iter().flatten().any(|base| base == 0.0) {
                return Err(ValueError::DivisionByZero.into());
            }
            let numbers = numbers.as_primitive::<Float64Type>();
            let values: Float64Array =
                arrow::compute::binary(numbers, bases, |number, base| number / base)?;
            Ok(Arc::new(values) as ArrayRef)
        }
        [] => Ok(Arc::new(Float64Array::new_null(0)) as ArrayRef),
    },
};

/// `abs(number)`, of the number's type.
const ABS: Function = Function {
    name: "abs",
    takes: |types| match types {
        [number] if number.is_numeric() => Ok(vec![number.clone()]),
        [other] if other.is_string() || other.is_null() => Ok(vec![DataType::Float64]),
        _ => datafusion::common::plan_err!("abs takes one number"),
    },
    gives: |arguments| result(arguments.arg_fields[0].data_type().clone()),
    compute: |arrays, _| {
        let array = &arrays[0];
        macro_rules! absolute {
            ($kind:ty, $name:literal) => {{
                let absolute = array
                    .as_primitive::<$kind>()
                    .try_unary::<_, $kind, ValueError>(|value| {
                        value
                            .checked_abs()
                            .ok_or_else(|| ValueError::out_of_range($name))
                    });
                Ok(Arc::new(absolute?) as ArrayRef)
            }};
        }
        match array.data_type() {
            DataType::Int8 => absolute!(Int8Type, "smallint"),
            DataType::Int16 => absolute!(Int16Type, "smallint"),
            DataType::Int32 => absolute!(Int32Type, "integer"),
            DataType::Int64 => absolute!(Int64Type, "bigint"),
            DataType::Float32 => {
                let floats = array.as_primitive::<Float32Type>();
                Ok(Arc::new(floats.unary::<_, Float32Type>(f32::abs)) as ArrayRef)
            }
            DataType::Float64 => {
                let floats = array.as_primitive::<Float64Type>();
                Ok(Arc::new(floats.unary::<_, Float64Type>(f64::abs)) as ArrayRef)
            }
            DataType::Decimal128(precision, scale) => {
                let decimals = array.as_primitive::<Decimal128Type>();
                // What is in the slot of a null may have no absolute value.
                let absolute: Decimal128Array = decimals.unary(i128::wrapping_abs);
                let absolute = absolute.with_precision_and_scale(*precision, *scale)?;
                Ok(Arc::new(absolute) as ArrayRef)
            }
            unsigned if unsigned.is_unsigned_integer() => Ok(Arc::clone(array)),
            other => datafusion::common::exec_err!("abs is not known of {other}"),
        }
    },
};

/// `sign(number)`.
const SIGN: Function = Function {
    name: "sign",
    takes: |types| match types {
        [value] => Ok(vec![rounded_type(value, true)?]),
        _ => datafusion::common::plan_err!("one number is needed"),
    },
    gives: rounded_field,
    compute: |arrays, _| match arrays[0].as_primitive_opt::<Float64Type>() {
        Some(floats) => {
            let of = |value: f64| if value == 0.0 { 0.0 } else { value.signum() };
            Ok(Arc::new(floats.unary::<_, Float64Type>(of)) as ArrayRef)
        }
        None => {
            let decimals = arrays[0].as_primitive::<Decimal128Type>();
            let signs: Decimal128Array = decimals.unary(i128::signum);
            let signs = signs.with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0)?;
            Ok(Arc::new(signs) as ArrayRef)
        }
    },
};

/// The functions of this module.
pub fn all() -> Vec<Function> {
    vec![
        unary!("ln", |value| Ok(positive(value)?.ln())),
        unary!("log10", |value| Ok(positive(value)?.log10())),
        unary!("log2", |value| Ok(positive(value)?.log2())),
        unary!("exp", |value: f64| finite(value.exp(), value)),
        unary!("sqrt", |value: f64| match value < 0.0 {
            true => Err(ValueError::Power {
                what: "cannot take square root of a negative number",
            }),
            false => Ok(value.sqrt()),
        }),
        unary!("asin", |value: f64| Ok(
            within(value, value.abs() <= 1.0)?.asin()
        )),
        unary!("acos", |value: f64| Ok(
            within(value, value.abs() <= 1.0)?.acos()
        )),
        unary!("atanh", |value: f64| Ok(
            within(value, value.abs() <= 1.0)?.atanh()
        )),
        unary!("acosh", |value: f64| Ok(
            within(value, value >= 1.0)?.acosh()
        )),
        Function {
            name: "pow",
            ..POWER
        },
        POWER,
        LOG,
        ABS,
        SIGN,
        rounding("round", |arrays, field| {
            rounded(arrays, field, Towards::Nearest)
        }),
        rounding("trunc", |arrays, field| {
            rounded(arrays, field, Towards::Zero)
        }),
        whole("ceil", |arrays, field| {
            rounded(arrays, field, Towards::Above)
        }),
        whole("ceiling", |arrays, field| {
            rounded(arrays, field, Towards::Above)
        }),
        whole("floor", |arrays, field| {
            rounded(arrays, field, Towards::Below)
        }),
    ]
}

#[derive(Clone, Copy)]
enum Towards {
    Nearest,
    Zero,
    Above,
    Below,
}

type Compute = fn(&[ArrayRef], &arrow::datatypes::FieldRef) -> Result<ArrayRef>;

/// A function that rounds to whole numbers or to digits.
fn rounding(name: &'static str, compute: Compute) -> Function {
    Function {
        name,
        takes: |types| match types {
            [value] => Ok(vec![rounded_type(value, true)?]),
            // The type of the result depends on digits that are written out, which a cast would hide.
            [value, DataType::Int32] => Ok(vec![rounded_type(value, false)?, DataType::Int32]),
            [value, _] => Ok(vec![rounded_type(value, false)?, DataType::Int64]),
            _ => datafusion::common::plan_err!("a number is needed, and digits"),
        },
        gives: rounded_field,
        compute,
    }
}

/// A function that rounds to whole numbers.
fn whole(name: &'static str, compute: Compute) -> Function {
    Function {
        name,
        takes: |types| match types {
            [value] => Ok(vec![rounded_type(value, true)?]),
            _ => datafusion::common::plan_err!("one number is needed"),
        },
        gives: rounded_field,
        compute,
    }
}

fn rounded_type(given: &DataType, to_whole: bool) -> Result<DataType> {
    if let DataType::Decimal128(..) = given {
        return Ok(given.clone());
    }
    match exact(given) {
        Some(decimal) if !to_whole || !given.is_integer() => Ok(decimal),
        _ => Ok(floats(std::slice::from_ref(given))?.remove(0)),
    }
}

fn rounded_field(arguments: &ReturnFieldArgs<'_>) -> Result<arrow::datatypes::FieldRef> {
    let DataType::Decimal128(_, scale) = arguments.arg_fields[0].data_type() else {
        return result(DataType::Float64);
    };
    let digits = match arguments.scalar_arguments.get(1) {
        None if arguments.arg_fields.len() == 1 => Some(0),
        Some(Some(ScalarValue::Int64(digits))) => *digits,
        Some(Some(digits)) => match digits.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(digits)) => digits,
            _ => None,
        },
        _ => None,
    };
    let most = i64::from(DECIMAL128_MAX_PRECISION) - 10;
    let scale = match digits {
        Some(digits) if digits <= 0 => 0,
        Some(digits) => i8::try_from(digits.min(most)).unwrap_or(*scale),
        None => *scale,
    };
    result(widest(scale))
}

fn rounded(
    arrays: &[ArrayRef],
    field: &arrow::datatypes::FieldRef,
    towards: Towards,
) -> Result<ArrayRef> {
    let digits = arrays.get(1).map(|it| cast(it, &DataType::Int64));
    let digits = digits.transpose()?;
    let digits = digits.as_ref().map(|it| it.as_primitive::<Int64Type>());
    match field.data_type() {
        DataType::Decimal128(_, target) => rounded_decimals(&arrays[0], digits, *target, towards),
        _ => {
            let values = arrays[0].as_primitive::<Float64Type>();
            let rows = 0..values.len();
            let values = rows.map(|row| {
                let is_valid = values.is_valid(row) && digits.is_none_or(|d| d.is_valid(row));
                let digits = digits.map_or(0, |digits| digits.value(row));
                is_valid.then(|| rounded_float(values.value(row), digits, towards))
            });
            Ok(Arc::new(values.collect::<Float64Array>()))
        }
    }
}

fn rounded_float(value: f64, digits: i64, towards: Towards) -> f64 {
    let to_whole = |value: f64| match towards {
        Towards::Nearest => value.round_ties_even(),
        Towards::Zero => value.trunc(),
        Towards::Above => value.ceil(),
        Towards::Below => value.floor(),
    };
    if digits == 0 {
        return to_whole(value);
    }
    let unit = 10_f64.powi(i32::try_from(digits).unwrap_or_default());
    let rounded = to_whole(value * unit) / unit;
    match rounded.is_finite() {
        true => rounded,
        false => value,
    }
}

fn rounded_decimals(
    array: &ArrayRef,
    digits: Option<&Int64Array>,
    target: i8,
    towards: Towards,
) -> Result<ArrayRef> {
    let overflow = || ValueError::out_of_range("numeric value");
    let values = array.as_primitive::<Decimal128Type>();
    let scale = i64::from(values.scale());
    let mut rounded = Vec::with_capacity(values.len());
    for row in 0..values.len() {
        if values.is_null(row) || digits.is_some_and(|digits| digits.is_null(row)) {
            rounded.push(None);
            continue;
        }
        let kept = digits.map_or(0, |digits| digits.value(row));
        let cut = scale - kept.min(i64::from(target));
        let value = cut_digits(values.value(row), cut, towards);
        // In units of 10^-kept again, and then of the target.
        let shift = i64::from(target) - scale + cut.max(0);
        let unit = u32::try_from(shift)
            .ok()
            .and_then(|n| 10_i128.checked_pow(n));
        let value = unit
            .and_then(|unit| value.checked_mul(unit))
            .filter(|value| {
                value.unsigned_abs() < 10_u128.pow(u32::from(DECIMAL128_MAX_PRECISION))
            });
        rounded.push(Some(value.ok_or_else(overflow)?));
    }
    let array = Decimal128Array::from(rounded);
    Ok(Arc::new(array.with_precision_and_scale(
        DECIMAL128_MAX_PRECISION,
        target,
    )?))
}

/// `value` without its last `cut` digits.
fn cut_digits(value: i128, cut: i64, towards: Towards) -> i128 {
    if cut <= 0 {
        return value;
    }
    let Some(unit) = u32::try_from(cut).ok().and_then(|n| 10_i128.checked_pow(n)) else {
        return 0;
    };
    let (whole, rest) = (value / unit, value % unit);
    match towards {
        Towards::Zero => whole,
        Towards::Above => whole + i128::from(rest > 0),
        Towards::Below => whole - i128::from(rest < 0),
        Towards::Nearest => match rest.unsigned_abs() >= unit.unsigned_abs().div_ceil(2) {
            true => whole + value.signum(),
            false => whole,
        },
    }
}

/// Casts, refusing what does not fit.
pub fn strict_cast(
    array: &ArrayRef,
    target: &DataType,
) -> std::result::Result<ArrayRef, arrow::error::ArrowError> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, target, &options)
}
