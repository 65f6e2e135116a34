//! The functions that queries of the catalogs call.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::builder::{ListBuilder, StringBuilder};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, StringArray, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use arrow_pg::datatypes::into_pg_type;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use datafusion::scalar::ScalarValue;
use nearfar_sql::engine::PUBLIC;
use nearfar_sql::sql::PG_CATALOG;
use pgwire::api::Type;
use postgres_types::Kind;

use super::SERVER_VERSION;
use super::contents::{OWNER, function_id, is_visible};
use super::keys::quoted;
use super::tables::types;

/// What is true of the modifiers of numeric types in PostgreSQL: they count from here, and the scale
/// is in these bits.
const MODIFIER_BASE: i64 = 4;
const SCALE_BITS: i64 = 0x7ff;

/// All functions, for a session of `user`.
pub fn all(user: &str, database: &str) -> Vec<ScalarUDF> {
    let text = |text: &str| ScalarValue::from(text);
    let none = || ScalarValue::Utf8(None);
    let constants = [
        ("version", text(&format!("PostgreSQL {SERVER_VERSION}"))),
        ("current_database", text(database)),
        ("current_catalog", text(database)),
        ("current_schema", text(PUBLIC)),
        ("current_user", text(user)),
        ("session_user", text(user)),
        ("user", text(user)),
        ("pg_get_userbyid", text(OWNER)),
        ("pg_encoding_to_char", text("UTF8")),
        ("pg_tablespace_location", text("")),
        ("acldefault", none()),
        ("pg_get_function_result", none()),
        ("pg_get_function_arguments", none()),
        ("obj_description", none()),
        ("col_description", none()),
        ("shobj_description", none()),
        ("pg_is_in_recovery", ScalarValue::from(false)),
        // There are no such locks; poolers release them all.
        ("pg_advisory_unlock_all", text("")),
        ("pg_relation_is_publishable", ScalarValue::from(false)),
        ("pg_type_is_visible", ScalarValue::from(true)),
        ("pg_function_is_visible", ScalarValue::from(true)),
        ("pg_collation_is_visible", ScalarValue::from(true)),
        ("has_database_privilege", ScalarValue::from(true)),
        ("has_schema_privilege", ScalarValue::from(true)),
        ("has_table_privilege", ScalarValue::from(true)),
    ];
    let constants = constants.map(|(name, value)| {
        let signature = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        ScalarUDF::from(Constant {
            name,
            value,
            signature: Signature::one_of(signature, Volatility::Stable),
        })
    });
    let texts = DataType::new_list(DataType::Utf8, true);
    let placed = DataType::new_list(DataType::Struct(placed_fields()), true);
    let computed = [
        (
            "pg_table_is_visible",
            1..=1,
            DataType::Boolean,
            visible as Compute,
        ),
        ("format_type", 2..=2, DataType::Utf8, formatted_type),
        ("pg_get_expr", 2..=3, DataType::Utf8, expression),
        ("pg_typeof", 1..=1, DataType::Utf8, type_of),
        ("quote_ident", 1..=1, DataType::Utf8, quoted_names),
        ("to_regtype", 1..=1, DataType::Int64, type_of_name),
        ("pg_regproc", 1..=1, DataType::Int64, function_of_name),
        ("pg_size_pretty", 1..=1, DataType::Utf8, pretty_size),
        ("current_schemas", 1..=1, texts, schemas_in_sight),
        ("_pg_expandarray", 1..=1, placed, placed_elements),
    ];
    let computed = computed.map(|(name, arguments, gives, compute)| {
        let signatures = arguments.map(TypeSignature::Any).collect();
        ScalarUDF::from(Computed {
            name,
            gives,
            compute,
            signature: Signature::one_of(signatures, Volatility::Stable),
        })
    });
    constants.into_iter().chain(computed).collect()
}

