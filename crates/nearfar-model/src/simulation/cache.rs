//! The caches of one core, the last level, and what leaves them.

use super::copies::{Copies, Others};
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
    /// In the caches of another core, which has modified it, or in those of others too that lose it to a store.
    Other,
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

    /// Puts a line into L1 that L2 has.
    #[inline]
    fn keep_near(&mut self, line: Hashed, store: bool) {
        if let Some((victim, true)) = self.l1.insert(line, store) {
            self.l2.touch(Hashed::new(victim), true);
        }
    }

    /// Marks a line as not modified, as somebody else reads it; whether it was.
    fn share(&mut self, line: Hashed) -> bool {
        let near = self.l1.clean(line);
        self.l2.clean(line) || near
    }

    /// Loses a line to the store of another core.
    fn lose(&mut self, line: Hashed) {
        self.l1.remove(line);
        self.l2.remove(line);
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
/// from then on, for all of them, until one of them writes to it and has it for itself.
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

    /// Takes a line that leaves an L2.
    #[inline]
    fn take_back(&mut self, line: Hashed, dirty: bool, evict: &mut Vec<u64>) {
        self.copies.drop_one(line);
        self.keep(line, dirty, evict);
    }

    #[inline]
    fn keep(&mut self, line: Hashed, dirty: bool, evict: &mut Vec<u64>) {
        if self.lines.touch(line, dirty).is_none()
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

impl Levels {
    /// Finds a line for the core with the private caches `own`, brings it to L1, and hands modified lines that
    /// leave the last level to `evict`. A store takes the line from all other cores.
    ///
    /// L2 includes L1.
    #[inline]
    pub(crate) fn access(
        &mut self,
        own: usize,
        line: u64,
        store: bool,
        evict: &mut Vec<u64>,
    ) -> Level {
        let line = Hashed::new(line);
        let caches = &mut self.private[own];
        let found = caches.l1.touch(line, store);
        // Nobody else has what is modified here.
        if found == Some(true) || found.is_some() && !store {
            return Level::L1;
        }
        let mut level = Level::L1;
        if found.is_none() {
            level = Level::L2;
            if caches.l2.touch(line, false).is_none() {
                level = self.bring(own, line, evict);
            }
            self.private[own].keep_near(line, store);
        }
        if store {
            let is_shared = self.last.copies.own(line);
            self.last.lines.remove(line);
            if is_shared {
                self.take_from_others(own, line);
                level = Level::Other;
            }
        }
        level
    }

    /// Brings a line to an L2 that does not have it.
    fn bring(&mut self, own: usize, line: Hashed, evict: &mut Vec<u64>) -> Level {
        let mut dirty = false;
        let level = match self.last.copies.add(line) {
            Others::Nothing => match self.last.lines.remove(line) {
                Some(was_dirty) => {
                    dirty = was_dirty;
                    Level::L3
                }
                None => Level::Memory,
            },
            Others::Copies => {
                self.last.keep(line, false, evict);
                Level::L3
            }
            Others::Own => {
                let mut others = self.private.iter_mut();
                let was_dirty = others.any(|caches| caches.share(line));
                self.last.keep(line, was_dirty, evict);
                Level::Other
            }
        };
        let caches = &mut self.private[own];
        if let Some((victim, dirty)) = caches.l2.insert(line, dirty) {
            let victim = Hashed::new(victim);
            let dirty = caches.l1.remove(victim) == Some(true) || dirty;
            self.last.take_back(victim, dirty, evict);
        }
        level
    }

    /// Leaves a line to one core alone, which writes to it.
    #[cold]
    fn take_from_others(&mut self, own: usize, line: Hashed) {
        for (index, caches) in self.private.iter_mut().enumerate() {
            if index != own {
                caches.lose(line);
            }
        }
    }
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
        let (Self::Simulated(own), Some(levels)) = (self, levels) else {
            return;
        };
        let stored = slot.flags & flags::STORED != 0;
        let level = match slot.action {
            Action::Load | Action::Store => levels.access(*own, slot.line, stored, evict),
            Action::Write if !stored => {
                let Levels { private, last } = levels;
                match private[*own].clean(last, slot.line) {
                    false => Level::L1,
                    true => Level::Memory,
                }
            }
            _ => Level::Memory,
        };
        slot.find(level);
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
        let (brings, stored) = match operation.access {
            Access::Load | Access::Prefetch | Access::WrongPath => (true, false),
            Access::Store | Access::Lock | Access::Unlock | Access::UnlockUnchanged => (true, true),
            Access::NonTemporalStore
            | Access::Flush
            | Access::Compute
            | Access::CriticalSection
            | Access::Validate
            | Access::Refill => (false, false),
        };
        if !brings || operation.bytes == 0 {
            return 0;
        }
        let first = operation.address >> LINE_BYTES_LOG2;
        let last = (operation.address + u64::from(operation.bytes) - 1) >> LINE_BYTES_LOG2;
        let mut access = |line| levels.access(*own, line, stored, evict);
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

    /// Levels whose private caches and last level have so many bytes.
    fn levels(cores: usize, (l1, l2, l3): (u64, u64, u64)) -> Levels {
        let core = || PrivateCaches::new(Cache::new(l1, 4), Cache::new(l2, 8));
        Levels {
            private: (0..cores).map(|_| core()).collect(),
            last: LastLevel::new(l3, 16),
        }
    }

    #[test]
    fn a_working_set_within_a_level_is_found_there() {
        let mut levels = levels(1, (4 << 10, 64 << 10, 1 << 20));
        let mut evicted = Vec::new();
        let mut count = |lines: u64, level: Level| {
            let found = (0..lines).map(|line| levels.access(0, line, true, &mut evicted));
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
        let mut levels = levels(1, (1 << 10, 8 << 10, 64 << 10));
        let mut evicted = Vec::new();
        for line in 0..10_000 {
            levels.access(0, line, line % 2 == 0, &mut evicted);
        }
        let mut unique = evicted.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), evicted.len());
        assert!(evicted.iter().all(|line| line % 2 == 0));
        let capacity = (64 + 8) * 1024 / 64;
        assert!(evicted.len() >= 5_000 - capacity && evicted.len() < 5_000);
    }

    const SMALL: (u64, u64, u64) = (1 << 10, 8 << 10, 64 << 10);

    #[test]
    fn a_line_that_another_core_has_does_not_come_from_memory() {
        let mut levels = levels(2, SMALL);
        let mut evicted = Vec::new();
        let mut access = |core, line, store| levels.access(core, line, store, &mut evicted);
        assert_eq!(access(0, 7, true), Level::Memory);
        assert_eq!(access(1, 7, false), Level::Other, "it was modified");
        // Both lose it; L3 has one copy, which is modified.
        for line in 1_000..1_400 {
            access(0, line, false);
            access(1, line, false);
        }
        assert_eq!(access(0, 7, false), Level::L3);
        assert_eq!(
            levels.last.lines.remove(Hashed::new(7)),
            None,
            "handed over to the only one"
        );
        assert!(evicted.is_empty());
    }

    #[test]
    fn a_store_takes_the_line_from_all_others() {
        let mut levels = levels(3, SMALL);
        let mut evicted = Vec::new();
        let mut access = |core, store| levels.access(core, 7, store, &mut evicted);
        assert_eq!(access(0, false), Level::Memory);
        assert_eq!(access(0, true), Level::L1, "nobody else had it");
        assert_eq!(access(1, false), Level::Other);
        assert_eq!(access(2, false), Level::L3, "the two before share it");
        assert_eq!(access(0, false), Level::L1);
        assert_eq!(access(0, true), Level::Other, "from both others");
        assert_eq!(access(0, true), Level::L1);
        assert_eq!(access(1, true), Level::Other);
        assert_eq!(access(0, true), Level::Other, "in turn");
        assert_eq!(access(2, false), Level::Other);
        assert_eq!(access(0, false), Level::L1, "it has kept a copy");
        for line in 1_000..2_000 {
            for core in 0..3 {
                levels.access(core, line, false, &mut evicted);
            }
        }
        assert_eq!(evicted, [7], "modified once, and written once");
    }
}
