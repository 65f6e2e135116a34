//! `CALL nearfar.merge('table')`, `nearfar.load`, `nearfar.check`, and `CHECKPOINT`.

use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::alter::{CancelOnDrop, table_reference};
use super::{counted, done};
use crate::engine::preload::unloaded_columns;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use nearfar_table::table::Table;
use nearfar_table::transaction::{MergeScope, Transaction};

impl Session {
    /// Merges all that was written to a table, while queries and transactions go on.
    pub(super) async fn merge_table(
        &self,
        name: &ObjectName,
    ) -> Result<StatementResult, EngineError> {
        let table = self.memory_table(&table_reference(name)?).await?;
        Ok(counted("MERGE", self.merge_all(&table).await?))
    }

    /// The same for a table; the rows that were written.
    pub(super) async fn merge_all(&self, table: &Arc<Table>) -> Result<u64, EngineError> {
        let table = Arc::clone(table);
        let database = Arc::clone(self.engine().database());
        let cancelled = CancelOnDrop::default();
        let stop = Arc::clone(&cancelled.0);
        let merged = tokio::task::spawn_blocking(move || {
            let go_on = || !stop.load(Ordering::Relaxed);
            table.merge(&database, database.storage(), MergeScope::All, &go_on)
        });
        let rows = merged.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })?;
        Ok(rows?)
    }

    /// Brings to memory what is not there yet of a table, in the order of its columns' priorities.
    pub(super) async fn load_table(
        &self,
        name: &ObjectName,
    ) -> Result<StatementResult, EngineError> {
        let table = self.memory_table(&table_reference(name)?).await?;
        let cancelled = CancelOnDrop::default();
        let stop = Arc::clone(&cancelled.0);
        let loaded = tokio::task::spawn_blocking(move || {
            let mut loaded = 0;
            for column in unloaded_columns(&table) {
                if stop.load(Ordering::Relaxed) {
                    let what = format!("loading {}", table.name());
                    return Err(EngineError::Cancelled { what });
                }
                column.load()?;
                loaded += 1;
            }
            Ok(loaded)
        });
        let columns = loaded.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })??;
        Ok(counted("LOAD", columns))
    }

    /// Compares a table, as the transaction sees it, with its indexes.
    pub(super) async fn check_table(
        &self,
        transaction: &Arc<Transaction>,
        name: &ObjectName,
    ) -> Result<StatementResult, EngineError> {
        let table = self.memory_table(&table_reference(name)?).await?;
        let snapshot = transaction.snapshot(&table)?;
        // Ended by the check's end at the earliest: entries of the rows that it reads stay until then.
        let transaction = Arc::clone(transaction);
        let checked = tokio::task::spawn_blocking(move || {
            let _reads = transaction;
            let mut indexes = snapshot.indexes().iter();
            indexes.try_for_each(|index| index.verify(&snapshot))?;
            Ok::<u64, EngineError>(snapshot.indexes().len() as u64)
        });
        let indexes = checked.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })??;
        Ok(counted("CHECK", indexes))
    }

    /// Writes a checkpoint, while queries and transactions go on.
    pub(super) async fn checkpoint(&self) -> Result<StatementResult, EngineError> {
        let engine = Arc::clone(self.engine());
        let written = tokio::task::spawn_blocking(move || engine.checkpoint());
        written.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })??;
        Ok(done("CHECKPOINT"))
    }
}