/// A function that gives the same for all arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Constant {
    name: &'static str,
    value: ScalarValue,
    signature: Signature,
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}

/// What makes a column of columns.
type Compute = fn(&[ArrayRef]) -> Result<ArrayRef>;

/// A function of its arguments, known by its name.
#[derive(Debug)]
struct Computed {
    name: &'static str,
    gives: DataType,
    compute: Compute,
    signature: Signature,
}

impl PartialEq for Computed {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Computed {}

impl Hash for Computed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Computed {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.gives.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        Ok(ColumnarValue::Array((self.compute)(&arrays)?))
    }
}

fn integers(array: &ArrayRef) -> Result<Int64Array> {
    let array = cast(array, &DataType::Int64)?;
    Ok(array.as_primitive::<Int64Type>().clone())
}

/// Whether the tables of these identifiers are found without their schema.
fn visible(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let visible = integers(&arguments[0])?;
    let visible = visible.iter().map(|id| id.map(is_visible));
    Ok(Arc::new(visible.collect::<BooleanArray>()))
}

/// The names of types, with their modifiers.
fn formatted_type(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (types, modifiers) = (integers(&arguments[0])?, integers(&arguments[1])?);
    let names = types.iter().zip(modifiers.iter());
    let names = names.map(|(id, modifier)| {
        let Some(kind) = u32::try_from(id?).ok().and_then(Type::from_oid) else {
            return Some("???".to_owned());
        };
        Some(type_name(&kind, modifier.unwrap_or(-1)))
    });
    Ok(Arc::new(names.collect::<StringArray>()))
}

/// Expressions as they were declared, which is how the catalogs keep them.
fn expression(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(cast(&arguments[0], &DataType::Utf8)?)
}

/// The identifiers of types by their names in SQL or in `pg_type`; none of names that no type has.
fn type_of_name(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let names = cast(&arguments[0], &DataType::Utf8)?;
    let ids = names.as_string::<i32>().iter().map(|name| {
        let name = name?.trim().to_ascii_lowercase();
        let known = types().into_iter();
        let mut known = known.filter(|kind| kind.name() == name || type_name(kind, -1) == name);
        known.next().map(|kind| i64::from(kind.oid()))
    });
    Ok(Arc::new(ids.collect::<Int64Array>()))
}

/// The identifiers of functions by their names.
fn function_of_name(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let names = cast(&arguments[0], &DataType::Utf8)?;
    let ids = names.as_string::<i32>().iter();
    let ids = ids.map(|name| name.map(function_id));
    Ok(Arc::new(ids.collect::<Int64Array>()))
}

/// Names as they must be written.
fn quoted_names(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let names = cast(&arguments[0], &DataType::Utf8)?;
    let quoted = names.as_string::<i32>().iter().map(|name| name.map(quoted));
    Ok(Arc::new(quoted.collect::<StringArray>()))
}

/// The name of the type that values have.
fn type_of(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let values = &arguments[0];
    let name = into_pg_type(values.data_type()).map_or_else(
        |_| values.data_type().to_string(),
        |kind| type_name(&kind, -1),
    );
    Ok(Arc::new(StringArray::from(vec![name; values.len()])))
}

/// The name of a type in SQL.
pub fn type_name(kind: &Type, modifier: i64) -> String {
    if let Kind::Array(element) = kind.kind() {
        return type_name(element, -1) + "[]";
    }
    let name = match *kind {
        Type::BOOL => "boolean",
        Type::INT2 => "smallint",
        Type::INT4 => "integer",
        Type::INT8 => "bigint",
        Type::FLOAT4 => "real",
        Type::FLOAT8 => "double precision",
        Type::VARCHAR | Type::BPCHAR if modifier >= MODIFIER_BASE => {
            let name = type_name(kind, -1);
            return format!("{name}({})", modifier - MODIFIER_BASE);
        }
        Type::VARCHAR => "character varying",
        Type::BPCHAR => "character",
        Type::CHAR => "\"char\"",
        Type::TIME => "time without time zone",
        Type::TIMESTAMP => "timestamp without time zone",
        Type::TIMESTAMPTZ => "timestamp with time zone",
        Type::NUMERIC if modifier >= MODIFIER_BASE => {
            let modifier = modifier - MODIFIER_BASE;
            return format!("numeric({},{})", modifier >> 16, modifier & SCALE_BITS);
        }
        _ => kind.name(),
    };
    name.to_owned()
}

