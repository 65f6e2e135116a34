//! Threads that statements are read, planned and driven on.
//!
//! Reading and planning a statement keeps a thread for as long as it takes, so that every statement has
//! one of its own: the kernel shares the processors among them, and none waits behind another. What
//! the operators of a query do is done elsewhere, in [`Lanes`].

use std::io;
use std::sync::Arc;

use nearfar_sql::engine::{Interrupt, Lanes};
use nearfar_sql::error::EngineError;
use prometheus_client::metrics::gauge::Gauge;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::WORKER_STACK_BYTES;

/// Threads, as many as statements run at the same time.
pub struct StatementThreads {
    runtime: Option<Runtime>,
    lanes: Lanes,
    /// Statements that threads work on.
    busy: Gauge,
}

impl StatementThreads {
    /// At most `threads_max` threads, for statements whose tasks run on `lanes`. `busy` is kept up to
    /// date.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(threads_max: usize, lanes: Lanes, busy: Gauge) -> io::Result<Self> {
        let mut builder = Builder::new_current_thread();
        builder
            .thread_name("nearfar-session")
            .thread_stack_size(WORKER_STACK_BYTES)
            .max_blocking_threads(threads_max.max(1));
        Ok(Self {
            runtime: Some(builder.build()?),
            lanes,
            busy,
        })
    }

    /// Runs `work` on a thread until its end, or until it awaits something after `interrupt` was given
    /// up. None when the server has ended.
    pub fn run<T: Send + 'static>(
        &self,
        interrupt: Arc<Interrupt>,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Option<JoinHandle<Result<T, EngineError>>> {
        let (tasks, busy) = (self.lanes.long.clone(), Busy::begin(&self.busy));
        let threads = self.runtime.as_ref()?;
        Some(threads.spawn_blocking(move || {
            let _busy = busy;
            tasks.block_on(interrupt.run(work))
        }))
    }
}

impl Drop for StatementThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // What was given up may not have noticed yet.
            runtime.shutdown_background();
        }
    }
}

/// Counts a statement until it is dropped.
struct Busy(Gauge);

impl Busy {
    fn begin(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.dec();
    }
}
