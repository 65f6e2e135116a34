//! Why a transaction can't go on.

/// Why a statement or a commit of a transaction is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Another transaction changed or deleted a row first.
    #[error(
        "write conflict in table `{table}`: a row that this transaction changes was changed by one \
         that committed first; nothing was changed, run the transaction again"
    )]
    Conflict {
        /// The table of the row.
        table: String,
    },
    /// A table that was to be truncated has new contents.
    #[error(
        "write conflict in table `{table}`: this transaction truncates it, and another one that \
         changed it committed first; nothing was changed, run the transaction again"
    )]
    TruncateConflict {
        /// The table.
        table: String,
    },
    /// No order of the transactions explains what they have read.
    #[error(
        "could not serialize access due to read/write dependencies among transactions: run the \
         transaction again"
    )]
    NotSerializable,
    /// Transactions that wait for each other's rows.
    #[error(
        "deadlock: a transaction that has changed a row which this one changes waits for this one; \
         run the transaction again"
    )]
    Deadlock,
    /// A row that was another transaction's for too long.
    #[error(
        "a row of table `{table}` is being changed by another transaction: lock_timeout is over"
    )]
    LockTimeout {
        /// The table of the row.
        table: String,
    },
    /// A row that another transaction has, and that was not to be waited for.
    #[error("could not obtain lock on row in table `{table}`: another transaction has it")]
    LockNotAvailable {
        /// The table of the row.
        table: String,
    },
    /// A table that another transaction had locked for too long.
    #[error("table `{table}` is locked by another transaction: lock_timeout is over")]
    TableLockTimeout {
        /// The table.
        table: String,
    },
    /// A table that another transaction has locked, and that was not to be waited for.
    #[error("could not obtain lock on relation \"{table}\"")]
    TableNotAvailable {
        /// The table.
        table: String,
    },
    /// A savepoint that there is not.
    #[error("savepoint `{name}` does not exist")]
    NoSavepoint {
        /// Its name.
        name: String,
    },
    /// What there is only within a transaction.
    #[error("{statement} can only be used in a transaction: use BEGIN before")]
    NoTransaction {
        /// The statement.
        statement: &'static str,
    },
    /// An isolation level that comes too late.
    #[error("SET TRANSACTION ISOLATION LEVEL must be called before any query")]
    LateIsolation,
    /// A table that the transaction changed is no longer there.
    #[error(
        "table `{table}` was dropped or replaced after this transaction began: nothing was changed, \
         run the transaction again"
    )]
    Dropped {
        /// The table.
        table: String,
    },
    /// A table of whose rows something else was declared meanwhile.
    #[error(
        "a constraint of table `{table}` was added or dropped after this transaction changed it: \
         nothing was changed, run the transaction again"
    )]
    Redefined {
        /// The table.
        table: String,
    },
    /// A table that was not there yet when the transaction began.
    #[error(
        "table `{table}` was created after this transaction began, which does not see its rows: end \
         the transaction and begin another"
    )]
    TooNew {
        /// The table.
        table: String,
    },
    /// A statement after one that failed.
    #[error("the transaction has failed, and its statements are refused until ROLLBACK")]
    Failed,
    /// A statement that went on while its transaction was committed.
    #[error(
        "the transaction was committed while this statement ran: its changes are not part of it"
    )]
    Over,
    /// A statement that changes data.
    #[error("{statement} is refused: the transaction or the user is READ ONLY")]
    ReadOnly {
        /// The statement.
        statement: &'static str,
    },
    /// A statement that can't be undone.
    #[error(
        "{statement} cannot run inside a transaction block: COMMIT or ROLLBACK first, and run it by itself"
    )]
    NotInTransaction {
        /// The statement.
        statement: String,
    },
}
