//! Records of the log, carried out again.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use nearfar_memory::MemorySystem;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::record::{Frame, IdRuns, LoggedSource, Operation, QualifiedName};
use super::rows::read_rows;
use super::sequences::SequenceChange;
use crate::error::{DurabilityError, DurableError};
use crate::manifest::{Decoder, decode_placements, unfilled_indexes};
use nearfar_table::placement::ColumnPlacements;
use nearfar_table::sequence::{SequenceDefinition, SequenceValue};
use nearfar_table::table::{
    ColumnSource, Part, RowId, RowIdsBuilder, Snapshot, Table, TableId, delta_segment, join_small,
};
use nearfar_table::transaction::{Database, NewRowsBuilder};

/// What is in a database by name: what checkpoint and log together say.
#[derive(Debug, Default)]
pub struct Definitions {
    /// The names of schemas.
    pub schemas: BTreeSet<String>,
    /// The tables, which are part of the database.
    pub tables: BTreeMap<TableId, (QualifiedName, Arc<Table>)>,
    /// The sequences: how they were declared, and where they are.
    pub sequences: BTreeMap<QualifiedName, (SequenceDefinition, SequenceValue)>,
    /// Views and the statements that create them, in the order in which they were created.
    pub views: Vec<(QualifiedName, String)>,
}

impl Definitions {
    fn change_sequence(&mut self, name: QualifiedName, change: SequenceChange) {
        match change {
            SequenceChange::Declared { definition, value } => {
                self.sequences.insert(name, (definition, value));
            }
            SequenceChange::At(value) => {
                if let Some((_, known)) = self.sequences.get_mut(&name) {
                    *known = value;
                }
            }
            SequenceChange::Dropped => {
                self.sequences.remove(&name);
            }
        }
    }

    /// Enters a view, in place of one of the same name.
    fn set_view(&mut self, name: QualifiedName, sql: String) {
        self.views.retain(|(known, _)| *known != name);
        self.views.push((name, sql));
    }
}

/// A database that is being made from its log.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    database: &'a Arc<Database>,
    pub definitions: Definitions,
    dropped: HashSet<TableId>,
    changes: BTreeMap<TableId, Change>,
    /// The record that is being carried out.
    position: u64,
}

/// What one transaction does to one table.
#[derive(Debug)]
struct Change {
    is_truncated: bool,
    writer: NewRowsBuilder,
    ids: RowIdsBuilder,
    deleted: Vec<RowId>,
}

impl<'a> Replay<'a> {
    pub fn new(database: &'a Arc<Database>, definitions: Definitions) -> Self {
        Self {
            database,
            definitions,
            dropped: HashSet::new(),
            changes: BTreeMap::new(),
            position: 0,
        }
    }

    fn system(&self) -> &Arc<MemorySystem> {
        &self.database.storage().system
    }

    fn error(&self, what: impl std::fmt::Display) -> DurableError {
        DurabilityError::replay(self.position, what).into()
    }

    /// Takes in the operations of one record of a transaction.
    ///
    /// # Errors
    /// What can't be carried out; memory that is refused.
    pub fn record(&mut self, position: u64, frame: Frame<'_>) -> Result<(), DurableError> {
        self.position = position;
        for operation in frame {
            let operation = operation.map_err(DurabilityError::undecodable(position))?;
            self.operation(operation)?;
        }
        Ok(())
    }

    fn operation(&mut self, operation: Operation<'_>) -> Result<(), DurableError> {
        match operation {
            Operation::CreateTable {
                table: id,
                name,
                columns,
                placements,
            } => self.create_table(id, (name, columns), placements)?,
            Operation::DropTable { table } => self.drop_table(table),
            Operation::Redefine {
                table,
                name,
                columns,
                sources,
                filled,
            } => self.redefine(table, (name, columns), (&sources, filled))?,
            Operation::Place { table, placements } => {
                if let Some(table) = self.table(table)? {
                    let wanted = self.placements(placements)?;
                    table.migrate(&wanted, self.database.storage())?;
                }
            }
            Operation::Preload { table, preload } => {
                if let Some(table) = self.table(table)? {
                    table.set_preload(preload);
                }
            }
            Operation::Indexes { table, indexes } => {
                if let Some(table) = self.table(table)? {
                    let indexes = unfilled_indexes(indexes, table.schema());
                    let indexes = indexes.map_err(|error| self.error(error))?;
                    let commits = self.database.lock();
                    commits.install(&table, table.snapshot().with_indexes(indexes));
                }
            }
            Operation::Rules { table, rules } => {
                if let Some(table) = self.table(table)? {
                    table.set_rules(rules);
                }
            }
            Operation::CreateSchema { name } => {
                self.definitions.schemas.insert(name);
            }
            Operation::DropSchema { name } => self.drop_schema(&name),
            Operation::CreateView { name, sql } => self.definitions.set_view(name, sql),
            Operation::DropView { name } => {
                self.definitions.views.retain(|(view, _)| *view != name);
            }
            Operation::Sequence { name, change } => self.definitions.change_sequence(name, change),
            Operation::Truncate { table } => {
                if let Some(change) = self.change(table)? {
                    change.is_truncated = true;
                }
            }
            Operation::Insert { table, ids, rows } => self.insert(table, &ids, rows)?,
            Operation::Delete { table, ids } => {
                if let Some(change) = self.change(table)? {
                    let ids = ids
                        .iter()
                        .flat_map(|(first, n)| *first..*first + u64::from(*n));
                    change.deleted.extend(ids);
                }
            }
        }
        Ok(())
    }

