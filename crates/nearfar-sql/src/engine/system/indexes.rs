//! `nearfar.indexes`.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use std::sync::Arc;

use super::rows::{Found, found};
use crate::columns::{self, Columns, Of};
use crate::engine::Engine;
use crate::engine::catalog::TableMap;
use nearfar_table::table::{IndexRole, TableIndex};

struct Row {
    schema: String,
    table: String,
    index: Arc<TableIndex>,
    columns: String,
}

const COLUMNS: &Columns<Row> = &[
    ("table_schema", Of::Text(|row| Some(row.schema.clone()))),
    ("table_name", Of::Text(|row| Some(row.table.clone()))),
    (
        "index_name",
        Of::Text(|row| Some(row.index.definition().name.clone())),
    ),
    ("columns", Of::Text(|row| Some(row.columns.clone()))),
    (
        "kind",
        Of::Text(|row| Some(row.index.definition().kind.name().to_owned())),
    ),
    (
        "is_unique",
        Of::Flag(|row| row.index.definition().role.is_unique()),
    ),
    (
        "is_primary",
        Of::Flag(|row| row.index.definition().role == IndexRole::PrimaryKey),
    ),
    (
        "keys",
        Of::Count(|row| row.index.len().map(|keys| keys as u64)),
    ),
    ("bytes", Of::Count(|row| Some(row.index.bytes()))),
];

pub fn schema() -> SchemaRef {
    columns::schema(COLUMNS)
}

pub fn indexes(
    engine: Option<&Engine>,
    temporary: Option<&TableMap>,
) -> Result<RecordBatch, ArrowError> {
    let rows: Vec<Row> = found(engine, temporary).iter().flat_map(rows_of).collect();
    columns::batch(COLUMNS, &rows)
}

fn rows_of(found: &Found) -> Vec<Row> {
    let snapshot = found.table.snapshot();
    let rows = snapshot.indexes().iter().map(|index| Row {
        schema: found.schema.clone(),
        table: found.name.clone(),
        columns: index.to_string(),
        index: Arc::clone(index),
    });
    rows.collect()
}
