//! What a core waits for because of other cores' locks, and what it reads again because of their writes.

use super::{Shared, VirtualCore};
use crate::simulation::locks::{Found, LockWords};
use crate::simulation::time::Ps;
use crate::simulation::window::{Action, Slot, flags};

/// A lock word that another core has had too and that this one has looked at.
#[derive(Debug, Clone, Copy)]
struct Seen {
    word: u64,
    at: Ps,
    /// The core's position then.
    position: Ps,
}

impl Seen {
    const NOTHING: Self = Self {
        word: u64::MAX,
        at: 0,
        position: 0,
    };
}

/// The longest wait for a word: who holds it for longer waits itself, for what the model is not told of, such as a
/// lock of the process.
const WAIT_MAX_PS: Ps = 1_000_000_000;

/// What a core knows of lock words.
#[derive(Debug)]
pub(super) struct Locking {
    /// The words that were looked at last, in a ring.
    seen: [Seen; Self::SEEN],
    next: usize,
    /// What the operation under way stands for.
    which: u64,
    /// When that operation began, and at what position.
    begun: Option<(Ps, Ps)>,
    /// Core time of all that was issued.
    position: Ps,
    /// Since when the head waits for a word of which it is not known when it will be free.
    waits_since: Option<Ps>,
    /// The head has the word that it wants to take.
    pub(super) has_word: bool,
    /// When the head looks at the word again.
    pub(super) look_again: Option<Ps>,
    /// Time that the next sample has waited before it was begun.
    pub(super) waited: Ps,
    /// Words that are given back once the stores of this round are done.
    releasing: Vec<Release>,
    /// When all stores whose answers are known are done.
    stores_done: Ps,
    /// A store of this round waits for its answer.
    is_storing: bool,
}

#[derive(Debug, Clone, Copy)]
struct Release {
    word: u64,
    at: Ps,
    changed: bool,
}

impl Locking {
    /// As many as a scan or a batch of lookups can still have to validate.
    const SEEN: usize = 16;

    pub(super) fn new() -> Self {
        Self {
            seen: [Seen::NOTHING; Self::SEEN],
            next: 0,
            which: 0,
            begun: None,
            position: 0,
            waits_since: None,
            has_word: false,
            look_again: None,
            waited: 0,
            releasing: Vec::new(),
            stores_done: 0,
            is_storing: false,
        }
    }

    fn see(&mut self, word: u64, at: Ps) {
        let position = self.position;
        let now = Seen { word, at, position };
        let known = self.seen.iter_mut().find(|seen| seen.word == word);
        if let Some(seen) = known {
            *seen = now;
            return;
        }
        self.seen[self.next % Self::SEEN] = now;
        self.next += 1;
    }

    /// When a word was looked at last, if it is still known.
    fn seen(&self, word: u64) -> Option<Seen> {
        self.seen.iter().find(|seen| seen.word == word).copied()
    }

    /// The name of the lock word of a line: with what the operation stands for above all bits of lines.
    #[inline]
    fn word(&self, line: u64) -> u64 {
        const LINE_BITS: u32 = 42;
        line ^ self.which << LINE_BITS
    }

    /// Notes when a store is done.
    #[inline]
    pub(super) fn store(&mut self, done: Ps) {
        self.stores_done = self.stores_done.max(done);
    }
}

impl VirtualCore {
    /// Whether other cores' locks let the head go on at `now`; if not, it is ready later, or looks again at
    /// the `end` of the round.
    #[inline]
    pub(super) fn passes_locks(&mut self, now: Ps, end: Ps, shared: &mut Shared) -> bool {
        let slot = *self.window.head();
        match slot.action {
            Action::Lock => self.locking.has_word || self.take_word(now, end, shared),
            _ if !shared.locks.words.is_used() => true,
            Action::Validate => {
                let word = self.locking.word(slot.line);
                self.validates(word, now, end, &mut shared.locks.words)
            }
            Action::Load | Action::HitL1 | Action::HitL2 | Action::HitL3 | Action::HitOther
                if slot.flags & (flags::STORED | flags::PREFETCH) == 0 =>
            {
                let word = self.locking.word(slot.line);
                if shared.locks.words.knows(word) {
                    self.locking.see(word, now);
                }
                true
            }
            _ => true,
        }
    }

    /// The way of a line from another core: to the last level, and from there to the core that has it and back.
    #[inline]
    pub(super) fn transfer(&self) -> Ps {
        2 * self.limits.l3_hit
    }

