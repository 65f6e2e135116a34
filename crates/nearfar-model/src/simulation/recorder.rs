//! What every virtual core's code is charged: the probe that makes operations of accesses.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::program::{Access, Operation};
use crate::{CACHE_LINE_BYTES, Probe};

const PAGE_BYTES: u64 = 4096;
/// The time until the pipeline is filled again after a branch mispredict: 20 cycles at 2.9 GHz.
const REFILL_PS: u32 = 6_900;

/// Where addresses of the process lie in the modelled machine.
pub trait AddressSpace {
    /// The modelled address of the byte at `address`. The bytes behind it follow up to the end of
    /// the modelled page of 4 KiB.
    fn modelled(&self, address: usize) -> u64;

    /// The same, of a byte that is not accessed, where that makes a difference.
    fn place(&self, address: usize) -> u64 {
        self.modelled(address)
    }
}

impl<S: AddressSpace + ?Sized> AddressSpace for Rc<S> {
    fn modelled(&self, address: usize) -> u64 {
        (**self).modelled(address)
    }

    fn place(&self, address: usize) -> u64 {
        (**self).place(address)
    }
}

/// Core time of one operation of an index, and of each of its accesses, in nanoseconds, beside what
/// the simulator charges for accesses.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OperationCost {
    /// Of the operation.
    pub operation_ns: f64,
    /// Of each access.
    pub access_ns: f64,
}

/// Turns what a probe hears into operations of one virtual core, in program order.
///
/// All code in virtual time is charged through it: closures by a
/// [`VirtualProbe`](super::VirtualProbe), and [`Program`](super::Program)s that do their work in
/// [`next_operation`](super::Program::next_operation) and leave the list of its accesses here.
#[derive(Debug)]
pub struct Recorder<S> {
    space: S,
    operations: RefCell<VecDeque<Operation>>,
    access_ps: Cell<u32>,
    compute_ps: Cell<u32>,
    depends: Cell<bool>,
    is_sampled: Cell<bool>,
    sampled: Cell<u32>,
    which: Cell<u32>,
}

fn picoseconds(ns: f64) -> u32 {
    (ns * 1e3).round() as u32
}

impl<S: AddressSpace> Recorder<S> {
    /// A recorder without operations.
    pub fn new(space: S) -> Self {
        Self {
            space,
            operations: RefCell::default(),
            access_ps: Cell::new(0),
            compute_ps: Cell::new(0),
            depends: Cell::new(false),
            is_sampled: Cell::new(false),
            sampled: Cell::new(0),
            which: Cell::new(0),
        }
    }

    /// Core time that the code takes before its next access, in picoseconds.
    pub fn compute_ps(&self, picoseconds: u32) {
        let sum = self.compute_ps.get().saturating_add(picoseconds);
        self.compute_ps.set(sum);
    }

    /// Lets operations that begin from now on be those of one of several keys that one key of a smaller model stands
    /// for: at lock words, only operations of the same number meet. Each key would have its node, and the
    /// more keys one node stands for, the less often two of them are asked for at the same time. It is for programs
    /// that have a core each.
    pub fn stand_for(&self, which: u32) {
        self.which.set(which);
    }

    /// Begins an operation that depends on nothing done before. The latencies of its dependent
    /// accesses are sampled if `is_sampled`.
    pub fn begin(&self, cost: OperationCost, is_sampled: bool) {
        let which = u64::from(self.which.get()) * CACHE_LINE_BYTES;
        let mut begin = Operation::new(Access::Compute, which, 0);
        begin.compute_ps = picoseconds(cost.operation_ns);
        self.operations.borrow_mut().push_back(begin);
        self.access_ps.set(picoseconds(cost.access_ns));
        self.is_sampled.set(is_sampled);
        self.sampled.set(0);
        self.depends.set(false);
    }

    /// Ends an operation; the number of its accesses that were sampled.
    pub fn end(&self) -> u32 {
        self.is_sampled.set(false);
        self.sampled.get()
    }

    /// Takes the first of the operations.
    pub fn pop(&self) -> Option<Operation> {
        self.operations.borrow_mut().pop_front()
    }

    /// Takes all operations one by one.
    pub fn drain(&self) -> impl Iterator<Item = Operation> + '_ {
        std::iter::from_fn(|| self.pop())
    }

    /// Drops all operations so far.
    pub fn clear(&self) {
        self.operations.borrow_mut().clear();
    }

    /// Operations that were not taken yet.
    pub(super) fn len(&self) -> usize {
        self.operations.borrow().len()
    }

    /// Takes all operations, and has room for `capacity` more.
    pub(super) fn take(&self, capacity: usize) -> VecDeque<Operation> {
        self.operations.replace(VecDeque::with_capacity(capacity))
    }

    fn push(&self, access: Access, address: usize, bytes: usize) {
        self.compute_ps(self.access_ps.get());
        self.for_each_part(address, bytes, |at, part| {
            let mut operation = Operation::new(access, at, part);
            operation.depends = self.depends.take();
            operation.compute_ps = self.compute_ps.take();
            let is_waited_for = operation.depends && access != Access::Prefetch;
            operation.sampled = self.is_sampled.get() && is_waited_for;
            if operation.sampled {
                self.sampled.set(self.sampled.get() + 1);
            }
            operation
        });
    }

    /// Adds an operation per page, the longest that one operation covers.
    #[inline]
    fn for_each_part(
        &self,
        mut address: usize,
        mut bytes: usize,
        operation: impl Fn(u64, u32) -> Operation,
    ) {
        while bytes > 0 {
            let at = self.space.modelled(address);
            let part = bytes.min((PAGE_BYTES - at % PAGE_BYTES) as usize);
            let operation = operation(at, part as u32);
            self.operations.borrow_mut().push_back(operation);
            address += part;
            bytes -= part;
        }
    }
}

impl<S: AddressSpace> Probe for Recorder<S> {
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

    fn wrong_path_load(&self, addr: usize, bytes: usize) {
        self.for_each_part(addr, bytes, |at, part| {
            Operation::new(Access::WrongPath, at, part)
        });
    }

    fn branch_mispredict(&self) {
        let mut refill = Operation::new(Access::Refill, 0, 0);
        refill.compute_ps = REFILL_PS;
        self.operations.borrow_mut().push_back(refill);
        self.depends.set(false);
    }

    fn critical_section(&self, addr: usize, lines: usize) {
        let at = self.space.modelled(addr);
        let bytes = (lines as u64 * CACHE_LINE_BYTES) as u32;
        let mut section = Operation::new(Access::CriticalSection, at, bytes);
        section.compute_ps = self.compute_ps.take();
        self.operations.borrow_mut().push_back(section);
    }

    fn lock(&self, addr: usize) {
        self.depends();
        // One word, whose line is that of its first byte.
        self.push(Access::Lock, addr, 1);
    }

    fn unlock(&self, addr: usize, changed: bool) {
        let access = if changed {
            Access::Unlock
        } else {
            Access::UnlockUnchanged
        };
        let mut unlock = Operation::new(access, self.space.modelled(addr), 1);
        unlock.compute_ps = self.compute_ps.take();
        self.operations.borrow_mut().push_back(unlock);
    }

    fn validate(&self, addr: usize) {
        let mut validate = Operation::new(Access::Validate, self.space.place(addr), 0);
        validate.sampled = self.is_sampled.get();
        self.sampled
            .set(self.sampled.get() + u32::from(validate.sampled));
        self.operations.borrow_mut().push_back(validate);
    }
}
