//! The rounds as lines of the results schema; all are measured.
//!
//! | metric | unit | what |
//! |---|---|---|
//! | `insert_rows_per_s` | rows/s | rows whose transactions were acknowledged |
//! | `insert_ratio_to_memory` | ratio | that rate over the one in memory with as many sessions and rows per statement, in the same round |
//! | `insert_commits_per_sync` | commits | transactions for each write of the log to disk, in rounds in which there was one |
//!
//! All have `sync` (`memory`, or the setting `log_sync`), `sessions`, `rows_per_statement` and
//! `threads`. Values are medians over the rounds. The last two are of data directories alone.

use nearfar_measure::results::Metric;
use nearfar_measure::{Kind, Summary};
use serde_json::{Value, json};

use super::run::{InsertBenchOutcome, InsertContestant, InsertRun};

impl InsertBenchOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        json!({
            "rounds": self.options.rounds,
            "turn_seconds": self.options.turn.as_secs_f64(),
            "directory": self.options.directory,
            "threads": self.threads,
        })
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let contestants = self.contestants.iter();
        contestants
            .flat_map(|(contestant, runs)| {
                let figures = self.figures(contestant, runs).into_iter();
                figures.map(|metric| {
                    metric
                        .with("sync", contestant.sync_name())
                        .with("sessions", contestant.sessions)
                        .with("rows_per_statement", contestant.rows)
                        .with("threads", self.threads)
                })
            })
            .collect()
    }

    fn figures(&self, contestant: &InsertContestant, runs: &[InsertRun]) -> Vec<Metric> {
        let rates = Summary::of(runs.iter().map(InsertRun::rows_per_s));
        let mut figures = vec![metric("insert_rows_per_s", rates, "rows/s")];
        if contestant.sync.is_some() {
            let memory = self.runs_of(contestant.in_memory());
            let pairs = runs.iter().zip(memory);
            let ratios = pairs.map(|(run, memory)| run.rows_per_s() / memory.rows_per_s());
            let shared = runs.iter().filter_map(InsertRun::commits_per_sync);
            figures.push(metric(
                "insert_ratio_to_memory",
                Summary::of(ratios),
                "ratio",
            ));
            figures.push(metric(
                "insert_commits_per_sync",
                Summary::of(shared),
                "commits",
            ));
        }
        figures
    }

    fn runs_of(&self, contestant: InsertContestant) -> &[InsertRun] {
        let found = self.contestants.iter().find(|(one, _)| *one == contestant);
        found.map_or(&[], |(_, runs)| runs)
    }
}

fn metric(name: &str, values: Option<Summary>, unit: &str) -> Metric {
    match values {
        Some(values) => Metric::of_runs(name, &values, unit, Kind::Measured),
        None => {
            let reason = "the log was not written to disk in any round";
            Metric::unavailable(name, reason, unit, Kind::Measured)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::InsertBenchOptions;
    use super::*;
    use nearfar_durable::log::LogSync;
    use std::time::Duration;

    fn outcome() -> InsertBenchOutcome {
        let run = |rows, syncs| InsertRun {
            commits: rows,
            rows,
            seconds: 2.0,
            syncs,
        };
        let contestant = |sync| InsertContestant {
            sync,
            sessions: 1,
            rows: 1,
        };
        InsertBenchOutcome {
            options: InsertBenchOptions {
                rounds: 3,
                turn: Duration::from_secs(2),
                directory: "data".into(),
            },
            threads: 2,
            contestants: vec![
                (
                    contestant(None),
                    vec![run(1000, 0), run(100, 0), run(100, 0)],
                ),
                (
                    contestant(Some(LogSync::On)),
                    vec![run(500, 100), run(10, 10), run(40, 0)],
                ),
                (
                    contestant(Some(LogSync::Off)),
                    vec![run(1000, 0), run(90, 0), run(110, 0)],
                ),
            ],
        }
    }

    fn figure(sync: &str, name: &str) -> Metric {
        let mut metrics = outcome().metrics().into_iter();
        let is_it = |metric: &Metric| metric.metric == name && metric.dimensions["sync"] == sync;
        metrics.find(is_it).expect("a figure")
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let ratio = figure("on", "insert_ratio_to_memory");
        let spread = ratio.spread.expect("rounds");
        assert_eq!(ratio.value.get(), Some(0.4));
        assert_eq!((spread.min, spread.max, spread.runs), (0.1, 0.5, 3));
        let none = |metric: &Metric| metric.dimensions["sync"] == "memory";
        assert_eq!(outcome().metrics().iter().filter(|m| none(m)).count(), 1);
    }

    #[test]
    fn rounds_without_a_write_to_disk_have_no_commits_per_write() {
        let shared = figure("on", "insert_commits_per_sync");
        assert_eq!(shared.spread.map(|spread| spread.runs), Some(2));
        assert_eq!(shared.value.get(), Some(3.0));
        let never = figure("off", "insert_commits_per_sync");
        assert_eq!(never.value.get(), None);
    }
}
