//! `nearfar.tables`, `nearfar.segments` and `nearfar.column_access`.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use nearfar_memory::{TierBytes, TierId};
use std::sync::Arc;

use crate::columns::{self, Columns, Of};
use crate::engine::catalog::{SessionTables, TEMPORARY};
use crate::engine::{Engine, Tablespaces};
use crate::scan::table_of;
use nearfar_table::table::{AccessCounts, Snapshot, Table};

/// A table in memory, and the schema it is in.
pub(super) struct Found {
    pub schema: String,
    pub name: String,
    pub table: Arc<Table>,
}

/// All that a session sees, with schemas and names.
pub(super) fn seen(
    engine: Option<&Engine>,
    tables: Option<&SessionTables>,
) -> impl Iterator<Item = (String, String, Arc<dyn TableProvider>)> {
    // The session of a view's definition can have ended.
    let permanent = tables.map(SessionTables::permanent);
    let permanent = permanent.or(engine.map(|engine| Arc::clone(engine.catalog())));
    let shared = permanent.into_iter().flat_map(|permanent| permanent.all());
    let shared = shared.map(|(schema, map)| (schema, map.all()));
    let own = tables.map(|tables| (TEMPORARY.to_owned(), tables.temporary().all()));
    shared.chain(own).flat_map(|(schema, providers)| {
        let named = move |(name, provider)| (schema.clone(), name, provider);
        providers.into_iter().map(named)
    })
}

/// All tables in memory that a session sees.
pub(super) fn found(engine: Option<&Engine>, tables: Option<&SessionTables>) -> Vec<Found> {
    let found = |(schema, name, provider): (String, String, Arc<dyn TableProvider>)| {
        let table = Arc::clone(table_of(provider.as_ref())?);
        Some(Found {
            schema,
            name,
            table,
        })
    };
    seen(engine, tables).filter_map(found).collect()
}

/// Different placements, in the order they were met.
#[derive(Default)]
struct Placements(Vec<String>);

impl Placements {
    fn add(&mut self, placement: String) {
        if !self.0.contains(&placement) {
            self.0.push(placement);
        }
    }

    fn text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join("; "))
    }
}

fn near(bytes: &TierBytes) -> u64 {
    bytes[TierId::NEAR]
}

/// What is on all other tiers together: `far_bytes`, which is no single tier's where there are several.
fn not_near(bytes: &TierBytes) -> u64 {
    bytes.total() - near(bytes)
}

/// Tiers with bytes, near to far: `near 8192, cxl 4096`.
fn by_tier(bytes: &TierBytes, spaces: &Tablespaces) -> String {
    let tiers = bytes
        .iter()
        .map(|(tier, bytes)| format!("{} {bytes}", spaces.name(tier)));
    tiers.collect::<Vec<_>>().join(", ")
}

struct TableRow {
    found: Found,
    snapshot: Snapshot,
    bytes: TierBytes,
    tiers: String,
    placements: Placements,
}

const TABLES: &Columns<TableRow> = &[
    (
        "table_schema",
        Of::Text(|row| Some(row.found.schema.clone())),
    ),
    ("table_name", Of::Text(|row| Some(row.found.name.clone()))),
    (
        "kind",
        Of::Text(|row| {
            let kind = match row.found.table.temporary() {
                Some(_) => "temporary",
                None => "permanent",
            };
            Some(kind.to_owned())
        }),
    ),
    (
        "session",
        Of::Count(|row| row.found.table.temporary().map(|budget| budget.session())),
    ),
    ("rows", Of::Count(|row| Some(row.snapshot.rows() as u64))),
    (
        "columns",
        Of::Count(|row| Some(row.found.table.schema().fields().len() as u64)),
    ),
    (
        "segments",
        Of::Count(|row| Some(row.snapshot.main().len() as u64)),
    ),
    ("bytes", Of::Count(|row| Some(row.bytes.total()))),
    ("near_bytes", Of::Count(|row| Some(near(&row.bytes)))),
    ("far_bytes", Of::Count(|row| Some(not_near(&row.bytes)))),
    ("tier_bytes", Of::Text(|row| Some(row.tiers.clone()))),
    ("placement", Of::Text(|row| row.placements.text())),
    (
        "delta_rows",
        Of::Count(|row| Some(row.snapshot.delta_rows() as u64)),
    ),
    (
        "delta_bytes",
        Of::Count(|row| {
            let delta = row.snapshot.delta().iter();
            Some(delta.map(|part| part.segment.bytes()).sum())
        }),
    ),
    (
        "deleted_rows",
        Of::Count(|row| Some(row.snapshot.deleted_rows() as u64)),
    ),
    ("merges", Of::Count(|row| Some(row.found.table.merges()))),
];

pub fn tables_schema() -> SchemaRef {
    columns::schema(TABLES)
}

