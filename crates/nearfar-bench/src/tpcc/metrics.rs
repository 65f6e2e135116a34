//! The rounds as lines of the results schema; all are measured.
//!
//! | metric | unit | what |
//! |---|---|---|
//! | `tpcc_new_orders_per_minute` | 1/min | new orders that were committed; those that their input rolls back are not counted |
//! | `tpcc_ratio_postgres` | ratio | Nearfar's over PostgreSQL's in the same round, over the wire: above 1, Nearfar is faster |
//! | `tpcc_latency_p50_s`, `…_p95_s`, `…_p99_s` | s | time of a `transaction` from its first try to its end, over all rounds |
//! | `tpcc_abort_percent` | % | tries that others were in the way of, of all |
//! | `tpcc_aborts` | transactions | the same by `transaction` and `reason`, a SQLSTATE |
//! | `tpcc_rolled_back_percent` | % | new orders that were rolled back as their input asks for, of all: 1 by the specification |
//! | `tpcc_consistency_failures` | conditions | conditions 1 to 12 of clause 3.3.2 that did not hold before and after |
//! | `tpcc_kill_lost_orders`, `tpcc_kill_orders`, `tpcc_kill_consistency_failures` | orders, conditions | what kills have left |
//!
//! All have `system` and `way`, `tpcc_ratio_postgres` its `way`. Values over rounds are medians.

use std::collections::BTreeMap;

use nearfar_measure::results::Metric;
use nearfar_measure::{Kind as Source, Summary};
use serde_json::{Value, json};

use super::input::Kind;
use super::options::{System, Way};
use super::run::{DatabaseOutcome, TpccOutcome};

impl TpccOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        let options = &self.options;
        json!({
            "warehouses": options.warehouses,
            "shrink": options.shrink,
            "terminals": options.terminals,
            "rounds": options.rounds,
            "turn_seconds": options.turn.as_secs_f64(),
            "warmup_seconds": options.warmup.as_secs_f64(),
            "think_times": options.thinks,
            "durable": options.durable,
            "kills": options.kills,
            "threads": options.threads,
            "seed": options.seed,
        })
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let figures = self.databases.iter().flat_map(DatabaseOutcome::metrics);
        let figures = figures.chain(self.ratio());
        figures.chain(self.kill_metrics()).collect()
    }

    fn find(&self, system: System) -> Option<&DatabaseOutcome> {
        let mut databases = self.databases.iter();
        databases.find(|found| found.system == system && found.way == Way::Wire)
    }

    fn ratio(&self) -> Option<Metric> {
        let (own, rival) = (self.find(System::Nearfar)?, self.find(System::Postgres)?);
        let pairs = own.rates().zip(rival.rates());
        let ratios = Summary::of(pairs.map(|(own, rival)| own / rival))?;
        let metric = Metric::of_runs("tpcc_ratio_postgres", &ratios, "ratio", Source::Measured);
        Some(metric.with("way", Way::Wire.name()))
    }

    fn kill_metrics(&self) -> Vec<Metric> {
        if self.kills.is_empty() {
            return Vec::new();
        }
        let kills = || self.kills.iter();
        let figures = [
            (
                "orders",
                "orders",
                kills().map(|kill| kill.orders).sum::<usize>(),
            ),
            (
                "lost_orders",
                "orders",
                kills().map(|kill| kill.lost_orders).sum(),
            ),
            (
                "consistency_failures",
                "conditions",
                kills().map(|kill| kill.broken_conditions.len()).sum(),
            ),
        ];
        let metric = |(name, unit, value): (&str, &str, usize)| {
            let name = format!("tpcc_kill_{name}");
            Metric::new(&name, value as f64, unit, Source::Measured)
                .with("system", System::Nearfar.name())
                .with("way", Way::Wire.name())
        };
        figures.into_iter().map(metric).collect()
    }
}

impl DatabaseOutcome {
    fn rates(&self) -> impl Iterator<Item = f64> {
        self.rounds
            .iter()
            .map(|tally| tally.new_orders_per_minute())
    }

