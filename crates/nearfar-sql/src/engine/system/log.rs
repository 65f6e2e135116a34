//! `nearfar.log`.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use crate::columns::{self, Columns, Of};
use crate::engine::Engine;
use nearfar_durable::log::{LogStatus, LogSync};

struct Row {
    directory: String,
    sync: LogSync,
    status: LogStatus,
}

const COLUMNS: &Columns<Row> = &[
    ("directory", Of::Text(|row| Some(row.directory.clone()))),
    ("log_sync", Of::Text(|row| Some(row.sync.to_string()))),
    ("position", Of::Count(|row| Some(row.status.position))),
    (
        "durable_position",
        Of::Count(|row| Some(row.status.durable)),
    ),
    (
        "checkpoint_position",
        Of::Count(|row| Some(row.status.checkpoint)),
    ),
    ("bytes", Of::Count(|row| Some(row.status.bytes))),
    ("records", Of::Count(|row| Some(row.status.records))),
    ("syncs", Of::Count(|row| Some(row.status.syncs))),
];

pub fn schema() -> SchemaRef {
    columns::schema(COLUMNS)
}

pub fn log(engine: Option<&Engine>) -> Result<RecordBatch, ArrowError> {
    let directory = engine.and_then(Engine::data_directory);
    let log = engine.and_then(Engine::log);
    let row = directory.zip(log).map(|(directory, log)| Row {
        directory: directory.display().to_string(),
        sync: log.sync_setting(),
        status: log.status(),
    });
    columns::batch(COLUMNS, row.as_slice())
}
