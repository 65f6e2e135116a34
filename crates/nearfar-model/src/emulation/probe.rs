//! The probe that keeps accesses to far memory until they are charged.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use super::misses::{AccessKind, Event};
use crate::Probe;

/// Keeps one thread's accesses to the addresses of the far tier, and counts all others. Charging
/// them takes longer than making them, so that is done later, when no time is taken.
#[derive(Debug)]
pub struct EmulatedProbe {
    far: Range<usize>,
    events: RefCell<Vec<Event>>,
    near_accesses: Cell<u64>,
}

impl EmulatedProbe {
    /// A probe without accesses; `far` are the addresses of the far tier.
    pub fn new(far: Range<usize>) -> Self {
        Self {
            far,
            events: RefCell::default(),
            near_accesses: Cell::new(0),
        }
    }

    /// Ends an operation.
    pub fn end_operation(&self) {
        self.events.borrow_mut().push(Event::End);
    }

    /// Hands out what was kept, and forgets it.
    pub(super) fn drain(&self, hear: impl FnMut(Event)) {
        self.events.borrow_mut().drain(..).for_each(hear);
    }

    /// Accesses to all but the far tier so far.
    pub(super) fn near_accesses(&self) -> u64 {
        self.near_accesses.get()
    }

    #[inline]
    fn access(&self, kind: AccessKind, address: usize, bytes: usize) {
        if self.far.contains(&address) {
            let event = Event::Access(kind, address, bytes);
            self.events.borrow_mut().push(event);
        } else {
            self.near_accesses.set(self.near_accesses.get() + 1);
        }
    }
}

impl Probe for EmulatedProbe {
    #[inline]
    fn read(&self, addr: usize, bytes: usize) {
        self.access(AccessKind::Read, addr, bytes);
    }

    #[inline]
    fn write(&self, addr: usize, bytes: usize) {
        self.access(AccessKind::Write, addr, bytes);
    }

    fn write_non_temporal(&self, addr: usize, bytes: usize) {
        self.access(AccessKind::Write, addr, bytes);
    }

    fn stream(&self, addr: usize, bytes: usize) {
        self.access(AccessKind::Read, addr, bytes);
    }

    #[inline]
    fn prefetch(&self, addr: usize, bytes: usize) {
        self.access(AccessKind::Prefetch, addr, bytes);
    }

    #[inline]
    fn depends(&self) {
        let mut events = self.events.borrow_mut();
        // Behind nothing but near accesses there is nothing to wait for.
        if let Some(Event::Access(..)) = events.last() {
            events.push(Event::Depends);
        }
    }

    #[inline]
    fn wrong_path_load(&self, addr: usize, bytes: usize) {
        self.access(AccessKind::Prefetch, addr, bytes);
    }

    /// The pipeline's own time is this machine's.
    #[inline]
    fn branch_mispredict(&self) {
        self.depends();
    }

    /// Threads of an emulated run wait for each other as they are.
    fn critical_section(&self, _addr: usize, _lines: usize) {}

    #[inline]
    fn lock(&self, addr: usize) {
        self.write(addr, size_of::<u64>());
    }

    fn unlock(&self, _addr: usize, _changed: bool) {}

    fn validate(&self, _addr: usize) {}
}
