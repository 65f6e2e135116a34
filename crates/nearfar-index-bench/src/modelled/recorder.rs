//! The probe that leaves a list of accesses.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use nearfar_model::Probe;
use nearfar_model::simulation::{Access, Operation};

use super::space::Space;

const PAGE_BYTES: u64 = 4096;

/// Core time of an operation beside its accesses.
///
/// The defaults are estimates that want to be replaced by measured ones: what a lookup takes in a
/// tree that fits the first-level cache, spread over its accesses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComputeCosts {
    /// Of each operation, for its request, its guard and its answer.
    pub operation_ns: f64,
    /// Of each access, for the comparisons that choose the next.
    pub access_ns: f64,
}

impl Default for ComputeCosts {
    fn default() -> Self {
        Self {
            operation_ns: 25.0,
            access_ns: 2.0,
        }
    }
}

/// Records the accesses of one virtual core.
#[derive(Debug)]
pub(super) struct Recorder {
    space: Rc<Space>,
    costs: ComputeCosts,
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
    pub(super) fn new(space: Rc<Space>, costs: ComputeCosts) -> Self {
        Self {
            space,
            costs,
            operations: RefCell::default(),
            depends: Cell::new(false),
            compute_ps: Cell::new(0),
            is_sampled: Cell::new(false),
            dependent: Cell::new(0),
        }
    }

    /// Begins an operation; the latencies of its dependent accesses are sampled if it says so.
    pub(super) fn begin(&self, is_sampled: bool) {
        self.compute(self.costs.operation_ns);
        self.is_sampled.set(is_sampled);
        self.dependent.set(0);
        // What the operation reads first follows from its request, not from the one before.
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

    fn compute(&self, ns: f64) {
        let sum = self.compute_ps.get().saturating_add(picoseconds(ns));
        self.compute_ps.set(sum);
    }

    fn push(&self, access: Access, address: usize, bytes: usize) {
        self.compute(self.costs.access_ns);
        let (mut address, mut left) = (address, bytes);
        while left > 0 {
            let at = self.space.modelled(address);
            // A page is the longest that one operation covers.
            let part = left.min((PAGE_BYTES - at % PAGE_BYTES) as usize);
            let mut operation = Operation::new(access, at, part as u32);
            operation.depends = self.depends.take();
            operation.compute_ps = self.compute_ps.take();
            operation.sampled = self.is_sampled.get() && operation.depends;
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
}
