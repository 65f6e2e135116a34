//! Numbers, times and intervals as texts in PostgreSQL's form.

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use std::fmt::Write;

use super::calendar::{DAY_MICROS, Date};

/// Digits before the point from which on doubles and singles have an exponent.
const DOUBLE_DIGITS: i32 = 15;
const SINGLE_DIGITS: i32 = 6;
/// The exponent below which they have one.
const EXPONENT_MIN: i32 = -4;
const SECOND_MICROS: i64 = 1_000_000;

/// Whether values of a type have a form here that Arrow does not give them.
pub fn has_form(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 | DataType::Time64(_) | DataType::Time32(_) => true,
        DataType::Timestamp(_, zone) => zone.as_deref().is_none_or(is_utc),
        DataType::Interval(IntervalUnit::MonthDayNano) => true,
        _ => false,
    }
}

fn is_utc(zone: &str) -> bool {
    ["UTC", "+00:00", "+00", "Z", "Etc/UTC"].contains(&zone)
}

/// The values of an array as texts, if they have a form here.
pub fn texts(array: &ArrayRef) -> Option<StringArray> {
    if !has_form(array.data_type()) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().iter();
            let text = |value: f32| float(f64::from(value), format!("{value:e}"), SINGLE_DIGITS);
            values.map(|value| value.map(text)).collect()
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().iter();
            let text = |value: f64| float(value, format!("{value:e}"), DOUBLE_DIGITS);
            values.map(|value| value.map(text)).collect()
        }
        DataType::Interval(_) => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>().iter();
            let text = |value: arrow::datatypes::IntervalMonthDayNano| {
                interval(
                    value.months.into(),
                    value.days.into(),
                    value.nanoseconds / 1_000,
                )
            };
            values.map(|value| value.map(text)).collect()
        }
        DataType::Timestamp(_, zone) => {
            let target = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            let micros = micros(array, &target)?;
            let suffix = if zone.is_some() { "+00" } else { "" };
            let text = |value: i64| timestamp(value) + suffix;
            let values = micros.as_primitive::<Int64Type>().iter();
            values.map(|value| value.map(text)).collect()
        }
        _ => {
            let micros = micros(array, &DataType::Time64(TimeUnit::Microsecond))?;
            let values = micros.as_primitive::<Int64Type>().iter();
            values.map(|value| value.map(time)).collect()
        }
    })
}

fn micros(array: &ArrayRef, target: &DataType) -> Option<ArrayRef> {
    let micros = arrow::compute::cast(array, target).ok()?;
    arrow::compute::cast(&micros, &DataType::Int64).ok()
}

/// The shortest text of a number, whose text with an exponent is given.
fn float(value: f64, scientific: String, digits: i32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent < EXPONENT_MIN || exponent >= digits {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let all: String = mantissa.chars().filter(|digit| *digit != '.').collect();
    let Ok(whole) = usize::try_from(exponent + 1) else {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{all}");
    };
    match whole {
        0 => format!("{sign}0.{all}"),
        whole if whole >= all.len() => format!("{sign}{all:0<whole$}"),
        whole => format!("{sign}{}.{}", &all[..whole], &all[whole..]),
    }
}

/// Hours, minutes and seconds with as many digits as they need.
fn time(micros: i64) -> String {
    let seconds = micros / SECOND_MICROS;
    let mut text = format!(
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    );
    let part = micros % SECOND_MICROS;
    if part != 0 {
        let part = format!(".{part:06}");
        text.push_str(part.trim_end_matches('0'));
    }
    text
}

fn timestamp(micros: i64) -> String {
    let date = Date::of_days(micros.div_euclid(DAY_MICROS));
    let time = time(micros.rem_euclid(DAY_MICROS));
    let (year, era) = match date.year > 0 {
        true => (date.year, ""),
        false => (1 - date.year, " BC"),
    };
    format!("{year:04}-{:02}-{:02} {time}{era}", date.month, date.day)
}

fn interval(months: i64, days: i64, micros: i64) -> String {
    let mut text = String::new();
    let mut is_after_negative = false;
    for (value, name) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if value == 0 {
            continue;
        }
        let space = if text.is_empty() { "" } else { " " };
        let sign = if is_after_negative && value > 0 {
            "+"
        } else {
            ""
        };
        let plural = if value == 1 { "" } else { "s" };
        // Writing to a text does not fail.
        let _ = write!(text, "{space}{sign}{value} {name}{plural}");
        is_after_negative = value < 0;
    }
    if micros != 0 || text.is_empty() {
        let space = if text.is_empty() { "" } else { " " };
        let sign = match (micros < 0, is_after_negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        let _ = write!(text, "{space}{sign}{}", time(micros.wrapping_abs()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        let of = |value: f64| float(value, format!("{value:e}"), DOUBLE_DIGITS);
        for (value, expected) in [
            (1024.0, "1024"),
            (0.1, "0.1"),
            (-0.0001, "-0.0001"),
            (0.00001, "1e-05"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (123.25, "123.25"),
            (1e300, "1e+300"),
            (0.0, "0"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(of(value), expected);
        }
    }

    #[test]
    fn times_have_the_digits_they_need() {
        assert_eq!(timestamp(0), "1970-01-01 00:00:00");
        assert_eq!(timestamp(-1_500_000), "1969-12-31 23:59:58.5");
        assert_eq!(
            interval(14, 3, 3_661_500_000),
            "1 year 2 mons 3 days 01:01:01.5"
        );
        assert_eq!(interval(0, -1, 3_600_000_000), "-1 days +01:00:00");
        assert_eq!(interval(0, 0, 0), "00:00:00");
        assert_eq!(interval(-1, 0, -1_000_000), "-1 mons -00:00:01");
    }
}
