//! Runs of figures.

use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::Duration;

use nearfar_model::simulation::Machine;
use nearfar_topology::Profile;

use super::claim::{Claim, Figure, Quantity};
use super::outcome::{ClaimOutcome, FigureOutcome};
use crate::bench::IndexBenchError;
use crate::modelled::{self, ModelledMachine};
use crate::placed::{PlacedOptions, PlacedOutcome, Policy, ScaleRule, Tuning};
use crate::workload::Integers;

/// How figures are run.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureOptions {
    /// The machine, made smaller by the bytes of the tree.
    pub profile: Profile,
    /// Loaded keys.
    pub keys: u64,
    /// Virtual cores.
    pub threads: NonZeroUsize,
    /// Virtual time before figures are taken.
    pub warm_up: Duration,
    /// Virtual time over which they are taken.
    pub measured: Duration,
    /// Begins the random numbers.
    pub seed: u64,
}

impl FigureOptions {
    /// As in `docs/index-benchmarks.md`: 200,000 keys and 28 cores, 20 ms before 2 ms that are measured.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            keys: 200_000,
            threads: NonZeroUsize::new(28).unwrap_or(NonZeroUsize::MIN),
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(2),
            seed: 1,
        }
    }
}

/// Virtual time between two looks of placement at the clock.
const SLICE: Duration = Duration::from_micros(100);

/// Runs the claims of figures. A run that several claims are of is made once. `observe` is told what is going on, and
/// the share of the claims that is done.
///
/// # Errors
/// [`IndexBenchError`]: the machine cannot be simulated, or there is no memory for a tree.
pub fn run(
    figures: &[Figure],
    options: &FigureOptions,
    mut observe: impl FnMut(&str, f64),
) -> Result<Vec<FigureOutcome>, IndexBenchError> {
    let mut runs = Runs {
        options,
        modelled: ModelledMachine {
            machine: Machine::new(&options.profile)?,
            scale: ScaleRule::Bytes,
            sampling: None,
        },
        keys: Rc::new(Integers::new(options.keys)),
        made: Vec::new(),
    };
    let all: usize = figures.iter().map(|figure| figure.claims().len()).sum();
    let (mut done, mut outcomes) = (0, Vec::new());
    for figure in figures {
        let mut claims = Vec::new();
        for claim in figure.claims() {
            observe(&claim.to_string(), done as f64 / all as f64);
            let modelled_percent = runs.percent(&claim)?;
            claims.push(ClaimOutcome {
                claim,
                modelled_percent,
            });
            done += 1;
        }
        outcomes.push(FigureOutcome {
            figure: *figure,
            claims,
        });
    }
    Ok(outcomes)
}

/// Runs that were made.
struct Runs<'o> {
    options: &'o FigureOptions,
    modelled: ModelledMachine,
    keys: Rc<Integers>,
    made: Vec<(PlacedOptions, PlacedOutcome)>,
}

impl Runs<'_> {
    /// What the model has in place of a claim.
    fn percent(&mut self, claim: &Claim) -> Result<f64, IndexBenchError> {
        let own = self.outcome(claim, claim.policy, claim.tuning)?;
        let (rate, background, workers) = (
            own.operations_per_s,
            own.background_share,
            own.worker_shares,
        );
        let share = match claim.quantity {
            Quantity::GainOver(over) => {
                let other = self.outcome(claim, over, Tuning::default())?;
                rate / other.operations_per_s - 1.0
            }
            Quantity::WorkerShare(None) => background,
            Quantity::WorkerShare(Some(worker)) => {
                let mut workers = workers.into_iter().flatten();
                let found = workers.find(|(one, _)| *one == worker);
                found.map_or(0.0, |(_, share)| share)
            }
        };
        Ok(share * 100.0)
    }

    /// The run of a policy in a claim's experiment.
    fn outcome(
        &mut self,
        claim: &Claim,
        policy: Policy,
        tuning: Tuning,
    ) -> Result<&PlacedOutcome, IndexBenchError> {
        let options = PlacedOptions {
            contestant: claim.tree,
            policy,
            workload: claim.workload.clone(),
            near_percent: claim.near_percent,
            threads: self.options.threads.get(),
            batch: 1,
            warm_up: self.options.warm_up,
            measured: self.options.measured,
            slice: SLICE,
            shift: None,
            value_bytes: claim.value_bytes,
            tuning,
            seed: self.options.seed,
        };
        let made = self.made.iter().position(|(made, _)| *made == options);
        let index = match made {
            Some(index) => index,
            None => {
                let outcome = modelled::run(&options, &self.modelled, &self.keys, |_| ());
                let outcome = outcome.map_err(|source| IndexBenchError::Placed {
                    contestant: claim.tree,
                    policy,
                    source,
                })?;
                self.made.push((options, outcome));
                self.made.len() - 1
            }
        };
        Ok(&self.made[index].1)
    }
}
