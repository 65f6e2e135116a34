//! One partition of a scan, among the others.

use futures::FutureExt;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

use super::copies::{Copying, Wanted};
use super::density::Density;
use super::near::NearColumns;
use super::parts::{CopyEnds, PartId, ReaderId, SharedParts, Suits};
use super::{CooperativeScans, ROWS_MIN};
use crate::scan::charge::PartitionCosts;
use crate::scan::partitions::Piece;
use nearfar_table::table::Snapshot;

/// How often others are told that a scan reads.
const TELLS_EVERY: Duration = Duration::from_millis(100);

/// A partition of a scan that has joined the other scans, until it is dropped.
#[derive(Debug)]
pub struct CooperativeReader {
    scans: Arc<CooperativeScans>,
    id: ReaderId,
    snapshot: Snapshot,
    density: Density,
    /// When the others were last told that it reads.
    told_at: Instant,
    /// Parts of the snapshot that it has yet to read and that are worth a copy.
    left: BTreeMap<usize, PartId>,
}

/// What comes of a part that is to be opened.
#[derive(Debug)]
pub enum Opening {
    /// It can be read, with these columns near.
    Near(NearColumns),
    /// Another scan copies columns of it, which is to be waited for.
    Waits(CopyEnds),
}

impl CooperativeScans {
    /// A reader of `pieces` of `snapshot`, for a `scan` whose other partitions are no others. None where there is nothing to be
    /// read that is worth a copy.
    pub fn join(
        self: &Arc<Self>,
        scan: usize,
        (snapshot, pieces): (&Snapshot, &VecDeque<Piece>),
        density: Density,
    ) -> Option<CooperativeReader> {
        let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
        for piece in pieces {
            *rows.entry(piece.part).or_default() += piece.rows.len();
        }
        rows.retain(|part, rows| {
            let segment = &snapshot.parts()[*part].segment;
            *rows >= ROWS_MIN && segment.written().is_none()
        });
        if rows.is_empty() {
            return None;
        }
        let id_of = |part: &usize| PartId::of(&snapshot.parts()[*part].segment);
        let parts = rows.iter().map(|(part, rows)| (id_of(part), *rows));
        let now = Instant::now();
        let id = self.parts.lock().join((scan, now), density.dense(), parts);
        Some(CooperativeReader {
            scans: Arc::clone(self),
            id,
            snapshot: snapshot.clone(),
            density,
            told_at: now,
            left: rows.keys().map(|part| (*part, id_of(part))).collect(),
        })
    }
}

impl CooperativeReader {
    /// Which of `pieces` is best read next, if they may be read in any order.
    pub fn best_next(&self, pieces: &VecDeque<Piece>) -> usize {
        let now = Instant::now();
        let parts = self.scans.parts.lock();
        let best = pieces.iter().enumerate();
        let best = best.min_by_key(|(_, piece)| self.suits(&parts, piece.part, now));
        best.map_or(0, |(at, _)| at)
    }

    /// Whether others read a part as well.
    pub fn is_shared(&self, part: usize) -> bool {
        let parts = self.scans.parts.lock();
        self.suits(&parts, part, Instant::now()) != Suits::NobodyElseWantsIt
    }

    fn suits(&self, parts: &SharedParts, part: usize, now: Instant) -> Suits {
        match self.left.get(&part) {
            Some(part) => parts.suits(self.id, *part, now),
            None => Suits::NobodyElseWantsIt,
        }
    }

    /// Opens a part. Brings columns of it near if others have yet to read them too, which is charged to `costs`.
    pub fn open(&mut self, part: usize, costs: &mut PartitionCosts) -> Opening {
        let Some(id) = self.left.get(&part).copied() else {
            return Opening::Near(NearColumns::default());
        };
        let segment = &self.snapshot.parts()[part].segment;
        let now = Instant::now();
        let mut parts = self.scans.parts.lock();
        parts.reads_now(self.id, now);
        let is_limited = costs.is_limited();
        let wanted = Wanted::of(&parts, (self.id, now), (id, segment), is_limited);
        let own = if wanted.is_empty() {
            Vec::new()
        } else if let Some(ends) = parts.copying(id) {
            return Opening::Waits(ends);
        } else {
            let (ended, ends) = oneshot::channel();
            parts.begin_copy(id, ends.shared());
            let idle = parts.take_idle(now);
            drop(parts);
            drop(idle);
            let own = Copying::new(&self.scans, id, ended).copy(wanted, costs);
            parts = self.scans.parts.lock();
            own
        };
        let near = NearColumns::of(parts.copies(id), &own);
        let passed = parts.pass(self.id, id);
        drop(parts);
        drop(passed);
        self.left.remove(&part);
        Opening::Near(near)
    }

    /// It reads.
    pub fn reads_now(&mut self, now: Instant) {
        if now.saturating_duration_since(self.told_at) > TELLS_EVERY {
            self.told_at = now;
            self.scans.parts.lock().reads_now(self.id, now);
        }
    }

    /// What was read of parts, by column, of which it has passed over so many `rows`.
    pub fn has_read(&mut self, rows: usize, read: &[usize]) {
        let before = self.density.dense();
        self.density.add(rows, read);
        let dense = self.density.dense();
        if dense != before {
            self.scans.parts.lock().tell(self.id, dense);
        }
    }
}

impl Drop for CooperativeReader {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut parts = self.scans.parts.lock();
        let left = parts.leave(self.id, self.left.values().copied());
        let idle = parts.take_idle(now);
        let are_idle = parts.are_idle(now);
        drop(parts);
        drop((left, idle));
        if are_idle {
            self.scans.buffers.release();
        }
    }
}
