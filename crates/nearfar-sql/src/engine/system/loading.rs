//! `nearfar.loading`.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::rows::{Found, found};
use crate::columns::{self, Columns, Of};
use crate::engine::Engine;
use crate::engine::catalog::SessionTables;
use nearfar_table::table::PreloadPriority;

struct Row {
    schema: String,
    table: String,
    column: String,
    preload: PreloadPriority,
    segments: u64,
    loaded_segments: u64,
    bytes: u64,
    loaded_bytes: u64,
}

const COLUMNS: &Columns<Row> = &[
    ("table_schema", Of::Text(|row| Some(row.schema.clone()))),
    ("table_name", Of::Text(|row| Some(row.table.clone()))),
    ("column_name", Of::Text(|row| Some(row.column.clone()))),
    ("preload", Of::Count(|row| Some(row.preload.get().into()))),
    ("segments", Of::Count(|row| Some(row.segments))),
    (
        "loaded_segments",
        Of::Count(|row| Some(row.loaded_segments)),
    ),
    ("bytes", Of::Count(|row| Some(row.bytes))),
    ("loaded_bytes", Of::Count(|row| Some(row.loaded_bytes))),
];

pub fn schema() -> SchemaRef {
    columns::schema(COLUMNS)
}

pub fn loading(
    engine: Option<&Engine>,
    tables: Option<&SessionTables>,
) -> Result<RecordBatch, ArrowError> {
    let rows: Vec<Row> = found(engine, tables).iter().flat_map(rows).collect();
    columns::batch(COLUMNS, &rows)
}

/// A row for each column of a table.
fn rows(found: &Found) -> Vec<Row> {
    let (preload, snapshot) = (found.table.preload(), found.table.snapshot());
    let fields = found.table.schema().fields().iter().enumerate();
    let row = |(index, field): (usize, &arrow::datatypes::FieldRef)| {
        let mut row = Row {
            schema: found.schema.clone(),
            table: found.name.clone(),
            column: field.name().clone(),
            preload: preload.of(field.name()),
            segments: 0,
            loaded_segments: 0,
            bytes: 0,
            loaded_bytes: 0,
        };
        for part in snapshot.parts() {
            let slot = &part.segment.columns()[index];
            let bytes = slot.bytes() as u64;
            row.segments += 1;
            row.bytes += bytes;
            if slot.in_memory().is_some() {
                row.loaded_segments += 1;
                row.loaded_bytes += bytes;
            }
        }
        row
    };
    fields.map(row).collect()
}
