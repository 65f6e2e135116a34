//! What is committed, written into extents and published.

use std::path::Path;
use std::sync::Arc;

use nearfar_memory::pool::ExtentHandle;

use super::options::DataLink;
use super::table_pool::TablePool;
use crate::checkpoint::SegmentFile;
use crate::checkpoint::publisher::TakeCommitted;
use crate::error::CheckpointError;
use crate::error::DurableError;
use crate::manifest::{
    ColumnEntry, DatabaseManifest, SegmentForm, encode_database, encode_segment, encode_sketches,
    seal,
};
use nearfar_table::segment::ColumnSegment;
use nearfar_table::table::{ColumnSlot, Part, Segment};

/// Begins what is published.
pub(super) const MAGIC: &[u8; 8] = b"NFARBASE";

/// Columns of a segment of the delta begin at multiples of this within their extent.
const DELTA_GRAIN: usize = 64;

/// What of a segment is in which extents of a pool.
#[derive(Debug, Clone)]
pub(crate) struct PooledSegment {
    pub(super) pool_id: u128,
    pub(super) form: Arc<ExtentHandle>,
    pub(super) columns: Vec<Arc<ExtentHandle>>,
    pub(super) sketches: Arc<ExtentHandle>,
}

impl TablePool {
    /// Publishes `manifest` in place of what was published before, all of it or nothing. Columns that
    /// belong into the pool and were not in it move there.
    ///
    /// # Errors
    /// A pool without room, or that was taken over; a column that can't be read. What was published
    /// before then still is.
    pub fn publish(&self, manifest: &DatabaseManifest) -> Result<(), DurableError> {
        let mut last_position = self.publishing.lock();
        self.publish_after(&mut last_position, manifest)
    }

    /// The same of what `take` says once it is this publication's turn, so that none takes the place
    /// of a newer one.
    ///
    /// # Errors
    /// As [`Self::publish`], and those of `take`.
    pub(in crate::checkpoint) fn publish_with(
        &self,
        take: &TakeCommitted,
    ) -> Result<(), DurableError> {
        let mut last_position = self.publishing.lock();
        self.publish_after(&mut last_position, &take()?)
    }

    /// Publishes `manifest`, unless it is older than what was published at `last_position`.
    fn publish_after(
        &self,
        last_position: &mut u64,
        manifest: &DatabaseManifest,
    ) -> Result<(), DurableError> {
        if manifest.log_position < *last_position {
            return Ok(());
        }
        let generation = self.publish_manifest(manifest)?;
        *last_position = manifest.log_position;
        tracing::debug!(
            generation,
            position = *last_position,
            "tables are published"
        );
        Ok(())
    }

    fn publish_manifest(&self, manifest: &DatabaseManifest) -> Result<u64, DurableError> {
        let mut extents = Vec::new();
        let mut segments = Vec::new();
        let folder = self.data.get().map(DataLink::segments);
        for table in &manifest.tables {
            let main = table.snapshot.main().len();
            for (index, part) in table.snapshot.parts().iter().enumerate() {
                let pooled = self.pooled(part, index >= main)?;
                segments.push((
                    pooled.columns.len(),
                    file_in(folder.as_deref(), &part.segment),
                ));
                extents.push(pooled.form);
                extents.extend(pooled.columns);
                extents.push(pooled.sketches);
            }
        }
        let numbers: Vec<usize> = (0..segments.len()).collect();
        let identity = self.data.get().map_or(0, |data| data.identity);
        let mut result = Ok(());
        let catalog = seal(MAGIC, |out| {
            out.u64(identity);
            out.u64(self.term.get().copied().unwrap_or(0));
            out.u64(manifest.log_position);
            out.list(segments.iter(), |out, (columns, file)| {
                out.count(*columns);
                out.option(file.as_deref(), |out, file| file.encode(out));
            });
            result = encode_database(out, manifest, &self.place.system, &numbers);
        });
        result.map_err(|source| CheckpointError::Manifest {
            path: self.place.path.clone(),
            source,
        })?;
        let generation = self.owner.publish(&extents, &catalog);
        Ok(generation.map_err(|source| self.place.failed(source))?)
    }

