//! `to_char`: dates, times, intervals and numbers after PostgreSQL's patterns.

mod datetime;
mod number;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit,
};
use datafusion::error::Result;
use std::sync::Arc;

use super::decimal::exact;
use super::error::ValueError;
use super::function::{Function, result};
use datetime::{DatePattern, Moment};
use number::{Amount, NumberPattern};

/// Longest pattern, so that what is made of it stays small.
const PATTERN_BYTES_MAX: usize = 4 << 10;

/// `to_char(value, pattern)`.
pub const TO_CHAR: Function = Function {
    name: "to_char",
    takes: |types| {
        let [value, _] = types else {
            return datafusion::common::plan_err!("a value and a pattern are needed");
        };
        let value = match value {
            DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Timestamp(_, zone) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
            DataType::Interval(_) | DataType::Duration(_) => {
                DataType::Interval(IntervalUnit::MonthDayNano)
            }
            DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
            other => match exact(other) {
                Some(decimal) => decimal,
                None if other.is_null() => DataType::Float64,
                None => return datafusion::common::plan_err!("to_char is not known of {other}"),
            },
        };
        Ok(vec![value, DataType::Utf8])
    },
    gives: |_| result(DataType::Utf8),
    compute: |arrays, _| {
        let (values, patterns) = (&arrays[0], arrays[1].as_string::<i32>());
        if let Some(long) = patterns
            .iter()
            .flatten()
            .find(|p| p.len() > PATTERN_BYTES_MAX)
        {
            let what = format!("a pattern of {} bytes is too long", long.len());
            return Err(ValueError::Argument { what }.into());
        }
        match values.data_type() {
            DataType::Decimal128(..) | DataType::Float64 => numbers(values, patterns),
            _ => moments(values, patterns),
        }
    },
};

/// Gives each row its pattern, read once for rows that follow each other.
fn each<P>(
    values: &ArrayRef,
    patterns: &StringArray,
    read: impl Fn(&str) -> std::result::Result<P, ValueError>,
    write: impl Fn(&P, usize) -> std::result::Result<String, ValueError>,
) -> Result<ArrayRef> {
    let mut last: Option<(&str, P)> = None;
    let mut texts = Vec::with_capacity(values.len());
    for row in 0..values.len() {
        if values.is_null(row) || patterns.is_null(row) {
            texts.push(None);
            continue;
        }
        let text = patterns.value(row);
        let pattern = match last {
            Some((known, pattern)) if known == text => pattern,
            _ => read(text)?,
        };
        texts.push(Some(write(&pattern, row)?));
        last = Some((text, pattern));
    }
    Ok(Arc::new(StringArray::from(texts)))
}

fn numbers(values: &ArrayRef, patterns: &StringArray) -> Result<ArrayRef> {
    let floats = values.as_primitive_opt::<Float64Type>();
    let decimals = values.as_primitive_opt::<Decimal128Type>();
    each(values, patterns, NumberPattern::read, |pattern, row| {
        let amount = match (floats, decimals) {
            (Some(floats), _) => Amount::of_float(floats.value(row)),
            (None, Some(decimals)) => {
                Amount::of_decimal(decimals.value(row), i64::from(decimals.scale()))
            }
            (None, None) => Amount::of_float(f64::NAN),
        };
        Ok(pattern.write(&amount))
    })
}

fn moments(values: &ArrayRef, patterns: &StringArray) -> Result<ArrayRef> {
    let has_zone = matches!(values.data_type(), DataType::Timestamp(_, Some(_)));
    if let Some(intervals) = values.as_primitive_opt::<IntervalMonthDayNanoType>() {
        return each(
            values,
            patterns,
            |text| Ok(DatePattern::read(text)),
            |pattern, row| {
                let interval = intervals.value(row);
                pattern.write(&Moment::of_interval(
                    interval.months.into(),
                    interval.days.into(),
                    interval.nanoseconds / 1_000,
                ))
            },
        );
    }
    let is_time = matches!(values.data_type(), DataType::Time64(_));
    let local = match values.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            arrow::compute::cast(values, &DataType::Timestamp(*unit, None))?
        }
        _ => Arc::clone(values),
    };
    let micros = arrow::compute::cast(&local, &DataType::Int64)?;
    let micros = micros.as_primitive::<Int64Type>();
    each(
        values,
        patterns,
        |text| Ok(DatePattern::read(text)),
        |pattern, row| {
            let micros = micros.value(row);
            pattern.write(&match is_time {
                true => Moment::of_interval(0, 0, micros),
                false => Moment::of_timestamp(micros, has_zone),
            })
        },
    )
}
