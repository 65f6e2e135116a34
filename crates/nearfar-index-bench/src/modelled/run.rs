//! One run of one tree under one policy.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearfar_index::placement::{PlacedTree, Placer, seed_chance};
use nearfar_memory::TierId;
use nearfar_model::CACHE_LINE_BYTES;
use nearfar_model::simulation::{Caches, Machine, Program, Recorder, Simulation};

use super::cores::{Board, Feed, Mover, Samples, Traffic, Worker};
use super::costs::{ComputeCosts, Counted};
use super::live::LiveRun;
use super::migrator::Migrator;
use super::sampling::Sampling;
use super::space::Space;
use super::untimed::UntimedRequests;
use crate::map::{MapError, PlacedMap, PlacedVisitor, PlatformMemory, TestKey};
use crate::placed::{
    HotSet, Mode, PlacedError, PlacedOptions, PlacedOutcome, Policy, PolicyMemory, Scale,
    ScaleRule, estimated_tree_bytes, leaves, oracle, stand_in_system, store_all, store_all_sorted,
    tree_bytes,
};
use crate::workload::{KeySpace, Requests};

/// The machine that is modelled.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelledMachine {
    /// The machine, before it is scaled.
    pub machine: Machine,
    /// By what caches and intervals are made smaller.
    pub scale: ScaleRule,
    /// How windows are chosen that are simulated; none to simulate all of the measured time.
    pub sampling: Option<Sampling>,
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
    options.check(Mode::Virtual)?;
    let sampling = modelled.sampling.as_ref();
    sampling.map_or(Ok(()), |sampling| sampling.check(options))?;
    modelled.machine.check_threads(options.threads + 1)?;
    seed_chance(options.seed);
    let (system, far) = stand_in_system()?;
    let contestant = options.contestant;
    let kind = (contestant, options.value_bytes);
    let tree_bytes = match sampling {
        None => tree_bytes(kind, &**keys, &PlatformMemory)?,
        Some(_) => estimated_tree_bytes(kind, &**keys)?,
    };
    let near_bytes = options.near_bytes(tree_bytes);
    let run = Run {
        scale: Scale::new(modelled.scale, keys.count(), tree_bytes),
        options,
        machine: &modelled.machine,
        sampling,
        keys,
        tree_bytes,
        near_bytes,
        observe,
    };
    let source = PolicyMemory {
        near_bytes: Some(near_bytes),
        huge_pages: sampling.is_some(),
        ..PolicyMemory::new((&system, far), options.policy, options.near_percent)
    };
    let source = source.with_room_for(tree_bytes);
    S::Key::open_placed(contestant, options.value_bytes, &source, run)?
}

/// A run to come.
pub(super) struct Run<'r, S, O> {
    pub(super) options: &'r PlacedOptions,
    /// The machine, before it is scaled.
    pub(super) machine: &'r Machine,
    sampling: Option<&'r Sampling>,
    pub(super) scale: Scale,
    pub(super) keys: &'r Rc<S>,
    /// Bytes of the loaded tree, which are estimated until it is loaded where windows are simulated only.
    pub(super) tree_bytes: u64,
    near_bytes: u64,
    pub(super) observe: O,
}

/// Times that the framework is stepped after loading, before the run begins.
const SETTLING_STEPS: u32 = 20;
/// Keys that are loaded per second of the framework's time where windows are simulated only. Assumed: somewhat fewer than
/// lookups that cores answer.
const LOADED_PER_S: f64 = 60e6;
/// Loaded keys for which the oracle of such a tree learns from one request.
const LEARNED_PER_KEYS: u64 = 4;

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
        let cores = self.cores(&map, &space)?;
        let board = Rc::clone(&cores.board);
        let mut programs = cores.programs;
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
        let count = programs.len().min(machine.cores as usize);
        let machine = self.scale.machine(machine, count);
        let address_map = space.map(&machine)?;
        let simulation = Simulation::new(&machine, address_map, programs, Caches::Simulated)?;
        let untimed = UntimedRequests {
            map: Rc::clone(&map),
            keys: Rc::clone(self.keys),
            board: Rc::clone(&board),
            recorder: Recorder::new(Rc::clone(&space)),
            counts_pages: space.pages().is_some(),
            feeds: cores.feeds,
        };
        let sampling = self.sampling;
        let live = LiveRun {
            untimed: Box::new(untimed),
            run: &mut self,
            leaves: leaves(&**map.tree()),
            cache_lines: (machine.l3_bytes + machine.l2_bytes_of(count)) / CACHE_LINE_BYTES,
            last_level_bytes: machine.l3_bytes,
            simulation,
            board,
            space,
            traffic,
            migrator,
            placed_for,
            samples: cores.samples,
        };
        let mut outcome = match sampling {
            None => live.go(map.tree())?,
            Some(sampling) => live.sample(sampling, map.tree())?,
        };
        outcome.took = began.elapsed();
        Ok(outcome)
    }
}

