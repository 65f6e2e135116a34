//! Transactions of a session.

use datafusion::execution::context::SessionState;
use std::sync::Arc;

use super::done;
use crate::engine::catalog::Draft;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::settings::{Given, Settings};
use crate::sql::{TransactionCommand, TransactionModes};
use nearfar_table::transaction::{Isolation, Transaction, TransactionError};

impl Session {
    /// Begins or ends a transaction. As in PostgreSQL, one that has begun goes on if it is begun
    /// again, ending one where there is none does nothing, and the `COMMIT` of one that has failed
    /// is a `ROLLBACK`.
    pub(super) async fn control_transaction(
        &self,
        command: &TransactionCommand,
    ) -> Result<StatementResult, EngineError> {
        if let Some(result) = self.control(command)? {
            return Ok(result);
        }
        let Some(transaction) = self.open.lock().clone() else {
            tracing::warn!("there is no transaction in progress");
            return Ok(done("COMMIT"));
        };
        let _closing = Closing(self);
        if transaction.has_failed() {
            transaction.roll_back();
            return Ok(done("ROLLBACK"));
        }
        if let Err(error) = self.hold_cursors().await {
            transaction.roll_back();
            return Err(error);
        }
        self.commit_open(transaction).await?;
        self.note_end(true);
        Ok(done("COMMIT"))
    }

    /// Commits the open transaction.
    pub(super) async fn commit_open(
        &self,
        transaction: Arc<Transaction>,
    ) -> Result<(), EngineError> {
        let held = match self.hold_references(&transaction, true).await {
            Ok(()) => self.wait_to_commit(&transaction).await,
            failed => failed,
        };
        if let Err(error) = held {
            transaction.roll_back();
            return Err(error);
        }
        match transaction.definitions_as::<Draft>() {
            Some(draft) => self.commit_definitions(transaction, draft).await,
            None => Ok(transaction.commit_async(&self.gate).await?),
        }
    }

    /// Commits with what was defined.
    async fn commit_definitions(
        &self,
        transaction: Arc<Transaction>,
        draft: Arc<Draft>,
    ) -> Result<(), EngineError> {
        let (engine, gate) = (Arc::clone(self.engine()), Arc::clone(&self.gate));
        let tables = Arc::clone(self.tables());
        // From the gate on it comes to its end, whether or not somebody waits for it.
        let committed = tokio::task::spawn_blocking(move || {
            let committed = engine.commit_definitions(&gate, (&transaction, &draft), &tables);
            committed.inspect_err(|_| transaction.roll_back())
        });
        committed.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })?
    }

    /// The same for all but `COMMIT`, which alone can take its time: none, and nothing is done.
    pub(super) fn control(
        &self,
        command: &TransactionCommand,
    ) -> Result<Option<StatementResult>, EngineError> {
        let result = match command {
            TransactionCommand::Commit => return Ok(None),
            TransactionCommand::Begin(modes) => self.begin(*modes)?,
            TransactionCommand::Rollback => {
                match self.open.lock().take() {
                    Some(transaction) => transaction.roll_back(),
                    None => tracing::warn!("there is no transaction in progress"),
                }
                self.note_end(false);
                done("ROLLBACK")
            }
            TransactionCommand::Savepoint(name) => {
                self.of_several("SAVEPOINT")?.set_savepoint(name);
                self.variables.set_savepoint(name);
                self.cursors.set_savepoint(name);
                done("SAVEPOINT")
            }
            TransactionCommand::Release(name) => {
                self.of_several("RELEASE SAVEPOINT")?
                    .release_savepoint(name)?;
                self.variables.release(name);
                self.cursors.release(name);
                done("RELEASE")
            }
            TransactionCommand::RollbackTo(name) => {
                let open = self.open.lock().clone();
                let statement = "ROLLBACK TO SAVEPOINT";
                open.ok_or(TransactionError::NoTransaction { statement })?
                    .roll_back_to(name)?;
                self.variables.roll_back_to(name);
                self.cursors.roll_back_to(name);
                done("ROLLBACK")
            }
        };
        Ok(Some(result))
    }

    /// Has what is the session's, and not the transaction's, follow the end of one.
    pub(super) fn note_end(&self, is_committed: bool) {
        self.variables.end(is_committed);
        self.cursors.end(is_committed);
    }

    fn begin(&self, modes: TransactionModes) -> Result<StatementResult, EngineError> {
        let mut open = self.open.lock();
        if let Some(transaction) = open.as_ref() {
            if transaction.has_failed() {
                return Err(TransactionError::Failed.into());
            }
            tracing::warn!("there is a transaction in progress, which goes on");
        } else {
            let database = self.engine().database();
            let is_read_only = modes.is_read_only || self.options().is_read_only;
            let isolation = modes.isolation.unwrap_or(self.settings().isolation());
            *open = Some(Transaction::explicit(database, isolation, is_read_only));
            self.variables.begin();
        }
        Ok(done("BEGIN"))
    }

    /// The transaction that `BEGIN` began, which goes on; one that can't fails with the statement.
    fn of_several(&self, statement: &'static str) -> Result<Arc<Transaction>, EngineError> {
        match self.open.lock().as_ref() {
            Some(transaction) if transaction.has_failed() => Err(TransactionError::Failed.into()),
            Some(transaction) => Ok(Arc::clone(transaction)),
            None => Err(TransactionError::NoTransaction { statement }.into()),
        }
    }

    /// What the statements of the open transaction read; of the next one, where there is none.
    pub fn isolation(&self) -> Isolation {
        let open = self.open.lock().clone();
        open.map_or_else(|| self.settings().isolation(), |open| open.isolation())
    }

    /// Has the open transaction, of which no statement has read anything, read what a level says.
    ///
    /// # Errors
    /// A level that there is not, or that comes too late.
    pub fn set_isolation(&self, level: &str) -> Result<(), EngineError> {
        let name = "transaction_isolation";
        let isolation = Given { name, text: level }.isolation()?;
        Ok(self.current_transaction()?.set_isolation(isolation)?)
    }

    /// The transaction that the next statement is part of, which reads what that is to read.
    pub(in crate::engine) fn current_transaction(&self) -> Result<Arc<Transaction>, EngineError> {
        let open = self.open.lock().clone();
        match open {
            Some(transaction) if transaction.has_failed() => Err(TransactionError::Failed.into()),
            Some(transaction) => {
                let refreshed = transaction.refresh();
                refreshed.inspect_err(|_| transaction.fail())?;
                Ok(transaction)
            }
            None if self.with_settings(Settings::isolation) == Isolation::Serializable => {
                let is_read_only = self.options().is_read_only;
                let database = self.engine().database();
                Ok(Transaction::of_serializable_statement(
                    database,
                    is_read_only,
                ))
            }
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

/// Closes the session's transaction when it is dropped, whatever became of it.
pub(super) struct Closing<'a>(pub &'a Session);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.open.lock().take();
        // Behind a commit there is nothing left to undo.
        self.0.note_end(false);
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
