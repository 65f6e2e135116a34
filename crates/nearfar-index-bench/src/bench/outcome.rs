//! What a comparison gave.

use nearfar_measure::{Kind, Summary};

use super::options::BenchOptions;
use super::run::PlannedRun;
use crate::map::Contestant;
use crate::native::{Compared, Round};
use crate::placed::{Mode, PlacedOutcome, Policy};

/// A run under a placement policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedRun {
    /// What was run.
    pub planned: PlannedRun,
    /// Under which policy.
    pub policy: Policy,
    /// What it gave.
    pub outcome: PlacedOutcome,
}

/// All of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexBenchOutcome {
    /// What was compared.
    pub options: BenchOptions,
    /// Loaded keys.
    pub keys: u64,
    /// Maps that could not take part, and why.
    pub left_out: Vec<(Contestant, String)>,
    /// Native runs, contestant by contestant.
    pub compared: Vec<Compared>,
    /// Runs under placement policies.
    pub placed: Vec<PlacedRun>,
}

/// A run in which a thread waited for longer than this share of it is disturbed.
const DISTURBED_SHARE: f64 = 0.02;

/// Fewer undisturbed runs than this are no basis.
const ROUNDS_MIN: usize = 3;

fn is_quiet(round: &Round) -> bool {
    round
        .waited_share
        .is_none_or(|share| share <= DISTURBED_SHARE)
}

/// Sums figures up: of undisturbed runs, or of all where there are too few of those. With the
/// number of undisturbed ones.
fn settle(figures: impl Iterator<Item = (f64, bool)>) -> Option<(Summary, usize)> {
    let figures: Vec<(f64, bool)> = figures.collect();
    let quiet = figures.iter().filter(|(_, is_quiet)| *is_quiet).count();
    let kept = figures
        .iter()
        .filter(|(_, is_quiet)| *is_quiet || quiet < ROUNDS_MIN)
        .map(|(figure, _)| *figure);
    Some((Summary::of(kept)?, quiet))
}

/// Millions of operations per second over the runs, and the number of undisturbed ones.
pub(super) fn throughput_mops(compared: &Compared) -> Option<(Summary, usize)> {
    let rounds = compared.rounds.iter();
    settle(rounds.map(|round| (round.operations_per_s / 1e6, is_quiet(round))))
}

impl IndexBenchOutcome {
    /// The best of the other crates' maps in the same workload with the same threads.
    pub(super) fn best_rival(&self, of: &Compared) -> Option<&Compared> {
        let rivals = self.compared.iter().filter(|one| {
            !one.contestant.is_ours() && one.workload == of.workload && one.threads == of.threads
        });
        let with_rate = rivals.filter_map(|one| Some((throughput_mops(one)?.0.median, one)));
        let best = with_rate.max_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, one)| one)
    }

    /// One of our trees' throughput over that of the best of the others, run by run.
    pub(super) fn ratio_to_best_rival(
        &self,
        of: &Compared,
    ) -> Option<(Contestant, Summary, usize)> {
        if !of.contestant.is_ours() {
            return None;
        }
        let best = self.best_rival(of)?;
        let runs = of.rounds.iter().zip(&best.rounds);
        let (summary, quiet) = settle(runs.map(|(ours, other)| {
            let ratio = ours.operations_per_s / other.operations_per_s;
            (ratio, is_quiet(ours) && is_quiet(other))
        }))?;
        Some((best.contestant, summary, quiet))
    }

    /// The same tree's run under another policy.
    pub(super) fn under(&self, policy: Policy, of: &PlacedRun) -> Option<&PlacedRun> {
        self.placed.iter().find(|one| {
            one.policy == policy
                && one.planned.contestant == of.planned.contestant
                && one.planned.workload == of.planned.workload
                && one.planned.threads == of.planned.threads
        })
    }

    /// Measured on this machine, or modelled.
    pub(super) fn kind(&self) -> Kind {
        match self.options.mode {
            Mode::Native => Kind::Measured,
            Mode::Emulated | Mode::Virtual => Kind::Modelled,
        }
    }

    /// Whether nothing ran.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.compared.is_empty() && self.placed.is_empty()
    }
}

/// The value below which so many of a hundred are; `None` without values.
pub(super) fn percentile(ascending: &[f64], percent: usize) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    ascending
        .get((ascending.len() * percent / 100).min(last))
        .copied()
}
