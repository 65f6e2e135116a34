//! `EXTRACT` and `date_part`: parts of dates, times and intervals, with their fractions.

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{
    DataType, Date32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::error::Result;
use datafusion::logical_expr::ReturnFieldArgs;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::calendar::{DAY_MICROS, Date, iso_weekday};
use super::error::ValueError;
use super::function::{Function, result};

/// Digits of all parts; those of an epoch are the most.
const PRECISION: u8 = 24;
const SECOND_MICROS: i64 = 1_000_000;
const MINUTE_MICROS: i64 = 60 * SECOND_MICROS;
const HOUR_MICROS: i64 = 60 * MINUTE_MICROS;
/// Days between the Julian day 0 and 1970-01-01.
const JULIAN_DAYS: i64 = 2_440_588;

/// A part that can be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Century,
    Day,
    Decade,
    Dow,
    Doy,
    Epoch,
    Hour,
    IsoDow,
    IsoYear,
    Julian,
    Microseconds,
    Millennium,
    Milliseconds,
    Minute,
    Month,
    Quarter,
    Second,
    Timezone,
    Week,
    Year,
}

impl Part {
    fn of_name(name: &str) -> Result<Self, ValueError> {
        Ok(match name.trim().to_ascii_lowercase().as_str() {
            "century" | "centuries" | "c" => Self::Century,
            "day" | "days" | "d" => Self::Day,
            "decade" | "decades" | "dec" => Self::Decade,
            "dow" => Self::Dow,
            "doy" => Self::Doy,
            "epoch" => Self::Epoch,
            "hour" | "hours" | "h" | "hr" | "hrs" => Self::Hour,
            "isodow" => Self::IsoDow,
            "isoyear" => Self::IsoYear,
            "julian" => Self::Julian,
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Self::Microseconds,
            "millennium" | "millennia" | "mil" | "mils" => Self::Millennium,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Self::Milliseconds,
            "minute" | "minutes" | "m" | "min" | "mins" => Self::Minute,
            "month" | "months" | "mon" | "mons" => Self::Month,
            "quarter" | "qtr" => Self::Quarter,
            "second" | "seconds" | "s" | "sec" | "secs" => Self::Second,
            "timezone" | "timezone_hour" | "timezone_minute" => Self::Timezone,
            "week" | "weeks" | "w" => Self::Week,
            "year" | "years" | "y" | "yr" | "yrs" => Self::Year,
            _ => {
                let what = format!("unit \"{name}\" not recognized");
                return Err(ValueError::Argument { what });
            }
        })
    }

    fn scale(self, of: &DataType) -> i8 {
        match self {
            Self::Second => 6,
            Self::Milliseconds => 3,
            Self::Epoch if *of != DataType::Date32 => 6,
            _ => 0,
        }
    }
}

/// `EXTRACT(part FROM value)`.
pub const EXTRACT: Function = Function {
    name: "extract",
    takes: types,
    gives: |arguments| {
        let part = part_of(arguments)?;
        let scale = part.scale(arguments.arg_fields[1].data_type());
        result(DataType::Decimal128(PRECISION, scale))
    },
    compute: |arrays, field| match field.data_type() {
        DataType::Decimal128(_, scale) => parts(arrays, *scale),
        other => datafusion::common::internal_err!("a part can't be {other}"),
    },
};

/// `date_part('part', value)`, which gives a double.
pub const DATE_PART: Function = Function {
    name: "date_part",
    takes: types,
    gives: |arguments| {
        part_of(arguments)?;
        result(DataType::Float64)
    },
    compute: |arrays, _| {
        let scale = match first_part(&arrays[0])? {
            Some(part) => part.scale(arrays[1].data_type()),
            None => 0,
        };
        let parts = parts(arrays, scale)?;
        super::cast::cast(&parts, &DataType::Float64)
    },
};

fn types(given: &[DataType]) -> Result<Vec<DataType>> {
    let [_, value] = given else {
        return datafusion::common::plan_err!("a part and a value are needed");
    };
    let value = match value {
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Interval(_) | DataType::Duration(_) => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        other if other.is_string() || other.is_null() => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        other => return datafusion::common::plan_err!("{other} has no parts of a date or time"),
    };
    Ok(vec![DataType::Utf8, value])
}

fn part_of(arguments: &ReturnFieldArgs<'_>) -> Result<Part> {
    match arguments.scalar_arguments.first() {
        Some(Some(
            ScalarValue::Utf8(Some(name))
            | ScalarValue::Utf8View(Some(name))
            | ScalarValue::LargeUtf8(Some(name)),
        )) => Ok(Part::of_name(name)?),
        _ => datafusion::common::plan_err!("the part must be written out"),
    }
}

fn first_part(names: &ArrayRef) -> Result<Option<Part>> {
    let names = names.as_string::<i32>();
    let name = names.iter().flatten().next();
    Ok(name.map(Part::of_name).transpose()?)
}

