//! The optimistic lock of a node: readers take no lock, and check afterwards that nobody wrote.
//!
//! It is a word with a version and two flags. A reader remembers the version, reads what the lock
//! protects, and asks [`OptimisticLock::validate`] whether a writer came in between; if so, what it
//! read means nothing. Since a read may race with a write, everything that the lock protects is
//! made of atomics, read and written with relaxed order: the fences are the lock's. Writers hold
//! the lock alone. A node that was replaced is left locked for good, as *obsolete*
//! (optimistic lock coupling: Leis et al., The ART of Practical Synchronization, DaMoN 2016).

use crate::sync::{AtomicU64, Ordering, fence, pause};

const OBSOLETE: u64 = 1;
const LOCKED: u64 = 2;
const ONE_VERSION: u64 = 4;

/// The state of a lock that a reader saw, with no writer inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(u64);

/// The node is no longer part of its tree: start again from the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node is no longer part of its tree")]
pub struct Obsolete;

/// A version, a flag of the writer and a flag of a node that was replaced.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use nearfar_index::lock::OptimisticLock;
///
/// let (lock, data) = (OptimisticLock::new(), AtomicU64::new(1));
/// let version = lock.read(|| ())?;
/// let seen = data.load(Relaxed);
/// assert!(lock.validate(version), "nobody wrote, so `seen` is good: {seen}");
///
/// assert!(lock.try_lock(version));
/// data.store(2, Relaxed);
/// lock.unlock();
/// assert!(!lock.validate(version));
/// # Ok::<(), nearfar_index::lock::Obsolete>(())
/// ```
#[derive(Debug)]
pub struct OptimisticLock {
    word: AtomicU64,
}

impl Default for OptimisticLock {
    fn default() -> Self {
        Self::new()
    }
}

