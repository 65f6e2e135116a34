//! What a transaction does to one table.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::database::{Database, DatabaseSnapshot};
use super::dead_keys::DeadKey;
use super::keys::{ChangedRows, IndexChanges};
use super::rows::NewRows;
use crate::error::{TableError, TransactionError};
use crate::placement::ColumnPlacements;
use crate::table::{
    Part, RowId, RowIds, Segment, Snapshot, Table, TableId, TableRules, delta_segment, join_own,
    join_small, packed_segment,
};

/// Rows that are changed by a small transaction at most.
const SMALL_ROWS: usize = 1 << 10;

/// What one statement has done to a table of which rows refer to others, or are referred to.
#[derive(Debug, Clone)]
pub struct ReferenceStep {
    /// What was there before.
    pub before: Snapshot,
    /// The rows of that which it has deleted.
    pub deleted: Vec<RowId>,
    /// Those that it has added.
    pub added: Vec<Part>,
}

/// What a transaction has done, table by table. Boxed, since a map has room for several in its first node, and most
/// transactions change one table.
pub(super) type Changes = BTreeMap<TableId, Box<Change>>;

/// What a transaction has done to one table.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub table: Arc<Table>,
    /// What it read first.
    pub base: Snapshot,
    /// What its changes are put onto: the base, or nothing where it has truncated the table.
    ground: Snapshot,
    /// What it reads now, once somebody has asked, but for what is in `unread`.
    view: Option<Snapshot>,
    /// The last rows that it has added and deleted, which nobody has asked for since.
    unread: Option<Unread>,
    /// Segments that it added, and where their columns are.
    pub main: Vec<Part>,
    pub placed: ColumnPlacements,
    /// What it added to the delta.
    pub delta: Vec<Part>,
    pub deleted: Vec<RowId>,
    pub is_truncated: bool,
    pub indexes: IndexChanges,
    /// Whether others have committed changes of the table since some of its keys were held against those that there are.
    is_overtaken: bool,
    /// What was declared of the rows when it began, and whether others referred to them.
    rules: Arc<TableRules>,
    was_referenced: bool,
    /// Whether its own transaction has defined foreign keys that lead to the table.
    pub is_referenced_here: bool,
    /// What has not been held against foreign keys yet, and what is to be at its end.
    pub steps: Vec<ReferenceStep>,
    pub deferred: Vec<ReferenceStep>,
}

/// Rows that a statement has added and deleted.
#[derive(Debug, Clone)]
struct Unread {
    main: Vec<Part>,
    delta: Option<Part>,
    deleted: Vec<RowId>,
}

impl Change {
    pub fn new(table: &Arc<Table>, base: Snapshot, is_referenced_here: bool) -> Self {
        let indexes = IndexChanges::of(&base);
        Self {
            table: Arc::clone(table),
            ground: base.clone(),
            view: Some(base.clone()),
            unread: None,
            base,
            main: Vec::new(),
            placed: table.placements(),
            delta: Vec::new(),
            deleted: Vec::new(),
            is_truncated: false,
            indexes,
            is_overtaken: false,
            rules: table.rules(),
            was_referenced: table.is_referenced(),
            is_referenced_here,
            steps: Vec::new(),
            deferred: Vec::new(),
        }
    }

    pub fn replace(
        &mut self,
        ids: Vec<RowId>,
        rows: NewRows,
        database: &Database,
    ) -> Result<(), TableError> {
        let table = &self.table;
        if !rows.rules.has_constraints_of(&self.rules) {
            let table = table.name().to_owned();
            return Err(TransactionError::Redefined { table }.into());
        }
        let whole = |segment: Arc<Segment>| {
            let rows = segment.rows();
            let ids = RowIds::consecutive(table.take_row_ids(rows), rows);
            Part::whole(segment, ids)
        };
        let storage = &table.storage(database.storage());
        let delta = match (rows.packed, &rows.batches[..]) {
            (Some(packed), _) => Some(packed_segment(table.schema(), packed, storage)?),
            (None, []) => None,
            (None, batches) => Some(delta_segment(table.schema(), batches, storage)?),
        };
        let delta = delta.map(whole);
        let main: Vec<Part> = rows.segments.into_iter().map(whole).collect();
        if !main.is_empty() && rows.placed != self.placed {
            table.place(&main, &self.placed, storage)?;
        }
        let new = [&main[..], delta.as_slice()].concat();
        let before = self.view()?;
        if !ids.iter().all(|id| before.locate(*id).is_some()) {
            return Err(self.conflict().into());
        }
        let rows = ChangedRows {
            before: &before,
            deleted: &ids,
            new: &new,
        };
        let added = self.indexes.add(&rows);
        added.map_err(|error| error.of_table(self.table.full_name()))?;
        if self.table.has_references() || self.is_referenced_here {
            self.steps.push(ReferenceStep {
                before: before.clone(),
                deleted: ids.clone(),
                added: new.clone(),
            });
        }
        self.delta.extend(delta.clone());
        let parts = self.delta.len();
        let own = std::mem::take(&mut self.delta);
        self.delta = join_own(self.table.schema(), own, storage)?;
        self.main.extend_from_slice(&main);
        self.deleted.extend_from_slice(&ids);
        match self.delta.len() == parts {
            true => {
                self.unread = Some(Unread {
                    main,
                    delta,
                    deleted: ids,
                });
            }
            // Rows are in other parts than before.
            false => self.view = None,
        }
        Ok(())
    }

