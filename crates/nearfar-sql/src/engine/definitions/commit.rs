//! What a transaction has defined, committed with its changes of rows.

use datafusion::catalog::TableProvider;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::catalog::{Changed, Draft, Origin, Redefined, SessionTables};
use crate::engine::execute::has_key;
use crate::engine::sequences::{self, NamedSequence, sequence_of};
use crate::error::EngineError;
use crate::scan::table_of;
use crate::sql::SqlError;
use nearfar_durable::log::LogTransaction;
use nearfar_table::sequence::SequenceDefinition;
use nearfar_table::table::{Table, TableId};
use nearfar_table::transaction::{
    CommitGate, CommitRecord, EnteredTable, Transaction, TransactionError,
};

use super::{owned_by, view_sql};

impl Engine {
    /// Commits a transaction with what it has defined: both, or nothing.
    ///
    /// # Errors
    /// Names or tables that others have defined meanwhile (40001); what a commit of rows reports.
    pub(in crate::engine) fn commit_definitions(
        &self,
        gate: &CommitGate,
        (transaction, draft): (&Transaction, &Draft),
        tables: &SessionTables,
    ) -> Result<(), EngineError> {
        {
            let _alone = self.definitions.unplanned_views.lock();
            let changes = draft.changes();
            self.check_changes(draft, &changes)?;
            self.database.check_owner()?;
            let entered = entered(draft);
            let record = match self.log() {
                Some(log) => {
                    let mut record = LogTransaction::new(log, gate)?;
                    self.write(&mut record, (transaction, draft), &changes)?;
                    Some(Box::new(record) as Box<dyn CommitRecord + '_>)
                }
                None => None,
            };
            let tables_entered: Vec<Arc<Table>> =
                entered.iter().map(|it| Arc::clone(&it.table)).collect();
            transaction.commit_defining(gate, record, entered)?;
            let permanent = |table: &&Arc<Table>| table.temporary().is_none();
            tables_entered
                .iter()
                .filter(permanent)
                .for_each(|table| table.keep());
            self.apply(draft, changes);
            apply_temporary(draft, tables);
            self.note_references();
        }
        self.rename_owners(draft)?;
        self.database.main_changed();
        if self.durability.is_some() {
            return Ok(());
        }
        self.publish()
    }

    /// Has sequences go by the new names of their columns.
    fn rename_owners(&self, draft: &Draft) -> Result<(), EngineError> {
        let gate = CommitGate::default();
        for (table, from, to) in draft.renamed.lock().iter() {
            for (schema, map) in self.catalog.all() {
                for (name, sequence, column) in owned_by(&map, *table) {
                    if column != *from {
                        continue;
                    }
                    let named = NamedSequence {
                        schema: schema.clone(),
                        name,
                        sequence,
                        is_temporary: false,
                        is_unlogged: false,
                    };
                    self.alter_sequence(&gate, &named, |before, value| {
                        let owner = Some((*table, to.clone()));
                        let changed = SequenceDefinition {
                            owner,
                            ..before.clone()
                        };
                        Ok((changed, value))
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Refuses what goes against what others have defined meanwhile.
    fn check_changes(&self, draft: &Draft, changes: &[Changed]) -> Result<(), EngineError> {
        let conflict = |name: &str| {
            let table = name.to_owned();
            EngineError::from(TransactionError::Conflict { table })
        };
        for (name, before) in draft.dropped_schemas() {
            let now = self.catalog.schema(&name);
            if now.is_some_and(|now| now.all().len() != before.all().len()) {
                return Err(conflict(&name));
            }
        }
        for change in changes {
            let map = self.catalog.schema(&change.schema);
            let known = map.and_then(|map| map.get(&change.name));
            let is_same = match (&known, &change.before) {
                (None, None) => true,
                (Some(known), Some(before)) => Arc::ptr_eq(known, before),
                _ => false,
            };
            let is_schema_gone = draft.base.schema(&change.schema).is_some()
                && self.catalog.schema(&change.schema).is_none();
            if !is_same || is_schema_gone {
                return Err(conflict(&change.name));
            }
        }
        self.check_foreign_keys(changes)
    }

    /// Refuses foreign keys, of tables that the transaction has not defined, that would lead nowhere, and its own to
    /// tables that are gone.
    fn check_foreign_keys(&self, changes: &[Changed]) -> Result<(), EngineError> {
        let of = |provider: &Option<Arc<dyn TableProvider>>| {
            provider.as_deref().and_then(table_of).cloned()
        };
        let after: Vec<Arc<Table>> = changes.iter().filter_map(|it| of(&it.after)).collect();
        let own: Vec<TableId> = after.iter().map(|table| table.id()).collect();
        let before = changes.iter().filter_map(|it| of(&it.before));
        let touched: BTreeSet<TableId> = before.map(|table| table.id()).collect();
        let references = self.references();
        for id in &touched {
            let now = after.iter().find(|table| table.id() == *id);
            for child in references.children(*id) {
                let is_own = own.contains(&child.table) || touched.contains(&child.table);
                let columns = &child.reference.parent_columns;
                if !is_own && !now.is_some_and(|table| has_key(&table.snapshot(), columns)) {
                    return Err(SqlError::ReferredTo {
                        what: format!("table \"{}\"", references.name_of(*id)),
                        constraint: child.reference.name.clone(),
                        table: references.name_of(child.table),
                    }
                    .into());
                }
            }
        }
        for table in &after {
            self.check_parents(&table.rules(), &own)?;
        }
        Ok(())
    }

    fn write(
        &self,
        log: &mut LogTransaction<'_>,
        (transaction, draft): (&Transaction, &Draft),
        changes: &[Changed],
    ) -> Result<(), EngineError> {
        let redefined = draft.redefined.lock();
        for (name, _) in draft.new_schemas() {
            log.create_schema(&name)?;
        }
        for change in changes {
            let name = (&*change.schema, &*change.name);
            let Some(before) = &change.before else {
                continue;
            };
            if let Some(table) = table_of(before.as_ref()).filter(|table| table.is_kept()) {
                let goes_on = redefined.get(&table.id());
                let goes_on = goes_on.filter(|_| is_there(changes, table.id()));
                if !matches!(
                    goes_on,
                    Some(Redefined {
                        origin: Origin::Columns(_),
                        ..
                    })
                ) {
                    log.drop_table(table.id())?;
                }
            } else if sequence_of(before.as_ref()).is_some() {
                log.drop_sequence(name.0, name.1)?;
            } else if view_sql(before.as_ref()).is_some() {
                log.drop_view(name.0, name.1)?;
            }
        }
        for change in changes {
            let name = (&*change.schema, &*change.name);
            let Some(after) = &change.after else {
                continue;
            };
            if let Some(sequence) = sequence_of(after.as_ref()) {
                sequences::record(log, name, sequence)?;
            } else if let Some(sql) = view_sql(after.as_ref()) {
                log.create_view(name.0, name.1, &sql)?;
            }
            let Some(table) = table_of(after.as_ref()).filter(|table| table.is_draft()) else {
                continue;
            };
            match redefined.get(&table.id()).map(|known| &known.origin) {
                Some(Origin::Columns(sources)) => log.redefine_table(name, table, sources)?,
                Some(Origin::Rows) | None => {
                    let rows = transaction.snapshot(table)?;
                    log.create_table(name, (table, &rows), self.system())?;
                }
            }
        }
        for (name, _) in draft.dropped_schemas() {
            log.drop_schema(&name)?;
        }
        Ok(())
    }

    /// Has all sessions see what was defined.
    fn apply(&self, draft: &Draft, changes: Vec<Changed>) {
        for (name, _) in draft.new_schemas() {
            self.catalog.add_schema(&name);
        }
        for change in changes {
            let Some(map) = self.catalog.schema(&change.schema) else {
                continue;
            };
            match change.after {
                Some(after) => map.replace(change.name, after),
                None => {
                    map.remove(&change.name);
                }
            }
        }
        for (name, _) in draft.dropped_schemas() {
            self.catalog.remove_schema(&name);
        }
    }
}

fn is_there(changes: &[Changed], table: TableId) -> bool {
    let after = changes.iter().filter_map(|change| change.after.as_deref());
    let mut tables = after.filter_map(table_of);
    tables.any(|known| known.id() == table)
}

/// The tables that the transaction has made, with what they take the place of.
fn entered(draft: &Draft) -> Vec<EnteredTable> {
    let redefined = draft.redefined.lock();
    let permanent = draft.permanent.all().into_iter();
    let permanent = permanent.flat_map(|(_, map)| map.all());
    let all = permanent.chain(draft.temporary.all());
    let tables = all.filter_map(|(_, provider)| {
        let table = table_of(provider.as_ref()).filter(|table| table.is_draft())?;
        let known = redefined.get(&table.id());
        Some(EnteredTable {
            table: Arc::clone(table),
            replaced: known.map(|known| known.replaced.clone()),
        })
    });
    tables.collect()
}

/// Has the session's own tables be those that the transaction has left.
fn apply_temporary(draft: &Draft, tables: &SessionTables) {
    let own = tables.committed_temporary();
    let left = draft.temporary.all();
    for (name, provider) in &left {
        if !own
            .get(name)
            .is_some_and(|known| Arc::ptr_eq(&known, provider))
        {
            own.replace(name.clone(), Arc::clone(provider));
        }
    }
    for (name, _) in own.all() {
        if !left.iter().any(|(known, _)| *known == name) {
            own.remove(&name);
        }
    }
}
