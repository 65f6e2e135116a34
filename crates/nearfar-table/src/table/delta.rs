//! Rows as they are written: plain, near, and all columns in one region.

use arrow::array::{ArrayRef, RecordBatch, new_empty_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{FieldRef, SchemaRef};
use nearfar_memory::{PageSize, Placement, RegionOptions, TierId};
use std::ops::Range;
use std::sync::Arc;

use super::facts::ColumnFacts;
use super::packed_rows::PackedRows;
use super::row_ids::{RowIds, RowIdsBuilder};
use super::segment::{ColumnSlot, Segment, WrittenRows};
use super::sketches::{ColumnSketches, SegmentSketches, StoredSketches};
use super::snapshot::{Part, Snapshot};
use crate::error::TableError;
use crate::placement::Storage;
use crate::segment::{
    ColumnSegment, Encoding, FewRows, NewValues, RowSet, RowValues, Tail, TailRows, Target,
    ZONE_ROWS, encode_together,
};

/// Small parts of the delta are put together up to so many rows.
pub const JOINED_ROWS_MAX: usize = ZONE_ROWS;
/// So many parts are put together at least, so that not every row that is written has others copied.
const JOINED_PARTS_MIN: usize = 4;
/// So many parts a transaction has added before they are.
const OWN_PARTS_MIN: usize = 16;

/// A tail is made for so many rows.
const TAIL_ROWS: usize = 1 << 10;
/// Bytes of long texts that a tail has room for, in each column.
const TAIL_TEXT_BYTES: usize = 128 << 10;
/// Parts of so many rows at most, together, are written to a tail.
const TAIL_NEW_ROWS_MAX: usize = TAIL_ROWS / 4;
/// Parts of so many rows at most are written row by row.
const WRITTEN_ROWS_MAX: usize = 64;

/// `batches` as a segment of the delta; columns in the order of `schema` and of types that cast to
/// its own.
///
/// # Errors
/// A value that does not cast; a region that the near tier has no room for.
pub fn delta_segment(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    storage: &Storage,
) -> Result<Arc<Segment>, TableError> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let cast = |(array, field): (&ArrayRef, &FieldRef)| -> Result<ArrayRef, TableError> {
        match array.data_type() == field.data_type() {
            true => Ok(Arc::clone(array)),
            false => Ok(cast_with_options(array, field.data_type(), &strict)?),
        }
    };
    let arrays = |batch: &RecordBatch| {
        let columns = batch.columns().iter().zip(schema.fields());
        columns.map(cast).collect::<Result<Vec<_>, TableError>>()
    };
    let all = batches.iter().map(arrays).collect::<Result<Vec<_>, _>>()?;
    if let [few] = &all[..]
        && batches[0].num_rows() <= WRITTEN_ROWS_MAX
        && let Some(written) = written(schema, few, storage)?
    {
        return Ok(Arc::new(Segment::of_written(
            batches[0].num_rows(),
            written,
        )));
    }
    let column = |at: usize| all.iter().map(|arrays| Arc::clone(&arrays[at])).collect();
    let columns: Vec<Vec<ArrayRef>> = (0..schema.fields().len()).map(column).collect();
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let segment = near_segment(rows, &columns, storage)?;
    Ok(Arc::new(segment.charged_to(storage.temporary.as_ref())?))
}

/// `rows`, of a table of `schema`, as a segment of the delta.
///
/// # Errors
/// A region that the near tier has no room for, where a session is charged for the rows.
pub(crate) fn packed_segment(
    schema: &SchemaRef,
    rows: PackedRows,
    storage: &Storage,
) -> Result<Arc<Segment>, TableError> {
    if storage.temporary.is_some() {
        let batch = RecordBatch::try_new(Arc::clone(schema), rows.arrays().collect())?;
        return delta_segment(schema, &[batch], storage);
    }
    let count = rows.rows();
    let segment = Segment::of_written(count, WrittenRows::Packed(rows));
    Ok(Arc::new(segment))
}

