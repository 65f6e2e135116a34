//! The catalog as ADBC wants it: lists within lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use adbc_core::error::Result;
use adbc_core::options::ObjectDepth;
use adbc_core::schemas::{
    COLUMN_SCHEMA, GET_OBJECTS_SCHEMA, OBJECTS_DB_SCHEMA_SCHEMA, TABLE_SCHEMA,
};
use arrow::array::{
    Array, ArrayRef, AsArray, Int16Array, Int32Array, ListArray, RecordBatch, StringArray,
    StructArray, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use nearfar_sql::engine::{CATALOG, StatementResult};

use super::told;
use crate::client::Client;
use crate::failure::Failure;

/// What is asked for; names are patterns of `LIKE`.
pub struct Wanted<'a> {
    pub depth: ObjectDepth,
    pub catalog: Option<&'a str>,
    pub schema: Option<&'a str>,
    pub table: Option<&'a str>,
    pub types: Option<Vec<&'a str>>,
    pub column: Option<&'a str>,
}

/// A column: its name, place, type and whether it may be null.
type Column = (String, i32, String, bool);
/// Tables by name, with their kinds.
type Tables = BTreeMap<String, (String, Vec<Column>)>;

const TABLES: &str =
    "SELECT table_schema, table_name, table_type, '' AS c, '' AS o, '' AS d, '' AS n
    FROM information_schema.tables";
const COLUMNS: &str = "SELECT table_schema, table_name, '' AS t, column_name, ordinal_position, data_type, is_nullable
    FROM information_schema.columns";

/// The objects.
pub fn objects(client: &Client, wanted: &Wanted<'_>) -> Result<RecordBatch> {
    let is_here = wanted.catalog.is_none_or(|pattern| like(CATALOG, pattern));
    let (names, schemas) = match (is_here, wanted.depth) {
        (false, _) => (Vec::new(), Vec::new()),
        (true, ObjectDepth::Catalogs) => (vec![CATALOG], vec![None]),
        (true, _) => (vec![CATALOG], vec![Some(schemas(client, wanted)?)]),
    };
    let schemas = list(&OBJECTS_DB_SCHEMA_SCHEMA, &schemas, |schemas| {
        let names: Vec<&str> = schemas.iter().map(|(name, _)| name.as_str()).collect();
        let tables: Vec<Option<Tables>> =
            schemas.iter().map(|(_, tables)| tables.clone()).collect();
        let tables = list(&TABLE_SCHEMA, &tables, tables_of)?;
        Ok(vec![Arc::new(StringArray::from(names)) as ArrayRef, tables])
    })?;
    let names: ArrayRef = Arc::new(StringArray::from(names));
    Ok(RecordBatch::try_new(
        GET_OBJECTS_SCHEMA.clone(),
        vec![names, schemas],
    )?)
}

/// A list of structs per element, or none; `fields` makes the columns of the structs of all lists of one
/// element after another.
fn list<T: IntoIterator + Clone>(
    kind: &DataType,
    elements: &[Option<T>],
    fields: impl Fn(Vec<T::Item>) -> Result<Vec<ArrayRef>>,
) -> Result<ArrayRef> {
    let all: Vec<Option<Vec<T::Item>>> = elements
        .iter()
        .map(|element| element.clone().map(|items| items.into_iter().collect()))
        .collect();
    let lengths = all.iter().map(|items| items.as_ref().map_or(0, Vec::len));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let is_valid: Vec<bool> = all.iter().map(Option::is_some).collect();
    let items: Vec<T::Item> = all.into_iter().flatten().flatten().collect();
    let count = items.len();
    let DataType::Struct(members) = kind else {
        unreachable!("ADBC's objects are lists of structs");
    };
    let values: ArrayRef = match count {
        0 => arrow::array::new_empty_array(kind),
        _ => Arc::new(StructArray::try_new(members.clone(), fields(items)?, None)?),
    };
    let field = Arc::new(Field::new_list_field(kind.clone(), true));
    Ok(Arc::new(ListArray::try_new(
        field,
        offsets,
        values,
        Some(is_valid.into()),
    )?))
}

fn tables_of(tables: Vec<(String, (String, Vec<Column>))>) -> Result<Vec<ArrayRef>> {
    let names: StringArray = tables.iter().map(|(name, _)| Some(name)).collect();
    let kinds: StringArray = tables.iter().map(|(_, (kind, _))| Some(kind)).collect();
    let columns: Vec<Option<Vec<Column>>> = tables
        .iter()
        .map(|(_, (_, columns))| Some(columns.clone()))
        .collect();
    let columns = list(&COLUMN_SCHEMA, &columns, columns_of)?;
    let DataType::Struct(members) = &*TABLE_SCHEMA else {
        unreachable!("a table is a struct");
    };
    let constraints = new_null_array(members[3].data_type(), tables.len());
    Ok(vec![Arc::new(names), Arc::new(kinds), columns, constraints])
}