pub fn tables(
    engine: Option<&Engine>,
    tables: Option<&SessionTables>,
) -> Result<RecordBatch, ArrowError> {
    let spaces = engine.map(Engine::tablespaces);
    let row = |found: Found| {
        let snapshot = found.table.snapshot();
        let (bytes, mut placements) = (found.table.tier_bytes(), Placements::default());
        if let Some(spaces) = &spaces {
            let main = snapshot.main().iter();
            for column in main.flat_map(|part| part.segment.columns()) {
                placements.add(spaces.describe(&column.placement()));
            }
            if snapshot.main().is_empty() {
                placements.add(spaces.describe(&found.table.placements().default));
            }
        }
        let tiers = spaces.as_ref().map(|spaces| by_tier(&bytes, spaces));
        TableRow {
            found,
            snapshot,
            bytes,
            tiers: tiers.unwrap_or_default(),
            placements,
        }
    };
    let rows: Vec<TableRow> = found(engine, tables).into_iter().map(row).collect();
    columns::batch(TABLES, &rows)
}

struct SegmentRow {
    schema: String,
    table: String,
    segment: u64,
    column: String,
    encoding: &'static str,
    rows: u64,
    bytes: TierBytes,
    tiers: String,
    placement: String,
    storage: &'static str,
    deleted_rows: u64,
}

const SEGMENTS: &Columns<SegmentRow> = &[
    ("table_schema", Of::Text(|row| Some(row.schema.clone()))),
    ("table_name", Of::Text(|row| Some(row.table.clone()))),
    ("segment", Of::Count(|row| Some(row.segment))),
    ("column_name", Of::Text(|row| Some(row.column.clone()))),
    ("encoding", Of::Text(|row| Some(row.encoding.to_owned()))),
    ("rows", Of::Count(|row| Some(row.rows))),
    ("bytes", Of::Count(|row| Some(row.bytes.total()))),
    ("near_bytes", Of::Count(|row| Some(near(&row.bytes)))),
    ("far_bytes", Of::Count(|row| Some(not_near(&row.bytes)))),
    ("tier_bytes", Of::Text(|row| Some(row.tiers.clone()))),
    ("placement", Of::Text(|row| Some(row.placement.clone()))),
    ("storage", Of::Text(|row| Some(row.storage.to_owned()))),
    ("deleted_rows", Of::Count(|row| Some(row.deleted_rows))),
];

pub fn segments_schema() -> SchemaRef {
    columns::schema(SEGMENTS)
}

pub fn segments(
    engine: Option<&Engine>,
    tables: Option<&SessionTables>,
) -> Result<RecordBatch, ArrowError> {
    let mut rows = Vec::new();
    if let Some(spaces) = engine.map(Engine::tablespaces) {
        for found in found(engine, tables) {
            add_segments(&found, &spaces, &mut rows);
        }
    }
    columns::batch(SEGMENTS, &rows)
}

fn add_segments(found: &Found, spaces: &Tablespaces, rows: &mut Vec<SegmentRow>) {
    let fields = found.table.schema().fields();
    let snapshot = found.table.snapshot();
    for (index, part) in snapshot.parts().iter().enumerate() {
        let segment = &part.segment;
        for (column, field) in segment.columns().iter().zip(fields) {
            let bytes = column.tier_bytes();
            rows.push(SegmentRow {
                schema: found.schema.clone(),
                table: found.name.clone(),
                segment: index as u64,
                column: field.name().clone(),
                encoding: column.encoding_kind().name(),
                rows: segment.rows() as u64,
                tiers: by_tier(&bytes, spaces),
                bytes,
                placement: spaces.describe(&column.placement()),
                storage: match index < snapshot.main().len() {
                    true => "main",
                    false => "delta",
                },
                deleted_rows: part.deleted_rows() as u64,
            });
        }
    }
}

struct AccessRow {
    schema: String,
    table: String,
    column: String,
    counts: AccessCounts,
    bytes: u64,
    placements: Placements,
}

const COLUMN_ACCESS: &Columns<AccessRow> = &[
    ("table_schema", Of::Text(|row| Some(row.schema.clone()))),
    ("table_name", Of::Text(|row| Some(row.table.clone()))),
    ("column_name", Of::Text(|row| Some(row.column.clone()))),
    ("sequential", Of::Count(|row| Some(row.counts.sequential))),
    ("monotonic", Of::Count(|row| Some(row.counts.monotonic))),
    ("random", Of::Count(|row| Some(row.counts.random))),
    ("point", Of::Count(|row| Some(row.counts.point))),
    ("total", Of::Count(|row| Some(row.counts.total()))),
    ("bytes", Of::Count(|row| Some(row.bytes))),
    ("placement", Of::Text(|row| row.placements.text())),
];

pub fn column_access_schema() -> SchemaRef {
    columns::schema(COLUMN_ACCESS)
}

pub fn column_access(
    engine: Option<&Engine>,
    tables: Option<&SessionTables>,
) -> Result<RecordBatch, ArrowError> {
    let mut rows = Vec::new();
    if let Some(spaces) = engine.map(Engine::tablespaces) {
        for found in found(engine, tables) {
            let snapshot = found.table.snapshot();
            for (index, field) in found.table.schema().fields().iter().enumerate() {
                let mut row = AccessRow {
                    schema: found.schema.clone(),
                    table: found.name.clone(),
                    column: field.name().clone(),
                    counts: found.table.access_counts(index),
                    bytes: 0,
                    placements: Placements::default(),
                };
                for part in snapshot.parts() {
                    let column = &part.segment.columns()[index];
                    row.bytes += column.bytes() as u64;
                    row.placements.add(spaces.describe(&column.placement()));
                }
                rows.push(row);
            }
        }
    }
    columns::batch(COLUMN_ACCESS, &rows)
}
