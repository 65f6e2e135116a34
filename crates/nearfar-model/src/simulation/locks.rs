//! Locks that cores wait for, in virtual time.

use std::collections::BTreeMap;

use super::machine::THREADS_MAX;
use super::network::mix;
use super::time::Ps;

/// All locks.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    pub sections: Sections,
    pub words: LockWords,
}

/// The lock of a critical section.
#[derive(Debug, Clone, Copy, Default)]
struct SectionLock {
    free_at: Ps,
    /// The core that was in the section last.
    last: Option<usize>,
}

/// Critical sections by the lines of their locks. Cores get one in the order in which they ask: cores of one
/// round in their order, as they run one after the other in it.
#[derive(Debug, Default)]
pub(crate) struct Sections(BTreeMap<u64, SectionLock>);

/// What a core asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    /// The line of the lock.
    pub line: u64,
    pub core: usize,
    /// Core time.
    pub own: Ps,
    /// What is added where the lines of the section come from another core.
    pub transfers: Ps,
}

impl Sections {
    /// Takes a lock from `now` on, or as soon as it is free; when it is released.
    pub(crate) fn enter(&mut self, now: Ps, section: Section) -> Ps {
        let lock = self.0.entry(section.line).or_default();
        let comes_from_another = lock.last.is_some_and(|last| last != section.core);
        let transfers = if comes_from_another {
            section.transfers
        } else {
            0
        };
        lock.free_at = lock.free_at.max(now) + section.own + transfers;
        lock.last = Some(section.core);
        lock.free_at
    }
}

/// A lock word that a core holds or has held.
#[derive(Debug, Clone, Copy)]
struct LockWord {
    name: u64,
    /// The core that holds it or held it last.
    core: usize,
    /// How often that core has taken it and not given it back.
    holds: u32,
    /// When it was given back last.
    free_at: Ps,
    /// When it was given back last with something changed.
    changed_at: Ps,
}

impl LockWord {
    const UNUSED: Self = Self {
        name: u64::MAX,
        core: 0,
        holds: 0,
        free_at: 0,
        changed_at: 0,
    };
}

/// What a core finds that wants a lock word or what it protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It goes on then, or now if that has passed.
    At(Ps),
    /// Another core holds it, and it is not known until when.
    Held,
}

/// Places for the words whose names share a hash.
const WAYS: usize = 4;
/// Times [`WAYS`], several times as many words as all cores together hold.
const SETS: usize = 1024;

/// The lock words that were taken lately. One of which nothing is known is free, and has been for long.
///
/// Cores take words: what runs on one core takes them together.
///
/// A core that holds one word and wants another of a core that waits itself does not wait: real code would let go
/// of both and begin again. So no cores wait for each other in a circle, even where operations that ran one
/// after the other take words in orders in which they never would have waited together.
#[derive(Debug)]
pub(crate) struct LockWords {
    sets: Box<[[LockWord; WAYS]]>,
    is_used: bool,
    /// Words that each core holds.
    holding: [u32; THREADS_MAX],
    /// Cores that wait.
    waiting: u64,
}

impl Default for LockWords {
    fn default() -> Self {
        Self {
            sets: vec![[LockWord::UNUSED; WAYS]; SETS].into(),
            is_used: false,
            holding: [0; THREADS_MAX],
            waiting: 0,
        }
    }
}

impl LockWords {
    /// Whether a word was taken lately.
    #[inline]
    pub(crate) fn knows(&self, name: u64) -> bool {
        self.find(name).is_some()
    }

    /// Whether any was ever taken.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    #[inline]
    fn set(name: u64) -> usize {
        mix(name) as usize % SETS
    }

    #[inline]
    fn find(&self, name: u64) -> Option<&LockWord> {
        self.sets[Self::set(name)]
            .iter()
            .find(|word| word.name == name)
    }

    /// The place of a word: its own, or that of one that was given back longest ago; none where all are held.
    fn place(&mut self, name: u64) -> Option<&mut LockWord> {
        let set = &mut self.sets[Self::set(name)];
        if let Some(own) = set.iter().position(|word| word.name == name) {
            return Some(&mut set[own]);
        }
        let free = set.iter_mut().filter(|word| word.holds == 0);
        let oldest = free.min_by_key(|word| word.free_at)?;
        *oldest = LockWord {
            name,
            ..LockWord::UNUSED
        };
        Some(oldest)
    }

    /// What a core does whose word another one holds.
    fn wait(&mut self, core: usize, holder: usize, now: Ps) -> Found {
        let is_waiting = self.waiting & 1 << holder != 0;
        if is_waiting && self.holding[core] > 0 {
            self.waiting &= !(1 << core);
            return Found::At(now);
        }
        self.waiting |= 1 << core;
        Found::Held
    }

    /// Takes a word at `now`, or when it is free; where another core had it, its line comes from there, which
    /// takes `transfer`. Tells too when others changed last what it protects.
    pub(crate) fn take(&mut self, name: u64, core: usize, now: Ps, transfer: Ps) -> (Found, Ps) {
        self.is_used = true;
        if let Some(holder) = self.holder(name, core) {
            return (self.wait(core, holder, now), 0);
        }
        self.waiting &= !(1 << core);
        let Some(word) = self.place(name) else {
            return (Found::At(now), 0);
        };
        let comes_from_another = word.core != core && word.free_at > 0;
        let (transfer, changed_at) = if comes_from_another {
            (transfer, word.changed_at)
        } else {
            (0, 0)
        };
        word.core = core;
        word.holds += 1;
        let at = now.max(word.free_at + transfer);
        self.holding[core] += 1;
        (Found::At(at), changed_at)
    }

