//! The caches of one core, the last level, and what leaves them.

use super::copies::Copies;
use super::program::{Access, Operation};
use super::requests::Target;
use super::sets::{Cache, Hashed};
use super::window::{Action, LINE_BYTES_LOG2, Slot, flags};

/// Where an access finds its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    L1,
    L2,
    L3,
    Memory,
}

/// The private caches of one core.
#[derive(Debug)]
pub(crate) struct PrivateCaches {
    l1: Cache,
    l2: Cache,
}

impl PrivateCaches {
    pub(crate) fn new(l1: Cache, l2: Cache) -> Self {
        Self { l1, l2 }
    }

    /// Finds a line, brings it to L1, and hands modified lines that leave the last level to
    /// `evict`.
    ///
    /// L2 includes L1.
    #[inline]
    pub(crate) fn access(
        &mut self,
        l3: &mut LastLevel,
        line: u64,
        store: bool,
        evict: &mut Vec<u64>,
    ) -> Level {
        let line = Hashed::new(line);
        if self.l1.touch(line, store) {
            return Level::L1;
        }
        let mut level = Level::L2;
        if !self.l2.touch(line, false) {
            let found = l3.lend(line, evict);
            level = if found.is_some() {
                Level::L3
            } else {
                Level::Memory
            };
            if let Some((victim, dirty)) = self.l2.insert(line, found == Some(true)) {
                let victim = Hashed::new(victim);
                let dirty = self.l1.remove(victim) == Some(true) || dirty;
                l3.take_back(victim, dirty, evict);
            }
        }
        if let Some((victim, true)) = self.l1.insert(line, store) {
            self.l2.touch(Hashed::new(victim), true);
        }
        level
    }

    /// Marks a line as written back, wherever it is; whether it was modified.
    pub(crate) fn clean(&mut self, l3: &mut LastLevel, line: u64) -> bool {
        let line = Hashed::new(line);
        let l1 = self.l1.remove(line);
        if let Some(l1) = l1 {
            self.l1.insert(line, false);
            if l1 {
                self.l2.remove(line);
                self.l2.insert(line, false);
                return true;
            }
        }
        match self.l2.remove(line) {
            Some(dirty) => {
                self.l2.insert(line, false);
                dirty
            }
            None => l3.clean(line),
        }
    }
}

/// The last level, and the filter that knows which lines are in cores' L2.
///
/// As the non-inclusive L3 of these processors does, it takes what leaves an L2 and hands over for
/// good what one core alone asks for. A line that another core has comes from there, and stays in L3
/// from then on, for all of them. That way is charged as a hit of L3, and nothing is charged where
/// two cores modify a line in turn.
#[derive(Debug)]
pub(crate) struct LastLevel {
    lines: Cache,
    copies: Copies,
}

impl LastLevel {
    pub(crate) fn new(bytes: u64, ways: u32) -> Self {
        Self {
            lines: Cache::new(bytes, ways),
            copies: Copies::new(),
        }
    }

    /// Gives a line to an L2: whether it was modified, or `None` where it has to come from memory.
    #[inline]
    fn lend(&mut self, line: Hashed, evict: &mut Vec<u64>) -> Option<bool> {
        if self.copies.add(line) {
            return self.lines.remove(line);
        }
        self.keep(line, false, evict);
        Some(false)
    }

    /// Takes a line that leaves an L2.
    #[inline]
    fn take_back(&mut self, line: Hashed, dirty: bool, evict: &mut Vec<u64>) {
        self.copies.drop_one(line);
        self.keep(line, dirty, evict);
    }

    #[inline]
    fn keep(&mut self, line: Hashed, dirty: bool, evict: &mut Vec<u64>) {
        if !self.lines.touch(line, dirty)
            && let Some((gone, true)) = self.lines.insert(line, dirty)
        {
            evict.push(gone);
        }
    }

    /// Marks a line as written back; whether it was modified.
    fn clean(&mut self, line: Hashed) -> bool {
        let dirty = self.lines.remove(line);
        if dirty.is_some() {
            self.lines.insert(line, false);
        }
        dirty == Some(true)
    }
}

/// All caches that are simulated line by line.
#[derive(Debug)]
pub(crate) struct Levels {
    /// Those of cores. Threads that share a core have the same.
    pub private: Vec<PrivateCaches>,
    pub last: LastLevel,
}

/// What the caches of one core hold.
#[derive(Debug)]
pub(crate) enum CoreCaches {
    /// Nothing that is used again: programs over regions much larger than all caches. Of the
    /// modified lines some are kept, and each further store pushes one of them out.
    Streaming { modified: Vec<Target> },
    /// Every line, by sets: the place of the core's caches among all.
    Simulated(usize),
}

impl CoreCaches {
    /// Lines that stay modified until others push them out. Fewer than a core's share of the
    /// caches, so that write-backs are steady early; how many does not matter where nothing is
    /// used again.
    const MODIFIED: usize = 512;

    pub(crate) fn streaming() -> Self {
        Self::Streaming {
            modified: Vec::with_capacity(Self::MODIFIED),
        }
    }

