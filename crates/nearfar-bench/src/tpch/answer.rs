//! Answers of queries as plain values, and where two of them differ.
//!
//! Engines answer the same query in different Arrow types: keys as integers or decimals, strings as
//! views or dictionaries, averages as decimals or floats. Values are compared, not types:
//!
//! - exact numbers (integers and decimals of any width) by their exact value, but within one unit of
//!   the last place that both have where one engine keeps more digits of a quotient,
//! - two floats within [`FLOAT_TOLERANCE`], relative to the expected one,
//! - an exact number and a float within the sum of that and one unit of the decimal's last place,
//!   since the engine that answers with a decimal has rounded,
//! - everything else by equality; NULL equals only NULL.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Date32Type, Decimal128Type, Float64Type, Int64Type,
};
use arrow::error::ArrowError;
use std::cmp::Ordering;
use std::fmt;

/// How far two floats may be apart, relative to the expected one.
pub const FLOAT_TOLERANCE: f64 = 1e-9;

/// One value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// `units` x 10^-`scale`, with no trailing zero after the point, so that equal numbers are
    /// equal values.
    Exact {
        /// All digits.
        units: i128,
        /// Digits after the point.
        scale: u8,
    },
    /// A rounded number.
    Float(f64),
    /// Days since 1970-01-01.
    Date(i32),
    /// A string.
    Text(String),
}

impl Value {
    /// `units` x 10^-`scale`; a negative scale stands for zeros before the point.
    fn exact(units: i128, scale: i8) -> Option<Self> {
        let (mut units, mut places) = match u8::try_from(scale) {
            Ok(places) => (units, places),
            Err(_) => {
                let zeros = 10i128.checked_pow(u32::from(scale.unsigned_abs()))?;
                (units.checked_mul(zeros)?, 0)
            }
        };
        while places > 0 && units % 10 == 0 {
            (units, places) = (units / 10, places - 1);
        }
        Some(Self::Exact {
            units,
            scale: places,
        })
    }

    /// The number, rounded if need be.
    fn number(&self) -> Option<f64> {
        match self {
            Self::Exact { units, scale } => Some(*units as f64 / 10f64.powi(i32::from(*scale))),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// A position among the kinds, for sorting.
    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Boolean(_) => 1,
            Self::Exact { .. } => 2,
            Self::Float(_) => 3,
            Self::Date(_) => 4,
            Self::Text(_) => 5,
        }
    }

    /// Some total order in which equal values are neighbours.
    fn canonical_order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::Exact { units: a, scale: x }, Self::Exact { units: b, scale: y }) => {
                (x, a).cmp(&(y, b))
            }
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Date(a), Self::Date(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(value) => value.fmt(f),
            Self::Exact { units, scale: 0 } => units.fmt(f),
            Self::Exact { units, scale } => {
                let sign = if *units < 0 { "-" } else { "" };
                let width = usize::from(*scale) + 1;
                let digits = format!("{:0width$}", units.unsigned_abs());
                let (whole, part) = digits.split_at(digits.len() - usize::from(*scale));
                write!(f, "{sign}{whole}.{part}")
            }
            Self::Float(value) => value.fmt(f),
            Self::Date(days) => write!(f, "day {days}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// The rows of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    columns: Vec<AnswerColumn>,
    rows: Vec<Vec<Value>>,
}

#[derive(Debug, Clone, PartialEq)]
struct AnswerColumn {
    name: String,
    /// The last place of its decimals, 1 for integers; none if it has no exact numbers.
    unit: Option<f64>,
}

/// Where an answer is not what was expected. Rows and columns count from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// Another number of columns.
    #[error("{found} columns, expected {expected}")]
    Columns {
        /// What was expected.
        expected: usize,
        /// What was found.
        found: usize,
    },
    /// Another number of rows.
    #[error("{found} rows, expected {expected}")]
    Rows {
        /// What was expected.
        expected: usize,
        /// What was found.
        found: usize,
    },
    /// The rows do not come in the order that the query asks for.
    #[error("row {row} is out of order by {column}: {found}, expected {expected}")]
    Order {
        /// The row.
        row: usize,
        /// The column's name.
        column: String,
        /// What was expected.
        expected: Value,
        /// What was found.
        found: Value,
    },
    /// A value differs. The row is that of the sorted answers.
    #[error("{column} of sorted row {row} is {found}, expected {expected}")]
    Cell {
        /// The row.
        row: usize,
        /// The column's name.
        column: String,
        /// What was expected.
        expected: Value,
        /// What was found.
        found: Value,
    },
}

