//! Indexes of tables: trees that lead from keys to the identities of rows.
//!
//! An index is part of a [`Snapshot`](super::Snapshot): whoever reads a snapshot uses the indexes that
//! were there when it was taken. One index is shared by all snapshots that have it, and leads to the
//! rows of all of them; a row counts for a reader if the reader's snapshot has it. Entries are added in
//! the commit that adds their rows (`transaction/keys.rs`) and taken out once no snapshot has the rows
//! any more (`transaction/dead_keys.rs`). Merges leave identities as they are, and so leave indexes alone.
//!
//! After a restart, an index is made again from the table when it is first needed.

mod definition;
mod entries;
mod fixed;
mod key;
mod placed;
mod range;
mod versions;

pub use definition::{IndexColumn, IndexDefinition, IndexKind, IndexRole};
pub use key::{KEY_BYTES_MAX, KeyEncoder, Keys};
pub use placed::{IndexHome, IndexPlacement, IndexPolicy, IndexStatistics, IndexTier};
pub use range::{KeyBound, KeyRange};

use arrow::datatypes::SchemaRef;
use nearfar_index::TreeError;
use parking_lot::Mutex;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use super::row_ids::RowId;
use super::snapshot::{Part, Snapshot};
use crate::error::{IndexError, TableError};
use crate::placement::Storage;
use crate::segment::{RowSet, ZONE_ROWS};
use entries::Entries;

/// Of parts of so many rows at most, keys are made row by row.
const SINGLE_ROWS_MAX: usize = 4;

/// An index of a table. It is shown as its columns are declared: `(a, b DESC NULLS LAST)`.
#[derive(Debug)]
pub struct TableIndex {
    definition: Arc<IndexDefinition>,
    schema: SchemaRef,
    encoder: KeyEncoder,
    /// Set when the table becomes one of a database, or before.
    home: OnceLock<IndexHome>,
    /// Nothing until they are first needed.
    entries: OnceLock<Entries>,
    /// Held by the one who makes them.
    making: Mutex<()>,
}

impl TableIndex {
    /// An index of tables of `schema`, whose entries are made when they are first needed.
    ///
    /// # Errors
    /// A column of a type that has no order, or that the schema does not have.
    pub fn new(definition: Arc<IndexDefinition>, schema: &SchemaRef) -> Result<Self, TableError> {
        let columns = schema.fields().len();
        let is_known = |column: &IndexColumn| column.column < columns;
        if definition.columns.is_empty() || !definition.columns.iter().all(is_known) {
            let message = format!("index \"{}\" is of another table", definition.name);
            return Err(TableError::Internal { message });
        }
        Ok(Self {
            encoder: KeyEncoder::new(schema, &definition.columns)?,
            schema: Arc::clone(schema),
            definition,
            home: OnceLock::new(),
            entries: OnceLock::new(),
            making: Mutex::default(),
        })
    }

    /// An index with the rows of a table.
    ///
    /// # Errors
    /// As [`Self::new`]; [`IndexError`].
    pub fn filled(
        definition: IndexDefinition,
        snapshot: &Snapshot,
        storage: &Storage,
    ) -> Result<Arc<Self>, TableError> {
        let index = Self::new(Arc::new(definition), snapshot.schema())?;
        index.settle(storage);
        index.entries(snapshot)?;
        Ok(Arc::new(index))
    }

