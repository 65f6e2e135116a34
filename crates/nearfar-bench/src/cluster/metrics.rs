//! The rounds as lines of the results schema; all are measured.
//!
//! | metric | unit | what |
//! |---|---|---|
//! | `cluster_overhead_ratio` | ratio | the cluster's time over that of one process, the geometric mean over queries |
//! | `cluster_bytes_exchanged` | bytes | bytes that nodes sent each other for all queries, once each |
//! | `cluster_query_ratio` | ratio | the same as the first, of one `query` |
//! | `cluster_query_bytes` | bytes | the same as the second, of one `query` |
//! | `cluster_queries_right` | queries | those that the cluster has answered as one process does; the others are not counted above |
//! | `cluster_load_ratio` | ratio | the cluster's time for loading over that of one process |
//!
//! All have `suite`, `workers`, `sf` and `threads`.

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use serde_json::{Value, json};

use super::run::{ClusterOutcome, ClusterRound, QueryTimes};
use crate::tpch::geometric_mean;

impl ClusterOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        let options = &self.options;
        json!({
            "suite": options.suite.name(),
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
                    .with("suite", self.options.suite.name())
                    .with("workers", round.workers)
                    .with("sf", self.options.scale_factor)
                    .with("threads", self.options.threads)
            })
        });
        rounds.collect()
    }
}

/// A figure, or why there is none.
fn measured(name: &str, value: Result<f64, &str>, unit: &str) -> Metric {
    match value {
        Ok(value) => Metric::new(name, value, unit, Kind::Measured),
        Err(reason) => Metric::unavailable(name, reason, unit, Kind::Measured),
    }
}

fn ratio(times: &QueryTimes) -> f64 {
    times.cluster.as_secs_f64() / times.single.as_secs_f64()
}

fn figures(round: &ClusterRound) -> Vec<Metric> {
    let right = || {
        let outcomes = round.queries.iter().map(|query| query.outcome.as_ref());
        outcomes.filter_map(Result::ok)
    };
    let bytes: u64 = right().map(|times| times.bytes).sum();
    let (single, cluster) = round.loading;
    let loading = cluster.as_secs_f64() / single.as_secs_f64();
    let overhead = match right().next() {
        Some(_) => Ok(geometric_mean(right().map(ratio))),
        None => Err("no query was answered right"),
    };
    let mut figures = vec![
        measured("cluster_overhead_ratio", overhead, "ratio"),
        measured("cluster_bytes_exchanged", Ok(bytes as f64), "bytes"),
        measured(
            "cluster_queries_right",
            Ok(right().count() as f64),
            "queries",
        ),
        measured("cluster_load_ratio", Ok(loading), "ratio"),
    ];
    for query in &round.queries {
        let times = query.outcome.as_ref().map_err(String::as_str);
        let bytes = times.map(|times| times.bytes as f64);
        for figure in [
            measured("cluster_query_ratio", times.map(ratio), "ratio"),
            measured("cluster_query_bytes", bytes, "bytes"),
        ] {
            figures.push(figure.with("query", query.query));
        }
    }
    figures
}