    /// Takes the word that the head wants, if nobody has it. What was read before is read again if it has changed.
    #[cold]
    fn take_word(&mut self, now: Ps, end: Ps, shared: &mut Shared) -> bool {
        let word = self.locking.word(self.window.head().line);
        let transfer = self.transfer();
        let words = &mut shared.locks.words;
        let (found, changed_at) = words.take(word, self.number, now, transfer);
        let mut found = self.bounded(found, now);
        if let Found::At(at) = &mut found {
            self.locking.has_word = true;
            *at += self.reads_again(self.looked(word), changed_at);
        }
        self.goes_on(found, now, end)
    }

    /// When a word was looked at, and at what position of the core.
    fn looked(&self, word: u64) -> Option<(Ps, Ps)> {
        let seen = self.locking.seen(word)?;
        Some((seen.at, seen.position))
    }

    /// How long it takes to read again what was read since a word was looked at, if it has changed since: core time, and
    /// the way of the line that was written, as the others are there.
    fn reads_again(&self, looked: Option<(Ps, Ps)>, changed_at: Ps) -> Ps {
        match looked {
            Some((at, position)) if at < changed_at => {
                self.locking.position - position + self.transfer()
            }
            _ => 0,
        }
    }

    /// Whether what the head has read is as it was, when nobody has the word. If not it is read again, and looked
    /// at a second time.
    #[cold]
    fn validates(&mut self, word: u64, now: Ps, end: Ps, words: &mut LockWords) -> bool {
        let Some((found, changed_at)) = words.look(word, self.number, now, self.transfer()) else {
            return true;
        };
        let found = self.bounded(found, now);
        if !self.goes_on(found, now, end) {
            return false;
        }
        // Of a word of which nothing was known then, the operation's begin stands for the look: it was taken later.
        let looked = self.looked(word).or(self.locking.begun);
        let again = self.reads_again(looked, changed_at);
        if again > 0 {
            self.locking.see(word, now);
        }
        self.goes_on(Found::At(now + again), now, end)
    }

    /// Gives up a wait that has been too long.
    fn bounded(&self, found: Found, now: Ps) -> Found {
        let since = self.locking.waits_since.unwrap_or(now);
        if found == Found::Held && now - since > WAIT_MAX_PS {
            return Found::At(now);
        }
        found
    }

    /// Has the head wait where it has to; whether it does not.
    fn goes_on(&mut self, found: Found, now: Ps, end: Ps) -> bool {
        let is_sampled = self.window.head().flags & flags::SAMPLED != 0;
        let locking = &mut self.locking;
        match found {
            Found::Held => {
                locking.waits_since.get_or_insert(now);
                locking.look_again = Some(end);
                false
            }
            Found::At(at) => {
                let since = locking.waits_since.take().unwrap_or(now);
                if is_sampled {
                    locking.waited += at.max(now) - since;
                }
                self.fence_until = self.fence_until.max(at);
                at <= now
            }
        }
    }

    /// Notes what was issued.
    #[inline]
    pub(super) fn note_issued(&mut self, now: Ps, slot: Slot, is_storing: bool) {
        let locking = &mut self.locking;
        locking.is_storing |= is_storing;
        if slot.action == Action::Compute {
            locking.which = slot.line;
            locking.begun = Some((now, locking.position));
            if locking.next > 0 {
                locking.seen = [Seen::NOTHING; Locking::SEEN];
                locking.next = 0;
            }
        }
        locking.position += Ps::from(slot.compute);
        if slot.flags & flags::DEPENDS != 0 {
            locking.position += self.limits.l1_hit;
        }
    }

    /// Notes core time of what was issued and has to do with no lock.
    #[inline]
    pub(super) fn note_time(&mut self, slot: Slot) {
        self.locking.position += Ps::from(slot.compute);
    }

    /// Gives the word of the head back, once all stores before are done.
    #[cold]
    pub(super) fn release_word(&mut self, now: Ps, slot: Slot, shared: &mut Shared) {
        let changed = slot.action == Action::Unlock;
        let at = now.max(self.locking.stores_done);
        let word = self.locking.word(slot.line);
        if self.locking.is_storing {
            self.locking.releasing.push(Release { word, at, changed });
            return;
        }
        let words = &mut shared.locks.words;
        words.release(word, self.number, at, changed);
    }

    /// Gives back what waited for the answers of a round.
    #[inline]
    pub(super) fn settle_locks(&mut self, words: &mut LockWords) {
        self.locking.is_storing = false;
        for release in self.locking.releasing.drain(..) {
            let at = release.at.max(self.locking.stores_done);
            words.release(release.word, self.number, at, release.changed);
        }
        if self.window.is_empty() {
            words.end(self.number, self.all_done);
        }
    }
}
