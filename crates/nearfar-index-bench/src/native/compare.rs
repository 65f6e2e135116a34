//! Contestants in turn.

use std::num::NonZeroUsize;
use std::sync::Arc;

use nearfar_memory::{MemorySystem, TierId};

use super::subject::{Boxed, Loading, Round, Subject};
use crate::map::{Contestant, EntryBytes, MapError, MemorySource, OpenError, TestKey};
use crate::workload::{KeySpace, Requests, Trace, Workload};

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct NativeOptions {
    /// Who takes part.
    pub contestants: Vec<Contestant>,
    /// Numbers of threads, each a series of runs of its own.
    pub threads: Vec<NonZeroUsize>,
    /// Runs of each.
    pub runs: NonZeroUsize,
    /// Operations of each thread in a run.
    pub operations: NonZeroUsize,
    /// Keys looked up together; 1 looks them up singly.
    pub batch: NonZeroUsize,
    /// Bytes of each value, from 8 on.
    pub value_bytes: usize,
    /// Begins the random numbers.
    pub seed: u64,
}

/// Why a comparison ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// A map took a key no more.
    #[error("{contestant}: {error}")]
    Map {
        /// Whose.
        contestant: Contestant,
        /// Why.
        error: MapError,
    },
    /// A contestant has no map of such keys, or none on such memory.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A map is being loaded.
    Loading {
        /// Whose.
        contestant: Contestant,
    },
    /// A map was loaded.
    Loaded {
        /// Whose.
        contestant: Contestant,
        /// How.
        loading: Loading,
    },
    /// A run ended.
    Ran {
        /// Whose.
        contestant: Contestant,
        /// Which of the workloads.
        workload: &'static str,
        /// Its threads.
        threads: usize,
        /// Its number, from 0.
        run: usize,
        /// What it reached.
        operations_per_s: f64,
        /// Runs done and runs in all, of all contestants together.
        progress: (usize, usize),
    },
}

/// All runs of one contestant in one workload with one number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Who.
    pub contestant: Contestant,
    /// What was asked.
    pub workload: Workload,
    /// Threads.
    pub threads: usize,
    /// How the map was loaded.
    pub loading: Loading,
    /// The runs, in turn with those of the others.
    pub rounds: Vec<Round>,
}

struct Side<S> {
    contestant: Contestant,
    loading: Loading,
    subject: Box<dyn Subject<S>>,
}

/// Loads all contestants and runs the workloads on them in turn. Our trees are made on `source`;
/// `system` is asked how many bytes a map took.
///
/// # Errors
/// [`NativeError`].
pub fn compare<S: KeySpace>(
    options: &NativeOptions,
    workloads: &[Workload],
    keys: &S,
    (source, system): (&dyn MemorySource, Option<&Arc<MemorySystem>>),
    mut observe: impl FnMut(Event),
) -> Result<Vec<Compared>, NativeError> {
    let mut sides = Vec::new();
    for contestant in options.contestants.iter().copied() {
        observe(Event::Loading { contestant });
        let side = load(contestant, keys, options, (source, system))?;
        let loading = side.loading;
        observe(Event::Loaded {
            contestant,
            loading,
        });
        sides.push(side);
    }
    let series = workloads.len() * options.threads.len();
    let mut all = Vec::new();
    let mut arena = Arena {
        options,
        keys,
        sides,
        fresh: keys.count(),
        progress: (0, series * options.runs.get() * options.contestants.len()),
        observe: &mut observe,
    };
    for workload in workloads {
        for threads in &options.threads {
            all.extend(arena.run_in_turn(workload, threads.get())?);
        }
    }
    Ok(all)
}

fn load<S: KeySpace>(
    contestant: Contestant,
    keys: &S,
    options: &NativeOptions,
    (source, system): (&dyn MemorySource, Option<&Arc<MemorySystem>>),
) -> Result<Side<S>, NativeError> {
    let live = || system.map(|system| system.usage(TierId::NEAR).heap_live_bytes);
    let before = live();
    let bytes = EntryBytes {
        key_max: keys.key_bytes_max(),
        value: options.value_bytes,
    };
    let subject = S::Key::open(contestant, bytes, source, Boxed::<S>::default())?;
    let threads = options.threads.iter().map(|threads| threads.get()).max();
    let keys_per_s = subject
        .load(keys, threads.unwrap_or(1))
        .map_err(|error| NativeError::Map { contestant, error })?;
    let taken = live()
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before));
    let bytes = subject.own_bytes().or(taken);
    Ok(Side {
        contestant,
        loading: Loading { keys_per_s, bytes },
        subject,
    })
}

/// All contestants, loaded.
struct Arena<'a, S> {
    options: &'a NativeOptions,
    keys: &'a S,
    sides: Vec<Side<S>>,
    /// The first number of a key that nobody has inserted.
    fresh: u64,
    progress: (usize, usize),
    observe: &'a mut dyn FnMut(Event),
}

impl<S: KeySpace> Arena<'_, S> {
    fn run_in_turn(
        &mut self,
        workload: &Workload,
        threads: usize,
    ) -> Result<Vec<Compared>, NativeError> {
        let mut requests: Vec<Requests> = (0..threads as u64)
            .map(|thread| {
                let keys = (self.keys.count(), self.fresh);
                Requests::new(workload, keys, (thread, threads as u64), self.options.seed)
            })
            .collect();
        let compared = self.sides.iter().map(|side| Compared {
            contestant: side.contestant,
            workload: workload.clone(),
            threads,
            loading: side.loading,
            rounds: Vec::new(),
        });
        let mut compared: Vec<Compared> = compared.collect();
        let mut traces = vec![Trace::default(); threads];
        for run in 0..self.options.runs.get() {
            self.draw(&mut requests, &mut traces);
            for turn in 0..self.sides.len() {
                // Whoever was first in this run is last in the next.
                let index = (turn + run) % self.sides.len();
                let round = self.run_one(index, &traces)?;
                self.progress.0 += 1;
                (self.observe)(Event::Ran {
                    contestant: self.sides[index].contestant,
                    workload: workload.name,
                    threads,
                    run,
                    operations_per_s: round.operations_per_s,
                    progress: self.progress,
                });
                compared[index].rounds.push(round);
            }
        }
        let after = requests.iter().map(Requests::fresh_after).max();
        self.fresh = after.unwrap_or(self.fresh);
        Ok(compared)
    }

    fn run_one(&self, index: usize, traces: &[Trace]) -> Result<Round, NativeError> {
        let Side {
            contestant,
            subject,
            ..
        } = &self.sides[index];
        let round = subject.run(traces, self.options.batch.get());
        round.map_err(|error| NativeError::Map {
            contestant: *contestant,
            error,
        })
    }

    /// Draws the requests of the next run, on as many threads as it has.
    fn draw(&self, requests: &mut [Requests], traces: &mut [Trace]) {
        let (keys, count) = (self.keys, self.options.operations.get());
        std::thread::scope(|scope| {
            for (requests, trace) in requests.iter_mut().zip(traces) {
                scope.spawn(move || {
                    trace.clear();
                    requests.draw(keys, count, trace);
                });
            }
        });
    }
}