impl Answer {
    /// The answer that `batches` hold.
    ///
    /// # Errors
    /// A type that no query of TPC-H or TPC-DS answers with, or a number beyond 38 digits.
    pub fn from_batches(batches: &[RecordBatch]) -> Result<Self, ArrowError> {
        let mut answer = Self {
            columns: Vec::new(),
            rows: Vec::new(),
        };
        for batch in batches {
            let mut columns = Vec::with_capacity(batch.num_columns());
            for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
                columns.push((field.name().clone(), plain(array)?));
            }
            if answer.columns.is_empty() {
                let described = columns.iter().map(|(name, array)| AnswerColumn {
                    name: name.clone(),
                    unit: unit(array.data_type()),
                });
                answer.columns = described.collect();
            }
            for row in 0..batch.num_rows() {
                let values = columns.iter().map(|(_, array)| value(array, row));
                answer.rows.push(values.collect::<Result<_, _>>()?);
            }
        }
        Ok(answer)
    }

    /// Its rows, in the order in which they came.
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }

    /// Where `found` differs from this one, in whichever order rows come that agree in the columns
    /// `order_by`; none if it does not. An answer without batches has no columns, and then no rows
    /// of the other are expected.
    pub fn difference(&self, found: &Self, order_by: &[usize]) -> Option<Difference> {
        self.shape_difference(found)
            .or_else(|| self.order_difference(found, order_by))
            .or_else(|| self.cell_difference(found))
    }

    fn shape_difference(&self, found: &Self) -> Option<Difference> {
        if self.rows.len() != found.rows.len() {
            let (expected, found) = (self.rows.len(), found.rows.len());
            return Some(Difference::Rows { expected, found });
        }
        if !self.rows.is_empty() && self.columns.len() != found.columns.len() {
            let (expected, found) = (self.columns.len(), found.columns.len());
            return Some(Difference::Columns { expected, found });
        }
        None
    }

    fn order_difference(&self, found: &Self, order_by: &[usize]) -> Option<Difference> {
        for (row, (mine, theirs)) in self.rows.iter().zip(&found.rows).enumerate() {
            for &column in order_by {
                if !self.same(found, column, &mine[column], &theirs[column]) {
                    return Some(Difference::Order {
                        row,
                        column: self.columns[column].name.clone(),
                        expected: mine[column].clone(),
                        found: theirs[column].clone(),
                    });
                }
            }
        }
        None
    }

    fn cell_difference(&self, found: &Self) -> Option<Difference> {
        // Rounded numbers may differ a little and must not decide which rows are compared, so long
        // as something else does.
        let is_rounded = |column: &usize| {
            let has_float = |answer: &Self| {
                answer
                    .rows
                    .iter()
                    .any(|row| matches!(row[*column], Value::Float(_)))
            };
            let units = [self, found].map(|answer| answer.columns[*column].unit);
            has_float(self) || has_float(found) || units[0] != units[1]
        };
        let (rounded, exact): (Vec<usize>, Vec<usize>) =
            (0..self.columns.len()).partition(is_rounded);
        let (mine, theirs) = (
            sorted(self, &exact, &rounded),
            sorted(found, &exact, &rounded),
        );
        for (row, (mine, theirs)) in mine.into_iter().zip(theirs).enumerate() {
            for (column, (mine, theirs)) in mine.iter().zip(theirs).enumerate() {
                if !self.same(found, column, mine, theirs) {
                    return Some(Difference::Cell {
                        row,
                        column: self.columns[column].name.clone(),
                        expected: mine.clone(),
                        found: theirs.clone(),
                    });
                }
            }
        }
        None
    }

    fn same(&self, found: &Self, column: usize, mine: &Value, theirs: &Value) -> bool {
        let (Some(expected), Some(actual)) = (mine.number(), theirs.number()) else {
            return mine == theirs;
        };
        let unit = match (mine, theirs) {
            (Value::Float(_), Value::Float(_)) => 0.0,
            (Value::Exact { .. }, Value::Float(_)) => self.columns[column].unit.unwrap_or(0.0),
            (Value::Float(_), Value::Exact { .. }) => found.columns[column].unit.unwrap_or(0.0),
            (Value::Exact { .. }, Value::Exact { .. }) => {
                let units = [self, found].map(|answer| answer.columns[column].unit);
                match units {
                    [Some(mine), Some(theirs)] if mine != theirs => mine.max(theirs),
                    _ => return mine == theirs,
                }
            }
            _ => return mine == theirs,
        };
        // Of an exact number a float has only the nearest one: 0.58 and 0.57 are a little more than 0.01 apart.
        let within = (expected - actual).abs() <= unit + FLOAT_TOLERANCE * expected.abs();
        within || expected == actual || (expected.is_nan() && actual.is_nan())
    }
}

