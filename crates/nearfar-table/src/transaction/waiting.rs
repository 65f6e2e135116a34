//! Threads that may wait for the disk.

use std::cell::Cell;

thread_local! {
    static MAY_WAIT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on this thread, which has nothing else to do meanwhile: commits that end in it wait for the disk
/// here. Everywhere else the log's thread waits for them, which has to be woken, and to wake this one again.
pub fn waiting_here<T>(work: impl FnOnce() -> T) -> T {
    let _before = Before(MAY_WAIT.replace(true));
    work()
}

/// Whether the thread is one that may wait.
pub(super) fn may_wait() -> bool {
    MAY_WAIT.get()
}

/// What a thread goes back to.
struct Before(bool);

impl Drop for Before {
    fn drop(&mut self) {
        MAY_WAIT.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_wait_while_it_works_for_one_statement() {
        assert!(!may_wait());
        waiting_here(|| {
            assert!(waiting_here(may_wait) && may_wait());
            let other = std::thread::spawn(may_wait).join();
            assert!(!other.expect("another thread"));
        });
        assert!(!may_wait());
        let panicked = std::panic::catch_unwind(|| waiting_here(|| panic!("in a statement")));
        assert!(panicked.is_err() && !may_wait());
    }
}
