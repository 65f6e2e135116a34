//! What an owner is about to change, said where the next owner sees it.
//!
//! An owner that is stopped between its last look at the claim word and the bytes that it changes
//! does not know that it was fenced, and goes on. So it first says which bytes it is about to change,
//! and then looks at the claim word; whoever claims the pool raises the word, and then looks at what
//! was said. One of both sees the other: either the owner ends there, or the next one keeps off
//! these bytes (the argument of hazard pointers, and of Dekker's algorithm).

use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::attach::{Pool, system_error_at};
use super::checksum;
use super::error::PoolError;
use super::memory::PoolMemory;
use super::ownership::{CLAIM_WORD, OWNERS};

/// Changes that an owner can have under way concurrently.
const SLOTS_PER_OWNER: usize = 8;
const SLOTS: usize = OWNERS as usize * SLOTS_PER_OWNER;
/// The first slot, in the page of the claim word, behind eight lines for words of claims.
const FIRST_WORD: usize = CLAIM_WORD + 8 * LINE_WORDS;
/// A slot has a line of its own.
const LINE_WORDS: usize = 8;
/// Epoch, offset, bytes.
const FIELDS: usize = 3;

const _: () = assert!(FIRST_WORD + SLOTS * LINE_WORDS <= CLAIM_WORD + 512);

/// What one owner is about to change.
#[derive(Debug)]
pub(super) struct Intents {
    pool: Pool,
    epoch: u64,
    slots: Mutex<Slots>,
    has_ended: Condvar,
}

#[derive(Debug, Default)]
struct Slots {
    is_taken: [bool; SLOTS_PER_OWNER],
    is_given_back: bool,
}

/// A range that its owner may change as long as this lives, whoever claims the pool meanwhile.
#[derive(Debug)]
pub(super) struct Intent<'i> {
    intents: &'i Intents,
    slot: usize,
}

impl Intents {
    pub(super) fn new(pool: Pool, epoch: u64) -> Self {
        Self {
            pool,
            epoch,
            slots: Mutex::default(),
            has_ended: Condvar::new(),
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that this owner is about to change `range`; waits for a slot where too many changes are
    /// under way.
    ///
    /// # Errors
    /// [`PoolError::GivenBack`], [`PoolError::Fenced`], or the kernel's.
    pub(super) fn begin(&self, range: Range<u64>) -> Result<Intent<'_>, PoolError> {
        let slot = self.take_slot()?;
        let intent = Intent {
            intents: self,
            slot,
        };
        let (first, memory) = (self.word(slot), &self.pool.memory);
        let fields = [self.epoch, range.start, range.end - range.start];
        let sum = checksum::of_words(self.pool.identity.id, &fields);
        memory.store(first + 1, &[fields[1], fields[2], sum]);
        memory.store(first, &[self.epoch]);
        memory
            .show_words(first, FIELDS + 1)
            .map_err(|source| system_error_at(self.pool.path(), source, "written"))?;
        fence(Ordering::SeqCst);
        self.pool.ownership().check(self.epoch)?;
        Ok(intent)
    }

    fn take_slot(&self) -> Result<usize, PoolError> {
        let mut slots = self.slots();
        loop {
            if slots.is_given_back {
                return Err(PoolError::GivenBack);
            }
            if let Some(free) = slots.is_taken.iter().position(|is_taken| !is_taken) {
                slots.is_taken[free] = true;
                return Ok(free);
            }
            slots = self.wait(slots);
        }
    }

    /// Lets nothing begin from now on, and waits until all that was under way has ended.
    pub(super) fn end(&self) {
        let mut slots = self.slots();
        slots.is_given_back = true;
        // Those that wait for a slot have none to wait for any more.
        self.has_ended.notify_all();
        while slots.is_taken.contains(&true) {
            slots = self.wait(slots);
        }
    }

    fn wait<'s>(&self, slots: MutexGuard<'s, Slots>) -> MutexGuard<'s, Slots> {
        let woken = self.has_ended.wait(slots);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    fn word(&self, slot: usize) -> usize {
        word_of(self.epoch, slot)
    }

