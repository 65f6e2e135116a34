//! Casts as PostgreSQL does them: rounded, and refused where a value does not fit.

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float32Array, Float64Array, Int64Array, StringArray,
};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

use super::bytes;
use super::decimal;
use super::error::ValueError;
use super::interval::with_units;
use super::math::strict_cast;
use super::text;

/// A cast to one type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Cast {
    target: DataType,
    signature: Signature,
    name: CastName,
}

/// What a column is called whose values are cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CastName {
    /// As what is cast, which is what users see.
    OfValue,
    /// So that it differs from that: conditions become keys of joins, and these columns beside those that
    /// they are computed of.
    Own,
}

impl Cast {
    /// `value` as `target`.
    pub fn expr(value: Expr, target: DataType, name: CastName) -> Expr {
        Self::udf(target, name).call(vec![value])
    }

    /// The function that casts to `target`.
    pub fn udf(target: DataType, name: CastName) -> ScalarUDF {
        ScalarUDF::from(Self {
            target,
            signature: Signature::any(1, Volatility::Immutable),
            name,
        })
    }

    /// What it is made of.
    pub fn parts(&self) -> (&DataType, CastName) {
        (&self.target, self.name)
    }

    /// Whether DataFusion's cast rounds otherwise, does not tell why it refuses a value, or means
    /// something else.
    pub fn replaces(given: &DataType, target: &DataType) -> bool {
        use DataType::{Decimal128, Float32, Float64};
        let is_float = |kind: &DataType| matches!(kind, Float32 | Float64);
        match (given, target) {
            (given, target) if given == target => false,
            (given, target) if target.is_integer() => {
                is_float(given)
                    || given.is_decimal()
                    || given.is_string()
                    || (given.is_integer() && !holds(target, given))
            }
            (Decimal128(digits, places), Decimal128(precision, scale)) => {
                let kept = i32::from(*precision) - i32::from(*scale);
                scale < places || kept < i32::from(*digits) - i32::from(*places)
            }
            (given, Decimal128(precision, scale)) if given.is_integer() => {
                match decimal::exact(given) {
                    Some(Decimal128(digits, _)) => {
                        i32::from(*precision) - i32::from(*scale) < i32::from(digits)
                    }
                    _ => true,
                }
            }
            (given, Decimal128(..)) => is_float(given) || given.is_string(),
            (Decimal128(..) | Float64, Float32) | (Decimal128(..), Float64) => true,
            (given, Float32 | Float64) => given.is_string(),
            (given, DataType::Interval(_)) => given.is_string(),
            (given, target) if bytes::is_bytes(target) => given.is_string(),
            (given, target) if target.is_string() => {
                bytes::is_bytes(given) || text::has_form(given)
            }
            _ => false,
        }
    }
}

/// Whether an integer type holds all values of another.
fn holds(target: &DataType, given: &DataType) -> bool {
    let width = |kind: &DataType| kind.primitive_width().unwrap_or_default();
    let is_signed = |kind: &DataType| kind.is_signed_integer();
    match (is_signed(target), is_signed(given)) {
        (true, false) => width(target) > width(given),
        (false, true) => false,
        _ => width(target) >= width(given),
    }
}

impl ScalarUDFImpl for Cast {
    fn name(&self) -> &'static str {
        "strict_cast"
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(format!("CAST({} AS {})", arguments[0], self.target))
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let value = arguments[0].schema_name();
        Ok(match self.name {
            CastName::OfValue => value.to_string(),
            CastName::Own => format!("CAST({value} AS {})", self.target),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.target.clone())
    }

    /// Numbers keep their order, but texts of numbers have another.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let [input] = inputs else {
            return Ok(SortProperties::Unordered);
        };
        match self.target.is_numeric() && input.range.data_type().is_numeric() {
            true => Ok(input.sort_properties),
            false => Ok(SortProperties::Unordered),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        super::function::compute(arguments, |arrays, _| cast(&arrays[0], &self.target))
    }
}

/// The name of a type in messages.
pub fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int16 => "smallint".to_owned(),
        DataType::Int32 => "integer".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float32 => "real".to_owned(),
        DataType::Float64 => "double precision".to_owned(),
        DataType::Decimal128(..) => "numeric".to_owned(),
        other => other.to_string(),
    }
}

/// An array as values of another type.
///
/// # Errors
/// [`ValueError::OutOfRange`], [`ValueError::Text`].
pub fn cast(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let given = array.data_type();
    if bytes::is_bytes(given) {
        return bytes::to_text(array, target);
    }
    if target.is_string()
        && let Some(texts) = text::texts(array)
    {
        return Ok(arrow::compute::cast(&texts, target)?);
    }
    if given.is_string() {
        let texts = arrow::compute::cast(array, &DataType::Utf8)?;
        return of_texts(&texts, target);
    }
    match target {
        DataType::Float32 | DataType::Float64 => to_floats(array, target),
        DataType::Decimal128(precision, scale) => to_decimals(array, *precision, *scale),
        _ => to_integers(array, target),
    }
}

fn overflow(target: &DataType) -> ValueError {
    ValueError::out_of_range(match target {
        DataType::Decimal128(..) => "numeric value".to_owned(),
        other => type_name(other),
    })
}

fn to_integers(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let whole = match array.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let floats = arrow::compute::cast(array, &DataType::Float64)?;
            let rounded: Float64Array = floats
                .as_primitive::<Float64Type>()
                .unary(f64::round_ties_even);
            Arc::new(rounded) as ArrayRef
        }
        DataType::Decimal128(_, scale) if *scale != 0 => {
            strict_cast(array, &decimal::widest(0)).map_err(|_| overflow(target))?
        }
        _ => Arc::clone(array),
    };
    Ok(strict_cast(&whole, target).map_err(|_| overflow(target))?)
}