/// The schemas in which names are looked for, those of the system too where that is asked for.
fn schemas_in_sight(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let with_system = cast(&arguments[0], &DataType::Boolean)?;
    let mut schemas = ListBuilder::new(StringBuilder::new());
    for with_system in with_system.as_boolean() {
        if with_system == Some(true) {
            schemas.values().append_value(PG_CATALOG);
        }
        schemas.values().append_value(PUBLIC);
        schemas.append(with_system.is_some());
    }
    Ok(Arc::new(schemas.finish()))
}

/// The columns of an element of an array and its place, from 1.
fn placed_fields() -> Fields {
    let field = |name| Field::new(name, DataType::Int64, true);
    Fields::from(vec![field("x"), field("n")])
}

/// The elements of arrays of integers with their places.
fn placed_elements(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let arrays = cast(&arguments[0], &DataType::new_list(DataType::Int64, true))?;
    let arrays = arrays.as_list::<i32>();
    let values = arrays.values().as_primitive::<Int64Type>();
    let ends = arrays.offsets().windows(2);
    let places = ends.flat_map(|ends| 1..=i64::from(ends[1] - ends[0]));
    let first = arrays.offsets()[0] as usize;
    let values = values.slice(first, arrays.offsets()[arrays.len()] as usize - first);
    let columns: Vec<ArrayRef> = vec![Arc::new(values), Arc::new(places.collect::<Int64Array>())];
    let elements = StructArray::try_new(placed_fields(), columns, None)?;
    let field = Field::new_list_field(elements.data_type().clone(), true);
    let offsets = OffsetBuffer::from_lengths(
        arrays
            .offsets()
            .windows(2)
            .map(|ends| (ends[1] - ends[0]) as usize),
    );
    let nulls = arrays.nulls().cloned();
    Ok(Arc::new(ListArray::try_new(
        Arc::new(field),
        offsets,
        Arc::new(elements),
        nulls,
    )?))
}

/// Numbers of bytes for people.
fn pretty_size(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let sizes = integers(&arguments[0])?;
    let sizes = sizes.iter().map(|bytes| {
        let mut size = bytes?;
        let mut unit = 0;
        while size.abs() >= 10 * 1024 && unit + 1 < UNITS.len() {
            size = (size + 512) / 1024;
            unit += 1;
        }
        Some(format!("{size} {}", UNITS[unit]))
    });
    Ok(Arc::new(sizes.collect::<StringArray>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_names_of_sql() {
        assert_eq!(type_name(&Type::INT8, -1), "bigint");
        assert_eq!(
            type_name(&Type::NUMERIC, (12 << 16 | 2) + 4),
            "numeric(12,2)"
        );
        assert_eq!(type_name(&Type::NUMERIC, -1), "numeric");
        assert_eq!(type_name(&Type::VARCHAR, 9), "character varying(5)");
        assert_eq!(type_name(&Type::TEXT_ARRAY, -1), "text[]");
    }

    #[test]
    fn sizes_are_for_people() {
        let sizes: ArrayRef = Arc::new(Int64Array::from(vec![Some(10), Some(20 << 10), None]));
        let texts = pretty_size(&[sizes]).expect("sizes");
        let texts = texts.as_string::<i32>();
        assert_eq!((texts.value(0), texts.value(1)), ("10 bytes", "20 kB"));
        assert!(texts.is_null(2));
    }
}