/// The cores that answer requests, and what they share with others.
struct Cores {
    board: Rc<Board>,
    programs: Vec<Box<dyn Program>>,
    feeds: Vec<Rc<RefCell<Feed>>>,
    samples: Vec<Samples>,
}

impl<S: KeySpace, O> Run<'_, S, O> {
    fn requests(&self, thread: usize) -> Requests {
        let ranks_per_key = self.scale.factor.round() as u64;
        let requests = self.options.requests(&**self.keys, thread);
        requests.standing_for(ranks_per_key)
    }

    /// Cores that answer requests on the map.
    fn cores<M: PlacedMap<S::Key>>(
        &self,
        map: &Rc<M>,
        space: &Rc<Space>,
    ) -> Result<Cores, PlacedError> {
        let mut cores = Cores {
            board: Rc::default(),
            programs: Vec::new(),
            feeds: Vec::new(),
            samples: Vec::new(),
        };
        let costs = ComputeCosts::new(Counted::of(self.options.contestant)?, self.machine);
        for thread in 0..self.options.threads {
            let feed = Rc::new(RefCell::new(Feed::new(self.requests(thread))));
            let samples = Samples::default();
            cores.programs.push(Box::new(Worker {
                map: Rc::clone(map),
                keys: Rc::clone(self.keys),
                board: Rc::clone(&cores.board),
                recorder: Recorder::new(Rc::clone(space)),
                costs,
                feed: Rc::clone(&feed),
                batch: self.options.batch,
                begun: 0,
                samples: Rc::clone(&samples),
            }));
            cores.feeds.push(feed);
            cores.samples.push(samples);
        }
        Ok(cores)
    }

    /// What the workload uses most of the loaded tree, beside the scaled machine's last level.
    pub(super) fn hot_set(&self, leaves: u64, last_level_bytes: u64) -> Option<HotSet> {
        let keys = (self.keys.count(), self.scale.factor.round() as u64);
        let tree = (leaves, self.tree_bytes);
        HotSet::new(&self.options.workload, keys, tree, last_level_bytes)
    }

    /// The most bytes that may be near, where the policy keeps to that.
    pub(super) fn near_bytes_max(&self) -> Option<u64> {
        self.options.policy.near_bytes_max(self.near_bytes)
    }

    /// Loads the tree and lets placement settle. Gives what places it during the run, and how long
    /// it has been at it.
    fn prepare<M: PlacedMap<S::Key>>(
        &mut self,
        map: &M,
    ) -> Result<(Migrator<M::Tree>, Duration), PlacedError> {
        let contestant = self.options.contestant;
        let failed = |error| PlacedError::Map { contestant, error };
        let Some(mut framework) = self.options.framework() else {
            match self.sampling {
                None => store_all::<S, M>(map, self.keys, |_| ()),
                Some(_) => self.load_followed(map, |_| ()),
            }
            .map_err(failed)?;
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
        let step = self.loading_step();
        let placer = Placer::new(Arc::clone(map.tree()), framework)?;
        if self.sampling.is_some() {
            return self.prepare_followed(map, placer, step).map_err(failed);
        }
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
        if self.options.policy == Policy::Oracle {
            let requests = (self.requests(0), oracle::REQUESTS_MIN);
            oracle::learn::<S, M>(map, self.keys, requests).map_err(failed)?;
            oracle::place(&placer);
            return Ok((Migrator::Nobody, now));
        }
        Ok((Migrator::framework(placer), now))
    }

    /// Time between two looks of placement at the clock while trees are loaded and settle: the maintainer's interval as
    /// the policy has it, whatever is chosen for the run.
    fn loading_step(&self) -> Duration {
        let framework = self.options.policy.framework().unwrap_or_default();
        self.scale.interval(framework.intervals.maintainer)
    }

    /// As [`Self::prepare`], where placement is followed: its work takes time while the tree is loaded, too.
    fn prepare_followed<M: PlacedMap<S::Key>>(
        &mut self,
        map: &M,
        placer: Placer<Arc<M::Tree>>,
        step: Duration,
    ) -> Result<(Migrator<M::Tree>, Duration), MapError> {
        if self.options.policy == Policy::Oracle {
            self.load_followed(map, |_| ())?;
            let count = oracle::REQUESTS_MIN.max(self.keys.count() / LEARNED_PER_KEYS);
            oracle::learn::<S, M>(map, self.keys, (self.requests(0), count))?;
            oracle::place(&placer);
            return Ok((Migrator::Nobody, Duration::ZERO));
        }
        let mut migrator = Migrator::framework(placer);
        let mut now = Duration::ZERO;
        self.load_followed(map, |keys| {
            now = Duration::from_secs_f64(keys as f64 / LOADED_PER_S);
            migrator.follow(now);
        })?;
        migrator.measure_tree();
        for _ in 0..SETTLING_STEPS {
            now += step;
            migrator.follow(now);
        }
        Ok((migrator, now))
    }

    /// Loads the tree, and finds out what it has and with it what its share is. `between` is told how many keys are
    /// loaded.
    fn load_followed<M: PlacedMap<S::Key>>(
        &mut self,
        map: &M,
        between: impl FnMut(u64),
    ) -> Result<(), MapError> {
        store_all_sorted::<S, M>(map, self.keys, between)?;
        let memory = map.tree().memory();
        memory.quiesce();
        self.tree_bytes = memory.used_bytes();
        self.near_bytes = self.options.near_bytes(self.tree_bytes);
        if let Some(near_bytes) = self.near_bytes_max() {
            memory.set_budget(TierId::NEAR, near_bytes);
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Contestant, WORD_BYTES};
    use crate::placed::Tuning;
    use crate::workload::Integers;

    /// Loads a tree, and gives how long placement has been at it.
    struct Prepared<'r>(Run<'r, Integers, ()>);

    impl PlacedVisitor<u64> for Prepared<'_> {
        type Output = Result<Duration, PlacedError>;

        fn visit<M: PlacedMap<u64>>(mut self, map: M) -> Self::Output {
            Ok(self.0.prepare(&map)?.1)
        }
    }

    #[test]
    fn trees_load_and_settle_as_long_whatever_the_maintainers_interval_is() {
        let keys = Rc::new(Integers::new(2_000));
        let machine = nearfar_topology::Profile::builtin("cxl-card").unwrap();
        let machine = Machine::new(&machine).unwrap();
        let sampling = Sampling::default();
        let placed_for = |maintainer, sampling| {
            let options = PlacedOptions {
                tuning: Tuning {
                    maintainer,
                    ..Tuning::default()
                },
                ..PlacedOptions::of_reads(Policy::Sidle)
            };
            let run = Run {
                options: &options,
                machine: &machine,
                sampling,
                scale: Scale { factor: 10.0 },
                keys: &keys,
                tree_bytes: 1 << 20,
                near_bytes: 1 << 19,
                observe: (),
            };
            let (system, far) = stand_in_system().unwrap();
            let memory = PolicyMemory {
                near_bytes: Some(run.near_bytes),
                ..PolicyMemory::new((&system, far), Policy::Sidle, 20)
            };
            let memory = memory.with_room_for(1 << 20);
            let opened = u64::open_placed(Contestant::Art, WORD_BYTES, &memory, Prepared(run));
            opened.unwrap().unwrap()
        };
        for sampling in [None, Some(&sampling)] {
            let usual = placed_for(None, sampling);
            assert!(usual > Duration::ZERO);
            for ms in [1, 60_000] {
                let chosen = placed_for(Some(Duration::from_millis(ms)), sampling);
                assert_eq!(chosen, usual, "{ms} ms");
            }
        }
    }
}
