//! What a transaction does to the indexes of a table.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use super::dead_keys::DeadKey;
use crate::error::TableError;
use crate::segment::RowSet;
use crate::table::{Part, RowId, Snapshot, Table, TableIndex};

/// The bytes that an entry is known by, and the row that it leads to.
type Entry = (Box<[u8]>, RowId);

/// Entries by the bytes that they are known by.
type Entries = BTreeMap<Box<[u8]>, RowId>;

/// An index, and entries of it, sorted.
pub(super) type IndexEntries = (Arc<TableIndex>, Vec<Box<[u8]>>);

/// What a transaction does to one index.
#[derive(Debug, Clone)]
struct IndexChange {
    index: Arc<TableIndex>,
    /// The entries of rows that it has added, and not deleted again.
    added: Entries,
    /// Those of others' rows that it has deleted.
    removed: Vec<Entry>,
}

/// What a statement does to one index.
#[derive(Debug, Default)]
struct Step {
    /// Sorted.
    added: Vec<Entry>,
    removed: Vec<Entry>,
}

impl Step {
    /// Whether the statement takes out an entry, as far as is soon known.
    fn removes(&self, entry: &[u8]) -> bool {
        let mut removed = self.removed.iter();
        self.removed.len() <= SEARCHED_ROWS_MAX && removed.any(|(known, _)| **known == *entry)
    }
}

/// Among so many rows a row is searched for one by one: putting them into a set takes longer.
const SEARCHED_ROWS_MAX: usize = 16;

/// The rows that a statement changes.
#[derive(Debug)]
pub(super) struct ChangedRows<'a> {
    /// What was there before the statement.
    pub before: &'a Snapshot,
    /// The rows of `before` that it deletes.
    pub deleted: &'a [RowId],
    /// Its new rows.
    pub new: &'a [Part],
}

impl ChangedRows<'_> {
    /// Which of the rows that were there before the statement are there after it.
    fn left(&self) -> impl Fn(RowId) -> bool + '_ {
        let are_many = self.deleted.len() > SEARCHED_ROWS_MAX;
        let set: Option<HashSet<RowId>> = are_many.then(|| self.deleted.iter().copied().collect());
        let is_deleted = move |row: &RowId| match &set {
            Some(set) => set.contains(row),
            None => self.deleted.contains(row),
        };
        move |row| !is_deleted(&row) && self.before.locate(row).is_some()
    }
}

impl IndexChange {
    fn of(index: &Arc<TableIndex>) -> Self {
        Self {
            index: Arc::clone(index),
            added: Entries::new(),
            removed: Vec::new(),
        }
    }

    /// What a statement does to the index.
    fn step(&self, rows: &ChangedRows<'_>) -> Result<Step, TableError> {
        let index = &self.index;
        let known = index.entries(rows.before)?;
        let mut step = Step {
            removed: entries_of(index, rows.before, rows.deleted)?,
            added: Vec::new(),
        };
        if let Some(part) = self.with_kept_keys(rows, &step.removed) {
            let removed = step.removed.iter().zip(0..part.segment.rows());
            let added = removed.map(|((entry, _), row)| {
                let row = part.ids.id(row);
                (index.entry_of_other(entry, row), row)
            });
            step.added = added.collect();
            step.added.sort_unstable();
            return Ok(step);
        }
        let is_left = rows.left();
        for part in rows.new {
            index.for_each_key(part, |key, has_null, row| {
                let entry = index.entry(key, has_null, row);
                // A key that is taken away was no other row's.
                if index.is_alone(has_null) && !step.removes(&entry) {
                    let own = self.added.get(&entry).copied();
                    let mut others = known.get(&entry).chain(own);
                    if others.any(&is_left) {
                        return Err(index.duplicate(key).into());
                    }
                }
                step.added.push((entry, row));
                Ok(())
            })?;
        }
        step.added.sort_unstable();
        let mut pairs = step.added.windows(2);
        // Those that several rows may have end with the row.
        match pairs.find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(index.duplicate(&pair[0].0).into()),
            None => Ok(step),
        }
    }

    /// The new rows, where they have the keys of those whose entries are `removed`, each of the one at its place.
    fn with_kept_keys<'a>(&self, rows: &ChangedRows<'a>, removed: &[Entry]) -> Option<&'a Part> {
        let [part] = rows.new else {
            return None;
        };
        let packed = part.segment.packed()?;
        let mut columns = self.index.definition().columns.iter();
        let are_kept = columns.all(|column| packed.keeps(column.column));
        let removed = removed.iter().map(|(_, row)| row);
        let are_kept = are_kept && self.index.has_entries_alike() && removed.eq(rows.deleted);
        (are_kept && part.segment.rows() == rows.deleted.len()).then_some(part)
    }

    fn take(&mut self, step: Step) {
        for (entry, row) in step.removed {
            match self.added.get(&entry) == Some(&row) {
                true => drop(self.added.remove(&entry)),
                false => self.removed.push((entry, row)),
            }
        }
        self.added.extend(step.added);
    }
}

