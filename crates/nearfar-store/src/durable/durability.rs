//! The data directory of an open engine.

use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use super::directory::DataDirectory;
use super::log::Log;
use super::options::DataOptions;
use super::recovery::{Savepoint, recover};
use super::replay::Definitions;
use super::savepoints::{Savepoints, TakeImage};
use super::sync::LogSync;
use super::term::Term;
use crate::error::StoreError;
use crate::savepoint::directory as savepoint;
use crate::savepoint::pooled::TablePool;
use crate::transaction::Database;

/// The data directory of an engine: its log, and the thread that writes it to disk now and then.
#[derive(Debug)]
pub(crate) struct Durability {
    directory: DataDirectory,
    /// In whose numbers savepoints are written.
    term: u64,
    log: Arc<Log>,
    writer: Mutex<Option<JoinHandle<()>>>,
    savepoints: OnceLock<Savepoints>,
    savepoint_at_end: bool,
}

impl Durability {
    /// Opens the data directory and makes `database` what it says. Nothing is logged until the
    /// database is told of the log.
    ///
    /// # Errors
    /// [`DurabilityError`](super::DurabilityError); memory that is refused.
    pub fn open(
        options: &DataOptions,
        database: &Arc<Database>,
    ) -> Result<(Self, Definitions), StoreError> {
        let pool = database.storage().pool.as_deref();
        let directory = DataDirectory::open(&options.directory, pool.map(TablePool::id))?;
        let term = Term::new(&directory, pool)?;
        let (restored, savepoint) = restore(&directory, &term, database)?;
        let from = (&directory, &term, savepoint);
        let (log, definitions) = recover(from, options, database, restored)?;
        directory.share(pool.is_some())?;
        let log = Arc::new(log);
        let writer = Mutex::new(write_in_background(&log));
        let durability = Self {
            directory,
            term: term.number,
            log,
            writer,
            savepoints: OnceLock::new(),
            savepoint_at_end: options.savepoint_at_end,
        };
        Ok((durability, definitions))
    }

    /// The log.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Writes savepoints from now on, of what `take` says is committed. Once.
    pub fn start_savepoints(
        &self,
        options: &DataOptions,
        database: &Arc<Database>,
        take: TakeImage,
    ) {
        self.savepoints.get_or_init(|| {
            let (log, database) = (Arc::clone(&self.log), Arc::clone(database));
            let place = (self.directory.savepoints(), self.term);
            Savepoints::start(place, options, log, database, take)
        });
    }

    /// Writes a savepoint.
    ///
    /// # Errors
    /// A log or a disk that can't be written.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        match self.savepoints.get() {
            Some(savepoints) => savepoints.write(),
            None => Ok(self.log.sync_to(self.log.end())?),
        }
    }

    /// The directory.
    pub fn path(&self) -> &std::path::Path {
        self.directory.path()
    }
}

impl Durability {
    /// Writes what is not on disk, a savepoint where one is wanted, and nothing after that.
    pub fn close(&self) {
        if let Some(savepoints) = self.savepoints.get() {
            savepoints.stop();
            let is_wanted = self.savepoint_at_end && savepoints.is_behind();
            if is_wanted
                && self.log.check().is_ok()
                && let Err(error) = savepoints.write()
            {
                tracing::warn!(%error, "no savepoint at the end: the log has what was committed");
            }
        }
        self.log.close();
        if self.log.check().is_ok()
            && let Err(error) = self.log.sync_to(self.log.end())
        {
            tracing::error!(%error, "the log could not be written at the end");
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

/// What the newest savepoint holds, and the position of the log that it was taken at.
fn restore(
    directory: &DataDirectory,
    term: &Term,
    database: &Arc<Database>,
) -> Result<(Definitions, Savepoint), StoreError> {
    let folder = directory.savepoints();
    let Some(newest) = savepoint::newest_of(&folder, |number| term.counts(number))? else {
        return Ok((Definitions::default(), Savepoint::default()));
    };
    let image = savepoint::read(&folder, &newest, database.storage())?;
    let read = Savepoint {
        number: newest.number,
        position: image.log_position,
    };
    let definitions = Definitions::of_image(image, database);
    Ok((definitions, read))
}

/// Writes the log to disk as often as its setting says.
fn write_in_background(log: &Arc<Log>) -> Option<JoinHandle<()>> {
    let log = Arc::clone(log);
    let thread = std::thread::Builder::new().name("nearfar-log".to_owned());
    let started = thread.spawn(move || {
        while log.wait_for_turn() {
            if matches!(log.sync_setting(), LogSync::Every(_))
                && let Err(error) = log.sync_to(log.end())
            {
                tracing::error!(%error, "the log can't be written to disk");
                return;
            }
        }
    });
    started
        .inspect_err(|error| tracing::error!(%error, "no thread for the log"))
        .ok()
}
