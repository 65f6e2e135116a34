//! The same rows in segments that others have made.

use super::database::Database;
use crate::table::{Part, RowIdsBuilder, Snapshot, Table};

impl Table {
    /// Uses the segments of `theirs`, which has the same rows in any order, in the place of its own: memory that several
    /// processes share, say. Queries and transactions that have begun keep the old ones until they end. False, and nothing
    /// done, where it has another number of rows or other columns, where rows of it have been deleted, where there are
    /// indexes, or while it is being merged or moved.
    ///
    /// Identities are given to the rows anew. So it is for tables whose rows are added and never deleted one by one: a
    /// deletion that was logged by identity would delete another row after a restart.
    pub fn adopt(&self, database: &Database, theirs: &Snapshot) -> bool {
        let Some(_alone) = self.try_moving() else {
            return false;
        };
        let commits = database.lock();
        let now = self.snapshot();
        let is_whole = |part: &Part| part.delete_vector.is_none();
        let mut parts = now.parts().iter().chain(theirs.parts());
        let is_possible = now.rows() == theirs.rows()
            && now.schema() == theirs.schema()
            && now.indexes().is_empty()
            && parts.all(is_whole);
        if !is_possible {
            return false;
        }
        let mut ids = RowIdsBuilder::default();
        for part in now.parts() {
            ids.append(&part.ids);
        }
        let parts = theirs.parts().iter().map(|part| {
            let ids = ids.take(part.segment.rows());
            Part::whole(part.segment.clone(), ids)
        });
        let adopted = now.replaced(parts.collect(), theirs.main().len());
        commits.install(self, adopted);
        drop(commits);
        database.storage().shelf.release();
        true
    }

    /// Whether all of it lies where another process publishes it.
    pub fn is_adopted(&self) -> bool {
        let snapshot = self.snapshot();
        let mut parts = snapshot.parts().iter();
        parts.all(|part| part.segment.is_borrowed())
    }

    /// Bytes of its columns that lie in a pool of another process.
    pub fn borrowed_bytes(&self) -> u64 {
        let snapshot = self.snapshot();
        let parts = snapshot.parts().iter();
        parts.map(|part| part.segment.borrowed_bytes()).sum()
    }

    /// Whether some of these are not published any more, so that their space is kept for this process only.
    pub fn is_outdated(&self) -> bool {
        let snapshot = self.snapshot();
        let mut parts = snapshot.parts().iter();
        parts.any(|part| part.segment.is_outdated())
    }
}
