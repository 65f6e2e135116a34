//! One virtual thread of a task.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use nearfar_model::simulation::pattern::mix;
use nearfar_model::simulation::{Access, Operation as Simulated, Program};

use crate::access::kernels::{LINE_BYTES, Operation, Pattern, Walk};
use crate::access::run::{Batch, GRAIN_BYTES, Queue};
use crate::access::spec::{StepSpec, TaskSpec};

/// Time of a fence that has nothing to wait for: about 33 cycles at 2.9 GHz.
const FENCE_PS: u32 = 11_000;

/// Step of the state from which random places come.
const RANDOM_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Bytes from which on starting points within a batch are chosen.
const START_BYTES_LOG2: u32 = 12;

/// A region in the addresses of the model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub base: u64,
    pub bytes: u64,
}

/// What one thread has done so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub bytes: Cell<u64>,
    pub accesses: Cell<u64>,
    pub has_ended: Cell<bool>,
}

/// What a thread is given.
pub(super) struct Assignment {
    pub task: Rc<TaskSpec>,
    pub queue: Rc<Queue>,
    pub areas: Rc<[Area]>,
    pub tally: Rc<Tally>,
    /// Threads of tasks that are not in the background and have not ended.
    pub busy: Rc<Cell<usize>>,
    /// Threads of a core whose accesses were timed, in the order of the accesses.
    pub timed: Rc<RefCell<Vec<usize>>>,
    /// Number of the thread among all of the run.
    pub index: usize,
    /// Its place among those of its task, from 0 to 1: where it begins in a chain.
    pub share: f64,
    pub seed: u64,
    pub batch_bytes: u64,
    /// Whether it begins somewhere in its first batch, as in the middle of a run.
    pub begins_within: bool,
    /// Time that the thread lets pass before each line, to stay below its limit.
    pub line_interval_ps: Option<u32>,
}

/// A thread as a program: the accesses of its batches, one after the other.
pub(super) struct Worker {
    given: Assignment,
    random: u64,
    walk: Option<Walk>,
    batch: Option<Batch>,
    element: u64,
    step: usize,
    /// Accesses of the step that were made of this element.
    within: u64,
    /// Of each step: the region of the batch, and the place of its next access.
    places: Vec<(Area, u64)>,
    slice_left: u64,
    slice_stores: bool,
    owed_writes: f64,
    pending: VecDeque<Simulated>,
    /// The pass through a chain is timed.
    is_timing: bool,
}

impl Worker {
    pub(super) fn new(given: Assignment) -> Self {
        let random = mix(mix(given.seed) ^ given.index as u64);
        let first = &given.task.steps[0];
        let walk = (first.operation == Operation::Chase).then(|| {
            let area = given.areas[first.regions[0]];
            let lines = (area.bytes as usize / LINE_BYTES).max(1);
            Walk::new(lines, mix(given.seed), given.share)
        });
        let mut worker = Self {
            random,
            walk,
            batch: None,
            element: 0,
            step: 0,
            within: 0,
            places: Vec::new(),
            slice_left: 0,
            slice_stores: false,
            owed_writes: 0.0,
            pending: VecDeque::new(),
            is_timing: false,
            given,
        };
        worker.take_batch();
        if worker.given.begins_within {
            // Threads are spread over their batches, as they are after the first few of them.
            let steps = worker.given.batch_bytes >> START_BYTES_LOG2;
            let offset = (random % steps.max(1)) << START_BYTES_LOG2;
            worker.begin(offset / worker.given.queue.element_bytes());
        }
        worker
    }

    /// Takes the next batch; whether there was one.
    fn take_batch(&mut self) -> bool {
        self.batch = self.given.queue.take();
        self.begin(0);
        self.batch.is_some()
    }

    /// Goes to an element of the batch.
    fn begin(&mut self, element: u64) {
        let Some(batch) = self.batch else { return };
        self.element = element.min(batch.elements - 1);
        self.step = 0;
        self.within = 0;
        self.places.clear();
        for step in &self.given.task.steps {
            let regions = step.regions.len() as u64;
            let area = self.given.areas[step.regions[(batch.index % regions) as usize]];
            let source = step.source.map(|source| self.given.areas[source].bytes);
            let area = Area {
                bytes: source.map_or(area.bytes, |bytes| bytes.min(area.bytes)),
                ..area
            };
            let slots = area.bytes / step.access_bytes as u64;
            let before = batch.index / regions * self.given.queue.batch_elements() + self.element;
            self.places
                .push((area, before.wrapping_mul(step.count as u64) % slots));
        }
    }

