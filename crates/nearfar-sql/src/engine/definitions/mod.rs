//! What the catalog holds, changed: in the log first, if there is one.

mod commit;

use datafusion::catalog::TableProvider;
use datafusion::datasource::ViewTable;
use parking_lot::Mutex;
use std::sync::Arc;

use super::Engine;
use super::catalog::{PUBLIC, TableMap};
use super::sequences::{self, NamedSequence, SequenceTable, sequence_of};
use crate::error::EngineError;
use crate::scan::table_of;
use crate::sql::SqlError;
use nearfar_durable::error::DurableError;
use nearfar_durable::log::{Definitions, LogTransaction, QualifiedName, TakeManifest};
use nearfar_durable::manifest::{
    DatabaseManifest, SequenceManifest, TableManifest, ViewDefinition,
};
use nearfar_table::sequence::{Sequence, SequenceDefinition, SequenceValue};
use nearfar_table::table::{Preload, Snapshot, Table, TableId, TableIndex, TableRules};
use nearfar_table::transaction::{CommitGate, Commits, DatabaseSnapshot};

/// Held by the one change of the catalog that is under way, or by who takes a checkpoint.
#[derive(Debug, Default)]
pub(super) struct DefinitionLock {
    /// Views of the data directory that could not be planned, and are kept there nevertheless.
    unplanned_views: Mutex<Vec<(QualifiedName, String)>>,
}

/// A sequence that is entered with a table.
#[derive(Debug, Clone)]
pub(super) struct NewSequence {
    pub name: String,
    pub sequence: Arc<Sequence>,
}

/// Where a new table or view is entered, and under which name.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub schema: Arc<TableMap>,
    pub schema_name: String,
    pub name: String,
    pub or_replace: bool,
    /// Whether it is the session's own, which no log knows of.
    pub is_temporary: bool,
    /// Whether the session's open transaction enters it, and nobody else sees it before that commits.
    pub is_draft: bool,
}

impl Slot {
    /// Whether it is entered in memory alone.
    fn is_unlogged(&self) -> bool {
        self.is_temporary || self.is_draft
    }

    /// Whether a table or view of this name is in the way.
    pub fn is_taken(&self) -> bool {
        !self.or_replace && self.schema.get(&self.name).is_some()
    }

    pub fn taken(&self) -> SqlError {
        SqlError::TableExists {
            table: self.name.clone(),
        }
    }

    /// Has the log forget what is replaced.
    fn forget_replaced(&self, log: &mut LogTransaction<'_>) -> Result<(), DurableError> {
        match self.schema.get(&self.name) {
            Some(replaced) => forget(
                log,
                (&self.schema_name, &self.schema),
                &self.name,
                &replaced,
            ),
            None => Ok(()),
        }
    }
}

/// The statement of a view, where `provider` is one.
pub fn view_sql(provider: &dyn TableProvider) -> Option<String> {
    let view = (provider as &dyn std::any::Any).downcast_ref::<ViewTable>()?;
    view.definition().cloned()
}

/// Has the log forget a table or view; tables on files are not in it.
fn forget(
    log: &mut LogTransaction<'_>,
    (schema, map): (&str, &TableMap),
    name: &str,
    provider: &Arc<dyn TableProvider>,
) -> Result<(), DurableError> {
    if let Some(table) = table_of(provider.as_ref()).filter(|table| table.is_kept()) {
        log.drop_table(table.id())?;
        let mut owned = owned_sequences(map, table.id()).into_iter();
        return owned.try_for_each(|sequence| log.drop_sequence(schema, &sequence));
    }
    if sequence_of(provider.as_ref()).is_some() {
        return log.drop_sequence(schema, name);
    }
    match view_sql(provider.as_ref()) {
        Some(_) => log.drop_view(schema, name),
        None => Ok(()),
    }
}

/// The sequences that are dropped with a table, their names, and the columns that they are of.
pub(super) fn owned_by(map: &TableMap, table: TableId) -> Vec<(String, Arc<Sequence>, String)> {
    let all = map.all().into_iter();
    let owned = all.filter_map(|(name, provider)| {
        let sequence = sequence_of(provider.as_ref())?;
        let (_, column) = sequence
            .definition()
            .owner
            .clone()
            .filter(|(id, _)| *id == table)?;
        Some((name, Arc::clone(sequence), column))
    });
    owned.collect()
}

