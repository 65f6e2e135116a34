//! Which parts of tables concurrent scans have yet to read, and which of their columns are near.

use futures::future::Shared;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

use nearfar_table::segment::ColumnSegment;
use nearfar_table::table::Segment;

/// Who has read nothing for so long, such as a cursor that nobody fetches from, is not reckoned with.
const IDLE: Duration = Duration::from_secs(1);

/// The number of a scan's partition.
pub type ReaderId = u64;

/// A segment, by its address: those who are registered keep it alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartId(usize);

impl PartId {
    pub fn of(segment: &Arc<Segment>) -> Self {
        Self(Arc::as_ptr(segment).addr())
    }
}

/// The end of a copy: it comes when the sender is dropped.
pub type CopyEnds = Shared<oneshot::Receiver<()>>;

/// A column that is far, and near for a while.
#[derive(Debug, Clone)]
pub struct CopiedColumn {
    pub column: usize,
    pub near: Arc<ColumnSegment>,
    pub far: Arc<ColumnSegment>,
}

/// A part that somebody has yet to read.
#[derive(Debug, Default)]
pub struct SharedPart {
    /// Who has to read it, and how many rows of it.
    readers: Vec<(ReaderId, usize)>,
    copies: Vec<CopiedColumn>,
    /// While somebody copies columns.
    copying: Option<CopyEnds>,
}

/// How a part suits a scan that looks for its next one; the least suits best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suits {
    IsNear,
    OthersWantIt,
    NobodyElseWantsIt,
    IsBeingCopied,
}

/// A partition of a scan that has parts to read.
#[derive(Debug)]
struct Reader {
    /// The same for all partitions of a scan.
    scan: usize,
    /// By column, whether it reads most of it.
    dense: Vec<bool>,
    /// When it has read last.
    read_at: Instant,
}

impl Reader {
    fn is_idle(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.read_at) > IDLE
    }
}

/// All that scans have yet to read.
#[derive(Debug, Default)]
pub struct SharedParts {
    readers_so_far: ReaderId,
    readers: BTreeMap<ReaderId, Reader>,
    parts: HashMap<PartId, SharedPart>,
    /// Copies, the oldest first.
    oldest: VecDeque<(PartId, usize)>,
}

impl SharedParts {
    /// A reader of a `scan`, who reads now, of so many rows of these parts, of which there are none twice.
    pub fn join(
        &mut self,
        (scan, now): (usize, Instant),
        dense: Vec<bool>,
        parts: impl Iterator<Item = (PartId, usize)>,
    ) -> ReaderId {
        self.readers_so_far += 1;
        let id = self.readers_so_far;
        let reader = Reader {
            scan,
            dense,
            read_at: now,
        };
        self.readers.insert(id, reader);
        for (part, rows) in parts {
            let readers = &mut self.parts.entry(part).or_default().readers;
            readers.push((id, rows));
        }
        id
    }

    /// A reader has come to know better of which columns it reads most.
    pub fn tell(&mut self, reader: ReaderId, dense: Vec<bool>) {
        if let Some(reader) = self.readers.get_mut(&reader) {
            reader.dense = dense;
        }
    }

    /// A reader reads.
    pub fn reads_now(&mut self, reader: ReaderId, now: Instant) {
        if let Some(reader) = self.readers.get_mut(&reader) {
            reader.read_at = now;
        }
    }

    /// A reader needs a part no more, or has what it needs of it. What nobody needs then is to be dropped.
    #[must_use = "it is dropped where nobody waits for it"]
    pub fn pass(&mut self, reader: ReaderId, part: PartId) -> Option<SharedPart> {
        let shared = self.parts.get_mut(&part)?;
        shared.readers.retain(|(id, _)| *id != reader);
        if !shared.readers.is_empty() {
            return None;
        }
        self.oldest.retain(|(of, _)| *of != part);
        self.parts.remove(&part)
    }