    /// The same index of a table with other rows.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_other_rows(&self) -> Result<Self, TableError> {
        let mut other = Self::new(Arc::clone(&self.definition), &self.schema)?;
        other.home.clone_from(&self.home);
        Ok(other)
    }

    /// Has its nodes come from this memory from now on, unless they come from some already.
    pub fn settle(&self, storage: &Storage) {
        self.home.get_or_init(|| IndexHome::of(storage));
    }

    /// Compares the index with the rows of a snapshot: each is found by its key, and nothing else is.
    ///
    /// # Errors
    /// [`IndexError::Differs`]; columns that can't be brought to memory.
    pub fn verify(&self, snapshot: &Snapshot) -> Result<(), TableError> {
        let entries = self.entries(snapshot)?;
        let differs = |key: &[u8]| IndexError::Differs {
            index: self.definition.name.clone(),
            key: self.encoder.shown(key),
        };
        for part in snapshot.parts() {
            self.for_each_key(part, |key, has_null, row| {
                let entry = self.entry(key, has_null, row);
                match entries.get(&entry).any(|found| found == row) {
                    true => Ok(()),
                    false => Err(differs(key).into()),
                }
            })?;
        }
        let (mut left, mut last) = (snapshot.rows(), None);
        entries.scan(&[], |key, rows| {
            let found = rows.filter(|row| snapshot.locate(*row).is_some()).count();
            match left.checked_sub(found) {
                Some(rows) => left = rows,
                None => {
                    last = Some(key.to_vec());
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        match last {
            Some(key) => Err(differs(&key).into()),
            None => Ok(()),
        }
    }

    /// As it was declared.
    pub fn definition(&self) -> &Arc<IndexDefinition> {
        &self.definition
    }

    /// What makes its keys.
    pub fn encoder(&self) -> &KeyEncoder {
        &self.encoder
    }

    /// Number of keys; nothing as long as its entries were not needed.
    pub fn len(&self) -> Option<usize> {
        self.entries.get().map(Entries::len)
    }

    /// Whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.len().is_none_or(|keys| keys == 0)
    }

    /// Bytes of its nodes.
    pub fn bytes(&self) -> u64 {
        self.entries.get().map_or(0, Entries::bytes)
    }

    /// Levels of its tree; nothing as long as its entries were not needed.
    pub fn levels(&self) -> Option<u32> {
        self.entries.get().map(Entries::levels)
    }

    /// Where its nodes are, and what was moved.
    pub fn statistics(&self) -> IndexStatistics {
        let statistics = self.entries.get().map(Entries::statistics);
        statistics.unwrap_or_default()
    }

    /// The bytes by which the entry of `row` is known: its key, and where several rows can have that at
    /// one moment, the row's identity.
    pub(crate) fn entry(&self, key: &[u8], has_null: bool, row: RowId) -> Box<[u8]> {
        match self.is_alone(has_null) {
            true => key.into(),
            false => [key, &row.to_be_bytes()].concat().into(),
        }
    }

    /// Whether all keys are [alone](Self::is_alone), or none is.
    pub(crate) fn has_entries_alike(&self) -> bool {
        let mut columns = self.definition.columns.iter();
        !self.definition.role.is_unique()
            || columns.all(|column| !self.schema.field(column.column).is_nullable())
    }

    /// The entry of another row that has the key of `entry`, in an index that [has such alike](Self::has_entries_alike).
    pub(crate) fn entry_of_other(&self, entry: &[u8], row: RowId) -> Box<[u8]> {
        match self.definition.role.is_unique() {
            true => entry.into(),
            false => {
                let key = entry.split_last_chunk::<{ size_of::<RowId>() }>();
                let key = key.map_or(entry, |(key, _)| key);
                self.entry(key, false, row)
            }
        }
    }

    /// Whether a key can be that of one row only.
    pub(crate) fn is_alone(&self, has_null: bool) -> bool {
        self.definition.role.is_unique() && !has_null
    }

    /// Its entries, which are made of `snapshot` if this is the first time that they are needed.
    ///
    /// Whoever changes rows calls this before, so that all snapshots have the same rows as long as there
    /// are no entries.
    ///
    /// # Errors
    /// [`IndexError`]; columns that can't be brought to memory.
    pub(crate) fn entries(&self, snapshot: &Snapshot) -> Result<&Entries, TableError> {
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let _alone = self.making.lock();
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let made = self.entries_of(snapshot)?;
        let entries = self.entries.get_or_init(|| made);
        if let Some(home) = self.home.get() {
            entries.begin(home);
        }
        Ok(entries)
    }

    fn entries_of(&self, snapshot: &Snapshot) -> Result<Entries, TableError> {
        let entries = Entries::new(&self.definition, self.home.get());
        for part in snapshot.parts() {
            self.for_each_key(part, |key, has_null, row| {
                let entry = self.entry(key, has_null, row);
                let inserted = entries.insert(&entry, row);
                let before = inserted.map_err(|error| self.refused(error))?;
                match before {
                    Some(_) => Err(self.duplicate(key).into()),
                    None => Ok(()),
                }
            })?;
        }
        Ok(entries)
    }

    /// Calls `each` with the key of every row of a part that is not deleted, whether that has a null,
    /// and the row.
    pub(crate) fn for_each_key(
        &self,
        part: &Part,
        mut each: impl FnMut(&[u8], bool, RowId) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        if part.segment.rows() <= SINGLE_ROWS_MAX {
            for row in (0..part.segment.rows()).filter(|row| part.has(*row)) {
                let Some(key) = self.encoder.key_at(part, row)? else {
                    return self.for_each_made(part, each);
                };
                self.check(key.as_bytes(), key.has_null())?;
                each(key.as_bytes(), key.has_null(), part.ids.id(row))?;
            }
            return Ok(());
        }
        self.for_each_made(part, each)
    }

    /// The same, with the keys of many rows made together.
    fn for_each_made(
        &self,
        part: &Part,
        mut each: impl FnMut(&[u8], bool, RowId) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        for start in (0..part.segment.rows()).step_by(ZONE_ROWS) {
            let rows = RowSet::Run {
                start,
                len: ZONE_ROWS.min(part.segment.rows() - start),
            };
            let (keys, ids) = self.encoder.keys_of(part, rows)?;
            for (at, ((key, has_null), row)) in keys.iter().zip(ids).enumerate() {
                if part.has(start + at) {
                    self.check(key, has_null)?;
                    each(key, has_null, row)?;
                }
            }
        }
        Ok(())
    }

    fn check(&self, key: &[u8], has_null: bool) -> Result<(), IndexError> {
        if has_null && self.definition.role == IndexRole::PrimaryKey {
            return Err(IndexError::NullKey {
                index: self.definition.name.clone(),
                key: self.encoder.shown(key),
            });
        }
        match key.len() > KEY_BYTES_MAX {
            true => Err(IndexError::KeyTooLong {
                index: self.definition.name.clone(),
                bytes: key.len(),
                bytes_max: KEY_BYTES_MAX,
            }),
            false => Ok(()),
        }
    }

    /// The error of a second row with a key.
    pub(crate) fn duplicate(&self, key: &[u8]) -> IndexError {
        IndexError::Duplicate {
            index: self.definition.name.clone(),
            key: self.encoder.shown(key),
            table: None,
        }
    }

    /// The error of memory that was refused, with the tiers that have none.
    pub(crate) fn refused(&self, error: TreeError) -> IndexError {
        match error {
            TreeError::OutOfMemory(refused) => {
                let placement = &self.definition.placement;
                let far = placement.tier.iter().cloned();
                let mut tiers: Vec<String> = far.collect();
                if placement.policy != IndexPolicy::Far {
                    tiers.insert(0, "near".to_owned());
                }
                IndexError::OutOfMemory {
                    index: self.definition.name.clone(),
                    bytes: refused.bytes,
                    tiers: tiers.join(" or "),
                }
            }
            other => other.into(),
        }
    }

    /// Takes back what a commit has added that did not come to its end.
    pub(crate) fn undo(&self, entry: &[u8], row: RowId, before: Option<RowId>) {
        if let Some(entries) = self.entries.get() {
            entries.undo(entry, row, before);
        }
    }

    /// Takes out the entry of a row that no snapshot has any more.
    pub(crate) fn take_out(&self, entry: &[u8], row: RowId) {
        if let Some(entries) = self.entries.get() {
            entries.remove(entry, row);
        }
    }

    /// Where the rows of `snapshot` are, part and row in it, whose keys are in `range`. `own` are entries in
    /// the order of keys that are not entered yet. None where there are more than `rows_max`.
    ///
    /// # Errors
    /// Entries that can't be made.
    pub(crate) fn find<'a>(
        &self,
        snapshot: &Snapshot,
        range: &KeyRange,
        own: impl Iterator<Item = (&'a [u8], RowId)>,
        rows_max: usize,
    ) -> Result<Option<Vec<(usize, usize)>>, TableError> {
        let entries = self.entries(snapshot)?;
        let own = own.take_while(|(key, _)| range.has(key));
        let mut own = own.filter_map(|(_, row)| snapshot.locate(row));
        if range.is_whole_key() && self.is_alone(range.has_null()) {
            let enter = || located(snapshot, entries.get(range.from()));
            let found = own.next().or_else(enter);
            return Ok(Some(found.into_iter().collect()));
        }
        let mut places: Vec<(usize, usize)> = own.collect();
        entries.scan(range.from(), |key, rows| {
            if !range.has(key) || places.len() > rows_max {
                return ControlFlow::Break(());
            }
            places.extend(located(snapshot, rows));
            ControlFlow::Continue(())
        });
        Ok((places.len() <= rows_max).then_some(places))
    }

    /// The first `count` of the rows that [`Self::find`] finds, in the order of their keys.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub(crate) fn find_first<'a>(
        &self,
        snapshot: &Snapshot,
        range: &KeyRange,
        own: impl Iterator<Item = (&'a [u8], RowId)>,
        count: usize,
    ) -> Result<Vec<(usize, usize)>, TableError> {
        let entries = self.entries(snapshot)?;
        let mut own = own.take_while(|(key, _)| range.has(key)).peekable();
        let mut places = Vec::new();
        entries.scan(range.from(), |key, rows| {
            while let Some((_, row)) = own.next_if(|(own, _)| places.len() < count && *own <= key) {
                places.extend(snapshot.locate(row));
            }
            if !range.has(key) || places.len() >= count {
                return ControlFlow::Break(());
            }
            places.extend(located(snapshot, rows));
            ControlFlow::Continue(())
        });
        let left = count.saturating_sub(places.len());
        let own = own.filter_map(|(_, row)| snapshot.locate(row));
        places.extend(own.take(left));
        Ok(places)
    }
}

/// Where the one of `rows` is that a snapshot has, of all that have had a key.
fn located(snapshot: &Snapshot, mut rows: impl Iterator<Item = RowId>) -> Option<(usize, usize)> {
    rows.find_map(|row| snapshot.locate(row))
}

impl fmt::Display for TableIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.definition.columns.iter().map(|column| {
            let name = self.schema.field(column.column).name();
            let order = match (column.is_descending, column.nulls_first) {
                (false, false) => "",
                (false, true) => " NULLS FIRST",
                (true, true) => " DESC",
                (true, false) => " DESC NULLS LAST",
            };
            format!("{name}{order}")
        });
        write!(f, "({})", columns.collect::<Vec<_>>().join(", "))
    }
}
