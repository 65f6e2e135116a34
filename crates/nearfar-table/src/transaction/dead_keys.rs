//! Entries of indexes that lead to rows that are deleted.
//!
//! Whoever reads an older snapshot still finds the row by its entry, so that it stays until the last of
//! them has ended.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::database::DatabaseSnapshot;
use crate::table::{RowId, Table, TableIndex};

/// Dead keys that a commit takes out, beside as many as it adds.
const TAKEN_PER_COMMIT: usize = 16;

/// An entry of a row that is deleted.
#[derive(Debug)]
pub(super) struct DeadKey {
    pub table: Weak<Table>,
    pub index: Arc<TableIndex>,
    pub entry: Box<[u8]>,
    pub row: RowId,
}

impl DeadKey {
    /// Takes it out, unless the commit that deleted the row was itself taken back.
    fn take_out(self, newest: &DatabaseSnapshot) {
        let table = self.table.upgrade();
        let snapshot = table.as_ref().and_then(|table| newest.table(table));
        if snapshot.is_some_and(|snapshot| snapshot.locate(self.row).is_none()) {
            self.index.take_out(&self.entry, self.row);
        }
    }
}

/// The dead keys of a database, those that died first before the others.
#[derive(Debug, Default)]
pub(super) struct DeadKeys(Mutex<VecDeque<(u64, DeadKey)>>);

impl DeadKeys {
    /// Adds those of the commit that has made `newest`, and takes out some that died before the snapshot of
    /// number `oldest`, which is the oldest that is read. For who holds the lock for commits.
    pub fn add(&self, dead: impl Iterator<Item = DeadKey>, oldest: u64, newest: &DatabaseSnapshot) {
        let mut all = self.0.lock();
        let before = all.len();
        all.extend(dead.map(|dead| (newest.number(), dead)));
        let mut left = TAKEN_PER_COMMIT + 2 * (all.len() - before);
        while left > 0
            && let Some((_, dead)) = all.pop_front_if(|(since, _)| *since <= oldest)
        {
            dead.take_out(newest);
            left -= 1;
        }
    }
}
