//! A run as lines of the results schema.
//!
//! | metric | unit | dimensions |
//! |---|---|---|
//! | `tpch_load_seconds` | s | `table`, `rows`, `arrow_bytes`, `stored_bytes` |
//! | `tpch_query_seconds` | s | `placement`, `query` |
//! | `tpch_query_read_bytes` | B | `placement`, `query`, `tier` |
//! | `tpch_stored_bytes` | B | `placement`, `tier` |
//! | `tpch_read_bytes` | B | `placement`, `tier` |
//! | `tpch_migration_seconds` | s | `placement` |
//! | `tpch_total_seconds` | s | `placement` |
//! | `tpch_geomean_seconds` | s | `placement` |
//! | `tpch_relative_throughput` | ratio | `placement`; published ones: `system`, `source` |
//! | `tpch_relative_geomean` | ratio | `placement` |
//! | `tpch_checked_queries` | queries | |
//! | `throughput_ratio_to_near` | ratio | `placement`: `tpch_relative_throughput` without a benchmark in its name |
//!
//! Those of TPC-DS begin with `tpcds`. All carry `scale_factor` and `threads`, but for published ones, which are of TPC-H.

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use serde_json::{Value, json};

use super::outcome::{BytesByTier, Outcome, PlacementOutcome, TableOutcome};
use super::published::{self, PublishedThroughput};
use super::suite::Suite;

impl Outcome {
    /// What was run, for the header of results and reports.
    pub fn configuration(&self) -> Value {
        let placements: Vec<String> = self
            .placements
            .iter()
            .map(|p| p.placement.to_string())
            .collect();
        let far = self
            .far
            .as_ref()
            .map_or("none".to_owned(), |far| match &far.modelled {
                Some(after) => format!("{} ({after})", far.name),
                None => far.name.clone(),
            });
        json!({
            "benchmark": self.options.suite.to_string(),
            "scale factor": self.options.scale_factor,
            "threads": self.threads,
            "runs": self.options.runs,
            "queries": self.options.queries,
            "placements": placements,
            "far tier": far,
        })
    }

    /// All figures of the run, and the published ones.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = self.tables.iter().map(table_metric).collect();
        let suite = self.options.suite;
        if let Some(checked) = &self.checked {
            let count = checked.len() as f64;
            metrics.push(Metric::new(
                "tpch_checked_queries",
                count,
                "queries",
                Kind::Measured,
            ));
        }
        if let Some(near) = self.near() {
            metrics.extend(
                self.placements
                    .iter()
                    .flat_map(|p| placement_metrics(p, near)),
            );
        }
        for metric in &mut metrics {
            if let Some(rest) = metric.metric.strip_prefix("tpch_") {
                metric.metric = format!("{}_{rest}", suite.name());
            }
            let dimensions = &mut metric.dimensions;
            dimensions.insert("scale_factor".to_owned(), json!(self.options.scale_factor));
            dimensions.insert("threads".to_owned(), json!(self.threads));
        }
        if suite == Suite::TpcH {
            metrics.extend(published::hyrise().iter().map(published_metric));
        }
        metrics
    }
}

fn table_metric(table: &TableOutcome) -> Metric {
    Metric::new(
        "tpch_load_seconds",
        table.elapsed.as_secs_f64(),
        "s",
        Kind::Measured,
    )
    .with("table", table.name.as_str())
    .with("rows", table.rows)
    .with("arrow_bytes", table.arrow_bytes)
    .with("stored_bytes", table.stored_bytes)
}

fn placement_metrics(placed: &PlacementOutcome, near: &PlacementOutcome) -> Vec<Metric> {
    let kind = placed.kind;
    let mut metrics = Vec::new();
    for query in &placed.queries {
        let seconds = Metric::of_runs("tpch_query_seconds", &query.summary(), "s", kind);
        let read = bytes_metrics("tpch_query_read_bytes", &query.read_bytes);
        let of_query = std::iter::once(seconds).chain(read);
        metrics.extend(of_query.map(|metric| metric.with("query", query.number)));
    }
    metrics.extend(bytes_metrics("tpch_stored_bytes", &placed.stored_bytes));
    metrics.extend(bytes_metrics("tpch_read_bytes", &placed.read_bytes()));
    metrics.push(migration_metric(placed));
    let figures = [
        ("tpch_geomean_seconds", placed.geometric_mean(), "s"),
        (
            "tpch_relative_geomean",
            placed.relative_geometric_mean(near),
            "ratio",
        ),
    ];
    metrics.extend(figures.map(|(name, value, unit)| Metric::new(name, value, unit, kind)));
    metrics.push(Metric::of_runs(
        "tpch_total_seconds",
        &placed.total(),
        "s",
        kind,
    ));
    let relative = placed.relative_throughput_of_runs(near);
    let names = ["tpch_relative_throughput", "throughput_ratio_to_near"];
    metrics.extend(names.map(|name| Metric::of_runs(name, &relative, "ratio", kind)));
    let placement = placed.placement.to_string();
    metrics
        .into_iter()
        .map(|metric| metric.with("placement", placement.as_str()))
        .collect()
}

fn migration_metric(placed: &PlacementOutcome) -> Metric {
    const NAME: &str = "tpch_migration_seconds";
    match placed.kind {
        Kind::Modelled => {
            let reason = "moves to and from a modelled tier are not held to its profile";
            Metric::unavailable(NAME, reason, "s", Kind::Modelled)
        }
        kind => Metric::new(NAME, placed.migration.as_secs_f64(), "s", kind),
    }
}

/// Bytes are counted, whether the tier is modelled or not.
fn bytes_metrics(name: &str, bytes: &BytesByTier) -> Vec<Metric> {
    bytes
        .iter()
        .map(|(tier, bytes)| {
            Metric::new(name, *bytes as f64, "B", Kind::Measured).with("tier", tier.as_str())
        })
        .collect()
}

fn published_metric(figure: &PublishedThroughput) -> Metric {
    Metric::new(
        "tpch_relative_throughput",
        figure.middle(),
        "ratio",
        Kind::Published,
    )
    .with("placement", figure.placement.as_str())
    .with("low", figure.low)
    .with("high", figure.high)
    .with("system", published::SYSTEM)
    .with("source", figure.source.as_str())
}
