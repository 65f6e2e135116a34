//! Work that is done by several threads at one time.

use std::panic::resume_unwind;
use std::thread;

use super::error::TierRunError;

/// What each of so many threads has found, which are numbered from 0.
///
/// # Errors
/// That of the first thread that has one. All of them end before.
pub(super) fn on_threads<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> Result<T, TierRunError> + Sync,
) -> Result<Vec<T>, TierRunError> {
    let work = &work;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        let found = workers.into_iter().map(|worker| match worker.join() {
            Ok(found) => found,
            Err(panic) => resume_unwind(panic),
        });
        found.collect()
    })
}
