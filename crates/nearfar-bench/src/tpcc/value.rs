//! Values of columns and parameters, whichever way they go.

use rust_decimal::Decimal;

use super::error::Failure;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// An `INTEGER`.
    Int(i32),
    /// A `BIGINT`.
    Long(i64),
    /// A `NUMERIC`.
    Number(Decimal),
    /// A text.
    Text(String),
    /// A `TIMESTAMP`, in microseconds since 1970.
    Time(i64),
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Int(value)
    }
}

impl From<Decimal> for Value {
    fn from(value: Decimal) -> Self {
        Self::Number(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// A row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(pub Vec<Value>);

impl Row {
    /// The integer of a column.
    pub fn int(&self, column: usize) -> Result<i32, Failure> {
        match self.0.get(column) {
            Some(Value::Int(value)) => Ok(*value),
            other => Err(Failure::unexpected("an INTEGER", other)),
        }
    }

    /// The number of a column that counts or adds up.
    pub fn long(&self, column: usize) -> Result<i64, Failure> {
        match self.0.get(column) {
            Some(Value::Int(value)) => Ok(i64::from(*value)),
            Some(Value::Long(value)) => Ok(*value),
            other => Err(Failure::unexpected("a BIGINT", other)),
        }
    }

    /// The `NUMERIC` of a column.
    pub fn number(&self, column: usize) -> Result<Decimal, Failure> {
        match self.0.get(column) {
            Some(Value::Number(value)) => Ok(*value),
            other => Err(Failure::unexpected("a NUMERIC", other)),
        }
    }

    /// The text of a column.
    pub fn text(&self, column: usize) -> Result<&str, Failure> {
        match self.0.get(column) {
            Some(Value::Text(value)) => Ok(value),
            other => Err(Failure::unexpected("a text", other)),
        }
    }
}

/// An amount of money in hundredths.
pub fn cents(amount: i32) -> Decimal {
    Decimal::new(amount.into(), 2)
}