    /// A reader is gone, which had yet to read these parts. What nobody needs then is to be dropped.
    #[must_use = "it is dropped where nobody waits for it"]
    pub fn leave(
        &mut self,
        reader: ReaderId,
        parts: impl Iterator<Item = PartId>,
    ) -> Vec<SharedPart> {
        let left = parts.filter_map(|part| self.pass(reader, part)).collect();
        self.readers.remove(&reader);
        left
    }

    /// Whether nobody reads now.
    pub fn are_idle(&self, now: Instant) -> bool {
        self.readers.values().all(|reader| reader.is_idle(now))
    }

    /// Takes the copies out that only those have yet to read who do not read now.
    #[must_use = "they are dropped where nobody waits for it"]
    pub fn take_idle(&mut self, now: Instant) -> Vec<CopiedColumn> {
        let mut idle = Vec::new();
        let (readers, parts) = (&self.readers, &mut self.parts);
        self.oldest.retain(|(part, _)| {
            let Some(shared) = parts.get_mut(part) else {
                return false;
            };
            let mut reading = shared.readers.iter();
            let is_read =
                reading.any(|(id, _)| readers.get(id).is_some_and(|reader| !reader.is_idle(now)));
            if !is_read {
                idle.append(&mut shared.copies);
            }
            is_read
        });
        idle
    }

    /// How a part suits a reader.
    pub fn suits(&self, reader: ReaderId, part: PartId, now: Instant) -> Suits {
        let Some(shared) = self.parts.get(&part) else {
            return Suits::NobodyElseWantsIt;
        };
        let own = self.readers.get(&reader).map(|reader| reader.scan);
        let is_other = |(id, _): &(ReaderId, usize)| {
            let other = self.readers.get(id);
            other.is_some_and(|other| Some(other.scan) != own && !other.is_idle(now))
        };
        let mut copies = shared.copies.iter();
        if shared.copying.is_some() {
            Suits::IsBeingCopied
        } else if copies.any(|copy| self.reads(reader, copy.column)) {
            Suits::IsNear
        } else if shared.readers.iter().any(is_other) {
            Suits::OthersWantIt
        } else {
            Suits::NobodyElseWantsIt
        }
    }

    /// Rows of a column of a part that all who read now together have yet to read.
    pub fn rows_wanted(&self, part: PartId, column: usize, now: Instant) -> usize {
        let readers = self.parts.get(&part).into_iter();
        let readers = readers.flat_map(|shared| &shared.readers);
        let wanting = readers.filter(|(id, _)| {
            let reader = self.readers.get(id);
            self.reads(*id, column) && reader.is_some_and(|reader| !reader.is_idle(now))
        });
        wanting.map(|(_, rows)| rows).sum()
    }

    /// Whether a reader reads most of a column.
    pub fn reads(&self, reader: ReaderId, column: usize) -> bool {
        let reader = self.readers.get(&reader);
        reader.is_some_and(|reader| reader.dense.get(column) == Some(&true))
    }

    /// The columns of a part that are near.
    pub fn copies(&self, part: PartId) -> &[CopiedColumn] {
        self.parts.get(&part).map_or(&[], |shared| &shared.copies)
    }

    /// The end of the copy that somebody makes of a part's columns now.
    pub fn copying(&self, part: PartId) -> Option<CopyEnds> {
        self.parts.get(&part)?.copying.clone()
    }

    /// Somebody who has yet to read a part begins to copy columns of it.
    pub fn begin_copy(&mut self, part: PartId, ends: CopyEnds) {
        if let Some(shared) = self.parts.get_mut(&part) {
            shared.copying = Some(ends);
        }
    }

    /// That one is done.
    pub fn end_copy(&mut self, part: PartId, copies: &[CopiedColumn]) {
        let Some(shared) = self.parts.get_mut(&part) else {
            return;
        };
        shared.copying = None;
        shared.copies.extend_from_slice(copies);
        self.oldest
            .extend(copies.iter().map(|copy| (part, copy.column)));
    }

