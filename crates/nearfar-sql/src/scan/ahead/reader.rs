//! What one partition of a scan has an engine bring near.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use futures::FutureExt;
use nearfar_memory::{AppendArea, TierBytes};
use nearfar_table::segment::{ColumnSegment, RowSet, ZONE_ROWS};
use nearfar_table::table::{Segment, Snapshot};
use tokio::sync::oneshot;

use super::copiers::{ColumnCopy, Job};
use super::stretch::{Arrived, Landing, Stretch, Way};
use crate::scan::charge::{Arrival, PartitionCosts};
use crate::scan::cooperative::{CooperativeScans, Density, NearColumns, is_far};
use crate::scan::partitions::Piece;

/// Rows of a stretch: enough for an engine to work at its full rate, few enough for a scan to begin soon.
const STRETCH_ROWS: usize = 8 * ZONE_ROWS;

/// Stretches that are on their way or there while one is read: as many as engines bring while the operators above work on
/// what they were given.
const STRETCHES_AHEAD: usize = 8;

/// A scan that has waited for so many stretches reads faster than the engine: the first it waits for in any case.
const WAITS_BEHIND: usize = 2;

/// An engine leaves about one part of so many of a link to cores: one of 30 GB/s of a device of 38 GB/s (`cxl-blades-1`).
const CORE_PART: usize = 5;

/// A column that has more than one part of so many of the bytes is not left to cores.
const CORE_PART_MOST: usize = 3;

/// Scans of fewer rows begin before an engine has brought anything.
const ROWS_MIN: usize = 2 * STRETCH_ROWS;

/// What brings rows near.
#[derive(Debug)]
pub enum CopyEngine {
    /// That of an emulated machine.
    Modelled,
    /// A thread that is given jobs, and the near memory for what it copies.
    Copier(Sender<Job>, Arc<CooperativeScans>),
}

/// A partition of a scan that is read ahead.
#[derive(Debug)]
pub struct ReadAhead {
    engine: CopyEngine,
    snapshot: Snapshot,
    density: Density,
    /// On their way, in the order in which they are read.
    begun: VecDeque<Stretch>,
    /// How many they may be.
    begun_max: usize,
    /// Those that were waited for since all that were begun were there.
    waits: usize,
    /// That which is read.
    open: Option<Stretch>,
    /// Near memory of parts' columns, and the first row behind those that are there or on their way.
    areas: BTreeMap<(usize, usize), (Arc<AppendArea>, usize)>,
}

/// What a scan reads next.
#[derive(Clone, Copy)]
pub struct Next<'a> {
    /// The rows of the open piece that it has yet to read.
    pub rest: &'a Piece,
    /// The pieces behind it.
    pub pieces: &'a VecDeque<Piece>,
    /// Whether other scans read a part too, so that who comes to it first brings it near for all.
    pub is_shared: &'a dyn Fn(usize) -> bool,
    /// Of the open piece, columns that are near though the table has them far.
    pub near: &'a NearColumns,
    /// Rows of it that were passed over, and by column how many of them were read.
    pub read: (usize, &'a [usize]),
    /// Whether anything is read of a zone of it.
    pub may_pass: &'a dyn Fn(usize) -> bool,
}

impl ReadAhead {
    /// By `engine`, for `pieces` of `snapshot`, of whose columns as much is read as `density` says, if that `is_sure`. None
    /// where they are too few rows.
    pub fn new(
        engine: CopyEngine,
        (snapshot, pieces): (&Snapshot, &VecDeque<Piece>),
        (density, is_sure): (Density, bool),
    ) -> Option<Self> {
        let rows: usize = pieces.iter().map(|piece| piece.rows.len()).sum();
        (rows >= ROWS_MIN).then(|| Self {
            engine,
            snapshot: snapshot.clone(),
            density,
            begun: VecDeque::new(),
            begun_max: if is_sure { STRETCHES_AHEAD } else { 1 },
            waits: 0,
            open: None,
            areas: BTreeMap::new(),
        })
    }

    /// Whether `row` of a part is in another stretch than the row before it.
    pub fn leaves(&self, part: usize, row: usize) -> bool {
        !self.open.as_ref().is_some_and(|open| open.has(part, row))
    }

