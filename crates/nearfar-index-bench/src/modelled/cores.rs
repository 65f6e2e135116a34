//! What virtual cores do.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use nearfar_model::simulation::{Access, Operation, Program, Recorder};

use super::costs::{ComputeCosts, INSTRUCTIONS_PER_NS, Work};
use super::space::{Space, window};
use crate::map::{MapError, OrderedMap};
use crate::perform::{Batch, Found, perform, read_batch};
use crate::workload::{Action, ActionKind, KeySpace, Request, Requests, Trace};

/// Requests that are drawn together.
pub(super) const DRAWN: usize = 128;
/// One in so many operations has its latency sampled.
const SAMPLE_EVERY: u64 = 32;

/// Sampled operations of a core: what they asked for, and how many accesses were sampled.
pub(super) type Samples = Rc<RefCell<Vec<(ActionKind, u32)>>>;

/// What the run and its cores share.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// Operations begun so far.
    pub(super) operations: Cell<u64>,
    /// No operation begins any more.
    pub(super) is_over: Cell<bool>,
    /// Where the hot region begins, once it has moved.
    pub(super) hot_start: Cell<Option<f64>>,
    /// Why a map took a key no more.
    pub(super) failure: Cell<Option<MapError>>,
    /// What requests found.
    pub(super) found: RefCell<Found>,
}

/// The requests of one core, of which some are drawn ahead.
pub(super) struct Feed {
    requests: Requests,
    drawn: Trace,
    /// How many of those are carried out.
    at: usize,
}

impl Feed {
    pub(super) fn new(requests: Requests) -> Self {
        Self {
            requests,
            drawn: Trace::default(),
            at: 0,
        }
    }

    /// What is drawn and not carried out.
    pub(super) fn rest(&self) -> &[Request] {
        &self.drawn.requests[self.at..]
    }

    /// The bytes of the keys of what is drawn.
    pub(super) fn arena(&self) -> &[u8] {
        &self.drawn.arena
    }

    /// Notes that all that was drawn is carried out.
    pub(super) fn skip_drawn(&mut self) {
        self.at = self.drawn.requests.len();
    }

    /// Draws further requests once all are carried out.
    pub(super) fn fill(&mut self, keys: &impl KeySpace, hot_start: Option<f64>) {
        if self.at == self.drawn.requests.len() {
            if let Some(start) = hot_start {
                self.requests.move_hot_region(start);
            }
            self.drawn.clear();
            self.requests.draw(keys, DRAWN, &mut self.drawn);
            self.at = 0;
        }
    }
}

/// A core that answers requests.
pub(super) struct Worker<M, S> {
    pub(super) map: Rc<M>,
    pub(super) keys: Rc<S>,
    pub(super) board: Rc<Board>,
    pub(super) recorder: Recorder<Rc<Space>>,
    pub(super) costs: ComputeCosts,
    pub(super) feed: Rc<RefCell<Feed>>,
    pub(super) batch: usize,
    pub(super) begun: u64,
    /// What each sampled operation asked for, and its sampled accesses.
    pub(super) samples: Samples,
}

impl<S: KeySpace, M: OrderedMap<S::Key>> Worker<M, S> {
    fn perform_next(&mut self) -> Result<(), MapError> {
        let mut feed = self.feed.borrow_mut();
        feed.fill(&*self.keys, self.board.hot_start.get());
        let rest = feed.rest();
        let reads = rest
            .iter()
            .take(self.batch)
            .take_while(|request| request.action == Action::Read)
            .count();
        let is_sampled = self.begun.is_multiple_of(SAMPLE_EVERY);
        let work = if self.batch > 1 && reads > 1 {
            Work::Batch(reads)
        } else {
            Work::One(rest[0].action)
        };
        let kind = rest[0].action.kind();
        self.recorder.stand_for(rest[0].which);
        self.recorder.begin(self.costs.of(work), is_sampled);
        let mut session = self.map.session(&self.recorder);
        let found = &mut *self.board.found.borrow_mut();
        let arena = feed.arena();
        let done = if let Work::Batch(reads) = work {
            let room = &mut Batch::new(reads);
            read_batch::<S, _>(&mut session, &rest[..reads], arena, room, found);
            reads
        } else {
            perform::<S, _>(&mut session, &rest[0], arena, found)?;
            1
        };
        drop(session);
        let sampled = self.recorder.end();
        if sampled > 0 {
            self.samples.borrow_mut().push((kind, sampled));
        }
        feed.at += done;
        self.begun += 1;
        let operations = &self.board.operations;
        operations.set(operations.get() + done as u64);
        Ok(())
    }
}

