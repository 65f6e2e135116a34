//! The memory behind a pool.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::medium::Medium;
use crate::sys::{self, SharedFile, SharedKind, SharedMapping, SysError};

const WORD_BYTES: usize = 8;
const LINE_WORDS: usize = 8;
const PAGE_BYTES: usize = 4096;

/// The memory of a pool: a file or device, or memory of this process that loses power when a test
/// says so.
pub struct PoolMemory {
    backing: Backing,
    /// Whether an owner of this process has the file's lock, which tells processes apart only.
    is_locked: AtomicBool,
}

enum Backing {
    Mapped {
        map: SharedMapping,
        file: SharedFile,
        medium: Medium,
    },
    Simulated(Simulated),
}

impl fmt::Debug for PoolMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PoolMemory")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// Memory with the cache of a host in front of it: what is written is in the cache, and in memory
/// once it was written back. What is read comes from the cache, which has of other hosts' writes
/// what was in memory when its lines were last dropped: the least that a host may see.
struct Simulated {
    cached: Box<[AtomicU64]>,
    durable: Arc<Mutex<Durable>>,
}

/// The memory behind the simulated cache.
struct Durable {
    words: Box<[u64]>,
    /// Write-backs until the power fails.
    left: Option<u64>,
    done: u64,
    /// Write-backs that do nothing, by how many were done with them.
    skipped: Range<u64>,
    /// Whether more than one host has it.
    is_shared: bool,
    /// How long a write-back takes.
    delay: Duration,
    /// What was in the cache when the power failed.
    cached_at_failure: Option<Box<[u64]>>,
}

impl PoolMemory {
    pub(super) fn mapped(map: SharedMapping, file: SharedFile, medium: Medium) -> Self {
        Self {
            backing: Backing::Mapped { map, file, medium },
            is_locked: AtomicBool::new(false),
        }
    }

    /// Whether it is mapped from a DAX device, as a whole.
    pub(super) fn is_device(&self) -> bool {
        match &self.backing {
            Backing::Mapped { file, .. } => file.kind() == SharedKind::DaxDevice,
            Backing::Simulated(_) => false,
        }
    }

    /// Memory whose power can [fail](Self::power_loss), of a multiple of 4 KiB.
    #[must_use]
    pub fn simulated(bytes: usize) -> Self {
        Self::simulated_with(vec![0; bytes.next_multiple_of(PAGE_BYTES) / WORD_BYTES].into())
    }

    fn simulated_with(words: Box<[u64]>) -> Self {
        let cached = words.iter().copied().map(AtomicU64::new).collect();
        let durable = Durable {
            words,
            left: None,
            done: 0,
            skipped: 0..0,
            is_shared: false,
            delay: Duration::ZERO,
            cached_at_failure: None,
        };
        Self::simulated_host(cached, Arc::new(Mutex::new(durable)))
    }

    fn simulated_host(cached: Box<[AtomicU64]>, durable: Arc<Mutex<Durable>>) -> Self {
        Self {
            backing: Backing::Simulated(Simulated { cached, durable }),
            is_locked: AtomicBool::new(false),
        }
    }

    /// The same simulated memory as another host sees it, through a cache of its own that nothing
    /// keeps coherent with this one's. `None` on real memory.
    #[must_use]
    pub fn of_another_host(&self) -> Option<Self> {
        let Backing::Simulated(simulated) = &self.backing else {
            return None;
        };
        let mut durable = simulated.lock();
        durable.is_shared = true;
        let cached = durable.words.iter().copied().map(AtomicU64::new).collect();
        let durable = Arc::clone(&simulated.durable);
        Some(Self::simulated_host(cached, durable))
    }

    /// Has write-backs do nothing, as if they had been forgotten: those that
    /// [`Self::write_backs_done`] counts in this range. Nothing on real memory.
    pub fn skip_write_backs(&self, range: Range<u64>) {
        if let Backing::Simulated(simulated) = &self.backing {
            simulated.lock().skipped = range;
        }
    }

