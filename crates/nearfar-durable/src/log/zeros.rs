//! Zeros behind the last record.
//!
//! A write to disk of a file that has grown writes where its blocks are and how long it is, too, which takes
//! half as long again or more. So a file that commits wait for gets zeros behind its last record, and the
//! next records are written over them: the disk has the file's length and blocks then.
//!
//! Zeros are no record, since the checksum of an empty one is not zero: the log ends where they begin. When it
//! is opened they are cut off, as what is torn is, but are not mistaken for that: see [`written_bytes`].

use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use wal_db::WalError;

use super::store::FILE_BYTES;

/// Zeros that are written at a time: a small part of what is written to disk until they are used up.
pub(super) const STEP_BYTES: u64 = 1 << 20;
/// No zeros are written before there were so many writes to disk since the last: what is written seldom, or
/// much at a time, gains nothing from them.
pub(super) const SYNCS_BETWEEN: u64 = 16;

/// Which zeros a log has.
#[derive(Debug, Default)]
pub(super) struct Zeros(Mutex<Written>);

#[derive(Debug, Default)]
struct Written {
    /// The position behind the last.
    end: u64,
    /// The writes to disk before they were written.
    syncs: u64,
}

impl Zeros {
    /// The zeros to write behind `end`, where the log ends after so many `syncs`, or nothing where there are
    /// some or they are not worth it. None are written across files. They count as written from here on.
    pub fn wanted(&self, end: u64, syncs: u64) -> Option<u64> {
        let mut written = self.0.lock();
        let is_early = syncs < written.syncs + SYNCS_BETWEEN;
        let room = end.next_multiple_of(FILE_BYTES) - end;
        if end <= written.end || is_early || room == 0 {
            return None;
        }
        let bytes = room.min(STEP_BYTES);
        *written = Written {
            end: end + bytes,
            syncs,
        };
        Some(bytes)
    }

    /// Forgets them: the log's files were cut.
    pub fn forget(&self) {
        self.0.lock().end = 0;
    }
}

/// Writes `bytes` zeros behind the end of the file at `path`, which has `len` bytes: all of them, or none.
///
/// # Errors
/// The kernel's: a disk that has no room for them.
pub(super) fn write(path: &Path, len: u64, bytes: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let zeros = vec![0; bytes as usize];
    file.write_all_at(&zeros, len).or_else(|error| {
        file.set_len(len)?;
        Err(error)
    })
}