    /// What owners before that of `epoch` may still change, now that it has claimed the pool. One
    /// that is known to be gone changes nothing any more. What it had written to a range and not
    /// written back may still be in this host's caches, though, which would write it back some day,
    /// over what another host has written by then: these lines are dropped while the range is not used.
    pub(super) fn of_earlier(pool: &Pool, epoch: u64, is_last_gone: bool) -> Vec<Range<u64>> {
        fence(Ordering::SeqCst);
        let memory = &pool.memory;
        let start = FIRST_WORD as u64 * 8;
        memory.drop_cached(start..start + (SLOTS * LINE_WORDS * 8) as u64);
        let mut ranges = Vec::new();
        for earlier in epoch.saturating_sub(OWNERS)..epoch {
            // Of the first of these the slots are this owner's now.
            let is_over = earlier + OWNERS == epoch || (earlier + 1 == epoch && is_last_gone);
            for slot in 0..SLOTS_PER_OWNER {
                let first = word_of(earlier, slot);
                let range = read(pool, first, earlier);
                if !is_over {
                    ranges.extend(range);
                    continue;
                }
                if let Some(range) = range {
                    memory.drop_cached(range);
                }
                forget(memory, first, earlier);
            }
        }
        ranges
    }
}

impl Drop for Intent<'_> {
    fn drop(&mut self) {
        let Intents { pool, epoch, .. } = self.intents;
        forget(&pool.memory, self.intents.word(self.slot), *epoch);
        self.intents.slots().is_taken[self.slot] = false;
        self.intents.has_ended.notify_all();
    }
}

/// The first word of a slot of the owner of `epoch`.
fn word_of(epoch: u64, slot: usize) -> usize {
    FIRST_WORD + ((epoch % OWNERS) as usize * SLOTS_PER_OWNER + slot) * LINE_WORDS
}

/// Empties a slot, unless another owner has it already.
fn forget(memory: &PoolMemory, first: usize, epoch: u64) {
    let word = memory.word(first);
    let emptied = word.compare_exchange(epoch, 0, Ordering::AcqRel, Ordering::Relaxed);
    if emptied.is_ok()
        && let Err(error) = memory.show_words(first, 1)
    {
        tracing::debug!(%error, "the next owner keeps off an extent for nothing");
    }
}