/// The entries of some rows of a snapshot.
fn entries_of(
    index: &TableIndex,
    snapshot: &Snapshot,
    rows: &[RowId],
) -> Result<Vec<Entry>, TableError> {
    let mut places: Vec<(usize, usize)> = rows
        .iter()
        .filter_map(|row| snapshot.locate(*row))
        .collect();
    places.sort_unstable();
    let mut entries = Vec::with_capacity(places.len());
    if let [(part, row)] = places[..] {
        let part = &snapshot.parts()[part];
        if let Some(key) = index.encoder().key_at(part, row)? {
            let row = part.ids.id(row);
            entries.push((index.entry(key.as_bytes(), key.has_null(), row), row));
            return Ok(entries);
        }
    }
    for places in places.chunk_by(|one, next| one.0 == next.0) {
        let rows: Vec<u32> = places.iter().map(|(_, row)| *row as u32).collect();
        let part = &snapshot.parts()[places[0].0];
        let (keys, ids) = index.encoder().keys_of(part, RowSet::Positions(&rows))?;
        let keys = keys.iter().zip(ids);
        entries.extend(keys.map(|((key, has_null), row)| (index.entry(key, has_null, row), row)));
    }
    Ok(entries)
}

/// What a transaction does to all indexes of a table.
#[derive(Debug, Clone, Default)]
pub(super) struct IndexChanges(Vec<IndexChange>);

impl IndexChanges {
    /// Nothing yet, to the indexes of `snapshot`.
    pub fn of(snapshot: &Snapshot) -> Self {
        Self(snapshot.indexes().iter().map(IndexChange::of).collect())
    }

    /// Takes in what a statement does.
    ///
    /// # Errors
    /// [`IndexError`](crate::error::IndexError), and nothing has changed.
    pub fn add(&mut self, rows: &ChangedRows<'_>) -> Result<(), TableError> {
        let steps = self.0.iter().map(|change| change.step(rows));
        let steps = steps.collect::<Result<Vec<_>, _>>()?;
        let changes = self.0.iter_mut().zip(steps);
        changes.for_each(|(change, step)| change.take(step));
        Ok(())
    }