    /// Lets go of the oldest copy that nobody reads; whether there was one.
    pub fn drop_oldest(&mut self) -> bool {
        let parts = &self.parts;
        let at = self.oldest.iter().position(|(part, column)| {
            let copies = parts.get(part).map(|shared| shared.copies.iter());
            let mut copies = copies.into_iter().flatten();
            copies.any(|copy| copy.column == *column && Arc::strong_count(&copy.near) == 1)
        });
        let Some((part, column)) = at.and_then(|at| self.oldest.remove(at)) else {
            return false;
        };
        if let Some(shared) = self.parts.get_mut(&part) {
            shared.copies.retain(|copy| copy.column != column);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [PartId; 3] = [PartId(64), PartId(128), PartId(192)];

    fn all(rows: usize) -> impl Iterator<Item = (PartId, usize)> {
        PARTS.into_iter().map(move |part| (part, rows))
    }

    #[test]
    fn rows_are_wanted_by_those_who_have_yet_to_read_most_of_them() {
        let now = Instant::now();
        let mut parts = SharedParts::default();
        let first = parts.join((1, now), vec![true, false], all(100));
        let sibling = parts.join((1, now), vec![true, false], all(10));
        let suits = |parts: &SharedParts, at| parts.suits(first, at, now);
        assert_eq!(suits(&parts, PARTS[0]), Suits::NobodyElseWantsIt);
        let second = parts.join((2, now), vec![true, true], all(50));
        assert_eq!(parts.rows_wanted(PARTS[0], 0, now), 160);
        assert_eq!(parts.rows_wanted(PARTS[0], 1, now), 50);
        assert_eq!(suits(&parts, PARTS[0]), Suits::OthersWantIt);
        parts.tell(second, vec![false, true]);
        assert_eq!(parts.rows_wanted(PARTS[0], 0, now), 110);
        assert!(parts.pass(first, PARTS[0]).is_none());
        assert_eq!(parts.rows_wanted(PARTS[0], 0, now), 10);
        assert!(parts.leave(first, PARTS[1..].iter().copied()).is_empty());
        assert!(parts.leave(sibling, PARTS.into_iter()).is_empty());
        assert_eq!(parts.leave(second, PARTS.into_iter()).len(), PARTS.len());
        assert!(parts.parts.is_empty() && parts.readers.is_empty());
    }

    #[test]
    fn who_does_not_read_is_not_reckoned_with() {
        let now = Instant::now();
        let later = now + 2 * IDLE;
        let mut parts = SharedParts::default();
        let first = parts.join((1, now), vec![true], all(100));
        let second = parts.join((2, now), vec![true], all(100));
        assert_eq!(parts.rows_wanted(PARTS[1], 0, now), 200);
        parts.reads_now(first, later);
        assert_eq!(parts.rows_wanted(PARTS[1], 0, later), 100);
        assert_eq!(
            parts.suits(first, PARTS[1], later),
            Suits::NobodyElseWantsIt
        );
        assert!(!parts.are_idle(later));
        drop(parts.leave(first, PARTS.into_iter()));
        assert!(parts.are_idle(later) && !parts.are_idle(now));
        parts.reads_now(second, later);
        assert!(!parts.are_idle(later));
    }

    #[test]
    fn who_waits_for_a_copy_is_told_when_it_ends() {
        let now = Instant::now();
        let mut parts = SharedParts::default();
        let first = parts.join((1, now), vec![true], all(100));
        let second = parts.join((2, now), vec![true], all(100));
        let (ended, ends) = oneshot::channel();
        parts.begin_copy(PARTS[1], futures::FutureExt::shared(ends));
        assert_eq!(parts.suits(second, PARTS[1], now), Suits::IsBeingCopied);
        let waits = parts.copying(PARTS[1]).expect("a copy");
        assert!(waits.peek().is_none());
        parts.end_copy(PARTS[1], &[]);
        drop(ended);
        let ended = futures::executor::block_on(waits);
        assert!(ended.is_err(), "nothing is sent");
        assert!(parts.copying(PARTS[1]).is_none());
        assert!(parts.pass(first, PARTS[1]).is_none());
        assert!(!parts.drop_oldest());
    }
}
