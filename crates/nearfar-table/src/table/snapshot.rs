//! What a reader sees of a table.

use arrow::array::{Array, ArrayRef, UInt64Array, new_empty_array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, SchemaRef};
use std::collections::HashSet;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use super::delete_vector::DeleteVector;
use super::index::TableIndex;
use super::row_ids::{RowId, RowIds};
use super::segment::Segment;
use super::statistics::{CountedDistinct, DistinctCount, TableSummary};
use crate::error::TableError;
use crate::segment::RowSet;

/// Rows of a table that lie in one segment: which they are, and which of them are deleted. Never changed, and shared by
/// all snapshots that have it.
#[derive(Debug, Clone)]
pub struct Part(Arc<PartContents>);

/// What a [`Part`] is.
#[derive(Debug)]
pub struct PartContents {
    /// The segment.
    pub segment: Arc<Segment>,
    /// The identities of its rows.
    pub ids: Arc<RowIds>,
    /// Which of them are deleted, if any is.
    pub delete_vector: Option<Arc<DeleteVector>>,
    /// Rows that are not deleted.
    rows: usize,
}

impl Deref for Part {
    type Target = PartContents;

    fn deref(&self) -> &PartContents {
        &self.0
    }
}

impl Part {
    /// Rows of `segment` that have these identities, but for those of `delete_vector`.
    pub fn new(
        segment: Arc<Segment>,
        ids: Arc<RowIds>,
        delete_vector: Option<Arc<DeleteVector>>,
    ) -> Self {
        let deleted_rows = deleted_rows(delete_vector.as_deref());
        Self(Arc::new(PartContents {
            rows: segment.rows() - deleted_rows,
            segment,
            ids,
            delete_vector,
        }))
    }

    /// All rows of `segment`.
    pub fn whole(segment: Arc<Segment>, ids: RowIds) -> Self {
        Self::new(segment, Arc::new(ids), None)
    }

    /// Rows that are not deleted.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that are deleted, and still there.
    pub fn deleted_rows(&self) -> usize {
        deleted_rows(self.delete_vector.as_deref())
    }

    /// Whether a row is not deleted.
    pub fn has(&self, row: usize) -> bool {
        let delete_vector = self.delete_vector.as_deref();
        delete_vector.is_none_or(|delete_vector| !delete_vector.contains(row))
    }

    /// The identities of `rows` as a column.
    pub fn id_column(&self, rows: RowSet<'_>) -> Arc<dyn Array> {
        Arc::new(UInt64Array::from(self.ids.ids(rows)))
    }

    /// The values of a column, which has this type, in `rows`.
    ///
    /// # Errors
    /// A column that can't be brought to memory.
    pub fn values(
        &self,
        column: usize,
        data_type: &DataType,
        rows: RowSet<'_>,
    ) -> Result<ArrayRef, TableError> {
        match self.segment.written() {
            Some(written) => written.read(column, rows),
            None => self.segment.columns()[column]
                .current()?
                .read(rows, data_type),
        }
    }

    /// The same part with these rows deleted as well.
    #[must_use]
    pub fn without(&self, rows: impl IntoIterator<Item = u32>) -> Self {
        let delete_vector = match &self.delete_vector {
            Some(delete_vector) => delete_vector.with(rows),
            None => DeleteVector::of(rows),
        };
        let delete_vector = (delete_vector.count() > 0).then(|| Arc::new(delete_vector));
        Self::new(
            Arc::clone(&self.segment),
            Arc::clone(&self.ids),
            delete_vector,
        )
    }
}

/// A table at one moment: its main storage, then its delta. Never changed; every change makes a new
/// one, which shares what stays.
#[derive(Debug, Clone)]
pub struct Snapshot(Arc<Contents>);

#[derive(Debug)]
struct Contents {
    schema: SchemaRef,
    /// Segments of the main storage first.
    parts: Vec<Part>,
    main: usize,
    /// So many parts of the delta are being merged, and must stay what they are.
    merging: usize,
    /// How often rows have been added or deleted; merges change nothing.
    changes: u64,
    rows: usize,
    /// Shared by all versions with these indexes.
    indexes: Arc<[Arc<TableIndex>]>,
    /// Shared by all versions with this main storage.
    main_summary: Arc<OnceLock<Arc<TableSummary>>>,
    /// Likewise.
    counted: Arc<CountedDistinct>,
    summary: OnceLock<Arc<TableSummary>>,
}

