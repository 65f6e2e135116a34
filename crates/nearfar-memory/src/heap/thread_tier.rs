//! The tier that a thread's allocations go to.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::tier::TierId;

thread_local! {
    // Const-initialised and without a destructor: an allocator may read it at any time, while the
    // thread starts and while its other thread-locals are dropped.
    static CURRENT: Cell<TierId> = const { Cell::new(TierId::NEAR) };
}

/// The tier that this thread's allocations go to under the global allocator.
///
/// A thread starts out near. Tasks that move between threads carry their tier along by entering it
/// around every poll.
#[derive(Debug)]
pub struct ThreadTier;

/// Restores the previous tier of the thread when dropped.
#[derive(Debug)]
#[must_use = "the tier is left when the guard is dropped"]
pub struct ThreadTierGuard {
    previous: TierId,
    /// The guard belongs to its thread.
    _not_send: PhantomData<*const ()>,
}

impl ThreadTier {
    /// Sends this thread's allocations to `tier` until the guard is dropped.
    pub fn enter(tier: TierId) -> ThreadTierGuard {
        ThreadTierGuard {
            previous: CURRENT.replace(tier),
            _not_send: PhantomData,
        }
    }

    /// The tier that this thread's allocations go to now.
    #[must_use]
    #[inline]
    pub fn current() -> TierId {
        CURRENT.get()
    }
}

impl Drop for ThreadTierGuard {
    fn drop(&mut self) {
        CURRENT.set(self.previous);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_nest_and_restore() {
        let (far, farther) = (TierId::at(1), TierId::at(2));
        let outer = ThreadTier::enter(far);
        {
            let _inner = ThreadTier::enter(farther);
            assert_eq!(ThreadTier::current(), farther);
            let other = std::thread::spawn(ThreadTier::current).join().unwrap();
            assert_eq!(other, TierId::NEAR);
        }
        assert_eq!(ThreadTier::current(), far);
        drop(outer);
        assert_eq!(ThreadTier::current(), TierId::NEAR);
    }

    #[test]
    fn a_panic_restores() {
        let caught = std::panic::catch_unwind(|| {
            let _far = ThreadTier::enter(TierId::at(1));
            panic!("expected");
        });
        assert!(caught.is_err());
        assert_eq!(ThreadTier::current(), TierId::NEAR);
    }
}
