//! Statements about the session itself: settings, prepared statements, and `DISCARD`.

use datafusion::logical_expr::{
    Deallocate, LogicalPlan, ResetVariable, SetVariable, Statement as Planned,
};
use std::sync::Arc;

use super::access::of_setting;
use super::done;
use super::transaction::alone;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::settings::{Given, Known, Scope, all_settings, library_values};
use crate::sql::{SessionCommand, SqlError};
use nearfar_table::transaction::Transaction;

/// Statements that a session may have prepared with `PREPARE`.
pub const PREPARED_MAX: usize = 10_000;

impl Session {
    /// Sets a setting as `SET name = value` does, for what a client says when it connects.
    ///
    /// # Errors
    /// [`SqlError::UnknownSetting`] and [`SqlError::FixedSetting`]; a value that the setting can't
    /// have; a setting of all sessions, where the session may not write.
    pub async fn set(&self, name: &str, value: &str) -> Result<(), EngineError> {
        let transaction = self.current_transaction()?;
        let name = name.to_lowercase();
        self.check(&transaction, of_setting(&name)?)?;
        self.set_setting(&name, Some(value)).await
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
            SessionCommand::Set { name, value } => {
                self.set_setting(name, Some(value)).await?;
                Ok(done("SET"))
            }
            SessionCommand::SetIsolation { isolation } => {
                transaction.set_isolation(*isolation)?;
                Ok(done("SET"))
            }
            SessionCommand::SetConstraints { is_deferred } => {
                transaction.set_defers_constraints(*is_deferred);
                self.hold_references(transaction, !is_deferred).await?;
                Ok(done("SET CONSTRAINTS"))
            }
            SessionCommand::Reset { name } => {
                self.set_setting(name, None).await?;
                Ok(done("RESET"))
            }
            SessionCommand::ResetAll => {
                self.reset_all().await?;
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
                self.reset_all().await?;
                self.deallocate_all().await?;
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

    /// Gives a setting a value, or the one that it had at first; the right to is checked before.
    async fn set_setting(&self, name: &str, value: Option<&str>) -> Result<(), EngineError> {
        match Known::find(name)? {
            Known::Own(setting) => {
                let state = self.context().state_ref();
                let mut state = state.write();
                let options = state.config_mut().options_mut();
                let name = format!("nearfar.{}", setting.name);
                Ok(options.set(&name, value.unwrap_or_default())?)
            }
            Known::Library(setting) => {
                let name = setting.name;
                let value = match value {
                    Some(text) => {
                        let given = Given { name, text };
                        Some(setting.allowed.check(&given, self.engine().threads())?)
                    }
                    None => self.library_defaults.get(name).cloned().flatten(),
                };
                self.set_of_library(name, value).await
            }
        }
    }

    /// Has DataFusion set a setting, which makes the functions known anew that read it.
    async fn set_of_library(&self, name: &str, value: Option<String>) -> Result<(), EngineError> {
        let variable = name.to_owned();
        let plan = match value {
            Some(value) => Planned::SetVariable(SetVariable { variable, value }),
            None => Planned::ResetVariable(ResetVariable { variable }),
        };
        let plan = LogicalPlan::Statement(plan);
        self.context().execute_logical_plan(plan).await?;
        Ok(())
    }

    /// Gives all settings that are the session's own the values that they had at first. Those of all
    /// sessions stay as they are: drivers and poolers send this by themselves.
    async fn reset_all(&self) -> Result<(), EngineError> {
        let own = all_settings().filter(|setting| setting.scope == Scope::Session);
        for setting in own {
            self.set_setting(setting.name, None).await?;
        }
        let values = library_values(self.context().state_ref().read().config_options());
        let is_first = |name, value| self.library_defaults.get(name) == Some(value);
        for (name, _) in values
            .iter()
            .filter(|(name, value)| !is_first(**name, *value))
        {
            self.set_setting(name, None).await?;
        }
        Ok(())
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

    pub(super) fn check_prepared(&self, name: &str) -> Result<(), SqlError> {
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
