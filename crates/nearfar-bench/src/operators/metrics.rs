//! The benchmark as lines of the results schema.
//!
//! | metric | by | what |
//! |---|---|---|
//! | `aggregate_ratio_to_read` | | time of a plain read over that of the sum of the same column |
//! | `summary_ratio_to_read` | | the same for number, sum, smallest and largest in one pass |
//! | `filter_ratio_to_read` | | the same for a filter that passes 0.1 %, into bitmaps |
//! | `join_ratio_to_datafusion` | `build_bytes` | DataFusion's time over ours: above 1, ours is faster |
//! | `join_far_ratio_to_near` | `strategy` | modelled: throughput with the build side far over near |
//! | `join_rows_per_s` | `strategy`, `tier` | modelled: probe rows per second of one core |
//! | `grouped_far_ratio_to_near` | `joins`, `placement` | modelled: throughput over grouped copies over that with everything near |
//! | `synchronous_far_ratio_to_near` | `joins`, `placement` | the same, of joins that read far columns themselves |

use nearfar_measure::operators::native::ReadRound;
use nearfar_measure::operators::{Access, Placement};
use nearfar_measure::results::Metric;
use nearfar_measure::{Kind, Summary};
use serde_json::{Value, json};

use super::run::OperatorsBenchOutcome;

impl OperatorsBenchOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        json!({
            "column_bytes": self.options.column_bytes,
            "rounds": self.options.rounds,
            "build_bytes": self.options.build_bytes,
            "probe_rows": self.options.probe_rows,
            "profile": self.options.profile,
            "joins": self.options.virtual_joins,
        })
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.measured();
        let profile = &*self.options.profile.name;
        let modelled = |name: &str, value: f64, unit: &str| {
            Metric::new(name, value, unit, Kind::Modelled).with("profile", profile)
        };
        for join in &self.far_joins {
            let strategy = join.strategy.name();
            metrics.push(
                modelled("join_far_ratio_to_near", join.ratio(), "ratio")
                    .with("strategy", strategy),
            );
            for (tier, rows_per_s) in [("near", join.near_rows_per_s), ("far", join.far_rows_per_s)]
            {
                let metric = modelled("join_rows_per_s", rows_per_s, "1/s");
                metrics.push(metric.with("strategy", strategy).with("tier", tier));
            }
        }
        for one in &self.grouped {
            let placement = match one.placement {
                Placement::SmallFar => "small-far",
                Placement::LargeFar => "large-far",
            };
            let name = match one.access {
                Access::Grouped => "grouped_far_ratio_to_near",
                Access::Synchronous => "synchronous_far_ratio_to_near",
            };
            let metric = modelled(name, one.ratio, "ratio");
            metrics.push(metric.with("joins", one.joins).with("placement", placement));
        }
        metrics
    }

    fn measured(&self) -> Vec<Metric> {
        let of_reads = |name: &str, ratio: fn(&ReadRound) -> f64| {
            let summary = Summary::of(self.reads.iter().map(ratio))?;
            let metric = Metric::of_runs(name, &summary, "ratio", Kind::Measured);
            Some(metric.with("column_bytes", self.options.column_bytes))
        };
        let mut metrics = Vec::new();
        metrics.extend(of_reads("aggregate_ratio_to_read", |round| {
            round.read_s / round.sum_s
        }));
        metrics.extend(of_reads("summary_ratio_to_read", |round| {
            round.read_s / round.summary_s
        }));
        metrics.extend(of_reads("filter_ratio_to_read", |round| {
            round.read_s / round.filter_s
        }));
        for (build_bytes, rounds) in &self.joins {
            let ratios = rounds.iter().map(|round| round.theirs_s / round.ours_s);
            metrics.extend(Summary::of(ratios).map(|summary| {
                Metric::of_runs(
                    "join_ratio_to_datafusion",
                    &summary,
                    "ratio",
                    Kind::Measured,
                )
                .with("build_bytes", *build_bytes)
                .with("probe_rows", self.options.probe_rows)
            }));
        }
        metrics
    }
}