fn columns_of(columns: Vec<Column>) -> Result<Vec<ArrayRef>> {
    let DataType::Struct(members) = &*COLUMN_SCHEMA else {
        unreachable!("a column is a struct");
    };
    let array = |field: &Arc<Field>| -> ArrayRef {
        match field.name().as_str() {
            "column_name" => Arc::new(
                columns
                    .iter()
                    .map(|column| Some(&column.0))
                    .collect::<StringArray>(),
            ),
            "ordinal_position" => Arc::new(
                columns
                    .iter()
                    .map(|column| Some(column.1))
                    .collect::<Int32Array>(),
            ),
            "xdbc_type_name" => Arc::new(
                columns
                    .iter()
                    .map(|column| Some(&column.2))
                    .collect::<StringArray>(),
            ),
            "xdbc_nullable" => Arc::new(
                columns
                    .iter()
                    .map(|column| Some(i16::from(column.3)))
                    .collect::<Int16Array>(),
            ),
            _ => new_null_array(field.data_type(), columns.len()),
        }
    };
    Ok(members.iter().map(array).collect())
}

/// The schemas with their tables, where these are wanted.
fn schemas(client: &Client, wanted: &Wanted<'_>) -> Result<BTreeMap<String, Option<Tables>>> {
    let mut schemas: BTreeMap<String, Option<Tables>> = BTreeMap::new();
    let has_tables = !matches!(wanted.depth, ObjectDepth::Schemas);
    let is_type = |kind: &str| {
        wanted
            .types
            .as_ref()
            .is_none_or(|types| types.contains(&kind))
    };
    for [schema, table, kind, ..] in texts(client, TABLES)? {
        if wanted.schema.is_some_and(|pattern| !like(&schema, pattern)) {
            continue;
        }
        let tables = schemas
            .entry(schema)
            .or_insert_with(|| has_tables.then(Tables::new));
        let is_table = wanted.table.is_none_or(|pattern| like(&table, pattern)) && is_type(&kind);
        if let Some(tables) = tables.as_mut().filter(|_| is_table) {
            tables.insert(table, (kind, Vec::new()));
        }
    }
    if !matches!(wanted.depth, ObjectDepth::All | ObjectDepth::Columns) {
        return Ok(schemas);
    }
    for [schema, table, _, column, place, kind, nullable] in texts(client, COLUMNS)? {
        let tables = schemas.get_mut(&schema).and_then(Option::as_mut);
        let Some((_, columns)) = tables.and_then(|tables| tables.get_mut(&table)) else {
            continue;
        };
        if wanted.column.is_none_or(|pattern| like(&column, pattern)) {
            let place = place.parse().unwrap_or_default();
            columns.push((column, place, kind, nullable == "YES"));
        }
    }
    Ok(schemas)
}

/// The rows of a query as texts.
fn texts(client: &Client, sql: &str) -> Result<Vec<[String; 7]>> {
    let mut texts = Vec::new();
    for statement in client.read(sql).map_err(told)? {
        let StatementResult::Rows(stream) = client.run(&statement, None).map_err(told)? else {
            continue;
        };
        let mut rows = client.rows(stream);
        while let Some(batch) = rows.next_batch().map_err(told)? {
            let columns = batch.columns().iter();
            let columns = columns.map(|column| cast(column, &DataType::Utf8));
            let columns = columns.collect::<std::result::Result<Vec<_>, _>>();
            let columns = columns.map_err(|error| told(Failure::Arrow(error)))?;
            for row in 0..batch.num_rows() {
                let text = |index: usize| match columns[index].is_null(row) {
                    true => String::new(),
                    false => columns[index].as_string::<i32>().value(row).to_owned(),
                };
                texts.push(std::array::from_fn(text));
            }
        }
    }
    Ok(texts)
}

/// Whether a text is as the pattern says: `%` is any text, `_` any character.
fn like(text: &str, pattern: &str) -> bool {
    match pattern.chars().next() {
        None => text.is_empty(),
        Some('%') => {
            let rest = &pattern[1..];
            like(text, rest)
                || text
                    .chars()
                    .next()
                    .is_some_and(|first| like(&text[first.len_utf8()..], pattern))
        }
        Some(wanted) => text.chars().next().is_some_and(|first| {
            (wanted == '_' || wanted == first)
                && like(&text[first.len_utf8()..], &pattern[wanted.len_utf8()..])
        }),
    }
}
