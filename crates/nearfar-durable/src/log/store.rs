//! The log's files.
//!
//! They are those of `wal-db`, with three things added: names of new files are written to disk along
//! with their contents, the log begins where the checkpoint ends, and a write to disk that has failed
//! once is never taken for one that succeeds.

use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wal_db::{SegmentedStore, WalError, WalStore};

use super::directory::sync_folder;
use super::faults::LogFaults;
use super::reached::Reached;
use super::zeros::{self, Zeros};
use crate::error::DurabilityError;
use crate::private;

/// Where `wal-db` notes how much it has removed.
const HEAD: &str = "head";
/// Bytes of one file of the log.
pub(super) const FILE_BYTES: u64 = 16 << 20;

/// What an earlier owner has written of a log. It is only read, since that owner may still write.
#[derive(Debug)]
pub(super) struct Part {
    folder: PathBuf,
    begin: u64,
    end: u64,
    /// The file that was read last.
    last: Mutex<Option<(u64, File)>>,
}

impl Part {
    /// What is in `folder` from `begin` on, up to `end` or else to where it ends now.
    pub fn open(folder: PathBuf, begin: u64, end: Option<u64>) -> Result<Self, DurabilityError> {
        let mut part = Self {
            folder,
            begin,
            end: begin,
            last: Mutex::new(None),
        };
        part.end = match end {
            Some(end) => end,
            None => part.end_of_files()?.max(begin),
        };
        Ok(part)
    }

    /// The positions that count of it.
    #[cfg(test)]
    pub fn range(&self) -> std::ops::Range<u64> {
        self.begin..self.end
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn end_of_files(&self) -> Result<u64, DurabilityError> {
        let Some(number) = numbers(&self.folder)?.last().copied() else {
            return Ok(0);
        };
        let path = file_of(&self.folder, number);
        let metadata = std::fs::metadata(&path);
        let bytes = metadata.map_err(|error| DurabilityError::io("cannot read", &path, &error))?;
        Ok(number * FILE_BYTES + bytes.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let (number, mut at) = (offset / FILE_BYTES, offset % FILE_BYTES);
        let room = usize::try_from(FILE_BYTES - at).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(room);
        let mut last = self.last.lock();
        if last.as_ref().is_none_or(|(known, _)| *known != number) {
            let file = match File::open(file_of(&self.folder, number)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
                file => file?,
            };
            *last = Some((number, file));
        }
        let Some((_, file)) = last.as_ref() else {
            return Ok(0);
        };
        let mut filled = 0;
        while filled < wanted {
            match file.read_at(&mut buffer[filled..wanted], at)? {
                0 => break,
                read => (filled, at) = (filled + read, at + read as u64),
            }
        }
        Ok(filled)
    }
}

fn file_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:020}.wal"))
}