    /// What it reads now.
    pub fn view(&mut self) -> Result<Snapshot, TransactionError> {
        let view = match (self.view.take(), self.unread.take()) {
            (Some(view), None) => view,
            (Some(view), Some(last)) => {
                let changed = view.changed(&last.main, last.delta.as_slice(), &last.deleted);
                changed.map_err(|_| self.conflict())?
            }
            (None, _) => self.put_onto(&self.ground)?,
        };
        Ok(self.view.insert(view).clone())
    }

    /// `snapshot` with the rows that it has added and without those that it has deleted.
    fn put_onto(&self, snapshot: &Snapshot) -> Result<Snapshot, TransactionError> {
        let changed = snapshot.changed(&self.main, &self.delta, &self.deleted);
        changed.map_err(|_| self.conflict())
    }

    fn conflict(&self) -> TransactionError {
        TransactionError::Conflict {
            table: self.table.name().to_owned(),
        }
    }

    pub fn truncate(&mut self) -> Result<(), TableError> {
        self.ground = self.ground.truncated()?;
        self.view = Some(self.ground.clone());
        self.unread = None;
        self.indexes = IndexChanges::of(&self.ground);
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

    /// The table's newest snapshot with this change, and whether another transaction has changed the table
    /// since it was read first.
    pub fn onto(
        &mut self,
        newest: &DatabaseSnapshot,
        database: &Database,
    ) -> Result<(Snapshot, bool), TableError> {
        let table = || self.table.name().to_owned();
        if self.table.is_draft() {
            return Ok((self.view()?, false));
        }
        let known = newest.table(&self.table);
        let gone = || match newest.has_table(self.table.id()) {
            true => TransactionError::Redefined { table: table() },
            false => TransactionError::Dropped { table: table() },
        };
        let current = known.ok_or_else(gone)?;
        if !self.is_held() {
            return Err(TransactionError::Redefined { table: table() }.into());
        }
        let is_late = !current.is(&self.base);
        if is_late && self.is_truncated && !current.has_rows_of(&self.base) {
            return Err(TransactionError::TruncateConflict { table: table() }.into());
        }
        let is_late = is_late && !self.is_truncated;
        let changed = match is_late {
            true => self.over(current)?,
            false => self.view()?,
        };
        // Nobody else is to have it, so that it is changed in place.
        (self.view, self.unread) = (None, None);
        let storage = self.table.storage(database.storage());
        Ok((join_small(changed, &storage)?, is_late || self.is_overtaken))
    }

    /// Whether what it has done was held against all that is declared of the rows.
    fn is_held(&self) -> bool {
        let is_new = self.table.is_referenced() && !self.was_referenced;
        !is_new && self.steps.is_empty() && self.rules.has_constraints_of(&self.table.rules())
    }

    /// Has the transaction read what `newest` has of the table, under what it has done itself. A table that
    /// it has truncated stays as it is, and so does one that is gone, which its commit finds out.
    pub fn rebase(&mut self, newest: &DatabaseSnapshot) -> Result<(), TableError> {
        let current = newest.table(&self.table);
        let current = current.filter(|current| !self.is_truncated && !current.is(&self.base));
        if let Some(current) = current {
            // What is read now is made when somebody asks: statements seldom read all tables that those before them
            // have changed.
            self.view = match current.has_indexes_of(&self.base) {
                true => None,
                false => Some(self.over(current)?),
            };
            self.unread = None;
            self.base = current.clone();
            self.ground = current.clone();
            self.is_overtaken = true;
        }
        Ok(())
    }

    /// `current` with this change.
    fn over(&mut self, current: &Snapshot) -> Result<Snapshot, TableError> {
        let changed = self.put_onto(current)?;
        let own = [&self.main[..], &self.delta[..]].concat();
        self.indexes
            .meet((current, &changed), &own, &self.deleted)?;
        Ok(changed)
    }

    /// The entries of the rows that it has deleted, once it is committed.
    pub fn dead_keys(&mut self) -> Vec<DeadKey> {
        std::mem::take(&mut self.indexes).into_dead_keys(&self.table)
    }
}
