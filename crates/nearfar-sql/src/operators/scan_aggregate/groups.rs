//! Which group each row is of.
//!
//! In a segment, a combination of codes is a place in a list, which has the group. Only for the first row of each
//! combination are the values looked at, by which groups of different segments are the same.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::row::{Row, RowConverter, Rows, SortField};
use hashbrown::{DefaultHashBuilder, HashTable};
use nearfar_table::segment::{ColumnSegment, RowSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use crate::error::EngineError;

/// A segment's list of groups has at most so many places for each of its rows. With more combinations, each row's values are
/// looked at.
const PLACES_PER_ROW_MAX: usize = 4;

/// A place of no known group.
const UNKNOWN: u32 = u32::MAX;

/// The groups that rows have been of.
pub struct Groups {
    keys: Vec<Key>,
    converter: RowConverter,
    /// The values of each group.
    values: Rows,
    by_value: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// By place in the current segments. None where these have no places, or too many.
    by_place: Option<Vec<u32>>,
}

/// A column that rows are grouped by.
struct Key {
    data_type: DataType,
    segment: Option<Arc<ColumnSegment>>,
    places: u32,
}

impl Groups {
    /// No groups, of columns of these types.
    ///
    /// # Errors
    /// Types that Arrow's rows do not have.
    pub fn new(types: impl Iterator<Item = DataType>) -> Result<Self, EngineError> {
        let key = |data_type| Key {
            data_type,
            segment: None,
            places: 1,
        };
        let keys: Vec<Key> = types.map(key).collect();
        let fields = keys.iter().map(|key| SortField::new(key.data_type.clone()));
        let converter = RowConverter::new(fields.collect())?;
        Ok(Self {
            values: converter.empty_rows(0, 0),
            converter,
            keys,
            by_value: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            by_place: None,
        })
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.values.num_rows()
    }

    /// Bytes of all groups.
    pub fn bytes(&self) -> usize {
        let places = self.by_place.as_ref().map_or(0, Vec::capacity);
        self.values.size() + self.by_value.allocation_size() + places * size_of::<u32>()
    }

    /// Has the rows that come next be those of these segments, one for each column.
    pub fn bind(&mut self, segments: &[Arc<ColumnSegment>]) {
        let is_bound = |(key, segment): (&Key, &Arc<ColumnSegment>)| {
            key.segment
                .as_ref()
                .is_some_and(|own| Arc::ptr_eq(own, segment))
        };
        if self.keys.iter().zip(segments).all(is_bound) {
            return;
        }
        let mut places = Some(1_u32);
        for (key, segment) in self.keys.iter_mut().zip(segments) {
            key.segment = Some(Arc::clone(segment));
            key.places = segment.place_count().unwrap_or(u32::MAX);
            places = places.and_then(|places| places.checked_mul(key.places));
        }
        let rows = segments.iter().filter_map(|segment| segment.codes());
        let places_max = rows.map(|codes| codes.len() * PLACES_PER_ROW_MAX).min();
        let places = places.map(|places| places as usize);
        let places = places.filter(|places| places_max.is_some_and(|most| *places <= most));
        self.by_place = places.map(|places| {
            let mut list = self.by_place.take().unwrap_or_default();
            list.clear();
            list.resize(places, UNKNOWN);
            list
        });
    }

    /// The group of each of `rows`.
    ///
    /// # Errors
    /// Values that can't be read.
    pub fn of(&mut self, rows: RowSet<'_>) -> Result<Vec<u32>, EngineError> {
        let Some(mut by_place) = self.by_place.take() else {
            return self.of_values(rows);
        };
        let groups = self.of_places(rows, &mut by_place);
        self.by_place = Some(by_place);
        groups
    }

    fn of_places(
        &mut self,
        rows: RowSet<'_>,
        by_place: &mut [u32],
    ) -> Result<Vec<u32>, EngineError> {
        let Some(mut groups) = self.places(rows) else {
            return self.of_values(rows);
        };
        let is_unknown = |at: &usize| by_place[groups[*at] as usize] == UNKNOWN;
        let unknown: Vec<usize> = (0..groups.len()).filter(is_unknown).collect();
        if !unknown.is_empty() {
            let positions: Vec<u32> = unknown.iter().map(|at| rows.row(*at) as u32).collect();
            let found = self.of_values(RowSet::Positions(&positions))?;
            for (at, group) in unknown.iter().zip(found) {
                by_place[groups[*at] as usize] = group;
            }
        }
        for group in &mut groups {
            *group = by_place[*group as usize];
        }
        Ok(groups)
    }

    /// Where each of `rows` has its combination of values.
    fn places(&self, rows: RowSet<'_>) -> Option<Vec<u32>> {
        let mut all: Option<Vec<u32>> = None;
        for key in &self.keys {
            let own = key.segment.as_ref()?.read_places(rows)?;
            all = Some(match all {
                None => own,
                Some(before) => {
                    let pairs = before.iter().zip(&own);
                    pairs
                        .map(|(before, own)| before * key.places + own)
                        .collect()
                }
            });
        }
        all
    }

    /// The groups by what the rows have.
    fn of_values(&mut self, rows: RowSet<'_>) -> Result<Vec<u32>, EngineError> {
        let columns = self.keys.iter().flat_map(|key| {
            let segment = key.segment.as_ref()?;
            Some(segment.read(rows, &key.data_type))
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
        let found = self.converter.convert_columns(&columns)?;
        let mut groups = Vec::with_capacity(rows.len());
        for row in &found {
            let hash = self.hasher.hash_one(row);
            let is_it = |group: &u32| self.values.row(*group as usize) == row;
            let known = self.by_value.find(hash, is_it).copied();
            groups.push(known.unwrap_or_else(|| self.add(row, hash)));
        }
        Ok(groups)
    }

    fn add(&mut self, row: Row<'_>, hash: u64) -> u32 {
        let group = self.values.num_rows() as u32;
        let (values, hasher) = (&self.values, &self.hasher);
        let hash_of = |group: &u32| hasher.hash_one(values.row(*group as usize));
        self.by_value.insert_unique(hash, group, hash_of);
        self.values.push(row);
        group
    }

    /// The values of each group, column by column. Then there is no group, and no memory is taken.
    ///
    /// # Errors
    /// What Arrow reports.
    pub fn take(&mut self) -> Result<Vec<ArrayRef>, EngineError> {
        let columns = self.converter.convert_rows(&self.values)?;
        self.values = self.converter.empty_rows(0, 0);
        self.by_value = HashTable::new();
        // The rest of the segment is looked at row by row.
        self.by_place = None;
        Ok(columns)
    }
}