/// The bytes between `from` and `end` up to the last that is not zero.
///
/// # Errors
/// Those of `read_at`, which reads what there is at a position and tells how much that is.
pub(super) fn written_bytes(
    (from, end): (u64, u64),
    read_at: impl Fn(u64, &mut [u8]) -> Result<usize, WalError>,
) -> Result<u64, WalError> {
    let mut window = vec![0; 1 << 16];
    let (mut at, mut written) = (from, 0);
    while at < end {
        let wanted = window.len().min((end - at) as usize);
        let read = read_at(at, &mut window[..wanted])?;
        let Some(part) = window.get(..read).filter(|part| !part.is_empty()) else {
            // A file that is not there, or too short.
            at = (at / FILE_BYTES + 1) * FILE_BYTES;
            continue;
        };
        if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
            written = at + last as u64 + 1 - from;
        }
        at += read as u64;
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DurabilityError;
    use crate::log::directory::DataDirectory;
    use crate::log::faults::LogFaults;
    use crate::log::open_log::Log;
    use crate::log::options::DataOptions;
    use crate::log::record::FrameHeader;
    use crate::log::recovery::OpenedLog;
    use crate::log::term::Term;
    use proptest::prelude::*;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Arc;

    /// Commits until there are zeros.
    const COMMITS: u64 = SYNCS_BETWEEN + 4;
    const SECTOR_BYTES: usize = 512;

    fn open_log(options: &DataOptions) -> Result<OpenedLog, DurabilityError> {
        let directory = DataDirectory::open(&options.directory, None)?;
        let term = Term::new(&directory, None, false)?;
        OpenedLog::open(&directory, &term, options, None)
    }

    fn open(folder: &Path) -> OpenedLog {
        open_log(&DataOptions::new(folder)).expect("a log")
    }

    fn file(folder: &Path, number: u64) -> PathBuf {
        folder.join("log").join(format!("{number:020}.wal"))
    }

    fn file_bytes(folder: &Path, number: u64) -> u64 {
        fs::metadata(file(folder, number)).map_or(0, |file| file.len())
    }

    /// Appends a record of `bytes` bytes for the transaction, which end in as many zeros as they can.
    fn append(log: &Log, transaction: u64, bytes: usize) -> u64 {
        let mut record = vec![0; FrameHeader::BYTES + bytes];
        if let Some(first) = record.get_mut(FrameHeader::BYTES) {
            *first = 1;
        }
        log.append(&mut record, transaction, true)
            .expect("appended")
    }

    fn commit(log: &Log, transaction: u64, bytes: usize) -> u64 {
        let end = append(log, transaction, bytes);
        log.sync_to(end).expect("on disk");
        end
    }

    #[test]
    fn files_that_commits_wait_for_have_their_length_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, _) = open(folder.path()).into_log();
        let bytes = || file_bytes(folder.path(), 0);
        for transaction in 0..SYNCS_BETWEEN {
            let end = commit(&log, transaction, 100);
            assert_eq!(bytes(), end, "few commits get no zeros");
        }
        let mut end = commit(&log, 100, 100);
        let length = bytes();
        assert_eq!(length, end + STEP_BYTES);
        while end + 100_000 < length {
            end = commit(&log, 200, 50_000);
            assert_eq!(bytes(), length);
        }
        // They are used up, and there are others.
        end = commit(&log, 300, 200_000);
        assert_eq!(bytes(), end + STEP_BYTES);
        assert_eq!(log.status().bytes, end, "what counts are records");
    }

    #[test]
    fn zeros_do_not_count_as_what_is_torn() {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, _) = open(folder.path()).into_log();
        let ends: Vec<u64> = (0..COMMITS)
            .map(|number| commit(&log, number, 300))
            .collect();
        let end = ends[ends.len() - 1];
        drop(log);
        assert!(file_bytes(folder.path(), 0) > end, "as if it was killed");
        let opened = open(folder.path());
        assert_eq!(opened.transactions(), Vec::from_iter(0..COMMITS));
        let (log, cut_bytes) = opened.into_log();
        assert_eq!((log.end(), cut_bytes), (end, 0));
        assert_eq!(file_bytes(folder.path(), 0), end, "they are cut off");
        // What it goes on with is found, with zeros behind it again.
        (0..COMMITS).for_each(|number| {
            commit(&log, COMMITS + number, 300);
        });
        drop(log);
        assert_eq!(
            open(folder.path()).transactions(),
            Vec::from_iter(0..2 * COMMITS)
        );
    }

    #[test]
    fn what_is_torn_before_zeros_is_cut_to_its_last_byte() {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, _) = open(folder.path()).into_log();
        let ends: Vec<u64> = (0..COMMITS)
            .map(|number| commit(&log, number, 300))
            .collect();
        drop(log);
        let (before, end) = (ends[ends.len() - 2], ends[ends.len() - 1]);
        let whole = fs::read(file(folder.path(), 0)).expect("read");
        for torn in (1..FrameHeader::BYTES + 8).step_by(3) {
            let mut bytes = whole.clone();
            let from = before as usize + torn;
            bytes[from..end as usize].fill(0);
            fs::write(file(folder.path(), 0), &bytes).expect("written");
            let (log, cut_bytes) = open(folder.path()).into_log();
            assert_eq!(log.end(), before);
            assert!(
                (1..=torn as u64).contains(&cut_bytes),
                "{cut_bytes} of {torn}"
            );
        }
    }

    #[test]
    fn a_record_that_was_on_disk_is_missed_where_zeros_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, _) = open(folder.path()).into_log();
        let ends: Vec<u64> = (0..COMMITS)
            .map(|number| commit(&log, number, 300))
            .collect();
        drop(log);
        // One in the middle, behind which records say that it was on disk.
        let mut bytes = fs::read(file(folder.path(), 0)).expect("read");
        bytes[ends[4] as usize..ends[5] as usize].fill(0);
        fs::write(file(folder.path(), 0), &bytes).expect("written");
        let options = DataOptions::new(folder.path());
        let error = open_log(&options).map(drop).expect_err("damage");
        let DurabilityError::DamagedLog { position, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*position, ends[4]);
        assert!(
            !error.to_string().contains("1048"),
            "zeros are not lost: {error}"
        );
        let options = DataOptions {
            recover_until_damage: true,
            ..options
        };
        let opened = open_log(&options).expect("what is before");
        assert_eq!(opened.transactions(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn concurrent_commits_share_writes_to_disk_and_are_all_there() {
        const THREADS: u64 = 8;
        const EACH: u64 = 200;
        let folder = tempfile::tempdir().expect("a folder");
        let faults = Arc::new(LogFaults::default());
        let options = DataOptions {
            faults: Arc::clone(&faults),
            ..DataOptions::new(folder.path())
        };
        let (log, _) = open_log(&options).expect("a log").into_log();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let log = &log;
                let commits = move || {
                    for number in 0..EACH {
                        let end = commit(log, thread * EACH + number, 100);
                        assert!(log.durable() >= end);
                    }
                };
                scope.spawn(commits);
            }
        });
        assert!(log.status().syncs < THREADS * EACH, "{:?}", log.status());
        // A disk that fails is told to all who wait, and nobody waits for ever.
        let end = append(&log, THREADS * EACH, 100);
        faults.fail_sync(true);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| log.sync_to(end).expect_err("a disk that fails"));
            }
        });
        assert!(log.durable() < end && log.check().is_err());
        drop(log);
        let mut found = open(folder.path()).transactions();
        found.sort_unstable();
        assert_eq!(found, Vec::from_iter(0..=THREADS * EACH));
    }

    #[test]
    fn zeros_stay_in_their_file_and_records_go_on_in_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, _) = open(folder.path()).into_log();
        let mut end = 0;
        let mut number = 0;
        let is_near = |end: u64| end + STEP_BYTES / 2 > FILE_BYTES;
        while !is_near(end) {
            end = append(&log, number, 60_000);
            number += 1;
        }
        while file_bytes(folder.path(), 0) == end {
            end = commit(&log, number, 10);
            number += 1;
        }
        assert_eq!(file_bytes(folder.path(), 0), FILE_BYTES);
        while end < FILE_BYTES + 70_000 {
            end = commit(&log, number, 60_000);
            number += 1;
        }
        for _ in 0..COMMITS {
            end = commit(&log, number, 10);
            number += 1;
        }
        assert!(file_bytes(folder.path(), 1) > end - FILE_BYTES);
        drop(log);
        let opened = open(folder.path());
        assert_eq!(opened.transactions(), Vec::from_iter(0..number));
        assert_eq!(opened.into_log().0.end(), end);
        assert_eq!(file_bytes(folder.path(), 1), end - FILE_BYTES);
    }

    #[test]
    fn a_disk_without_room_for_zeros_has_some_for_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let faults = Arc::new(LogFaults::default());
        let options = DataOptions {
            faults: Arc::clone(&faults),
            ..DataOptions::new(folder.path())
        };
        let (log, _) = open_log(&options).expect("a log").into_log();
        faults.set_room(STEP_BYTES / 2);
        let mut end = 0;
        for number in 0..3 * COMMITS {
            end = commit(&log, number, 100);
        }
        assert_eq!(file_bytes(folder.path(), 0), end, "it grows");
        // A record that does not fit is taken back, and the zeros behind the last are known to be gone.
        faults.set_room(u64::MAX);
        while file_bytes(folder.path(), 0) == end {
            end = commit(&log, 999, 40_000);
        }
        faults.set_room(50);
        let mut large = vec![1; FrameHeader::BYTES + 100];
        let refused = log.append(&mut large, 1000, true);
        assert!(
            matches!(refused, Err(DurabilityError::NotLogged { .. })),
            "{refused:?}"
        );
        assert_eq!(file_bytes(folder.path(), 0), end);
        faults.set_room(u64::MAX);
        (0..COMMITS).for_each(|_| {
            commit(&log, 1001, 100);
        });
        assert!(file_bytes(folder.path(), 0) > log.end(), "zeros again");
    }

    #[test]
    fn nothing_is_left_of_zeros_that_do_not_fit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, [7; 100]).expect("written");
        write(&path, 100, 50).expect("room");
        assert_eq!(file_bytes_of(&path), 150);
        // A file can't be written to at all.
        assert!(write(folder.path(), 0, 50).is_err());
    }

    fn file_bytes_of(path: &Path) -> u64 {
        fs::metadata(path).expect("metadata").len()
    }

    #[test]
    fn written_bytes_end_with_the_last_that_is_not_zero() {
        let mut bytes = vec![0; 300_000];
        bytes[70_000] = 1;
        let read_at = |at: u64, buffer: &mut [u8]| {
            let from = bytes.get(at as usize..).unwrap_or_default();
            let read = from.len().min(buffer.len());
            buffer[..read].copy_from_slice(&from[..read]);
            Ok(read)
        };
        let written = |from, end| written_bytes((from, end), read_at).expect("read");
        assert_eq!(written(0, 300_000), 70_001);
        assert_eq!(written(70_000, 300_000), 1);
        assert_eq!(written(70_001, 300_000), 0);
        assert_eq!(written(0, 70_000), 0);
        // Where there is less than there should be.
        assert_eq!(written(0, 2 * FILE_BYTES), 70_001);
        assert_eq!(written(400_000, 500_000), 0);
        assert_eq!(written(9, 3), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// The power fails while commits wait: of what was written since the last write to disk, the disk has
        /// any sectors, and zeros in place of the others.
        #[test]
        fn what_was_acknowledged_is_there_when_the_power_fails(
            sizes in prop::collection::vec(0usize..3_000, 1..40),
            waiting in 0usize..12,
            has_sector in prop::collection::vec(any::<bool>(), 128),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let (log, _) = open(folder.path()).into_log();
            let mut number = 0;
            (0..COMMITS).for_each(|_| {
                commit(&log, number, 20);
            });
            let mut durable = 0;
            for size in &sizes {
                number += 1;
                durable = commit(&log, number, *size);
            }
            let acknowledged = number;
            for size in sizes.iter().cycle().take(waiting) {
                number += 1;
                append(&log, number, *size);
            }
            drop(log);
            let mut bytes = fs::read(file(folder.path(), 0)).expect("read");
            prop_assert!(bytes.len() as u64 > durable);
            let mut at = durable as usize;
            while at < bytes.len() {
                let next = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
                let next = next.min(bytes.len());
                if !has_sector[at / SECTOR_BYTES % has_sector.len()] {
                    bytes[at..next].fill(0);
                }
                at = next;
            }
            fs::write(file(folder.path(), 0), &bytes).expect("written");
            let found = open(folder.path()).transactions();
            let commits = vec![0; COMMITS as usize];
            let last = found.last().copied().unwrap_or_default();
            prop_assert!((acknowledged..=number).contains(&last), "{last} of {number}");
            prop_assert_eq!(found, [commits, Vec::from_iter(1..=last)].concat());
        }
    }
}