/// A few rows, as they are where they keep little memory, else written as those of a tail are with no room for others.
/// None where their types are not written so, or a session is charged for them.
fn written(
    schema: &SchemaRef,
    arrays: &[ArrayRef],
    storage: &Storage,
) -> Result<Option<WrittenRows>, TableError> {
    if storage.temporary.is_some() || !Tail::takes(schema) {
        return Ok(None);
    }
    if let Some(few) = FewRows::of(arrays) {
        return Ok(Some(WrittenRows::Few(few)));
    }
    let values = NewValues::Arrays(arrays);
    let text_bytes = |column| values.text_bytes(column);
    let tail = Tail::new(schema, values.rows(), text_bytes, near_target(storage))?;
    Ok(tail.append(0, values).map(WrittenRows::Tail))
}

fn near_target(storage: &Storage) -> Target<'_> {
    Target {
        system: &storage.system,
        placement: &Placement::Bind(TierId::NEAR),
        options: RegionOptions {
            page_size: PageSize::Base,
            ..storage.options
        },
        pool: None,
        shelf: Some(&storage.shelf),
        models: &storage.models,
    }
}

fn near_segment(
    rows: usize,
    columns: &[Vec<ArrayRef>],
    storage: &Storage,
) -> Result<Segment, TableError> {
    let columns = encode_together(columns, near_target(storage))?;
    let slots = columns.iter().cloned().map(ColumnSlot::unread);
    Ok(Segment::new(
        rows,
        slots.collect(),
        SegmentSketches::stored(Arc::new(UnreadSketches { columns })),
    ))
}

/// Sketches of columns that are looked at when somebody first asks: most parts of the delta are put
/// together with others before.
#[derive(Debug)]
struct UnreadSketches {
    columns: Vec<ColumnSegment>,
}

impl StoredSketches for UnreadSketches {
    fn load(&self) -> Result<ColumnSketches, TableError> {
        let sketches = self.columns.iter().map(|column| ColumnFacts::of(column).1);
        Ok(sketches.collect())
    }
}

/// `snapshot` with its last small parts put together, if it is time to. For who holds the lock for commits.
///
/// # Errors
/// A region that the near tier has no room for.
pub fn join_small(snapshot: Snapshot, storage: &Storage) -> Result<Snapshot, TableError> {
    let snapshot = match appended_to_tail(&snapshot) {
        Some((range, part)) => snapshot.joined(range, part),
        None => snapshot,
    };
    let range = snapshot.joinable(JOINED_ROWS_MAX);
    if range.len() < JOINED_PARTS_MIN {
        return Ok(snapshot);
    }
    let parts = &snapshot.parts()[range.clone()];
    let part = match tail_of(snapshot.schema(), parts, storage) {
        Some(part) => part,
        None => join(parts, storage)?,
    };
    Ok(snapshot.joined(range, part))
}

/// The parts that one transaction has added, put together where they are many.
///
/// # Errors
/// As [`join_small`].
pub(crate) fn join_own(
    schema: &SchemaRef,
    parts: Vec<Part>,
    storage: &Storage,
) -> Result<Vec<Part>, TableError> {
    if parts.len() < OWN_PARTS_MIN {
        return Ok(parts);
    }
    let own = Snapshot::of_main(Arc::clone(schema), Vec::new()).appended(&[], &parts);
    let range = own.joinable(JOINED_ROWS_MAX);
    if range.len() < JOINED_PARTS_MIN {
        return Ok(parts);
    }
    let part = join(&parts[range.clone()], storage)?;
    Ok(own.joined(range, part).delta().to_vec())
}

/// The last tail and as many of the small parts behind it as fit into it, in one part.
fn appended_to_tail(snapshot: &Snapshot) -> Option<(Range<usize>, Part)> {
    let (parts, first) = (snapshot.parts(), snapshot.first_open());
    let is_tail = |part: &Part| part.segment.tail().is_some_and(TailRows::is_open);
    let at = first + parts[first..].iter().rposition(is_tail)?;
    let new = &parts[at + 1..];
    let rows: usize = new.iter().map(|part| part.segment.rows()).sum();
    if new.is_empty() || rows > TAIL_NEW_ROWS_MAX {
        return None;
    }
    let (part, taken) = behind(parts[at].clone(), new);
    (taken > 0).then_some((at..at + 1 + taken, part))
}

