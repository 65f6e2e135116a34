//! Who reads a pool without being its owner, and since which publication.
//!
//! A reader has a slot in the pool. Before it uses what a publication has, it says which one that is, and looks again
//! whether it still is the newest. The owner publishes, and then looks at the slots, before it uses space again that
//! its new publication has no longer. One of both sees the other (the argument of hazard pointers, and of Dekker's
//! algorithm), so that no extent is written while a reader may look at it: whatever becomes of the reader, and whoever
//! owns the pool by then. Only who reads under the same name, or whoever says that the reader is gone, ends that.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{Ordering, fence};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::attach::{Pool, system_error_at};
use super::checksum;
use super::error::PoolError;
use super::memory::PoolMemory;
use super::ownership::{
    NAME_WORDS, OwnerName, SETTLE, name_from_words, name_words, put_text, text_of,
};

/// Readers that a pool can have.
pub(super) const READERS: usize = 32;
/// The first slot, behind the roots, and words of a slot.
const FIRST_WORD: usize = super::root::END_WORD;
const SLOT_WORDS: usize = 32;
/// The first word behind the slots.
pub(super) const END_WORD: usize = FIRST_WORD + READERS * SLOT_WORDS;

/// The oldest and the newest publication that the reader may be looking at; zero where it looks at none.
const OLDEST: usize = 0;
const NEWEST: usize = 1;
/// A number of the reader's own, whose upper half is of its name; zero where the slot is free.
const LIFE: usize = 2;
/// Who the reader is, in lines of their own: its life, its name, its process.
const RECORD: usize = 8;
const NAME_BYTES: usize = 64;
/// Words of a record before those of the process.
const PROCESS: usize = 1 + NAME_BYTES / 8;
const RECORD_WORDS: usize = PROCESS + NAME_WORDS;

const _: () = assert!(RECORD + RECORD_WORDS < SLOT_WORDS);

/// A reader of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderRecord {
    /// What it calls itself: two of one name are never there.
    pub name: String,
    /// Its process.
    pub process: OwnerName,
    /// The oldest and the newest publication that it may look at; `None` where it looks at none.
    pub generations: Option<RangeInclusive<u64>>,
}

impl fmt::Display for ReaderRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} ({})", self.name, self.process)
    }
}

/// The slot of one reader.
#[derive(Debug)]
pub(super) struct Slot {
    first: usize,
    life: u64,
}

/// The slots of a pool.
pub(super) struct Slots<'p>(pub(super) &'p Pool);

