//! The functions whose results can be far larger than their arguments, and how large.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use std::sync::{Arc, LazyLock};

use super::sizes::{Size, VALUE_BYTES, array_bytes, counts, elements, lengths, scalar_bytes};
use super::{Growth, Guarded};

/// Functions that make a row as large as an argument says.
const UNBOUNDED: [(&str, Growth); 9] = [
    ("repeat", growth(repeated, by_count)),
    ("lpad", growth(padded, by_count)),
    ("rpad", growth(padded, by_count)),
    ("replace", growth(replaced, by_replacement)),
    (
        "regexp_replace",
        growth(replaced_by_pattern, by_replacement),
    ),
    ("array_repeat", growth(repeated, by_count)),
    ("array_resize", growth(resized, by_count)),
    ("range", growth(ranged, by_anything)),
    ("generate_series", growth(ranged, by_anything)),
];

/// Functions whose result is as large as their arguments are together: called on their own results,
/// they double them each time.
const TOGETHER: [&str; 8] = [
    "concat",
    "concat_ws",
    "overlay",
    "array_concat",
    "array_append",
    "array_prepend",
    "make_array",
    "array_to_string",
];

/// The functions of DataFusion that are to be called in the place of its own.
pub fn guarded_functions() -> &'static [Arc<ScalarUDF>] {
    static FUNCTIONS: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
        // Those of a new context, which has all that DataFusion is built with.
        let state = SessionContext::new().state();
        let known = state.scalar_functions();
        let guard = |name: &str, growth| {
            let inner = known.get(name)?;
            Some(Arc::new(ScalarUDF::from(Guarded::new(
                Arc::clone(inner),
                growth,
            ))))
        };
        let unbounded = UNBOUNDED.into_iter();
        let unbounded = unbounded.filter_map(|(name, growth)| guard(name, growth));
        let together = TOGETHER.into_iter().filter_map(|name| {
            let bytes = match name {
                "concat_ws" | "array_to_string" => separated,
                _ => together,
            };
            guard(name, growth(bytes, by_nothing))
        });
        unbounded.chain(together).collect()
    });
    &FUNCTIONS
}

const fn growth(
    bytes: fn(&[ColumnarValue], usize) -> u64,
    is_unbounded: fn(&[Arc<dyn PhysicalExpr>]) -> bool,
) -> Growth {
    Growth {
        bytes,
        is_unbounded,
    }
}

fn constant(args: &[Arc<dyn PhysicalExpr>], at: usize) -> Option<&ScalarValue> {
    Some(args.get(at)?.downcast_ref::<Literal>()?.value())
}

/// Whether the second argument is not a small number.
fn by_count(args: &[Arc<dyn PhysicalExpr>]) -> bool {
    const COUNT_MAX: i64 = 1000;
    let count = constant(args, 1).map(|count| count.cast_to(&DataType::Int64));
    match count {
        Some(Ok(ScalarValue::Int64(count))) => count.is_some_and(|count| count > COUNT_MAX),
        _ => true,
    }
}

/// Whether what comes in the place of others is not a short text.
fn by_replacement(args: &[Arc<dyn PhysicalExpr>]) -> bool {
    const BYTES_MAX: u64 = 64;
    let by = constant(args, 2).filter(|by| by.try_as_str().is_some());
    by.is_none_or(|by| scalar_bytes(by) > BYTES_MAX)
}

fn by_anything(_: &[Arc<dyn PhysicalExpr>]) -> bool {
    true
}

fn by_nothing(_: &[Arc<dyn PhysicalExpr>]) -> bool {
    false
}

/// The sum of what `of` says of each row.
fn sum(rows: usize, of: impl Fn(usize) -> u64) -> u64 {
    (0..rows).fold(0, |sum: u64, row| sum.saturating_add(of(row)))
}

/// The bytes of all arguments in their rows.
pub(super) fn together(args: &[ColumnarValue], rows: usize) -> u64 {
    let bytes = args.iter().map(|arg| of_argument(arg, rows));
    bytes.fold(rows as u64 * VALUE_BYTES, u64::saturating_add)
}

fn of_argument(arg: &ColumnarValue, rows: usize) -> u64 {
    if let ColumnarValue::Array(array) = arg
        && array.data_type().is_nested()
    {
        return array_bytes(array);
    }
    match lengths(arg) {
        Size::Constant(bytes) => bytes.saturating_mul(rows as u64),
        of => sum(rows, |row| of.at(row)),
    }
}

