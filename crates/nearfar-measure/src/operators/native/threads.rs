//! Work that is done by several threads at one time.

use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::error::TierRunError;

/// Where threads wait for each other before they begin.
pub(super) struct Start {
    threads: usize,
    state: Mutex<StartState>,
    changed: Condvar,
}

#[derive(Default)]
struct StartState {
    arrived: usize,
    /// Why some of them never come, and how many there are.
    refused: Option<(usize, String)>,
}

impl Start {
    fn new(threads: usize) -> Self {
        Self {
            threads,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, StartState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all threads.
    ///
    /// # Errors
    /// [`TierRunError::Thread`] where some of them are not to be had.
    pub(super) fn wait(&self) -> Result<(), TierRunError> {
        let mut state = self.lock();
        state.arrived += 1;
        self.changed.notify_all();
        let more = |state: &mut StartState| state.arrived < self.threads && state.refused.is_none();
        let waited = self.changed.wait_while(state, more);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.refused {
            Some((started, reason)) => Err(TierRunError::Thread {
                started: *started,
                threads: self.threads,
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    fn refuse(&self, started: usize, reason: String) {
        self.lock().refused = Some((started, reason));
        self.changed.notify_all();
    }
}

/// What each of so many threads has found, which are numbered from 0. They may wait for each other.
///
/// # Errors
/// That of the first thread that has one, or that a thread is not to be had. All of them end before.
pub(super) fn on_threads<T: Send>(
    threads: usize,
    work: impl Fn(usize, &Start) -> Result<T, TierRunError> + Sync,
) -> Result<Vec<T>, TierRunError> {
    let start = &Start::new(threads);
    let work = &work;
    thread::scope(|scope| {
        let mut workers = Vec::new();
        let mut started = Ok(());
        for worker in 0..threads {
            let spawned = thread::Builder::new().spawn_scoped(scope, move || work(worker, start));
            match spawned {
                Ok(spawned) => workers.push(spawned),
                Err(error) => {
                    let reason = error.to_string();
                    start.refuse(worker, reason.clone());
                    started = Err(TierRunError::Thread {
                        started: worker,
                        threads,
                        reason,
                    });
                    break;
                }
            }
        }
        let found = workers.into_iter().map(|worker| match worker.join() {
            Ok(found) => found,
            Err(panic) => resume_unwind(panic),
        });
        let found = found.collect();
        started.and(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_wait_for_all_others() {
        let arrived = Mutex::new(0);
        let found = on_threads(5, |thread, start| {
            *arrived.lock().unwrap() += 1;
            start.wait()?;
            assert_eq!(*arrived.lock().unwrap(), 5);
            Ok(thread)
        });
        assert_eq!(found.unwrap(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_never_comes() {
        let start = Start::new(3);
        thread::scope(|scope| {
            let waiting = [(); 2].map(|()| scope.spawn(|| start.wait()));
            start.refuse(2, "no more".to_owned());
            for thread in waiting {
                let error = thread.join().unwrap().unwrap_err().to_string();
                assert!(
                    error.contains("2 of 3") && error.contains("no more"),
                    "{error}"
                );
            }
        });
    }
}
