//! The data directory of an open engine.

use parking_lot::Mutex;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use super::checkpoints::{Checkpoints, TakeManifest};
use super::directory::DataDirectory;
use super::open_log::Log;
use super::options::{DataOptions, Origin};
use super::recovery::OpenedLog;
use super::replay::Definitions;
use super::term::Term;
use crate::checkpoint::directory as checkpoint;
use crate::checkpoint::pooled::{Publication, TablePool};
use crate::error::{DurabilityError, DurableError};
use crate::manifest::DatabaseManifest;
use nearfar_table::transaction::Database;

/// The data directory of an engine: its log, and the thread that writes it to disk where nobody else does.
#[derive(Debug)]
pub struct Durability {
    directory: DataDirectory,
    /// In whose numbers checkpoints are written.
    term: u64,
    log: Arc<Log>,
    writer: Mutex<Option<JoinHandle<()>>>,
    checkpoints: OnceLock<Checkpoints>,
    checkpoint_at_end: bool,
    origin: Origin,
    pool: Option<Arc<TablePool>>,
}

impl Durability {
    /// Makes `database` what the data directory says: what `pool` has of it, or the newest checkpoint,
    /// and what the log has behind that. Nothing is logged until the database is told of the log.
    ///
    /// # Errors
    /// [`DurabilityError`](crate::error::DurabilityError); memory that is refused.
    pub(crate) fn open(
        directory: DataDirectory,
        options: &DataOptions,
        database: &Arc<Database>,
        (pool, pooled): (Option<&Arc<TablePool>>, Option<Publication>),
    ) -> Result<(Self, Definitions), DurableError> {
        let term = Term::new(
            &directory,
            pool.map(Arc::as_ref),
            options.recover_until_damage,
        )?;
        let folder = directory.checkpoints();
        let newest = checkpoint::newest_of(&folder, |number| term.counts(number))?;
        let opened = OpenedLog::open(&directory, &term, options, newest.as_ref())?;
        if let Some(pool) = pool {
            pool.begin_term(term.identity);
        }
        let pooled = usable(pooled, &term, &opened)?;
        if let (Some(pool), Some(pooled)) = (pool, &pooled) {
            pool.go_on_from(pooled.log_position);
        }
        let (manifest, origin) = match (pooled, newest) {
            (Some(pooled), _) => (Some(pooled), Origin::Pool),
            (None, newest) => {
                let storage = database.storage();
                let read = newest.map(|newest| checkpoint::read(&folder, &newest, storage));
                (read.transpose()?, Origin::Directory)
            }
        };
        let start = manifest
            .as_ref()
            .map_or(0, |manifest| manifest.log_position);
        let restored = manifest.map(|manifest| Definitions::of_manifest(manifest, database));
        let restored = restored.unwrap_or_default();
        let (log, definitions) = opened.recover(options, database, (restored, start), pool)?;
        directory.share(pool.is_some())?;
        let log = Arc::new(log);
        let writer = write_in_background(&log).map_err(|error| {
            DurabilityError::io(
                "cannot start a thread for the log of",
                directory.path(),
                &error,
            )
        })?;
        let durability = Self {
            directory,
            term: term.number,
            log,
            writer: Mutex::new(Some(writer)),
            checkpoints: OnceLock::new(),
            checkpoint_at_end: options.checkpoint_at_end,
            origin,
            pool: pool.cloned(),
        };
        Ok((durability, definitions))
    }

    /// The log.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Where what comes before the log's tail was read.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// Writes checkpoints from now on, of what `take` says is committed. Once.
    pub fn start_checkpoints(
        &self,
        options: &DataOptions,
        database: &Arc<Database>,
        take: TakeManifest,
    ) {
        self.checkpoints.get_or_init(|| {
            let (log, database) = (Arc::clone(&self.log), Arc::clone(database));
            let place = (self.directory.checkpoints(), self.term);
            let source = (database, self.pool.clone());
            Checkpoints::start(place, options, log, source, take)
        });
    }

    /// Writes a checkpoint.
    ///
    /// # Errors
    /// A log or a disk that can't be written.
    pub fn checkpoint(&self) -> Result<(), DurableError> {
        match self.checkpoints.get() {
            Some(checkpoints) => checkpoints.write(),
            None => Ok(self.log.sync_to(self.log.end())?),
        }
    }

    /// The directory.
    pub fn path(&self) -> &std::path::Path {
        self.directory.path()
    }
}

impl Durability {
    /// Writes what is not on disk, a checkpoint where one is wanted, and nothing after that.
    pub fn close(&self) {
        if let Some(checkpoints) = self.checkpoints.get() {
            checkpoints.stop();
            let is_wanted = self.checkpoint_at_end && checkpoints.is_behind();
            if is_wanted
                && self.log.check().is_ok()
                && let Err(error) = checkpoints.write()
            {
                tracing::warn!(%error, "no checkpoint at the end: the log has what was committed");
            }
        }
        self.log.close();
        if self.log.check().is_ok()
            && let Err(error) = self.log.sync_to(self.log.end())
        {
            tracing::error!(%error, "the log could not be written at the end");
        }
        if self.log.check().is_ok() {
            self.log.note_reached();
        }
        self.log.finish();
        let writer = self.writer.lock().take();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the thread that writes the log has panicked");
        }
    }
}

impl Drop for Durability {
    fn drop(&mut self) {
        self.close();
    }
}

/// What a pool has, if the log goes on from there.
fn usable(
    pooled: Option<Publication>,
    term: &Term,
    opened: &OpenedLog,
) -> Result<Option<DatabaseManifest>, DurabilityError> {
    let Some(Publication {
        manifest,
        term: found,
    }) = pooled
    else {
        return Ok(None);
    };
    let position = manifest.log_position;
    let is_ahead = position > opened.end();
    if !is_ahead && !opened.has(position) {
        tracing::warn!(
            position,
            "the pool has fallen behind the data directory: it is filled anew"
        );
        return Ok(None);
    }
    if is_ahead || !term.follows(found, position, opened.end())? {
        tracing::warn!(
            position,
            "the log does not lead to what the pool has, as after a backup was put back: it is filled anew"
        );
        return Ok(None);
    }
    Ok(Some(manifest))
}

/// Writes the log to disk as often as its setting says, and for those who wait without a thread.
fn write_in_background(log: &Arc<Log>) -> io::Result<JoinHandle<()>> {
    let log = Arc::clone(log);
    let thread = thread::Builder::new().name("nearfar-log".to_owned());
    thread.spawn(move || {
        while log.wait_for_turn() {
            if let Err(error) = log.sync_in_background() {
                tracing::error!(%error, "the log can't be written to disk");
                return;
            }
        }
    })
}