    /// Lets the power fail after so many more write-backs: what is written back later is lost.
    /// Nothing on real memory.
    pub fn fail_after(&self, write_backs: u64) {
        if let Backing::Simulated(simulated) = &self.backing {
            simulated.lock().left = Some(write_backs);
        }
    }

    /// Has write-backs take so long. Nothing on real memory.
    pub fn delay_write_backs(&self, delay: Duration) {
        if let Backing::Simulated(simulated) = &self.backing {
            simulated.lock().delay = delay;
        }
    }

    /// Write-backs so far, of simulated memory.
    #[must_use]
    pub fn write_backs_done(&self) -> u64 {
        match &self.backing {
            Backing::Mapped { .. } => 0,
            Backing::Simulated(simulated) => simulated.lock().done,
        }
    }

    /// The memory as it is found after a loss of power: what was written back, and of the lines
    /// that were not, those that `evicted` says the cache had written back by itself. `None` on real
    /// memory.
    #[must_use]
    pub fn power_loss(&self, mut evicted: impl FnMut(usize) -> bool) -> Option<Self> {
        let Backing::Simulated(simulated) = &self.backing else {
            return None;
        };
        let durable = simulated.lock();
        let now = || {
            simulated
                .cached
                .iter()
                .map(|word| word.load(Ordering::Relaxed))
                .collect()
        };
        let cached = durable.cached_at_failure.clone().unwrap_or_else(now);
        let mut words = durable.words.clone();
        let lines = words.chunks_mut(LINE_WORDS).zip(cached.chunks(LINE_WORDS));
        for (index, (memory, cache)) in lines.enumerate() {
            if memory != cache && evicted(index) {
                memory.copy_from_slice(cache);
            }
        }
        Some(Self::simulated_with(words))
    }

    /// All words.
    fn words(&self) -> &[AtomicU64] {
        match &self.backing {
            Backing::Mapped { map, .. } => map.words(),
            Backing::Simulated(simulated) => &simulated.cached,
        }
    }