impl Slots<'_> {
    fn memory(&self) -> &PoolMemory {
        &self.0.memory
    }

    fn show(&self, first: usize, words: usize) -> Result<(), PoolError> {
        let shown = self.memory().show_words(first, words);
        shown.map_err(|source| system_error_at(self.0.path(), source, "written"))
    }

    fn firsts() -> impl Iterator<Item = usize> {
        (0..READERS).map(|slot| FIRST_WORD + slot * SLOT_WORDS)
    }

    /// Sees what other hosts have written.
    fn look(&self) {
        fence(Ordering::SeqCst);
        let range = (FIRST_WORD * 8) as u64..(END_WORD * 8) as u64;
        self.memory().drop_cached(range);
    }

    /// The readers that have said who they are.
    pub(super) fn all(&self) -> Vec<ReaderRecord> {
        self.look();
        Self::firsts()
            .filter_map(|first| self.record(first))
            .collect()
    }

    /// The publications that each reader may be looking at.
    pub(super) fn held(&self) -> Vec<RangeInclusive<u64>> {
        self.look();
        let held = Self::firsts().filter_map(|first| self.held_by(first));
        held.collect()
    }

    fn held_by(&self, first: usize) -> Option<RangeInclusive<u64>> {
        let word = |field: usize| self.memory().load(first + field);
        let held = word(OLDEST)..=word(NEWEST);
        (word(LIFE) != 0 && *held.start() != 0).then_some(held)
    }

    fn record(&self, first: usize) -> Option<ReaderRecord> {
        let mut words = [0; RECORD_WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.memory().load(first + RECORD + index);
        }
        let sum = self.memory().load(first + RECORD + RECORD_WORDS);
        let life = self.memory().load(first + LIFE);
        let is_whole = sum == checksum::of_words(self.0.identity.id, &words);
        if life == 0 || life != words[0] || !is_whole {
            return None;
        }
        Some(ReaderRecord {
            name: text_of(&words[1..PROCESS]),
            process: name_from_words(&words[PROCESS..]),
            generations: self.held_by(first),
        })
    }

    /// Takes the slot of `name`, or a free one. What a reader of this name held is held no longer.
    ///
    /// # Errors
    /// [`PoolError::ReaderName`], [`PoolError::Readers`], or the kernel's.
    pub(super) fn take(&self, name: &str) -> Result<Slot, PoolError> {
        if name.is_empty() || name.len() > NAME_BYTES || name.contains('\0') {
            return Err(PoolError::ReaderName {
                name: name.to_owned(),
            });
        }
        let life = new_life(name);
        loop {
            self.look();
            let free = || {
                let mut firsts = Self::firsts();
                firsts.find(|first| self.memory().load(first + LIFE) == 0)
            };
            let place = self.find(name).or_else(|| Some((free()?, 0)));
            let (first, before) = place.ok_or_else(|| PoolError::Readers {
                readers: self.all(),
            })?;
            if self.raise(first, before, life)? {
                self.write_record(first, life, name)?;
                return Ok(Slot { first, life });
            }
        }
    }

    /// The slot of the reader of this name, and its life. One that ended before it had said who it was is known by its
    /// life.
    fn find(&self, name: &str) -> Option<(usize, u64)> {
        Self::firsts().find_map(|first| {
            let life = self.memory().load(first + LIFE);
            let is_own = match self.record(first) {
                Some(record) => record.name == name,
                None => life != 0 && life >> 32 == half_of(name),
            };
            is_own.then_some((first, life))
        })
    }

    /// Puts the number of a new reader into a slot in the place of `before`; false when another one was first.
    fn raise(&self, first: usize, before: u64, life: u64) -> Result<bool, PoolError> {
        let word = self.memory().word(first + LIFE);
        let raised = word.compare_exchange(before, life, Ordering::AcqRel, Ordering::Acquire);
        if raised.is_err() {
            return Ok(false);
        }
        self.memory().store(first + OLDEST, &[0, 0]);
        self.show(first, RECORD)?;
        if self.memory().is_shared_by_lines() {
            std::thread::sleep(SETTLE);
            self.look();
        }
        Ok(self.memory().load(first + LIFE) == life)
    }

    fn write_record(&self, first: usize, life: u64, name: &str) -> Result<(), PoolError> {
        let mut words = [0; RECORD_WORDS];
        words[0] = life;
        put_text(&mut words[1..PROCESS], name);
        words[PROCESS..].copy_from_slice(&name_words(&OwnerName::of_this_process()));
        let sum = checksum::of_words(self.0.identity.id, &words);
        self.memory().store(first + RECORD, &words);
        self.memory().store(first + RECORD + RECORD_WORDS, &[sum]);
        self.show(first + RECORD, RECORD_WORDS + 1)
    }

    /// Says which publications the reader may look at from now on; `None` for none. What it looks at before the owner can
    /// know of it, it has to look for again.
    ///
    /// # Errors
    /// [`PoolError::Forgotten`], or the kernel's.
    pub(super) fn hold(
        &self,
        slot: &Slot,
        generations: Option<RangeInclusive<u64>>,
    ) -> Result<(), PoolError> {
        self.check(slot)?;
        let words = generations.map_or([0, 0], |held| [*held.start(), *held.end()]);
        self.memory().store(slot.first + OLDEST, &words);
        self.show(slot.first, RECORD)?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Whether the slot still is this reader's.
    ///
    /// # Errors
    /// [`PoolError::Forgotten`].
    pub(super) fn check(&self, slot: &Slot) -> Result<(), PoolError> {
        let line = (slot.first * 8) as u64;
        self.memory().drop_cached(line..line + 64);
        match self.memory().load(slot.first + LIFE) == slot.life {
            true => Ok(()),
            false => Err(PoolError::Forgotten),
        }
    }

    /// Gives a slot back, if it still is this reader's.
    pub(super) fn give_back(&self, slot: &Slot) -> Result<(), PoolError> {
        self.hold(slot, None)?;
        self.free(slot.first, slot.life)
    }

    /// Forgets the reader of this name, which is gone for good; whether there was one.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn forget(&self, name: &str) -> Result<bool, PoolError> {
        self.look();
        let Some((first, life)) = self.find(name) else {
            return Ok(false);
        };
        self.free(first, life)?;
        Ok(true)
    }

    fn free(&self, first: usize, life: u64) -> Result<(), PoolError> {
        let word = self.memory().word(first + LIFE);
        // Another reader of the same name may have it by now.
        let freed = word.compare_exchange(life, 0, Ordering::AcqRel, Ordering::Acquire);
        match freed {
            Ok(_) => self.show(first, RECORD),
            Err(_) => Ok(()),
        }
    }
}

/// The upper half of the lives of readers of this name.
fn half_of(name: &str) -> u64 {
    checksum::of_bytes(name.as_bytes()) >> 32
}

/// A number that no other reader has, and never zero.
fn new_life(name: &str) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let time = since.map_or(0, |since| since.as_nanos() as u64);
    let place = std::ptr::from_ref(&Instant::now()).addr() as u64;
    let words = [time, place, u64::from(std::process::id())];
    let own = checksum::of_words(super::attach::new_id(), &words) >> 32;
    half_of(name) << 32 | own.max(1)
}
