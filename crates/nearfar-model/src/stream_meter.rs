//! The probe that hands on how many bytes of a range a kernel streams.

use std::cell::Cell;
use std::ops::Range;

use crate::Probe;

/// Counts what is streamed of some addresses, and hands the bytes on whenever they are many, such as to an emulated
/// tier that makes its thread wait for them. Single reads and writes are not counted.
///
/// ```
/// use std::cell::RefCell;
///
/// use nearfar_model::{Probe, StreamMeter};
///
/// let heard = RefCell::<Vec<u64>>::default();
/// let meter = StreamMeter::new(4096..8192, 1024, |bytes| heard.borrow_mut().push(bytes));
/// for addr in [0, 4096, 4608, 5120] {
///     meter.stream(addr, 512);
/// }
/// meter.finish();
/// assert_eq!(*heard.borrow(), [1024, 512]);
/// ```
#[derive(Debug)]
pub struct StreamMeter<F> {
    range: Range<usize>,
    every_bytes: u64,
    /// Streamed, and not handed on yet.
    bytes: Cell<u64>,
    hand_on: F,
}

impl<F: Fn(u64)> StreamMeter<F> {
    /// One of these addresses, which calls `hand_on` with at least `every_bytes` bytes each time.
    pub fn new(range: Range<usize>, every_bytes: u64, hand_on: F) -> Self {
        Self {
            range,
            every_bytes,
            bytes: Cell::new(0),
            hand_on,
        }
    }

    /// Hands on what is left.
    pub fn finish(&self) {
        let left = self.bytes.take();
        if left > 0 {
            (self.hand_on)(left);
        }
    }
}

impl<F: Fn(u64)> Probe for StreamMeter<F> {
    #[inline(always)]
    fn read(&self, _addr: usize, _bytes: usize) {}

    #[inline(always)]
    fn write(&self, _addr: usize, _bytes: usize) {}

    #[inline(always)]
    fn write_non_temporal(&self, _addr: usize, _bytes: usize) {}

    #[inline]
    fn stream(&self, addr: usize, bytes: usize) {
        if !self.range.contains(&addr) {
            return;
        }
        self.bytes.set(self.bytes.get() + bytes as u64);
        if self.bytes.get() >= self.every_bytes {
            self.finish();
        }
    }

    #[inline(always)]
    fn prefetch(&self, _addr: usize, _bytes: usize) {}

    #[inline(always)]
    fn depends(&self) {}

    #[inline(always)]
    fn wrong_path_load(&self, _addr: usize, _bytes: usize) {}

    #[inline(always)]
    fn branch_mispredict(&self) {}

    fn critical_section(&self, _addr: usize, _lines: usize) {}

    #[inline(always)]
    fn lock(&self, addr: usize) {
        self.write(addr, size_of::<u64>());
    }

    fn unlock(&self, _addr: usize, _changed: bool) {}

    fn validate(&self, _addr: usize) {}
}