    /// Enters the stretch of the row that is read next, and has the engine begin with those that come behind it.
    pub fn enter(&mut self, next: Next<'_>, costs: &mut PartitionCosts) {
        let Next { rest, pieces, .. } = next;
        let is_known = self.density.is_known(next.read.1);
        let dense = match is_known {
            true => self.density.with(next.read.0, next.read.1),
            false => self.density.expected().to_vec(),
        };
        if is_known {
            self.begun_max = STRETCHES_AHEAD;
        }
        if self.begun.iter().all(|begun| begun.is_there(costs)) {
            self.waits = 0;
        }
        // Where another piece is read than was to come next, what was begun of that is given up.
        let is_next = |stretch: &Stretch| stretch.has(rest.part, rest.rows.start);
        while self.begun.front().is_some_and(|first| !is_next(first)) {
            self.begun.pop_front();
        }
        let open = match self.begun.pop_front() {
            Some(open) => open,
            // It has begun with nothing yet.
            None if !is_known => Stretch {
                part: rest.part,
                rows: rest.rows.start..end_of(&rest.rows, ZONE_ROWS),
                way: Some(Way::Modelled(Vec::new(), Arrival::default())),
            },
            None => self.begin(rest, &dense, Some(next), costs),
        };
        let behind = Piece {
            part: rest.part,
            rows: open.rows.end..rest.rows.end,
        };
        self.waits += usize::from(!open.is_there(costs));
        self.open = Some(open);
        self.begin_behind(&behind, &dense, Some(next), costs);
        for piece in pieces.iter().filter(|_| is_known) {
            if self.begun.len() >= self.begun_max || (next.is_shared)(piece.part) {
                break;
            }
            self.begin_behind(piece, &dense, None, costs);
        }
        let (begun, part) = (&self.begun, rest.part);
        let is_needed = |of: usize| of == part || begun.iter().any(|stretch| stretch.part == of);
        self.areas.retain(|(of, _), _| is_needed(*of));
    }

    /// What the stretch that was entered brings, if that was not asked before.
    pub fn arrived(&mut self, costs: &PartitionCosts) -> Option<Arrived> {
        self.open.as_mut()?.arrive(costs)
    }

    /// What was read of a piece, by column, of which the scan has passed over so many `rows`.
    pub fn has_read(&mut self, rows: usize, read: &[usize]) {
        self.density.add(rows, read);
    }

    /// Begins with stretches of `piece` that were not begun, as long as there are too few on their way.
    fn begin_behind(
        &mut self,
        piece: &Piece,
        dense: &[bool],
        open: Option<Next<'_>>,
        costs: &mut PartitionCosts,
    ) {
        let is_of_piece =
            |begun: &&Stretch| begun.part == piece.part && piece.rows.contains(&begun.rows.start);
        let begun = self.begun.iter().filter(is_of_piece);
        let mut start = begun.fold(piece.rows.start, |start, begun| start.max(begun.rows.end));
        while start < piece.rows.end && self.begun.len() < self.begun_max {
            let rest = Piece {
                part: piece.part,
                rows: start..piece.rows.end,
            };
            let stretch = self.begin(&rest, dense, open, costs);
            start = stretch.rows.end;
            self.begun.push_back(stretch);
        }
    }

    /// Begins with the first stretch of `piece`, which is `open` or comes later.
    fn begin(
        &mut self,
        piece: &Piece,
        dense: &[bool],
        open: Option<Next<'_>>,
        costs: &mut PartitionCosts,
    ) -> Stretch {
        let rows = piece.rows.start..end_of(&piece.rows, STRETCH_ROWS);
        let zones = rows.start / ZONE_ROWS..rows.end.div_ceil(ZONE_ROWS);
        let is_read = open.is_none_or(|open| zones.clone().any(open.may_pass));
        let segment = Arc::clone(&self.snapshot.parts()[piece.part].segment);
        let mut stretch = Stretch {
            part: piece.part,
            rows,
            way: None,
        };
        let mut columns = match is_read && segment.written().is_none() {
            true => far_columns(&segment, dense, open.map(|open| open.near)),
            false => Vec::new(),
        };
        if self.waits >= WAITS_BEHIND {
            leave_one(&mut columns);
        }
        stretch.way = Some(match &self.engine {
            CopyEngine::Modelled => modelled(&stretch, &segment, &columns, costs),
            CopyEngine::Copier(sender, scans) => {
                let (sender, scans) = (sender.clone(), Arc::clone(scans));
                self.copied(&stretch, columns, (&sender, &scans), costs)
            }
        });
        stretch
    }

