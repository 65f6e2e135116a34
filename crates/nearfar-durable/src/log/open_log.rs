//! The log while the database is open: appending, and waiting until it is on disk.

use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use wal_db::{OpenPolicy, Wal, WalConfig, WalError};

use super::record::FrameHeader;
use super::store::{LogFiles, SharedFiles};
use super::sync::LogSync;
use super::waiters::Waiters;
use crate::checkpoint::pooled::TablePool;
use crate::error::DurabilityError;
use crate::manifest::Encoder;

/// The largest record.
pub(super) const RECORD_BYTES_MAX: u32 = 64 << 20;

/// Bytes that `wal-db` puts before a record.
pub(super) const PREFIX_BYTES: u64 = 8;

/// How `wal-db` opens a log.
pub(super) fn config(policy: OpenPolicy) -> WalConfig {
    WalConfig::new()
        .with_max_record_size(RECORD_BYTES_MAX)
        .with_open_policy(policy)
}

/// The log of an open database.
///
/// Appends follow each other under one lock, so that a write that fails can be undone: the log ends
/// then where it ended before. What fails to be written to disk can't be undone, and stops the log
/// for good.
#[derive(Debug)]
pub struct Log {
    files: Arc<LogFiles>,
    /// Replaced when a write that failed is undone.
    wal: RwLock<Wal<SharedFiles>>,
    /// The position behind the last record.
    end: Mutex<u64>,
    /// All before this position is on disk.
    durable: AtomicU64,
    stopped: OnceLock<String>,
    /// Whose owner this process must be to write, and who has taken that over.
    pool: Option<Arc<TablePool>>,
    lost_to: OnceLock<String>,
    sync: Mutex<LogSync>,
    /// Tells the thread that writes to disk now and then of a change of setting, or to end.
    changed: Condvar,
    is_closing: AtomicBool,
    next_transaction: AtomicU64,
    /// Held for reading by who appends a transaction of several records, so that no checkpoint comes
    /// between its first and its last.
    whole: RwLock<()>,
    /// Whether somebody writes to disk, from before that until [`Self::durable`] says so.
    is_syncing: Mutex<bool>,
    /// Tells those who wait for it that this is over.
    synced: Condvar,
    /// Those who wait without a thread.
    waiters: Waiters,
    records: AtomicU64,
    /// The position of the checkpoint that the log begins behind.
    checkpoint: AtomicU64,
}

/// The turn to write to disk, until it is dropped.
struct Turn<'a>(&'a Log);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.is_syncing.lock() = false;
        self.0.synced.notify_all();
    }
}

/// What the log has done and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStatus {
    /// The position behind the last record, in bytes since the directory was made.
    pub position: u64,
    /// All before this position is on disk.
    pub durable: u64,
    /// The position of the last checkpoint.
    pub checkpoint: u64,
    /// Bytes of the log's files.
    pub bytes: u64,
    /// Records that were appended since the directory was opened.
    pub records: u64,
    /// Times that the log was written to disk since then.
    pub syncs: u64,
}

impl Log {
    /// The log in `files`, which recovery has read up to the end of `wal`, from `checkpoint` on.
    pub(super) fn new(
        files: Arc<LogFiles>,
        wal: Wal<SharedFiles>,
        checkpoint: u64,
        sync: LogSync,
        pool: Option<Arc<TablePool>>,
    ) -> Self {
        let end = wal.len();
        Self {
            files,
            wal: RwLock::new(wal),
            end: Mutex::new(end),
            durable: AtomicU64::new(end),
            stopped: OnceLock::new(),
            pool,
            lost_to: OnceLock::new(),
            sync: Mutex::new(sync),
            changed: Condvar::new(),
            is_closing: AtomicBool::new(false),
            // Larger than any number in the log: each has taken more than one byte of it.
            next_transaction: AtomicU64::new(end),
            whole: RwLock::new(()),
            is_syncing: Mutex::new(false),
            synced: Condvar::new(),
            waiters: Waiters::default(),
            records: AtomicU64::new(0),
            checkpoint: AtomicU64::new(checkpoint),
        }
    }

    /// When commits are written to disk.
    pub fn sync_setting(&self) -> LogSync {
        *self.sync.lock()
    }

    /// Changes when commits are written to disk, for all sessions.
    pub fn set_sync(&self, sync: LogSync) {
        *self.sync.lock() = sync;
        self.changed.notify_all();
    }

