//! From a data directory to a database: the newest checkpoint, and then the log behind it.

use std::path::PathBuf;
use std::sync::Arc;
use wal_db::{Lsn, OpenPolicy, Wal, WalError};

use super::damage;
use super::directory::DataDirectory;
use super::open_log::{Log, PREFIX_BYTES, config};
use super::options::{DataOptions, RecoveryProgress};
use super::reached::Reached;
use super::record::Frame;
use super::replay::{Definitions, Replay, Unfinished};
use super::store::{LogFiles, SharedFiles, unreadable};
use super::term::Term;
use crate::checkpoint::directory::CheckpointInfo;
use crate::checkpoint::pooled::TablePool;
use crate::error::{DurabilityError, DurableError};
use nearfar_table::transaction::Database;

/// Progress is told after so many transactions.
const TOLD_EVERY: u64 = 1024;

/// The log behind the newest checkpoint, before it is carried out.
pub(super) struct OpenedLog {
    files: Arc<LogFiles>,
    wal: Wal<SharedFiles>,
    /// Bytes that were cut from its end.
    cut_bytes: u64,
    /// The position of the checkpoint.
    checkpoint: u64,
}

/// A log that was read to its end.
struct ReadLog {
    wal: Wal<SharedFiles>,
    /// Bytes that were cut from its end, where it was torn or damaged.
    cut_bytes: u64,
    /// Where what was lost is kept.
    kept: Option<PathBuf>,
}

impl OpenedLog {
    /// Opens the log of a new term, cuts off what is torn at its end, and has the term begin there.
    ///
    /// # Errors
    /// [`DurabilityError::DamagedLog`]; the kernel's.
    pub fn open(
        directory: &DataDirectory,
        term: &Term,
        options: &DataOptions,
        newest: Option<&CheckpointInfo>,
    ) -> Result<Self, DurabilityError> {
        let checkpoint = newest.map_or(0, |newest| newest.log_position);
        let (folder, faults) = (term.folder(), Arc::clone(&options.faults));
        let own = Reached::of(directory.path(), term.number);
        let place = (folder.as_path(), own.clone());
        let files = LogFiles::open(place, term.earlier(checkpoint)?, checkpoint, faults)?;
        let shared = SharedFiles(Arc::clone(&files));
        let reached = term.reached_before(directory)?;
        let ReadLog {
            wal,
            cut_bytes,
            kept,
        } = open(directory, options, &shared, (checkpoint, reached))?;
        // An earlier process may have ended before the kernel had written all of it: what a term says of
        // where it begins must not be on disk before that.
        files.sync_all()?;
        term.begin(wal.len(), newest.map_or(0, |newest| newest.number))?;
        // Behind the term's begin, and before anything of earlier ones is removed.
        begin_note(&own, wal.len())?;
        term.remove_others(files.earlier(), kept.as_deref());
        Ok(Self {
            files,
            wal,
            cut_bytes,
            checkpoint,
        })
    }

    /// The log as it is, without carrying it out; and the bytes that were cut from its end.
    #[cfg(test)]
    pub fn into_log(self) -> (Log, u64) {
        let sync = super::sync::LogSync::On;
        let log = Log::new(self.files, self.wal, self.checkpoint, sync, None);
        (log, self.cut_bytes)
    }

    /// The transactions whose records it has, in their order.
    #[cfg(test)]
    pub fn transactions(&self) -> Vec<u64> {
        let records = self.wal.iter().expect("records");
        let records = records.map(|record| record.expect("a record").into_data());
        let number = |record: Vec<u8>| Frame::read(&record).expect("a frame").header.transaction;
        records.map(number).collect()
    }

    /// Whether the log can be carried out from `position` on.
    pub fn has(&self, position: u64) -> bool {
        (self.checkpoint..=self.end()).contains(&position)
    }

    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.wal.len()
    }

    /// Carries it out from `start` on, up to which `definitions` and the tables of `database` are
    /// complete. Only the owner of `pool` writes the log then.
    ///
    /// # Errors
    /// [`DurabilityError::Replay`]; memory that is refused.
    pub fn recover(
        self,
        options: &DataOptions,
        database: &Arc<Database>,
        (definitions, start): (Definitions, u64),
        pool: Option<&Arc<TablePool>>,
    ) -> Result<(Log, Definitions), DurableError> {
        let Self {
            files,
            wal,
            cut_bytes,
            checkpoint,
        } = self;
        let mut progress = RecoveryProgress {
            total_bytes: wal.len() - start,
            cut_bytes,
            ..RecoveryProgress::default()
        };
        let definitions = replay(options, database, definitions, &wal, start, &mut progress)?;
        if progress.total_bytes > 0 || progress.cut_bytes > 0 {
            let RecoveryProgress {
                bytes,
                transactions,
                cut_bytes,
                ..
            } = progress;
            tracing::info!(bytes, transactions, cut_bytes, "the log was read");
        }
        let log = Log::new(files, wal, checkpoint, options.sync, pool.cloned());
        Ok((log, definitions))
    }
}

