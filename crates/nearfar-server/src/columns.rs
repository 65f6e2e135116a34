//! The types of columns in PostgreSQL's terms.

use std::sync::Arc;

use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow_pg::datatypes::field_into_pg_type;
use nearfar_sql::columns::is_vector;
use nearfar_sql::values::{Declared, is_json};
use pgwire::api::Type;
use pgwire::api::results::{FieldFormat, FieldInfo};

/// A column whose type no client could read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column `{column}` has type {kind}, which can't be sent")]
pub struct UnsentType {
    /// Its name.
    pub column: String,
    /// Its type.
    pub kind: DataType,
}

impl UnsentType {
    fn of(field: &Field) -> Self {
        Self {
            column: field.name().clone(),
            kind: field.data_type().clone(),
        }
    }
}

/// What clients are told of a column.
///
/// # Errors
/// A type that no client could read.
pub fn described(field: &FieldRef) -> Result<FieldInfo, UnsentType> {
    info(&sent_as(field)?, FieldFormat::Text)
}

/// A column as it is sent: as it is, or as the next type that PostgreSQL has.
///
/// # Errors
/// A type that no client could read.
pub fn sent_as(field: &FieldRef) -> Result<FieldRef, UnsentType> {
    let given = field.data_type();
    let sent = match given {
        DataType::Null => DataType::Utf8,
        // Written without braces.
        DataType::List(_) if is_vector(field) => {
            let sent = Field::new(field.name(), DataType::Utf8, true);
            return Ok(Arc::new(sent.with_metadata(field.metadata().clone())));
        }
        DataType::Int8 => DataType::Int16,
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Decimal256(..) => DataType::Utf8,
        // Encoded by value, whose keys may be of types that are not known to the encoder.
        DataType::Dictionary(_, value) => {
            let value = Field::new(field.name(), value.as_ref().clone(), true);
            return sent_as(&Arc::new(value));
        }
        _ if is_nested_list(given) => DataType::Utf8,
        _ if field_into_pg_type(field).is_ok() => return Ok(Arc::clone(field)),
        _ => DataType::Utf8,
    };
    match is_nested_list(given) || can_cast_types(given, &sent) {
        true => Ok(Arc::new(Field::new(field.name(), sent, true))),
        false => Err(UnsentType::of(field)),
    }
}

/// The identifier of a type's modifier counts from here, in PostgreSQL.
const MODIFIER_BASE: i32 = 4;

/// What clients are told of a column that is [sent](sent_as) in `format`.
///
/// # Errors
/// A type that no client could read.
pub fn info(field: &FieldRef, format: FieldFormat) -> Result<FieldInfo, UnsentType> {
    let kind = field_into_pg_type(field).map_err(|_| UnsentType::of(field))?;
    let size = match kind {
        Type::BOOL => 1,
        Type::INT2 => 2,
        Type::INT4 | Type::FLOAT4 | Type::DATE => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::TIME => 8,
        Type::INTERVAL => 16,
        _ => -1,
    };
    let declared = Declared::of(field);
    let kind = match declared {
        _ if is_vector(field) => Type::INT2_VECTOR,
        Some(Declared::Varchar(_)) => Type::VARCHAR,
        Some(Declared::Char(_)) => Type::BPCHAR,
        None if is_json(field) => Type::JSON,
        None => kind,
    };
    let modifier = match field.data_type() {
        _ if declared.is_some() => declared
            .and_then(|declared| i32::try_from(declared.length()).ok())
            .map_or(-1, |length| length + MODIFIER_BASE),
        DataType::Decimal128(precision, scale) if *scale >= 0 => {
            ((i32::from(*precision) << 16) | i32::from(*scale)) + MODIFIER_BASE
        }
        _ => -1,
    };
    let info = FieldInfo::new(field.name().clone(), None, None, kind, format);
    Ok(info.with_type_size(size).with_type_modifier(modifier))
}

/// Whether a type is an array of arrays.
pub fn is_nested_list(kind: &DataType) -> bool {
    matches!(kind, DataType::List(inner) if matches!(inner.data_type(), DataType::List(_)))
}