fn deleted_rows(delete_vector: Option<&DeleteVector>) -> usize {
    delete_vector.map_or(0, DeleteVector::count)
}

fn locate(parts: &[Part], id: RowId) -> Option<(usize, usize)> {
    parts.iter().enumerate().find_map(|(index, part)| {
        let row = part.ids.find(id)?;
        part.has(row).then_some((index, row))
    })
}

/// A row, and where it is: its part and its place in that.
type Located = (usize, (usize, usize));

/// A row that was to be deleted is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowIsGone;

impl Snapshot {
    /// The values of `columns` in the rows of these identities, in their order. Rows that are not there are
    /// left out.
    ///
    /// # Errors
    /// A column that can't be brought to memory.
    pub fn values(&self, rows: &[RowId], columns: &[usize]) -> Result<Vec<ArrayRef>, TableError> {
        let places = rows.iter().filter_map(|row| self.locate(*row)).enumerate();
        let mut places: Vec<Located> = places.collect();
        places.sort_unstable_by_key(|(_, place)| *place);
        let mut order = vec![0_u64; places.len()];
        for (read_at, (wanted_at, _)) in places.iter().enumerate() {
            order[*wanted_at] = read_at as u64;
        }
        let order = UInt64Array::from(order);
        let column = |column: &usize| {
            let data_type = self.schema().field(*column).data_type();
            let mut read = vec![new_empty_array(data_type)];
            for places in places.chunk_by(|(_, one), (_, next)| one.0 == next.0) {
                let rows: Vec<u32> = places.iter().map(|(_, place)| place.1 as u32).collect();
                let part = &self.parts()[places[0].1.0];
                read.push(part.values(*column, data_type, RowSet::Positions(&rows))?);
            }
            let read: Vec<&dyn Array> = read.iter().map(AsRef::as_ref).collect();
            Ok(take(&concat(&read)?, &order, None)?)
        };
        columns.iter().map(column).collect()
    }

    /// A table of nothing but main storage.
    pub fn of_main(schema: SchemaRef, parts: Vec<Part>) -> Self {
        Self::of_main_with(schema, parts, OnceLock::new())
    }

    fn of_main_with(
        schema: SchemaRef,
        parts: Vec<Part>,
        summary: OnceLock<Arc<TableSummary>>,
    ) -> Self {
        let main = parts.len();
        Self::assemble(Contents {
            schema,
            parts,
            main,
            merging: 0,
            changes: 0,
            rows: 0,
            indexes: Arc::default(),
            main_summary: Arc::new(summary),
            counted: Arc::default(),
            summary: OnceLock::new(),
        })
    }

    /// A table of these parts, of which the first `main` are the main storage, with the numbers of
    /// distinct values in that, where they are known.
    pub fn restored(
        schema: SchemaRef,
        parts: Vec<Part>,
        main: usize,
        distinct: Option<&[DistinctCount]>,
    ) -> Self {
        let (main, delta) = parts.split_at(main);
        let summary = |counts| Arc::new(TableSummary::with_distinct(main, counts));
        let known = distinct.map_or_else(OnceLock::new, |counts| OnceLock::from(summary(counts)));
        Self::of_main_with(schema, main.to_vec(), known).appended(&[], delta)
    }

    fn assemble(contents: Contents) -> Self {
        Self(Arc::new(Contents {
            rows: contents.parts.iter().map(Part::rows).sum(),
            ..contents
        }))
    }

    /// The same table with other parts after so many more changes; what is known of the main storage
    /// is kept where it is the same.
    fn with_parts(&self, parts: Vec<Part>, main: usize, merging: usize, changes: u64) -> Self {
        let old = &self.0;
        let same = main == old.main
            && parts[..main]
                .iter()
                .zip(self.main())
                .all(|(new, old)| Arc::ptr_eq(&new.segment, &old.segment));
        let (main_summary, counted) = match same {
            true => (Arc::clone(&old.main_summary), Arc::clone(&old.counted)),
            false => Default::default(),
        };
        Self::assemble(Contents {
            schema: Arc::clone(&old.schema),
            parts,
            main,
            merging,
            changes: old.changes + changes,
            rows: 0,
            indexes: Arc::clone(&old.indexes),
            main_summary,
            counted,
            summary: OnceLock::new(),
        })
    }

