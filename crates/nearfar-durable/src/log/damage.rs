//! A log that can't be read to its end: what is lost, and whether any of it was promised.
//!
//! A record that is torn at the end of the log was never acknowledged. Behind it there can be whole
//! records if power was lost: several commits that share one write to disk, of which the kernel has
//! written the later ones first. Every record says how much of the log was on disk when it was
//! appended. So if none of those behind the damage says that the place of the damage was, nothing
//! that was acknowledged is damaged, and the log ends there. Else the disk has lost what it had.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use wal_db::{OpenPolicy, Wal, WalError, WalStore};

use super::open_log::{PREFIX_BYTES, RECORD_BYTES_MAX, config};
use super::record::{Frame, MAGIC};
use super::store::{FILE_BYTES, SharedFiles, unreadable};
use crate::error::DurabilityError;
use crate::private;

/// Bytes that are searched at a time.
const WINDOW: usize = 1 << 20;

/// What is behind a damaged place.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Whole transactions.
    transactions: u64,
    /// Bytes from the damage on.
    pub bytes: u64,
    /// Whether the place of the damage was on disk once.
    pub was_on_disk: bool,
    last: Option<u64>,
}

impl Lost {
    /// In words.
    pub fn describe(&self) -> String {
        let last = self.last.map_or(String::new(), |position| {
            format!(", the last one of them at position {position}")
        });
        format!(
            "Lost are the transaction there and {} that can still be read behind it{last}; {} bytes \
             of the log in all",
            self.transactions, self.bytes
        )
    }
}

/// Looks for whole records behind `damaged`.
///
/// # Errors
/// Files that can't be read.
pub(super) fn search(files: &SharedFiles, damaged: u64) -> Result<Lost, DurabilityError> {
    let end = files.0.end();
    let failed = |error| unreadable(files.0.folder(), error);
    let mut lost = Lost {
        bytes: files.0.written_behind(damaged).map_err(failed)?,
        ..Lost::default()
    };
    let mut transactions = BTreeSet::new();
    let mut at = damaged + 1;
    let mut window = vec![0; WINDOW];
    while at < end {
        let read = files.read_at(at, &mut window).map_err(failed)?;
        if read == 0 {
            // A file that is not there, or too short: it was once.
            lost.was_on_disk = true;
            at = (at / FILE_BYTES + 1) * FILE_BYTES;
            continue;
        }
        let found = window[..read].windows(MAGIC.len()).position(|w| w == MAGIC);
        let Some(offset) = found else {
            let kept = if read < MAGIC.len() {
                0
            } else {
                MAGIC.len() - 1
            };
            at += (read - kept) as u64;
            continue;
        };
        let start = (at + offset as u64).checked_sub(PREFIX_BYTES);
        let record = start.filter(|start| *start > damaged);
        let record = record.and_then(|start| record_at(files, start, end).map(|r| (start, r)));
        let Some((start, record)) = record else {
            at += offset as u64 + 1;
            continue;
        };
        if let Ok(frame) = Frame::read(&record) {
            lost.was_on_disk |= frame.header.synced > damaged;
            if frame.header.is_last && transactions.insert(frame.header.transaction) {
                lost.transactions += 1;
                lost.last = Some(start);
            }
        }
        at = start + PREFIX_BYTES + record.len() as u64;
    }
    Ok(lost)
}

/// The record that begins at `start`, if it is whole.
fn record_at(files: &SharedFiles, start: u64, end: u64) -> Option<Vec<u8>> {
    let mut prefix = [0; PREFIX_BYTES as usize];
    if files.read_at(start, &mut prefix).ok()? < prefix.len() {
        return None;
    }
    let len = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
    let record_end = start + PREFIX_BYTES + u64::from(len);
    if len > RECORD_BYTES_MAX || record_end > end {
        return None;
    }
    let view = OneRecord {
        files: files.clone(),
        start,
        end: record_end,
    };
    let wal = Wal::with_store_and_config(view, config(OpenPolicy::TruncateTail)).ok()?;
    let record = wal.iter().ok()?.next()?.ok()?;
    Some(record.into_data())
}

/// One record of a log, as a log of its own that is only read.
#[derive(Debug)]
struct OneRecord {
    files: SharedFiles,
    start: u64,
    end: u64,
}

impl WalStore for OneRecord {
    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> Result<(), WalError> {
        Err(std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem).into())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, WalError> {
        self.files.read_at(offset, buffer)
    }

    /// Nothing is cut: it is only looked at.
    fn truncate(&self, _len: u64) -> Result<(), WalError> {
        Ok(())
    }

    fn sync(&self) -> Result<(), WalError> {
        Ok(())
    }

    fn len(&self) -> Result<u64, WalError> {
        Ok(self.end)
    }

    fn head(&self) -> Result<u64, WalError> {
        Ok(self.start)
    }
}

/// Copies the log's files from `damaged` on to a folder beside the log, before they are cut.
///
/// # Errors
/// The kernel's.
pub(super) fn keep_rest(
    files: &SharedFiles,
    directory: &Path,
    damaged: u64,
) -> Result<PathBuf, DurabilityError> {
    let folder = directory.join(format!("log-damaged-{damaged}"));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| DurabilityError::io("cannot keep the damaged log in", path, &error)
    };
    private::make_folder(&folder).map_err(failed(&folder))?;
    let first = damaged / FILE_BYTES;
    let files = files.0.all_files()?.into_iter();
    for (_, path) in files.filter(|(number, _)| *number >= first) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut kept = folder.join(&*name);
        // Of two owners after each other, which had parts of the same file's bytes.
        while kept.exists() {
            kept.set_extension("later.wal");
        }
        std::fs::copy(&path, kept).map_err(failed(&path))?;
    }
    Ok(folder)
}