    /// Looks a line up in program order and notes where it is.
    #[inline]
    pub(crate) fn look_up(
        &mut self,
        slot: &mut Slot,
        levels: Option<&mut Levels>,
        evict: &mut Vec<u64>,
    ) {
        let (Self::Simulated(own), Some(Levels { private, last })) = (self, levels) else {
            return;
        };
        let (caches, l3) = (&mut private[*own], last);
        let stored = slot.flags & flags::STORED != 0;
        slot.find(match slot.action {
            Action::Load | Action::Store => caches.access(l3, slot.line, stored, evict),
            Action::Write if !stored && !caches.clean(l3, slot.line) => Level::L1,
            Action::Compute
            | Action::Refill
            | Action::CriticalSection
            | Action::HitL1
            | Action::HitL2
            | Action::HitL3
            | Action::Write => Level::Memory,
        });
    }

    /// Takes the lines of an operation through the caches as if no time passed; how many of them no cache had.
    /// What leaves the caches modified goes to `evict`. Critical sections touch the lines of their lock by
    /// the way between cores, as where time passes.
    pub(crate) fn warm(
        &self,
        operation: &Operation,
        levels: &mut Levels,
        evict: &mut Vec<u64>,
    ) -> u64 {
        let Self::Simulated(own) = self else {
            return 0;
        };
        let stored = operation.access == Access::Store;
        let brings = match operation.access {
            Access::Load | Access::Store | Access::Prefetch | Access::WrongPath => true,
            Access::NonTemporalStore
            | Access::Flush
            | Access::Compute
            | Access::CriticalSection
            | Access::Refill => false,
        };
        if !brings || operation.bytes == 0 {
            return 0;
        }
        let first = operation.address >> LINE_BYTES_LOG2;
        let last = (operation.address + u64::from(operation.bytes) - 1) >> LINE_BYTES_LOG2;
        let (caches, l3) = (&mut levels.private[*own], &mut levels.last);
        let mut access = |line| caches.access(l3, line, stored, evict);
        let found = (first..=last).map(&mut access);
        found.filter(|level| *level == Level::Memory).count() as u64
    }

    /// Whether a prefetch of the line would bring nothing.
    #[inline]
    pub(crate) fn contains(&self, line: u64, levels: Option<&Levels>) -> bool {
        match (self, levels) {
            // Of the lines in its own L2 there is a copy too.
            (Self::Simulated(_), Some(Levels { last, .. })) => {
                let line = Hashed::new(line);
                last.copies.contains(line) || last.lines.contains(line)
            }
            _ => false,
        }
    }

    /// Where programs stream: notes a stored line, and returns the one that it pushes out.
    ///
    /// Sets are hashed, so the line that leaves is any of the modified ones, not the oldest:
    /// `random` decides.
    #[inline]
    pub(crate) fn modify(&mut self, target: Target, random: u64) -> Option<Target> {
        let Self::Streaming { modified } = self else {
            return None;
        };
        if modified.len() < Self::MODIFIED {
            modified.push(target);
            return None;
        }
        let place = (random >> 16) as usize % Self::MODIFIED;
        Some(std::mem::replace(&mut modified[place], target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_set_within_a_level_is_found_there() {
        let mut l3 = LastLevel::new(1 << 20, 16);
        let mut core = PrivateCaches::new(Cache::new(4 << 10, 4), Cache::new(64 << 10, 8));
        let mut evicted = Vec::new();
        let mut count = |lines: u64, level: Level| {
            let found = (0..lines).map(|line| core.access(&mut l3, line, true, &mut evicted));
            found.filter(|found| *found == level).count() as u64
        };
        assert_eq!(count(16, Level::Memory), 16);
        assert_eq!(count(16, Level::L1), 16);
        assert_eq!(count(2_048, Level::Memory), 2_048 - 16);
        // Twice L2, an eighth of L3: sets are hashed, so a few lines are luckier than others.
        assert!(count(2_048, Level::L3) > 1_500);
        assert!(evicted.is_empty(), "nothing has left L3 yet");
    }

    #[test]
    fn modified_lines_leave_the_last_level_once() {
        let mut l3 = LastLevel::new(64 << 10, 16);
        let mut core = PrivateCaches::new(Cache::new(1 << 10, 4), Cache::new(8 << 10, 8));
        let mut evicted = Vec::new();
        for line in 0..10_000 {
            core.access(&mut l3, line, line % 2 == 0, &mut evicted);
        }
        let mut unique = evicted.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), evicted.len());
        assert!(evicted.iter().all(|line| line % 2 == 0));
        let capacity = (64 + 8) * 1024 / 64;
        assert!(evicted.len() >= 5_000 - capacity && evicted.len() < 5_000);
    }
    #[test]
    fn a_line_that_another_core_has_does_not_come_from_memory() {
        let mut l3 = LastLevel::new(64 << 10, 16);
        let core = || PrivateCaches::new(Cache::new(1 << 10, 4), Cache::new(8 << 10, 8));
        let (mut one, mut other) = (core(), core());
        let mut evicted = Vec::new();
        assert_eq!(one.access(&mut l3, 7, true, &mut evicted), Level::Memory);
        assert_eq!(other.access(&mut l3, 7, false, &mut evicted), Level::L3);
        // Both lose it; L3 has one copy, which is modified.
        for line in 1_000..1_400 {
            one.access(&mut l3, line, false, &mut evicted);
            other.access(&mut l3, line, false, &mut evicted);
        }
        assert_eq!(one.access(&mut l3, 7, false, &mut evicted), Level::L3);
        assert_eq!(
            l3.lines.remove(Hashed::new(7)),
            None,
            "handed over to the only one"
        );
        assert!(evicted.is_empty());
    }
}
