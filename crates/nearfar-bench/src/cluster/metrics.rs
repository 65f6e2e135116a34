//! The rounds as lines of the results schema; all are measured.
//!
//! | metric | unit | what |
//! |---|---|---|
//! | `cluster_overhead_ratio` | ratio | the cluster's time over that of one process, the geometric mean over queries |
//! | `cluster_bytes_exchanged` | bytes | bytes that nodes sent each other for all queries, once each |
//! | `cluster_query_ratio` | ratio | the same as the first, of one `query` |
//! | `cluster_query_bytes` | bytes | the same as the second, of one `query` |
//! | `cluster_load_ratio` | ratio | the cluster's time for loading over that of one process |
//!
//! All have `workers`, `sf` and `threads`.

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use serde_json::{Value, json};

use super::run::{ClusterOutcome, ClusterRound, QueryRound};
use crate::tpch::geometric_mean;

impl ClusterOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        let options = &self.options;
        json!({
            "sf": options.scale_factor,
            "threads": options.threads,
            "workers": options.workers,
            "runs": options.runs,
        })
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let rounds = self.rounds.iter().flat_map(|round| {
            figures(round).into_iter().map(|metric| {
                metric
                    .with("workers", round.workers)
                    .with("sf", self.options.scale_factor)
                    .with("threads", self.options.threads)
            })
        });
        rounds.collect()
    }
}

fn measured(name: &str, value: f64, unit: &str) -> Metric {
    Metric::new(name, value, unit, Kind::Measured)
}

fn ratio(query: &QueryRound) -> f64 {
    query.cluster.as_secs_f64() / query.single.as_secs_f64()
}

fn figures(round: &ClusterRound) -> Vec<Metric> {
    let ratios: Vec<f64> = round.queries.iter().map(ratio).collect();
    let bytes: u64 = round.queries.iter().map(|query| query.bytes).sum();
    let (single, cluster) = round.loading;
    let loading = cluster.as_secs_f64() / single.as_secs_f64();
    let mut figures = vec![
        measured(
            "cluster_overhead_ratio",
            geometric_mean(ratios.iter().copied()),
            "ratio",
        ),
        measured("cluster_bytes_exchanged", bytes as f64, "bytes"),
        measured("cluster_load_ratio", loading, "ratio"),
    ];
    for query in &round.queries {
        figures.push(
            measured("cluster_query_ratio", ratio(query), "ratio").with("query", query.query),
        );
        figures.push(
            measured("cluster_query_bytes", query.bytes as f64, "bytes").with("query", query.query),
        );
    }
    figures
}
