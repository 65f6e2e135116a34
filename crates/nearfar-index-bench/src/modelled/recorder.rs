//! The probe that leaves a list of accesses.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use nearfar_model::Probe;
use nearfar_model::simulation::{Access, Operation};

use super::costs::Cost;
use super::space::Space;

const PAGE_BYTES: u64 = 4096;
/// The time until the pipeline is filled again after a wrong guess: 20 cycles at 2.9 GHz.
const REFILL_PS: u32 = 6_900;

/// Records the accesses of one virtual core.
#[derive(Debug)]
pub(super) struct Recorder {
    space: Rc<Space>,
    access_ns: Cell<f64>,
    operations: RefCell<VecDeque<Operation>>,
    depends: Cell<bool>,
    compute_ps: Cell<u32>,
    is_sampled: Cell<bool>,
    dependent: Cell<u32>,
}

fn picoseconds(ns: f64) -> u32 {
    (ns * 1e3).round() as u32
}

impl Recorder {
    pub(super) fn new(space: Rc<Space>) -> Self {
        Self {
            space,
            access_ns: Cell::new(0.0),
            operations: RefCell::default(),
            depends: Cell::new(false),
            compute_ps: Cell::new(0),
            is_sampled: Cell::new(false),
            dependent: Cell::new(0),
        }
    }

    /// Begins an operation; the latencies of its dependent accesses are sampled if it says so.
    pub(super) fn begin(&self, cost: Cost, is_sampled: bool) {
        // What the operation reads first follows from its request, not from the one before.
        let mut begin = Operation::new(Access::Compute, 0, 0);
        begin.compute_ps = picoseconds(cost.operation_ns);
        self.operations.borrow_mut().push_back(begin);
        self.access_ns.set(cost.access_ns);
        self.is_sampled.set(is_sampled);
        self.dependent.set(0);
        self.depends.set(false);
    }

    /// Ends an operation; the number of its accesses that were sampled.
    pub(super) fn end(&self) -> u32 {
        self.is_sampled.set(false);
        self.dependent.get()
    }

    pub(super) fn next(&self) -> Option<Operation> {
        self.operations.borrow_mut().pop_front()
    }

    /// Forgets all accesses so far.
    pub(super) fn forget(&self) {
        self.operations.borrow_mut().clear();
    }

    fn compute(&self, ns: f64) {
        let sum = self.compute_ps.get().saturating_add(picoseconds(ns));
        self.compute_ps.set(sum);
    }

    fn push(&self, access: Access, address: usize, bytes: usize) {
        self.compute(self.access_ns.get());
        let (mut address, mut left) = (address, bytes);
        while left > 0 {
            let at = self.space.modelled(address);
            // A page is the longest that one operation covers.
            let part = left.min((PAGE_BYTES - at % PAGE_BYTES) as usize);
            let mut operation = Operation::new(access, at, part as u32);
            operation.depends = self.depends.take();
            operation.compute_ps = self.compute_ps.take();
            let is_waited_for = operation.depends && access != Access::Prefetch;
            operation.sampled = self.is_sampled.get() && is_waited_for;
            if operation.sampled {
                self.dependent.set(self.dependent.get() + 1);
            }
            self.operations.borrow_mut().push_back(operation);
            address += part;
            left -= part;
        }
    }
}

impl Probe for Recorder {
    fn read(&self, addr: usize, bytes: usize) {
        self.push(Access::Load, addr, bytes);
    }

    fn write(&self, addr: usize, bytes: usize) {
        self.push(Access::Store, addr, bytes);
    }

    fn write_non_temporal(&self, addr: usize, bytes: usize) {
        self.push(Access::NonTemporalStore, addr, bytes);
    }

    fn stream(&self, addr: usize, bytes: usize) {
        self.push(Access::Load, addr, bytes);
    }

    fn prefetch(&self, addr: usize, bytes: usize) {
        self.push(Access::Prefetch, addr, bytes);
    }

    fn depends(&self) {
        self.depends.set(true);
    }

    fn read_in_vain(&self, addr: usize, bytes: usize) {
        let at = self.space.modelled(addr);
        let read = Operation::new(Access::WrongPath, at, bytes as u32);
        self.operations.borrow_mut().push_back(read);
    }

    fn guessed_wrong(&self) {
        let mut refill = Operation::new(Access::Refill, 0, 0);
        refill.compute_ps = REFILL_PS;
        self.operations.borrow_mut().push_back(refill);
        self.depends.set(false);
    }
}
