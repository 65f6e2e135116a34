//! Values of parameters, from PostgreSQL's text and binary forms.

use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DecimalType, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit,
};
use arrow_pg::datatypes::into_pg_type;
use bytes::{Buf, Bytes};
use datafusion::error::DataFusionError;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType as SqlType, ExactNumberInfo, TimezoneInfo,
};
use nearfar_sql::sql::array_elements;
use pgwire::api::Type;

use super::arrays::{binary_elements, element_of, list};
use super::failure::{Failure, state};

/// A parameter of a prepared statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// As the client sends it.
    pub kind: Type,
    /// As the statement needs it, where its place tells.
    wanted: Option<DataType>,
    /// Of what it is an array, if it is one.
    element: Option<Type>,
    /// As it is read.
    target: Option<DataType>,
}

impl Parameter {
    /// The parameters of a statement: as the client says, and else as the statement does.
    pub fn all(given: &[u32], wanted: &[Option<DataType>]) -> Vec<Self> {
        let count = given.len().max(wanted.len());
        let one = |at: usize| {
            // A null may be of any type.
            let wanted = wanted.get(at).cloned().flatten();
            let wanted = wanted.filter(|kind| *kind != DataType::Null);
            let given = given.get(at).copied().filter(|id| *id != 0);
            let given = given
                .and_then(Type::from_oid)
                .filter(|kind| *kind != Type::UNKNOWN);
            let kind = given
                .or_else(|| wanted.as_ref().and_then(|wanted| into_pg_type(wanted).ok()))
                .unwrap_or(Type::TEXT);
            Self::new(kind, wanted)
        };
        (0..count).map(one).collect()
    }

    /// What the values of a column are, which clients know as `kind`.
    pub fn of_column(kind: &Type, column: &DataType) -> Self {
        Self::new(kind.clone(), Some(column.clone()))
    }

    fn new(kind: Type, wanted: Option<DataType>) -> Self {
        Self {
            element: element_of(&kind),
            target: wanted.clone().or_else(|| natural(&kind)),
            kind,
            wanted,
        }
    }

    /// Whether an integer of a statement's text can be its value and mean the same.
    pub fn takes_integers(&self) -> bool {
        let wanted = self.wanted.as_ref();
        wanted.is_some_and(DataType::is_signed_integer)
    }

    /// Reads a value, which is in text or else in binary form.
    ///
    /// # Errors
    /// A value that is none of the parameter's type.
    pub fn read(&self, value: Option<&Bytes>, is_text: bool) -> Result<ScalarValue, Failure> {
        let target = self.target.as_ref();
        let Some(bytes) = value else {
            let null = ScalarValue::try_from(target.unwrap_or(&DataType::Utf8));
            return null.map_err(|error| self.refuse(state::INVALID_PARAMETER_VALUE, &error));
        };
        let read = match (&self.element, is_text) {
            (Some(element), _) => self.read_array(element, bytes, is_text)?,
            (None, true) => self.read_text(bytes, target)?,
            (None, false) => self.read_binary(bytes.clone())?,
        };
        let read = match &self.wanted {
            Some(wanted) => of_type(read, wanted)
                .map_err(|error| self.refuse(state::INVALID_TEXT_REPRESENTATION, &error))?,
            None => read,
        };
        // Zeros are not negative.
        Ok(match read {
            ScalarValue::Float32(value) => ScalarValue::Float32(value.map(|value| value + 0.0)),
            ScalarValue::Float64(value) => ScalarValue::Float64(value.map(|value| value + 0.0)),
            read => read,
        })
    }

    fn refuse(&self, code: &'static str, why: &dyn std::fmt::Display) -> Failure {
        Failure::new(
            code,
            format!("a value of type {} can't be read: {why}", self.kind),
        )
    }

