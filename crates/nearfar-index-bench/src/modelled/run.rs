//! One run of one tree under one policy.

use std::cell::RefCell;
use std::io;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearfar_index::placement::{LeafCounter, PlacedTree, PlacementError, Placer};
use nearfar_memory::{MemorySystem, SystemError, TierId};
use nearfar_model::simulation::{Caches, Machine, MachineError, Program, Simulation};
use nearfar_model::{Native, ParameterError};

use super::cores::{Board, Feed, Mover, Traffic, Untimed, Worker};
use super::costs::{ComputeCosts, Counted};
use super::course::Course;
use super::keeper::Keeper;
use super::oracle;
use super::policy::{Policy, PolicyGround, two_tiers};
use super::recorder::Recorder;
use super::scale::{Scale, ScaleRule};
use super::space::Space;
use crate::map::{
    Contestant, MapError, OpenError, OrderedMap, PlacedMap, PlacedVisitor, SESSION_OPERATIONS,
    Session, TestKey, own_bytes,
};
use crate::paced::PacedFigures;
use crate::workload::{KeySpace, Pick, Requests, Workload};

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelledOptions {
    /// Which of our trees.
    pub contestant: Contestant,
    /// Who decides where nodes lie.
    pub policy: Policy,
    /// What is asked.
    pub workload: Workload,
    /// Percent of the loaded tree's bytes that may be near, from 1 to 100.
    pub near_percent: u8,
    /// Virtual cores that answer requests.
    pub threads: usize,
    /// Keys looked up at once; 1 looks them up singly.
    pub batch: usize,
    /// Virtual time before figures are taken. Of it, the beginning and the end are simulated; in
    /// between operations are carried out at the pace of the beginning, and placement follows them.
    /// Where the hot region moves, all of it is simulated.
    pub warm_up: Duration,
    /// Virtual time over which they are taken.
    pub measured: Duration,
    /// Virtual time between looks at the clock: of placement, and of the series.
    pub slice: Duration,
    /// The hot region moves so often, by this share of the keys.
    pub shift: Option<(Duration, f64)>,
    /// The machine, before it is scaled.
    pub machine: Machine,
    /// By what caches and intervals are made smaller.
    pub scale: ScaleRule,
    /// Bytes of each value, from 8 on.
    pub value_bytes: usize,
    /// Begins the random numbers.
    pub seed: u64,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelledError {
    /// An option that means nothing.
    #[error("{field}: {reason}")]
    Options {
        /// The option.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such tree.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A tree took a key no more.
    #[error("{contestant}: {error}")]
    Map {
        /// Which.
        contestant: Contestant,
        /// Why.
        error: MapError,
    },
    /// The machine cannot be simulated so.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Placement refuses.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The modelled far tier cannot be paced.
    #[error(transparent)]
    Pacing(#[from] ParameterError),
    /// The system gives no threads for placement.
    #[error("no threads for placement")]
    Workers(#[source] io::Error),
    /// No memory for the tree.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// The state over one slice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Its end, since the run began.
    pub at: Duration,
    /// Operations per second in it.
    pub operations_per_s: f64,
    /// Share of the tree's bytes that are near.
    pub near_bytes_share: f64,
    /// Share of the accesses that went to near memory, before any cache.
    pub near_accesses_share: f64,
}

/// What a tier's memory served, behind all caches.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TierTraffic {
    /// Lines of 64 bytes.
    pub lines_read: u64,
    /// Lines of 64 bytes.
    pub lines_written: u64,
    /// Share of the time in which its devices transferred.
    pub busy_share: f64,
}

/// What a run gave, in virtual time or paced.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelledOutcome {
    /// Operations per second, over the measured time.
    pub operations_per_s: f64,
    /// Latencies of sampled operations, ascending: in virtual time the sums of their dependent accesses,
    /// without the core's own time; in paced runs their time on this machine and what they were charged.
    pub latencies_ns: Vec<f64>,
    /// How much smaller the run was than the published experiment.
    pub scale: Scale,
    /// Bytes of the loaded tree.
    pub tree_bytes: u64,
    /// The most of them that may be near.
    pub near_bytes_max: Option<u64>,
    /// Bytes that placement moved in the measured time, both ways.
    pub moved_bytes: u64,
    /// Share of the processor time of all cores that placement took in the measured time, but for
    /// pages.
    pub background_share: f64,
    /// Bytes of leaves that count uses, over the bytes of the loaded tree.
    pub counter_bytes_share: f64,
    /// Slice by slice, with what of the warm-up is simulated.
    pub series: Vec<Moment>,
    /// Keys that were asked for, are in the map, and were not found.
    pub lost: u64,
    /// What near and far memory served over the measured time, in virtual time with placement's part;
    /// none where nobody counts it.
    pub traffic: [Option<TierTraffic>; 2],
    /// What only paced runs give.
    pub paced: Option<PacedFigures>,
    /// Time that the run took on this machine.
    pub took: Duration,
}

/// Runs one tree under one policy. `observe` is told the share of the run that is done.
///
/// # Errors
/// [`ModelledError`].
pub fn run<S: KeySpace>(
    options: &ModelledOptions,
    keys: &Rc<S>,
    observe: impl FnMut(f64),
) -> Result<ModelledOutcome, ModelledError> {
    check(options)?;
    let system = stand_in_system()?;
    let contestant = options.contestant;
    let tree_bytes = tree_bytes((contestant, options.value_bytes), &**keys, &system)?;
    let near_bytes = tree_bytes * u64::from(options.near_percent) / 100;
    let run = Run {
        scale: Scale::new(options.scale, keys.count(), tree_bytes),
        options,
        keys,
        tree_bytes,
        near_bytes,
        observe,
    };
    let ground = PolicyGround {
        near_bytes: Some(near_bytes),
        ..PolicyGround::new(&system, options.policy, options.near_percent)
    };
    S::Key::open_placed(contestant, options.value_bytes, &ground, run)?
}

fn check(options: &ModelledOptions) -> Result<(), ModelledError> {
    let wrong = |field, reason: &str| {
        let reason = reason.to_owned();
        Err(ModelledError::Options { field, reason })
    };
    if !(1..=100).contains(&options.near_percent) {
        return wrong("near-share", "give a percentage from 1 to 100");
    }
    if options.batch == 0 {
        return wrong("batch", "give at least 1");
    }
    if options.slice.is_zero() || options.measured < options.slice {
        return wrong(
            "slice",
            "give a time that is not longer than the measured time",
        );
    }
    if let Some((every, share)) = options.shift
        && (every < options.slice || !(0.0..1.0).contains(&share))
    {
        return wrong(
            "shift",
            "give a time of at least a slice, and a share below 1",
        );
    }
    Ok(options.machine.check_threads(options.threads + 1)?)
}

/// Memory of this machine that stands in for modelled tiers.
pub(crate) fn stand_in_system() -> Result<Arc<MemorySystem>, SystemError> {
    two_tiers()
}

/// Memory for a tree that lies on one modelled tier.
pub(crate) fn near_ground(system: &Arc<MemorySystem>) -> PolicyGround {
    PolicyGround::new(system, Policy::AllNear, 100)
}

/// Stores all keys.
pub(crate) fn load<S: KeySpace, M: OrderedMap<S::Key>>(
    map: &M,
    keys: &S,
    mut between: impl FnMut(u64),
) -> Result<(), MapError> {
    let mut arena = Vec::new();
    for first in (0..keys.count()).step_by(SESSION_OPERATIONS) {
        let mut session = map.session(&Native);
        for id in first..keys.count().min(first + SESSION_OPERATIONS as u64) {
            arena.clear();
            let token = keys.token(Pick::Id(id), &mut arena);
            session.insert(S::resolve(&token, &arena), id)?;
        }
        drop(session);
        between(first);
    }
    Ok(())
}

/// Bytes of a tree with all keys, and values of so many bytes.
pub(crate) fn tree_bytes<S: KeySpace>(
    (contestant, value_bytes): (Contestant, usize),
    keys: &S,
    system: &Arc<MemorySystem>,
) -> Result<u64, ModelledError> {
    let sizing = Sizing { keys, contestant };
    S::Key::open_placed(contestant, value_bytes, &near_ground(system), sizing)?
}

/// Finds the bytes of the loaded tree.
struct Sizing<'r, S> {
    keys: &'r S,
    contestant: Contestant,
}

impl<S: KeySpace> PlacedVisitor<S::Key> for Sizing<'_, S> {
    type Output = Result<u64, ModelledError>;

    fn visit<M: PlacedMap<S::Key>>(self, map: M) -> Self::Output {
        let contestant = self.contestant;
        load::<S, M>(&map, self.keys, |_| ())
            .map_err(|error| ModelledError::Map { contestant, error })?;
        let memory = map.tree().memory();
        memory.quiesce();
        Ok(own_bytes(memory))
    }
}

