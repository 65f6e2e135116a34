//! `nearfar.remote_tables`.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use std::sync::Arc;

use super::rows::seen;
use crate::columns::{self, Columns, Of};
use crate::engine::Engine;
use crate::engine::catalog::SessionTables;
use crate::remote::{RemoteTable, TablePlace, remote_table_of};

struct Row {
    schema: String,
    name: String,
    table: Arc<RemoteTable>,
    tier: Option<String>,
    place: TablePlace,
}

const COLUMNS: &Columns<Row> = &[
    ("table_schema", Of::Text(|row| Some(row.schema.clone()))),
    ("table_name", Of::Text(|row| Some(row.name.clone()))),
    ("tier", Of::Text(|row| row.tier.clone())),
    ("host", Of::Text(|row| Some(row.table.host().to_owned()))),
    ("rows", Of::Count(|row| Some(row.table.rows() as u64))),
    (
        "bytes",
        Of::Count(|row| match &row.place {
            TablePlace::Whole { bytes, .. } => Some(*bytes),
            TablePlace::Lost { .. } => None,
        }),
    ),
    (
        "place",
        Of::Text(|row| {
            let place = match &row.place {
                TablePlace::Whole { is_near: false, .. } => "host",
                TablePlace::Whole { is_near: true, .. } => "near",
                TablePlace::Lost { .. } => "lost",
            };
            Some(place.to_owned())
        }),
    ),
    (
        "lost_because",
        Of::Text(|row| match &row.place {
            TablePlace::Lost { reason } => Some(reason.clone()),
            TablePlace::Whole { .. } => None,
        }),
    ),
    ("rebuilt_from", Of::Text(|row| row.table.kept_in())),
];

pub fn schema() -> SchemaRef {
    columns::schema(COLUMNS)
}

pub fn tables(
    engine: Option<&Engine>,
    tables: Option<&SessionTables>,
) -> Result<RecordBatch, ArrowError> {
    let rows = seen(engine, tables).filter_map(|(schema, name, provider)| {
        let table = Arc::clone(remote_table_of(provider.as_ref())?);
        let system = engine.map(Engine::system);
        let tier = system.and_then(|system| {
            let tier = table.column_host().tier(system)?;
            Some(system.name(tier))
        });
        Some(Row {
            schema,
            name,
            place: table.place(),
            tier,
            table,
        })
    });
    columns::batch(COLUMNS, &rows.collect::<Vec<_>>())
}
