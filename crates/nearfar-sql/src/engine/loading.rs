//! A table that is being filled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::load::Progress;

/// How far the filling of a table has come.
#[derive(Debug, Clone)]
pub struct Loading {
    /// The table.
    pub table: String,
    progress: Arc<Progress>,
    started: Instant,
}

impl Loading {
    pub(super) fn new(table: &str, progress: &Arc<Progress>) -> Self {
        Self {
            table: table.to_owned(),
            progress: Arc::clone(progress),
            started: Instant::now(),
        }
    }

    /// Rows read so far.
    pub fn rows(&self) -> u64 {
        self.progress.rows()
    }

    /// Bytes read so far, before encoding.
    pub fn bytes(&self) -> u64 {
        self.progress.bytes()
    }

    /// Time since it began.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