/// The range in a slot of the owner of `epoch`, as far as it lies in extents. One that is not whole
/// was not said to its end: its owner will find that it was fenced.
fn read(pool: &Pool, first: usize, epoch: u64) -> Option<Range<u64>> {
    let load = |field: usize| pool.memory.load(first + field);
    let fields = [load(0), load(1), load(2)];
    let is_whole = load(FIELDS) == checksum::of_words(pool.identity.id, &fields);
    let extents = pool.extents();
    let inside = |offset: u64| offset.clamp(extents.start, extents.end);
    let end = fields[1].saturating_add(fields[2]);
    (is_whole && fields[0] == epoch).then(|| inside(fields[1])..inside(end))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::pool::attach::EXTENTS_START;
    use crate::pool::memory::TEST_BYTES;
    use crate::pool::{Claim, Owner, TakeOver};

    const BYTES: u64 = TEST_BYTES as u64;

    fn pool() -> Pool {
        let memory = PoolMemory::simulated(TEST_BYTES);
        Pool::create_in(memory, Path::new("simulated")).expect("a pool")
    }

    fn claim(pool: &Pool, take_over: TakeOver) -> Owner {
        let claim = Claim {
            take_over,
            ..Claim::of_this_process()
        };
        pool.claim(&claim).expect("an owner")
    }

    /// Whether extents that fill the pool touch a range.
    fn is_used(owner: &Owner, range: &Range<u64>) -> bool {
        let extents: Vec<_> = std::iter::from_fn(|| owner.write(&[&[1; 4096]]).ok()).collect();
        let free_min = (BYTES - EXTENTS_START) / 2 / 4096;
        assert!(extents.len() as u64 > free_min, "most of the pool is free");
        extents.iter().any(|handle| {
            let extent = handle.extent();
            extent.offset < range.end && range.start < extent.offset + extent.bytes
        })
    }

    #[test]
    fn who_takes_over_keeps_off_what_the_owner_before_is_changing() {
        let pool = pool();
        let first = claim(&pool, TakeOver::Never);
        let range = 128 << 10..150_000;
        let under_way = first.intents().begin(range.clone()).expect("an intent");
        for _ in 1..OWNERS {
            let next = claim(&pool, TakeOver::Now);
            assert!(!is_used(&next, &range), "epoch {}", next.record().epoch);
        }
        drop(under_way);
        let refused = first.intents().begin(range.clone()).expect_err("fenced");
        assert!(matches!(refused, PoolError::Fenced { .. }), "{refused}");
        let last = claim(&pool, TakeOver::Now);
        assert!(is_used(&last, &range), "nobody changes it any more");
    }

    #[test]
    fn of_an_owner_that_gave_the_pool_back_nothing_is_kept_off() {
        let pool = pool();
        let first = claim(&pool, TakeOver::Never);
        let range = 128 << 10..150_000;
        std::thread::scope(|scope| {
            let under_way = first.intents().begin(range.clone()).expect("an intent");
            let giving_back = scope.spawn(|| first.give_back().expect("given back"));
            while !first.intents().slots().is_given_back {
                std::thread::yield_now();
            }
            assert!(!giving_back.is_finished(), "a change is under way");
            drop(under_way);
        });
        let refused = first.intents().begin(range.clone()).expect_err("over");
        assert_eq!(refused, PoolError::GivenBack);
        assert!(is_used(&claim(&pool, TakeOver::Never), &range));
    }

    #[test]
    fn lines_that_a_dead_owner_has_left_in_the_cache_are_dropped() {
        let pool = pool();
        let other = pool.memory.of_another_host();
        other.expect("a host without coherent caches");
        let dead = claim(&pool, TakeOver::Never);
        let range = 128 << 10..256 << 10;
        let under_way = dead.intents().begin(range.clone()).expect("an intent");
        let words = [range.start as usize / 8, range.end as usize / 8 - 1];
        for word in words {
            pool.memory.store(word, &[1]);
        }
        // Its process is killed: its lock is free, and nothing was written back. Simulated lines that
        // are dropped are lost.
        pool.memory.unlock();
        let next = claim(&pool, TakeOver::Never);
        assert_eq!(words.map(|word| pool.memory.load(word)), [0, 0]);
        assert!(is_used(&next, &range), "nobody changes it any more");
        drop((under_way, next));
    }

    #[test]
    fn an_intent_that_lies_outside_of_the_pool_does_no_harm() {
        let pool = pool();
        let dead = claim(&pool, TakeOver::Never);
        // Intents of a process that is killed do not end.
        for range in [
            0..4096,
            0..u64::MAX,
            BYTES..2 * BYTES,
            u64::MAX - 1..u64::MAX,
        ] {
            std::mem::forget(dead.intents().begin(range).expect("an intent"));
        }
        let epoch = dead.record().epoch + 1;
        let kept = Intents::of_earlier(&pool, epoch, false);
        let all = pool.extents();
        let wanted = [
            all.start..all.start,
            all.clone(),
            all.end..all.end,
            all.end..all.end,
        ];
        assert_eq!(kept, wanted);
        assert!(Intents::of_earlier(&pool, epoch, true).is_empty());
        assert!(
            Intents::of_earlier(&pool, epoch, false).is_empty(),
            "forgotten"
        );
    }

    #[test]
    fn many_changes_take_turns() {
        let pool = pool();
        let owner = claim(&pool, TakeOver::Never);
        let intents = owner.intents();
        std::thread::scope(|scope| {
            for _ in 0..3 * SLOTS_PER_OWNER {
                scope.spawn(|| drop(intents.begin(0..1).expect("its turn")));
            }
        });
        assert_eq!(intents.slots().is_taken, [false; SLOTS_PER_OWNER]);
    }
}