    /// What it has done and how long it is.
    pub fn status(&self) -> LogStatus {
        LogStatus {
            position: *self.end.lock(),
            durable: self.durable(),
            checkpoint: self.checkpoint.load(Ordering::Relaxed),
            bytes: self.files.kept_bytes(),
            records: self.records.load(Ordering::Relaxed),
            syncs: self.files.syncs(),
        }
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::SeqCst)
    }

    /// The position behind the last record.
    pub fn end(&self) -> u64 {
        *self.end.lock()
    }

    /// Bytes since the last checkpoint.
    pub(super) fn bytes_since_checkpoint(&self) -> u64 {
        self.end()
            .saturating_sub(self.checkpoint.load(Ordering::Relaxed))
    }

    pub(super) fn next_transaction(&self) -> u64 {
        self.next_transaction.fetch_add(1, Ordering::Relaxed)
    }

    /// Held while a transaction of several records is appended.
    pub(super) fn several_records(&self) -> RwLockReadGuard<'_, ()> {
        self.whole.read()
    }

    /// Runs `take` while no transaction is half in the log.
    pub fn between_transactions<T>(&self, take: impl FnOnce() -> T) -> T {
        let _none = self.whole.write();
        take()
    }

    /// # Errors
    /// [`DurabilityError::Stopped`], [`DurabilityError::Fenced`].
    pub(crate) fn check(&self) -> Result<(), DurabilityError> {
        if let Some(by) = self.lost_to.get() {
            return Err(DurabilityError::Fenced { by: by.clone() });
        }
        match self.stopped.get() {
            Some(message) => Err(DurabilityError::Stopped {
                message: message.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Whether what is on disk now will be found by the next owner: the claim word is read after
    /// the disk has written, so that whoever claims later reads what was written.
    ///
    /// # Errors
    /// Who has taken over.
    pub(super) fn check_owner(&self) -> Result<(), String> {
        let Some(pool) = &self.pool else {
            return Ok(());
        };
        pool.check_owner().map_err(|by| {
            let by = self.lost_to.get_or_init(|| by.to_string()).clone();
            self.waiters.wake_up_to(u64::MAX);
            by
        })
    }

    /// Refuses all that follows. `_end` is held, so that nothing is appended once this is known:
    /// what was not written to disk is undone in memory then.
    fn stop(&self, _end: &mut u64, message: String) {
        if self.stopped.set(message.clone()).is_ok() {
            tracing::error!(%message, "the log can't be written: changes are refused from now on");
        }
        self.waiters.wake_up_to(u64::MAX);
    }

    /// Refuses all that follows: another process may have the log from now on.
    pub(super) fn finish(&self) {
        let _end = self.end.lock();
        // Nothing is lost if it was stopped before.
        let _ = self.stopped.set("the data directory was closed".to_owned());
        self.waiters.wake_up_to(u64::MAX);
    }

    /// Appends a record, whose header is written over its first bytes. Returns the position behind
    /// it.
    ///
    /// # Errors
    /// [`DurabilityError::NotLogged`]: the log is as it was. [`DurabilityError::Stopped`].
    pub(super) fn append(
        &self,
        record: &mut [u8],
        transaction: u64,
        is_last: bool,
    ) -> Result<u64, DurabilityError> {
        let mut end = self.end.lock();
        self.check()?;
        self.check_owner()
            .map_err(|by| DurabilityError::Fenced { by })?;
        let header = FrameHeader {
            is_last,
            synced: self.durable(),
            transaction,
        };
        let mut written = Encoder::default();
        header.write(&mut written);
        record[..FrameHeader::BYTES].copy_from_slice(&written.finish());
        let appended = self.wal.read().append(record);
        match appended {
            Ok(start) => {
                *end = start.get() + PREFIX_BYTES + record.len() as u64;
                self.records.fetch_add(1, Ordering::Relaxed);
                if !self.sync_setting().is_on() {
                    // Nobody checks it behind this.
                    self.check_owner()
                        .map_err(|by| DurabilityError::InDoubt { by })?;
                }
                Ok(*end)
            }
            Err(error) => {
                let message = self.message_of(&error);
                let kind = kind_of(&error);
                match self.undo(&mut end) {
                    // The record may be whole on the disk.
                    false if is_last => Err(not_synced(&message)),
                    _ => Err(DurabilityError::NotLogged { message, kind }),
                }
            }
        }
    }

    /// What the kernel says and of which folder, where it is the kernel's, and what to do about it.
    fn message_of(&self, error: &WalError) -> String {
        let WalError::Io { source, .. } = error else {
            return error.to_string();
        };
        let remedy = match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; make room on its file system",
            _ => "",
        };
        format!("`{}`: {source}{remedy}", self.files.folder().display())
    }

    /// Makes the log end where it ended before a write that failed. What `wal-db` knows of the gap
    /// is gone with it. False where it can't be, and the log has stopped.
    fn undo(&self, locked: &mut u64) -> bool {
        let end = *locked;
        let mut wal = self.wal.write();
        let undone = (|| {
            use wal_db::WalStore;
            let files = SharedFiles(Arc::clone(&self.files));
            files.truncate(end)?;
            // A log that is opened counts as on disk.
            files.sync()?;
            self.files.set_head(end);
            *wal = Wal::with_store_and_config(files, config(OpenPolicy::Strict))?;
            Ok::<_, WalError>(())
        })();
        match undone {
            Ok(()) => {
                self.durable.fetch_max(end, Ordering::SeqCst);
                true
            }
            Err(error) => {
                self.stop(locked, self.message_of(&error));
                false
            }
        }
    }

    /// Whether [`Self::sync_to`] of `position` takes no time any more. If not, the log's thread writes to disk, and
    /// `waker` is woken when that is done.
    pub(super) fn is_settled(&self, position: u64, waker: &Waker) -> bool {
        let is_settled = || {
            self.durable() >= position
                || self.stopped.get().is_some()
                || self.lost_to.get().is_some()
        };
        if is_settled() {
            return true;
        }
        self.waiters.add(position, waker);
        {
            let _sync = self.sync.lock();
            self.changed.notify_all();
        }
        // It may have come to be so before the waker was there.
        is_settled()
    }

    /// Waits until all before `position` is on disk. Who waits concurrently shares one write, and is woken
    /// when that is done: `wal-db` would wake all of them at every append.
    ///
    /// # Errors
    /// [`DurabilityError::NotSynced`], [`DurabilityError::InDoubt`].
    pub fn sync_to(&self, position: u64) -> Result<(), DurabilityError> {
        while self.durable() < position {
            if let Some(_turn) = self.take_turn(position) {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// The turn to write to disk up to `position`; none once another's has ended, or has been enough.
    fn take_turn(&self, position: u64) -> Option<Turn<'_>> {
        let mut is_taken = self.is_syncing.lock();
        if *is_taken {
            self.synced.wait(&mut is_taken);
            return None;
        }
        *is_taken = self.durable() < position;
        is_taken.then(|| Turn(self))
    }

    /// Writes to disk what there is, for whoever has the turn. May have to be done again.
    fn sync(&self) -> Result<(), DurabilityError> {
        if let Some(by) = self.lost_to.get() {
            return Err(DurabilityError::InDoubt { by: by.clone() });
        }
        if let Some(message) = self.stopped.get() {
            return Err(not_synced(message));
        }
        let target = self.end();
        let synced = self.wal.read().sync();
        match synced {
            Ok(()) => {
                if let Err(by) = self.check_owner() {
                    // Nothing is appended once this is known.
                    drop(self.end.lock());
                    return Err(DurabilityError::InDoubt { by });
                }
                self.files.note_reached(target);
                self.durable.fetch_max(target, Ordering::SeqCst);
                self.waiters.wake_up_to(target);
                Ok(())
            }
            // An append has failed meanwhile: the log goes on once it is undone.
            Err(WalError::Corruption { .. }) => {
                drop(self.end.lock());
                Ok(())
            }
            // Nobody else writes meanwhile: it is known what is on disk before anything is taken back.
            Err(error) => {
                let message = self.message_of(&error);
                self.stop(&mut self.end.lock(), message.clone());
                Err(not_synced(&message))
            }
        }
    }

    /// Notes where the log ends, all of which is on disk.
    pub(super) fn note_reached(&self) {
        self.files.note_end(self.durable());
    }

    /// Forgets what comes before `position`, which a checkpoint holds.
    pub(super) fn begin_at(&self, position: u64) {
        self.checkpoint.fetch_max(position, Ordering::SeqCst);
        if let Err(error) = self.files.remove_before(position) {
            tracing::warn!(%error, "old files of the log can't be removed, it is tried again later");
        }
    }

    /// Waits until it is time to write to disk in the background. False when the log is closing.
    pub(super) fn wait_for_turn(&self) -> bool {
        let mut sync = self.sync.lock();
        loop {
            if self.is_closing.load(Ordering::SeqCst) {
                return false;
            }
            if !self.waiters.is_empty() {
                return true;
            }
            let setting = *sync;
            match setting {
                LogSync::Every(every) => {
                    if self.changed.wait_for(&mut sync, every).timed_out() {
                        return true;
                    }
                }
                LogSync::On | LogSync::Off => self.changed.wait(&mut sync),
            }
        }
    }

    /// Writes to disk what there is, and wakes those who wait for that.
    ///
    /// # Errors
    /// As [`Self::sync_to`].
    pub(super) fn sync_in_background(&self) -> Result<(), DurabilityError> {
        self.sync_to(self.end())?;
        // Another thread may have written before they began to wait.
        self.waiters.wake_up_to(self.durable());
        Ok(())
    }

    /// Ends the thread that writes to disk now and then.
    pub(super) fn close(&self) {
        let _sync = self.sync.lock();
        self.is_closing.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }
}

/// The kind of an error of the kernel's.
fn kind_of(error: &WalError) -> Option<ErrorKind> {
    match error {
        WalError::Io { source, .. } => Some(source.kind()),
        _ => None,
    }
}

fn not_synced(message: &str) -> DurabilityError {
    DurabilityError::NotSynced {
        message: message.to_owned(),
    }
}
