//! What was fetched of other hosts, kept near within a budget.
//!
//! All queries of an engine share it. What one of them fetches is fetched by no other meanwhile: it waits. What was not
//! used for longest makes room. Kept bytes are regions of the near tier; those that a query still has when they are
//! dropped here stay counted until it is done with them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::buffer::Buffer;
use nearfar_kernels::copy::{CopyCancel, CopyError};
use nearfar_memory::{MemorySystem, Placement, Region, RegionOptions, TierId};
use parking_lot::{Condvar, Mutex};

/// How often who waits looks whether it is still to.
const TURN: Duration = Duration::from_millis(20);

/// What is kept: a part of a column of all columns with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) columns: u64,
    pub(super) column: usize,
    pub(super) part: usize,
}

enum Entry {
    /// Somebody fetches it.
    Coming(Arc<Flight>),
    Here {
        bytes: Buffer,
        taken_bytes: u64,
        /// When it was last used: its place in [`Held::by_use`].
        used: u64,
    },
}

#[derive(Default)]
struct Held {
    entries: HashMap<Key, Entry>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    /// Bytes that are kept, and those that room was made for.
    bytes: u64,
}

impl Held {
    fn next_use(&mut self, key: Key) -> u64 {
        self.uses += 1;
        self.by_use.insert(self.uses, key);
        self.uses
    }

    /// Drops what was not used for longest; whether there was anything.
    fn drop_oldest(&mut self) -> bool {
        let Some((_, key)) = self.by_use.pop_first() else {
            return false;
        };
        self.drop_entry(key);
        true
    }

    fn drop_entry(&mut self, key: Key) {
        if let Some(Entry::Here {
            taken_bytes, used, ..
        }) = self.entries.remove(&key)
        {
            self.by_use.remove(&used);
            self.bytes -= taken_bytes;
        }
    }
}

/// Near memory for what is fetched of other hosts.
pub struct NearCache {
    system: Arc<MemorySystem>,
    budget_bytes: u64,
    held: Mutex<Held>,
}

impl fmt::Debug for NearCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NearCache")
            .field("budget_bytes", &self.budget_bytes)
            .field("held_bytes", &self.held_bytes())
            .finish_non_exhaustive()
    }
}

/// What the cache has of a key.
pub(super) enum Looked<'a> {
    /// Its bytes.
    Here(Buffer),
    /// Nothing: who asked is to fetch it.
    Mine(Claim<'a>),
    /// Somebody fetches it.
    Coming(Arc<Flight>),
}

impl NearCache {
    /// A cache on the near tier of `system` that keeps `budget_bytes` at most; with 0 it keeps nothing.
    pub fn new(system: &Arc<MemorySystem>, budget_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            system: Arc::clone(system),
            budget_bytes,
            held: Mutex::default(),
        })
    }

    /// Bytes that it may keep.
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Bytes that it keeps, in whole pages, with those that are being fetched into it.
    pub fn held_bytes(&self) -> u64 {
        self.held.lock().bytes
    }

    pub(super) fn system(&self) -> &Arc<MemorySystem> {
        &self.system
    }

    pub(super) fn look(&self, key: Key) -> Looked<'_> {
        let mut held = self.held.lock();
        let used = match held.entries.get(&key) {
            Some(Entry::Coming(flight)) => return Looked::Coming(Arc::clone(flight)),
            Some(Entry::Here { used, .. }) => *used,
            None => {
                let flight = Arc::new(Flight::default());
                let coming = Entry::Coming(Arc::clone(&flight));
                held.entries.insert(key, coming);
                return Looked::Mine(Claim {
                    cache: self,
                    key,
                    flight,
                    taken_bytes: 0,
                });
            }
        };
        held.by_use.remove(&used);
        let now = held.next_use(key);
        match held.entries.get_mut(&key) {
            Some(Entry::Here { bytes, used, .. }) => {
                *used = now;
                Looked::Here(bytes.clone())
            }
            _ => unreachable!("it was here, and the lock is held"),
        }
    }

    /// Drops what is kept of these columns, which are no more.
    pub(super) fn forget(&self, columns: u64) {
        let mut held = self.held.lock();
        let gone = held.entries.keys().filter(|key| key.columns == columns);
        let gone: Vec<Key> = gone.copied().collect();
        for key in gone {
            held.drop_entry(key);
        }
    }

    /// Takes `bytes` of the budget, for which others are dropped.
    fn take(&self, bytes: u64) -> bool {
        let mut held = self.held.lock();
        while held.bytes + bytes > self.budget_bytes {
            if bytes > self.budget_bytes || !held.drop_oldest() {
                return false;
            }
        }
        held.bytes += bytes;
        true
    }

    fn give_back(&self, bytes: u64) {
        self.held.lock().bytes -= bytes;
    }

    /// A region for as many bytes as were taken; others are dropped where the tier has no room.
    fn region(&self, bytes: usize) -> Option<Region> {
        let near = Placement::Bind(TierId::NEAR);
        loop {
            match Region::allocate(&self.system, bytes, &near, RegionOptions::default()) {
                Ok(region) => return Some(region),
                Err(_) if self.held.lock().drop_oldest() => {}
                Err(_) => return None,
            }
        }
    }
}

