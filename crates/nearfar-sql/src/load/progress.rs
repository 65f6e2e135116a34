//! How far a load has come.

use arrow::array::RecordBatch;
use std::sync::atomic::{AtomicU64, Ordering};

use nearfar_table::table::batch_bytes;

/// Rows and bytes (as Arrow holds them, before encoding) that have been read so far.
#[derive(Debug, Default)]
pub struct Progress {
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    /// Counts the rows of a batch.
    pub fn add(&self, batch: &RecordBatch) {
        self.rows
            .fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(batch_bytes(batch), Ordering::Relaxed);
    }

    /// Rows read.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes read.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