    /// Whether an extent of a segment was found damaged.
    fn is_damaged(&self, pooled: &PooledSegment) -> bool {
        let mut extents = pooled.columns.iter().chain([&pooled.sketches]);
        extents.any(|extent| self.place.is_damaged(extent))
    }

    /// The extents of a segment, which are written where they are not there yet.
    fn pooled(&self, part: &Part, is_delta: bool) -> Result<PooledSegment, DurableError> {
        let segment = &part.segment;
        let known = segment.copy::<PooledSegment>();
        let is_whole = |pooled: &Arc<PooledSegment>| {
            pooled.pool_id == self.place.pool_id && !self.is_damaged(pooled)
        };
        if let Some(pooled) = known.filter(is_whole) {
            return Ok(pooled.as_ref().clone());
        }
        let Written(columns, entries) = match is_delta {
            true => self.write_delta(segment)?,
            false => self.write_main(segment)?,
        };
        let form = encode_segment(&SegmentForm {
            rows: segment.rows(),
            shares_memory: is_delta,
            columns: entries,
        });
        let pooled = PooledSegment {
            pool_id: self.place.pool_id,
            form: self.write_extent(&[&form])?,
            columns,
            sketches: self.write_extent(&[&encode_sketches(segment.sketches().all()?)])?,
        };
        segment.set_copy(Arc::new(pooled.clone()));
        Ok(pooled)
    }

    /// Each column in an extent of its own: the one that it is in, or a new one.
    fn write_main(&self, segment: &Segment) -> Result<Written, DurableError> {
        let mut written = Written::default();
        for slot in segment.columns() {
            let column = slot.current()?;
            let known = column.memory().extent();
            let is_borrowed = known.is_some_and(|extent| extent.is_borrowed());
            let own = known.filter(|_| column.is_alone() && !is_borrowed);
            let extent = match own {
                Some(extent) => Arc::clone(extent),
                None => self.write_extent(&[column.form_bytes()])?,
            };
            if own.is_none() && !is_borrowed && self.holds(&column.placement()) {
                let memory = self.place.in_place(Arc::clone(&extent))?;
                slot.settle(&column, column.in_memory(memory)?);
            }
            written.0.push(extent);
            written.1.push(entry(slot, &column, 0));
        }
        Ok(written)
    }

    /// All columns in one extent.
    fn write_delta(&self, segment: &Segment) -> Result<Written, DurableError> {
        let columns = segment.columns().iter().map(ColumnSlot::current);
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let (mut parts, mut entries): (Vec<&[u8]>, _) = (Vec::new(), Vec::new());
        let mut at = 0;
        for (slot, column) in segment.columns().iter().zip(&columns) {
            let gap = usize::next_multiple_of(at, DELTA_GRAIN) - at;
            parts.push(&[0; DELTA_GRAIN][..gap]);
            parts.push(column.form_bytes());
            entries.push(entry(slot, column, at + gap));
            at += gap + column.form_bytes().len();
        }
        Ok(Written(vec![self.write_extent(&parts)?], entries))
    }
}

/// The file of the data directory that has the bytes of a segment too.
fn file_in(folder: Option<&Path>, segment: &Segment) -> Option<Arc<SegmentFile>> {
    let file = segment.copy::<SegmentFile>()?;
    (file.path().parent() == Some(folder?)).then_some(file)
}

/// Extents of a segment's columns, and what is known of these.
#[derive(Default)]
struct Written(Vec<Arc<ExtentHandle>>, Vec<ColumnEntry>);

fn entry(slot: &ColumnSlot, column: &ColumnSegment, offset: usize) -> ColumnEntry {
    ColumnEntry {
        form: column.form(),
        zones: column.zones().clone(),
        facts: slot.facts().clone(),
        offset: offset as u64,
        checksum: 0,
    }
}