/// The names of the sequences that are dropped with a table.
fn owned_sequences(map: &TableMap, table: TableId) -> Vec<String> {
    let owned = owned_by(map, table).into_iter();
    owned.map(|(name, ..)| name).collect()
}

/// Takes a table or view out, and sequences that are dropped with it; whether it was there.
pub(super) fn remove_with_owned(map: &TableMap, name: &str) -> bool {
    let removed = map.remove(name);
    if let Some(table) = removed.as_deref().and_then(table_of) {
        for sequence in owned_sequences(map, table.id()) {
            map.remove(&sequence);
        }
    }
    removed.is_some()
}

/// Adds what is in a schema to a checkpoint.
fn add_schema(
    manifest: &mut DatabaseManifest,
    database: &DatabaseSnapshot,
    schema: &str,
    map: &TableMap,
) {
    manifest.schemas.push(schema.to_owned());
    for (name, provider) in map.all() {
        if let Some(table) = table_of(provider.as_ref()).filter(|table| table.is_kept()) {
            if let Some(snapshot) = database.table(table) {
                let mut kept = TableManifest::of(table, snapshot.clone(), table.id(), schema);
                kept.name = name;
                manifest.tables.push(kept);
            }
        } else if let Some(sequence) = sequence_of(provider.as_ref()) {
            let (definition, value) = sequence.checkpoint();
            manifest.sequences.push(SequenceManifest {
                schema: schema.to_owned(),
                name,
                definition,
                value,
            });
        } else if let Some(sql) = view_sql(provider.as_ref()) {
            let schema = schema.to_owned();
            manifest.views.push(ViewDefinition { schema, name, sql });
        }
    }
}

