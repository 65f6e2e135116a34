//! `nearfar.tiers`.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use nearfar_memory::{TierId, TierInfo, TierUsage};
use nearfar_topology::{Known, Performance, Tier};

use crate::columns::{self, Columns, Of};
use crate::engine::Engine;

/// One tier: as the kernel's topology, the memory system and its ledger know it.
struct Row {
    id: TierId,
    info: TierInfo,
    usage: TierUsage,
    tier: Option<Tier>,
}

impl Row {
    fn declared(&self, of: fn(&Performance) -> &Known<f64>) -> Option<f64> {
        self.tier.as_ref().and_then(|tier| of(&tier.declared).get())
    }
}

const COLUMNS: &Columns<Row> = &[
    ("tier", Of::Count(|row| Some(row.id.index() as u64))),
    ("name", Of::Text(|row| Some(row.info.name.clone()))),
    ("kind", Of::Text(|row| Some(row.info.kind.to_string()))),
    (
        "nodes",
        Of::Text(|row| {
            let nodes: Vec<String> = row.info.nodes().iter().map(ToString::to_string).collect();
            Some(nodes.join(","))
        }),
    ),
    ("modelled", Of::Flag(|row| row.info.is_modelled())),
    (
        "capacity_bytes",
        Of::Count(|row| Some(row.info.capacity_bytes)),
    ),
    (
        "budget_bytes",
        Of::Count(|row| Some(row.usage.budget_bytes)),
    ),
    (
        "region_bytes",
        Of::Count(|row| Some(row.usage.region_bytes)),
    ),
    ("heap_bytes", Of::Count(|row| Some(row.usage.heap_bytes))),
    ("pool_bytes", Of::Count(|row| Some(row.usage.pool_bytes))),
    (
        "free_bytes",
        Of::Count(|row| Some(row.usage.available_bytes())),
    ),
    ("peak_bytes", Of::Count(|row| Some(row.usage.peak_bytes))),
    (
        "read_latency_ns",
        Of::Float(|row| row.declared(|p| &p.read_latency_ns)),
    ),
    (
        "write_latency_ns",
        Of::Float(|row| row.declared(|p| &p.write_latency_ns)),
    ),
    (
        "read_bandwidth_bytes_per_s",
        Of::Float(|row| row.declared(|p| &p.read_bandwidth_bytes_per_s)),
    ),
    (
        "write_bandwidth_bytes_per_s",
        Of::Float(|row| row.declared(|p| &p.write_bandwidth_bytes_per_s)),
    ),
];

pub fn schema() -> SchemaRef {
    columns::schema(COLUMNS)
}

pub fn tiers(engine: Option<&Engine>) -> Result<RecordBatch, ArrowError> {
    let rows = engine.map_or(Vec::new(), |engine| {
        let system = engine.system();
        let row = |(id, info): (TierId, &TierInfo)| Row {
            id,
            info: info.clone(),
            usage: system.usage(id),
            tier: engine
                .topology()
                .tiers
                .iter()
                .find(|tier| tier.name == info.name)
                .cloned(),
        };
        system.tiers().map(row).collect()
    });
    columns::batch(COLUMNS, &rows)
}