    fn read_array(
        &self,
        element: &Type,
        bytes: &Bytes,
        is_text: bool,
    ) -> Result<ScalarValue, Failure> {
        let (code, why) = match is_text {
            true => (state::INVALID_TEXT_REPRESENTATION, "use {…} with commas"),
            false => (
                state::INVALID_BINARY_REPRESENTATION,
                "it has more dimensions than one",
            ),
        };
        let elements = match is_text {
            true => std::str::from_utf8(bytes)
                .ok()
                .and_then(array_elements)
                .map(|elements| {
                    let elements = elements.into_iter();
                    elements.map(|element| element.map(Bytes::from)).collect()
                }),
            false => binary_elements(bytes.clone()),
        };
        let elements = elements.ok_or_else(|| self.refuse(code, &why))?;
        let one = Self::new(element.clone(), None);
        let values = elements
            .iter()
            .map(|value| one.read(value.as_ref(), is_text));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let of_numbers = values.iter().map(ScalarValue::data_type).max_by_key(scale);
        let kind = match natural(element) {
            Some(DataType::Decimal128(..)) => of_numbers.unwrap_or(DataType::Decimal128(38, 10)),
            Some(kind) => kind,
            None => DataType::Utf8,
        };
        let values = values.iter().map(|value| value.cast_to(&kind));
        let values = values.collect::<Result<Vec<_>, _>>();
        Ok(list(
            &values.map_err(|error| self.refuse(code, &error))?,
            &kind,
        ))
    }