    fn metrics(&self) -> Vec<Metric> {
        let of_rounds = |name: &str, unit: &str, values: &mut dyn Iterator<Item = f64>| {
            let values = Summary::of(values)?;
            Some(Metric::of_runs(name, &values, unit, Source::Measured))
        };
        let per_minute = "tpcc_new_orders_per_minute";
        let mut figures: Vec<Metric> = Vec::new();
        figures.extend(of_rounds(per_minute, "1/min", &mut self.rates()));
        figures.extend(self.latencies());
        let mut aborts = self.rounds.iter().map(|tally| tally.abort_percent());
        figures.extend(of_rounds("tpcc_abort_percent", "%", &mut aborts));
        figures.extend(self.aborts());
        figures.extend(self.rolled_back_percent());
        let broken = self.broken_conditions.len() as f64;
        let name = "tpcc_consistency_failures";
        figures.push(Metric::new(name, broken, "conditions", Source::Measured));
        let with = |metric: Metric| {
            let metric = metric.with("system", self.system.name());
            metric.with("way", self.way.name())
        };
        figures.into_iter().map(with).collect()
    }

    fn latencies(&self) -> Vec<Metric> {
        let mut figures = Vec::new();
        for kind in Kind::ALL {
            let rounds = self.rounds.iter();
            let of_kind = rounds.filter_map(|tally| tally.latencies_us.get(&kind));
            let mut all: Vec<u64> = of_kind.flatten().copied().collect();
            all.sort_unstable();
            for percent in [50, 95, 99] {
                let Some(us) = percentile(&all, percent) else {
                    continue;
                };
                let name = format!("tpcc_latency_p{percent}_s");
                let metric = Metric::new(&name, us as f64 / 1e6, "s", Source::Measured);
                figures.push(metric.with("transaction", kind.name()));
            }
        }
        figures
    }

    fn aborts(&self) -> Vec<Metric> {
        let mut counts: BTreeMap<(Kind, &str), u64> = BTreeMap::new();
        for ((kind, reason), count) in self.rounds.iter().flat_map(|tally| &tally.aborts) {
            *counts.entry((*kind, reason)).or_default() += count;
        }
        let metric = |((kind, reason), count): ((Kind, &str), u64)| {
            let unit = "transactions";
            Metric::new("tpcc_aborts", count as f64, unit, Source::Measured)
                .with("transaction", kind.name())
                .with("reason", reason)
        };
        counts.into_iter().map(metric).collect()
    }

    fn rolled_back_percent(&self) -> Option<Metric> {
        let rounds = || self.rounds.iter();
        let rolled_back: u64 = rounds().map(|tally| tally.rolled_back).sum();
        let orders: usize = rounds().map(|tally| tally.orders.len()).sum();
        let all = rolled_back as f64 + orders as f64;
        let percent = 100.0 * rolled_back as f64 / all;
        let name = "tpcc_rolled_back_percent";
        (all > 0.0).then(|| Metric::new(name, percent, "%", Source::Measured))
    }
}

/// The value that so many of a hundred of ascending `values` are not above.
fn percentile(values: &[u64], percent: usize) -> Option<u64> {
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::terminal::Tally;
    use super::super::transactions::Order;
    use super::*;

    fn outcome(system: System, orders: usize) -> DatabaseOutcome {
        let order = Order {
            key: (1, 1, 1),
            total: Default::default(),
        };
        let tally = Tally {
            latencies_us: [(Kind::NewOrder, vec![3000, 1000, 2000])].into(),
            rolled_back: 1,
            aborts: [((Kind::Payment, "40001".to_owned()), 1)].into(),
            orders: vec![(Instant::now(), order); orders],
            seconds: 60.0,
        };
        DatabaseOutcome {
            system,
            way: Way::Wire,
            rounds: vec![tally],
            broken_conditions: vec![3],
        }
    }

    #[test]
    fn figures_are_of_committed_orders_and_reasons() {
        let metrics = outcome(System::Nearfar, 3).metrics();
        let value = |name: &str| {
            let found = metrics.iter().find(|metric| metric.metric == name);
            found.and_then(|metric| metric.value.get())
        };
        assert_eq!(value("tpcc_new_orders_per_minute"), Some(3.0));
        assert_eq!(value("tpcc_latency_p50_s"), Some(0.002));
        assert_eq!(value("tpcc_latency_p99_s"), Some(0.003));
        assert_eq!(value("tpcc_abort_percent"), Some(25.0));
        assert_eq!(value("tpcc_rolled_back_percent"), Some(25.0));
        assert_eq!(value("tpcc_consistency_failures"), Some(1.0));
        let aborts = metrics.iter().find(|metric| metric.metric == "tpcc_aborts");
        assert_eq!(aborts.expect("aborts").dimensions["reason"], "40001");
    }

    #[test]
    fn percentiles_are_values_that_were_there() {
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&[7], 99), Some(7));
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(
            [50, 95, 99].map(|p| percentile(&hundred, p)),
            [50, 95, 99].map(Some)
        );
    }
}
