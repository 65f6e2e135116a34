//! `BEGIN`, `COMMIT` and `ROLLBACK`.

use datafusion::sql::sqlparser::ast::{
    Statement as Ast, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::script::is_space;

/// What begins or ends a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionCommand {
    /// `BEGIN` or `START TRANSACTION`.
    Begin {
        /// Whether no statement of it may change data.
        is_read_only: bool,
    },
    /// `COMMIT` or `END`.
    Commit,
    /// `ROLLBACK` or `ABORT`.
    Rollback,
}

/// The command that `ast` is, if it is one.
///
/// # Errors
/// A clause that is not supported.
pub(super) fn transaction_command(ast: &Ast) -> Result<Option<TransactionCommand>, SqlError> {
    match ast {
        Ast::StartTransaction {
            modes, statements, ..
        } if statements.is_empty() => {
            let is_read_only = transaction_modes(modes)?;
            Ok(Some(TransactionCommand::Begin { is_read_only }))
        }
        Ast::StartTransaction { .. } => Err(SqlError::unsupported(
            "BEGIN with statements",
            "end BEGIN with a semicolon",
        )),
        Ast::Commit { chain: true, .. } | Ast::Rollback { chain: true, .. } => Err(
            SqlError::unsupported("AND CHAIN", "use BEGIN for the next transaction"),
        ),
        Ast::Savepoint { .. }
        | Ast::ReleaseSavepoint { .. }
        | Ast::Rollback {
            savepoint: Some(_), ..
        } => Err(SqlError::unsupported(
            "SAVEPOINT",
            "a transaction is undone as a whole, with ROLLBACK",
        )),
        Ast::Commit { .. } => Ok(Some(TransactionCommand::Commit)),
        Ast::Rollback { .. } => Ok(Some(TransactionCommand::Rollback)),
        _ => Ok(None),
    }
}

/// Whether a transaction of these modes is to be read-only.
///
/// # Errors
/// An isolation level that there is not.
pub(super) fn transaction_modes(modes: &[TransactionMode]) -> Result<bool, SqlError> {
    let mut is_read_only = false;
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(mode) => {
                is_read_only = *mode == TransactionAccessMode::ReadOnly;
            }
            TransactionMode::IsolationLevel(TransactionIsolationLevel::Serializable) => {
                return Err(SqlError::unsupported(
                    "ISOLATION LEVEL SERIALIZABLE",
                    "transactions have snapshot isolation, which REPEATABLE READ names",
                ));
            }
            TransactionMode::IsolationLevel(_) => {}
        }
    }
    Ok(is_read_only)
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
            StatementKind::Transaction(command) => *command,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn all_spellings_are_read() {
        let begin = |is_read_only| TransactionCommand::Begin { is_read_only };
        for (sql, expected) in [
            ("begin", begin(false)),
            ("BEGIN TRANSACTION", begin(false)),
            ("BEGIN WORK", begin(false)),
            ("START TRANSACTION READ ONLY", begin(true)),
            (
                "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE",
                begin(false),
            ),
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
        for sql in [
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            "SAVEPOINT a",
            "RELEASE SAVEPOINT a",
            "ROLLBACK TO SAVEPOINT a",
            "COMMIT AND CHAIN",
        ] {
            let error = statements(sql).expect_err(sql);
            assert!(
                matches!(error, SqlError::Unsupported { .. }),
                "{sql}: {error}"
            );
        }
    }
}