    fn read_text(&self, bytes: &Bytes, target: Option<&DataType>) -> Result<ScalarValue, Failure> {
        let wrong = |why: &str| self.refuse(state::INVALID_TEXT_REPRESENTATION, &why);
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8"))?;
        check_text(text)?;
        if let Some(integer) = target.and_then(|target| plain_integer(text, target)) {
            return Ok(integer);
        }
        match target {
            None | Some(DataType::Utf8) => Ok(text.into()),
            Some(DataType::Boolean) => match text.trim().to_ascii_lowercase().as_str() {
                "t" | "true" | "y" | "yes" | "on" | "1" => Ok(true.into()),
                "f" | "false" | "n" | "no" | "off" | "0" => Ok(false.into()),
                _ => Err(wrong("use true or false")),
            },
            Some(DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => {
                let bytes = text.strip_prefix("\\x").and_then(unhex);
                Ok(ScalarValue::Binary(Some(
                    bytes.ok_or_else(|| wrong("use \\x and digits"))?,
                )))
            }
            // What is kept of a number depends on how it is written.
            Some(DataType::Decimal128(..)) if self.wanted.is_none() => {
                let scale = text
                    .split_once('.')
                    .map_or(0, |(_, part)| part.trim().len());
                let scale = i8::try_from(scale).map_err(|_| wrong("it has too many digits"))?;
                ScalarValue::try_from_string(text.to_owned(), &DataType::Decimal128(38, scale))
                    .map_err(|error| wrong(&error.to_string()))
            }
            Some(target) => ScalarValue::try_from_string(text.to_owned(), target)
                .map_err(|error| wrong(&error.to_string())),
        }
    }

    fn read_binary(&self, mut bytes: Bytes) -> Result<ScalarValue, Failure> {
        let length = bytes.len();
        let wrong = || {
            let why = format!("{length} bytes");
            self.refuse(state::INVALID_BINARY_REPRESENTATION, &why)
        };
        let micros = |since_2000: i64| since_2000.checked_add(MICROS_TO_2000).ok_or_else(wrong);
        Ok(match (&self.kind, length) {
            (&Type::BOOL, 1) => ScalarValue::Boolean(Some(bytes.get_u8() != 0)),
            (&Type::INT2, 2) => ScalarValue::Int16(Some(bytes.get_i16())),
            (&Type::INT4, 4) => ScalarValue::Int32(Some(bytes.get_i32())),
            (&Type::INT8, 8) => ScalarValue::Int64(Some(bytes.get_i64())),
            (&Type::OID, 4) => ScalarValue::Int64(Some(bytes.get_u32().into())),
            (&Type::FLOAT4, 4) => ScalarValue::Float32(Some(bytes.get_f32())),
            (&Type::FLOAT8, 8) => ScalarValue::Float64(Some(bytes.get_f64())),
            (&Type::DATE, 4) => {
                let days = bytes
                    .get_i32()
                    .checked_add(DAYS_TO_2000)
                    .filter(|days| Date32Type::to_naive_date_opt(*days).is_some())
                    .ok_or_else(wrong)?;
                ScalarValue::Date32(Some(days))
            }
            (&Type::TIME, 8) => {
                let time = Some(bytes.get_i64()).filter(|time| (0..MICROS_OF_DAY).contains(time));
                ScalarValue::Time64Microsecond(Some(time.ok_or_else(wrong)?))
            }
            (&Type::TIMESTAMP, 8) => {
                ScalarValue::TimestampMicrosecond(Some(micros(bytes.get_i64())?), None)
            }
            (&Type::TIMESTAMPTZ, 8) => {
                let zone = Some(UTC.into());
                ScalarValue::TimestampMicrosecond(Some(micros(bytes.get_i64())?), zone)
            }
            (&Type::INTERVAL, 16) => {
                let (micros, days, months) = (bytes.get_i64(), bytes.get_i32(), bytes.get_i32());
                let nanos = micros.checked_mul(1_000).ok_or_else(wrong)?;
                let value = IntervalMonthDayNanoType::make_value(months, days, nanos);
                ScalarValue::IntervalMonthDayNano(Some(value))
            }
            (&Type::NUMERIC, 8..) => numeric(bytes).ok_or_else(wrong)?,
            (&Type::BYTEA, _) => ScalarValue::Binary(Some(bytes.to_vec())),
            (kind, _) if is_text_like(kind) => {
                let text = std::str::from_utf8(&bytes).map_err(|_| wrong())?;
                check_text(text)?;
                text.into()
            }
            _ => return Err(wrong()),
        })
    }
}

/// A value as one of another type, without the kernels that cast columns where it is a text or a decimal of as many digits
/// behind the point.
fn of_type(value: ScalarValue, wanted: &DataType) -> Result<ScalarValue, DataFusionError> {
    match (value, wanted) {
        (ScalarValue::Utf8(text), DataType::Utf8View) => Ok(ScalarValue::Utf8View(text)),
        (
            ScalarValue::Decimal128(Some(value), _, given),
            DataType::Decimal128(precision, scale),
        ) if given == *scale && Decimal128Type::is_valid_decimal_precision(value, *precision) => {
            Ok(ScalarValue::Decimal128(Some(value), *precision, *scale))
        }
        (value, wanted) if value.data_type() == *wanted => Ok(value),
        (value, wanted) => value.cast_to(wanted),
    }
}

/// The integer that a text of nothing but a sign and digits is, without the kernels that read columns of texts.
fn plain_integer(text: &str, target: &DataType) -> Option<ScalarValue> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(match target {
        DataType::Int16 => ScalarValue::Int16(Some(text.parse().ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(text.parse().ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(text.parse().ok()?)),
        _ => return None,
    })
}

/// The digits behind the point of a decimal number.
fn scale(kind: &DataType) -> i8 {
    match kind {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// From 1970 to 2000, where PostgreSQL begins to count.
const DAYS_TO_2000: i32 = 10_957;
const MICROS_OF_DAY: i64 = 86_400_000_000;
const MICROS_TO_2000: i64 = DAYS_TO_2000 as i64 * MICROS_OF_DAY;
const UTC: &str = "+00:00";

/// The type of SQL that parameters of a type of PostgreSQL are cast to where nothing else tells what
/// they are; those that are not given are texts, as in PostgreSQL.
pub fn sql_type(id: Option<u32>) -> SqlType {
    let kind = id.and_then(Type::from_oid).unwrap_or(Type::TEXT);
    if let Some(element) = element_of(&kind) {
        let element = Box::new(sql_type(Some(element.oid())));
        return SqlType::Array(ArrayElemTypeDef::SquareBracket(element, None));
    }
    match kind {
        Type::BOOL => SqlType::Boolean,
        Type::INT2 => SqlType::SmallInt(None),
        Type::INT4 => SqlType::Integer(None),
        Type::INT8 | Type::OID => SqlType::BigInt(None),
        Type::FLOAT4 => SqlType::Real,
        Type::FLOAT8 => SqlType::Double(ExactNumberInfo::None),
        Type::NUMERIC => SqlType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 10)),
        Type::BYTEA => SqlType::Bytea,
        Type::DATE => SqlType::Date,
        Type::TIME => SqlType::Time(None, TimezoneInfo::None),
        Type::TIMESTAMP => SqlType::Timestamp(None, TimezoneInfo::None),
        Type::TIMESTAMPTZ => SqlType::Timestamp(None, TimezoneInfo::Tz),
        Type::INTERVAL => SqlType::Interval {
            fields: None,
            precision: None,
        },
        _ => SqlType::Text,
    }
}

/// Whether the binary form of a type's values is their text.
fn is_text_like(kind: &Type) -> bool {
    let kinds = [
        Type::TEXT,
        Type::VARCHAR,
        Type::BPCHAR,
        Type::NAME,
        Type::CHAR,
        Type::JSON,
        Type::UNKNOWN,
    ];
    kinds.contains(kind)
}

/// Refuses a text with a zero byte, which PostgreSQL's texts have not.
fn check_text(text: &str) -> Result<(), Failure> {
    match text.contains('\0') {
        true => Err(Failure::new(
            state::UNTRANSLATABLE_TEXT,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        )),
        false => Ok(()),
    }
}

/// The type of Arrow that holds all values of a type of PostgreSQL; none for those that are texts.
fn natural(kind: &Type) -> Option<DataType> {
    if let Some(element) = element_of(kind) {
        let element = natural(&element).unwrap_or(DataType::Utf8);
        return Some(DataType::new_list(element, true));
    }
    Some(match *kind {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 | Type::OID => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => DataType::Decimal128(38, 10),
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        _ => return None,
    })
}

/// The bytes that pairs of digits are.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| match pair {
        [high, low] => {
            let digit = |c: &u8| (*c as char).to_digit(16);
            Some((digit(high)? * 16 + digit(low)?) as u8)
        }
        _ => None,
    };
    digits.map(byte).collect()
}

