//! `nearfar.traffic`.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use crate::columns::{self, Columns, Of};
use crate::engine::Engine;
use nearfar_table::traffic::TrafficRow;

/// Bytes per second of a gigabyte per second.
const GB_PER_S: f64 = 1e9;

struct Row {
    tier: String,
    of: TrafficRow,
}

const COLUMNS: &Columns<Row> = &[
    ("tier", Of::Text(|row| Some(row.tier.clone()))),
    ("task", Of::Text(|row| Some(row.of.task.name().to_owned()))),
    ("session", Of::Count(|row| row.of.session)),
    ("read_bytes", Of::Count(|row| Some(row.of.moved.read_bytes))),
    (
        "written_bytes",
        Of::Count(|row| Some(row.of.moved.written_bytes)),
    ),
    (
        "saved_bytes",
        Of::Count(|row| Some(row.of.moved.saved_bytes)),
    ),
    (
        "read_gb_per_s",
        Of::Float(|row| Some(row.of.read_bytes_per_s / GB_PER_S)),
    ),
    (
        "written_gb_per_s",
        Of::Float(|row| Some(row.of.written_bytes_per_s / GB_PER_S)),
    ),
    ("waits", Of::Count(|row| Some(row.of.moved.waits))),
    (
        "waited_s",
        Of::Float(|row| Some(row.of.moved.wait.as_secs_f64())),
    ),
];

pub fn schema() -> SchemaRef {
    columns::schema(COLUMNS)
}

pub fn traffic(engine: Option<&Engine>) -> Result<RecordBatch, ArrowError> {
    let rows = engine.map_or(Vec::new(), |engine| {
        let named = |of: TrafficRow| Row {
            tier: engine.system().info(of.tier).name.clone(),
            of,
        };
        engine.traffic().rows().into_iter().map(named).collect()
    });
    columns::batch(COLUMNS, &rows)
}
