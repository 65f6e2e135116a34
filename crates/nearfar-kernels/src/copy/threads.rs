//! Threads of a copy.

use std::thread::{Builder, Scope, ScopedJoinHandle};

use super::error::CopyError;

/// Starts a thread for each of `works`, until the system gives no further one. Those that were started, and whether all
/// were: whoever stops them joins them too.
pub(super) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    what: &'static str,
    works: impl ExactSizeIterator<Item: FnOnce() -> T + Send + 'scope>,
) -> (Vec<ScopedJoinHandle<'scope, T>>, Result<(), CopyError>) {
    let threads = works.len();
    let mut started = Vec::new();
    for work in works {
        match Builder::new().spawn_scoped(scope, work) {
            Ok(thread) => started.push(thread),
            Err(error) => {
                let refused = CopyError::Thread {
                    what,
                    started: started.len(),
                    threads,
                    reason: error.to_string(),
                };
                return (started, Err(refused));
            }
        }
    }
    (started, Ok(()))
}