    /// Goes to the next access; whether there is one.
    fn advance(&mut self) -> bool {
        let Some(batch) = self.batch else {
            return false;
        };
        self.within += 1;
        if self.within < self.given.task.steps[self.step].count as u64 {
            return true;
        }
        self.within = 0;
        self.step += 1;
        if self.step < self.given.task.steps.len() {
            return true;
        }
        self.step = 0;
        self.element += 1;
        self.element < batch.elements || self.take_batch()
    }

    /// Where the next access is: its address, and whether it ends a line of a sequence.
    fn place(&mut self, step: &StepSpec) -> (u64, bool) {
        let (area, slot) = &mut self.places[self.step];
        let bytes = step.access_bytes as u64;
        let slots = area.bytes / bytes;
        if let Some(walk) = &mut self.walk {
            return (
                area.base + walk.next_line() as u64 * LINE_BYTES as u64,
                true,
            );
        }
        match step.pattern {
            Pattern::Sequential => {
                let offset = *slot * bytes;
                *slot += 1;
                if *slot == slots {
                    *slot = 0;
                }
                let ends_line = (offset + bytes).is_multiple_of(LINE_BYTES as u64);
                (area.base + offset, ends_line)
            }
            Pattern::Random => {
                self.random = self.random.wrapping_add(RANDOM_STEP);
                let high = (u128::from(mix(self.random)) * u128::from(slots)) >> 64;
                (area.base + high as u64 * bytes, true)
            }
        }
    }

    /// Whether the next access of a mix stores: the same for some accesses in a row, as on a real
    /// machine.
    fn stores(&mut self, share: f64) -> bool {
        if self.slice_left == 0 {
            self.slice_left = (GRAIN_BYTES / self.given.queue.element_bytes()).max(1);
            self.owed_writes += share;
            self.slice_stores = self.owed_writes >= 1.0;
            if self.slice_stores {
                self.owed_writes -= 1.0;
            }
        }
        self.slice_left -= 1;
        self.slice_stores
    }

    /// Whether the current access is the first of a pass through a chain that is to be timed.
    fn times_pass(&self) -> bool {
        let task = &self.given.task;
        let Some(every) = task.sample_every.filter(|_| task.is_chain()) else {
            return false;
        };
        let before = self.given.tally.accesses.get();
        let pass = task.steps.iter().map(|step| step.count as u64).sum::<u64>();
        self.step == 0 && self.within == 0 && before / every != (before + pass) / every
    }

    /// Whether the current access is the last of a pass through a chain.
    fn ends_pass(&self) -> bool {
        let steps = &self.given.task.steps;
        self.step + 1 == steps.len() && self.within + 1 == steps[self.step].count as u64
    }

    /// The operations of the current access: the first of them, and the others as pending.
    fn access(&mut self) -> Simulated {
        let task = Rc::clone(&self.given.task);
        let step = &task.steps[self.step];
        let (address, ends_line) = self.place(step);
        let operation = match task.writes_share {
            Some(share) if self.stores(share) => Operation::Write,
            _ => step.operation,
        };
        let tally = &self.given.tally;
        let accesses = tally.accesses.get() + 1;
        tally.accesses.set(accesses);
        tally
            .bytes
            .set(tally.bytes.get() + step.access_bytes as u64);
        let bytes = step.access_bytes as u32;
        let simple = |access| Simulated::new(access, address, bytes);
        let mut made = match operation {
            Operation::Read | Operation::WriteFlush => simple(Access::Load),
            Operation::Write => simple(Access::Store),
            Operation::Chase => Simulated {
                depends: true,
                ..simple(Access::Load)
            },
            // Stores past the caches are combined to whole lines first.
            Operation::WriteNonTemporal | Operation::WriteDirect if !ends_line => {
                simple(Access::Compute)
            }
            Operation::WriteNonTemporal | Operation::WriteDirect => {
                let line = LINE_BYTES as u64;
                let first = address / line * line;
                let bytes = (address + u64::from(bytes) - first) as u32;
                Simulated::new(Access::NonTemporalStore, first, bytes)
            }
            Operation::Copy | Operation::CopyNonTemporal | Operation::CopyDirect => {
                self.copy(step, operation, address, ends_line)
            }
        };
        let is_timed = !task.is_chain()
            && task
                .sample_every
                .is_some_and(|every| accesses.is_multiple_of(every));
        if let Some(interval_ps) = self.given.line_interval_ps {
            made = self.line_by_line(made, interval_ps);
        }
        made.depends |= step.depends;
        if operation == Operation::WriteFlush {
            self.flush(address, bytes, is_timed);
        } else if is_timed || task.fence {
            made.fenced |= operation != Operation::Chase;
            made.compute_ps += if made.fenced { FENCE_PS } else { 0 };
            made.sampled = is_timed;
        }
        if is_timed {
            self.given.timed.borrow_mut().push(self.given.index);
        }
        made
    }

