//! Transactions over all tables of an engine.
//!
//! A [`Database`] is the tables' snapshots that were committed last, as one [`DatabaseSnapshot`], which a
//! commit replaces in one step. A [`Transaction`] reads the one that it began with and its own
//! changes: rows that it adds lie in segments that nobody else knows, rows that it deletes are in delete vectors
//! in snapshots of its own. To commit, it does the same to the newest one, under the one lock
//! for commits. If a row that it deletes is gone by then, another transaction was first.
//!
//! Rows that a transaction changes are locked until it ends, so that others wait for it and find out what has
//! become of them. With [`Isolation::ReadCommitted`] each statement reads the newest snapshot, its
//! transaction's changes put onto it. With [`Isolation::Serializable`], a commit is refused after which no order
//! of the transactions could explain what each has read.
//!
//! A statement can be given up until its commit passes its [`CommitGate`], and not after that.
//!
//! [`Merges`] turns what has been written into main storage, on a thread of its own.

mod adopt;
mod change;
mod database;
mod dead_keys;
mod keys;
mod log;
mod merge;
mod merges;
mod row_locks;
mod rows;
mod savepoints;
mod serializable;
mod table_change;
mod table_locks;
mod waiting;

pub use crate::error::TransactionError;
pub use crate::table::{CloseOnDrop, CommitGate};
pub use change::{
    Definitions, EnteredTable, Isolation, ReplacedTable, RowLock, TakenTable, Transaction,
    WaitingCommit,
};
pub use database::{Commits, Database, DatabaseSnapshot};
pub use log::{CommitLog, CommitRecord};
pub use merge::MergeScope;
pub use merges::{MergeLimits, Merges};
pub use row_locks::{LockMode, RowWait};
pub use rows::{NewRows, NewRowsBuilder};
pub use table_change::ReferenceStep;
pub use table_locks::{TableLockMode, TableQueue};
pub use waiting::waiting_here;
