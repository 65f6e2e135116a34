//! The names of isolation levels.

use nearfar_table::transaction::Isolation;

/// The setting of what transactions read of which nothing else is said.
pub const DEFAULT_ISOLATION: &str = "default_transaction_isolation";

/// The isolation level of a name; none for a name that there is not.
pub fn isolation_of(name: &str) -> Option<Isolation> {
    match name.to_ascii_lowercase().as_str() {
        "read uncommitted" | "read committed" => Some(Isolation::ReadCommitted),
        "repeatable read" => Some(Isolation::Snapshot),
        "serializable" => Some(Isolation::Serializable),
        _ => None,
    }
}

/// The name of an isolation level.
pub fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "read committed",
        Isolation::Snapshot => "repeatable read",
        Isolation::Serializable => "serializable",
    }
}