    fn placements(&self, bytes: &[u8]) -> Result<ColumnPlacements, DurableError> {
        decode_placements(&mut Decoder::new(bytes), self.system())
            .map_err(|error| self.error(error))
    }

    fn create_table(
        &mut self,
        id: TableId,
        (name, columns): (QualifiedName, SchemaRef),
        placements: &[u8],
    ) -> Result<(), DurableError> {
        let placements = self.placements(placements)?;
        let snapshot = Snapshot::of_main(columns, Vec::new());
        let table = Table::with_id(id, name.name.clone(), snapshot, 0, placements);
        let table = Arc::new(table);
        table.keep();
        self.database.add(&table);
        // One that is written again keeps its number.
        self.dropped.remove(&id);
        self.definitions.schemas.insert(name.schema.clone());
        self.definitions.tables.insert(id, (name, table));
        Ok(())
    }

    fn drop_table(&mut self, table: TableId) {
        let dropped = self.definitions.tables.remove(&table);
        self.changes.remove(&table);
        if let Some((_, dropped)) = dropped {
            self.database.forget(&dropped);
        }
        self.dropped.insert(table);
    }

    fn redefine(
        &mut self,
        id: TableId,
        (name, columns): (QualifiedName, SchemaRef),
        (sources, filled): (&[LoggedSource], &[u8]),
    ) -> Result<(), DurableError> {
        let Some(before) = self.table(id)? else {
            return Ok(());
        };
        if sources.len() != columns.fields().len() {
            return Err(self.error("columns and their sources are not equally many"));
        }
        let known = before.schema().fields().len();
        let is_filled = |(source, _): &(&LoggedSource, &FieldRef)| **source == LoggedSource::Filled;
        let fields = sources.iter().zip(columns.fields());
        let fields = fields.filter(is_filled).map(|(_, field)| Arc::clone(field));
        let filled_schema = Arc::new(Schema::new(fields.collect::<Vec<FieldRef>>()));
        let filled = read_rows(filled, &filled_schema).map_err(|error| self.error(error))?;
        let mut filled = filled.columns().iter();
        let sources = sources.iter().map(|source| match source {
            LoggedSource::Kept(at) if (*at as usize) < known => {
                Some(ColumnSource::Kept(*at as usize))
            }
            LoggedSource::Kept(_) => None,
            LoggedSource::Filled => {
                let value = filled.next().filter(|value| value.len() == 1)?;
                Some(ColumnSource::Filled(Arc::clone(value)))
            }
        });
        let sources = sources.collect::<Option<Vec<ColumnSource>>>();
        let sources = sources.ok_or_else(|| self.error("a column comes from nowhere"))?;
        let rows = (&before.snapshot(), self.database.storage());
        let after = before.redefined((&name.name, &columns), &sources, rows)?;
        let after = Arc::new(after);
        after.keep();
        self.database.add(&after);
        self.definitions.tables.insert(id, (name, after));
        Ok(())
    }

    fn drop_schema(&mut self, name: &str) {
        let tables = self.definitions.tables.iter();
        let gone: Vec<TableId> = tables
            .filter(|(_, (table, _))| table.schema == name)
            .map(|(id, _)| *id)
            .collect();
        gone.into_iter().for_each(|table| self.drop_table(table));
        let sequences = &mut self.definitions.sequences;
        sequences.retain(|sequence, _| sequence.schema != name);
        self.definitions
            .views
            .retain(|(view, _)| view.schema != name);
        self.definitions.schemas.remove(name);
    }

