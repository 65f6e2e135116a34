//! Intervals: their order, in which a month is 30 days and a day 24 hours, and arithmetic on them.

use arrow::array::{ArrayRef, AsArray, Decimal128Array, IntervalMonthDayNanoArray};
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit,
};
use datafusion::error::Result;
use std::sync::Arc;

use super::error::ValueError;
use super::function::{Function, result};

const DAY_NANOS: i64 = 86_400_000_000_000;
const MONTH_DAYS: i64 = 30;
const DAY_SECONDS: f64 = 86_400.0;
/// Digits of the longest interval in nanoseconds.
const PRECISION: u8 = 30;
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// `interval_length(interval)`: a number that is the same for intervals that are equal.
pub const LENGTH: Function = Function {
    name: "interval_length",
    takes: |_| Ok(vec![INTERVAL]),
    gives: |_| result(DataType::Decimal128(PRECISION, 0)),
    compute: |arrays, _| {
        let intervals = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
        let lengths: Decimal128Array = intervals.unary(|interval| {
            let days = i128::from(interval.months) * i128::from(MONTH_DAYS);
            let days = days + i128::from(interval.days);
            days * i128::from(DAY_NANOS) + i128::from(interval.nanoseconds)
        });
        Ok(Arc::new(lengths.with_precision_and_scale(PRECISION, 0)?) as ArrayRef)
    },
};

/// `timestamp - timestamp`: days and a time.
pub const BETWEEN: Function = Function {
    name: "timestamp_sub",
    takes: |types| match types {
        [DataType::Timestamp(_, left), DataType::Timestamp(_, right)] => {
            let zone = left.clone().or_else(|| right.clone());
            let target = DataType::Timestamp(TimeUnit::Microsecond, zone);
            Ok(vec![target.clone(), target])
        }
        _ => datafusion::common::plan_err!("two timestamps are needed"),
    },
    gives: |_| result(INTERVAL),
    compute: |arrays, _| {
        let left = arrow::compute::cast(&arrays[0], &DataType::Int64)?;
        let right = arrow::compute::cast(&arrays[1], &DataType::Int64)?;
        let pairs = left.as_primitive::<Int64Type>().iter();
        let pairs = pairs.zip(right.as_primitive::<Int64Type>());
        let one = |(left, right): (Option<i64>, Option<i64>)| {
            let Some((left, right)) = left.zip(right) else {
                return Ok(None);
            };
            let day = DAY_NANOS / 1_000;
            let micros = left.checked_sub(right).ok_or_else(overflow)?;
            let days = i32::try_from(micros / day).map_err(|_| overflow())?;
            Ok(Some(IntervalMonthDayNano::new(
                0,
                days,
                micros % day * 1_000,
            )))
        };
        let intervals: Result<IntervalMonthDayNanoArray, ValueError> = pairs.map(one).collect();
        Ok(Arc::new(intervals?) as ArrayRef)
    },
};

fn overflow() -> ValueError {
    ValueError::out_of_range("interval")
}

fn by_number(types: &[DataType]) -> Result<Vec<DataType>> {
    match types.len() {
        2 => Ok(vec![INTERVAL, DataType::Float64]),
        _ => datafusion::common::plan_err!("an interval and a number are needed"),
    }
}

/// `interval * number`.
pub const MULTIPLY: Function = Function {
    name: "interval_mul",
    takes: by_number,
    gives: |_| result(INTERVAL),
    compute: |arrays, _| scaled(arrays, |value, number| Ok(value * number)),
};

/// `interval / number`.
pub const DIVIDE: Function = Function {
    name: "interval_div",
    takes: by_number,
    gives: |_| result(INTERVAL),
    compute: |arrays, _| {
        scaled(arrays, |value, number| match number == 0.0 {
            true => Err(ValueError::DivisionByZero),
            false => Ok(value / number),
        })
    },
};

