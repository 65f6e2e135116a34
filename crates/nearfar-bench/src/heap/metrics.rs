//! The comparison as lines of the results schema.
//!
//! | metric | unit | dimensions |
//! |---|---|---|
//! | `heap_relative_throughput` | ratio | `configuration`, `devices`, `workload`; published ones: `low`, `high`, `source` |
//! | `heap_query_seconds` | s | `configuration`, `devices`, `workload`, `query` |
//!
//! `configuration` is what is far (`near`: nothing), `devices` whose bandwidth the far tier has, in
//! those of the profile or of the machine. A relative throughput is time with everything near over time with one thing
//! far: below 1, far costs. The workload `analytical` is that of all queries that scan or live on
//! the heap. What is measured with everything near is measured; what has something far is modelled where
//! the far tier is.

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use serde_json::{Value, json};

use super::published::{PublishedLoss, published};
use super::queries::Workload;
use super::run::{Configuration, HeapBenchOutcome, Timed};

/// Groups of workloads, by name.
const GROUPS: [(&str, &[Workload]); 4] = [
    ("analytical", &[Workload::Scan, Workload::Heap]),
    ("scan", &[Workload::Scan]),
    ("heap", &[Workload::Heap]),
    ("temporary", &[Workload::Temporary]),
];

impl HeapBenchOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        json!({
            "scale_factor": self.options.scale_factor,
            "threads": self.options.threads,
            "runs": self.options.runs,
            "profile": self.profile_name(),
        })
    }

    /// All figures, and the published ones behind them.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.relative_throughputs();
        let far = self.far_kind();
        let timed = self.timed.iter();
        metrics.extend(timed.filter_map(|timed| query_metric(timed, far)));
        for metric in &mut metrics {
            let dimensions = &mut metric.dimensions;
            dimensions.insert("scale_factor".to_owned(), json!(self.options.scale_factor));
            dimensions.insert("threads".to_owned(), json!(self.options.threads));
            dimensions.insert("profile".to_owned(), json!(self.profile_name()));
        }
        metrics.extend(published().iter().map(published_metric));
        metrics
    }

    /// None where the far tier is the machine's own.
    fn profile_name(&self) -> Option<&str> {
        let profile = self.options.profile.as_ref();
        profile.map(|profile| profile.name.as_str())
    }

    /// What figures are with something far.
    fn far_kind(&self) -> Kind {
        match self.options.profile {
            Some(_) => Kind::Modelled,
            None => Kind::Measured,
        }
    }

    fn relative_throughputs(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for configuration in &Configuration::ALL[1..] {
            for devices in [1, 2] {
                for (group, workloads) in GROUPS {
                    let ratio = self.relative_throughput(*configuration, devices, workloads);
                    metrics.extend(ratio.map(|ratio| {
                        Metric::of_runs(NAME, &ratio, "ratio", self.far_kind())
                            .with("configuration", configuration.to_string())
                            .with("devices", devices)
                            .with("workload", group)
                    }));
                }
            }
        }
        metrics
    }
}

const NAME: &str = "heap_relative_throughput";

fn query_metric(timed: &Timed, far: Kind) -> Option<Metric> {
    let kind = match timed.configuration {
        Configuration::Near => Kind::Measured,
        _ => far,
    };
    let seconds = nearfar_measure::Summary::of(timed.seconds.iter().copied())?;
    let metric = Metric::of_runs("heap_query_seconds", &seconds, "s", kind);
    Some(
        metric
            .with("configuration", timed.configuration.to_string())
            .with("devices", timed.devices)
            .with("workload", timed.workload.to_string())
            .with("query", timed.query),
    )
}

fn published_metric(loss: &PublishedLoss) -> Metric {
    let middle = loss.low.midpoint(loss.high);
    Metric::new(NAME, middle, "ratio", Kind::Published)
        .with("configuration", loss.configuration.to_string())
        .with("devices", loss.devices)
        .with("workload", loss.workload)
        .with("low", loss.low)
        .with("high", loss.high)
        .with("source", loss.source)
}