/// A new tail with the rows of `parts`, if they are few. None also where there is no room.
fn tail_of(schema: &SchemaRef, parts: &[Part], storage: &Storage) -> Option<Part> {
    let rows: usize = parts.iter().map(|part| part.segment.rows()).sum();
    if rows > TAIL_NEW_ROWS_MAX || storage.temporary.is_some() || !Tail::takes(schema) {
        return None;
    }
    let text_bytes = |_| TAIL_TEXT_BYTES;
    let tail = Tail::new(schema, TAIL_ROWS, text_bytes, near_target(storage)).ok()?;
    let none: Vec<ArrayRef> = schema
        .fields()
        .iter()
        .map(|field| new_empty_array(field.data_type()))
        .collect();
    let empty = tail.append(0, NewValues::Arrays(&none))?;
    let empty = Part::whole(Arc::new(Segment::of_tail(empty)), RowIds::default());
    let (part, taken) = behind(empty, parts);
    (taken == parts.len()).then_some(part)
}

/// `part`, whose rows are a tail's, with as many of `new` behind it as fit; how many these are.
fn behind(part: Part, new: &[Part]) -> (Part, usize) {
    let Some(mut rows) = part.segment.tail().cloned() else {
        return (part, 0);
    };
    let mut ids = None;
    let mut deleted = Vec::new();
    let mut taken = 0;
    for new in new {
        let first = rows.rows();
        let Some(longer) = append(&rows, &new.segment) else {
            break;
        };
        rows = longer;
        ids = Some(ids.as_ref().unwrap_or(&*part.ids).appended(&new.ids));
        let gone = new.delete_vector.iter().flat_map(|vector| vector.rows());
        deleted.extend(gone.map(|row| first as u32 + row));
        taken += 1;
    }
    let Some(ids) = ids else {
        return (part, 0);
    };
    let segment = Arc::new(Segment::of_tail(rows));
    let part = Part::new(segment, Arc::new(ids), part.delete_vector.clone());
    match deleted.is_empty() {
        true => (part, taken),
        false => (part.without(deleted), taken),
    }
}

/// `rows` with those of `segment` behind them.
fn append(rows: &TailRows, segment: &Segment) -> Option<TailRows> {
    if let Some(new) = segment.written() {
        return rows.tail().append(rows.rows(), new.values());
    }
    let plain = segment
        .columns()
        .iter()
        .map(|slot| match slot.in_memory()?.encoding() {
            Encoding::Plain { values } => Some(Arc::clone(values)),
            _ => None,
        });
    let arrays = plain.collect::<Option<Vec<ArrayRef>>>()?;
    rows.tail().append(rows.rows(), NewValues::Arrays(&arrays))
}

/// The rows of all `parts`, of the delta, in one; deleted ones too.
fn join(parts: &[Part], storage: &Storage) -> Result<Part, TableError> {
    let (mut ids, mut deleted) = (RowIdsBuilder::default(), Vec::new());
    let mut columns = vec![Vec::new(); parts[0].segment.columns().len()];
    let mut rows = 0;
    for part in parts {
        let segment = &part.segment;
        for (arrays, slot) in columns.iter_mut().zip(segment.columns()) {
            if let Encoding::Plain { values } = slot.current()?.encoding() {
                arrays.push(Arc::clone(values));
            }
        }
        ids.extend(
            &part.ids,
            RowSet::Run {
                start: 0,
                len: segment.rows(),
            },
        );
        let gone = part
            .delete_vector
            .iter()
            .flat_map(|delete_vector| delete_vector.rows());
        deleted.extend(gone.map(|row| rows as u32 + row));
        rows += segment.rows();
    }
    let segment = near_segment(rows, &columns, storage)?;
    let segment = Arc::new(segment.charged_anyway(storage.temporary.as_ref()));
    Ok(Part::whole(segment, ids.finish()).without(deleted))
}