    /// A table; nothing for one that was dropped, which a transaction can have changed while that
    /// went on.
    fn table(&self, id: TableId) -> Result<Option<Arc<Table>>, DurableError> {
        match self.definitions.tables.get(&id) {
            Some((_, table)) => Ok(Some(Arc::clone(table))),
            None if self.dropped.contains(&id) => Ok(None),
            None => Err(self.error(format!("there is no table of number {id}"))),
        }
    }

    fn change(&mut self, id: TableId) -> Result<Option<&mut Change>, DurableError> {
        let Some(table) = self.table(id)? else {
            return Ok(None);
        };
        let storage = self.database.storage();
        Ok(Some(self.changes.entry(id).or_insert_with(|| Change {
            is_truncated: false,
            writer: NewRowsBuilder::new(table, storage),
            ids: RowIdsBuilder::default(),
            deleted: Vec::new(),
        })))
    }

    fn insert(&mut self, id: TableId, ids: &IdRuns, rows: &[u8]) -> Result<(), DurableError> {
        let Some(table) = self.table(id)? else {
            return Ok(());
        };
        let batch: RecordBatch =
            read_rows(rows, table.schema()).map_err(|error| self.error(error))?;
        let named: u64 = ids.iter().map(|(_, rows)| u64::from(*rows)).sum();
        if named != batch.num_rows() as u64 {
            return Err(self.error("rows and identities are not equally many"));
        }
        if let Some(change) = self.change(id)? {
            change.writer.push(batch)?;
            for (first, rows) in ids {
                change.ids.push(*first, *rows as usize);
                table.skip_row_ids(first + u64::from(*rows));
            }
        }
        Ok(())
    }

    /// Commits what was taken in.
    ///
    /// # Errors
    /// Rows that are not there; memory that is refused.
    pub fn commit(&mut self) -> Result<(), DurableError> {
        let mut installed = Vec::new();
        for (id, change) in std::mem::take(&mut self.changes) {
            if let Some(table) = self.table(id)? {
                let snapshot = self.changed(&table, change)?;
                installed.push((table, snapshot));
            }
        }
        // Merges go on in the background, and may have replaced segments since.
        let commits = self.database.lock();
        let mut all = Vec::new();
        for (table, change) in &installed {
            all.push((table.as_ref(), self.onto(table, change)?));
        }
        commits.install_all(all);
        drop(commits);
        for (table, _) in &installed {
            self.database.merges().consider(self.database, table);
        }
        Ok(())
    }

    /// The rows that a change adds, as parts.
    fn changed(&self, table: &Arc<Table>, mut change: Change) -> Result<Changed, DurableError> {
        let (rows, _) = change.writer.finish()?;
        let main = rows.segments.into_iter().map(|segment| {
            let ids = change.ids.take(segment.rows());
            Part::whole(segment, ids)
        });
        let main: Vec<Part> = main.collect();
        let delta = match rows.batches.is_empty() {
            true => None,
            false => {
                let storage = self.database.storage();
                let segment = delta_segment(table.schema(), &rows.batches, storage)?;
                Some(Part::whole(segment, change.ids.finish()))
            }
        };
        Ok(Changed {
            is_truncated: change.is_truncated,
            main,
            delta,
            deleted: change.deleted,
        })
    }

    fn onto(&self, table: &Table, change: &Changed) -> Result<Snapshot, DurableError> {
        let current = match change.is_truncated {
            true => table.snapshot().truncated()?,
            false => table.snapshot(),
        };
        let changed = current
            .appended(&change.main, change.delta.as_slice())
            .without(&change.deleted)
            .map_err(|_| {
                self.error(format!(
                    "table `{}` lacks a row that it deletes",
                    table.name()
                ))
            })?;
        Ok(join_small(changed, self.database.storage())?)
    }
}

/// What a transaction does to a table, ready to be put in.
#[derive(Debug)]
struct Changed {
    is_truncated: bool,
    main: Vec<Part>,
    delta: Option<Part>,
    deleted: Vec<RowId>,
}

/// Transactions of several records of which the last has not come yet: where their records begin.
#[derive(Debug, Default)]
pub(super) struct Unfinished(HashMap<u64, Vec<u64>>);

impl Unfinished {
    pub fn add(&mut self, transaction: u64, position: u64) {
        self.0.entry(transaction).or_default().push(position);
    }

    pub fn take(&mut self, transaction: u64) -> Vec<u64> {
        self.0.remove(&transaction).unwrap_or_default()
    }
}