    /// Has a thread copy columns of a stretch, as long as there is near memory for them.
    fn copied(
        &mut self,
        stretch: &Stretch,
        columns: Vec<(usize, Arc<ColumnSegment>)>,
        (sender, scans): (&Sender<Job>, &CooperativeScans),
        costs: &mut PartitionCosts,
    ) -> Way {
        let (ended, ends) = oneshot::channel();
        let mut job = Job {
            copies: Vec::new(),
            bytes: TierBytes::ZERO,
            ended,
        };
        let mut landings = Vec::new();
        for (column, far) in columns {
            let Some(codes) = far.codes() else {
                continue;
            };
            let bytes_of = |row: usize| row * codes.code_bytes();
            let at = (stretch.part, column);
            if !self.areas.contains_key(&at)
                && let Some(area) = scans.spare_buffer(codes.buffer().len())
            {
                self.areas.insert(at, (area, 0));
            }
            // Rows that were passed by are not copied behind those that come after them.
            let area = self.areas.get_mut(&at);
            let Some((area, begun)) = area.filter(|(_, begun)| *begun <= stretch.rows.start) else {
                continue;
            };
            *begun = stretch.rows.end;
            job.bytes += far.bytes_read(run_of(stretch));
            job.copies.push(ColumnCopy {
                from: codes.buffer().clone(),
                bytes: bytes_of(stretch.rows.start)..bytes_of(stretch.rows.end),
                to: Arc::clone(area),
            });
            landings.push(Landing {
                column,
                end_bytes: bytes_of(stretch.rows.end),
                area: Arc::clone(area),
                far,
            });
        }
        let bytes = job.bytes;
        // A thread that is gone copies nothing, and drops what would say that it ends.
        if !job.copies.is_empty() && sender.send(job).is_ok() {
            costs.copied_ahead(bytes);
        }
        Way::Copied(landings, ends.shared())
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.begun.clear();
        self.open = None;
        self.areas.clear();
        if let CopyEngine::Copier(_, scans) = &self.engine {
            scans.release_if_idle();
        }
    }
}

/// Has the engines of emulated tiers read columns of a stretch.
fn modelled(
    stretch: &Stretch,
    segment: &Segment,
    columns: &[(usize, Arc<ColumnSegment>)],
    costs: &mut PartitionCosts,
) -> Way {
    let mut are_near = vec![false; segment.columns().len()];
    let mut arrival = Arrival::default();
    for (column, far) in columns {
        are_near[*column] = true;
        costs.read_ahead(far.bytes_read(run_of(stretch)), &mut arrival);
    }
    Way::Modelled(are_near, arrival)
}

/// Columns that are far, in memory, as codes, and of which most is read, but for those that are `near`.
fn far_columns(
    segment: &Segment,
    dense: &[bool],
    near: Option<&NearColumns>,
) -> Vec<(usize, Arc<ColumnSegment>)> {
    let is_near = |column| {
        let mut near = near.into_iter().flat_map(NearColumns::iter);
        near.any(|(near, _)| near == column)
    };
    let slots = segment.columns().iter().enumerate();
    let dense = slots.filter(|(column, _)| dense.get(*column) == Some(&true) && !is_near(*column));
    let columns = dense.filter_map(|(column, slot)| Some((column, slot.in_memory()?)));
    let far = columns
        .filter(|(_, values)| values.codes().is_some() && is_far(values.streamed().tier_bytes()));
    far.collect()
}

/// Leaves one of several columns to the cores, which read far memory too while an engine does.
fn leave_one(columns: &mut Vec<(usize, Arc<ColumnSegment>)>) {
    let bytes_of = |column: &ColumnSegment| column.codes().map_or(0, |codes| codes.code_bytes());
    let bytes: Vec<usize> = columns.iter().map(|(_, column)| bytes_of(column)).collect();
    if let Some(left) = left_to_cores(&bytes) {
        columns.remove(left);
    }
}

/// Which column is left to the cores of several that have so many bytes in a row.
fn left_to_cores(bytes: &[usize]) -> Option<usize> {
    let all: usize = bytes.iter().sum();
    let distance = |at: &usize| (bytes[*at] * CORE_PART).abs_diff(all);
    let left = (0..bytes.len()).min_by_key(distance);
    left.filter(|left| bytes[*left] * CORE_PART_MOST <= all)
}

/// Where the first of `rows` that come in units of `unit` end.
fn end_of(rows: &Range<usize>, unit: usize) -> usize {
    ((rows.start / unit + 1) * unit).min(rows.end)
}

fn run_of(stretch: &Stretch) -> RowSet<'static> {
    RowSet::Run {
        start: stretch.rows.start,
        len: stretch.rows.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_left_about_what_an_engine_leaves_of_a_link() {
        assert_eq!(left_to_cores(&[]), None);
        assert_eq!(
            left_to_cores(&[4]),
            None,
            "who waits for it reads nothing else"
        );
        assert_eq!(left_to_cores(&[4, 2]), Some(1));
        assert_eq!(left_to_cores(&[4, 4, 2, 1, 4, 1]), Some(0));
        assert_eq!(left_to_cores(&[1, 2, 1, 4]), Some(1));
    }

    #[test]
    fn units_end_where_others_begin_or_rows_do() {
        assert_eq!(end_of(&(0..100), 64), 64);
        assert_eq!(end_of(&(63..100), 64), 64);
        assert_eq!(end_of(&(64..100), 64), 100);
    }
}