/// The answer to a query, and all of its rows where it has a limit that leaves open which of them it keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// With the limit.
    pub kept: Answer,
    /// Without it.
    pub all: Option<Answer>,
}

impl Answers {
    /// Where `found` differs from these. With a limit, the rows that are kept agree in the columns `order_by` and in
    /// number, and all rows in everything.
    pub fn difference(&self, found: &Self, order_by: &[usize]) -> Option<Difference> {
        match (&self.all, &found.all) {
            (Some(all), Some(found_all)) => all
                .difference(found_all, &[])
                .or_else(|| self.kept.shape_difference(&found.kept))
                .or_else(|| self.kept.order_difference(&found.kept, order_by)),
            _ => self.kept.difference(&found.kept, order_by),
        }
    }
}

fn sorted<'a>(answer: &'a Answer, exact: &[usize], rounded: &[usize]) -> Vec<&'a Vec<Value>> {
    let mut rows: Vec<&Vec<Value>> = answer.rows.iter().collect();
    rows.sort_by(|a, b| {
        let by_exact = exact
            .iter()
            .map(|&column| a[column].canonical_order(&b[column]));
        let by_rounded = rounded.iter().map(|&column| {
            let number = |row: &[Value]| row[column].number().unwrap_or(f64::NEG_INFINITY);
            number(a).total_cmp(&number(b))
        });
        by_exact
            .chain(by_rounded)
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    rows
}

/// The array as one of the types that [`value`] reads.
fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    let target = match array.data_type() {
        T::Dictionary(_, values) => return plain(&cast(array, values)?),
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 => T::Int64,
        T::UInt64 => T::Decimal128(20, 0),
        T::Decimal32(_, scale)
        | T::Decimal64(_, scale)
        | T::Decimal128(_, scale)
        | T::Decimal256(_, scale) => T::Decimal128(DECIMAL128_MAX_PRECISION, *scale),
        T::Float16 | T::Float32 | T::Float64 => T::Float64,
        T::Utf8 | T::LargeUtf8 | T::Utf8View => T::Utf8View,
        T::Date32 | T::Date64 => T::Date32,
        T::Null | T::Boolean => return Ok(ArrayRef::clone(array)),
        other => return Err(unreadable(other)),
    };
    cast(array, &target)
}

fn unreadable(data_type: &DataType) -> ArrowError {
    ArrowError::NotYetImplemented(format!("comparing values of type {data_type}"))
}

fn unit(data_type: &DataType) -> Option<f64> {
    match data_type {
        DataType::Int64 => Some(1.0),
        DataType::Decimal128(_, scale) => Some(10f64.powi(-i32::from(*scale))),
        _ => None,
    }
}

fn value(array: &ArrayRef, row: usize) -> Result<Value, ArrowError> {
    if array.is_null(row) || array.data_type().is_null() {
        return Ok(Value::Null);
    }
    let exact = |units, scale| {
        Value::exact(units, scale).ok_or_else(|| {
            ArrowError::ArithmeticOverflow(format!("{units}e{} has too many digits", -scale))
        })
    };
    match array.data_type() {
        DataType::Boolean => Ok(Value::Boolean(array.as_boolean().value(row))),
        DataType::Int64 => exact(i128::from(array.as_primitive::<Int64Type>().value(row)), 0),
        DataType::Decimal128(_, scale) => {
            exact(array.as_primitive::<Decimal128Type>().value(row), *scale)
        }
        DataType::Float64 => Ok(Value::Float(array.as_primitive::<Float64Type>().value(row))),
        DataType::Date32 => Ok(Value::Date(array.as_primitive::<Date32Type>().value(row))),
        DataType::Utf8View => Ok(Value::Text(array.as_string_view().value(row).to_owned())),
        other => Err(unreadable(other)),
    }
}
