//! The turns as lines of the results schema.
//!
//! | metric | unit | dimensions |
//! |---|---|---|
//! | `cooperative_queries_per_s` | queries/s | `sessions`, `scans`: `apart`, `together` |
//! | `cooperative_far_bytes_per_query` | B | the same |
//! | `cooperative_throughput_ratio` | ratio | `sessions`: queries per second together over apart in the same round, above 1 is a gain |
//! | `cooperative_far_bytes_ratio` | ratio | `sessions`: far bytes of a query together over apart in the same round, below 1 is a gain |

use nearfar_measure::results::Metric;
use nearfar_measure::{Kind, Summary};
use serde_json::{Value, json};

use super::run::{CooperativeBenchOutcome, Turn};

impl Turn {
    fn queries_per_s(&self) -> f64 {
        self.queries as f64 / self.seconds
    }

    fn far_bytes_per_query(&self) -> f64 {
        self.far_bytes as f64 / self.queries as f64
    }
}

type Figure = fn(&Turn) -> f64;

/// The names of a figure and of its ratio, and its unit.
const FIGURES: [(&str, &str, &str, Figure); 2] = [
    (
        "cooperative_queries_per_s",
        "cooperative_throughput_ratio",
        "queries/s",
        Turn::queries_per_s,
    ),
    (
        "cooperative_far_bytes_per_query",
        "cooperative_far_bytes_ratio",
        "B",
        Turn::far_bytes_per_query,
    ),
];

impl CooperativeBenchOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        json!({
            "scale_factor": self.options.scale_factor,
            "sessions": self.options.sessions,
            "turn_seconds": self.options.turn.as_secs_f64(),
            "rounds": self.options.rounds,
            "far_bandwidth_bytes_per_s": self.options.far_bandwidth_bytes_per_s,
            "threads": self.threads,
        })
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for sessions in &self.options.sessions {
            for (name, of_ratio, unit, figure) in FIGURES {
                for (scans, is_together) in [("apart", false), ("together", true)] {
                    let values = self.turns(*sessions, is_together).map(figure);
                    metrics.extend(Summary::of(values).map(|values| {
                        Metric::of_runs(name, &values, unit, self.kind())
                            .with("sessions", *sessions as u64)
                            .with("scans", scans)
                    }));
                }
                let ratios = Summary::of(self.ratios(*sessions, figure));
                metrics.extend(ratios.map(|ratios| {
                    Metric::of_runs(of_ratio, &ratios, "ratio", self.kind())
                        .with("sessions", *sessions as u64)
                }));
            }
        }
        metrics
    }

    fn kind(&self) -> Kind {
        match self.is_modelled {
            true => Kind::Modelled,
            false => Kind::Measured,
        }
    }

    fn turns(&self, sessions: usize, is_together: bool) -> impl Iterator<Item = &Turn> {
        let turns = self.turns.iter();
        turns.filter(move |turn| turn.sessions == sessions && turn.is_together == is_together)
    }

    /// A figure together over the same apart, round by round.
    fn ratios(&self, sessions: usize, figure: Figure) -> impl Iterator<Item = f64> {
        let together = self.turns(sessions, true);
        together.filter_map(move |together| {
            let mut apart = self.turns(sessions, false);
            let apart = apart.find(|apart| apart.round == together.round)?;
            let ratio = figure(together) / figure(apart);
            ratio.is_finite().then_some(ratio)
        })
    }
}
