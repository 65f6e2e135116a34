//! Statements about cursors.

use arrow::datatypes::SchemaRef;
use datafusion::physical_plan::RecordBatchStream;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use std::sync::Arc;

use super::{counted, done};
use crate::engine::metering::planned_bytes;
use crate::engine::session::Session;
use crate::engine::stream::{RowStream, StatementResult};
use crate::error::EngineError;
use crate::sql::{CursorCommand, SqlError, Statement};
use nearfar_table::transaction::{Transaction, TransactionError};

impl Session {
    pub(super) async fn run_on_cursors(
        &self,
        transaction: &Arc<Transaction>,
        command: &CursorCommand,
        parameters: &[ScalarValue],
    ) -> Result<StatementResult, EngineError> {
        match command {
            CursorCommand::Declare {
                name,
                is_held,
                query,
            } => {
                let given = (query.as_ref(), parameters);
                self.declare_cursor(transaction, name, given, *is_held)
                    .await
            }
            CursorCommand::Fetch {
                name,
                rows,
                is_move,
            } => {
                let portion = self.cursors.portion(name, *rows)?;
                let settings = self.settings();
                let memory = self.engine().query_memory().query(
                    settings.memory(),
                    settings.heap_tier(),
                    settings.memory_limit_bytes(),
                );
                let plan = Arc::new(EmptyExec::new(portion.schema()));
                let transaction = Arc::clone(transaction);
                let mut rows = RowStream::of_cursor(plan, Box::pin(portion), memory, transaction);
                if !is_move {
                    return Ok(StatementResult::Rows(rows));
                }
                let mut count = 0;
                while let Some(batch) = rows.next().await {
                    count += batch?.num_rows() as u64;
                }
                Ok(counted("MOVE", count))
            }
            CursorCommand::Close { name } => {
                self.cursors.close(name)?;
                Ok(done("CLOSE CURSOR"))
            }
            CursorCommand::CloseAll => {
                self.cursors.close_all();
                Ok(done("CLOSE CURSOR ALL"))
            }
        }
    }

    async fn declare_cursor(
        &self,
        transaction: &Arc<Transaction>,
        name: &str,
        (query, parameters): (&Statement, &[ScalarValue]),
        is_held: bool,
    ) -> Result<StatementResult, EngineError> {
        if !is_held && !transaction.is_explicit() {
            let statement = "DECLARE CURSOR";
            return Err(TransactionError::NoTransaction { statement }.into());
        }
        if self.cursors.has(name) {
            let name = name.to_owned();
            return Err(SqlError::CursorExists { name }.into());
        }
        let charge = self.charge("a cursor", planned_bytes(query.text()))?;
        let running = Box::pin(self.run_in(transaction, query, parameters));
        let StatementResult::Rows(rows) = running.await? else {
            let message = "a cursor of a query without rows".to_owned();
            return Err(EngineError::Internal { message });
        };
        self.cursors.add(name, rows, is_held, charge);
        if !transaction.is_explicit() {
            let held = self.hold_cursors().await;
            self.cursors.end(held.is_ok());
            held?;
        }
        Ok(done("DECLARE CURSOR"))
    }

    /// Reads the rows of cursors that outlive the transaction, which is about to end.
    pub(super) async fn hold_cursors(&self) -> Result<(), EngineError> {
        let charge = |bytes| self.charge("the rows of a cursor", bytes);
        self.cursors.hold(charge).await
    }

    /// The columns of a cursor, if there is one of this name.
    pub fn cursor_columns(&self, name: &str) -> Option<SchemaRef> {
        self.cursors.schema(name)
    }

    /// Ends a cursor, if there is one of this name.
    pub fn close_cursor(&self, name: &str) {
        // None is as good as one that is closed.
        let _ = self.cursors.close(name);
    }
}
