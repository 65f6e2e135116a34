//! `nearfar.indexes`.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use std::sync::Arc;

use super::rows::{Found, found};
use crate::columns::{self, Columns, Of};
use crate::engine::Engine;
use crate::engine::catalog::SessionTables;
use nearfar_table::table::{IndexPlacement, IndexRole, IndexStatistics, IndexTier, TableIndex};

struct Row {
    schema: String,
    table: String,
    index: Arc<TableIndex>,
    columns: String,
    statistics: IndexStatistics,
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
    ("levels", Of::Count(|row| row.index.levels().map(u64::from))),
    (
        "policy",
        Of::Text(|row| Some(row.placement().policy.name().to_owned())),
    ),
    (
        "near_share",
        Of::Float(|row| {
            let placement = row.placement();
            let has_share = placement.policy.has_share();
            has_share.then(|| f64::from(placement.near_percent) / 100.0)
        }),
    ),
    (
        "tier_nodes",
        Of::Text(|row| Some(row.by_tier(|tier| tier.nodes))),
    ),
    (
        "tier_bytes",
        Of::Text(|row| Some(row.by_tier(|tier| tier.node_bytes))),
    ),
    (
        "region_bytes",
        Of::Count(|row| {
            let tiers = row.statistics.tiers.iter();
            Some(tiers.map(|tier| tier.region_bytes).sum())
        }),
    ),
    ("promoted", Of::Count(|row| Some(row.statistics.promoted))),
    ("demoted", Of::Count(|row| Some(row.statistics.demoted))),
    ("near_used", Of::Float(|row| row.statistics.near_used)),
    (
        "near_low",
        Of::Float(|row| row.statistics.watermarks.map(|(low, _)| low)),
    ),
    (
        "near_high",
        Of::Float(|row| row.statistics.watermarks.map(|(_, high)| high)),
    ),
];

impl Row {
    fn placement(&self) -> &IndexPlacement {
        &self.index.definition().placement
    }

    fn by_tier(&self, of: impl Fn(&IndexTier) -> u64) -> String {
        let tiers = self.statistics.tiers.iter();
        let tiers = tiers.map(|tier| format!("{} {}", tier.name, of(tier)));
        tiers.collect::<Vec<_>>().join(", ")
    }
}

pub fn schema() -> SchemaRef {
    columns::schema(COLUMNS)
}

pub fn indexes(
    engine: Option<&Engine>,
    tables: Option<&SessionTables>,
) -> Result<RecordBatch, ArrowError> {
    let rows: Vec<Row> = found(engine, tables).iter().flat_map(rows_of).collect();
    columns::batch(COLUMNS, &rows)
}

fn rows_of(found: &Found) -> Vec<Row> {
    let snapshot = found.table.snapshot();
    let rows = snapshot.indexes().iter().map(|index| Row {
        schema: found.schema.clone(),
        table: found.name.clone(),
        columns: index.to_string(),
        statistics: index.statistics(),
        index: Arc::clone(index),
    });
    rows.collect()
}
