//! What a transaction does to one table.

use std::sync::Arc;

use super::database::{Database, DatabaseSnapshot};
use super::dead_keys::DeadKey;
use super::keys::{ChangedRows, IndexChanges};
use super::rows::NewRows;
use crate::error::{TableError, TransactionError};
use crate::placement::ColumnPlacements;
use crate::table::{Part, RowId, RowIds, Segment, Snapshot, Table, delta_segment, join_small};

/// Rows that are changed by a small transaction at most.
const SMALL_ROWS: usize = 1 << 10;

/// What a transaction has done to one table.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub table: Arc<Table>,
    /// What it read first.
    pub base: Snapshot,
    /// What it reads now.
    pub view: Snapshot,
    /// Segments that it added, and where their columns are.
    pub main: Vec<Part>,
    pub placed: ColumnPlacements,
    /// What it added to the delta, as one snapshot for as long as small parts are put together.
    pub delta: Vec<Part>,
    pub deleted: Vec<RowId>,
    pub is_truncated: bool,
    pub indexes: IndexChanges,
}

impl Change {
    pub fn new(table: &Arc<Table>, base: Snapshot) -> Self {
        let indexes = IndexChanges::of(&base);
        Self {
            table: Arc::clone(table),
            view: base.clone(),
            base,
            main: Vec::new(),
            placed: table.placements(),
            delta: Vec::new(),
            deleted: Vec::new(),
            is_truncated: false,
            indexes,
        }
    }

    pub fn replace(
        &mut self,
        ids: Vec<RowId>,
        rows: NewRows,
        database: &Database,
    ) -> Result<(), TableError> {
        let table = &self.table;
        let whole = |segment: Arc<Segment>| {
            let rows = segment.rows();
            let ids = RowIds::consecutive(table.take_row_ids(rows), rows);
            Part::whole(segment, ids)
        };
        let storage = &table.storage(database.storage());
        let delta = match rows.batches.is_empty() {
            true => None,
            false => Some(whole(delta_segment(
                table.schema(),
                &rows.batches,
                storage,
            )?)),
        };
        let main: Vec<Part> = rows.segments.into_iter().map(whole).collect();
        if !main.is_empty() && rows.placed != self.placed {
            table.place(&main, &self.placed, storage)?;
        }
        let gone = |_| TransactionError::Conflict {
            table: table.name().to_owned(),
        };
        let view = self.view.without(&ids).map_err(gone)?;
        let new = [&main[..], delta.as_slice()].concat();
        let view = join_small(view.appended(&main, delta.as_slice()), storage)?;
        let rows = ChangedRows {
            before: &self.view,
            after: &view,
            deleted: &ids,
            new: &new,
        };
        self.indexes.add(&rows)?;
        let own = Snapshot::of_main(Arc::clone(table.schema()), Vec::new());
        let own = join_small(
            own.appended(&[], &[&self.delta[..], delta.as_slice()].concat()),
            storage,
        )?;
        self.delta = own.delta().to_vec();
        self.main.extend(main);
        self.deleted.extend(ids);
        self.view = view;
        Ok(())
    }

    pub fn truncate(&mut self) -> Result<(), TableError> {
        self.view = self.view.truncated()?;
        self.indexes = IndexChanges::of(&self.view);
        self.main.clear();
        self.delta.clear();
        self.deleted.clear();
        self.is_truncated = true;
        Ok(())
    }

    pub fn is_small(&self) -> bool {
        let delta_rows: usize = self.delta.iter().map(Part::rows).sum();
        self.main.is_empty() && !self.is_truncated && delta_rows + self.deleted.len() <= SMALL_ROWS
    }

    pub fn is_settled(&self) -> bool {
        self.main.is_empty() || self.placed == self.table.placements()
    }

    /// Moves the segments that were added to where the table has been moved meanwhile.
    pub fn settle(&mut self, database: &Database) -> Result<(), TableError> {
        while !self.is_settled() {
            let wanted = self.table.placements();
            self.table.place(&self.main, &wanted, database.storage())?;
            self.placed = wanted;
        }
        Ok(())
    }

    /// The table's newest snapshot with this change.
    pub fn onto(
        &mut self,
        newest: &DatabaseSnapshot,
        database: &Database,
    ) -> Result<Snapshot, TableError> {
        let table = || self.table.name().to_owned();
        let known = newest.table(&self.table);
        let current = known.ok_or_else(|| TransactionError::Dropped { table: table() })?;
        if current.is(&self.base) {
            return Ok(self.view.clone());
        }
        if self.is_truncated {
            return match current.has_rows_of(&self.base) {
                true => Ok(self.view.clone()),
                false => Err(TransactionError::TruncateConflict { table: table() }.into()),
            };
        }
        self.over(current, database)
    }

    /// Has the transaction read what `newest` has of the table, under what it has done itself. A table that
    /// it has truncated stays as it is, and so does one that is gone, which its commit finds out.
    pub fn rebase(
        &mut self,
        newest: &DatabaseSnapshot,
        database: &Database,
    ) -> Result<(), TableError> {
        let current = newest.table(&self.table);
        let current = current.filter(|current| !self.is_truncated && !current.is(&self.base));
        if let Some(current) = current {
            self.view = self.over(current, database)?;
            self.base = current.clone();
        }
        Ok(())
    }

    /// `current` with this change.
    fn over(&mut self, current: &Snapshot, database: &Database) -> Result<Snapshot, TableError> {
        let conflict = |_| TransactionError::Conflict {
            table: self.table.name().to_owned(),
        };
        let appended = current.appended(&self.main, &self.delta);
        let changed = appended.without(&self.deleted).map_err(conflict)?;
        let own = [&self.main[..], &self.delta[..]].concat();
        self.indexes
            .meet((current, &changed), &own, &self.deleted)?;
        join_small(changed, &self.table.storage(database.storage()))
    }

    /// The entries of the rows that it has deleted, once it is committed.
    pub fn dead_keys(&mut self) -> Vec<DeadKey> {
        std::mem::take(&mut self.indexes).into_dead_keys(&self.table)
    }
}