fn parts(arrays: &[ArrayRef], scale: i8) -> Result<ArrayRef> {
    let values = &arrays[1];
    let Some(part) = first_part(&arrays[0])? else {
        let nulls = Decimal128Array::new_null(values.len());
        return Ok(Arc::new(nulls.with_precision_and_scale(PRECISION, scale)?));
    };
    let array: Decimal128Array = match values.data_type() {
        DataType::Date32 => {
            check(is_of_dates(part), part, "date")?;
            let days = values.as_primitive::<Date32Type>();
            days.unary(|days| of_date(part, i64::from(days)).into())
        }
        DataType::Time64(_) => {
            check(is_of_times(part), part, "time")?;
            let micros = arrow::compute::cast(values, &DataType::Int64)?;
            let micros = micros.as_primitive::<Int64Type>();
            micros.unary(|micros| of_time(part, micros).into())
        }
        DataType::Interval(_) => {
            check(is_of_intervals(part), part, "interval")?;
            let intervals = values.as_primitive::<IntervalMonthDayNanoType>();
            intervals.unary(|interval| {
                let micros = interval.nanoseconds / 1_000;
                of_interval(part, interval.months.into(), interval.days.into(), micros)
            })
        }
        _ => {
            check(part != Part::Julian, part, "timestamp")?;
            let local = DataType::Timestamp(TimeUnit::Microsecond, None);
            let epoch = match part {
                Part::Epoch => Arc::clone(values),
                _ => arrow::compute::cast(values, &local)?,
            };
            let micros = arrow::compute::cast(&epoch, &DataType::Int64)?;
            let micros = micros.as_primitive::<Int64Type>();
            micros.unary(|micros| of_timestamp(part, micros).into())
        }
    };
    Ok(Arc::new(array.with_precision_and_scale(PRECISION, scale)?))
}

fn check(is_known: bool, part: Part, of: &str) -> Result<(), ValueError> {
    match is_known {
        true => Ok(()),
        false => Err(ValueError::Argument {
            what: format!("unit {part:?} not supported for type {of}").to_lowercase(),
        }),
    }
}

fn is_of_times(part: Part) -> bool {
    use Part::{Epoch, Hour, Microseconds, Milliseconds, Minute, Second};
    [Epoch, Hour, Microseconds, Milliseconds, Minute, Second].contains(&part)
}

fn is_of_dates(part: Part) -> bool {
    part == Part::Epoch || (!is_of_times(part) && part != Part::Timezone)
}

fn is_of_intervals(part: Part) -> bool {
    use Part::{Century, Day, Decade, Millennium, Month, Quarter, Year};
    is_of_times(part) || [Century, Day, Decade, Millennium, Month, Quarter, Year].contains(&part)
}

fn of_date(part: Part, days: i64) -> i64 {
    let date = Date::of_days(days);
    // There is no year 0: the year before 1 is -1.
    let year = if date.year > 0 {
        date.year
    } else {
        date.year - 1
    };
    let group = |years: i64| match year > 0 {
        true => (year + years - 1) / years,
        false => -((-year + years - 1) / years),
    };
    match part {
        Part::Century => group(100),
        Part::Millennium => group(1_000),
        Part::Decade => date.year.div_euclid(10),
        Part::Day => date.day,
        Part::Dow => iso_weekday(days) % 7,
        Part::IsoDow => iso_weekday(days),
        Part::Doy => date.day_of_year(),
        Part::Epoch => days * (DAY_MICROS / SECOND_MICROS),
        Part::IsoYear => match date.iso_week().0 {
            year if year > 0 => year,
            year => year - 1,
        },
        Part::Julian => days + JULIAN_DAYS,
        Part::Month => date.month,
        Part::Quarter => (date.month - 1) / 3 + 1,
        Part::Week => date.iso_week().1,
        Part::Year => year,
        _ => 0,
    }
}

/// In units of the part's scale.
fn of_time(part: Part, micros: i64) -> i64 {
    match part {
        Part::Hour => micros / HOUR_MICROS,
        Part::Minute => micros / MINUTE_MICROS % 60,
        // Each has its scale: 6, 3 and 0.
        Part::Second | Part::Milliseconds | Part::Microseconds => micros % MINUTE_MICROS,
        Part::Epoch => micros,
        _ => 0,
    }
}

fn of_timestamp(part: Part, micros: i64) -> i64 {
    match part {
        Part::Epoch => micros,
        part if is_of_times(part) => of_time(part, micros.rem_euclid(DAY_MICROS)),
        part => of_date(part, micros.div_euclid(DAY_MICROS)),
    }
}

fn of_interval(part: Part, months: i64, days: i64, micros: i64) -> i128 {
    let years = months / 12;
    let part = match part {
        Part::Century => years / 100,
        Part::Millennium => years / 1_000,
        Part::Decade => years / 10,
        Part::Year => years,
        Part::Month => months % 12,
        Part::Quarter => months % 12 / 3 + 1,
        Part::Day => days,
        Part::Epoch => {
            // A year is 365.25 days here, and a month 30.
            let days = i128::from(years) * 1_461 + i128::from(months % 12 * 30 + days) * 4;
            return days * i128::from(DAY_MICROS / 4) + i128::from(micros);
        }
        part => of_time(part, micros),
    };
    part.into()
}
