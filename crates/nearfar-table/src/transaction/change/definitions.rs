//! What a transaction defines: tables that nobody else knows of until it commits.

use std::any::Any;
use std::sync::Arc;

use super::{Definitions, Transaction};
use crate::error::TableError;
use crate::table::{Snapshot, Table, TableId, TableRules};
use crate::transaction::database::DatabaseSnapshot;

/// A table as a transaction sees it, and what was committed of it.
#[derive(Debug)]
pub struct TakenTable {
    /// Its rows, as the transaction sees them.
    pub rows: Snapshot,
    /// Those that are committed.
    pub base: Snapshot,
    /// Whether these differ.
    pub is_changed: bool,
}

/// A table that a transaction enters as it commits.
#[derive(Debug)]
pub struct EnteredTable {
    /// The table, which nobody else knows of.
    pub table: Arc<Table>,
    /// What it takes the place of, if that is not new.
    pub replaced: Option<ReplacedTable>,
}

/// A definition of a table that another one takes the place of: it has to be as it was looked at.
#[derive(Debug, Clone)]
pub struct ReplacedTable {
    /// The definition.
    pub table: Arc<Table>,
    /// Its rows and indexes.
    pub snapshot: Snapshot,
    /// What was declared of its rows.
    pub rules: Arc<TableRules>,
}

impl ReplacedTable {
    /// Whether nobody has changed it.
    pub(super) fn is_same(&self, newest: &DatabaseSnapshot) -> bool {
        let is_same = |current: &Snapshot| {
            current.has_rows_of(&self.snapshot) && current.has_indexes_of(&self.snapshot)
        };
        let current = newest.table(&self.table);
        current.is_some_and(is_same) && Arc::ptr_eq(&self.table.rules(), &self.rules)
    }
}

impl Transaction {
    /// What it has defined so far.
    pub fn definitions(&self) -> Option<Definitions> {
        self.definitions.lock().clone()
    }

    /// The same, if it is of this type.
    pub fn definitions_as<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.definitions()?.downcast().ok()
    }

    /// Has it define this, in place of what it has defined before.
    pub fn define(&self, definitions: Definitions) {
        *self.definitions.lock() = Some(definitions);
    }

    /// Forgets what it has done to a table, whose rows as it sees them become those of another definition.
    ///
    /// # Errors
    /// As [`Self::snapshot`].
    pub fn take_table(&self, table: &Table) -> Result<TakenTable, TableError> {
        let mut changes = self.changes.lock();
        let change = changes.as_mut().and_then(|all| all.remove(&table.id()));
        let base = self.base(table)?;
        Ok(match change {
            Some(mut change) => TakenTable {
                rows: change.view()?,
                base,
                is_changed: true,
            },
            None => TakenTable {
                rows: base.clone(),
                base,
                is_changed: false,
            },
        })
    }

    /// What it does to the rows of a table from now on has to be held against foreign keys that it has defined itself. What
    /// it has done so far is, by who defines them.
    pub fn begins_to_be_referenced(&self, table: TableId) {
        self.referenced.lock().insert(table);
        let mut changes = self.changes.lock();
        let change = changes.as_mut().and_then(|all| all.get_mut(&table));
        if let Some(change) = change {
            change.is_referenced_here = true;
        }
    }
}