    /// Bytes of the memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.words().len() * WORD_BYTES) as u64
    }

    /// The word at an index, as it is in memory.
    pub(super) fn load(&self, index: usize) -> u64 {
        self.words()[index].load(Ordering::Acquire)
    }

    /// Words from an index on; in memory for good after [`Self::write_back_words`].
    pub(super) fn store(&self, first: usize, values: &[u64]) {
        for (word, value) in self.words()[first..].iter().zip(values) {
            word.store(*value, Ordering::Release);
        }
    }

    /// A word that others change too.
    pub(super) fn word(&self, index: usize) -> &AtomicU64 {
        &self.words()[index]
    }

    /// Copies bytes to `offset`, a multiple of eight. The rest of the last word is zeroed.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        let first = offset as usize / WORD_BYTES;
        let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
        let words = self.words()[first..].iter();
        for (word, chunk) in words.zip(whole) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; WORD_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            self.words()[first + whole.len()].store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
    }

    /// Bytes in place.
    ///
    /// # Safety
    /// The range lies inside, and nobody writes it as long as the slice lives.
    pub(super) unsafe fn slice(&self, range: Range<u64>) -> &[u8] {
        let words = self.words();
        assert!(
            range.start <= range.end && range.end <= self.bytes(),
            "{range:?} lies outside"
        );
        let start = words
            .as_ptr()
            .cast::<u8>()
            .wrapping_add(range.start as usize);
        // SAFETY: the bytes lie inside of the words, are initialised, and the caller says that
        // nobody writes them.
        unsafe { std::slice::from_raw_parts(start, (range.end - range.start) as usize) }
    }

    /// Has words in memory for good: those of a page or two, not of an extent.
    pub(super) fn write_back_words(&self, first: usize, count: usize) -> Result<(), SysError> {
        self.write_back((first * WORD_BYTES) as u64..((first + count) * WORD_BYTES) as u64)
    }

    /// Has words where other hosts see them, if any do. They need not outlive a loss of power.
    pub(super) fn show_words(&self, first: usize, count: usize) -> Result<(), SysError> {
        match self.is_shared_by_lines() {
            true => self.write_back_words(first, count),
            false => Ok(()),
        }
    }

    /// Has bytes in memory for good.
    pub(super) fn write_back(&self, range: Range<u64>) -> Result<(), SysError> {
        let bytes = range.start as usize..range.end as usize;
        let words = bytes.start / WORD_BYTES..bytes.end.div_ceil(WORD_BYTES);
        match &self.backing {
            Backing::Mapped { map, medium, .. } => match medium {
                Medium::Memory => Ok(()),
                Medium::Lines => {
                    sys::write_back_lines(&map.words()[words]);
                    Ok(())
                }
                Medium::File => {
                    let start = bytes.start - bytes.start % PAGE_BYTES;
                    map.flush(start..bytes.end.next_multiple_of(PAGE_BYTES).min(map.len()))
                }
            },
            Backing::Simulated(simulated) => {
                simulated.write_back(words);
                Ok(())
            }
        }
    }

    /// Forgets what this processor has cached, so that what others wrote is seen.
    pub(super) fn drop_cached(&self, range: Range<u64>) {
        let words = range.start as usize / WORD_BYTES..(range.end as usize).div_ceil(WORD_BYTES);
        match &self.backing {
            Backing::Mapped {
                map,
                medium: Medium::Lines,
                ..
            } => sys::drop_lines(&map.words()[words]),
            Backing::Mapped { .. } => {}
            Backing::Simulated(simulated) => simulated.drop_cached(words),
        }
    }

    /// Makes sure that there are pages for a range, so that writing it cannot fail.
    pub(super) fn reserve(&self, range: Range<u64>) -> Result<(), SysError> {
        match &self.backing {
            Backing::Mapped { file, .. } => file.reserve(range),
            Backing::Simulated(_) => Ok(()),
        }
    }

    /// Has this process write to a range no more, where that is possible: whole pages of the device's alignment.
    pub(super) fn protect(&self, range: Range<u64>) -> Result<(), SysError> {
        match &self.backing {
            Backing::Mapped { map, .. } => map.protect(range.start as usize..range.end as usize),
            Backing::Simulated(_) => Ok(()),
        }
    }

    /// Gives the pages of a range back, where that is possible.
    pub(super) fn release(&self, range: Range<u64>) {
        if let Backing::Mapped { file, .. } = &self.backing
            && let Err(error) = file.release(range)
        {
            tracing::debug!(%error, "pages of a free extent stay");
        }
    }

    /// Takes the lock that tells a living owner on this host from a dead one; false when somebody
    /// has it, in this process or another.
    pub(super) fn try_lock(&self) -> Result<bool, SysError> {
        if self.is_locked.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        let taken = match &self.backing {
            Backing::Mapped { file, .. } => file.try_lock(),
            Backing::Simulated(_) => Ok(true),
        };
        if !matches!(taken, Ok(true)) {
            self.is_locked.store(false, Ordering::Release);
        }
        taken
    }

    /// Gives the lock back. Only who has taken it calls it.
    pub(super) fn unlock(&self) {
        if let Backing::Mapped { file, .. } = &self.backing {
            file.unlock();
        }
        self.is_locked.store(false, Ordering::Release);
    }

    /// Whether another host may see this memory, with caches of its own.
    pub(super) fn is_shared_by_lines(&self) -> bool {
        match &self.backing {
            Backing::Mapped { medium, .. } => *medium == Medium::Lines,
            Backing::Simulated(simulated) => simulated.lock().is_shared,
        }
    }
}

