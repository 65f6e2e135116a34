//! Runs over one tree that nobody moves, again and again.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use nearfar_model::simulation::{
    Caches, Machine, Program, Recorder, Simulation, SlotTimes, TierName,
};

use super::cores::{Board, Feed, Worker};
use super::costs::{ComputeCosts, Counted};
use super::space::Space;
use crate::map::{Contestant, OrderedMap};
use crate::placed::{PlacedError, Scale};
use crate::workload::{KeySpace, Requests, Workload};

/// What is run.
#[derive(Debug, Clone)]
pub(crate) struct InPlace<'o> {
    /// Which tree it is.
    pub(crate) contestant: Contestant,
    /// What its operations cost.
    pub(crate) counted: Counted,
    pub(crate) workload: &'o Workload,
    /// The tier of all nodes, and its devices over which pages are interleaved.
    pub(crate) tier: (TierName, u32),
    pub(crate) threads: usize,
    /// The machine, before it is scaled.
    pub(crate) machine: &'o Machine,
    pub(crate) scale: Scale,
    /// The number of the first key that is inserted.
    pub(crate) fresh: u64,
    pub(crate) seed: u64,
}

/// Virtual time between looks at the number of operations.
const SLICE: Duration = Duration::from_micros(20);
/// Times that operations could fill all caches before figures are taken, and while they are, if each
/// brought one line.
const WARM_UP_FILLS: u64 = 3;
const MEASURED_FILLS: u64 = 1;
/// The fewest operations of either.
const OPERATIONS_MIN: u64 = 20_000;

/// What was found once the caches were warm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Operations per second of virtual time.
    pub(crate) operations_per_s: f64,
    /// Where the time of the cores went, on a machine that counts it.
    pub(crate) slot_times: SlotTimes,
}

impl InPlace<'_> {
    /// Runs operations until the caches are warm, and then those that are measured.
    pub(crate) fn run<S: KeySpace, M: OrderedMap<S::Key> + 'static>(
        &self,
        (map, addresses): (&Rc<M>, Range<usize>),
        keys: &Rc<S>,
    ) -> Result<Measured, PlacedError> {
        let machine = if self.threads > self.machine.cores as usize {
            &self.machine.with_a_core_per_thread(self.threads)
        } else {
            self.machine
        };
        let costs = ComputeCosts::new(self.counted, machine);
        let cores = self.threads.min(machine.cores as usize);
        let machine = self.scale.machine(machine, cores);
        let space = Rc::new(Space::on(addresses, self.tier.0, self.tier.1));
        let board = Rc::new(Board::default());
        let ranks_per_key = self.scale.factor.round() as u64;
        let worker = |thread: usize| -> Box<dyn Program> {
            let (counts, of) = ((keys.count(), self.fresh), self.threads as u64);
            let requests = Requests::new(self.workload, counts, (thread as u64, of), self.seed);
            Box::new(Worker {
                map: Rc::clone(map),
                keys: Rc::clone(keys),
                board: Rc::clone(&board),
                recorder: Recorder::new(Rc::clone(&space)),
                costs,
                feed: Rc::new(RefCell::new(Feed::new(
                    requests.standing_for(ranks_per_key),
                ))),
                batch: 1,
                begun: 0,
                samples: Rc::default(),
            })
        };
        let programs = (0..self.threads).map(worker).collect();
        let map = space.map(&machine)?;
        let mut simulation = Simulation::new(&machine, map, programs, Caches::Simulated)?;
        let cache_bytes = machine.l3_bytes + cores as u64 * machine.core.l2_bytes;
        let fill = (cache_bytes / 64).max(OPERATIONS_MIN);
        let mut now = Duration::ZERO;
        let mut run_until = |operations: u64| {
            while board.operations.get() < operations && !board.is_over.get() {
                now += SLICE;
                simulation.advance(u64::MAX, now.as_nanos() as f64);
            }
            (now, board.operations.get(), simulation.slot_times())
        };
        let (start, before, slots_before) = run_until(WARM_UP_FILLS * fill);
        let (end, after, slots_after) = run_until(before + MEASURED_FILLS * fill);
        board.is_over.set(true);
        if let Some(error) = board.failure.get() {
            let contestant = self.contestant;
            return Err(PlacedError::Map { contestant, error });
        }
        Ok(Measured {
            operations_per_s: (after - before) as f64 / (end - start).as_secs_f64(),
            slot_times: slots_after - slots_before,
        })
    }
}
