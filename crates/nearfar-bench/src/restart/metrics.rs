//! Restarts as lines of the results schema; all are measured.
//!
//! | metric | unit | what |
//! |---|---|---|
//! | `attach_ratio_to_reload` | ratio | start of the process to the first answer with a pool, over the start of the process to tables that are loaded by `reload` |
//! | `verify_ratio_to_reload` | ratio | the same of a pool all of which was verified first, until its tables are there |
//! | `first_query_ms` | ms | start of the process to the first answer, by `start` |
//! | `ready_ms` | ms | start of the process until tables are there, by `start` |
//! | `attach_ratio_to_smaller` | ratio | `ready_ms` with a pool, over that at the smaller scale factor |
//!
//! All but the last have a `scale_factor`.

use nearfar_measure::results::Metric;
use nearfar_measure::{Kind, Summary};
use serde_json::{Value, json};

use super::run::{RestartBenchOutcome, RestartTimes, SizeOutcome, Way};

const MILLISECONDS: f64 = 1e3;

impl RestartBenchOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        let bytes = self.sizes.iter().map(|size| size.parquet_bytes);
        json!({
            "scale_factor": self.options.scale_factor,
            "runs": self.options.runs,
            "warm_up_runs": self.options.warm_up_runs,
            "threads": self.options.threads,
            "first_query": "q6",
            "parquet_bytes": bytes.collect::<Vec<_>>(),
        })
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let sizes = self.sizes.iter().rev();
        let mut metrics: Vec<Metric> = sizes.flat_map(|size| self.of_size(size)).collect();
        metrics.extend(self.ratio_to_smaller());
        metrics
    }

    fn of_size(&self, size: &SizeOutcome) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for reload in [Way::Parquet, Way::DataDirectoryLoaded, Way::DuckDbWarmed] {
            let reloaded = |times: &RestartTimes| times.ready_seconds;
            let attached = |times: &RestartTimes| times.answer_seconds;
            let attach = size.ratios((Way::Pool, attached), (reload, reloaded));
            let verify = size.ratios((Way::PoolVerified, reloaded), (reload, reloaded));
            let all = [
                ("attach_ratio_to_reload", attach),
                ("verify_ratio_to_reload", verify),
            ];
            for (name, ratios) in all {
                metrics.push(
                    self.metric(name, ratios, "ratio")
                        .with("reload", reload.name()),
                );
            }
        }
        for way in Way::ALL {
            let answer = size.milliseconds(way, |times| times.answer_seconds);
            let ready = size.milliseconds(way, |times| times.ready_seconds);
            for (name, values) in [("first_query_ms", answer), ("ready_ms", ready)] {
                metrics.push(self.metric(name, values, "ms").with("start", way.name()));
            }
        }
        let with = |metric: Metric| metric.with("scale_factor", size.scale_factor);
        metrics.into_iter().map(with).collect()
    }

    fn metric(&self, name: &str, values: Option<Summary>, unit: &str) -> Metric {
        match values {
            Some(values) => Metric::of_runs(name, &values, unit, Kind::Measured),
            None => {
                let reason = self.absent.as_deref().unwrap_or("it did not take part");
                Metric::unavailable(name, reason, unit, Kind::Measured)
            }
        }
    }

    fn ratio_to_smaller(&self) -> Option<Metric> {
        let [smaller, larger] = &self.sizes[..] else {
            return None;
        };
        let ready = |size: &SizeOutcome| size.milliseconds(Way::Pool, |times| times.ready_seconds);
        let ratio = ready(larger)?.median / ready(smaller)?.median;
        let metric = Metric::new("attach_ratio_to_smaller", ratio, "ratio", Kind::Measured);
        Some(metric)
    }
}

type Of = fn(&RestartTimes) -> f64;

impl SizeOutcome {
    fn ratios(&self, above: (Way, Of), below: (Way, Of)) -> Option<Summary> {
        let ratios = self.runs.iter().filter_map(|run| {
            let ((above, of_above), (below, of_below)) = (above, below);
            Some(of_above(run.get(&above)?) / of_below(run.get(&below)?))
        });
        Summary::of(ratios)
    }

    fn milliseconds(&self, way: Way, of: Of) -> Option<Summary> {
        let runs = self.runs.iter().filter_map(|run| run.get(&way));
        Summary::of(runs.map(|times| of(times) * MILLISECONDS))
    }
}