impl<S: KeySpace, M: OrderedMap<S::Key>> Program for Worker<M, S> {
    fn next_operation(&mut self) -> Option<Operation> {
        loop {
            if let Some(operation) = self.recorder.pop() {
                return Some(operation);
            }
            if self.board.is_over.get() {
                return None;
            }
            if let Err(error) = self.perform_next() {
                self.board.failure.set(Some(error));
                self.board.is_over.set(true);
            }
        }
    }
}

/// Bytes that placement has to move.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    queue: RefCell<VecDeque<Operation>>,
    next: Cell<u64>,
    /// Time in which there was nothing to do.
    idle_ps: Cell<u64>,
    /// Operations that the core has taken.
    taken: Cell<u64>,
}

/// The longest operation.
const PART_BYTES: u64 = 4096;
/// The core's time for a leaf that is looked at: LOOK_INSTRUCTIONS instructions.
const LOOK_PS: u32 = (LOOK_INSTRUCTIONS / INSTRUCTIONS_PER_NS * 1e3) as u32;
/// Counted by `examples/operation-costs`, the largest of the trees.
const LOOK_INSTRUCTIONS: f64 = 120.0;
/// A core with nothing to move looks again after so long.
const IDLE_PS: u32 = 500_000;

impl Traffic {
    /// Queues the reading of `bytes` on a tier, and their writing to another one. Where exactly is
    /// not told: the bytes are taken from everywhere in so many bytes of the tiers.
    pub(super) fn push(&self, bytes: u64, part_bytes: u64, (from, to): (usize, usize), all: u64) {
        let part = part_bytes.clamp(64, PART_BYTES);
        let parts = all.div_ceil(part).max(1);
        for _ in 0..bytes.div_ceil(part) {
            // A step that has no divisor in common with most numbers of parts.
            let at = self.next.get().wrapping_mul(0x9E37_79B1) % parts * part;
            self.next.set(self.next.get() + 1);
            let mut queue = self.queue.borrow_mut();
            queue.push_back(Operation::new(Access::Load, window(from) + at, part as u32));
            queue.push_back(Operation::new(Access::Store, window(to) + at, part as u32));
        }
    }

    /// Operations that the core has taken so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// Forgets what the core has not taken.
    pub(super) fn clear(&self) {
        self.queue.borrow_mut().clear();
    }

    /// Whether everything is moved.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    /// The time in which there was nothing to do.
    pub(super) fn idle(&self) -> Duration {
        Duration::from_nanos(self.idle_ps.get() / 1000)
    }

    /// Queues a look at so many lines of a tier, one by one, and the core's time for each.
    pub(super) fn look(&self, lines: u64, tier: usize, all: u64) {
        let parts = all.div_ceil(64).max(1);
        for _ in 0..lines {
            let at = self.next.get().wrapping_mul(0x9E37_79B1) % parts * 64;
            self.next.set(self.next.get() + 1);
            let mut operation = Operation::new(Access::Load, window(tier) + at, 64);
            operation.compute_ps = LOOK_PS;
            self.queue.borrow_mut().push_back(operation);
        }
    }
}

/// The core that moves bytes.
pub(super) struct Mover {
    pub(super) traffic: Rc<Traffic>,
    pub(super) board: Rc<Board>,
}

impl Program for Mover {
    fn next_operation(&mut self) -> Option<Operation> {
        if let Some(operation) = self.traffic.queue.borrow_mut().pop_front() {
            self.traffic.taken.set(self.traffic.taken.get() + 1);
            return Some(operation);
        }
        if self.board.is_over.get() {
            return None;
        }
        let idle_ps = &self.traffic.idle_ps;
        idle_ps.set(idle_ps.get() + u64::from(IDLE_PS));
        let mut idle = Operation::new(Access::Compute, 0, 0);
        idle.compute_ps = IDLE_PS;
        Some(idle)
    }
}