/// The same with a separator between the values or elements.
fn separated(args: &[ColumnarValue], rows: usize) -> u64 {
    let separators = args.iter().map(lengths);
    let separators: Vec<Size<'_>> = separators.collect();
    let of_lists = args.first().map(elements);
    let between = sum(rows, |row| {
        let longest = separators.iter().take(3).skip(1).map(|of| of.at(row)).max();
        let first = separators.first().map_or(0, |of| of.at(row));
        let of_list = of_lists.as_ref().map_or(0, |of| of.at(row));
        // The separator comes first with values, and second with a list, whose numbers become text.
        match of_list {
            0 => first.saturating_mul(args.len() as u64),
            count => count.saturating_mul(longest.unwrap_or(0).saturating_add(VALUE_BYTES)),
        }
    });
    together(args, rows).saturating_add(between)
}

fn repeated(args: &[ColumnarValue], rows: usize) -> u64 {
    let [value, count, ..] = args else { return 0 };
    let Some(count) = counts(count) else { return 0 };
    let value = lengths(value);
    sum(rows, |row| value.at(row).saturating_mul(count.at(row)))
}

fn padded(args: &[ColumnarValue], rows: usize) -> u64 {
    /// Of UTF-8.
    const CHARACTER_BYTES_MAX: u64 = 4;
    let [_, count, ..] = args else { return 0 };
    let Some(count) = counts(count) else { return 0 };
    let is_ascii = |arg: &ColumnarValue| match arg {
        ColumnarValue::Scalar(scalar) => scalar.try_as_str().flatten().is_none_or(str::is_ascii),
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Utf8View => array.as_string_view().is_ascii(),
            DataType::Utf8 => array.as_string::<i32>().is_ascii(),
            _ => false,
        },
    };
    let texts = args.iter().enumerate().filter(|(at, _)| *at != 1);
    let width = match texts.into_iter().all(|(_, text)| is_ascii(text)) {
        true => 1,
        false => CHARACTER_BYTES_MAX,
    };
    sum(rows, |row| count.at(row).saturating_mul(width))
}

fn replaced(args: &[ColumnarValue], rows: usize) -> u64 {
    let [text, from, to, ..] = args else { return 0 };
    let (text, from, to) = (lengths(text), lengths(from), lengths(to));
    sum(rows, |row| {
        let (bytes, from, to) = (text.at(row), from.at(row), to.at(row));
        let places = match from {
            0 => bytes + 1,
            from => bytes / from,
        };
        bytes.saturating_add(places.saturating_mul(to.saturating_sub(from)))
    })
}

/// The matches of a pattern do not overlap, so that a part of it is at most all of the text.
fn replaced_by_pattern(args: &[ColumnarValue], rows: usize) -> u64 {
    let [text, _, by, ..] = args else { return 0 };
    let parts = match by {
        ColumnarValue::Scalar(scalar) => scalar
            .try_as_str()
            .flatten()
            .map_or(1, |by| 1 + by.matches('\\').count() as u64),
        ColumnarValue::Array(_) => 2,
    };
    let is_everywhere = args.len() > 3;
    let (text, by) = (lengths(text), lengths(by));
    sum(rows, |row| {
        let bytes = text.at(row);
        let places = if is_everywhere { bytes + 1 } else { 1 };
        let added = by.at(row).saturating_mul(places);
        bytes.saturating_mul(parts).saturating_add(added)
    })
}

fn resized(args: &[ColumnarValue], rows: usize) -> u64 {
    let [list, count, ..] = args else { return 0 };
    let Some(count) = counts(count) else { return 0 };
    let filled = args.get(2).map(lengths);
    let list = lengths(list);
    sum(rows, |row| {
        let width = filled.as_ref().map_or(0, |of| of.at(row)).max(VALUE_BYTES);
        list.at(row)
            .saturating_add(count.at(row).saturating_mul(width))
    })
}

/// Series of whole numbers, days, or times.
fn ranged(args: &[ColumnarValue], rows: usize) -> u64 {
    let number = |index: usize, row: usize| args.get(index).and_then(|arg| number_at(arg, row));
    let per_day = args
        .first()
        .map_or(1, |arg| units_per_day(&arg.data_type()));
    sum(rows, |row| {
        let (start, stop) = match args.len() {
            1 => (Some(0), number(0, row)),
            _ => (number(0, row), number(1, row)),
        };
        let (Some(start), Some(stop)) = (start, stop) else {
            return 0;
        };
        let step = match args.get(2) {
            Some(step) => step_of(step, row, per_day).or_else(|| number(2, row)),
            None => Some(1),
        };
        match step {
            Some(step) if step != 0 && (stop >= start) == (step > 0) => {
                let count = start.abs_diff(stop) / step.unsigned_abs() + 1;
                count.saturating_mul(size_of::<i64>() as u64)
            }
            _ => 0,
        }
    })
}

