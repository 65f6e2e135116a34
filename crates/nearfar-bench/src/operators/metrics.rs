//! The benchmark as lines of the results schema.
//!
//! | metric | by | what |
//! |---|---|---|
//! | `aggregate_ratio_to_read` | | time of a plain read over that of the sum of the same column |
//! | `summary_ratio_to_read` | | the same for number, sum, smallest and largest in one pass |
//! | `filter_ratio_to_read` | | the same for a filter that passes 0.1 %, into bitmaps |
//! | `aggregate_ratio_to_arrow`, `summary_ratio_to_arrow`, `filter_ratio_to_arrow` | | time of Arrow's kernels over ours: above 1, ours is faster |
//! | `aggregate_ratio_to_datafusion` | | the same of DataFusion's plan for number, sum, smallest and largest of a column |
//! | `group_ratio_to_datafusion` | `groups` | the same by group |
//! | `join_ratio_to_datafusion` | `build_bytes` | the same of its join |
//! | `aggregate_ratio_to_duckdb`, `filter_ratio_to_duckdb`, `join_ratio_to_duckdb` | `build_bytes` of the join | the same of a query on DuckDB with one thread |
//! | `join_far_ratio_to_near` | `strategy` | modelled: throughput with the build side far over near |
//! | `join_rows_per_s` | `strategy`, `tier` | modelled: probe rows per second of one core |
//! | `sum_bytes_per_s` | `threads`, `far_threads`, `far_share_percent` | bytes of near and far buffers that threads sum, each one of its own |
//! | `sum_ratio_to_near` | the same | the same over that of no far threads |
//! | `grouped_far_ratio_to_near` | `joins`, `threads`, `placement`, `far_share_percent`, `copiers`, `chunk_bytes`, `group` | throughput over grouped copies over that with everything near |
//! | `asynchronous_far_ratio_to_near` | the same | the same over copies that begin with their join |
//! | `synchronous_far_ratio_to_near` | `joins`, `threads`, `placement`, `far_share_percent` | the same, of joins that read far columns themselves |
//! | `joins_bytes_per_s` | the same, `access` | bytes of all columns that are joined over the time |
//! | `concurrent_far_ratio_to_near` | `pipelines`, `work`, `access`, `copiers`, `chunk_bytes`, `ring_depth` | throughput of pipelines over one far column at the same time, over that with the column near |
//! | `concurrent_bytes_per_s`, `concurrent_far_bytes` | the same | bytes that all pipelines read over the time, and bytes of the far tier that were read |
//!
//! Those of two tiers are modelled in virtual time and with an emulated tier, and measured with the machine's own.

use nearfar_measure::operators::{FarJoin, FarJoinStrategy};
use nearfar_measure::report::{Note, Report};
use nearfar_measure::results::Metric;
use nearfar_measure::{Kind, Summary};
use nearfar_topology::Known;
use serde_json::{Value, json};

use super::duckdb::QueryRounds;
use super::reads::ReadsOfRound;
use super::round::Round;
use super::run::OperatorsBenchOutcome;
use crate::bench::Rival;

