//! A comparison as lines of the results schema. Ratios are Nearfar's figure over the other's: below
//! 1 is better for Nearfar.
//!
//! | metric | unit | dimensions |
//! |---|---|---|
//! | `tpch_geomean_ratio_memtable`, `…_duckdb`, `…_hyper` | ratio | `rival_version` |
//! | `tpch_geomean_ratio_best` | ratio | against the better rival in each query |
//! | `tpch_query_ratio_memtable`, `…_duckdb`, `…_hyper` | ratio | `query`, `nearfar_seconds`, `rival_seconds`, their `_min` and `_max` |
//! | `tpch_query_peak_ratio_memtable`, `…_duckdb`, `…_hyper` | ratio | resident memory at the peak of `query`, tables included: `nearfar_peak_bytes`, `nearfar_taken_bytes` (beyond the least that was resident before any of the queries), the same of the `rival` |
//! | `load_ratio_datafusion` | ratio | `nearfar_seconds`, `datafusion_seconds`, `file_bytes` |
//! | `load_seconds` | s | `contender` |
//! | `load_peak_ratio` | ratio | `contender` |
//! | `resident_bytes_ratio_memtable` | ratio | `table` (`all` for the sum), `nearfar_bytes`, `memtable_bytes` |
//! | `counter_overhead_ratio` | ratio | geometric mean of the time with accesses counted over without |
//! | `tpcds_queries_right` | queries | `of`, `against` |
//!
//! Those of TPC-DS begin with `tpcds`, and a query that is left out has an unavailable ratio with the reason.
//! All carry `scale_factor`, `threads`, and `turns`: `alternating` or `apart`. A rival that did not
//! take part has an unavailable geometric mean, and one that ended in a query an unavailable ratio there. DataFusion's tables in memory run at their defaults, which includes the
//! platform's allocator as it comes.

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use serde_json::{Value, json};

use super::contender::Rival;
use super::outcome::{
    BenchOutcome, ComparedMemory, Comparison, ContenderLoads, QueryComparison, around,
};
use super::serve::Role;
use crate::tpch::Suite;

const MEASURED: Kind = Kind::Measured;

impl BenchOutcome {
    /// What was compared, for the header of results.
    pub fn configuration(&self) -> Value {
        let rivals: Vec<&str> = self
            .options
            .rivals
            .iter()
            .map(|rival| rival.name())
            .collect();
        json!({
            "benchmark": self.options.suite.to_string(),
            "scale factor": self.options.scale_factor,
            "threads": self.options.threads,
            "runs": self.options.runs,
            "turns": self.options.turns.name(),
            "load runs": self.options.load_runs,
            "queries": self.options.queries,
            "rivals": rivals,
            "without": self.options.without,
            "plan anew": self.options.plan_anew,
            "memory limit": self.options.memory_limit_bytes,
        })
    }

    /// All figures of the comparison.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = self
            .comparisons
            .iter()
            .flat_map(|comparison| {
                comparison_metrics(self.options.suite, comparison.who.name(), comparison)
            })
            .collect();
        metrics.extend(
            self.absent
                .iter()
                .map(|(rival, reason)| absent_metric(self.options.suite, *rival, reason)),
        );
        metrics.extend(self.loads.iter().flat_map(load_metrics));
        let own = self
            .loads_of(Role::Nearfar)
            .zip(self.loads_of(Role::MemTable));
        if let Some((nearfar, memtable)) = own {
            metrics.push(self.load_ratio(nearfar, memtable));
            metrics.extend(resident_metrics(nearfar, memtable));
        }
        metrics.extend(self.best_metric());
        metrics.extend(self.right_metric());
        metrics.extend(self.counting.iter().map(|counting| {
            let ratio = counting.geometric_mean_ratio();
            Metric::of_runs("counter_overhead_ratio", &ratio, "ratio", MEASURED)
        }));
        metrics.extend(self.without.iter().flat_map(|(setting, comparison)| {
            let own = comparison_metrics(self.options.suite, "without", comparison).into_iter();
            own.map(|metric| metric.with("setting", setting.as_str()))
        }));
        for metric in &mut metrics {
            let dimensions = &mut metric.dimensions;
            dimensions.insert("scale_factor".to_owned(), json!(self.options.scale_factor));
            dimensions.insert("threads".to_owned(), json!(self.options.threads));
            dimensions.insert("turns".to_owned(), json!(self.options.turns.name()));
        }
        metrics
    }

    /// Nearfar against the better of several rivals, query by query.
    fn best_metric(&self) -> Option<Metric> {
        if self.options.rivals.len() < 2 {
            return None;
        }
        let name = format!("{}_geomean_ratio_best", self.options.suite.name());
        Some(match self.best_ratio() {
            Some(ratio) => Metric::new(&name, ratio, "ratio", MEASURED),
            None => {
                let reason = "fewer than two rivals took part in the same queries";
                Metric::unavailable(&name, reason, "ratio", MEASURED)
            }
        })
    }

    /// How many queries of TPC-DS have the answer of the last contender that took part.
    fn right_metric(&self) -> Option<Metric> {
        let last = self.comparisons.last();
        let last = last.filter(|_| self.options.suite == Suite::TpcDs)?;
        let right = last.queries.len() as f64;
        let metric = Metric::new("tpcds_queries_right", right, "queries", MEASURED);
        let of = self.options.queries.len();
        Some(metric.with("of", of).with("against", last.who.name()))
    }

    fn load_ratio(&self, nearfar: &ContenderLoads, memtable: &ContenderLoads) -> Metric {
        let ratio = nearfar.seconds().median / memtable.seconds().median;
        let pairs = nearfar.loads.iter().zip(&memtable.loads);
        let summary = around(ratio, pairs.map(|(mine, own)| mine.seconds / own.seconds));
        Metric::of_runs("load_ratio_datafusion", &summary, "ratio", MEASURED)
            .with("nearfar_seconds", nearfar.seconds().median)
            .with("datafusion_seconds", memtable.seconds().median)
            .with("file_bytes", self.file_bytes)
    }
}

