//! One run of one tree under one policy.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearfar_index::placement::{PlacedTree, Placer};
use nearfar_memory::TierId;
use nearfar_model::simulation::{Caches, Machine, Program, Recorder, Simulation};

use super::cores::{Board, Feed, Mover, Traffic, Untimed, Worker};
use super::costs::{ComputeCosts, Counted};
use super::live::LiveRun;
use super::migrator::Migrator;
use super::space::Space;
use crate::map::{PlacedMap, PlacedVisitor, TestKey};
use crate::placed::{
    PlacedError, PlacedOptions, PlacedOutcome, Policy, PolicyMemory, Scale, ScaleRule,
    counter_bytes, oracle, stand_in_system, store_all, tree_bytes,
};
use crate::workload::{KeySpace, Requests};

/// The machine that is modelled.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelledMachine {
    /// The machine, before it is scaled.
    pub machine: Machine,
    /// By what caches and intervals are made smaller.
    pub scale: ScaleRule,
}

/// Runs one tree under one policy. `observe` is told the share of the run that is done.
///
/// # Errors
/// [`PlacedError`].
pub fn run<S: KeySpace>(
    options: &PlacedOptions,
    modelled: &ModelledMachine,
    keys: &Rc<S>,
    observe: impl FnMut(f64),
) -> Result<PlacedOutcome, PlacedError> {
    options.check()?;
    modelled.machine.check_threads(options.threads + 1)?;
    let system = stand_in_system()?;
    let contestant = options.contestant;
    let tree_bytes = tree_bytes((contestant, options.value_bytes), &**keys, &system)?;
    let near_bytes = options.near_bytes(tree_bytes);
    let run = Run {
        scale: Scale::new(modelled.scale, keys.count(), tree_bytes),
        options,
        machine: &modelled.machine,
        keys,
        tree_bytes,
        near_bytes,
        observe,
    };
    let source = PolicyMemory {
        near_bytes: Some(near_bytes),
        ..PolicyMemory::new(&system, options.policy, options.near_percent)
    };
    S::Key::open_placed(contestant, options.value_bytes, &source, run)?
}

/// A run to come.
pub(super) struct Run<'r, S, O> {
    pub(super) options: &'r PlacedOptions,
    /// The machine, before it is scaled.
    pub(super) machine: &'r Machine,
    pub(super) scale: Scale,
    pub(super) keys: &'r Rc<S>,
    pub(super) tree_bytes: u64,
    near_bytes: u64,
    pub(super) observe: O,
}

/// Times that the framework is stepped after loading, before the run begins.
const SETTLING_STEPS: u32 = 20;

impl<S: KeySpace, O: FnMut(f64)> PlacedVisitor<S::Key> for Run<'_, S, O> {
    type Output = Result<PlacedOutcome, PlacedError>;

    fn visit<M: PlacedMap<S::Key>>(mut self, map: M) -> Self::Output {
        let began = Instant::now();
        let (mut migrator, placed_for) = self.prepare(&map)?;
        let map = Rc::new(map);
        let memory = map.tree().memory();
        let heaps = (0..memory.tiers()).filter_map(TierId::from_index);
        let heaps = heaps.filter_map(|tier| memory.addresses(tier)).collect();
        let space = self.space(heaps, &*map, &mut migrator);
        let traffic = Rc::new(Traffic::default());
        let board = Rc::new(Board::default());
        let samples: Vec<Rc<RefCell<Vec<u32>>>> =
            (0..self.options.threads).map(|_| Rc::default()).collect();
        let mut programs: Vec<Box<dyn Program>> = Vec::new();
        let costs = ComputeCosts::new(Counted::of(self.options.contestant)?, self.machine);
        let requests = (0..self.options.threads).map(|thread| self.requests(thread));
        let feeds: Vec<_> = requests
            .map(|one| Rc::new(RefCell::new(Feed::new(one))))
            .collect();
        for (samples, feed) in samples.iter().zip(&feeds) {
            programs.push(Box::new(Worker {
                map: Rc::clone(&map),
                keys: Rc::clone(self.keys),
                board: Rc::clone(&board),
                recorder: Recorder::new(Rc::clone(&space)),
                costs,
                feed: Rc::clone(feed),
                batch: self.options.batch,
                begun: 0,
                samples: Rc::clone(samples),
            }));
        }
        programs.push(Box::new(Mover {
            traffic: Rc::clone(&traffic),
            board: Rc::clone(&board),
        }));
        let machine = self.machine;
        let machine = if programs.len() > machine.cores as usize {
            &machine.with_a_core_per_thread(programs.len())
        } else {
            machine
        };
        let cores = programs.len().min(machine.cores as usize);
        let machine = self.scale.machine(machine, cores);
        let address_map = space.map(&machine)?;
        let simulation = Simulation::new(&machine, address_map, programs, Caches::Simulated)?;
        let mut untimed = Untimed {
            map: Rc::clone(&map),
            keys: Rc::clone(self.keys),
            board: Rc::clone(&board),
            recorder: space.pages().map(|_| Recorder::new(Rc::clone(&space))),
            feeds,
        };
        let live = LiveRun {
            carry_out: Box::new(move |operations| untimed.carry_out(operations)),
            run: &mut self,
            counter_bytes: counter_bytes(&**map.tree()),
            simulation,
            board,
            space,
            traffic,
            migrator,
            placed_for,
            samples,
        };
        let mut outcome = live.go(map.tree())?;
        outcome.took = began.elapsed();
        Ok(outcome)
    }
}

