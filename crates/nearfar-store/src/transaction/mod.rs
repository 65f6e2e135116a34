//! Transactions: snapshot isolation over all tables of an engine, first committer wins.
//!
//! A [`Database`] is the tables' snapshots that were committed last, as one [`Version`], which a
//! commit replaces at once. A [`Transaction`] reads the version that it began with and its own
//! changes: rows that it adds lie in segments that nobody else knows, rows that it deletes are marked
//! in snapshots of its own. To commit, it does the same to the newest version, under the one lock
//! for commits. If a row that it deletes is gone by then, another transaction was first.
//!
//! A statement can be given up until its commit passes its [`CommitGate`], and not after that.
//!
//! [`Merges`] turns what has been written into main storage, on a thread of its own.

mod change;
mod database;
mod error;
mod gate;
mod merges;

pub use change::{NewRows, Transaction};
pub use database::{Commits, Database, Version};
pub use error::TransactionError;
pub(crate) use gate::CloseOnDrop;
pub use gate::CommitGate;
pub use merges::{MergeLimits, Merges};
