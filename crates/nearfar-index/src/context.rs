//! What an operation carries along.

use nearfar_model::{Native, Probe};

use crate::lock::{Obsolete, OptimisticLock, Version};
use crate::memory::{Guard, NodeMemory};
use crate::prefetch::{LINE_BYTES, prefetch_line};

/// One operation of one thread: its guard, and the probe that hears of its accesses.
#[derive(Debug)]
pub struct Context<'m, 'p, P: Probe = Native> {
    /// Protects the nodes on the way.
    pub guard: Guard<'m>,
    /// Hears of every access to a node.
    pub probe: &'p P,
}

impl<'m> Context<'m, 'static, Native> {
    /// An ordinary operation.
    #[inline]
    #[must_use]
    pub fn native(memory: &'m NodeMemory) -> Self {
        Self {
            guard: memory.enter(),
            probe: &Native,
        }
    }
}

impl<'m, 'p, P: Probe> Context<'m, 'p, P> {
    /// An operation whose accesses `probe` hears of.
    #[inline]
    #[must_use]
    pub fn new(memory: &'m NodeMemory, probe: &'p P) -> Self {
        Self {
            guard: memory.enter(),
            probe,
        }
    }

    /// Reports a read of `part`, whose address came out of the read before.
    #[inline(always)]
    pub fn follow<T>(&self, part: *const T, bytes: usize) {
        self.probe.depends();
        self.probe.read(part.addr(), bytes);
    }

    /// Asks for the lines of `part`, which are needed later, and whose address came out of what was
    /// read before.
    #[inline(always)]
    pub fn prefetch<T>(&self, part: *const T, bytes: usize) {
        let first = part.cast::<u8>().map_addr(|addr| addr & !(LINE_BYTES - 1));
        for offset in (0..part.addr() + bytes - first.addr()).step_by(LINE_BYTES) {
            prefetch_line(first.wrapping_add(offset));
        }
        self.probe.depends();
        self.probe.prefetch(part.addr(), bytes);
    }

    /// Asks for the lines of an array of so many words, which are needed later.
    #[inline(always)]
    pub(crate) fn prefetch_words<const WORDS: usize>(&self, first: *const u8) {
        let bytes = WORDS * size_of::<u64>();
        for offset in (0..bytes).step_by(LINE_BYTES) {
            prefetch_line(first.wrapping_add(offset));
        }
        // The array may begin in the middle of a line.
        prefetch_line(first.wrapping_add(bytes - 1));
        self.probe.prefetch(first.addr(), bytes);
    }

    /// As [`OptimisticLock::validate`], and reports it.
    #[inline(always)]
    pub(crate) fn validate(&self, lock: &OptimisticLock, version: Version) -> bool {
        self.probe.validate(std::ptr::from_ref(lock).addr());
        lock.validate(version)
    }

    /// As [`OptimisticLock::try_lock`], and reports a lock that was taken.
    #[inline(always)]
    pub(crate) fn try_lock(&self, lock: &OptimisticLock, version: Version) -> bool {
        let is_taken = lock.try_lock(version);
        if is_taken {
            self.probe.lock(std::ptr::from_ref(lock).addr());
        }
        is_taken
    }

    /// As [`OptimisticLock::lock`], and reports it.
    pub(crate) fn lock(&self, lock: &OptimisticLock) -> Result<(), Obsolete> {
        lock.lock(|| self.waiting(lock))?;
        self.probe.lock(std::ptr::from_ref(lock).addr());
        Ok(())
    }

    /// As [`OptimisticLock::unlock`], and reports it.
    #[inline(always)]
    pub(crate) fn unlock(&self, lock: &OptimisticLock) {
        lock.unlock();
        self.probe.unlock(std::ptr::from_ref(lock).addr(), true);
    }

    /// As [`OptimisticLock::unlock_unchanged`], and reports it.
    #[inline(always)]
    pub(crate) fn unlock_unchanged(&self, lock: &OptimisticLock) {
        lock.unlock_unchanged();
        self.probe.unlock(std::ptr::from_ref(lock).addr(), false);
    }

    /// As [`OptimisticLock::unlock_obsolete`], and reports it.
    pub(crate) fn unlock_obsolete(&self, lock: &OptimisticLock) {
        lock.unlock_obsolete();
        self.probe.unlock(std::ptr::from_ref(lock).addr(), true);
    }

    /// Reports a look at a lock that somebody else holds.
    #[inline]
    pub fn waiting<T>(&self, lock: *const T) {
        self.probe.depends();
        self.probe.read(lock.addr(), 8);
    }
}
