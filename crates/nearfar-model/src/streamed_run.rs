//! The probe that keeps which bytes a kernel has streamed.

use std::cell::Cell;
use std::ops::Range;

use crate::Probe;

/// Keeps the smallest run of addresses that holds everything which was streamed since the last time:
/// for kernels that pass over one column, however often, and find it in the caches when they come again.
/// Single reads and writes are those of their own near buffers, and are not kept.
///
/// ```
/// use nearfar_model::{Probe, StreamedRun};
///
/// let probe = StreamedRun::default();
/// probe.stream(4096, 64);
/// probe.stream(4096, 64);
/// assert_eq!((probe.take(), probe.take()), (4096..4160, 0..0));
/// ```
#[derive(Debug, Default)]
pub struct StreamedRun {
    run: Cell<(usize, usize)>,
}

impl StreamedRun {
    /// Takes the addresses; nothing was streamed where they are none.
    pub fn take(&self) -> Range<usize> {
        let (start, end) = self.run.take();
        start..end
    }
}

impl Probe for StreamedRun {
    #[inline]
    fn read(&self, _addr: usize, _bytes: usize) {}

    #[inline]
    fn write(&self, _addr: usize, _bytes: usize) {}

    #[inline]
    fn write_non_temporal(&self, _addr: usize, _bytes: usize) {}

    #[inline]
    fn stream(&self, addr: usize, bytes: usize) {
        let (start, end) = self.run.get();
        self.run.set(match start == end {
            true => (addr, addr + bytes),
            false => (start.min(addr), end.max(addr + bytes)),
        });
    }

    #[inline]
    fn prefetch(&self, _addr: usize, _bytes: usize) {}

    #[inline]
    fn depends(&self) {}

    #[inline]
    fn wrong_path_load(&self, _addr: usize, _bytes: usize) {}

    #[inline]
    fn branch_mispredict(&self) {}

    fn critical_section(&self, _addr: usize, _lines: usize) {}

    #[inline]
    fn lock(&self, addr: usize) {
        self.write(addr, size_of::<u64>());
    }

    fn unlock(&self, _addr: usize, _changed: bool) {}

    fn validate(&self, _addr: usize) {}
}
