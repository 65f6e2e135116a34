//! What one query has spilled.

use nearfar_memory::TierId;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Files and bytes that a query's operators have spilled, those included that are gone.
#[derive(Debug, Default)]
pub struct SpillAccount {
    files: AtomicU64,
    memory_bytes: AtomicU64,
    disk_bytes: AtomicU64,
    wait_ns: AtomicU64,
    tier: OnceLock<TierId>,
}

impl SpillAccount {
    /// Files.
    pub fn files(&self) -> u64 {
        self.files.load(Relaxed)
    }

    /// Bytes that went to the memory of another tier.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Relaxed)
    }

    /// Bytes that went to disk.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes.load(Relaxed)
    }

    /// Time for which a modelled tier held threads that wrote and read them.
    pub fn modelled_wait(&self) -> Duration {
        Duration::from_nanos(self.wait_ns.load(Relaxed))
    }

    /// The tier whose memory was tried first.
    pub fn tier(&self) -> Option<TierId> {
        self.tier.get().copied()
    }

    /// Says which tier's memory is tried first.
    pub(crate) fn set_tier(&self, tier: TierId) {
        self.tier.get_or_init(|| tier);
    }

    pub(crate) fn add_file(&self) {
        self.files.fetch_add(1, Relaxed);
    }

    pub(crate) fn add_memory(&self, bytes: u64) {
        self.memory_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn add_disk(&self, bytes: u64) {
        self.disk_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn add_wait(&self, wait: Duration) {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.wait_ns.fetch_add(wait_ns, Relaxed);
    }
}
