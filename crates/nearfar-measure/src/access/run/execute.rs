//! Run by run, repetition by repetition.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nearfar_memory::RegionError;
use nearfar_model::simulation::{Machine, MachineError};

use super::host::Host;
use crate::access::outcome::{Outcome, RegionFacts, Repetition};
use crate::access::plan::{Plan, PlanTarget, PlannedRun};
use crate::access::prefetchers::{PrefetcherError, PrefetchersOff};
use crate::access::simulate::simulate;

/// Why a run could not be made. What was done before remains valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// A region that cannot be had.
    #[error("{run}: region {region:?}")]
    Region {
        /// The run.
        run: String,
        /// The region.
        region: String,
        /// Why.
        #[source]
        source: Box<RegionError>,
    },
    /// A thread that cannot be pinned.
    #[error("{run}: a thread cannot be pinned to processor {cpu}")]
    Pin {
        /// The run.
        run: String,
        /// The processor.
        cpu: u32,
        /// Why.
        #[source]
        source: nearfar_memory::sys::SysError,
    },
    /// Prefetchers that cannot be switched off after all.
    #[error("{run}")]
    Prefetchers {
        /// The run.
        run: String,
        /// Why.
        #[source]
        source: PrefetcherError,
    },
    /// A run that the simulator does not take.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The user stopped it.
    #[error("interrupted after {done} of {runs} runs")]
    Stopped {
        /// Runs that were finished.
        done: usize,
        /// Runs of the plan.
        runs: usize,
    },
    /// Results that could not be kept.
    #[error("results cannot be written")]
    Keep(#[source] std::io::Error),
}

/// Follows the execution of a plan.
pub trait Observer {
    /// Whether this run was done before, and is to be left out.
    fn is_done(&self, _run: &PlannedRun) -> bool {
        false
    }

    /// A repetition begins; `left` is about the time until the plan is done.
    fn begins(&mut self, _run: &PlannedRun, _index: usize, _repetition: u32, _left: Duration) {}

    /// The last repetition of a run is over: what comes until [`Self::done`] is no part of what is measured.
    fn ends(&mut self, _run: &PlannedRun) {}

    /// A run is done.
    ///
    /// # Errors
    /// Where its outcome cannot be kept, which ends the execution.
    fn done(&mut self, run: &PlannedRun, outcome: &Outcome) -> std::io::Result<()>;
}

/// Runs every point of `plan` in order. Once `stop` is set, the run in progress is given up.
///
/// # Errors
/// [`ExecuteError`]; outcomes that the observer has got before are valid.
pub fn execute(
    plan: &Plan,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(), ExecuteError> {
    let mut target = Target::new(plan);
    target.try_prefetchers(plan)?;
    let mut pace = Pace::new(plan, observer);
    for (index, run) in plan.runs.iter().enumerate() {
        if observer.is_done(run) {
            continue;
        }
        let stopped = || ExecuteError::Stopped {
            done: index,
            runs: plan.runs.len(),
        };
        if !target.prepare(run, stop)? {
            return Err(stopped());
        }
        let began = Instant::now();
        let mut repetitions = Vec::new();
        for repetition in 0..run.spec.repetitions {
            observer.begins(run, index, repetition, pace.left());
            match target.once(run, repetition, Until { stop, ended: None })? {
                Some(done) if !stop.load(Ordering::Relaxed) => repetitions.push(done),
                _ => return Err(stopped()),
            }
        }
        observer.ends(run);
        let outcome = Outcome::new(run, repetitions, target.facts(run), began.elapsed());
        observer.done(run, &outcome).map_err(ExecuteError::Keep)?;
        pace.done(run);
    }
    Ok(())
}

/// What ends a run before its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until<'a> {
    /// The user wants to stop: what was done is worth nothing.
    pub stop: &'a AtomicBool,
    /// What the run stands beside is over: what was done until then counts.
    pub ended: Option<&'a AtomicBool>,
}

impl Until<'_> {
    pub(crate) fn is_over(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(self.stop) || self.ended.is_some_and(is_set)
    }
}

/// Where runs are made.
pub(crate) enum Target<'a> {
    Host(Box<Host<'a>>),
    Simulated(&'a Machine),
}

impl<'a> Target<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        match &plan.target {
            PlanTarget::Memory { system, models } => {
                Self::Host(Box::new(Host::new(system, models)))
            }
            PlanTarget::Simulated(machine) => Self::Simulated(machine),
        }
    }

    /// Finds out by doing it whether prefetchers can be switched off, where a run wants that.
    fn try_prefetchers(&self, plan: &Plan) -> Result<(), ExecuteError> {
        match (self, plan.runs.iter().find(|run| !run.spec.prefetchers)) {
            (Self::Host(_), Some(run)) => without_prefetchers(run).map(drop),
            _ => Ok(()),
        }
    }

    /// Gets what `run` needs; false if it was stopped.
    pub(crate) fn prepare(
        &mut self,
        run: &PlannedRun,
        stop: &AtomicBool,
    ) -> Result<bool, ExecuteError> {
        match self {
            Self::Host(host) => host.prepare(run, stop),
            Self::Simulated(_) => Ok(true),
        }
    }

    /// One repetition; `None` if it was stopped.
    pub(crate) fn once(
        &mut self,
        run: &PlannedRun,
        repetition: u32,
        until: Until<'_>,
    ) -> Result<Option<Repetition>, ExecuteError> {
        match self {
            Self::Host(host) => host.once(run, repetition, until),
            Self::Simulated(machine) if run.spec.prefetchers => {
                Ok(simulate(machine, run, repetition, until.stop)?)
            }
            Self::Simulated(machine) => {
                let machine = machine.without_prefetchers();
                Ok(simulate(&machine, run, repetition, until.stop)?)
            }
        }
    }

    pub(crate) fn facts(&self, run: &PlannedRun) -> Vec<RegionFacts> {
        match self {
            Self::Host(host) => host.facts(),
            Self::Simulated(_) => {
                let fact = RegionFacts {
                    verification: "simulated".to_owned(),
                    huge_page_bytes: None,
                };
                vec![fact; run.regions.len()]
            }
        }
    }
}

/// Switches prefetchers off for a run.
pub(super) fn without_prefetchers(run: &PlannedRun) -> Result<PrefetchersOff, ExecuteError> {
    PrefetchersOff::switch().map_err(|source| ExecuteError::Prefetchers {
        run: run.id(),
        source,
    })
}

/// How long the rest takes, by how long the beginning took.
struct Pace {
    began: Instant,
    done: Duration,
    all: Duration,
}

impl Pace {
    fn new(plan: &Plan, observer: &dyn Observer) -> Self {
        let left = plan.runs.iter().filter(|run| !observer.is_done(run));
        Self {
            began: Instant::now(),
            done: Duration::ZERO,
            all: left
                .map(PlannedRun::time)
                .fold(Duration::ZERO, Duration::saturating_add),
        }
    }

    fn done(&mut self, run: &PlannedRun) {
        self.done = self.done.saturating_add(run.time());
    }

    fn left(&self) -> Duration {
        let estimated = self.all.saturating_sub(self.done);
        if self.done.is_zero() {
            return estimated;
        }
        let pace = self.began.elapsed().div_duration_f64(self.done);
        Duration::try_from_secs_f64(estimated.as_secs_f64() * pace).unwrap_or(Duration::MAX)
    }
}
