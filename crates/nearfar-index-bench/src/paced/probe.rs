//! The probe that charges accesses to far memory.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use nearfar_model::Probe;

use super::lane::{Charged, Lane, Use};

/// Charges one thread's accesses to the addresses of the far tier, and counts all others.
#[derive(Debug)]
pub(super) struct PacedProbe {
    far: Range<usize>,
    lane: RefCell<Lane>,
    near_accesses: Cell<u64>,
}

impl PacedProbe {
    pub(super) fn new(far: Range<usize>, lane: Lane) -> Self {
        Self {
            far,
            lane: RefCell::new(lane),
            near_accesses: Cell::new(0),
        }
    }

    /// Ends an operation; everything that was charged so far.
    pub(super) fn end_operation(&self) -> Charged {
        let mut lane = self.lane.borrow_mut();
        lane.end_operation();
        Charged {
            near_accesses: self.near_accesses.get(),
            ..lane.charged
        }
    }

    #[inline]
    fn access(&self, how: Use, address: usize, bytes: usize) {
        if self.far.contains(&address) {
            self.lane.borrow_mut().access(how, address, bytes);
        } else {
            self.near_accesses.set(self.near_accesses.get() + 1);
        }
    }
}

impl Probe for PacedProbe {
    #[inline]
    fn read(&self, addr: usize, bytes: usize) {
        self.access(Use::Read, addr, bytes);
    }

    #[inline]
    fn write(&self, addr: usize, bytes: usize) {
        self.access(Use::Write, addr, bytes);
    }

    fn write_non_temporal(&self, addr: usize, bytes: usize) {
        self.access(Use::Write, addr, bytes);
    }

    fn stream(&self, addr: usize, bytes: usize) {
        self.access(Use::Read, addr, bytes);
    }

    #[inline]
    fn prefetch(&self, addr: usize, bytes: usize) {
        self.access(Use::Prefetch, addr, bytes);
    }

    #[inline]
    fn depends(&self) {
        self.lane.borrow_mut().depends();
    }
}
