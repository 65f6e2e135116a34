//! A table with other columns: what `ALTER TABLE` makes of one, without a copy of what stays.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Schema, SchemaRef};
use std::sync::Arc;

use super::delta::delta_segment;
use super::facts::ColumnFacts;
use super::index::{IndexDefinition, TableIndex};
use super::segment::{ColumnSlot, Segment};
use super::sketches::SegmentSketches;
use super::snapshot::{Part, Snapshot};
use super::{Preload, Table};
use crate::error::TableError;
use crate::placement::{ColumnPlacements, Storage};
use crate::segment::{RowSet, encode_column};

/// Where the values of a column of a redefined table come from.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnSource {
    /// The column of the table before that has this place.
    Kept(usize),
    /// This value, in all rows: an array of the column's type with one row.
    Filled(ArrayRef),
}

impl Table {
    /// Another definition of the table, which takes its identity with it: under `name`, with the columns of
    /// `schema`, whose values in the rows of `snapshot` come from `sources`. Values of columns that stay are shared. Indexes of
    /// columns that do not stay are left out; neither rules are taken along, nor whether its rows outlive the process.
    ///
    /// # Errors
    /// A region that a tier has no room for; a column that can't be brought to memory.
    pub fn redefined(
        &self,
        (name, schema): (&str, &Schema),
        sources: &[ColumnSource],
        (snapshot, storage): (&Snapshot, &Storage),
    ) -> Result<Self, TableError> {
        let storage = &self.storage(storage);
        let columns = Columns {
            before: Arc::clone(snapshot.schema()),
            // Never that of another definition, which it is told apart by.
            after: Arc::new(schema.clone()),
            sources,
        };
        let placements = columns.placements(&self.placements());
        let part = |(at, part): (usize, &Part)| {
            let is_main = at < snapshot.main().len();
            columns.part((part, is_main), (&placements, storage))
        };
        let parts = snapshot.parts().iter().enumerate().map(part);
        let parts = parts.collect::<Result<Vec<Part>, TableError>>()?;
        let indexes = columns.indexes(snapshot)?;
        indexes.iter().for_each(|index| index.settle(storage));
        let after = Snapshot::restored(
            Arc::clone(&columns.after),
            parts,
            snapshot.main().len(),
            None,
        );
        let after = after.with_indexes(indexes);
        let preload = columns.preload(&self.preload());
        let table = Self::with_id(self.id(), name, after, self.next_row(), placements);
        let table = table.charged_to(self.temporary().cloned());
        table.set_preload(preload);
        if let Some(schema) = self.schema_name.get() {
            table.set_schema_name(schema);
        }
        Ok(table)
    }

    /// A table of its own with the rows of a snapshot of this one.
    pub fn of_rows(&self, name: &str, snapshot: &Snapshot) -> Self {
        let id = super::TABLES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let placements = self.placements();
        Self::with_id(id, name, snapshot.clone(), self.next_row(), placements)
    }
}

/// The columns of a table before and after.
struct Columns<'a> {
    before: SchemaRef,
    after: SchemaRef,
    sources: &'a [ColumnSource],
}