/// The right to fetch what nobody else fetches meanwhile. Whoever waits for it is told when it is dropped, and tries
/// itself.
pub(super) struct Claim<'a> {
    cache: &'a NearCache,
    key: Key,
    flight: Arc<Flight>,
    /// Of the cache's budget.
    taken_bytes: u64,
}

/// Near memory that bytes are fetched into.
pub(super) enum Room {
    /// That can be kept.
    Kept(Box<Region>),
    /// That is the query's own, as the cache has no room.
    Own(Vec<u8>),
}

impl Room {
    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Kept(region) => region.as_mut_slice(),
            Self::Own(bytes) => bytes,
        }
    }
}

impl Claim<'_> {
    /// Room for so many bytes, of the cache's if it has some.
    pub(super) fn room(&mut self, bytes: usize) -> Room {
        let pages = bytes.max(1).next_multiple_of(4096) as u64;
        if !self.cache.take(pages) {
            return Room::Own(vec![0; bytes]);
        }
        match self.cache.region(bytes) {
            Some(region) => {
                self.taken_bytes = pages;
                Room::Kept(Box::new(region))
            }
            None => {
                self.cache.give_back(pages);
                Room::Own(vec![0; bytes])
            }
        }
    }

    /// Hands out what was fetched, and keeps it if it can be.
    pub(super) fn fetched(mut self, room: Room) -> Buffer {
        let bytes = match room {
            Room::Own(bytes) => Buffer::from_vec(bytes),
            Room::Kept(region) => {
                let region = Arc::new(*region);
                let bytes = region.buffer(0..region.len());
                let taken_bytes = std::mem::take(&mut self.taken_bytes);
                let mut held = self.cache.held.lock();
                let here = Entry::Here {
                    bytes: bytes.clone(),
                    taken_bytes,
                    used: held.next_use(self.key),
                };
                held.entries.insert(self.key, here);
                bytes
            }
        };
        self.flight.land(Some(bytes.clone()));
        bytes
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut held = self.cache.held.lock();
        held.bytes -= self.taken_bytes;
        if let Some(Entry::Coming(flight)) = held.entries.get(&self.key)
            && Arc::ptr_eq(flight, &self.flight)
        {
            held.entries.remove(&self.key);
        }
        drop(held);
        self.flight.land(None);
    }
}

/// Bytes that somebody fetches.
#[derive(Default)]
pub(super) struct Flight {
    /// What came of it; nothing where it failed.
    landed: Mutex<Option<Option<Buffer>>>,
    changed: Condvar,
}

impl Flight {
    fn land(&self, bytes: Option<Buffer>) {
        self.landed.lock().get_or_insert(bytes);
        self.changed.notify_all();
    }

    /// Waits for the bytes; none where who fetched them has given up.
    pub(super) fn wait(&self, cancel: &CopyCancel) -> Result<Option<Buffer>, CopyError> {
        let mut landed = self.landed.lock();
        loop {
            if let Some(bytes) = &*landed {
                return Ok(bytes.clone());
            }
            if cancel.is_cancelled() {
                return Err(CopyError::Cancelled);
            }
            self.changed.wait_for(&mut landed, TURN);
        }
    }
}

#[cfg(test)]
mod tests {
    use nearfar_memory::{Budgets, TierKind, TierSpec};

    use super::*;

    const PAGE: usize = 4096;

    fn system(near_bytes: u64) -> Arc<MemorySystem> {
        let near = TierSpec::new("near", TierKind::LocalDram, [0], near_bytes);
        MemorySystem::from_specs(vec![near], &Budgets::new()).unwrap()
    }

