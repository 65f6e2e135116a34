//! The point of no return of a statement that commits.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::TableError;

const OPEN: u8 = 0;
const PASSED: u8 = 1;
const CLOSED: u8 = 2;

/// What decides between a commit and whoever gives its statement up, once and for good.
///
/// A commit passes the gate immediately before it takes effect. Whoever gives the statement up closes
/// the gate: where that succeeds, nothing of the statement is or will be committed, and it may be
/// reported as failed. Where it does not, the commit has passed and goes on to its end whatever
/// becomes of the statement's future, so that only its own result says what has happened.
#[derive(Debug, Default)]
pub struct CommitGate(AtomicU8);

impl CommitGate {
    /// Lets a commit through. A statement of several commits may pass again.
    ///
    /// # Errors
    /// [`TableError::Cancelled`] once the gate is closed.
    pub fn pass(&self) -> Result<(), TableError> {
        // The lock for commits and the joining of tasks order everything else.
        match self.0.fetch_max(PASSED, Ordering::SeqCst) {
            CLOSED => Err(cancelled()),
            _ => Ok(()),
        }
    }

    /// Refuses what has not passed yet. False where a commit has: it goes on, and its result is to be
    /// waited for.
    pub fn close(&self) -> bool {
        let order = Ordering::SeqCst;
        match self.0.compare_exchange(OPEN, CLOSED, order, order) {
            Ok(_) => true,
            Err(state) => state == CLOSED,
        }
    }

    /// Refuses to go on with work that can't be committed any more.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub fn check(&self) -> Result<(), TableError> {
        match self.0.load(Ordering::SeqCst) {
            CLOSED => Err(cancelled()),
            _ => Ok(()),
        }
    }
}

fn cancelled() -> TableError {
    let what = "the statement".to_owned();
    TableError::Cancelled { what }
}

/// Closes a gate when the statement's future ends or is dropped.
#[derive(Debug)]
pub struct CloseOnDrop(pub std::sync::Arc<CommitGate>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_both_wins_for_good() {
        let gate = CommitGate::default();
        assert!(gate.pass().is_ok() && gate.pass().is_ok());
        assert!(!gate.close() && !gate.close());
        assert!(gate.pass().is_ok() && gate.check().is_ok());
        let gate = CommitGate::default();
        assert!(gate.close() && gate.close());
        assert!(gate.pass().is_err() && gate.pass().is_err() && gate.check().is_err());
        assert!(gate.close());
    }

    #[test]
    fn threads_that_race_agree() {
        for _ in 0..200 {
            let gate = CommitGate::default();
            let (closed, passed) = std::thread::scope(|scope| {
                let passing = scope.spawn(|| gate.pass().is_ok());
                (gate.close(), passing.join().expect("no panic"))
            });
            assert_ne!(closed, passed);
        }
    }
}
