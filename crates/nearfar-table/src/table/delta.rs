//! Rows as they are written: plain, near, and all columns in one region.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::SchemaRef;
use nearfar_memory::{PageSize, Placement, RegionOptions, TierId};
use std::sync::Arc;

use super::facts::ColumnFacts;
use super::row_ids::RowIdsBuilder;
use super::segment::{ColumnSlot, Segment};
use super::sketches::{ColumnSketches, SegmentSketches, StoredSketches};
use super::snapshot::{Part, Snapshot};
use crate::error::TableError;
use crate::placement::Storage;
use crate::segment::{ColumnSegment, Encoding, RowSet, Target, ZONE_ROWS, encode_together};

/// Small parts of the delta are put together up to so many rows.
pub const JOINED_ROWS_MAX: usize = ZONE_ROWS;
/// So many parts are put together at least, so that not every row that is written has others copied.
const JOINED_PARTS_MIN: usize = 4;

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
    let column = |index: usize| -> Result<Vec<ArrayRef>, TableError> {
        let data_type = schema.field(index).data_type();
        let cast = |batch: &RecordBatch| {
            let array = cast_with_options(batch.column(index), data_type, &strict)?;
            Ok(array)
        };
        batches.iter().map(cast).collect()
    };
    let columns = (0..schema.fields().len())
        .map(column)
        .collect::<Result<Vec<_>, _>>()?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let segment = near_segment(rows, &columns, storage)?;
    Ok(Arc::new(segment.charged_to(storage.temporary.as_ref())?))
}

fn near_segment(
    rows: usize,
    columns: &[Vec<ArrayRef>],
    storage: &Storage,
) -> Result<Segment, TableError> {
    let target = Target {
        system: &storage.system,
        placement: &Placement::Bind(TierId::NEAR),
        options: RegionOptions {
            page_size: PageSize::Base,
            ..storage.options
        },
        pool: None,
        shelf: Some(&storage.shelf),
        models: &storage.models,
    };
    let columns = encode_together(columns, target)?;
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

/// `snapshot` with its last small parts put together, if it is time to.
///
/// # Errors
/// A region that the near tier has no room for.
pub fn join_small(snapshot: Snapshot, storage: &Storage) -> Result<Snapshot, TableError> {
    let range = snapshot.joinable(JOINED_ROWS_MAX);
    if range.len() < JOINED_PARTS_MIN {
        return Ok(snapshot);
    }
    let part = join(&snapshot.parts()[range.clone()], storage)?;
    Ok(snapshot.joined(range, part))
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
