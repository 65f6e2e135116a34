//! Transactions of a session.

use datafusion::execution::context::SessionState;
use std::sync::Arc;

use super::done;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::settings::Settings;
use crate::sql::TransactionCommand;
use nearfar_table::transaction::{Transaction, TransactionError};

impl Session {
    /// Begins or ends a transaction. As in PostgreSQL, one that has begun goes on if it is begun
    /// again, ending one where there is none does nothing, and the `COMMIT` of one that has failed
    /// is a `ROLLBACK`.
    pub(super) async fn control_transaction(
        &self,
        command: TransactionCommand,
    ) -> Result<StatementResult, EngineError> {
        match command {
            TransactionCommand::Begin { is_read_only } => self.begin(is_read_only),
            TransactionCommand::Commit => {
                let ended = self.open.lock().take();
                match ended {
                    Some(transaction) if transaction.has_failed() => Ok(done("ROLLBACK")),
                    Some(transaction) => {
                        transaction.commit_async(&self.gate).await?;
                        Ok(done("COMMIT"))
                    }
                    None => {
                        tracing::warn!("there is no transaction in progress");
                        Ok(done("COMMIT"))
                    }
                }
            }
            TransactionCommand::Rollback => Ok(self.roll_back()),
        }
    }

    pub(super) fn begin(&self, is_read_only: bool) -> Result<StatementResult, EngineError> {
        let mut open = self.open.lock();
        if let Some(transaction) = open.as_ref() {
            if transaction.has_failed() {
                return Err(TransactionError::Failed.into());
            }
            tracing::warn!("there is a transaction in progress, which goes on");
        } else {
            let database = self.engine().database();
            let is_read_only = is_read_only || self.options().is_read_only;
            *open = Some(Transaction::explicit(database, is_read_only));
        }
        Ok(done("BEGIN"))
    }

    pub(super) fn roll_back(&self) -> StatementResult {
        if self.open.lock().take().is_none() {
            tracing::warn!("there is no transaction in progress");
        }
        done("ROLLBACK")
    }

    /// The transaction that the next statement is part of.
    pub(in crate::engine) fn current_transaction(
        &self,
    ) -> Result<Arc<Transaction>, TransactionError> {
        match self.open.lock().as_ref() {
            Some(transaction) if transaction.has_failed() => Err(TransactionError::Failed),
            Some(transaction) => Ok(Arc::clone(transaction)),
            None if self.options().is_read_only => {
                Ok(Transaction::of_reader(self.engine().database()))
            }
            None => Ok(Transaction::of_statement(self.engine().database())),
        }
    }
}

/// `state` for one statement: its scans read what `transaction` reads, its rows become part of it, and
/// it has memory of its own.
pub(in crate::engine) fn within(
    transaction: &Arc<Transaction>,
    mut state: SessionState,
) -> SessionState {
    let config = state.config_mut();
    config.set_extension(Arc::clone(transaction));
    let extensions = &mut config.options_mut().extensions;
    if let Some(settings) = extensions.get_mut::<Settings>() {
        settings.begin_statement();
    }
    // Expressions are made with these options.
    let options = Arc::clone(state.config().options());
    state.execution_props_mut().config_options = Some(options);
    state
}

/// Refuses what can't be undone within a transaction that goes on.
pub(super) fn alone(transaction: &Transaction, statement: &str) -> Result<(), TransactionError> {
    match transaction.is_explicit() {
        true => Err(TransactionError::NotInTransaction {
            statement: statement.to_owned(),
        }),
        false => Ok(()),
    }
}

/// Fails a transaction when its statement ends without a result, by an error or because it was given
/// up.
pub(super) struct FailOnDrop(pub Option<Arc<Transaction>>);

impl FailOnDrop {
    /// The statement has a result.
    pub fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for FailOnDrop {
    fn drop(&mut self) {
        if let Some(transaction) = &self.0 {
            transaction.fail();
        }
    }
}