impl Columns<'_> {
    /// Whether rows are as they were.
    fn are_same(&self) -> bool {
        let mut sources = self.sources.iter().enumerate();
        let is_same = |(at, source): (usize, &ColumnSource)| *source == ColumnSource::Kept(at);
        self.sources.len() == self.before.fields().len() && sources.all(is_same)
    }

    /// The names before and after of the columns that stay.
    fn kept_names(&self) -> impl Iterator<Item = (&str, &str)> {
        let columns = self.sources.iter().zip(self.after.fields());
        columns.filter_map(|(source, field)| match source {
            ColumnSource::Kept(at) => Some((
                self.before.field(*at).name().as_str(),
                field.name().as_str(),
            )),
            ColumnSource::Filled(_) => None,
        })
    }

    fn placements(&self, before: &ColumnPlacements) -> ColumnPlacements {
        let named = self.kept_names().filter_map(|(old, new)| {
            let placement = before.columns.get(old)?;
            Some((new.to_owned(), placement.clone()))
        });
        ColumnPlacements {
            default: before.default.clone(),
            columns: named.collect(),
        }
    }

    fn preload(&self, before: &Preload) -> Preload {
        let named = self.kept_names().filter_map(|(old, new)| {
            let priority = before.columns.get(old)?;
            Some((new.to_owned(), *priority))
        });
        Preload {
            default: before.default,
            columns: named.collect(),
        }
    }

    /// The indexes whose columns stay. Their entries are made when they are first needed.
    fn indexes(&self, snapshot: &Snapshot) -> Result<Vec<Arc<TableIndex>>, TableError> {
        let place = |before: usize| {
            let mut sources = self.sources.iter();
            sources.position(|source| *source == ColumnSource::Kept(before))
        };
        let definitions = snapshot.indexes().iter().filter_map(|index| {
            let mut definition: IndexDefinition = index.definition().as_ref().clone();
            for column in &mut definition.columns {
                column.column = place(column.column)?;
            }
            Some(definition)
        });
        let indexes = definitions.map(|definition| {
            Ok(Arc::new(TableIndex::new(
                Arc::new(definition),
                &self.after,
            )?))
        });
        indexes.collect()
    }

    fn part(
        &self,
        (part, is_main): (&Part, bool),
        (placements, storage): (&ColumnPlacements, &Storage),
    ) -> Result<Part, TableError> {
        if self.are_same() {
            return Ok(part.clone());
        }
        let segment = match is_main {
            true => self.main_segment(&part.segment, (placements, storage))?,
            false => self.delta_segment(part, storage)?,
        };
        Ok(Part::new(
            segment,
            Arc::clone(&part.ids),
            part.delete_vector.clone(),
        ))
    }

    fn main_segment(
        &self,
        before: &Segment,
        (placements, storage): (&ColumnPlacements, &Storage),
    ) -> Result<Arc<Segment>, TableError> {
        let mut slots = Vec::with_capacity(self.sources.len());
        let mut sketches = Vec::with_capacity(self.sources.len());
        let known = before.sketches().all()?;
        for (source, field) in self.sources.iter().zip(self.after.fields()) {
            match source {
                ColumnSource::Kept(at) => {
                    slots.push(before.columns()[*at].shared());
                    sketches.push(known.get(*at).cloned().flatten());
                }
                ColumnSource::Filled(value) => {
                    let values = repeated(value, before.rows())?;
                    let target = storage.target(placements.of(field.name()));
                    let column = encode_column(&[values], field.data_type(), target)?;
                    let (facts, sketch) = ColumnFacts::of(&column);
                    slots.push(ColumnSlot::new(column, facts));
                    sketches.push(sketch);
                }
            }
        }
        let sketches = SegmentSketches::InMemory(sketches);
        let segment = Segment::new(before.rows(), slots, sketches);
        Ok(Arc::new(segment.charged_anyway(storage.temporary.as_ref())))
    }

    fn delta_segment(&self, part: &Part, storage: &Storage) -> Result<Arc<Segment>, TableError> {
        let rows = part.segment.rows();
        let columns = self.sources.iter().map(|source| match source {
            ColumnSource::Kept(at) => {
                let data_type = self.before.field(*at).data_type();
                part.values(
                    *at,
                    data_type,
                    RowSet::Run {
                        start: 0,
                        len: rows,
                    },
                )
            }
            ColumnSource::Filled(value) => repeated(value, rows),
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>, TableError>>()?;
        // Rows that are deleted may have what the columns no longer allow.
        let fields = self.after.fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        delta_segment(&self.after, &[batch], storage)
    }
}

/// An array of so many rows with the value of the one row of another.
fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef, TableError> {
    Ok(take(value, &UInt32Array::from(vec![0; rows]), None)?)
}
