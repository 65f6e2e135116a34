//! The probe that keeps a list.

use std::cell::{Cell, RefCell};

use crate::Probe;
use crate::simulation::Access;

/// An access as a probe heard of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedAccess {
    /// What was done; a stream is a [`Access::Load`].
    pub access: Access,
    /// The address of the first byte.
    pub address: usize,
    /// The length.
    pub bytes: usize,
    /// It needs the results of the reads before.
    pub depends: bool,
}

/// Keeps all accesses of one thread, in order. What is reported between accesses and is none, such
/// as a branch mispredict, shows as the dependence of the next one.
#[derive(Debug, Default)]
pub struct AccessLog {
    accesses: RefCell<Vec<LoggedAccess>>,
    depends: Cell<bool>,
}

impl AccessLog {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes all accesses since the last time.
    pub fn take(&self) -> Vec<LoggedAccess> {
        self.accesses.take()
    }

    fn push(&self, access: Access, address: usize, bytes: usize) {
        self.accesses.borrow_mut().push(LoggedAccess {
            access,
            address,
            bytes,
            depends: self.depends.take(),
        });
    }
}

impl Probe for AccessLog {
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
        self.push(Access::WrongPath, addr, bytes);
    }

    fn branch_mispredict(&self) {
        self.depends.set(true);
    }

    /// The log is of accesses to memory, and the lines of a lock come from caches.
    fn critical_section(&self, _addr: usize, _lines: usize) {}

    fn lock(&self, addr: usize) {
        self.write(addr, size_of::<u64>());
    }

    fn unlock(&self, _addr: usize, _changed: bool) {}

    fn validate(&self, _addr: usize) {}
}