    fn key(part: usize) -> Key {
        Key {
            columns: 1,
            column: 0,
            part,
        }
    }

    fn used_bytes(system: &MemorySystem) -> u64 {
        system.usage(TierId::NEAR).region_bytes
    }

    /// Fetches bytes that are all `part`; whether they were there.
    fn get(cache: &NearCache, part: usize, bytes: usize) -> (Buffer, bool) {
        match cache.look(key(part)) {
            Looked::Here(bytes) => (bytes, true),
            Looked::Coming(_) => panic!("nobody else is there"),
            Looked::Mine(mut claim) => {
                let mut room = claim.room(bytes);
                room.as_mut_slice().fill(part as u8);
                (claim.fetched(room), false)
            }
        }
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room_and_all_is_counted() {
        let system = system(1 << 20);
        let cache = NearCache::new(&system, 3 * PAGE as u64);
        for part in 0..3 {
            assert!(!get(&cache, part, PAGE).1);
        }
        let (kept, was_there) = get(&cache, 0, PAGE);
        assert!(was_there && kept.iter().all(|byte| *byte == 0));
        assert_eq!((cache.held_bytes(), used_bytes(&system)), (12_288, 12_288));
        // Part 1 goes, not 0.
        let (fourth, _) = get(&cache, 3, 100);
        assert_eq!((fourth.len(), cache.held_bytes()), (100, 12_288));
        assert_eq!([0, 2, 3].map(|part| get(&cache, part, PAGE).1), [true; 3]);
        assert!(!get(&cache, 1, PAGE).1);
        // Larger than the budget: fetched, not kept, and nothing goes for it.
        let large = || get(&cache, 9, 4 * PAGE);
        assert!(!large().1 && !large().1);
        assert_eq!(cache.held_bytes(), 12_288);
        cache.forget(1);
        assert_eq!(cache.held_bytes(), 0);
        assert!(used_bytes(&system) > 0, "a query has some of it");
        drop((kept, fourth));
        assert_eq!(used_bytes(&system), 0);
    }

    #[test]
    fn a_full_tier_takes_from_the_cache_and_then_from_queries() {
        let system = system(4 * PAGE as u64);
        let cache = NearCache::new(&system, 1 << 20);
        drop(get(&cache, 0, 2 * PAGE));
        drop(get(&cache, 1, 2 * PAGE));
        drop(get(&cache, 2, 2 * PAGE));
        assert_eq!(cache.held_bytes(), 4 * PAGE as u64);
        assert!(get(&cache, 1, PAGE).1 && !get(&cache, 0, 2 * PAGE).1);
        // Larger than the tier.
        let (bytes, _) = get(&cache, 3, 5 * PAGE);
        assert_eq!(bytes.len(), 5 * PAGE);
        assert_eq!((cache.held_bytes(), used_bytes(&system)), (0, 0));
    }

    #[test]
    fn who_comes_second_waits_and_gets_it_or_the_right_to_try() {
        let system = system(1 << 20);
        // Also where nothing is kept.
        for budget_bytes in [0, 1 << 20] {
            let cache = NearCache::new(&system, budget_bytes);
            let Looked::Mine(mut first) = cache.look(key(0)) else {
                panic!("nobody has it");
            };
            let Looked::Coming(second) = cache.look(key(0)) else {
                panic!("it comes");
            };
            let cancelled = CopyCancel::default();
            cancelled.cancel();
            assert_eq!(second.wait(&cancelled), Err(CopyError::Cancelled));
            let never = CopyCancel::default();
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| second.wait(&never));
                let mut room = first.room(3);
                room.as_mut_slice().fill(7);
                first.fetched(room);
                let bytes = waiting.join().unwrap().unwrap();
                assert_eq!(bytes.unwrap().as_slice(), [7; 3]);
            });
            assert_eq!(
                matches!(cache.look(key(0)), Looked::Here(_)),
                budget_bytes > 0
            );
            // One that fails takes nothing with it.
            let Looked::Mine(mut failing) = cache.look(key(1)) else {
                panic!("nobody has it");
            };
            let Looked::Coming(waiting) = cache.look(key(1)) else {
                panic!("it comes");
            };
            let held_bytes = cache.held_bytes();
            let room = failing.room(3);
            drop(failing);
            drop(room);
            assert_eq!(waiting.wait(&never), Ok(None));
            assert_eq!(cache.held_bytes(), held_bytes);
            assert!(matches!(cache.look(key(1)), Looked::Mine(_)));
        }
    }
}
