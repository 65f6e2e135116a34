//! The data directory of an open engine.

use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::directory::DataDirectory;
use super::log::Log;
use super::options::DataOptions;
use super::recovery::recover;
use super::replay::Definitions;
use super::sync::LogSync;
use crate::error::StoreError;
use crate::transaction::Database;

/// The data directory of an engine: its log, and the thread that writes it to disk now and then.
#[derive(Debug)]
pub(crate) struct Durability {
    directory: DataDirectory,
    log: Arc<Log>,
    writer: Mutex<Option<JoinHandle<()>>>,
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
        let directory = DataDirectory::open(&options.directory)?;
        let (log, definitions) = recover(&directory, options, database, Definitions::default(), 0)?;
        let log = Arc::new(log);
        let writer = Mutex::new(write_in_background(&log));
        let durability = Self {
            directory,
            log,
            writer,
        };
        Ok((durability, definitions))
    }

    /// The log.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Writes a savepoint.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        Ok(self.log.sync_to(self.log.end())?)
    }

    /// The directory.
    pub fn path(&self) -> &std::path::Path {
        self.directory.path()
    }
}

impl Drop for Durability {
    fn drop(&mut self) {
        self.log.close();
        if let Err(error) = self.log.sync_to(self.log.end()) {
            tracing::error!(%error, "the log could not be written at the end");
        }
        let writer = self.writer.lock().take();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the thread that writes the log has panicked");
        }
    }
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