fn replay(
    options: &DataOptions,
    database: &Arc<Database>,
    definitions: Definitions,
    wal: &Wal<SharedFiles>,
    checkpoint: u64,
    progress: &mut RecoveryProgress,
) -> Result<Definitions, DurableError> {
    let tell = |progress: &RecoveryProgress| {
        if let Some(observer) = &options.progress {
            observer.tell(*progress);
        }
    };
    let mut replay = Replay::new(database, definitions);
    let mut unfinished = Unfinished::default();
    let at = |error| DurabilityError::replay(checkpoint, error);
    for record in wal.iter_from(Lsn::new(checkpoint)).map_err(at)? {
        let record = record.map_err(at)?;
        let position = record.lsn().get();
        let undecodable = DurabilityError::undecodable(position);
        let frame = Frame::read(record.data()).map_err(&undecodable)?;
        let header = frame.header;
        if !header.is_last {
            unfinished.add(header.transaction, position);
            continue;
        }
        for earlier in unfinished.take(header.transaction) {
            let mut records = wal.iter_from(Lsn::new(earlier)).map_err(at)?;
            let earlier_record = records.next().transpose().map_err(at)?;
            let bytes = earlier_record
                .map(wal_db::Record::into_data)
                .unwrap_or_default();
            replay.record(earlier, Frame::read(&bytes).map_err(&undecodable)?)?;
        }
        replay.record(position, frame)?;
        replay.commit()?;
        progress.transactions += 1;
        progress.bytes = position + PREFIX_BYTES + record.len() as u64 - checkpoint;
        if progress.transactions.is_multiple_of(TOLD_EVERY) {
            tell(progress);
        }
    }
    progress.bytes = progress.total_bytes;
    tell(progress);
    Ok(replay.definitions)
}

/// Opens the log, and cuts off what is torn at its end. It is known to have been on disk up to
/// `reached`.
fn open(
    directory: &DataDirectory,
    options: &DataOptions,
    files: &SharedFiles,
    (checkpoint, reached): (u64, Option<u64>),
) -> Result<ReadLog, DurabilityError> {
    let reached = reached.unwrap_or(0);
    let failed = |error| unreadable(files.0.folder(), error);
    let mut kept = None;
    let short = |end: u64| {
        let what = "the log ends there, but was on disk up to position";
        (end, format!("{what} {reached}"))
    };
    let damage = match missing(files, checkpoint)? {
        Some(damage) => damage,
        None if files.0.end() < reached => short(files.0.end()),
        // Nothing is cut before it is known that nothing is lost.
        None => match files.0.without_cuts(|| strictly(files)) {
            Ok(wal) if wal.len() < reached => short(wal.len()),
            Ok(wal) => {
                let cut_bytes = files.0.written_behind(wal.len()).map_err(failed)?;
                if cut_bytes > 0 {
                    note_torn(wal.len(), cut_bytes);
                }
                files.0.cut_deferred().map_err(failed)?;
                return Ok(ReadLog {
                    wal,
                    cut_bytes,
                    kept: None,
                });
            }
            Err(WalError::Corruption { offset, reason }) => (offset, reason.to_owned()),
            Err(error) => return Err(failed(error)),
        },
    };
    let (position, what) = damage;
    let lost = damage::search(files, position)?;
    let is_missing = files.0.end() <= position || position < reached;
    if lost.was_on_disk || is_missing {
        if !options.recover_until_damage {
            let (path, file_offset) = files.0.place(position);
            return Err(DurabilityError::DamagedLog {
                path,
                file_offset,
                position,
                what,
                lost: lost.describe(),
            });
        }
        let rest = damage::keep_rest(files, directory.path(), position)?;
        tracing::warn!(position, kept = %rest.display(), "{}", lost.describe());
        kept = Some(rest);
    } else {
        note_torn(position, lost.bytes);
    }
    let wal = Wal::with_store_and_config(files.clone(), config(OpenPolicy::TruncateTail));
    Ok(ReadLog {
        wal: wal.map_err(failed)?,
        cut_bytes: lost.bytes,
        kept,
    })
}

/// Notes that the log ends at `end`, behind the begin of its term.
fn begin_note(own: &Reached, end: u64) -> Result<(), DurabilityError> {
    match own.read()? {
        // What was lost is set aside, and must not be missed again.
        Some(known) if known > end => own.write(end)?,
        Some(known) if known == end => {}
        // A full disk is no reason not to read what is there.
        _ => {
            if let Err(error) = own.write(end) {
                tracing::warn!(%error, "how far the log has come is not noted");
                return Ok(());
            }
        }
    }
    own.remove_earlier();
    Ok(())
}

fn strictly(files: &SharedFiles) -> Result<Wal<SharedFiles>, WalError> {
    Wal::with_store_and_config(files.clone(), config(OpenPolicy::Strict))
}

fn note_torn(position: u64, bytes: u64) {
    tracing::warn!(
        position,
        bytes,
        "the log was torn at its end, where nothing had been acknowledged: it was cut there"
    );
}

/// What is not there of the log at its beginning or before its checkpoint.
fn missing(files: &SharedFiles, checkpoint: u64) -> Result<Option<(u64, String)>, DurabilityError> {
    let first = files.0.first_position()?;
    Ok(match first {
        Some(first) if first > checkpoint => {
            let what = "files of the log are missing before that of the next position";
            Some((checkpoint, format!("{what}, {first}")))
        }
        _ if files.0.end() < checkpoint => {
            let what = "the log ends before the checkpoint, at position";
            Some((checkpoint, format!("{what} {}", files.0.end())))
        }
        _ => None,
    })
}
