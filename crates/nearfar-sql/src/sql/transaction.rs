//! `BEGIN`, `COMMIT` and `ROLLBACK`.

use datafusion::sql::sqlparser::ast::{
    Statement as Ast, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::script::is_space;
use super::statement::normalised;
use nearfar_table::transaction::Isolation;

/// What begins or ends a transaction, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionCommand {
    /// `BEGIN` or `START TRANSACTION`.
    Begin(TransactionModes),
    /// `COMMIT` or `END`.
    Commit,
    /// `ROLLBACK` or `ABORT`.
    Rollback,
    /// `SAVEPOINT name`.
    Savepoint(String),
    /// `RELEASE SAVEPOINT name`.
    Release(String),
    /// `ROLLBACK TO SAVEPOINT name`.
    RollbackTo(String),
}

/// What a statement says of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransactionModes {
    /// What its statements read; nothing where that is the session's to say.
    pub isolation: Option<Isolation>,
    /// Whether no statement of it may change data.
    pub is_read_only: bool,
}

/// The command that `ast` is, if it is one.
///
/// # Errors
/// A clause that is not supported.
pub(super) fn transaction_command(ast: &Ast) -> Result<Option<TransactionCommand>, SqlError> {
    Ok(Some(match ast {
        Ast::StartTransaction {
            modes, statements, ..
        } if statements.is_empty() => TransactionCommand::Begin(transaction_modes(modes)?),
        Ast::StartTransaction { .. } => {
            return Err(SqlError::unsupported(
                "BEGIN with statements",
                "end BEGIN with a semicolon",
            ));
        }
        Ast::Commit { chain: true, .. } | Ast::Rollback { chain: true, .. } => {
            return Err(SqlError::unsupported(
                "AND CHAIN",
                "use BEGIN for the next transaction",
            ));
        }
        Ast::Savepoint { name } => TransactionCommand::Savepoint(normalised(name)),
        Ast::ReleaseSavepoint { name } => TransactionCommand::Release(normalised(name)),
        Ast::Rollback {
            savepoint: Some(name),
            ..
        } => TransactionCommand::RollbackTo(normalised(name)),
        Ast::Commit { .. } => TransactionCommand::Commit,
        Ast::Rollback { .. } => TransactionCommand::Rollback,
        _ => return Ok(None),
    }))
}

/// What the modes of a transaction say.
///
/// # Errors
/// An isolation level that there is not.
pub(super) fn transaction_modes(modes: &[TransactionMode]) -> Result<TransactionModes, SqlError> {
    let mut said = TransactionModes::default();
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(mode) => {
                said.is_read_only = *mode == TransactionAccessMode::ReadOnly;
            }
            TransactionMode::IsolationLevel(level) => {
                use TransactionIsolationLevel as Level;
                said.isolation = Some(match level {
                    Level::ReadUncommitted | Level::ReadCommitted => Isolation::ReadCommitted,
                    Level::RepeatableRead | Level::Snapshot => Isolation::Snapshot,
                    Level::Serializable => Isolation::Serializable,
                });
            }
        }
    }
    Ok(said)
}

/// `ABORT` as the `ROLLBACK` that it means, which is all that the parser reads.
pub(super) fn abort_as_rollback(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if let Some(first) = tokens.iter_mut().find(|token| !is_space(&token.token)) {
        first.token = Token::make_keyword("ROLLBACK");
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::super::statement::{StatementKind, statements};
    use super::*;

    fn command(sql: &str) -> TransactionCommand {
        let read = statements(sql).expect(sql).remove(0);
        match read.kind() {
            StatementKind::Transaction(command) => command.clone(),
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn all_spellings_are_read() {
        let begin_at = |isolation, is_read_only| {
            TransactionCommand::Begin(TransactionModes {
                isolation,
                is_read_only,
            })
        };
        let begin = |is_read_only| begin_at(None, is_read_only);
        let name = || "a".to_owned();
        for (sql, expected) in [
            ("begin", begin(false)),
            ("BEGIN TRANSACTION", begin(false)),
            ("BEGIN WORK", begin(false)),
            ("START TRANSACTION READ ONLY", begin(true)),
            (
                "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE",
                begin_at(Some(Isolation::Snapshot), false),
            ),
            (
                "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY",
                begin_at(Some(Isolation::ReadCommitted), true),
            ),
            ("SAVEPOINT A", TransactionCommand::Savepoint(name())),
            ("RELEASE SAVEPOINT a", TransactionCommand::Release(name())),
            ("RELEASE \"a\"", TransactionCommand::Release(name())),
            (
                "ROLLBACK TO SAVEPOINT a",
                TransactionCommand::RollbackTo(name()),
            ),
            ("ROLLBACK TO a", TransactionCommand::RollbackTo(name())),
            ("COMMIT", TransactionCommand::Commit),
            ("COMMIT WORK", TransactionCommand::Commit),
            ("END", TransactionCommand::Commit),
            ("END TRANSACTION", TransactionCommand::Commit),
            ("rollback", TransactionCommand::Rollback),
            ("ROLLBACK TRANSACTION", TransactionCommand::Rollback),
            ("abort", TransactionCommand::Rollback),
            ("ABORT WORK", TransactionCommand::Rollback),
        ] {
            assert_eq!(command(sql), expected, "{sql}");
        }
        let error = statements("COMMIT AND CHAIN").expect_err("a chain");
        assert!(matches!(error, SqlError::Unsupported { .. }), "{error}");
    }
}
