//! Writes that fail when they are told to, for tests of what happens then.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Failures of the log's files. None by default.
#[derive(Debug)]
pub struct LogFaults {
    room_bytes: AtomicU64,
    fails_to_sync: AtomicBool,
}

impl Default for LogFaults {
    fn default() -> Self {
        Self {
            room_bytes: AtomicU64::new(u64::MAX),
            fails_to_sync: AtomicBool::new(false),
        }
    }
}

impl LogFaults {
    /// Makes the disk full once so many more bytes are written: a write that exceeds them writes
    /// what fits and fails.
    pub fn set_room(&self, bytes: u64) {
        self.room_bytes.store(bytes, Ordering::SeqCst);
    }

    /// Has every write to disk fail, or none.
    pub fn fail_sync(&self, fails: bool) {
        self.fails_to_sync.store(fails, Ordering::SeqCst);
    }

    /// How much of `bytes` can be written.
    pub(super) fn take_room(&self, bytes: u64) -> Result<(), (u64, io::Error)> {
        let taken = self
            .room_bytes
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |room| {
                Some(match room {
                    u64::MAX => room,
                    _ => room.saturating_sub(bytes),
                })
            });
        match taken {
            Ok(room) | Err(room) if room < bytes => Err((
                room,
                io::Error::new(io::ErrorKind::StorageFull, "no space left (injected)"),
            )),
            _ => Ok(()),
        }
    }

    /// Whether so many bytes can be written.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.room_bytes.load(Ordering::SeqCst) >= bytes
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match self.fails_to_sync.load(Ordering::SeqCst) {
            true => Err(io::Error::other("input/output error (injected)")),
            false => Ok(()),
        }
    }
}
