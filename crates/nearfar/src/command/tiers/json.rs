//! Tiers as metrics of the results schema.

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use nearfar_topology::{Known, Tier, TierKind, Topology};
use serde_json::json;

use super::Probed;

/// Every figure of every tier: sizes as the kernel tells them (measured), performance as declared
/// (published), and what was probed (measured, or modelled).
pub fn metrics(topology: &Topology, probed: &[Probed]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (index, tier) in topology.tiers.iter().enumerate() {
        metrics.extend(sizes(tier));
        metrics.extend(declared(tier));
        match probed.get(index) {
            Some(Ok(result)) => metrics.extend(result.metrics(&tier.name)),
            Some(Err(reason)) => metrics.extend(not_probed(tier, reason)),
            None => {}
        }
    }
    metrics
}

fn sizes(tier: &Tier) -> [Metric; 3] {
    let kind = if tier.kind == TierKind::Modelled {
        Kind::Modelled
    } else {
        Kind::Measured
    };
    let bytes = |known: &Known<u64>| known.clone().map(|bytes| bytes as f64);
    let distance = tier.distance.clone().map(f64::from);
    [
        ("capacity_bytes", bytes(&tier.capacity_bytes), "B", kind),
        ("free_bytes", bytes(&tier.free_bytes), "B", kind),
        ("distance", distance, "SLIT", Kind::Published),
    ]
    .map(|(name, value, unit, kind)| {
        metric(name, &value, unit, kind, tier).with("tier_kind", json!(tier.kind))
    })
}

fn declared(tier: &Tier) -> [Metric; 4] {
    let declared = &tier.declared;
    [
        ("idle_latency_ns", &declared.read_latency_ns, "ns"),
        ("write_latency_ns", &declared.write_latency_ns, "ns"),
        (
            "read_bandwidth_bytes_per_s",
            &declared.read_bandwidth_bytes_per_s,
            "B/s",
        ),
        (
            "write_bandwidth_bytes_per_s",
            &declared.write_bandwidth_bytes_per_s,
            "B/s",
        ),
    ]
    .map(|(name, value, unit)| {
        metric(name, value, unit, Kind::Published, tier).with("declared_by", json!(declared.source))
    })
}

fn not_probed(tier: &Tier, reason: &str) -> [Metric; 3] {
    [
        ("idle_latency_ns", "ns"),
        ("read_bandwidth_bytes_per_s", "B/s"),
        ("write_bandwidth_bytes_per_s", "B/s"),
    ]
    .map(|(name, unit)| {
        Metric::unavailable(name, reason, unit, Kind::Measured).with("tier", tier.name.as_str())
    })
}

fn metric(name: &str, value: &Known<f64>, unit: &str, kind: Kind, tier: &Tier) -> Metric {
    let metric = match value {
        Known::Value(value) => Metric::new(name, *value, unit, kind),
        Known::Unavailable(reason) => Metric::unavailable(name, reason, unit, kind),
    };
    metric.with("tier", tier.name.as_str())
}