    /// The other core that holds a word.
    #[inline]
    fn holder(&self, name: u64, core: usize) -> Option<usize> {
        let word = self.find(name)?;
        (word.holds > 0 && word.core != core).then_some(word.core)
    }

    /// When a core that looks at a word at `now` finds it free, and when others changed last what it protects;
    /// `None` of a word of which nothing is known.
    #[inline]
    pub(crate) fn look(
        &mut self,
        name: u64,
        core: usize,
        now: Ps,
        transfer: Ps,
    ) -> Option<(Found, Ps)> {
        self.waiting &= !(1 << core);
        let word = *self.find(name)?;
        if word.core == core {
            return Some((Found::At(now), 0));
        }
        if word.holds > 0 {
            return Some((self.wait(core, word.core, now), 0));
        }
        let at = now.max(word.free_at + transfer);
        Some((Found::At(at), word.changed_at))
    }

    /// Gives a word back at `at`.
    pub(crate) fn release(&mut self, name: u64, core: usize, at: Ps, changed: bool) {
        let word = self.sets[Self::set(name)]
            .iter_mut()
            .find(|word| word.name == name && word.core == core && word.holds > 0);
        let Some(word) = word else {
            return;
        };
        word.holds -= 1;
        word.free_at = word.free_at.max(at);
        if changed {
            word.changed_at = word.changed_at.max(at);
        }
        self.holding[core] -= 1;
    }

    /// Gives back all words of a core that has ended.
    #[cold]
    pub(crate) fn end(&mut self, core: usize, at: Ps) {
        if !self.is_used {
            return;
        }
        self.waiting &= !(1 << core);
        if self.holding[core] == 0 {
            return;
        }
        for word in self.sets.iter_mut().flatten() {
            if word.core == core && word.holds > 0 {
                word.holds = 0;
                word.free_at = word.free_at.max(at);
            }
        }
        self.holding[core] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_one_lock_follow_each_other() {
        let mut locks = Sections::default();
        let section = |line, core| Section {
            line,
            core,
            own: 10,
            transfers: 100,
        };
        assert_eq!(locks.enter(0, section(1, 0)), 10);
        assert_eq!(locks.enter(50, section(1, 0)), 60, "its lines are there");
        assert_eq!(locks.enter(55, section(1, 1)), 170);
        assert_eq!(locks.enter(100, section(1, 0)), 280);
        assert_eq!(locks.enter(100, section(2, 0)), 110, "another lock");
    }

    const TRANSFER: Ps = 100;

    #[test]
    fn a_word_is_one_cores_at_a_time() {
        let mut words = LockWords::default();
        let take = |words: &mut LockWords, core, now| words.take(7, core, now, TRANSFER);
        let look = |words: &mut LockWords, core, now| words.look(7, core, now, TRANSFER);
        assert_eq!(look(&mut words, 1, 0), None, "nobody has had it");
        assert_eq!(take(&mut words, 0, 10), (Found::At(10), 0));
        assert_eq!(take(&mut words, 0, 20), (Found::At(20), 0), "its own");
        assert_eq!(take(&mut words, 1, 20), (Found::Held, 0));
        assert_eq!(look(&mut words, 2, 20), Some((Found::Held, 0)));
        words.release(7, 1, 25, true);
        words.release(7, 0, 30, false);
        assert_eq!(take(&mut words, 1, 35), (Found::Held, 0), "taken twice");
        words.release(7, 0, 500, true);
        assert_eq!(
            look(&mut words, 2, 300),
            Some((Found::At(600), 500)),
            "it will be free"
        );
        assert_eq!(take(&mut words, 1, 400), (Found::At(600), 500));
        words.release(7, 1, 700, false);
        assert_eq!(look(&mut words, 2, 900), Some((Found::At(900), 500)));
        assert_eq!(look(&mut words, 1, 900), Some((Found::At(900), 0)));
    }

    #[test]
    fn no_cores_wait_for_each_other_in_a_circle() {
        let mut words = LockWords::default();
        let take = |words: &mut LockWords, line, core| words.take(line, core, 10, TRANSFER).0;
        for core in 0..3 {
            assert_eq!(take(&mut words, core as u64, core), Found::At(10));
        }
        assert_eq!(take(&mut words, 1, 0), Found::Held);
        assert_eq!(take(&mut words, 2, 1), Found::Held);
        assert_eq!(take(&mut words, 0, 2), Found::At(10), "a circle");
        words.release(0, 2, 20, true);
        assert_eq!(take(&mut words, 0, 3), Found::Held, "still the first's");
        words.end(0, 40);
        assert_eq!(take(&mut words, 0, 3), Found::At(140));
    }

    #[test]
    fn what_is_held_is_never_forgotten() {
        let mut words = LockWords::default();
        words.take(5, 0, 0, TRANSFER);
        for line in 10..100_000 {
            words.take(line, 1, 0, TRANSFER);
            words.release(line, 1, 0, true);
        }
        assert_eq!(words.take(5, 1, 0, TRANSFER).0, Found::Held);
    }
}