    /// The columns' names and types.
    pub fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }

    /// All parts, those of the main storage first.
    pub fn parts(&self) -> &[Part] {
        &self.0.parts
    }

    /// The encoded segments.
    pub fn main(&self) -> &[Part] {
        &self.0.parts[..self.0.main]
    }

    /// The rows that were written since the last merge.
    pub fn delta(&self) -> &[Part] {
        &self.0.parts[self.0.main..]
    }

    /// Rows that are not deleted.
    pub fn rows(&self) -> usize {
        self.0.rows
    }

    /// How often rows had been added to the table or deleted from it; a merge changes nothing about its rows.
    pub fn changes(&self) -> u64 {
        self.0.changes
    }

    /// Rows of the delta that are not deleted.
    pub fn delta_rows(&self) -> usize {
        self.delta().iter().map(Part::rows).sum()
    }

    /// Rows that are deleted, and still take memory.
    pub fn deleted_rows(&self) -> usize {
        self.parts().iter().map(Part::deleted_rows).sum()
    }

    /// The table's indexes.
    pub fn indexes(&self) -> &[Arc<TableIndex>] {
        &self.0.indexes
    }

    /// The same rows with other indexes.
    #[must_use]
    pub fn with_indexes(&self, indexes: Vec<Arc<TableIndex>>) -> Self {
        let old = &self.0;
        Self::assemble(Contents {
            schema: Arc::clone(&old.schema),
            parts: old.parts.clone(),
            main: old.main,
            merging: old.merging,
            changes: old.changes,
            rows: 0,
            indexes: indexes.into(),
            main_summary: Arc::clone(&old.main_summary),
            counted: Arc::clone(&old.counted),
            summary: OnceLock::new(),
        })
    }

    /// Where the row of this identity is, part and row in it, unless it is not there or deleted.
    pub fn locate(&self, id: RowId) -> Option<(usize, usize)> {
        locate(self.parts(), id)
    }

    /// Whether `other`, an earlier version of the same table, has the same rows.
    pub fn has_rows_of(&self, other: &Self) -> bool {
        self.0.changes == other.0.changes
    }

    /// Whether it is of this definition of a table, and not of one before or after.
    pub fn is_of(&self, table: &super::Table) -> bool {
        Arc::ptr_eq(self.schema(), table.schema())
    }

    /// Whether `other`, an earlier version of the same table, has the same indexes.
    pub fn has_indexes_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.indexes, &other.0.indexes)
    }

    /// Whether both are the same version.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// What the planner is told.
    pub fn summary(&self) -> &Arc<TableSummary> {
        let contents = &self.0;
        contents.summary.get_or_init(|| {
            if self.delta().is_empty() && self.deleted_rows() == 0 {
                Arc::clone(self.main_summary())
            } else {
                let main = (&**self.main_summary(), self.main());
                Arc::new(TableSummary::changed(
                    main,
                    self.delta(),
                    contents.rows,
                    &contents.counted,
                ))
            }
        })
    }

    /// What is known of the main storage, with its deleted rows.
    pub fn main_summary(&self) -> &Arc<TableSummary> {
        let of_main = || Arc::new(TableSummary::of(self.schema(), self.main()));
        self.0.main_summary.get_or_init(of_main)
    }

    /// Nothing, with indexes that have nothing.
    ///
    /// # Errors
    /// Those of an index, which has been made before.
    pub fn truncated(&self) -> Result<Self, TableError> {
        let indexes = self.indexes().iter();
        let indexes = indexes.map(|index| Ok(Arc::new(index.of_other_rows()?)));
        let indexes = indexes.collect::<Result<_, TableError>>()?;
        let empty = self.with_parts(Vec::new(), 0, 0, 1);
        Ok(empty.with_indexes(indexes))
    }

    /// With `main` behind its main storage and `delta` behind its delta.
    #[must_use]
    pub fn appended(&self, main: &[Part], delta: &[Part]) -> Self {
        let parts = [self.main(), main, self.delta(), delta].concat();
        self.with_parts(parts, self.0.main + main.len(), self.0.merging, 1)
    }

    /// The last parts of the delta that are to be put together, so that there are never many: the
    /// last, and before it all that have no more rows than those behind them.
    pub fn joinable(&self, rows_max: usize) -> Range<usize> {
        let end = self.parts().len();
        let first = self.0.main + self.0.merging;
        let (mut start, mut total) = (end, 0);
        while start > first {
            let rows = self.parts()[start - 1].segment.rows();
            if start < end && rows > total || total + rows > rows_max {
                break;
            }
            (start, total) = (start - 1, total + rows);
        }
        start..end
    }

    /// The first part of the delta that is not being merged.
    pub(super) fn first_open(&self) -> usize {
        self.0.main + self.0.merging
    }

    /// With the parts `joined` of the delta replaced by one that has their rows.
    #[must_use]
    pub fn joined(self, joined: Range<usize>, part: Part) -> Self {
        let (main, merging) = (self.0.main, self.0.merging);
        match Arc::try_unwrap(self.0) {
            // Nobody else has it.
            Ok(mut contents) => {
                contents.parts.splice(joined, [part]);
                Self(Arc::new(contents))
            }
            Err(shared) => {
                let mut parts = shared.parts.clone();
                parts.splice(joined, [part]);
                Self(shared).with_parts(parts, main, merging, 0)
            }
        }
    }

    /// Without the rows of these identities. Parts of which nothing is left are gone immediately.
    ///
    /// # Errors
    /// A row that is not there.
    pub fn without(&self, ids: &[RowId]) -> Result<Self, RowIsGone> {
        self.changed(&[], &[], ids)
    }

    /// As [`Self::appended`], and [without](Self::without) rows that were there or are among the new ones.
    ///
    /// # Errors
    /// A row that is not there.
    pub fn changed(
        &self,
        new_main: &[Part],
        new_delta: &[Part],
        deleted: &[RowId],
    ) -> Result<Self, RowIsGone> {
        let capacity = self.parts().len() + new_main.len() + new_delta.len();
        let mut parts = Vec::with_capacity(capacity);
        for some in [self.main(), new_main, self.delta(), new_delta] {
            parts.extend_from_slice(some);
        }
        let (mut main, mut merging) = (self.0.main + new_main.len(), self.0.merging);
        let mut found = Vec::with_capacity(deleted.len());
        for id in deleted {
            found.push(locate(&parts, *id).ok_or(RowIsGone)?);
        }
        found.sort_unstable();
        let mut emptied = HashSet::new();
        for places in found.chunk_by(|one, next| one.0 == next.0) {
            let index = places[0].0;
            let rows = places.iter().map(|(_, row)| *row as u32);
            parts[index] = parts[index].without(rows);
            if parts[index].rows() == 0 {
                emptied.insert(index);
            }
        }
        if !emptied.is_empty() {
            let gone = |range: Range<usize>| range.filter(|index| emptied.contains(index)).count();
            let (gone_main, gone_merging) = (gone(0..main), gone(main..main + merging));
            (main, merging) = (main - gone_main, merging - gone_merging);
            let mut index = 0..;
            parts.retain(|_| !index.next().is_some_and(|index| emptied.contains(&index)));
        }
        Ok(self.with_parts(parts, main, merging, 1))
    }

    /// The same, with the first `merging` parts of the delta kept as they are until
    /// [`Self::merged`].
    #[must_use]
    pub fn merging(&self, merging: usize) -> Self {
        self.with_parts(self.parts().to_vec(), self.0.main, merging, 0)
    }

    /// With the same rows in other parts, of which the first `main` are the main storage.
    #[must_use]
    pub fn replaced(&self, parts: Vec<Part>, main: usize) -> Self {
        self.with_parts(parts, main, 0, 0)
    }

    /// With `merged` in place of those of its parts whose segments are `sources`: where the first of
    /// them in the main storage was, else at its end.
    #[must_use]
    pub fn merged(&self, sources: &[Part], merged: Vec<Part>) -> Self {
        let sources: HashSet<*const Segment> =
            sources.iter().map(|s| Arc::as_ptr(&s.segment)).collect();
        let is_source = |part: &&Part| sources.contains(&Arc::as_ptr(&part.segment));
        let is_left = |part: &&Part| !is_source(part);
        let before = self.main().iter().take_while(is_left).count();
        let (head, tail) = self.main().split_at(before);
        let tail = tail.iter().filter(is_left).cloned();
        let mut parts: Vec<Part> = head.iter().cloned().chain(merged).chain(tail).collect();
        let main = parts.len();
        parts.extend(self.delta().iter().filter(is_left).cloned());
        let merging = self.delta()[..self.0.merging].iter().filter(is_left);
        let merging = merging.count();
        self.with_parts(parts, main, merging, 0)
    }
}