impl Engine {
    /// Changes the catalog: checks that it can be, passes `gate`, writes that to the log, waits for the
    /// disk, and does it, both with what the check has found. Changes of the catalog follow each other.
    fn define<F, T>(
        &self,
        gate: &CommitGate,
        check: impl FnOnce() -> Result<F, EngineError>,
        write: impl FnOnce(&mut LogTransaction<'_>, &F) -> Result<(), DurableError>,
        apply: impl FnOnce(F) -> T,
    ) -> Result<T, EngineError> {
        let applied = self.define_alone(gate, check, write, apply)?;
        self.database.main_changed();
        Ok(applied)
    }

    /// The same for rows that are new: where nothing but a pool would have them, it has to.
    fn define_rows<F>(
        &self,
        gate: &CommitGate,
        check: impl FnOnce() -> Result<F, EngineError>,
        write: impl FnOnce(&mut LogTransaction<'_>, &F) -> Result<(), DurableError>,
        apply: impl FnOnce(F),
    ) -> Result<(), EngineError> {
        if self.durability.is_some() {
            return self.define(gate, check, write, apply);
        }
        self.define_alone(gate, check, write, apply)?;
        self.publish()
    }

    fn define_alone<F, T>(
        &self,
        gate: &CommitGate,
        check: impl FnOnce() -> Result<F, EngineError>,
        write: impl FnOnce(&mut LogTransaction<'_>, &F) -> Result<(), DurableError>,
        apply: impl FnOnce(F) -> T,
    ) -> Result<T, EngineError> {
        let _alone = self.definitions.unplanned_views.lock();
        let found = check()?;
        self.database.check_owner()?;
        if let Some(log) = self.log() {
            let mut record = LogTransaction::new(log, gate)?;
            write(&mut record, &found)?;
            gate.pass()?;
            if !record.is_empty() {
                let position = {
                    let _commits = self.database.lock();
                    record.commit()?
                };
                if log.sync_setting().is_on() {
                    log.sync_to(position)?;
                }
            }
        }
        gate.pass()?;
        Ok(apply(found))
    }

    /// Whether a table or view can be entered: its schema can have been dropped since the statement
    /// began, and be another one now.
    fn check(&self, slot: &Slot) -> Result<(), SqlError> {
        let schema = self.catalog.schema(&slot.schema_name);
        let is_there = schema.is_some_and(|schema| Arc::ptr_eq(&schema, &slot.schema));
        if !slot.is_unlogged() && !is_there {
            let schema = slot.schema_name.clone();
            return Err(SqlError::UnknownSchema { schema });
        }
        match slot.is_taken() {
            true => Err(slot.taken()),
            false => Ok(()),
        }
    }

    /// Enters a table with its rows, and the sequences of its columns.
    ///
    /// # Errors
    /// A name that is taken; a log that can't be written.
    pub(super) fn create_table(
        &self,
        gate: &CommitGate,
        slot: &Slot,
        table: Arc<Table>,
        sequences: &[NewSequence],
    ) -> Result<(), EngineError> {
        table.set_schema_name(&slot.schema_name);
        let enter = || {
            let replaced = slot.schema.get(&slot.name);
            let replaced = replaced.as_deref().and_then(table_of);
            let owned = replaced.map(|replaced| owned_sequences(&slot.schema, replaced.id()));
            for new in sequences {
                let sequence = SequenceTable::new(Arc::clone(&new.sequence));
                slot.schema.replace(new.name.clone(), Arc::new(sequence));
            }
            let provider = match slot.is_draft {
                true => self.provider_of(Arc::clone(&table)),
                false => self.provider(Arc::clone(&table)),
            };
            slot.schema.replace(slot.name.clone(), provider);
            for gone in owned.into_iter().flatten() {
                slot.schema.remove(&gone);
            }
        };
        if slot.is_unlogged() {
            self.check(slot)?;
            gate.pass()?;
            enter();
            return Ok(());
        }
        let (system, replaced) = (self.system(), slot.schema.get(&slot.name));
        let entered = self.define_rows(
            gate,
            || {
                self.check(slot)?;
                self.check_parents(&table.rules(), &[table.id()])
            },
            |log, ()| {
                slot.forget_replaced(log)?;
                for new in sequences {
                    sequences::record(log, (&slot.schema_name, &new.name), &new.sequence)?;
                }
                let rows = (&*table, &table.snapshot());
                log.create_table((&slot.schema_name, &slot.name), rows, system)
            },
            |()| {
                table.keep();
                let before = slot.schema.get(&slot.name);
                let before = before.as_deref().and_then(table_of).cloned();
                if table.has_references() {
                    let new = (&*slot.schema_name, &*slot.name, &table);
                    self.note_references_with(Some(new));
                }
                enter();
                if before.is_some_and(|before| before.has_references()) {
                    self.note_references();
                }
            },
        );
        entered.inspect_err(|_| self.undo_create(slot, &table, replaced))
    }

    /// Takes a table out again, if it was entered, and puts in what it has replaced.
    fn undo_create(
        &self,
        slot: &Slot,
        table: &Arc<Table>,
        replaced: Option<Arc<dyn TableProvider>>,
    ) {
        let entered = slot.schema.get(&slot.name);
        let is_entered = entered
            .as_ref()
            .and_then(|entered| table_of(entered.as_ref()));
        if !is_entered.is_some_and(|entered| Arc::ptr_eq(entered, table)) {
            return;
        }
        remove_with_owned(&slot.schema, &slot.name);
        if let Some(replaced) = replaced {
            let again = match table_of(replaced.as_ref()) {
                Some(table) => self.provider(Arc::clone(table)) as _,
                None => replaced,
            };
            slot.schema.replace(slot.name.clone(), again);
        }
    }

    /// Enters a view.
    ///
    /// # Errors
    /// As [`Self::create_table`].
    pub(super) fn create_view(
        &self,
        gate: &CommitGate,
        slot: &Slot,
        view: Arc<ViewTable>,
    ) -> Result<(), EngineError> {
        let sql = view.definition().cloned().unwrap_or_default();
        self.enter(gate, slot, view, |log| {
            log.create_view(&slot.schema_name, &slot.name, &sql)
        })
    }

    /// Enters a table that no log has.
    ///
    /// # Errors
    /// As [`Self::create_table`].
    pub(super) fn create_unlogged(
        &self,
        gate: &CommitGate,
        slot: &Slot,
        table: impl TableProvider + 'static,
    ) -> Result<(), EngineError> {
        self.enter(gate, slot, Arc::new(table), |_| Ok(()))
    }

    /// Enters what has no rows in the log, where `record` tells of it.
    fn enter(
        &self,
        gate: &CommitGate,
        slot: &Slot,
        provider: Arc<dyn TableProvider>,
        record: impl FnOnce(&mut LogTransaction<'_>) -> Result<(), DurableError>,
    ) -> Result<(), EngineError> {
        let enter = || slot.schema.replace(slot.name.clone(), provider);
        if slot.is_unlogged() {
            self.check(slot)?;
            gate.pass()?;
            enter();
            return Ok(());
        }
        self.define(
            gate,
            || Ok(self.check(slot)?),
            |log, ()| {
                slot.forget_replaced(log)?;
                record(log)
            },
            |()| enter(),
        )
    }

    /// Enters a sequence.
    ///
    /// # Errors
    /// As [`Self::create_table`].
    pub(super) fn create_sequence(
        &self,
        gate: &CommitGate,
        slot: &Slot,
        sequence: &Arc<Sequence>,
    ) -> Result<(), EngineError> {
        let provider = Arc::new(SequenceTable::new(Arc::clone(sequence)));
        self.enter(gate, slot, provider, |log| {
            sequences::record(log, (&slot.schema_name, &slot.name), sequence)
        })
    }

    /// Declares a sequence anew. Nobody is given a number of it meanwhile.
    ///
    /// # Errors
    /// Those of `change`; a log that can't be written.
    pub(super) fn alter_sequence(
        &self,
        gate: &CommitGate,
        named: &NamedSequence,
        change: impl FnOnce(
            &SequenceDefinition,
            SequenceValue,
        ) -> Result<(SequenceDefinition, SequenceValue), SqlError>,
    ) -> Result<(), EngineError> {
        let _alone = self.definitions.unplanned_views.lock();
        self.database.check_owner()?;
        named.sequence.alter(|before, value| {
            let changed = change(before, value)?;
            let Some(log) = self.log().filter(|_| !named.is_unlogged) else {
                gate.pass()?;
                return Ok(changed);
            };
            named.check_known(self)?;
            let mut record = LogTransaction::new(log, gate)?;
            let (definition, value) = changed.clone();
            record.sequence((&named.schema, &named.name), definition, value)?;
            gate.pass()?;
            let position = {
                let _commits = self.database.lock();
                record.commit()?
            };
            if log.sync_setting().is_on() {
                log.sync_to(position)?;
            }
            Ok(changed)
        })
    }

    /// Takes a permanent table or view out; whether it was there.
    ///
    /// # Errors
    /// A log that can't be written.
    pub(super) fn drop_relation(
        &self,
        gate: &CommitGate,
        schema: &str,
        name: &str,
    ) -> Result<bool, EngineError> {
        self.define(
            gate,
            || {
                let map = self.catalog.schema(schema);
                let provider = map.as_ref().and_then(|map| map.get(name));
                let table = provider.as_deref().and_then(table_of).cloned();
                let has_references = table.as_ref().is_some_and(|table| table.has_references());
                self.references().check_unreferenced(table.as_slice())?;
                Ok((map, has_references))
            },
            |log, (map, _)| match map.as_ref().and_then(|map| map.get(name)) {
                Some(provider) => match map.as_deref() {
                    Some(map) => forget(log, (schema, map), name, &provider),
                    None => Ok(()),
                },
                None => Ok(()),
            },
            |(map, has_references)| {
                let is_removed = map.is_some_and(|map| remove_with_owned(&map, name));
                if has_references {
                    self.note_references();
                }
                is_removed
            },
        )
    }

    /// Makes a schema, unless there is one of this name.
    ///
    /// # Errors
    /// A log that can't be written.
    pub(super) fn create_schema(&self, gate: &CommitGate, name: &str) -> Result<(), EngineError> {
        self.define(
            gate,
            || Ok(()),
            |log, ()| log.create_schema(name),
            |()| self.catalog.add_schema(name),
        )?;
        Ok(())
    }

    /// Takes a schema out, which is empty or goes with all that is in it; whether it was.
    ///
    /// # Errors
    /// A log that can't be written.
    pub(super) fn drop_schema(
        &self,
        gate: &CommitGate,
        name: &str,
        with_contents: bool,
    ) -> Result<bool, EngineError> {
        let is_droppable = || {
            let Some(map) = self.catalog.schema(name) else {
                return Ok(false);
            };
            let all = map.all();
            let tables = all.iter();
            let tables = tables.filter_map(|(_, provider)| table_of(provider.as_ref()).cloned());
            self.references()
                .check_unreferenced(&tables.collect::<Vec<_>>())?;
            Ok(with_contents || all.is_empty())
        };
        self.define(
            gate,
            is_droppable,
            |log, is_droppable| match is_droppable {
                true => log.drop_schema(name),
                false => Ok(()),
            },
            |is_droppable| {
                if is_droppable {
                    self.catalog.remove_schema(name);
                    self.note_references();
                }
                is_droppable
            },
        )
    }

    /// Has the log know where the columns of a table lie now.
    ///
    /// # Errors
    /// A log that can't be written.
    pub(super) fn record_placements(
        &self,
        gate: &CommitGate,
        table: &Table,
    ) -> Result<(), EngineError> {
        self.define(
            gate,
            || Ok(()),
            |log, ()| match self.is_logged(table) {
                true => log.place(table, self.system()),
                false => Ok(()),
            },
            |()| (),
        )
    }

    /// Gives a table the indexes that `change` makes of its newest snapshot. Nobody commits meanwhile.
    ///
    /// # Errors
    /// Those of `change`; a table that was dropped; a log that can't be written.
    pub(super) fn change_indexes(
        &self,
        gate: &CommitGate,
        table: &Table,
        change: impl FnOnce(&Snapshot) -> Result<Vec<Arc<TableIndex>>, EngineError>,
    ) -> Result<(), EngineError> {
        self.change_indexes_alone(gate, table, change)?;
        self.database.main_changed();
        Ok(())
    }

    /// Declares of the rows of a table what `change` makes of its newest snapshot and of what was
    /// declared. Nobody commits meanwhile.
    ///
    /// # Errors
    /// Those of `change`; a table that was dropped; a log that can't be written.
    pub(super) fn change_rules(
        &self,
        gate: &CommitGate,
        table: &Table,
        change: impl FnOnce(&Snapshot, TableRules) -> Result<TableRules, EngineError>,
    ) -> Result<(), EngineError> {
        self.change_alone(
            gate,
            table,
            |newest| change(newest, table.rules().as_ref().clone()),
            |record, rules| record.rules(table, rules),
            |_, rules| {
                let has_references = |rules: &TableRules| !rules.references.is_empty();
                let before = table.rules();
                let changes = has_references(&before) || has_references(&rules);
                table.set_rules(rules);
                if changes {
                    // Nobody commits meanwhile, and who does later has held its changes against them.
                    self.note_references();
                }
            },
        )?;
        self.database.main_changed();
        Ok(())
    }

    fn change_indexes_alone(
        &self,
        gate: &CommitGate,
        table: &Table,
        change: impl FnOnce(&Snapshot) -> Result<Vec<Arc<TableIndex>>, EngineError>,
    ) -> Result<(), EngineError> {
        self.change_alone(
            gate,
            table,
            |newest| Ok(newest.with_indexes(change(newest)?)),
            |record, changed| record.indexes(table, changed),
            |commits, changed| commits.install(table, changed),
        )
    }

    /// Changes what is known of a table, under the lock for commits: what `make` makes of its newest
    /// snapshot is written to the log with `write`, and done with `apply`.
    fn change_alone<T>(
        &self,
        gate: &CommitGate,
        table: &Table,
        make: impl FnOnce(&Snapshot) -> Result<T, EngineError>,
        write: impl FnOnce(&mut LogTransaction<'_>, &T) -> Result<(), DurableError>,
        apply: impl FnOnce(&Commits<'_>, T),
    ) -> Result<(), EngineError> {
        let _alone = self.definitions.unplanned_views.lock();
        self.database.check_owner()?;
        let log = self.log().filter(|_| table.is_kept());
        // Before the lock: who takes a checkpoint waits for records that have begun, and for the lock then.
        let begun = log.map(|log| LogTransaction::new(log, gate)).transpose()?;
        let position = {
            let commits = self.database.lock();
            let newest = commits.snapshot();
            let newest = newest.table(table).ok_or_else(|| SqlError::UnknownTable {
                table: table.name().to_owned(),
            })?;
            let changed = make(newest)?;
            gate.pass()?;
            let record = |mut record: LogTransaction<'_>| -> Result<u64, DurableError> {
                write(&mut record, &changed)?;
                Ok(record.commit()?)
            };
            let position = begun.map(record).transpose()?;
            apply(&commits, changed);
            position
        };
        if let Some((log, position)) = log.zip(position)
            && log.sync_setting().is_on()
        {
            log.sync_to(position)?;
        }
        Ok(())
    }

    /// Whether the log knows of a table: not of one that was dropped since the statement began.
    fn is_logged(&self, table: &Table) -> bool {
        table.is_kept() && self.database.snapshot().table(table).is_some()
    }

    /// Says which columns of a table are brought to memory before a query needs them, and begins
    /// with it.
    ///
    /// # Errors
    /// A log that can't be written.
    pub(super) fn set_preload(
        &self,
        gate: &CommitGate,
        table: &Table,
        preload: Preload,
    ) -> Result<(), EngineError> {
        let before = table.preload();
        table.set_preload(preload);
        let recorded = self.define(
            gate,
            || Ok(()),
            |log, ()| match self.is_logged(table) {
                true => log.preload(table),
                false => Ok(()),
            },
            |()| self.preloader.start(&self.catalog),
        );
        recorded.inspect_err(|_| table.set_preload(before))
    }

    /// Takes what is committed and its position in the log. Holds on to nothing that holds on to the
    /// engine.
    pub(super) fn manifest_taker(&self) -> TakeManifest {
        let (catalog, database) = (Arc::clone(&self.catalog), Arc::clone(&self.database));
        let (definitions, log) = (Arc::clone(&self.definitions), self.log().cloned());
        Box::new(move || {
            // No definition is between the log and the catalog then, and no commit between the log
            // and the database.
            let unplanned = definitions.unplanned_views.lock();
            let whole = || {
                let commits = database.lock();
                let position = log.as_ref().map_or(0, |log| log.end());
                (commits.snapshot(), position)
            };
            let (snapshot, log_position) = match &log {
                Some(log) => log.between_transactions(whole),
                None => whole(),
            };
            let mut manifest = DatabaseManifest {
                log_position,
                ..DatabaseManifest::default()
            };
            for (schema, map) in catalog.all() {
                add_schema(&mut manifest, &snapshot, &schema, &map);
            }
            let unplanned = unplanned.iter().map(|(name, sql)| ViewDefinition {
                schema: name.schema.clone(),
                name: name.name.clone(),
                sql: sql.clone(),
            });
            manifest.views.extend(unplanned);
            manifest
        })
    }

    /// The slot of a table that is registered.
    pub(super) fn public_slot(&self, name: &str) -> Slot {
        Slot {
            schema: Arc::clone(self.catalog.public()),
            schema_name: PUBLIC.to_owned(),
            name: name.to_owned(),
            or_replace: false,
            is_temporary: false,
            is_draft: false,
        }
    }

    /// Enters schemas and tables that were recovered, which are part of the database. Returns the
    /// views, which have to be planned.
    pub(super) fn restore(&self, definitions: Definitions) -> Vec<(QualifiedName, String)> {
        for schema in &definitions.schemas {
            self.catalog.add_schema(schema);
        }
        for (name, table) in definitions.tables.into_values() {
            let map = self.catalog.add_schema(&name.schema);
            table.set_schema_name(&name.schema);
            map.replace(name.name, self.provider_of(table));
        }
        for (name, (definition, value)) in definitions.sequences {
            let map = self.catalog.add_schema(&name.schema);
            let sequence = Arc::new(Sequence::restored(definition, value));
            map.replace(name.name, Arc::new(SequenceTable::new(sequence)));
        }
        definitions.views
    }

    /// Plans views again, in whatever order they can be. Those that can't, since a table on files
    /// that they read is not there, are left out with a warning.
    pub(super) fn restore_views(self: &Arc<Self>, views: Vec<(QualifiedName, String)>) {
        if views.is_empty() {
            return;
        }
        let engine = Arc::clone(self);
        // A runtime can't be started on a thread that has one.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            match runtime {
                Ok(runtime) => runtime.block_on(engine.plan_views(views)),
                Err(error) => tracing::error!(%error, "views could not be planned"),
            }
        });
        if thread.join().is_err() {
            tracing::error!("planning the views of the data directory has panicked");
        }
    }

    async fn plan_views(self: Arc<Self>, mut views: Vec<(QualifiedName, String)>) {
        let session = self.session();
        loop {
            let before = views.len();
            let mut left = Vec::new();
            for (name, sql) in views {
                if let Err(error) = session.execute(&sql).await {
                    left.push((name, sql, error));
                }
            }
            if left.is_empty() {
                return;
            }
            if left.len() == before {
                for (name, _, error) in &left {
                    tracing::warn!(%name, %error, "the view can't be planned");
                }
                let unplanned = left.into_iter().map(|(name, sql, _)| (name, sql));
                self.definitions.unplanned_views.lock().extend(unplanned);
                return;
            }
            views = left.into_iter().map(|(name, sql, _)| (name, sql)).collect();
        }
    }
}
