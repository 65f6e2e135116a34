//! Statements that are run on the thread that has read them, without a wait.

use datafusion::common::ScalarValue;
use std::fmt;
use std::sync::Arc;

use super::{Attempt, Compiled, Outcome};
use crate::engine::execute::done;
use crate::engine::execute::transaction::FailOnDrop;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::sql::{Statement, StatementKind, TransactionCommand};
use nearfar_table::table::Table;
use nearfar_table::transaction::{CloseOnDrop, CommitGate, Transaction, WaitingCommit};

/// What became of a statement that was to be run without a wait.
#[derive(Debug)]
pub enum Immediate {
    /// It has run.
    Ran(Box<Ran>),
    /// Nothing: its rows are another transaction's, or it is to be held against foreign keys, whose rows may be.
    /// [`Session::run_unplanned`] waits for them.
    Blocked,
    /// Nothing: it may take its time.
    NotNow,
}

/// A statement that has run, whose commit others perhaps see only once it is on disk. If it is dropped before, it
/// comes to that too.
pub struct Ran {
    result: StatementResult,
    commit: Option<WaitingCommit>,
}

impl fmt::Debug for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ran")
            .field("commit", &self.commit)
            .finish_non_exhaustive()
    }
}

impl Immediate {
    /// What the statement has given, which keeps the thread until its commit is on disk. None if it has not run.
    ///
    /// # Errors
    /// As [`Ran::wait`].
    pub fn wait(self) -> Result<Option<StatementResult>, EngineError> {
        match self {
            Self::Ran(ran) => ran.wait().map(Some),
            Self::Blocked | Self::NotNow => Ok(None),
        }
    }
}

impl Ran {
    /// Whether it waits for the disk.
    pub fn is_waiting(&self) -> bool {
        self.commit.as_ref().is_some_and(WaitingCommit::is_waiting)
    }

    /// What the statement has given. Keeps the thread until the commit is on disk.
    ///
    /// # Errors
    /// A disk that can't be written.
    pub fn wait(self) -> Result<StatementResult, EngineError> {
        self.commit.map_or(Ok(()), WaitingCommit::wait)?;
        Ok(self.result)
    }

    /// The same without keeping the thread.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub async fn settled(self) -> Result<StatementResult, EngineError> {
        if let Some(commit) = self.commit {
            commit.settled().await?;
        }
        Ok(self.result)
    }
}

impl Session {
    /// Runs a statement up to where its commit waits for the disk, if it is one that is not planned again and all that
    /// it needs is in memory: what takes no longer than handing it over to another thread.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_immediately(
        &self,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<Immediate, EngineError> {
        if let StatementKind::Transaction(command) = statement.kind() {
            return self.control_immediately(command);
        }
        let compiled = self.compiled(statement);
        let Some(compiled) = compiled.filter(|_| self.is_soon_refreshed()) else {
            return Ok(Immediate::NotNow);
        };
        let transaction = self.current_transaction()?;
        if compiled.has_references() {
            return Ok(match compiled.is_held_by_keys(self, &transaction) {
                true => Immediate::Blocked,
                false => Immediate::NotNow,
            });
        }
        if meets_locked(&compiled, &transaction) {
            return Ok(Immediate::NotNow);
        }
        let failing = FailOnDrop(Some(Arc::clone(&transaction)));
        let immediate = match self.attempt(&compiled, &transaction, parameters)? {
            Attempt::Done(outcome) => match self.ran(&compiled, outcome, transaction)? {
                Some(ran) => Immediate::Ran(Box::new(ran)),
                None => Immediate::NotNow,
            },
            Attempt::Blocked(..) => Immediate::Blocked,
            Attempt::Unknown => Immediate::NotNow,
        };
        failing.forget();
        Ok(immediate)
    }

    /// Commits a statement that is all there is, but for the disk. None where that takes a wait, and nothing is done.
    fn ran(
        &self,
        compiled: &Compiled,
        outcome: Outcome,
        transaction: Arc<Transaction>,
    ) -> Result<Option<Ran>, EngineError> {
        let commit = match compiled.changes_rows() && !transaction.is_explicit() {
            true => match transaction.try_commit(&self.gate)? {
                None => return Ok(None),
                commit => commit,
            },
            false => None,
        };
        transaction.note_query();
        let result = self.result_of(compiled, outcome, transaction);
        Ok(Some(Ran { result, commit }))
    }

    /// Whether the transaction that is open, if there is one, has changed so little that it soon reads what
    /// its next statement is to read, and has defined nothing that its changes have to be held against.
    fn is_soon_refreshed(&self) -> bool {
        let open = self.open.lock();
        open.as_ref()
            .is_none_or(|open| open.is_small() && open.definitions().is_none())
    }

    /// Runs a statement to its end as [`Self::run_behind`] does, if it is one that is not planned again, and keeps no
    /// thread while it waits for locks of rows or for the disk. None where it may take its time otherwise, and nothing
    /// is done.
    ///
    /// # Errors
    /// As [`Self::run_behind`].
    pub async fn run_unplanned(
        &self,
        gate: &Arc<CommitGate>,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<Option<StatementResult>, EngineError> {
        let _closing = CloseOnDrop(Arc::clone(gate));
        let session = self.behind(gate);
        let Some(compiled) = session.compiled(statement) else {
            return Ok(None);
        };
        let transaction = session.current_transaction()?;
        if meets_locked(&compiled, &transaction) {
            return Ok(None);
        }
        let failing = FailOnDrop(Some(Arc::clone(&transaction)));
        let ran = loop {
            // Looked at again behind each wait, during which others may define something.
            if compiled.has_references() && !compiled.is_held_by_keys(&session, &transaction) {
                break None;
            }
            match session.attempt(&compiled, &transaction, parameters)? {
                Attempt::Done(outcome) => {
                    let ends = !transaction.is_explicit();
                    session.hold_references(&transaction, ends).await?;
                    break session.ran(&compiled, outcome, transaction)?;
                }
                Attempt::Blocked(table, rows, mode) => {
                    session.locked(&transaction, &table, (&rows, mode)).await?;
                }
                Attempt::Unknown => break None,
            }
        };
        let result = match ran {
            Some(ran) => Some(ran.settled().await?),
            None => None,
        };
        failing.forget();
        Ok(result)
    }

    /// Begins or ends a transaction.
    fn control_immediately(&self, command: &TransactionCommand) -> Result<Immediate, EngineError> {
        let ran = |result, commit| Immediate::Ran(Box::new(Ran { result, commit }));
        if let Some(result) = self.control(command)? {
            return Ok(ran(result, None));
        }
        let mut open = self.open.lock();
        let Some(transaction) = open.as_ref() else {
            return Ok(Immediate::NotNow);
        };
        if !transaction.tables_to_wait_for().is_empty()
            || self.cursors.has_to_hold()
            || !transaction.is_small()
            || transaction.has_failed()
            || transaction.has_deferred_steps()
        {
            return Ok(Immediate::NotNow);
        }
        let committed = transaction.try_commit(&self.gate);
        // An error is its end too.
        if !matches!(committed, Ok(None)) {
            open.take();
            self.note_end(committed.is_ok());
        }
        Ok(match committed? {
            Some(commit) => ran(done("COMMIT"), Some(commit)),
            None => Immediate::NotNow,
        })
    }
}

/// Whether somebody has locked a table of a statement.
fn meets_locked(compiled: &Compiled, transaction: &Transaction) -> bool {
    let is_locked = |table: &Arc<Table>| transaction.meets_locked(table.id());
    transaction.meets_locked_tables() && compiled.tables().0.iter().any(is_locked)
}