/// The numbers of the files in `folder`, ascending; none where there is no folder.
fn numbers(folder: &Path) -> Result<Vec<u64>, DurabilityError> {
    let failed = |error: io::Error| DurabilityError::io("cannot read", folder, &error);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_suffix(".wal"));
        numbers.extend(digits.and_then(|digits| digits.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The files of a log, as one run of bytes: those of earlier owners, and then this one's.
#[derive(Debug)]
pub(super) struct LogFiles {
    earlier: Vec<Part>,
    /// Where this owner's own bytes begin.
    begin: AtomicU64,
    inner: SegmentedStore,
    folder: PathBuf,
    /// Where reading begins.
    head: AtomicU64,
    /// The number of the last file whose name is on disk.
    named: Mutex<Option<u64>>,
    /// Files before this number are for those who may read their folder.
    restricted: AtomicU64,
    is_broken: AtomicBool,
    syncs: AtomicU64,
    zeros: Zeros,
    faults: Arc<LogFaults>,
    /// Where the owner notes how far it has come, and the last note of this process.
    reached: Reached,
    noted: Mutex<Option<u64>>,
    /// Whether cuts wait, and the one that does.
    cuts_wait: AtomicBool,
    waiting_cut: Mutex<Option<u64>>,
}

impl LogFiles {
    pub fn open(
        (folder, reached): (&Path, Reached),
        earlier: Vec<Part>,
        head: u64,
        faults: Arc<LogFaults>,
    ) -> Result<Arc<Self>, DurabilityError> {
        refuse_links(folder)?;
        let inner =
            SegmentedStore::open(folder, FILE_BYTES).map_err(|error| unreadable(folder, error))?;
        Ok(Arc::new(Self {
            begin: AtomicU64::new(earlier.last().map_or(0, |part| part.end)),
            earlier,
            inner,
            folder: folder.to_owned(),
            head: AtomicU64::new(head),
            named: Mutex::new(None),
            restricted: AtomicU64::new(head / FILE_BYTES),
            is_broken: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
            zeros: Zeros::default(),
            faults,
            reached,
            noted: Mutex::new(None),
            cuts_wait: AtomicBool::new(false),
            waiting_cut: Mutex::new(None),
        }))
    }

    /// Runs `open`, which finds out where the log ends, without anything being cut there.
    pub fn without_cuts<T>(&self, open: impl FnOnce() -> T) -> T {
        self.cuts_wait.store(true, Ordering::SeqCst);
        let opened = open();
        self.cuts_wait.store(false, Ordering::SeqCst);
        opened
    }

    /// Does what [`Self::without_cuts`] has put off.
    pub fn cut_deferred(&self) -> Result<(), WalError> {
        let cut = self.waiting_cut.lock().take();
        cut.map_or(Ok(()), |len| self.truncate(len))
    }

    /// Notes that the log is on disk up to `position`, if nothing was noted yet for that file.
    pub fn note_reached(&self, position: u64) {
        let mut noted = self.noted.lock();
        let is_noted = |at: u64| at / FILE_BYTES == position / FILE_BYTES || at >= position;
        if !noted.is_some_and(is_noted) {
            self.note(&mut noted, position);
        }
    }

    /// Notes that the log is on disk up to `position`, its end.
    pub fn note_end(&self, position: u64) {
        self.note(&mut self.noted.lock(), position);
    }

    fn note(&self, noted: &mut Option<u64>, position: u64) {
        match self.reached.write(position) {
            Ok(()) => *noted = Some(position),
            // It only helps to notice that files are lost.
            Err(error) => tracing::warn!(%error, "how far the log has come is not noted"),
        }
    }

    /// The bytes that the files hold, whatever the head.
    pub fn end(&self) -> u64 {
        let own = self.inner.len().unwrap_or_default();
        own.max(self.begin.load(Ordering::SeqCst))
    }

    /// The position that the first file there is begins at.
    pub fn first_position(&self) -> Result<Option<u64>, DurabilityError> {
        for part in &self.earlier {
            if let Some(number) = numbers(&part.folder)?.first() {
                return Ok(Some(part.begin.max(number * FILE_BYTES)));
            }
        }
        let begin = self.begin.load(Ordering::SeqCst);
        let first = numbers(&self.folder)?.first().map(|n| n * FILE_BYTES);
        Ok(first.map(|first| first.max(begin)))
    }

    /// Every file and its number.
    pub fn all_files(&self) -> Result<Vec<(u64, PathBuf)>, DurabilityError> {
        let mut files = Vec::new();
        let earlier = self.earlier.iter().map(Part::folder);
        for folder in earlier.chain([self.folder.as_path()]) {
            let numbers = numbers(folder)?.into_iter();
            files.extend(numbers.map(|number| (number, file_of(folder, number))));
        }
        Ok(files)
    }

    /// What earlier owners have written.
    pub fn earlier(&self) -> &[Part] {
        &self.earlier
    }

    fn part_of(&self, position: u64) -> Option<&Part> {
        let is_own = position >= self.begin.load(Ordering::SeqCst);
        let mut parts = self.earlier.iter().filter(|_| !is_own);
        parts.find(|part| (part.begin..part.end).contains(&position))
    }

    /// The file that has the byte at `position`, and where in it.
    pub fn place(&self, position: u64) -> (PathBuf, u64) {
        let folder = self.part_of(position).map_or(&*self.folder, Part::folder);
        (
            file_of(folder, position / FILE_BYTES),
            position % FILE_BYTES,
        )
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
        for (_, path) in self.all_files()? {
            File::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(|error| DurabilityError::io("cannot write to disk", &path, &error))?;
        }
        sync_folder(&self.folder)
    }

    /// Removes files of nothing but what comes before `position`.
    pub fn remove_before(&self, position: u64) -> Result<(), WalError> {
        for part in &self.earlier {
            for number in numbers(&part.folder).map_err(io::Error::other)? {
                if part.end <= position || (number + 1) * FILE_BYTES <= position {
                    std::fs::remove_file(file_of(&part.folder, number))?;
                }
            }
        }
        self.inner.truncate_before(position)?;
        match private::restrict_file(&self.folder.join(HEAD)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, WalError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            let begin = self.begin.load(Ordering::SeqCst);
            if at >= begin {
                return Ok(filled + self.inner.read_at(at, &mut buffer[filled..])?);
            }
            let Some(part) = self.part_of(at) else {
                break;
            };
            let room = usize::try_from(part.end.min(begin) - at).unwrap_or(usize::MAX);
            let wanted = room.min(buffer.len() - filled);
            match part.read_at(at, &mut buffer[filled..filled + wanted])? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    /// What earlier owners have written is not touched: it counts up to there.
    fn truncate(&self, len: u64) -> Result<(), WalError> {
        if len < self.begin.load(Ordering::SeqCst) {
            self.begin.store(len, Ordering::SeqCst);
            return Ok(());
        }
        self.zeros.forget();
        self.inner.truncate(len)
    }

    /// For whoever has written up to `end` and lets nobody else write: puts zeros there, if they are wanted.
    fn write_zeros(&self, end: u64) {
        let Some(bytes) = self.zeros.wanted(end, self.syncs()) else {
            return;
        };
        let (path, len) = self.place(end);
        let written = match self.faults.has_room(bytes) {
            true => zeros::write(&path, len, bytes),
            false => Err(io::ErrorKind::StorageFull.into()),
        };
        // Writes to disk take longer without, which is all.
        if let Err(error) = written {
            tracing::debug!(%error, path = %path.display(), "no zeros behind the log's end");
        }
    }

    /// The bytes behind `position`, where a record was expected, without zeros at the end.
    ///
    /// # Errors
    /// Files that can't be read.
    pub fn written_behind(&self, position: u64) -> Result<u64, WalError> {
        let read_at = |at, buffer: &mut [u8]| self.read_at(at, buffer);
        zeros::written_bytes((position, self.end()), read_at)
    }

    /// Times that the log was written to disk.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Has the files up to `end` be for those who may read their folder.
    fn restrict(&self, end: u64) -> Result<(), WalError> {
        let last = end.saturating_sub(1) / FILE_BYTES;
        let first = self.restricted.load(Ordering::Relaxed);
        for number in first..=last {
            match private::restrict_file(&file_of(&self.folder, number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        self.restricted.fetch_max(last + 1, Ordering::Relaxed);
        Ok(())
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
            File::open(&self.folder)?.sync_all()?;
            *named = Some(last);
        }
        Ok(())
    }
}

/// Refuses files that are links: who writes the log would write to where they lead.
fn refuse_links(folder: &Path) -> Result<(), DurabilityError> {
    let files = numbers(folder)?.into_iter();
    let files = files.map(|number| file_of(folder, number));
    for path in files.chain([folder.join(HEAD)]) {
        if path.is_symlink() {
            let error = io::Error::other("it is a symbolic link");
            return Err(DurabilityError::io("cannot write", &path, &error));
        }
    }
    Ok(())
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
        files.inner.write_at(offset, bytes)?;
        let end = offset + bytes.len() as u64;
        files.restrict(end)?;
        files.write_zeros(end);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, WalError> {
        self.0.read_at(offset, buffer)
    }

    fn truncate(&self, len: u64) -> Result<(), WalError> {
        if self.0.cuts_wait.load(Ordering::SeqCst) {
            *self.0.waiting_cut.lock() = Some(len);
            return Ok(());
        }
        self.0.truncate(len)
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
        Ok(self.0.end().max(self.head()?))
    }

    fn head(&self) -> Result<u64, WalError> {
        Ok(self.0.head.load(Ordering::SeqCst))
    }
}