impl Simulated {
    fn lock(&self) -> std::sync::MutexGuard<'_, Durable> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_back(&self, words: Range<usize>) {
        let delay = self.lock().delay;
        std::thread::sleep(delay);
        let mut durable = self.lock();
        let number = durable.done;
        durable.done += 1;
        if durable.skipped.contains(&number) {
            return;
        }
        match &mut durable.left {
            Some(0) => {
                if durable.cached_at_failure.is_none() {
                    let cached = self.cached.iter().map(|word| word.load(Ordering::Relaxed));
                    durable.cached_at_failure = Some(cached.collect());
                }
                return;
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let lines = self.lines_of(words);
        let cached = self.cached[lines.clone()].iter();
        for (word, cached) in durable.words[lines].iter_mut().zip(cached) {
            *word = cached.load(Ordering::Relaxed);
        }
    }

    /// With one host only, nothing is in memory that is not in its cache.
    fn drop_cached(&self, words: Range<usize>) {
        let durable = self.lock();
        if !durable.is_shared {
            return;
        }
        let lines = self.lines_of(words);
        let cached = self.cached[lines.clone()].iter();
        for (cached, word) in cached.zip(&durable.words[lines]) {
            cached.store(*word, Ordering::Release);
        }
    }

    /// The words of the lines that have these, as far as there are any.
    fn lines_of(&self, words: Range<usize>) -> Range<usize> {
        let end = words
            .end
            .next_multiple_of(LINE_WORDS)
            .min(self.cached.len());
        (words.start / LINE_WORDS * LINE_WORDS).min(end)..end
    }
}

/// Bytes of the pools of unit tests: few under Miri, which looks at each.
#[cfg(test)]
pub(super) const TEST_BYTES: usize = if cfg!(miri) { 256 << 10 } else { 2 << 20 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_back_may_be_lost() {
        let memory = PoolMemory::simulated(4096);
        memory.store(0, &[1, 2]);
        memory.write_back_words(0, 2).unwrap();
        memory.store(8, &[3]);
        let lost = memory.power_loss(|_| false).unwrap();
        assert_eq!((lost.load(0), lost.load(1), lost.load(8)), (1, 2, 0));
        let kept = memory.power_loss(|line| line == 1).unwrap();
        assert_eq!(kept.load(8), 3);
    }

    #[test]
    fn nothing_is_written_after_the_power_has_failed() {
        let memory = PoolMemory::simulated(4096);
        memory.fail_after(1);
        for (index, value) in [(0, 1), (8, 2), (16, 3)] {
            memory.store(index, &[value]);
            memory.write_back_words(index, 1).unwrap();
        }
        let found = memory.power_loss(|_| true).unwrap();
        assert_eq!((found.load(0), found.load(8), found.load(16)), (1, 2, 0));
    }

    #[test]
    fn another_host_sees_what_was_written_back_once_it_drops_its_lines() {
        let here = PoolMemory::simulated(4096);
        let there = here.of_another_host().unwrap();
        here.store(0, &[1]);
        there.drop_cached(0..64);
        assert_eq!(there.load(0), 0, "not written back");
        here.write_back_words(0, 1).unwrap();
        assert_eq!(there.load(0), 0, "not dropped");
        there.drop_cached(0..64);
        assert_eq!(there.load(0), 1);
        let number = here.write_backs_done();
        here.skip_write_backs(number..number + 1);
        for value in [2, 3] {
            here.store(0, &[value]);
            here.write_back_words(0, 1).unwrap();
            there.drop_cached(0..64);
            assert_eq!(there.load(0), [1, 3][value as usize - 2]);
        }
    }

    #[test]
    fn bytes_that_do_not_fill_a_word_are_written() {
        let memory = PoolMemory::simulated(4096);
        memory.write(16, b"nearfar-pool");
        // SAFETY: nobody writes.
        assert_eq!(unsafe { memory.slice(16..28) }, b"nearfar-pool");
    }
}
