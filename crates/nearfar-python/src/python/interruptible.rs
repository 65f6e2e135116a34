//! Work of the toolkit that Ctrl-C ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::prelude::*;

use super::errors::raised;
use crate::failure::Failure;

/// How often the interpreter is asked. What is short is not to wait for it.
const LOOK_UP: Duration = Duration::from_millis(5);

/// Runs `work` on a thread of its own, and waits without the interpreter's lock. On Ctrl-C it is told to stop, and not
/// waited for. `what` is its name in messages, such as `a benchmark`.
pub fn run_interruptibly<T: Send + 'static>(
    py: Python<'_>,
    what: &str,
    work: impl FnOnce(&AtomicBool) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let worker = std::thread::spawn(move || work(&stopped));
    while !worker.is_finished() {
        py.detach(|| std::thread::sleep(LOOK_UP));
        if let Err(interrupt) = py.check_signals() {
            stop.store(true, Ordering::Relaxed);
            return Err(interrupt);
        }
    }
    let panicked = |_| Failure::Internal(format!("{what} has panicked"));
    let done = worker.join().map_err(panicked);
    done.and_then(|done| done).map_err(raised)
}
