//! The rounds as lines of the results schema; all are measured.
//!
//! | metric | unit | what |
//! |---|---|---|
//! | `peer_wait_p50_s`, `peer_wait_p99_s`, `peer_wait_max_s` | s | how long the peer waited for an answer to `question` |
//! | `statement_time_max_s` | s | the longest that a hostile statement took, of which `limit_s` was allowed |
//! | `statements` | statements | how many hostile statements ended |
//!
//! All have `statement`, `sessions`, `limit_s` and `threads`, the first ones `question`.

use std::time::Duration;

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use serde_json::{Value, json};

use super::run::{FairnessOutcome, FairnessRound};
use super::statements::Hostile;

/// Shares of the peer's waits, by the names of their metrics.
const SHARES: [(&str, f64); 3] = [
    ("peer_wait_p50_s", 0.5),
    ("peer_wait_p99_s", 0.99),
    ("peer_wait_max_s", 1.0),
];

impl FairnessOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        let options = &self.options;
        json!({
            "threads": options.threads,
            "sessions": options.sessions,
            "limit_seconds": options.limit.as_secs_f64(),
            "turn_seconds": options.turn.as_secs_f64(),
            "profile": options.profile,
            "far_bytes_per_s": options.far_bytes_per_s,
        })
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let rounds = self.rounds.iter().flat_map(|round| {
            let of_round = figures(round).into_iter();
            of_round.map(|metric| {
                metric
                    .with("statement", round.statement.name())
                    .with("sessions", self.options.sessions)
                    .with("limit_s", self.options.limit.as_secs_f64())
                    .with("threads", self.options.threads)
            })
        });
        rounds.collect()
    }
}

fn figures(round: &FairnessRound) -> Vec<Metric> {
    let Some(times) = &round.times else {
        let reason = "this machine has no far memory: give --profile to model one";
        let names = SHARES.iter().map(|(name, _)| *name);
        let names = names.chain(["statement_time_max_s"]);
        return names
            .map(|name| Metric::unavailable(name, reason, "s", Kind::Measured))
            .collect();
    };
    let waits = round.waits.iter().flat_map(|(question, waits)| {
        SHARES.iter().map(move |(name, share)| {
            metric(name, at_share(waits, *share)).with("question", question.name())
        })
    });
    let longest = metric("statement_time_max_s", times.iter().max().copied());
    let ended = match (times.len(), round.statement) {
        (_, Hostile::Nothing) => None,
        (count, _) => Some(Metric::new(
            "statements",
            count as f64,
            "statements",
            Kind::Measured,
        )),
    };
    waits.chain([longest]).chain(ended).collect()
}

fn metric(name: &str, time: Option<Duration>) -> Metric {
    match time {
        Some(time) => Metric::new(name, time.as_secs_f64(), "s", Kind::Measured),
        None => Metric::unavailable(name, "there was no such statement", "s", Kind::Measured),
    }
}

/// The shortest of ascending `times` that so large a share of them does not exceed.
fn at_share(times: &[Duration], share: f64) -> Option<Duration> {
    let count = (times.len() as f64 * share).ceil() as usize;
    times.get(count.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_times_that_there_are() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(at_share(&times, 0.5), Some(Duration::from_millis(100)));
        assert_eq!(at_share(&times, 0.99), Some(Duration::from_millis(198)));
        assert_eq!(at_share(&times, 1.0), Some(Duration::from_millis(200)));
        assert_eq!(at_share(&times[..1], 0.99), Some(Duration::from_millis(1)));
        assert_eq!(at_share(&[], 0.99), None);
    }
}
