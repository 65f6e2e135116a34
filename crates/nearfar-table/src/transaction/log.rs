//! Where commits are written before they count, as transactions know it.

use std::fmt;
use std::task::Waker;

use crate::error::TableError;
use crate::table::{CommitGate, Part, RowId, Table};

/// A log of what is committed. Its positions grow with every record.
pub trait CommitLog: fmt::Debug + Send + Sync {
    /// Begins the record of a transaction, which can be given up until `gate` is passed.
    ///
    /// # Errors
    /// A log that takes no more.
    fn begin<'a>(&'a self, gate: &'a CommitGate) -> Result<Box<dyn CommitRecord + 'a>, TableError>;

    /// Whether a commit is seen only once its record is on disk.
    fn waits_for_disk(&self) -> bool;

    /// Whether [`Self::sync_to`] of `position` takes no time any more. If not, `waker` is woken when it is, for which
    /// nobody has to call that.
    fn is_settled(&self, position: u64, waker: &Waker) -> bool;

    /// Waits until all before `position` is on disk.
    ///
    /// # Errors
    /// A disk that can't be written.
    fn sync_to(&self, position: u64) -> Result<(), TableError>;

    /// All before this position is on disk.
    fn durable(&self) -> u64;
}

/// What a log is told of one transaction. Without [`Self::commit`] it means nothing.
pub trait CommitRecord {
    /// All rows of `table`, deleted.
    ///
    /// # Errors
    /// A record that the log can't take.
    fn truncate(&mut self, table: &Table) -> Result<(), TableError>;

    /// Rows of `parts`, none of which is deleted, that are added to `table`.
    ///
    /// # Errors
    /// As [`Self::truncate`]; columns that can't be read.
    fn insert(&mut self, table: &Table, parts: &[Part]) -> Result<(), TableError>;

    /// Rows of `table` that are deleted.
    ///
    /// # Errors
    /// As [`Self::truncate`].
    fn delete(&mut self, table: &Table, ids: &[RowId]) -> Result<(), TableError>;

    /// Appends what is left, which makes it count. Returns the position behind it. For who holds the
    /// database's lock for commits: the order of commits is that of the log.
    ///
    /// # Errors
    /// A log that can't be written; it is as it was.
    fn commit(self: Box<Self>) -> Result<u64, TableError>;
}
