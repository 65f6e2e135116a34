//! The data directory of an open engine.

use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use super::directory::DataDirectory;
use super::log::Log;
use super::options::DataOptions;
use super::recovery::recover;
use super::replay::Definitions;
use super::savepoints::{Savepoints, TakeImage};
use super::store::LogFiles;
use super::sync::LogSync;
use crate::error::StoreError;
use crate::image::DatabaseImage;
use crate::savepoint::directory as savepoint;
use crate::transaction::Database;

/// The data directory of an engine: its log, and the thread that writes it to disk now and then.
#[derive(Debug)]
pub(crate) struct Durability {
    directory: DataDirectory,
    log: Arc<Log>,
    writer: Mutex<Option<JoinHandle<()>>>,
    savepoints: OnceLock<Savepoints>,
    savepoint_at_end: bool,
}

impl Durability {
    /// Makes `database` what the data directory says: what a pool has of it, or the newest savepoint,
    /// and what the log has behind that. Nothing is logged until the database is told of the log.
    ///
    /// # Errors
    /// [`DurabilityError`](super::DurabilityError); memory that is refused.
    pub fn open(
        directory: DataDirectory,
        options: &DataOptions,
        database: &Arc<Database>,
        pooled: Option<DatabaseImage>,
    ) -> Result<(Self, Definitions), StoreError> {
        let (restored, position) = restore(&directory, options, database, pooled)?;
        let (log, definitions) = recover(&directory, options, database, restored, position)?;
        let log = Arc::new(log);
        let writer = Mutex::new(write_in_background(&log));
        let durability = Self {
            directory,
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
            Savepoints::start(self.directory.savepoints(), options, log, database, take)
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

impl Drop for Durability {
    fn drop(&mut self) {
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

/// What a pool has of the tables, if the log goes on from there, or the newest savepoint; and the
/// position of the log that it was taken at.
fn restore(
    directory: &DataDirectory,
    options: &DataOptions,
    database: &Arc<Database>,
    pooled: Option<DatabaseImage>,
) -> Result<(Definitions, u64), StoreError> {
    let folder = directory.savepoints();
    let newest = savepoint::newest(&folder)?;
    let oldest = newest.as_ref().map_or(0, |newest| newest.log_position);
    let end = LogFiles::open(&directory.log(), oldest, Arc::clone(&options.faults))?.end();
    let image = match (pooled, newest) {
        (Some(pooled), _) if (oldest..=end).contains(&pooled.log_position) => pooled,
        (pooled, newest) => {
            if let Some(pooled) = pooled {
                let position = pooled.log_position;
                tracing::warn!(
                    position,
                    oldest,
                    end,
                    "the pool has fallen behind: it is not used"
                );
            }
            let Some(newest) = newest else {
                return Ok((Definitions::default(), 0));
            };
            savepoint::read(&folder, &newest, database.storage())?
        }
    };
    let log_position = image.log_position;
    let definitions = Definitions::of_image(image, database);
    Ok((definitions, log_position))
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
