//! Statements about the session itself: settings, prepared statements, and `DISCARD`.

use datafusion::logical_expr::{Deallocate, LogicalPlan, Statement as Planned};
use std::sync::Arc;

use super::access::of_setting;
use super::done;
use super::transaction::alone;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::settings::Known;
use crate::sql::{SessionCommand, SqlError};
use nearfar_table::transaction::{Transaction, TransactionError};

/// Statements that a session may have prepared with `PREPARE`.
pub const PREPARED_MAX: usize = 10_000;

impl Session {
    /// Sets a setting as `SET name = value` does, for what a client says when it connects.
    ///
    /// # Errors
    /// [`SqlError::UnknownSetting`] and [`SqlError::FixedSetting`]; a value that the setting can't
    /// have; a setting of all sessions, where the session may not write.
    pub fn set(&self, name: &str, value: &str) -> Result<(), EngineError> {
        let transaction = self.current_transaction()?;
        let name = name.to_lowercase();
        self.check(&transaction, of_setting(&name)?)?;
        self.variables.set(&name, Some(value), false)
    }

    /// Sets a setting of the client's, or with none resets it, as `SET [LOCAL]` does.
    ///
    /// # Errors
    /// A value that the setting can't have; a transaction that has failed.
    pub fn set_of_client(
        &self,
        name: &str,
        value: Option<&str>,
        is_local: bool,
    ) -> Result<(), EngineError> {
        if let Some(transaction) = self.open.lock().as_ref()
            && transaction.has_failed()
        {
            return Err(TransactionError::Failed.into());
        }
        self.variables.set(name, value, is_local)
    }

    /// The value of a setting of Nearfar, as text; none where there is no such setting.
    pub fn own_setting(&self, name: &str) -> Option<String> {
        match Known::find(name) {
            Ok(Known::Own(setting)) => Some((setting.show)(&self.settings())),
            _ => None,
        }
    }

    pub(super) async fn run_session_command(
        &self,
        transaction: &Arc<Transaction>,
        command: &SessionCommand,
    ) -> Result<StatementResult, EngineError> {
        match command {
            SessionCommand::Set {
                name,
                value,
                is_local,
            } => {
                self.variables.set(name, value.as_deref(), *is_local)?;
                Ok(done("SET"))
            }
            SessionCommand::SetTransaction { modes } => {
                if let Some(isolation) = modes.isolation {
                    transaction.set_isolation(isolation)?;
                }
                if modes.is_read_only {
                    transaction.set_read_only();
                }
                Ok(done("SET"))
            }
            SessionCommand::SetConstraints { names, is_deferred } => {
                self.check_deferrable(names)?;
                transaction.set_defers_constraints(names, *is_deferred);
                self.hold_deferred(transaction).await?;
                Ok(done("SET CONSTRAINTS"))
            }
            SessionCommand::Reset { name } => {
                self.variables.set(name, None, false)?;
                Ok(done("RESET"))
            }
            SessionCommand::ResetAll => {
                self.variables.reset_all()?;
                Ok(done("RESET"))
            }
            SessionCommand::Deallocate { name } => {
                self.deallocate(name).await?;
                Ok(done("DEALLOCATE"))
            }
            SessionCommand::DeallocateAll => {
                self.deallocate_all().await?;
                Ok(done("DEALLOCATE ALL"))
            }
            SessionCommand::DiscardAll => {
                alone(transaction, "DISCARD ALL")?;
                self.variables.reset_all()?;
                self.deallocate_all().await?;
                self.recent.lock().clear();
                self.cursors.close_all();
                self.drop_temporary();
                Ok(done("DISCARD ALL"))
            }
            SessionCommand::DiscardTemporary => {
                alone(transaction, "DISCARD TEMP")?;
                self.drop_temporary();
                Ok(done("DISCARD TEMP"))
            }
            SessionCommand::Nothing { tag } => Ok(done(tag)),
        }
    }

    /// Whether `PREPARE` has prepared a statement of this name.
    pub fn has_prepared(&self, name: &str) -> bool {
        self.prepared.lock().contains_key(name)
    }

    /// Takes a name for a statement that is prepared.
    pub(super) fn check_new_prepared(&self, name: &str) -> Result<(), SqlError> {
        let prepared = self.prepared.lock();
        if prepared.contains_key(name) {
            let name = name.to_owned();
            return Err(SqlError::PreparedExists { name });
        }
        match prepared.len() < PREPARED_MAX {
            true => Ok(()),
            false => Err(SqlError::TooManyPrepared {
                limit: PREPARED_MAX,
            }),
        }
    }

    pub(in crate::engine) fn check_prepared(&self, name: &str) -> Result<(), SqlError> {
        match self.has_prepared(name) {
            true => Ok(()),
            false => Err(SqlError::UnknownPrepared {
                name: name.to_owned(),
            }),
        }
    }

    async fn deallocate(&self, name: &str) -> Result<(), EngineError> {
        self.check_prepared(name)?;
        let plan = Planned::Deallocate(Deallocate {
            name: name.to_owned(),
        });
        let plan = LogicalPlan::Statement(plan);
        self.context().execute_logical_plan(plan).await?;
        self.prepared.lock().remove(name);
        Ok(())
    }

    async fn deallocate_all(&self) -> Result<(), EngineError> {
        let names: Vec<String> = self.prepared.lock().keys().cloned().collect();
        for name in names {
            self.deallocate(&name).await?;
        }
        Ok(())
    }

    /// Drops the session's temporary tables and views.
    fn drop_temporary(&self) {
        for (name, _) in self.temporary().all() {
            self.temporary().remove(&name);
        }
    }
}