impl OptimisticLock {
    /// A lock that nobody holds.
    #[must_use]
    pub fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
        }
    }

    /// Begins a read: the version to validate afterwards. Waits for a writer, calling `waiting`
    /// once per look (a virtual core tells the model of it, or time would stand still).
    ///
    /// # Errors
    /// [`Obsolete`]: the node was replaced.
    #[inline]
    pub fn read(&self, waiting: impl FnMut()) -> Result<Version, Obsolete> {
        // Pairs with the release in `unlock`: what the last writer wrote is seen.
        let word = self.word.load(Ordering::Acquire);
        if word & (LOCKED | OBSOLETE) == 0 {
            return Ok(Version(word));
        }
        self.read_slowly(waiting)
    }

    #[cold]
    fn read_slowly(&self, mut waiting: impl FnMut()) -> Result<Version, Obsolete> {
        let mut turn = 0;
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word & OBSOLETE != 0 {
                return Err(Obsolete);
            }
            if word & LOCKED == 0 {
                return Ok(Version(word));
            }
            waiting();
            pause(turn);
            turn += 1;
        }
    }

    /// Whether everything read since `version` was taken is of one state.
    #[inline]
    #[must_use]
    pub fn validate(&self, version: Version) -> bool {
        // Orders the relaxed reads of the data before the look at the word. If one of them saw
        // what a writer stored, the fence in `try_lock` makes that writer's lock visible here.
        fence(Ordering::Acquire);
        self.word.load(Ordering::Relaxed) == version.0
    }

    /// Takes the lock if nothing was written since `version`.
    #[inline]
    #[must_use]
    pub fn try_lock(&self, version: Version) -> bool {
        let taken = self.word.compare_exchange(
            version.0,
            version.0 | LOCKED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        // Orders the lock before the relaxed stores to the data, for `validate`.
        fence(Ordering::Release);
        taken.is_ok()
    }

    /// Waits for the lock and takes it, calling `waiting` once per look in vain.
    ///
    /// # Errors
    /// [`Obsolete`]: the node was replaced.
    pub fn lock(&self, mut waiting: impl FnMut()) -> Result<(), Obsolete> {
        loop {
            let version = self.read(&mut waiting)?;
            if self.try_lock(version) {
                return Ok(());
            }
            waiting();
        }
    }

    /// Ends a write. Only the holder calls it.
    #[inline]
    pub fn unlock(&self) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0, "unlocked without being locked");
        self.word.store(
            (word & !LOCKED).wrapping_add(ONE_VERSION),
            Ordering::Release,
        );
    }

    /// Ends a write that changed nothing: readers need not start again. Only the holder calls it.
    #[inline]
    pub fn unlock_unchanged(&self) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0, "unlocked without being locked");
        self.word.store(word & !LOCKED, Ordering::Release);
    }

    /// Ends the last write: the node was replaced and will be retired. Only the holder calls it.
    #[inline]
    pub fn unlock_obsolete(&self) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0, "unlocked without being locked");
        self.word.store(
            (word & !LOCKED).wrapping_add(ONE_VERSION) | OBSOLETE,
            Ordering::Release,
        );
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_write_makes_earlier_reads_void() {
        let lock = OptimisticLock::new();
        let before = lock.read(|| ()).unwrap();
        assert!(lock.validate(before));
        assert!(lock.try_lock(before));
        assert!(!lock.validate(before), "a writer is inside");
        assert!(!lock.try_lock(before));
        lock.unlock();
        assert!(!lock.validate(before));
        let after = lock.read(|| ()).unwrap();
        assert_ne!(before, after);
        lock.lock(|| ()).unwrap();
        lock.unlock_unchanged();
        assert!(lock.validate(after), "nothing was changed");
    }

    #[test]
    fn an_obsolete_node_is_never_read_or_locked_again() {
        let lock = OptimisticLock::new();
        lock.lock(|| ()).unwrap();
        lock.unlock_obsolete();
        assert_eq!(lock.read(|| ()), Err(Obsolete));
        assert_eq!(lock.lock(|| ()), Err(Obsolete));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Data;
    use loom::sync::atomic::Ordering::Relaxed;

    use super::*;

    /// Two words that a writer changes together are never seen apart.
    #[test]
    fn a_validated_read_is_of_one_state() {
        loom::model(|| {
            let shared = Arc::new((OptimisticLock::new(), Data::new(0), Data::new(0)));
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    loom::thread::spawn(move || {
                        let (lock, left, right) = &*shared;
                        lock.lock(|| ()).unwrap();
                        left.store(left.load(Relaxed) + 1, Relaxed);
                        right.store(right.load(Relaxed) + 1, Relaxed);
                        lock.unlock();
                    })
                })
                .collect();
            let (lock, left, right) = &*shared;
            let version = lock.read(|| ()).unwrap();
            let seen = (left.load(Relaxed), right.load(Relaxed));
            if lock.validate(version) {
                assert_eq!(seen.0, seen.1);
            }
            for writer in writers {
                writer.join().unwrap();
            }
            assert_eq!((left.load(Relaxed), right.load(Relaxed)), (2, 2));
        });
    }

    /// A reader that got past an obsolete node has seen what replaced it.
    #[test]
    fn a_node_is_replaced_once() {
        loom::model(|| {
            let shared = Arc::new((OptimisticLock::new(), Data::new(0)));
            let other = Arc::clone(&shared);
            let replaced = loom::thread::spawn(move || {
                let (lock, node) = &*other;
                if lock.lock(|| ()).is_ok() {
                    node.store(node.load(Relaxed) + 1, Relaxed);
                    lock.unlock_obsolete();
                }
            });
            let (lock, node) = &*shared;
            if lock.lock(|| ()).is_ok() {
                node.store(node.load(Relaxed) + 1, Relaxed);
                lock.unlock_obsolete();
            }
            replaced.join().unwrap();
            assert_eq!(node.load(Relaxed), 1);
        });
    }
}