    /// The load of a copy to `address`, with its store as pending. The store does not wait for the load in
    /// the model, as no store waits for its value there.
    fn copy(
        &mut self,
        step: &StepSpec,
        operation: Operation,
        address: u64,
        ends_line: bool,
    ) -> Simulated {
        let source = self.source(step, address);
        let bytes = step.access_bytes as u32;
        let line = LINE_BYTES as u64;
        let store = match operation {
            Operation::Copy => Simulated::new(Access::Store, address, bytes),
            // As of `write-nt`: parts of a line are combined first.
            _ if !ends_line => Simulated::new(Access::Compute, address, bytes),
            _ => {
                let first = address / line * line;
                let whole = (address + u64::from(bytes) - first) as u32;
                Simulated::new(Access::NonTemporalStore, first, whole)
            }
        };
        self.pending.push_back(store);
        Simulated::new(Access::Load, source, bytes)
    }

    /// Where a copy to `address` reads: the same place of its source, or any where accesses are random.
    fn source(&mut self, step: &StepSpec, address: u64) -> u64 {
        let source = step.source.map_or(step.regions[0], |source| source);
        let source = self.given.areas[source];
        let bytes = step.access_bytes as u64;
        match step.pattern {
            Pattern::Sequential => source.base + (address - self.places[self.step].0.base),
            Pattern::Random => {
                self.random = self.random.wrapping_add(RANDOM_STEP);
                let slots = u128::from(source.bytes / bytes);
                let slot = (u128::from(mix(self.random)) * slots) >> 64;
                source.base + slot as u64 * bytes
            }
        }
    }

    /// The lines of an access one by one, with a pause before each: the first of them, and the
    /// others as pending.
    fn line_by_line(&mut self, access: Simulated, interval_ps: u32) -> Simulated {
        let line = LINE_BYTES as u32;
        let part = |first: u32| Simulated {
            address: access.address + u64::from(first),
            bytes: (access.bytes - first).min(line),
            compute_ps: interval_ps,
            ..access
        };
        let others = (line..access.bytes).step_by(LINE_BYTES);
        // Before what follows the access, such as the store of a copy.
        for (at, first) in others.enumerate() {
            self.pending.insert(at, part(first));
        }
        part(0)
    }

    /// What follows the load of a cached write: the lines are written back and waited for.
    fn flush(&mut self, address: u64, bytes: u32, is_timed: bool) {
        let mut flush = Simulated::new(Access::Flush, address, bytes);
        let mut fence = Simulated::new(Access::Compute, address, 0);
        fence.fenced = true;
        if bytes as usize <= LINE_BYTES {
            flush.fenced = true;
            flush.sampled = is_timed;
            self.pending.push_back(flush);
            return;
        }
        // Lines are written back side by side, once they are in the caches.
        self.pending.extend([fence, flush, fence]);
    }

    fn end(&mut self) {
        self.batch = None;
        if !self.given.tally.has_ended.replace(true) && !self.given.task.background {
            self.given.busy.set(self.given.busy.get() - 1);
        }
    }
}

/// A moment at which all accesses are done, from which or until which a pass is timed.
fn moment() -> Simulated {
    Simulated {
        fenced: true,
        sampled: true,
        ..Simulated::new(Access::Compute, 0, 0)
    }
}

impl Program for Worker {
    fn next_operation(&mut self) -> Option<Simulated> {
        if let Some(operation) = self.pending.pop_front() {
            return Some(operation);
        }
        let is_over = self.given.task.background && self.given.busy.get() == 0;
        if self.batch.is_none() || is_over {
            self.end();
            return None;
        }
        let begins_timing = self.times_pass();
        let mut operation = self.access();
        if begins_timing {
            self.is_timing = true;
            self.given.timed.borrow_mut().push(self.given.index);
            self.pending
                .push_front(std::mem::replace(&mut operation, moment()));
        }
        if self.is_timing && self.ends_pass() {
            self.is_timing = false;
            self.pending.push_back(moment());
        }
        if !self.advance() {
            self.batch = None;
        }
        Some(operation)
    }
}
