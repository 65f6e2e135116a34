//! The log's files.
//!
//! They are those of `wal-db`, with three things added: names of new files are written to disk along
//! with their contents, the log begins where the savepoint ends, and a write to disk that has failed
//! once is never taken for one that succeeds.

use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wal_db::{SegmentedStore, WalError, WalStore};

use super::directory::sync_folder;
use super::error::DurabilityError;
use super::faults::LogFaults;

/// Bytes of one file of the log.
pub(super) const FILE_BYTES: u64 = 16 << 20;

/// The files of a log, as one run of bytes.
#[derive(Debug)]
pub(super) struct LogFiles {
    inner: SegmentedStore,
    folder: PathBuf,
    /// Where reading begins.
    head: AtomicU64,
    /// The number of the last file whose name is on disk.
    named: Mutex<Option<u64>>,
    is_broken: AtomicBool,
    syncs: AtomicU64,
    faults: Arc<LogFaults>,
}

impl LogFiles {
    pub fn open(
        folder: &Path,
        head: u64,
        faults: Arc<LogFaults>,
    ) -> Result<Arc<Self>, DurabilityError> {
        let inner =
            SegmentedStore::open(folder, FILE_BYTES).map_err(|error| unreadable(folder, error))?;
        Ok(Arc::new(Self {
            inner,
            folder: folder.to_owned(),
            head: AtomicU64::new(head),
            named: Mutex::new(None),
            is_broken: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
            faults,
        }))
    }

    /// The bytes that the files hold, whatever the head.
    pub fn end(&self) -> u64 {
        self.inner.len().unwrap_or_default()
    }

    /// The position that the first file there is begins at.
    pub fn first_position(&self) -> Result<Option<u64>, DurabilityError> {
        Ok(self.numbers()?.first().map(|number| number * FILE_BYTES))
    }

    /// The numbers of the files there are, ascending.
    pub fn numbers(&self) -> Result<Vec<u64>, DurabilityError> {
        let failed = |error: io::Error| DurabilityError::io("cannot read", &self.folder, &error);
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_suffix(".wal"));
            numbers.extend(digits.and_then(|digits| digits.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The file that has the byte at `position`, and where in it.
    pub fn place(&self, position: u64) -> (PathBuf, u64) {
        let name = format!("{:020}.wal", position / FILE_BYTES);
        (self.folder.join(name), position % FILE_BYTES)
    }

    /// The folder of the files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Begins reading at `head`.
    pub fn set_head(&self, head: u64) {
        self.head.store(head, Ordering::SeqCst);
    }

    /// Writes every file to disk, those of an earlier process included.
    pub fn sync_all(&self) -> Result<(), DurabilityError> {
        for number in self.numbers()? {
            let (path, _) = self.place(number * FILE_BYTES);
            std::fs::File::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(|error| DurabilityError::io("cannot write to disk", &path, &error))?;
        }
        sync_folder(&self.folder)
    }

    /// Removes files of nothing but what comes before `position`.
    pub fn remove_before(&self, position: u64) -> Result<(), WalError> {
        self.inner.truncate_before(position).map(drop)
    }

    /// Times that the log was written to disk.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Bytes of files that are kept.
    pub fn kept_bytes(&self) -> u64 {
        let first = self.first_position().ok().flatten();
        first.map_or(0, |first| self.end().saturating_sub(first))
    }

    fn sync_once(&self) -> Result<(), WalError> {
        self.faults.sync()?;
        self.inner.sync()?;
        let last = self.end().saturating_sub(1) / FILE_BYTES;
        let mut named = self.named.lock();
        if named.is_none_or(|named| named < last) {
            std::fs::File::open(&self.folder)?.sync_all()?;
            *named = Some(last);
        }
        Ok(())
    }
}

/// A log that its files can't be read of.
pub(super) fn unreadable(folder: &Path, error: WalError) -> DurabilityError {
    let source = match error {
        WalError::Io { source, .. } => source,
        other => io::Error::other(other.to_string()),
    };
    DurabilityError::io("cannot read the log in", folder, &source)
}

/// The files as `wal-db` takes them.
#[derive(Debug, Clone)]
pub(super) struct SharedFiles(pub Arc<LogFiles>);

impl WalStore for SharedFiles {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WalError> {
        let files = &self.0;
        if let Err((room, error)) = files.faults.take_room(bytes.len() as u64) {
            files.inner.write_at(offset, &bytes[..room as usize])?;
            return Err(error.into());
        }
        files.inner.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, WalError> {
        self.0.inner.read_at(offset, buffer)
    }

    fn truncate(&self, len: u64) -> Result<(), WalError> {
        self.0.inner.truncate(len)
    }

    /// After a failure the kernel may have given up the pages that it could not write, and would
    /// report success the next time.
    fn sync(&self) -> Result<(), WalError> {
        let files = &self.0;
        if files.is_broken.load(Ordering::SeqCst) {
            return Err(io::Error::other("an earlier write to disk has failed").into());
        }
        let result = files.sync_once();
        files.is_broken.fetch_or(result.is_err(), Ordering::SeqCst);
        files.syncs.fetch_add(1, Ordering::Relaxed);
        result
    }

    fn len(&self) -> Result<u64, WalError> {
        Ok(self.0.inner.len()?.max(self.head()?))
    }

    fn head(&self) -> Result<u64, WalError> {
        Ok(self.0.head.load(Ordering::SeqCst))
    }
}
