//! Statements about the session of which the connection keeps a part: what was prepared by messages.

use std::collections::BTreeMap;

use nearfar_sql::engine::{CommandTag, Session, TransactionState};
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::{SessionCommand, SqlError, Statement};

use super::connection::Connection;
use super::failure::{Failure, state};
use super::settings::Settings;
use super::statement::Outcome;

impl Connection {
    /// What a statement is refused for, or answered with, by what the connection knows and the store
    /// does not: as in PostgreSQL, what SQL prepares and what messages prepare has one set of names.
    pub fn of_prepared(&mut self, statement: &Statement) -> Result<Option<Outcome>, Failure> {
        let exists = |name: &str| self.prepared.contains_key(name);
        match statement.session_command() {
            Some(SessionCommand::Deallocate { name }) if exists(name) => {
                self.check_not_failed()?;
                self.prepared.remove(name);
                let command = "DEALLOCATE";
                Ok(Some(Outcome::Done(CommandTag {
                    command,
                    rows: None,
                })))
            }
            _ => match statement.prepared_name().filter(|name| exists(name)) {
                Some(name) => Err(already_prepared(&name)),
                None => Ok(None),
            },
        }
    }

    /// Does to the connection what a statement, which has succeeded, has done to the session.
    pub fn follow(&mut self, command: &SessionCommand) {
        match command {
            SessionCommand::DeallocateAll => self.forget_prepared(),
            SessionCommand::DiscardAll => {
                self.forget_prepared();
                self.portals.clear();
                self.parsed.clear();
                self.recent.clear();
                self.shapes.clear();
            }
            SessionCommand::Set { .. }
            | SessionCommand::SetTransaction { .. }
            | SessionCommand::SetConstraints { .. }
            | SessionCommand::Reset { .. }
            | SessionCommand::ResetAll
            | SessionCommand::Deallocate { .. }
            | SessionCommand::DiscardTemporary
            | SessionCommand::Nothing { .. } => {}
        }
    }

    /// Forgets all statements that have names.
    fn forget_prepared(&mut self) {
        self.prepared.retain(|name, _| name.is_empty());
    }

    /// Refuses what comes after an error of a transaction.
    pub fn check_not_failed(&self) -> Result<(), Failure> {
        match self.session.transaction_state() {
            TransactionState::Failed => {
                let message =
                    "the transaction has failed, and its statements are refused until ROLLBACK";
                Err(Failure::new(state::FAILED_TRANSACTION, message))
            }
            TransactionState::Idle | TransactionState::Open => Ok(()),
        }
    }
}

/// The error of a name that is taken.
pub fn already_prepared(name: &str) -> Failure {
    let message = format!("prepared statement \"{name}\" already exists");
    Failure::new(state::DUPLICATE_STATEMENT, message)
}

/// Sets the settings that a client names when it connects: those of the connection in `settings`, and
/// those of the store in `session`. Settings that nobody knows are passed over.
///
/// # Errors
/// A setting of the store, or a time, that can't be so; a setting that the client may not set.
pub fn begin_settings(
    settings: &mut Settings,
    session: &Session,
    parameters: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let fatal = |failure: Failure| Failure {
        is_fatal: true,
        ..failure
    };
    for (name, value) in settings.begin(parameters).map_err(fatal)? {
        match session.set(&name, &value) {
            Ok(()) | Err(EngineError::Sql(SqlError::UnknownSetting { .. })) => {}
            Err(error) => return Err(fatal(Failure::of(&error, ""))),
        }
    }
    Ok(())
}
