//! `CALL nearfar.merge('table')`, `CALL nearfar.load('table')` and `CHECKPOINT`.

use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::alter::{CancelOnDrop, table_reference};
use super::{counted, done};
use crate::engine::preload::unloaded_columns;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use nearfar_table::transaction::MergeScope;

impl Session {
    /// Merges all that was written to a table, while queries and transactions go on.
    pub(super) async fn merge_table(
        &self,
        name: &ObjectName,
    ) -> Result<StatementResult, EngineError> {
        let table = self.memory_table(&table_reference(name)?).await?;
        let database = Arc::clone(self.engine().database());
        let cancelled = CancelOnDrop::default();
        let stop = Arc::clone(&cancelled.0);
        let merged = tokio::task::spawn_blocking(move || {
            let go_on = || !stop.load(Ordering::Relaxed);
            table.merge(&database, database.storage(), MergeScope::All, &go_on)
        });
        let rows = merged.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })??;
        Ok(counted("MERGE", rows))
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