impl<S: KeySpace, O> Run<'_, S, O> {
    fn requests(&self, thread: usize) -> Requests {
        let ranks_per_key = self.scale.factor.round() as u64;
        let requests = self.options.requests(&**self.keys, thread);
        requests.standing_for(ranks_per_key)
    }

    /// The most bytes that may be near, where the policy keeps to that.
    pub(super) fn near_bytes_max(&self) -> Option<u64> {
        self.options.policy.near_bytes_max(self.near_bytes)
    }

    /// Loads the tree and lets placement settle. Gives what places it during the run, and how long
    /// it has been at it.
    fn prepare<M: PlacedMap<S::Key>>(
        &self,
        map: &M,
    ) -> Result<(Migrator<M::Tree>, Duration), PlacedError> {
        let contestant = self.options.contestant;
        let failed = |error| PlacedError::Map { contestant, error };
        let policy = self.options.policy;
        let Some(mut framework) = policy.framework() else {
            store_all::<S, M>(map, self.keys, |_| ()).map_err(failed)?;
            return Ok((Migrator::Nobody, Duration::ZERO));
        };
        let intervals = &mut framework.intervals;
        for interval in [
            &mut intervals.trigger,
            &mut intervals.cooler,
            &mut intervals.maintainer,
        ] {
            *interval = self.scale.interval(*interval);
        }
        let step = framework.intervals.maintainer;
        let placer = Placer::new(Arc::clone(map.tree()), framework)?;
        let mut now = Duration::ZERO;
        store_all::<S, M>(map, self.keys, |_| {
            now += step / 16;
            placer.step(now);
        })
        .map_err(failed)?;
        for _ in 0..SETTLING_STEPS {
            now += step;
            placer.step(now);
        }
        if policy == Policy::Oracle {
            oracle::learn::<S, M>(map, self.keys, self.requests(0)).map_err(failed)?;
            oracle::place(&placer);
            return Ok((Migrator::Nobody, now));
        }
        Ok((Migrator::framework(placer), now))
    }

    /// The modelled address space, with pages where a policy moves those.
    fn space<M: PlacedMap<S::Key>>(
        &self,
        heaps: Vec<std::ops::Range<usize>>,
        map: &M,
        migrator: &mut Migrator<M::Tree>,
    ) -> Rc<Space> {
        let Some((rule, shift)) = self.options.policy.page() else {
            return Rc::new(Space::new(heaps, None));
        };
        let share = f64::from(self.options.near_percent) / 100.0;
        let look_every = self.scale.interval(Migrator::<M::Tree>::PAGE_LOOK);
        migrator.with_pages::<S, M>((rule, shift), heaps, (map, self.keys), (share, look_every))
    }
}