fn number_at(arg: &ColumnarValue, row: usize) -> Option<i64> {
    match arg {
        ColumnarValue::Scalar(scalar) => match scalar.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(number) => number,
            _ => None,
        },
        ColumnarValue::Array(array) => {
            let array = arrow::compute::cast(&array.slice(row, 1), &DataType::Int64).ok()?;
            let array = array.as_primitive::<Int64Type>();
            (!array.is_null(0)).then(|| array.value(0))
        }
    }
}

/// In the numbers that a type is kept as.
fn units_per_day(data_type: &DataType) -> i64 {
    const SECONDS_PER_DAY: i64 = 86_400;
    match data_type {
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => SECONDS_PER_DAY * 1_000,
        DataType::Timestamp(TimeUnit::Second, _) => SECONDS_PER_DAY,
        DataType::Timestamp(TimeUnit::Microsecond, _) => SECONDS_PER_DAY * 1_000_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => SECONDS_PER_DAY * 1_000_000_000,
        _ => 1,
    }
}

/// The least that a step of time covers.
fn step_of(step: &ColumnarValue, row: usize, units_per_day: i64) -> Option<i64> {
    const DAYS_PER_MONTH_MIN: i64 = 28;
    const NANOSECONDS_PER_DAY: f64 = 86_400e9;
    let scalar = match step {
        ColumnarValue::Scalar(scalar) => scalar.clone(),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(array, row).ok()?,
    };
    let ScalarValue::IntervalMonthDayNano(Some(step)) = scalar else {
        return None;
    };
    let days = i64::from(step.months) * DAYS_PER_MONTH_MIN + i64::from(step.days);
    let of_day = step.nanoseconds as f64 / NANOSECONDS_PER_DAY * units_per_day as f64;
    let of_day = match step.nanoseconds {
        0 => 0,
        // Less than a unit is a step all the same.
        nanoseconds if of_day.abs() < 1.0 => nanoseconds.signum(),
        _ => of_day as i64,
    };
    Some(days.saturating_mul(units_per_day).saturating_add(of_day))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, StringArray};

    fn text(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(text))
    }

    fn number(number: i64) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(number))
    }

    #[test]
    fn results_are_measured_before_they_are_made() {
        assert_eq!(
            repeated(&[text("ab"), number(1_000_000_000)], 1),
            2_000_000_000
        );
        assert_eq!(repeated(&[text("ab"), number(-1)], 1), 0);
        assert_eq!(padded(&[text("a"), number(1000)], 2), 2000);
        assert_eq!(padded(&[text("a"), number(1000), text("é")], 1), 4000);
        assert_eq!(replaced(&[text("aaaa"), text("a"), text("bcd")], 1), 12);
        assert_eq!(replaced(&[text("aaaa"), text("a"), text("")], 1), 4);
        assert_eq!(ranged(&[number(1), number(1_000_000)], 1), 8_000_000);
        assert_eq!(ranged(&[number(10), number(1), number(-3)], 1), 32);
        assert_eq!(ranged(&[number(1), number(10), number(-1)], 1), 0);
    }

    #[test]
    fn rows_count_each_for_itself() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("ab"), None, Some("abc")]));
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![10, 10, 100]));
        let args = [ColumnarValue::Array(texts), ColumnarValue::Array(counts)];
        assert_eq!(repeated(&args, 3), 320);
        assert_eq!(together(&args, 3), 5 + 24 + 3 * VALUE_BYTES);
    }

    #[test]
    fn series_of_times_count_their_steps() {
        let day = |day| ColumnarValue::Scalar(ScalarValue::Date32(Some(day)));
        let step = |months, days, nanoseconds| {
            let step = arrow::datatypes::IntervalMonthDayNano::new(months, days, nanoseconds);
            ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(step)))
        };
        assert_eq!(ranged(&[day(0), day(99), step(0, 1, 0)], 1), 800);
        let second =
            |second| ColumnarValue::Scalar(ScalarValue::TimestampSecond(Some(second), None));
        let hour = step(0, 0, 3_600_000_000_000);
        assert_eq!(ranged(&[second(0), second(86_400), hour], 1), 25 * 8);
    }

    #[test]
    fn all_functions_are_there_to_be_guarded() {
        assert_eq!(guarded_functions().len(), UNBOUNDED.len() + TOGETHER.len());
    }
}