fn comparison_metrics(suite: Suite, rival: &str, comparison: &Comparison) -> Vec<Metric> {
    let suite = suite.name();
    let name = format!("{suite}_geomean_ratio_{rival}");
    let mean = match comparison.queries.is_empty() {
        true => Metric::unavailable(&name, "no query was compared", "ratio", MEASURED),
        false => Metric::of_runs(&name, &comparison.geometric_mean_ratio(), "ratio", MEASURED),
    };
    let name = format!("{suite}_query_ratio_{rival}");
    let mean = mean.with("rival_version", comparison.version.as_str());
    let queries = comparison
        .queries
        .iter()
        .map(|query| query_metric(&name, query));
    let missed = comparison.missed.iter().map(|missed| {
        let metric = Metric::unavailable(&name, &missed.reason, "ratio", MEASURED);
        metric.with("query", missed.query)
    });
    let ended = comparison.ended.iter().map(|ended| {
        let reason = format!("{} ended in this query: {}", comparison.who, ended.reason);
        Metric::unavailable(&name, &reason, "ratio", MEASURED).with("query", ended.query)
    });
    let memory_name = format!("{suite}_query_peak_ratio_{rival}");
    let least = comparison.least_resident();
    let memory = comparison.queries.iter().filter_map(|query| {
        let metric = memory_metric(&memory_name, query.memory.as_ref()?, least);
        Some(metric.with("query", query.number))
    });
    let all = std::iter::once(mean).chain(queries).chain(memory);
    all.chain(missed).chain(ended).collect()
}

fn memory_metric(name: &str, memory: &ComparedMemory, least: (u64, u64)) -> Metric {
    let metric = match memory.peak_ratio() {
        Some(ratio) => Metric::new(name, ratio, "ratio", MEASURED),
        None => Metric::unavailable(name, "the kernel does not tell the peak", "ratio", MEASURED),
    };
    let sides = [
        ("nearfar", memory.nearfar.peak_bytes, least.0),
        ("rival", memory.rival.peak_bytes, least.1),
    ];
    sides
        .into_iter()
        .fold(metric, |metric, (who, peak, least)| {
            let taken_bytes = peak.map(|peak| peak.saturating_sub(least));
            metric
                .with(&format!("{who}_peak_bytes"), peak)
                .with(&format!("{who}_taken_bytes"), taken_bytes)
        })
}

fn query_metric(name: &str, query: &QueryComparison) -> Metric {
    let metric = Metric::of_runs(name, &query.ratio(), "ratio", MEASURED);
    let seconds = [
        ("nearfar", query.nearfar_summary()),
        ("rival", query.rival_summary()),
    ];
    seconds.into_iter().fold(
        metric.with("query", query.number),
        |metric, (who, summary)| {
            metric
                .with(&format!("{who}_seconds"), summary.median)
                .with(&format!("{who}_seconds_min"), summary.min)
                .with(&format!("{who}_seconds_max"), summary.max)
        },
    )
}

fn absent_metric(suite: Suite, rival: Rival, reason: &str) -> Metric {
    let name = format!("{}_geomean_ratio_{}", suite.name(), rival.name());
    Metric::unavailable(&name, reason, "ratio", MEASURED)
}

fn load_metrics(loads: &ContenderLoads) -> [Metric; 2] {
    const PEAK: &str = "load_peak_ratio";
    let peak = match loads.peak_ratio() {
        Some(ratio) => Metric::of_runs(PEAK, &ratio, "ratio", MEASURED),
        None => {
            let reason = "the kernel does not tell the peak, or no bytes are kept";
            Metric::unavailable(PEAK, reason, "ratio", MEASURED)
        }
    };
    [
        Metric::of_runs("load_seconds", &loads.seconds(), "s", MEASURED),
        peak,
    ]
    .map(|metric| metric.with("contender", loads.who.name()))
}

fn resident_metrics(nearfar: &ContenderLoads, memtable: &ContenderLoads) -> Vec<Metric> {
    let Some((mine, own)) = nearfar.kept_bytes().zip(memtable.kept_bytes()) else {
        return Vec::new();
    };
    let tables = mine.iter().filter_map(|(table, bytes)| {
        own.get(table)
            .map(|own_bytes| resident_metric(table, *bytes, *own_bytes))
    });
    let all = resident_metric("all", mine.values().sum(), own.values().sum());
    tables.chain([all]).collect()
}

fn resident_metric(table: &str, nearfar_bytes: u64, memtable_bytes: u64) -> Metric {
    const NAME: &str = "resident_bytes_ratio_memtable";
    let metric = if memtable_bytes > 0 {
        let ratio = nearfar_bytes as f64 / memtable_bytes as f64;
        Metric::new(NAME, ratio, "ratio", MEASURED)
    } else {
        Metric::unavailable(NAME, "DataFusion keeps no bytes of it", "ratio", MEASURED)
    };
    metric
        .with("table", table)
        .with("nearfar_bytes", nearfar_bytes)
        .with("memtable_bytes", memtable_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As at a scale factor so small that a table has no rows.
    #[test]
    fn ratios_to_nothing_are_unavailable() {
        assert!(resident_metric("supplier", 0, 0).value.get().is_none());
        let ratio = resident_metric("supplier", 1, 2);
        assert_eq!(ratio.value.get(), Some(0.5));
    }
}