const GROUP_DIGITS: i64 = 4;
const GROUP_BASE: i128 = 10_000;
const NEGATIVE: u16 = 0x4000;

/// A decimal number in PostgreSQL's binary form (`numeric_recv`), of at most 38 digits.
fn numeric(mut bytes: Bytes) -> Option<ScalarValue> {
    let (count, weight) = (bytes.get_u16(), i64::from(bytes.get_i16()));
    let (sign, scale) = (bytes.get_u16(), i64::from(bytes.get_u16()));
    if bytes.len() != usize::from(count) * 2 || (sign != 0 && sign != NEGATIVE) {
        return None;
    }
    let mut value: i128 = 0;
    for _ in 0..count {
        let group = i128::from(bytes.get_u16());
        if group >= GROUP_BASE {
            return None;
        }
        value = value.checked_mul(GROUP_BASE)?.checked_add(group)?;
    }
    let scale_digits = i8::try_from(scale).ok().filter(|scale| *scale <= 38)?;
    if value == 0 {
        return Some(ScalarValue::Decimal128(Some(0), 38, scale_digits));
    }
    // The groups end so many digits behind the point.
    let behind = (i64::from(count) - 1 - weight) * GROUP_DIGITS;
    let shift = scale - behind;
    let power = 10_i128.checked_pow(u32::try_from(shift.abs()).ok()?)?;
    let value = if shift >= 0 {
        value.checked_mul(power)?
    } else {
        value / power
    };
    let value = if sign == NEGATIVE { -value } else { value };
    Some(ScalarValue::Decimal128(Some(value), 38, scale_digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parameter(kind: Type) -> Parameter {
        Parameter::all(&[kind.oid()], &[]).remove(0)
    }

    fn text(kind: Type, value: &'static str) -> Result<ScalarValue, Failure> {
        parameter(kind).read(Some(&Bytes::from_static(value.as_bytes())), true)
    }

    #[test]
    fn texts_are_read() {
        assert_eq!(text(Type::INT4, "-5"), Ok(ScalarValue::Int32(Some(-5))));
        assert_eq!(text(Type::BOOL, "T"), Ok(ScalarValue::Boolean(Some(true))));
        assert_eq!(
            text(Type::DATE, "1970-01-02"),
            Ok(ScalarValue::Date32(Some(1)))
        );
        let decimal = ScalarValue::Decimal128(Some(125), 38, 2);
        assert_eq!(text(Type::NUMERIC, "1.25"), Ok(decimal));
        let bytes = ScalarValue::Binary(Some(vec![0, 255]));
        assert_eq!(text(Type::BYTEA, "\\x00ff"), Ok(bytes));
        for (kind, wrong) in [
            (Type::INT4, "x"),
            (Type::BOOL, "maybe"),
            (Type::BYTEA, "\\x0"),
        ] {
            assert_eq!(
                text(kind, wrong).map_err(|f| f.code),
                Err("22P02"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn the_statement_says_what_the_client_does_not() {
        let wanted = [Some(DataType::Int64), None];
        let all = Parameter::all(&[], &wanted);
        assert_eq!(all[0].kind, Type::INT8);
        assert_eq!(all[1].kind, Type::TEXT);
        let narrow = Parameter::all(&[Type::INT2.oid()], &wanted);
        let read = narrow[0].read(Some(&Bytes::from_static(b"\0\x07")), false);
        assert_eq!(read, Ok(ScalarValue::Int64(Some(7))));
    }

    #[test]
    fn binary_numbers_are_read() {
        let read = |bytes: &'static [u8]| numeric(Bytes::from_static(bytes));
        let number = b"\0\x03\0\x01\x40\0\0\x02\0\x01\x09\x29\x1a\x2c";
        let expected = ScalarValue::Decimal128(Some(-1_234_567), 38, 2);
        assert_eq!(read(number), Some(expected));
        let small = ScalarValue::Decimal128(Some(5), 38, 5);
        assert_eq!(read(b"\0\x01\xff\xfe\0\0\0\x05\x13\x88"), Some(small));
        assert_eq!(read(b"\0\x01\0\0\0\0\0\0"), None);
    }

    proptest! {
        #[test]
        fn decimals_are_those_that_kernels_make(
            value in prop_oneof![-2000..2000_i128, any::<i128>()],
            (given, precision, scale) in (0..5_i8, 5..=38_u8, 0..5_i8),
        ) {
            let value = ScalarValue::Decimal128(Some(value), 38, given);
            let wanted = DataType::Decimal128(precision, scale);
            let (read, cast) = (of_type(value.clone(), &wanted), value.cast_to(&wanted));
            prop_assert_eq!(read.ok(), cast.ok());
        }

        #[test]
        fn no_bytes_make_it_panic(
            kind in prop::sample::select(vec![
                Type::BOOL, Type::INT8, Type::NUMERIC, Type::DATE, Type::TIMESTAMP, Type::INTERVAL,
                Type::BYTEA, Type::TEXT, Type::TIME, Type::UUID, Type::INT4_ARRAY,
            ]),
            bytes in prop::collection::vec(any::<u8>(), 0..24),
            is_text: bool,
        ) {
            let _ = parameter(kind).read(Some(&Bytes::from(bytes)), is_text);
        }
    }
}
