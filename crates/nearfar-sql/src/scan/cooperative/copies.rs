//! Copies of far columns in near memory.

use nearfar_memory::{AppendArea, TierBytes, TierId};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

use super::CooperativeScans;
use super::buffers::NoBuffer;
use super::parts::{CopiedColumn, PartId, ReaderId, SharedParts};
use crate::scan::charge::PartitionCosts;
use nearfar_table::segment::{ColumnSegment, SegmentMemory};
use nearfar_table::table::Segment;

/// How many times a column's rows readers together have to read at least for a copy to pay: it is written once and read
/// near each time, which two of them do not make up for.
const READS_MIN: f64 = 2.5;

/// The same where far bandwidth is limited, so that bytes are what is short.
const LIMITED_READS_MIN: f64 = 1.5;

/// Columns of a part that a scan is to bring near.
#[derive(Debug)]
pub struct Wanted(Vec<(usize, Arc<ColumnSegment>)>);

impl Wanted {
    /// Far columns that a reader is about to read most of, as others are who have yet to come to the part, and that are
    /// not near yet. One that is not in memory is not among them. `is_limited` says whether far bandwidth is.
    pub fn of(
        parts: &SharedParts,
        (reader, now): (ReaderId, Instant),
        (part, segment): (PartId, &Segment),
        is_limited: bool,
    ) -> Self {
        let reads_min = if is_limited {
            LIMITED_READS_MIN
        } else {
            READS_MIN
        };
        let rows_least = (segment.rows() as f64 * reads_min) as usize;
        let is_near = |column| {
            let mut copies = parts.copies(part).iter();
            copies.any(|copy| copy.column == column)
        };
        let slots = segment.columns().iter().enumerate();
        let wanted = slots.filter_map(|(column, slot)| {
            let pays = parts.reads(reader, column)
                && !is_near(column)
                && parts.rows_wanted(part, column, now) >= rows_least;
            let values = slot.in_memory().filter(|_| pays)?;
            is_far(values.streamed().tier_bytes()).then_some((column, values))
        });
        Self(wanted.collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether more of these bytes are on other tiers than on the near one.
pub fn is_far(bytes: TierBytes) -> bool {
    bytes[TierId::NEAR] < bytes.total() / 2
}

/// One who copies columns of a part. When it is dropped, they are there for all, and who waits for them is told.
#[derive(Debug)]
pub struct Copying<'a> {
    scans: &'a CooperativeScans,
    part: PartId,
    copies: Vec<CopiedColumn>,
    _ended: oneshot::Sender<()>,
}

impl<'a> Copying<'a> {
    /// Nothing is copied yet; `ended` is what others wait for.
    pub fn new(scans: &'a CooperativeScans, part: PartId, ended: oneshot::Sender<()>) -> Self {
        Self {
            scans,
            part,
            copies: Vec::new(),
            _ended: ended,
        }
    }

    /// Copies what is `wanted`, for as long as there is room; what was read is charged to `costs`. Returns the columns
    /// that are near then.
    pub fn copy(mut self, wanted: Wanted, costs: &mut PartitionCosts) -> Vec<usize> {
        for (column, far) in wanted.0 {
            let Some(near) = self.scans.copied(&far) else {
                break;
            };
            costs.copied(far.streamed().tier_bytes());
            self.copies.push(CopiedColumn {
                column,
                near: Arc::new(near),
                far,
            });
        }
        self.copies.iter().map(|copy| copy.column).collect()
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        let mut parts = self.scans.parts.lock();
        parts.end_copy(self.part, &self.copies);
    }
}

impl CooperativeScans {
    /// Near memory for so many bytes, where there is room beside the copies that there are.
    pub fn spare_buffer(&self, bytes: usize) -> Option<Arc<AppendArea>> {
        self.buffers.empty(bytes).ok()
    }

    /// Near memory for so many bytes, in the place of older copies that nobody reads where there is no other room.
    fn buffer(&self, bytes: usize) -> Option<Arc<AppendArea>> {
        loop {
            match self.buffers.empty(bytes) {
                Ok(buffer) => return Some(buffer),
                Err(NoBuffer::Full) if self.parts.lock().drop_oldest() => {}
                Err(_) => return None,
            }
        }
    }

    /// Gives near memory back if nobody reads now.
    pub fn release_if_idle(&self) {
        if self.parts.lock().are_idle(Instant::now()) {
            self.buffers.release();
        }
    }

    /// A copy of `far` in near memory.
    fn copied(&self, far: &ColumnSegment) -> Option<ColumnSegment> {
        let streamed = far.streamed();
        let buffer = self.buffer(streamed.copy_bytes())?;
        buffer.append_with(streamed.copy_bytes(), |bytes| streamed.copy_to(bytes));
        let copied = buffer.prefix(buffer.len());
        streamed.column_in(SegmentMemory::Appended(copied)).ok()
    }
}