fn to_decimals(array: &ArrayRef, precision: u8, scale: i8) -> Result<ArrayRef> {
    let target = DataType::Decimal128(precision, scale);
    if let Some(decimals) = array.as_primitive_opt::<Decimal128Type>()
        && decimals.scale() == scale
    {
        let fit = decimals.validate_decimal_precision(precision);
        fit.map_err(|_| overflow(&target))?;
        let same = decimals
            .clone()
            .with_precision_and_scale(precision, scale)?;
        return Ok(Arc::new(same));
    }
    if !matches!(array.data_type(), DataType::Float32 | DataType::Float64) {
        return Ok(strict_cast(array, &target).map_err(|_| overflow(&target))?);
    }
    let is_single = *array.data_type() == DataType::Float32;
    let floats = arrow::compute::cast(array, &DataType::Float64)?;
    let one = |value: Option<f64>| {
        let of = |value: f64| match is_single {
            // As many digits as are sure of a single.
            true => decimal::parse(&format!("{value:.5e}"), precision, scale),
            false => decimal::of_float(value, precision, scale),
        };
        value.map(of).transpose()
    };
    let values = floats.as_primitive::<Float64Type>().iter().map(one);
    let values: Decimal128Array = values.collect::<std::result::Result<_, _>>()?;
    Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
}

fn to_floats(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let floats: ArrayRef = match array.data_type() {
        DataType::Decimal128(_, scale) => {
            let values = array.as_primitive::<Decimal128Type>();
            let floats: Float64Array = values.unary(|value| decimal::to_float(value, *scale));
            Arc::new(floats)
        }
        _ => Arc::clone(array),
    };
    if *target == DataType::Float64 {
        return Ok(floats);
    }
    let singles = floats.as_primitive::<Float64Type>();
    let one = |value: Option<f64>| {
        let of = |value: f64| {
            let single = value as f32;
            match single.is_infinite() && value.is_finite() {
                true => Err(overflow(target)),
                false => Ok(single),
            }
        };
        value.map(of).transpose()
    };
    let singles: Float32Array = singles
        .iter()
        .map(one)
        .collect::<std::result::Result<_, _>>()?;
    Ok(Arc::new(singles))
}

fn of_texts(texts: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let values = texts.as_string::<i32>().iter();
    let kind = || type_name(target);
    match target {
        DataType::Decimal128(precision, scale) => {
            let values = values.map(|text| {
                text.map(|text| decimal::parse(text, *precision, *scale))
                    .transpose()
            });
            let values: Decimal128Array = values.collect::<std::result::Result<_, _>>()?;
            Ok(Arc::new(
                values.with_precision_and_scale(*precision, *scale)?,
            ))
        }
        DataType::Float32 | DataType::Float64 => {
            let one = |text: &str| {
                let value: f64 = float(text).ok_or_else(|| ValueError::text(kind(), text))?;
                // A text that is finite is no infinity.
                let is_infinite = text.trim().trim_start_matches(['-', '+']);
                match value.is_infinite() && !is_infinite.starts_with(['i', 'I']) {
                    true => Err(overflow(target)),
                    false => Ok(value),
                }
            };
            let values = values.map(|text| text.map(one).transpose());
            let values: Float64Array = values.collect::<std::result::Result<_, _>>()?;
            to_floats(&(Arc::new(values) as ArrayRef), target)
        }
        target if bytes::is_bytes(target) => bytes::of_text(texts, target),
        DataType::Interval(_) => {
            let texts = values.map(|text| text.map(with_units));
            let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
            Ok(strict_cast(&texts, target)?)
        }
        target => {
            let one = |text: &str| integer(text, target);
            let values = values.map(|text| text.map(one).transpose());
            if *target == DataType::UInt64 {
                return Ok(strict_cast(texts, target)?);
            }
            let values: Int64Array = values.collect::<std::result::Result<_, _>>()?;
            to_integers(&(Arc::new(values) as ArrayRef), target)
        }
    }
}

/// A number as texts have it, with the names of what is not finite.
fn float(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.trim_start_matches(['-', '+']).to_ascii_lowercase();
    let is_known = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || ["nan", "inf", "infinity"].contains(&digits.as_str());
    text.parse().ok().filter(|_| is_known)
}

fn integer(text: &str, target: &DataType) -> Result<i64, ValueError> {
    let trimmed = text.trim();
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(ValueError::text(type_name(target), text));
    }
    trimmed.parse().map_err(|_| {
        ValueError::out_of_range(format!("value \"{text}\" for type {}", type_name(target)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Decimal128Array;

    #[test]
    fn decimals_of_as_many_digits_are_checked_and_stay_what_they_are() {
        let given = Decimal128Array::from(vec![Some(-12_345), None, Some(1)]);
        let given = given.with_precision_and_scale(38, 2).expect("a type");
        let given: ArrayRef = Arc::new(given);
        let wide = DataType::Decimal128(5, 2);
        let expected = strict_cast(&given, &wide).expect("they fit");
        assert_eq!(&cast(&given, &wide).expect("they fit"), &expected);
        let error = cast(&given, &DataType::Decimal128(4, 2)).expect_err("one does not fit");
        assert!(error.to_string().contains("numeric value"), "{error}");
    }
}