/// A run to come.
pub(super) struct Run<'r, S, O> {
    pub(super) options: &'r ModelledOptions,
    pub(super) scale: Scale,
    pub(super) keys: &'r Rc<S>,
    pub(super) tree_bytes: u64,
    near_bytes: u64,
    pub(super) observe: O,
}

/// Times that the framework is stepped after loading, before the run begins.
const SETTLING_STEPS: u32 = 20;

impl<S: KeySpace, O: FnMut(f64)> PlacedVisitor<S::Key> for Run<'_, S, O> {
    type Output = Result<ModelledOutcome, ModelledError>;

    fn visit<M: PlacedMap<S::Key>>(mut self, map: M) -> Self::Output {
        let began = Instant::now();
        let (mut keeper, placed_for) = self.prepare(&map)?;
        let map = Rc::new(map);
        let memory = map.tree().memory();
        let heaps = (0..memory.tiers()).filter_map(TierId::from_index);
        let heaps = heaps.filter_map(|tier| memory.addresses(tier)).collect();
        let space = Rc::new(self.space(heaps, &*map, &mut keeper));
        let traffic = Rc::new(Traffic::default());
        let board = Rc::new(Board::default());
        let samples: Vec<Rc<RefCell<Vec<u32>>>> =
            (0..self.options.threads).map(|_| Rc::default()).collect();
        let mut programs: Vec<Box<dyn Program>> = Vec::new();
        let costs = ComputeCosts::new(Counted::of(self.options.contestant), &self.options.machine);
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
        let machine = &self.options.machine;
        let machine = if programs.len() > machine.cores as usize {
            &machine.with_a_core_per_thread()
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
        let course = Course {
            carry_out: Box::new(move |operations| untimed.carry_out(operations)),
            run: &mut self,
            counter_bytes: counter_bytes(&**map.tree()),
            simulation,
            board,
            space,
            traffic,
            keeper,
            placed_for,
            samples,
        };
        let mut outcome = course.go(map.tree())?;
        outcome.took = began.elapsed();
        Ok(outcome)
    }
}