/// Parts of months and days go on to the smaller units (PostgreSQL, `interval_mul`).
fn scaled(
    arrays: &[ArrayRef],
    of: impl Fn(f64, f64) -> Result<f64, ValueError>,
) -> Result<ArrayRef> {
    let intervals = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
    let numbers = arrays[1].as_primitive::<Float64Type>();
    let rounded = |value: f64| (value * 1e6).round_ties_even() / 1e6;
    let whole = |value: f64| match value.abs() < f64::from(i32::MAX) {
        true => Ok(value as i32),
        false => Err(overflow()),
    };
    let one = |interval: IntervalMonthDayNano, number: f64| {
        let months = of(interval.months.into(), number)?;
        let days = of(interval.days.into(), number)?;
        let more_days = rounded(months.fract() * MONTH_DAYS as f64);
        let seconds = rounded((days.fract() + more_days.fract()) * DAY_SECONDS);
        let micros = of(interval.nanoseconds as f64 / 1e3, number)? + seconds * 1e6;
        let days = whole(days.trunc() + more_days.trunc())?;
        let micros = micros.round_ties_even();
        if micros.abs() >= i64::MAX as f64 / 1e3 {
            return Err(overflow());
        }
        let nanos = micros as i64 * 1_000;
        Ok(IntervalMonthDayNano::new(
            whole(months.trunc())?,
            days,
            nanos,
        ))
    };
    let rows = intervals.iter().zip(numbers);
    let rows = rows.map(|(interval, number)| {
        let given = interval.zip(number);
        given
            .map(|(interval, number)| one(interval, number))
            .transpose()
    });
    let scaled: Result<IntervalMonthDayNanoArray, ValueError> = rows.collect();
    Ok(Arc::new(scaled?))
}

/// The functions that bring hours to days and days to months.
pub const JUSTIFY: [Function; 3] = [
    Function {
        name: "justify_hours",
        takes: |_| Ok(vec![INTERVAL]),
        gives: |_| result(INTERVAL),
        compute: |arrays, _| justified(&arrays[0], true, false),
    },
    Function {
        name: "justify_days",
        takes: |_| Ok(vec![INTERVAL]),
        gives: |_| result(INTERVAL),
        compute: |arrays, _| justified(&arrays[0], false, true),
    },
    Function {
        name: "justify_interval",
        takes: |_| Ok(vec![INTERVAL]),
        gives: |_| result(INTERVAL),
        compute: |arrays, _| justified(&arrays[0], true, true),
    },
];

fn justified(array: &ArrayRef, hours: bool, days: bool) -> Result<ArrayRef> {
    let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
    let one = |interval: IntervalMonthDayNano| {
        let (mut month, mut day) = (i64::from(interval.months), i64::from(interval.days));
        let mut nanos = interval.nanoseconds;
        if hours {
            day += nanos / DAY_NANOS;
            nanos %= DAY_NANOS;
        }
        if days {
            month += day / MONTH_DAYS;
            day %= MONTH_DAYS;
        }
        // All parts have one sign.
        if days && month > 0 && (day < 0 || (day == 0 && hours && nanos < 0)) {
            (month, day) = (month - 1, day + MONTH_DAYS);
        } else if days && month < 0 && (day > 0 || (day == 0 && hours && nanos > 0)) {
            (month, day) = (month + 1, day - MONTH_DAYS);
        }
        if hours && day > 0 && nanos < 0 {
            (day, nanos) = (day - 1, nanos + DAY_NANOS);
        } else if hours && day < 0 && nanos > 0 {
            (day, nanos) = (day + 1, nanos - DAY_NANOS);
        }
        let month = i32::try_from(month).map_err(|_| overflow())?;
        let day = i32::try_from(day).map_err(|_| overflow())?;
        Ok(IntervalMonthDayNano::new(month, day, nanos))
    };
    let rows = intervals
        .iter()
        .map(|interval| interval.map(one).transpose());
    let justified: Result<IntervalMonthDayNanoArray, ValueError> = rows.collect();
    Ok(Arc::new(justified?))
}

/// An interval whose time is written with colons, with units instead.
pub fn with_units(text: &str) -> String {
    let words = text.split_whitespace().map(|word| {
        if !word.contains(':') {
            return word.to_owned();
        }
        let (sign, time) = match word.strip_prefix(['-', '+']) {
            Some(time) => (if word.starts_with('-') { "-" } else { "" }, time),
            None => ("", word),
        };
        let units = ["hours", "minutes", "seconds"];
        let parts = time.split(':').zip(units);
        let parts = parts.map(|(part, unit)| format!("{sign}{part} {unit}"));
        parts.collect::<Vec<_>>().join(" ")
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_intervals_have_units() {
        assert_eq!(
            with_units("1 month -03:04:05.5"),
            "1 month -3 hours -04 minutes -05.5 seconds".replace("-3 ", "-03 ")
        );
        assert_eq!(with_units("2 days"), "2 days");
    }
}
