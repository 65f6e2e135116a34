//! The rounds as lines of the results schema; all are measured.
//!
//! | metric | unit | what |
//! |---|---|---|
//! | `htap_new_orders_per_minute` | 1/min | new orders that were committed, `beside` `nothing` and `queries` |
//! | `htap_queries_per_minute` | 1/min | queries that were answered, of the time that they took, `beside` `nothing` and `transactions` |
//! | `htap_new_orders_kept`, `htap_queries_kept` | ratio | rate beside the others over the rate alone, in the same round |
//! | `htap_new_orders_ratio_postgres`, `htap_queries_ratio_postgres` | ratio | Nearfar's over PostgreSQL's in the same round, over the wire, by `beside`: above 1, Nearfar is faster |
//! | `htap_freshness_p50_s`, `…_max_s` | s | for how long the oldest order had been acknowledged that a query did not see when it began; 0 where it saw all |
//! | `htap_query_p50_s` | s | time of a `query`, by `beside`, over all rounds |
//! | `htap_torn_queries` | queries | queries in whose transaction districts and orders were of different states |
//! | `htap_different_answers` | queries | queries whose answers over the first rows differ between systems |
//! | `htap_consistency_failures` | conditions | conditions 1 to 12 of TPC-C's clause 3.3.2 that did not hold before and after |
//!
//! All have `system` and `way`, but for ratios and answers. Values over rounds are medians.

use std::time::Duration;

use nearfar_measure::results::Metric;
use nearfar_measure::{Kind as Source, Summary};
use serde_json::{Value, json};

use super::analyst::Analysis;
use super::queries::QUERIES;
use super::run::{HtapOutcome, HtapRound, SystemOutcome};
use crate::tpcc::{System, Way};

/// What else runs.
const BESIDE: &str = "beside";
const NOTHING: &str = "nothing";

/// A rate of a round.
type Rate = fn(&HtapRound) -> f64;

/// What analysts did in a part of a round.
type Part = fn(&HtapRound) -> &Analysis;

/// The rates, by metric and by what runs beside.
const RATES: [(&str, &str, Rate); 4] = [
    ("new_orders", NOTHING, |round| {
        round.transactions.new_orders_per_minute()
    }),
    ("new_orders", "queries", |round| {
        round.transactions_beside.new_orders_per_minute()
    }),
    ("queries", NOTHING, |round| {
        round.queries.queries_per_minute()
    }),
    ("queries", "transactions", |round| {
        round.queries_beside.queries_per_minute()
    }),
];

impl HtapOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        let options = &self.options.tpcc;
        json!({
            "warehouses": options.warehouses,
            "shrink": options.shrink,
            "terminals": options.terminals,
            "analysts": self.options.analysts,
            "rounds": options.rounds,
            "turn_seconds": options.turn.as_secs_f64(),
            "warmup_seconds": options.warmup.as_secs_f64(),
            "durable": options.durable,
            "threads": options.threads,
            "seed": options.seed,
        })
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut figures: Vec<Metric> = self
            .systems
            .iter()
            .flat_map(SystemOutcome::metrics)
            .collect();
        figures.extend(self.ratios());
        if self.systems.len() > 1 {
            let different = self.different_answers.len() as f64;
            let name = "htap_different_answers";
            figures.push(Metric::new(name, different, "queries", Source::Measured));
        }
        figures
    }

    fn find(&self, system: System) -> Option<&SystemOutcome> {
        let mut systems = self.systems.iter();
        systems.find(|found| found.system == system && found.way == Way::Wire)
    }

    fn ratios(&self) -> Vec<Metric> {
        let (Some(own), Some(rival)) = (self.find(System::Nearfar), self.find(System::Postgres))
        else {
            return Vec::new();
        };
        let ratios = RATES.iter().filter_map(|(of, beside, rate)| {
            let rounds = own.rounds.iter().zip(&rival.rounds);
            let ratios = Summary::of(rounds.map(|(own, rival)| rate(own) / rate(rival)))?;
            let name = format!("htap_{of}_ratio_postgres");
            let metric = Metric::of_runs(&name, &ratios, "ratio", Source::Measured);
            Some(metric.with(BESIDE, *beside))
        });
        ratios.collect()
    }
}

impl SystemOutcome {
    fn metrics(&self) -> Vec<Metric> {
        let mut figures = self.rates();
        figures.extend(self.kept());
        figures.extend(self.freshness());
        figures.extend(self.query_times());
        let torn: usize = self.rounds.iter().map(HtapRound::torn_queries).sum();
        let broken = self.broken_conditions.len();
        let measured = |name, value, unit| Metric::new(name, value as f64, unit, Source::Measured);
        figures.push(measured("htap_torn_queries", torn, "queries"));
        figures.push(measured("htap_consistency_failures", broken, "conditions"));
        let with = |metric: Metric| {
            let metric = metric.with("system", self.system.name());
            metric.with("way", self.way.name())
        };
        figures.into_iter().map(with).collect()
    }

    fn rates(&self) -> Vec<Metric> {
        let rates = RATES.iter().filter_map(|(of, beside, rate)| {
            let rates = Summary::of(self.rounds.iter().map(rate))?;
            let name = format!("htap_{of}_per_minute");
            let metric = Metric::of_runs(&name, &rates, "1/min", Source::Measured);
            Some(metric.with(BESIDE, *beside))
        });
        rates.collect()
    }

    fn kept(&self) -> Vec<Metric> {
        let kept = RATES.chunks_exact(2).filter_map(|pair| {
            let [(of, _, alone), (_, _, beside)] = pair else {
                return None;
            };
            let kept = self.rounds.iter().map(|round| beside(round) / alone(round));
            let name = format!("htap_{of}_kept");
            let kept = Summary::of(kept)?;
            Some(Metric::of_runs(&name, &kept, "ratio", Source::Measured))
        });
        kept.collect()
    }

    fn freshness(&self) -> Vec<Metric> {
        let ages = self.rounds.iter().flat_map(HtapRound::ages);
        let ages = sorted(ages.collect());
        let figure = |name, age: Option<&Duration>| {
            Some(Metric::new(name, age?.as_secs_f64(), "s", Source::Measured))
        };
        let figures = [
            figure("htap_freshness_p50_s", middle(&ages)),
            figure("htap_freshness_max_s", ages.last()),
        ];
        figures.into_iter().flatten().collect()
    }

    fn query_times(&self) -> Vec<Metric> {
        let parts: [(&str, Part); 2] = [
            (NOTHING, |round| &round.queries),
            ("transactions", |round| &round.queries_beside),
        ];
        let mut figures = Vec::new();
        for (at, query) in QUERIES.iter().enumerate() {
            for (beside, part) in parts {
                let answered = self.rounds.iter().flat_map(|round| &part(round).answered);
                let times = answered.filter(|answered| answered.query == at);
                let times = sorted(times.map(|answered| answered.took).collect());
                let Some(time) = middle(&times) else {
                    continue;
                };
                let name = "htap_query_p50_s";
                let metric = Metric::new(name, time.as_secs_f64(), "s", Source::Measured);
                figures.push(metric.with("query", query.name).with(BESIDE, beside));
            }
        }
        figures
    }
}

fn sorted(mut times: Vec<Duration>) -> Vec<Duration> {
    times.sort_unstable();
    times
}

/// The median of ascending times, the lower one of two.
fn middle(times: &[Duration]) -> Option<&Duration> {
    times.get(times.len().saturating_sub(1) / 2)
}