impl<S: KeySpace, O> Run<'_, S, O> {
    fn requests(&self, thread: usize) -> Requests {
        let threads = (thread as u64, self.options.threads as u64);
        let keys = (self.keys.count(), self.keys.count());
        let ranks_per_key = self.scale.factor.round() as u64;
        Requests::new(&self.options.workload, keys, threads, self.options.seed)
            .standing_for(ranks_per_key)
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
    ) -> Result<(Keeper<M::Tree>, Duration), ModelledError> {
        let contestant = self.options.contestant;
        let failed = |error| ModelledError::Map { contestant, error };
        let policy = self.options.policy;
        let Some(mut framework) = policy.framework() else {
            load::<S, M>(map, self.keys, |_| ()).map_err(failed)?;
            return Ok((Keeper::Nobody, Duration::ZERO));
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
        load::<S, M>(map, self.keys, |_| {
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
            return Ok((Keeper::Nobody, now));
        }
        Ok((Keeper::framework(placer), now))
    }

    /// The modelled address space, with pages where a policy moves those.
    fn space<M: PlacedMap<S::Key>>(
        &self,
        heaps: Vec<std::ops::Range<usize>>,
        map: &M,
        keeper: &mut Keeper<M::Tree>,
    ) -> Space {
        let Some((rule, shift)) = self.options.policy.page() else {
            return Space::new(heaps, None);
        };
        let share = f64::from(self.options.near_percent) / 100.0;
        let look_every = self.scale.interval(Keeper::<M::Tree>::PAGE_LOOK);
        keeper.with_pages::<S, M>((rule, shift), heaps, (map, self.keys), (share, look_every))
    }
}

/// Bytes of all counters of uses.
pub(crate) fn counter_bytes<T: PlacedTree>(tree: &T) -> usize {
    let mut bytes = 0;
    let _ = tree.visit_leaves(&mut |_| {
        bytes += size_of::<LeafCounter>();
        ControlFlow::Continue(())
    });
    bytes
}
