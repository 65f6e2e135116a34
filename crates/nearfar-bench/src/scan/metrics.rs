//! The comparison as lines of the results schema. Ratios are of bandwidths, the scan's over the
//! other's: above 1, the scan is faster.
//!
//! | metric | unit | what |
//! |---|---|---|
//! | `scan_read_ratio` | ratio | columns scanned over columns merely read |
//! | `scan_copy_ratio` | ratio | columns scanned over columns copied |
//! | `scan_arrow_ratio` | ratio | over Arrow's comparison and filter, which leave an array |
//! | `scan_arrow_written_ratio` | ratio | the same, with the positions copied to their place |
//! | `bandwidth_bytes_per_s` | B/s | of columns, by `contestant` |
//!
//! All carry `threads`, `column_bytes`, `placement` (of columns), `positions` (theirs), and those that filter
//! `selectivity_percent`; measured ones `isa`, `rounds` and `undisturbed_rounds`, modelled ones `profile`. The value is
//! the median over rounds in which no thread waited for more than 2 % of its time, or over all rounds where there are fewer than five such ones.

use nearfar_measure::results::Metric;
use nearfar_measure::{Kind, Summary};
use serde_json::{Value, json};

use super::contest::{ArrowResult, Contestant};
use super::run::{Round, ScanBenchOutcome};

/// A round in which a thread waited for longer than this share of it is disturbed.
const DISTURBED_SHARE: f64 = 0.02;

/// Fewer undisturbed rounds than this are no basis.
const ROUNDS_MIN: usize = 5;

impl ScanBenchOutcome {
    /// What was compared, for the header of results.
    pub fn configuration(&self) -> Value {
        let mut configuration = json!({
            "threads": self.options.threads,
            "column_bytes": self.options.column_bytes,
            "placement": self.options.columns.to_string(),
            "positions": self.options.positions.to_string(),
            "matches_per_mille": self.options.matches_per_mille,
        });
        match &self.model {
            Some(profile) => configuration["profile"] = json!(profile),
            None => {
                configuration["rounds"] = json!(self.options.rounds);
                configuration["isa"] = json!(self.options.isa.name());
            }
        }
        configuration
    }

    /// The ratio of the scan at this selectivity over another contestant, round by round, and the
    /// number of rounds that were undisturbed. `None` where one of them did not take part.
    pub fn ratio(&self, matches_per_mille: u32, other: Contestant) -> Option<(Summary, usize)> {
        let scan = self.rounds_of(Contestant::Scan { matches_per_mille })?;
        let other = self.rounds_of(other)?;
        let rounds = scan.iter().zip(other);
        self.settle(rounds.map(|(scan, other)| {
            let is_quiet = is_quiet(scan) && is_quiet(other);
            (scan.bytes_per_s / other.bytes_per_s, is_quiet)
        }))
    }

    /// The bandwidth of a contestant.
    pub fn bandwidth(&self, contestant: Contestant) -> Option<(Summary, usize)> {
        let rounds = self.rounds_of(contestant)?.iter();
        self.settle(rounds.map(|round| (round.bytes_per_s, is_quiet(round))))
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for &matches_per_mille in &self.options.matches_per_mille {
            let arrow = |result| Contestant::Arrow {
                matches_per_mille,
                result,
            };
            let others = [
                ("scan_read_ratio", Contestant::Read),
                ("scan_copy_ratio", Contestant::Copy),
                ("scan_arrow_ratio", arrow(ArrowResult::Array)),
                ("scan_arrow_written_ratio", arrow(ArrowResult::Written)),
            ];
            for (name, other) in others {
                let figure = self.ratio(matches_per_mille, other);
                metrics.extend(self.metric(name, "ratio", figure).map(|metric| {
                    metric.with("selectivity_percent", f64::from(matches_per_mille) / 10.0)
                }));
            }
        }
        for (contestant, _) in &self.rounds {
            let figure = self.bandwidth(*contestant);
            metrics.extend(
                self.metric("bandwidth_bytes_per_s", "B/s", figure)
                    .map(|metric| {
                        let metric = metric.with("contestant", contestant.name());
                        match contestant.matches_per_mille() {
                            Some(matches) => {
                                metric.with("selectivity_percent", f64::from(matches) / 10.0)
                            }
                            None => metric,
                        }
                    }),
            );
        }
        metrics
    }

    fn metric(&self, name: &str, unit: &str, figure: Option<(Summary, usize)>) -> Option<Metric> {
        let (summary, undisturbed) = figure?;
        let metric = match &self.model {
            Some(profile) => Metric::new(name, summary.median, unit, Kind::Modelled)
                .with("profile", profile.as_str()),
            None => Metric::of_runs(name, &summary, unit, Kind::Measured)
                .with("isa", self.options.isa.name())
                .with("rounds", self.options.rounds.get())
                .with("undisturbed_rounds", undisturbed),
        };
        Some(
            metric
                .with("threads", self.options.threads.get())
                .with("column_bytes", self.options.column_bytes)
                .with("placement", self.options.columns.to_string())
                .with("positions", self.options.positions.to_string()),
        )
    }

    fn rounds_of(&self, contestant: Contestant) -> Option<&[Round]> {
        let found = self.rounds.iter().find(|(one, _)| *one == contestant);
        found.map(|(_, rounds)| &rounds[..])
    }

    fn settle(&self, rounds: impl Iterator<Item = (f64, bool)>) -> Option<(Summary, usize)> {
        let rounds: Vec<(f64, bool)> = rounds.collect();
        let quiet = rounds.iter().filter(|(_, is_quiet)| *is_quiet).count();
        let kept = rounds
            .iter()
            .filter(|(_, is_quiet)| *is_quiet || quiet < ROUNDS_MIN)
            .map(|(figure, _)| *figure);
        Some((Summary::of(kept)?, quiet))
    }
}

fn is_quiet(round: &Round) -> bool {
    round
        .waited_share
        .is_none_or(|share| share <= DISTURBED_SHARE)
}
