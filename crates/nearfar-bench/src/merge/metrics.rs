//! The rounds as lines of the results schema; all are measured.
//!
//! | metric | unit | what |
//! |---|---|---|
//! | `merge_rows_per_s` | rows/s | rows that merges wrote, queries beside them |
//! | `merge_bytes_per_s` | B/s | bytes that they replaced, as these were stored |
//! | `merge_query_p99_ratio` | ratio | 99th percentile of latencies beside merges over that without |
//! | `merge_query_median_ratio` | ratio | the same of medians |
//! | `merge_query_p99_seconds`, `merge_query_median_seconds` | s | by `phase`: `quiet`, `merging` |

use nearfar_measure::results::Metric;
use nearfar_measure::{Kind, Summary};
use serde_json::{Value, json};

use super::run::{MergeBenchOutcome, MergeRound};

impl MergeBenchOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        json!({
            "rows": self.options.rows,
            "written_rows": self.options.written_rows,
            "rounds": self.options.rounds,
            "queries": self.options.queries,
            "threads": self.threads,
        })
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let rate = |of: fn(&MergeRound) -> u64| {
            let rounds = self.rounds.iter();
            Summary::of(rounds.map(|r| of(r) as f64 / r.merge_seconds))
        };
        let rates = [
            ("merge_rows_per_s", rate(|r| r.merged_rows), "rows/s"),
            ("merge_bytes_per_s", rate(|r| r.replaced_bytes), "B/s"),
        ];
        let mut metrics: Vec<Metric> = rates
            .into_iter()
            .filter_map(|(name, rate, unit)| {
                Some(Metric::of_runs(name, &rate?, unit, Kind::Measured))
            })
            .collect();
        for (name, share) in [("p99", 0.99), ("median", 0.5)] {
            metrics.extend(self.latencies(name, share));
        }
        metrics
            .into_iter()
            .map(|metric| metric.with("threads", self.threads as u64))
            .collect()
    }

    fn latencies(&self, name: &str, share: f64) -> Vec<Metric> {
        let pooled = |of: fn(&MergeRound) -> &[f64]| {
            let all = self.rounds.iter().flat_map(|round| of(round).iter());
            quantile(all.copied().collect(), share)
        };
        let phases = [
            ("quiet", pooled(|round| &round.quiet_seconds)),
            ("merging", pooled(|round| &round.merging_seconds)),
        ];
        let metric = format!("merge_query_{name}_ratio");
        let ratio = match phases {
            [(_, Some(quiet)), (_, Some(merging))] => {
                Metric::new(&metric, merging / quiet, "ratio", Kind::Measured)
            }
            _ => {
                let reason = "no query ran in one of the phases";
                Metric::unavailable(&metric, reason, "ratio", Kind::Measured)
            }
        };
        let seconds = phases.into_iter().filter_map(|(phase, seconds)| {
            let metric = format!("merge_query_{name}_seconds");
            Some(Metric::new(&metric, seconds?, "s", Kind::Measured).with("phase", phase))
        });
        std::iter::once(ratio).chain(seconds).collect()
    }
}

/// The value that a share of `values` is not above; `None` where there are none.
fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_met() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(values.clone(), 0.99), Some(99.0));
        assert_eq!(quantile(values, 0.5), Some(50.0));
        assert_eq!(quantile(vec![7.0], 0.99), Some(7.0));
        assert_eq!(quantile(Vec::new(), 0.99), None);
    }
}