    /// Adds the indexes that were made since the transaction read the table first: `result` is the
    /// table with the transaction's `own` parts and without the rows `deleted`, `current` the one
    /// without the transaction.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn meet(
        &mut self,
        (current, result): (&Snapshot, &Snapshot),
        own: &[Part],
        deleted: &[RowId],
    ) -> Result<(), TableError> {
        for index in result.indexes() {
            if self
                .0
                .iter()
                .any(|change| Arc::ptr_eq(&change.index, index))
            {
                continue;
            }
            index.entries(current)?;
            let mut change = IndexChange::of(index);
            change.removed = entries_of(index, current, deleted)?;
            for part in own {
                index.for_each_key(part, |key, has_null, row| {
                    if result.locate(row).is_some() {
                        change.added.insert(index.entry(key, has_null, row), row);
                    }
                    Ok(())
                })?;
            }
            self.0.push(change);
        }
        Ok(())
    }

    /// The transaction's own entries from a key on, in their order.
    pub fn entries_from<'a>(
        &'a self,
        index: &Arc<TableIndex>,
        from: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], RowId)> + use<'a> {
        let change = self
            .0
            .iter()
            .find(|change| Arc::ptr_eq(&change.index, index));
        let entries = change.into_iter().flat_map(move |change| {
            let from = (Bound::Included(from), Bound::Unbounded);
            change.added.range::<[u8], _>(from)
        });
        entries.map(|(entry, row)| (&**entry, *row))
    }

    /// The entries of all rows that it has added or deleted, sorted, for each index.
    pub fn changed_entries(&self) -> Vec<IndexEntries> {
        let changed = self.0.iter().map(|change| {
            let removed = change.removed.iter().map(|(entry, _)| entry.clone());
            let mut entries: Vec<_> = change.added.keys().cloned().chain(removed).collect();
            entries.sort_unstable();
            (Arc::clone(&change.index), entries)
        });
        changed.collect()
    }

    /// The transaction's own row that has a key in an index of which each key is one row's.
    pub fn entry(&self, index: &Arc<TableIndex>, key: &[u8]) -> Option<RowId> {
        let mut changes = self.0.iter();
        let change = changes.find(|change| Arc::ptr_eq(&change.index, index))?;
        change.added.get(key).copied()
    }

    /// What is to be taken out of the indexes once no snapshot has the rows any more that were deleted.
    pub fn into_dead_keys(self, table: &Arc<Table>) -> Vec<DeadKey> {
        let changes = self.0.into_iter().flat_map(|change| {
            let index = change.index;
            let removed = change.removed.into_iter();
            removed.map(move |(entry, row)| (Arc::clone(&index), entry, row))
        });
        let dead = changes.map(|(index, entry, row)| DeadKey {
            table: Arc::downgrade(table),
            index,
            entry,
            row,
        });
        dead.collect()
    }
}

/// An entry of an index, and the row that it led to before.
type Added<'a> = (&'a TableIndex, &'a [u8], RowId, Option<RowId>);

/// The entries that a commit has added. They are taken out again when this is dropped, unless the
/// commit has come to its end.
#[derive(Debug, Default)]
pub(super) struct AddedEntries<'a>(Vec<Added<'a>>);

impl<'a> AddedEntries<'a> {
    /// Adds the entries of `changes`, whose result is to be `result`. Whether a key is another row's is
    /// looked at again where another transaction has committed since this one began: in `late_onto`, the table
    /// without its changes.
    ///
    /// # Errors
    /// [`IndexError`](crate::error::IndexError).
    pub fn add(
        &mut self,
        changes: &'a IndexChanges,
        result: &Snapshot,
        late_onto: Option<&Snapshot>,
    ) -> Result<(), TableError> {
        let is_left = |change: &&IndexChange| {
            let mut left = result.indexes().iter();
            left.any(|index| Arc::ptr_eq(index, &change.index))
        };
        for change in changes.0.iter().filter(is_left) {
            let index = change.index.as_ref();
            let entries = index.entries(result)?;
            for (entry, row) in &change.added {
                if let Some(onto) = late_onto {
                    // Rows that had the key before the one that has it now are gone.
                    let has = |snapshot: &Snapshot, row| snapshot.locate(row).is_some();
                    let other = entries.get(entry).find(|other| has(onto, *other));
                    if other.is_some_and(|other| has(result, other)) {
                        return Err(index.duplicate(entry).into());
                    }
                }
                let inserted = entries.insert(entry, *row);
                let before = inserted.map_err(|error| index.refused(error))?;
                self.0.push((index, entry, *row, before));
            }
        }
        Ok(())
    }

    /// Leaves the entries where they are.
    pub fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for AddedEntries<'_> {
    fn drop(&mut self) {
        while let Some((index, entry, row, before)) = self.0.pop() {
            index.undo(entry, row, before);
        }
    }
}
