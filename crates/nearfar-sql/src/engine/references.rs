//! Foreign keys, by the tables that they lead to.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::Engine;
use super::catalog::SharedCatalog;
use crate::error::EngineError;
use crate::scan::table_of;
use crate::sql::SqlError;
use nearfar_table::table::{Reference, ReferenceCheck, Table, TableId, TableRules};

/// The foreign keys of all permanent tables, found anew whenever one is declared or dropped.
#[derive(Debug, Default)]
pub(super) struct References(RwLock<Arc<ReferenceMap>>);

/// The foreign keys of all permanent tables at one moment.
#[derive(Debug, Default)]
pub struct ReferenceMap {
    tables: HashMap<TableId, NamedTable>,
    /// By the table that they lead to.
    children: HashMap<TableId, Vec<Child>>,
}

/// A permanent table and its name.
#[derive(Debug)]
pub struct NamedTable {
    pub schema: String,
    pub name: String,
    table: Weak<Table>,
}

/// A foreign key, and the table that it is of.
#[derive(Debug, Clone)]
pub struct Child {
    pub table: TableId,
    pub reference: Reference,
}

impl ReferenceMap {
    /// The foreign keys that lead to a table.
    pub fn children(&self, parent: TableId) -> &[Child] {
        self.children.get(&parent).map_or(&[], Vec::as_slice)
    }

    /// A table by its identity, if it is still there.
    pub fn table(&self, id: TableId) -> Option<(&NamedTable, Arc<Table>)> {
        let named = self.tables.get(&id)?;
        Some((named, named.table.upgrade()?))
    }

    /// Whether foreign keys of this name can be deferred; none if there are none.
    pub fn is_deferrable(&self, name: &str) -> Option<bool> {
        let named = self.children.values().flatten();
        let named = named.filter(|child| child.reference.name == name);
        let mut checks = named.map(|child| child.reference.check).peekable();
        checks.peek()?;
        Some(checks.all(|check| check != ReferenceCheck::Always))
    }

    /// The tables that foreign keys lead to.
    pub fn parents(&self) -> impl Iterator<Item = Arc<Table>> {
        let parents = self.children.keys();
        parents.filter_map(|id| self.tables.get(id)?.table.upgrade())
    }

    /// The name of a table.
    pub fn name_of(&self, id: TableId) -> String {
        let table = self.tables.get(&id);
        table.map_or_else(String::new, |table| table.name.clone())
    }

    /// The table and foreign key of another table than those of `leaving` that leads to one of these.
    pub fn other_child(&self, leaving: &[TableId]) -> Option<(TableId, String, String)> {
        leaving.iter().find_map(|parent| {
            let mut children = self.children(*parent).iter();
            let child = children.find(|child| !leaving.contains(&child.table))?;
            let name = child.reference.name.clone();
            Some((*parent, name, self.name_of(child.table)))
        })
    }
}

impl NamedTable {
    /// The name as a statement has to write it.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }
}

/// A name in quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Engine {
    /// The foreign keys of all permanent tables.
    pub(super) fn references(&self) -> Arc<ReferenceMap> {
        Arc::clone(&self.references.0.read())
    }

    /// Finds the foreign keys of all permanent tables, after one was declared or dropped.
    pub(super) fn note_references(&self) {
        self.note_references_with(None);
    }

    /// The same with those of a table that is about to be entered: nobody is to change what it refers to without
    /// knowing of them once it is there.
    pub(super) fn note_references_with(&self, new: Option<(&str, &str, &Arc<Table>)>) {
        let mut references = self.references.0.write();
        let mut map = ReferenceMap::of(&self.catalog);
        if let Some((schema, name, table)) = new {
            map.add(table, schema.to_owned(), name.to_owned());
        }
        let map = Arc::new(map);
        *references = Arc::clone(&map);
        // Behind the foreign keys, so that whoever knows that a table is referred to finds them.
        for (id, named) in &map.tables {
            if let Some(table) = named.table.upgrade() {
                table.set_referenced(map.children.contains_key(id));
            }
        }
    }

    /// Refuses foreign keys to tables that were dropped meanwhile, but for those to tables that are entered with them.
    pub(super) fn check_parents(
        &self,
        rules: &TableRules,
        entered: &[TableId],
    ) -> Result<(), EngineError> {
        let snapshot = self.database().snapshot();
        let is_gone = |reference: &&Reference| {
            let parent = reference.parent;
            !entered.contains(&parent) && !snapshot.has_table(parent)
        };
        match rules.references.iter().find(is_gone) {
            Some(reference) => Err(SqlError::UnknownTable {
                table: format!("referred to by \"{}\"", reference.name),
            }
            .into()),
            None => Ok(()),
        }
    }
}

impl ReferenceMap {
    /// Those of all tables of a catalog.
    pub fn of(catalog: &SharedCatalog) -> Self {
        let mut map = Self::default();
        for (schema, tables) in catalog.all() {
            for (name, provider) in tables.all() {
                if let Some(table) = table_of(provider.as_ref()) {
                    map.add(table, schema.clone(), name);
                }
            }
        }
        map
    }

    /// Refuses to let tables go that foreign keys of others lead to.
    ///
    /// # Errors
    /// [`SqlError::ReferredTo`].
    pub fn check_unreferenced(&self, leaving: &[Arc<Table>]) -> Result<(), SqlError> {
        let ids: Vec<TableId> = leaving.iter().map(|table| table.id()).collect();
        let Some((parent, constraint, table)) = self.other_child(&ids) else {
            return Ok(());
        };
        let parent = leaving.iter().find(|table| table.id() == parent);
        let what = parent.map_or_else(String::new, |table| format!("table \"{}\"", table.name()));
        Err(SqlError::ReferredTo {
            what,
            constraint,
            table,
        })
    }

    fn add(&mut self, table: &Arc<Table>, schema: String, name: String) {
        let id = table.id();
        for reference in &table.rules().references {
            let child = Child {
                table: id,
                reference: reference.clone(),
            };
            self.children
                .entry(reference.parent)
                .or_default()
                .push(child);
        }
        let table = Arc::downgrade(table);
        let named = NamedTable {
            schema,
            name,
            table,
        };
        self.tables.insert(id, named);
    }
}
