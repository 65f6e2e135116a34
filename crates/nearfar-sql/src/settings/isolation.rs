//! The names of isolation levels.

use crate::error::SqlError;
use nearfar_table::transaction::Isolation;

/// The setting of what transactions read of which nothing else is said.
pub const DEFAULT_ISOLATION: &str = "default_transaction_isolation";

/// The isolation level of a name; none for a name that there is not.
///
/// # Errors
/// A level that is not supported.
pub fn isolation_of(name: &str) -> Result<Option<Isolation>, SqlError> {
    match name.to_ascii_lowercase().as_str() {
        "read uncommitted" | "read committed" => Ok(Some(Isolation::ReadCommitted)),
        "repeatable read" => Ok(Some(Isolation::Snapshot)),
        "serializable" => Err(serializable()),
        _ => Ok(None),
    }
}

/// The name of an isolation level.
pub fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "read committed",
        Isolation::Snapshot => "repeatable read",
    }
}

/// The error of the level that there is not.
pub fn serializable() -> SqlError {
    SqlError::unsupported(
        "ISOLATION LEVEL SERIALIZABLE",
        "use REPEATABLE READ, which is snapshot isolation",
    )
}