impl OperatorsBenchOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        json!({
            "column_bytes": self.options.column_bytes,
            "rounds": self.options.rounds,
            "build_bytes": self.options.build_bytes,
            "probe_rows": self.options.probe_rows,
            "profile": self.options.profile,
            "large_bytes": self.options.large_bytes,
            "table_bytes": self.options.table_bytes,
            "rdma_threads": self.options.rdma_threads,
            "copiers_in_share": self.options.grid.copiers_in_share,
            "tier_rounds": self.options.tier_rounds(),
            "virtual": self.options.is_virtual,
        })
    }

    /// What could not be had, with the reasons.
    pub fn unavailable(&self) -> Vec<(&'static str, &str)> {
        let far_join = self.far_joins.reason().map(|reason| ("far join", reason));
        let tiers = self.tiers.reason().map(|reason| ("far tier", reason));
        let duckdb = self.measured.duckdb.as_ref();
        let duckdb = duckdb
            .and_then(Known::reason)
            .map(|reason| (Rival::DuckDb.name(), reason));
        far_join.into_iter().chain(tiers).chain(duckdb).collect()
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.measured();
        metrics.extend(self.simulated());
        match &self.tiers {
            Known::Value(tiers) => metrics.extend(tiers.metrics()),
            Known::Unavailable(reason) => {
                let names = [
                    "sum_bytes_per_s",
                    "joins_bytes_per_s",
                    "concurrent_bytes_per_s",
                ];
                metrics.extend(
                    names.map(|name| Metric::unavailable(name, reason, "B/s", Kind::Modelled)),
                );
            }
        }
        metrics
    }

    /// Adds what was found over two tiers to a page.
    pub fn add_to(&self, report: &mut Report) {
        match &self.tiers {
            Known::Value(tiers) => {
                report.legend([tiers.kind()]);
                tiers.add_to(report);
            }
            Known::Unavailable(reason) => {
                report.note(Note::Warning, reason.clone());
            }
        }
    }

    /// The far join in the simulator, or why there is none.
    fn simulated(&self) -> Vec<Metric> {
        const RATIO: &str = "join_far_ratio_to_near";
        let profile = &*self.options.profile.name;
        let joins = match &self.far_joins {
            Known::Value(joins) => joins,
            Known::Unavailable(reason) => {
                let absent = |strategy: FarJoinStrategy| {
                    Metric::unavailable(RATIO, reason, "ratio", Kind::Modelled)
                        .with("profile", profile)
                        .with("strategy", strategy.name())
                };
                return FarJoinStrategy::ALL.map(absent).into();
            }
        };
        let of_join = |join: &FarJoin| {
            let metric = |name: &str, value: f64, unit: &str| {
                Metric::new(name, value, unit, Kind::Modelled)
                    .with("profile", profile)
                    .with("strategy", join.strategy.name())
            };
            let rows = |tier: &str, rows_per_s: f64| {
                metric("join_rows_per_s", rows_per_s, "1/s").with("tier", tier)
            };
            [
                metric(RATIO, join.ratio(), "ratio"),
                rows("near", join.near_rows_per_s),
                rows("far", join.far_rows_per_s),
            ]
        };
        joins.iter().flat_map(of_join).collect()
    }

    fn measured(&self) -> Vec<Metric> {
        let mut metrics = self.of_reads();
        for (groups, rounds) in &self.measured.aggregates {
            metrics.extend(match groups {
                Some(groups) => of_rounds("group_ratio_to_datafusion", rounds)
                    .map(|metric| metric.with("groups", *groups)),
                None => of_rounds("aggregate_ratio_to_datafusion", rounds),
            });
        }
        for (build_bytes, rounds) in &self.measured.joins {
            metrics.extend(
                of_rounds("join_ratio_to_datafusion", rounds)
                    .map(|metric| metric.with("build_bytes", *build_bytes)),
            );
        }
        metrics.extend(self.of_duckdb());
        let rows = self.options.probe_rows;
        let of_rows = metrics
            .iter_mut()
            .filter(|metric| !metric.dimensions.contains_key("column_bytes"));
        for metric in of_rows {
            metric
                .dimensions
                .insert("probe_rows".to_owned(), rows.into());
        }
        metrics
    }

    fn of_reads(&self) -> Vec<Metric> {
        type Seconds = fn(&ReadsOfRound) -> f64;
        let ratios: [(&str, Seconds); 6] = [
            ("aggregate_ratio_to_read", |round| {
                round.own.read_s / round.own.sum_s
            }),
            ("summary_ratio_to_read", |round| {
                round.own.read_s / round.own.summary_s
            }),
            ("filter_ratio_to_read", |round| {
                round.own.read_s / round.own.filter_s
            }),
            ("aggregate_ratio_to_arrow", |round| {
                round.arrow.sum_s / round.own.sum_s
            }),
            ("summary_ratio_to_arrow", |round| {
                round.arrow.summary_s / round.own.summary_s
            }),
            ("filter_ratio_to_arrow", |round| {
                round.arrow.filter_s / round.own.filter_s
            }),
        ];
        let metric = |(name, ratio): (&str, Seconds)| {
            let summary = Summary::of(self.measured.reads.iter().map(ratio))?;
            let metric = Metric::of_runs(name, &summary, "ratio", Kind::Measured);
            Some(metric.with("column_bytes", self.options.column_bytes))
        };
        ratios.into_iter().filter_map(metric).collect()
    }

    fn of_duckdb(&self) -> Vec<Metric> {
        match &self.measured.duckdb {
            None => Vec::new(),
            Some(Known::Unavailable(reason)) => {
                const NAMES: [&str; 3] = [
                    "aggregate_ratio_to_duckdb",
                    "filter_ratio_to_duckdb",
                    "join_ratio_to_duckdb",
                ];
                NAMES
                    .map(|name| Metric::unavailable(name, reason, "ratio", Kind::Measured))
                    .into()
            }
            Some(Known::Value(queries)) => {
                let of_query = |query: &QueryRounds| {
                    let metric = of_rounds(query.metric, &query.rounds)?;
                    Some(match query.build_bytes {
                        Some(bytes) => metric.with("build_bytes", bytes),
                        None => metric,
                    })
                };
                queries.iter().filter_map(of_query).collect()
            }
        }
    }
}

/// Their time over ours in each round.
fn of_rounds(name: &str, rounds: &[Round]) -> Option<Metric> {
    let summary = Summary::of(rounds.iter().map(Round::ratio))?;
    Some(Metric::of_runs(name, &summary, "ratio", Kind::Measured))
}
