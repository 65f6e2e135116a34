//! Joins one after the other over near and far columns, which are read where they are or copied (geyer-2023, section
//! 5).

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use nearfar_kernels::copy::{
    Copiers, CopyCancel, CopyMethod, CopyOptions, MethodCopier, StagePart, Staged, staged,
};
use nearfar_kernels::{JoinKind, JoinTable, Matched, ProbeCursor, Probing, words, words_mut};
use nearfar_memory::Region;
use nearfar_model::Probe;

use super::error::TierRunError;
use super::threads::{Start, on_threads};
use super::tiers::{OperatorTiers, addresses};
use crate::operators::grid::{
    CHUNK_BYTES, COPIERS, CopierCount, Copies, JoinConfiguration, JoinPoint, OperatorGrid,
};
use crate::operators::joins::{Access, Placement};

/// Bytes of a key.
const KEY_BYTES: usize = size_of::<u32>();
/// Columns begin with a cache line.
const ALIGN: usize = 64;

/// Runs all joins of a grid, `rounds` times in turn, with large columns of this many bytes. In each round the same
/// joins run with everything near too. Those whose copies this machine cannot make are not run. `progress` is told of
/// each round.
///
/// # Errors
/// [`TierRunError`].
pub fn tier_joins(
    tiers: &OperatorTiers,
    large_bytes: usize,
    grid: &OperatorGrid,
    rounds: u32,
    mut progress: impl FnMut(u32),
) -> Result<Vec<JoinPoint>, TierRunError> {
    let point = |configuration| JoinPoint {
        configuration,
        bytes_per_s: Vec::new(),
        near_bytes_per_s: Vec::new(),
    };
    let configurations = grid.join_configurations().into_iter();
    let mut points: Vec<JoinPoint> = configurations.map(point).collect();
    let same_columns = |a: &JoinPoint, b: &JoinPoint| {
        a.configuration
            .far_share
            .total_cmp(&b.configuration.far_share)
            .is_eq()
    };
    for points in points.chunk_by_mut(same_columns) {
        let share = points[0].configuration.far_share;
        let mut columns = Columns::new(tiers, large_bytes, share, grid)?;
        for round in 0..rounds {
            progress(round);
            let same_joins = |a: &JoinPoint, b: &JoinPoint| a.size() == b.size();
            for points in points.chunk_by_mut(same_joins) {
                // Not timed: who comes first finds caches as other joins have left them.
                columns.bytes_per_s(&points[0].configuration, None)?;
                let near = columns.bytes_per_s(&points[0].configuration, None)?;
                let available = |point: &&mut JoinPoint| {
                    let copies = point.configuration.copies;
                    is_available(copies.and_then(|copies| copies.method))
                };
                for point in points.iter_mut().filter(available) {
                    let placement = Some(point.configuration.placement);
                    let far = columns.bytes_per_s(&point.configuration, placement)?;
                    point.bytes_per_s.push(far);
                    point.near_bytes_per_s.push(near);
                }
            }
        }
    }
    Ok(points)
}

impl JoinPoint {
    fn size(&self) -> (usize, usize) {
        (self.configuration.joins, self.configuration.threads)
    }
}

/// Bytes of the large column and of a small one.
fn column_bytes(large_bytes: usize, share: f64) -> Layout {
    let whole = |bytes: usize| bytes.max(1).next_multiple_of(ALIGN);
    let large_bytes = whole(large_bytes);
    Layout {
        large_bytes,
        small_bytes: whole((large_bytes as f64 * share) as usize).min(large_bytes),
    }
}

/// Near and far bytes of the columns of a grid, those near with the room for copies.
pub(super) fn needed_bytes(large_bytes: usize, grid: &OperatorGrid) -> (u64, u64) {
    let most = |counts: &[usize]| counts.iter().copied().max().unwrap_or(0);
    let (threads, joins) = (most(&grid.threads), most(&grid.joins));
    let share_max = grid.shares_of_joins().iter().copied().fold(0.0, f64::max);
    // A column beyond all memory is no column of whole lines either.
    let layout = column_bytes(large_bytes.min(isize::MAX as usize), share_max);
    let all = |bytes: Option<usize>| {
        let bytes = bytes.and_then(|bytes| bytes.checked_mul(threads));
        bytes.map_or(u64::MAX, |bytes| bytes as u64)
    };
    let columns = layout.columns(joins);
    let room = layout.room(joins, groups_max(grid));
    let near = columns
        .zip(room)
        .and_then(|(columns, room)| columns.checked_add(room));
    (all(near), all(columns))
}

/// The most groups of the joins of a grid.
fn groups_max(grid: &OperatorGrid) -> usize {
    let configurations = grid.join_configurations().into_iter();
    let grouped = configurations.filter(|one| one.access == Access::Grouped);
    let groups = grouped.filter_map(|one| Some(one.joins.div_ceil(one.copies?.group)));
    groups.max().unwrap_or(1)
}

/// The columns of all joining threads: for each a large one, and a small one for each join, on both tiers, and near
/// room for what is copied of them.
struct Columns<'a> {
    tiers: &'a OperatorTiers,
    large_bytes: usize,
    small_bytes: usize,
    near: Vec<Region>,
    far: Vec<Region>,
    room: Vec<Region>,
}

impl<'a> Columns<'a> {
    fn new(
        tiers: &'a OperatorTiers,
        large_bytes: usize,
        share: f64,
        grid: &OperatorGrid,
    ) -> Result<Self, TierRunError> {
        let most = |counts: &[usize]| counts.iter().copied().max().unwrap_or(0);
        let layout = column_bytes(large_bytes, share);
        let Layout {
            large_bytes,
            small_bytes,
        } = layout;
        let joins = most(&grid.joins);
        let bytes = layout.columns(joins).unwrap_or(usize::MAX);
        let room_bytes = layout.room(joins, groups_max(grid)).unwrap_or(usize::MAX);
        let filled = |mut region: Region| {
            fill(region.as_mut_slice(), large_bytes, small_bytes)?;
            Ok::<_, TierRunError>(region)
        };
        let threads = 0..most(&grid.threads);
        let near = threads.clone().map(|_| filled(tiers.near_region(bytes)?));
        let far = threads.clone().map(|_| filled(tiers.far_region(bytes)?));
        let room = threads.map(|_| Ok::<_, TierRunError>(tiers.near_region(room_bytes)?));
        Ok(Self {
            near: near.collect::<Result<_, _>>()?,
            far: far.collect::<Result<_, _>>()?,
            room: room.collect::<Result<_, _>>()?,
            tiers,
            large_bytes,
            small_bytes,
        })
    }

    /// Bytes of all columns that are joined over the time; with `far`, these are far, else everything is near.
    fn bytes_per_s(
        &mut self,
        configuration: &JoinConfiguration,
        far: Option<Placement>,
    ) -> Result<f64, TierRunError> {
        let began = Instant::now();
        let (found, threads) = match (far, configuration.copies) {
            (Some(_), Some(copies)) => {
                let found = self.copied(configuration, copies)?;
                (found, configuration.joining())
            }
            _ => (self.read(configuration, far)?, configuration.threads),
        };
        let seconds = began.elapsed().as_secs_f64();
        let joined = configuration.joins * threads;
        let expected = joined * (self.large_bytes / KEY_BYTES);
        if found != expected {
            return Err(TierRunError::Wrong {
                what: "rows of joins",
                found: found as i128,
                expected: expected as i128,
            });
        }
        Ok((joined * (self.large_bytes + self.small_bytes)) as f64 / seconds)
    }

    /// Joins that read columns where they are. How many rows were found.
    fn read(
        &self,
        configuration: &JoinConfiguration,
        far: Option<Placement>,
    ) -> Result<usize, TierRunError> {
        let layout = self.layout();
        let on = |worker: usize, placement: Placement| {
            let regions = if far == Some(placement) {
                &self.far
            } else {
                &self.near
            };
            regions[worker].as_slice()
        };
        let work = |worker: usize, _: &Start| {
            self.tiers.pin(worker)?;
            let streams = self.tiers.streams(addresses(self.far[worker].as_slice()));
            let large = &on(worker, Placement::LargeFar)[layout.large()];
            let mut found = 0;
            for join in 0..configuration.joins {
                let small = &on(worker, Placement::SmallFar)[layout.small(join)];
                let table = JoinTable::build(words(small)?, None, &streams)?;
                found += look_up(&table, words(large)?, &streams)?;
            }
            streams.finish();
            Ok(found)
        };
        Ok(on_threads(configuration.threads, work)?.into_iter().sum())
    }

    /// Joins over what copiers copy: in one go, or each with copies that begin with it.
    fn copied(
        &mut self,
        configuration: &JoinConfiguration,
        copies: Copies,
    ) -> Result<usize, TierRunError> {
        let joins = configuration.joins;
        if configuration.access == Access::Grouped {
            return self.copied_joins(configuration, copies, 0..joins);
        }
        let each = (0..joins).map(|join| self.copied_joins(configuration, copies, join..join + 1));
        each.sum()
    }

    /// Joins of one or more groups. Copiers go on from one group to the next, and are at most a whole group ahead of
    /// the one that is joined.
    fn copied_joins(
        &mut self,
        configuration: &JoinConfiguration,
        copies: Copies,
        joins: Range<usize>,
    ) -> Result<usize, TierRunError> {
        let (layout, threads, tiers) = (self.layout(), configuration.joining(), self.tiers);
        let options = options(copies, tiers.processors());
        let placement = configuration.placement;
        let groups = groups(layout, placement, options.chunk_bytes, copies.group, joins);
        let sources = groups.iter().flat_map(|group| &group.sources);
        let mut rooms: Vec<&mut [u8]> = self.room[..threads]
            .iter_mut()
            .map(Region::as_mut_slice)
            .collect();
        let mut parts = Vec::new();
        for source in sources {
            for (far, room) in self.far.iter().zip(&mut rooms) {
                let (to, rest) = std::mem::take(room).split_at_mut(source.len());
                let from = &far.as_slice()[source.clone()];
                parts.push(StagePart { from, to });
                *room = rest;
            }
        }
        let cancel = CopyCancel::default();
        let copier = MethodCopier::new(copies.method.unwrap_or_default())?;
        let copier = |index| {
            // A copier that cannot be pinned copies all the same; threads that join say why.
            let _ = tiers.pin(threads + index);
            tiers.copier(copier)
        };
        let near = &self.near;
        staged(parts, options, &cancel, copier, |staged| {
            let ahead = Ahead::new(staged, &groups, threads);
            let work = |worker: usize, _: &Start| {
                tiers.pin(worker)?;
                let columns = GroupColumns {
                    near: near[worker].as_slice(),
                    layout,
                    staged,
                    part: |source: usize| source * threads + worker,
                };
                let mut found = 0;
                for (index, group) in groups.iter().enumerate() {
                    found += match placement {
                        Placement::SmallFar => columns.join_small(group)?,
                        Placement::LargeFar => columns.join_large(group)?,
                    };
                    ahead.ended(index);
                }
                Ok(found)
            };
            Ok(on_threads(threads, work)?.into_iter().sum())
        })?
    }

    fn layout(&self) -> Layout {
        Layout {
            large_bytes: self.large_bytes,
            small_bytes: self.small_bytes,
        }
    }
}

/// Where the columns of a thread are in its region.
#[derive(Debug, Clone, Copy)]
struct Layout {
    large_bytes: usize,
    small_bytes: usize,
}

impl Layout {
    fn large(self) -> Range<usize> {
        0..self.large_bytes
    }

    fn small(self, join: usize) -> Range<usize> {
        let begin = self.large_bytes + join * self.small_bytes;
        begin..begin + self.small_bytes
    }

    /// The large column in pieces that are waited for one by one.
    fn pieces(self, bytes: usize) -> Vec<Range<usize>> {
        let begins = (0..self.large_bytes).step_by(bytes);
        begins
            .map(|begin| begin..self.large_bytes.min(begin + bytes))
            .collect()
    }

    /// Bytes of the columns of a thread; `None` for more than there can be.
    fn columns(self, joins: usize) -> Option<usize> {
        let small_bytes = self.small_bytes.checked_mul(joins)?;
        small_bytes.checked_add(self.large_bytes)
    }

    /// Bytes for what a thread has copied: all small columns, or the large one once for each group.
    fn room(self, joins: usize, groups: usize) -> Option<usize> {
        let small_bytes = self.small_bytes.checked_mul(joins)?;
        Some(small_bytes.max(self.large_bytes.checked_mul(groups)?))
    }
}

/// Joins whose columns are copied together.
struct Group {
    joins: Range<usize>,
    /// What is copied of each thread's columns.
    sources: Vec<Range<usize>>,
    /// Sources of all groups before.
    first: usize,
}

/// These joins in groups of so many.
fn groups(
    layout: Layout,
    placement: Placement,
    piece_bytes: usize,
    group: usize,
    joins: Range<usize>,
) -> Vec<Group> {
    let mut first = 0;
    let begins = joins.clone().step_by(group);
    let of = |begin: usize| {
        let joins = begin..joins.end.min(begin + group);
        let sources = match placement {
            Placement::SmallFar => joins.clone().map(|join| layout.small(join)).collect(),
            Placement::LargeFar => layout.pieces(piece_bytes),
        };
        let of = Group {
            joins,
            sources,
            first,
        };
        first += of.sources.len();
        of
    };
    begins.map(of).collect()
}

/// Holds copiers back, so that they are at most a whole group ahead of the threads that join.
struct Ahead<'a, 's> {
    staged: &'a Staged<'s>,
    groups: &'a [Group],
    threads: usize,
    /// Threads that have ended each group.
    ended: Vec<AtomicUsize>,
}

impl<'a, 's> Ahead<'a, 's> {
    fn new(staged: &'a Staged<'s>, groups: &'a [Group], threads: usize) -> Self {
        let ahead = Self {
            staged,
            groups,
            threads,
            ended: groups.iter().map(|_| AtomicUsize::new(0)).collect(),
        };
        ahead.allow(1);
        ahead
    }

    /// A thread has joined a group.
    fn ended(&self, group: usize) {
        // Nothing else is told by it.
        let before = self.ended[group].fetch_add(1, Ordering::Relaxed);
        if before + 1 == self.threads {
            self.allow(group + 2);
        }
    }

    /// Lets copiers go on up to the end of a group.
    fn allow(&self, group: usize) {
        let last = &self.groups[group.min(self.groups.len() - 1)];
        self.staged
            .limit((last.first + last.sources.len()) * self.threads);
    }
}

/// What a thread joins: near columns, and those that are being copied.
struct GroupColumns<'a, 's, P> {
    near: &'a [u8],
    layout: Layout,
    staged: &'a Staged<'s>,
    /// The number of a thread's own part of a source.
    part: P,
}

impl<P: Fn(usize) -> usize> GroupColumns<'_, '_, P> {
    fn wait(&self, source: usize) -> Result<&[u32], TierRunError> {
        Ok(words(self.staged.wait((self.part)(source))?)?)
    }

    /// Small columns are copied, the large one is near.
    fn join_small(&self, group: &Group) -> Result<usize, TierRunError> {
        let large = words(&self.near[self.layout.large()])?;
        let mut found = 0;
        for source in group.first..group.first + group.sources.len() {
            let table = JoinTable::build(self.wait(source)?, None, &nearfar_model::Native)?;
            found += look_up(&table, large, &nearfar_model::Native)?;
        }
        Ok(found)
    }

    /// The large column is copied, piece by piece, small ones are near.
    fn join_large(&self, group: &Group) -> Result<usize, TierRunError> {
        let mut found = 0;
        for join in group.joins.clone() {
            let small = words(&self.near[self.layout.small(join)])?;
            let table = JoinTable::build(small, None, &nearfar_model::Native)?;
            for source in group.first..group.first + group.sources.len() {
                found += look_up(&table, self.wait(source)?, &nearfar_model::Native)?;
            }
        }
        Ok(found)
    }
}

fn options(copies: Copies, processors: usize) -> CopyOptions {
    CopyOptions {
        chunk_bytes: copies.chunk_bytes.unwrap_or(CHUNK_BYTES),
        copiers: copiers(copies.copiers, processors, |count| count),
    }
}

/// The share of the copiers of a machine of so many processors that `share` gives.
pub(super) fn copiers(
    copiers: CopierCount,
    processors: usize,
    share: impl Fn(usize) -> usize,
) -> Copiers {
    let some = |count| NonZeroUsize::new(share(count)).unwrap_or(NonZeroUsize::MIN);
    match copiers {
        CopierCount::Fixed(count) => Copiers::Fixed(some(count)),
        CopierCount::Adaptive => Copiers::Adaptive(some(processors.max(COPIERS))),
    }
}

/// Whether this machine can copy so.
pub(super) fn is_available(method: Option<CopyMethod>) -> bool {
    method.is_none_or(|method| method.check().is_ok())
}

/// How many rows the keys find.
pub(super) fn look_up<P: Probe>(
    table: &JoinTable,
    keys: &[u32],
    probe: &P,
) -> Result<usize, TierRunError> {
    let (mut cursor, mut matched) = (ProbeCursor::default(), Matched::default());
    let mut found = 0;
    loop {
        matched.clear();
        let is_done = table.probe(
            JoinKind::Inner,
            Probing::default(),
            keys,
            None,
            &mut cursor,
            &mut matched,
            probe,
        )?;
        found += matched.probe_rows.len();
        if is_done {
            return Ok(found);
        }
    }
}

/// Fills the columns of a thread: small ones have all keys from 0 on, each once and each column in an order of its own,
/// and every key of the large one is among them.
fn fill(bytes: &mut [u8], large_bytes: usize, small_bytes: usize) -> Result<(), TierRunError> {
    let (large, small) = bytes.split_at_mut(large_bytes);
    let keys = (small_bytes / KEY_BYTES) as u64;
    for (row, key) in words_mut(large)?.iter_mut().enumerate() {
        // A product with an odd number, of which the highest bits follow from all others.
        *key = ((row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32 % keys as u32;
    }
    for (column, small) in small.chunks_exact_mut(small_bytes).enumerate() {
        for (row, key) in words_mut(small)?.iter_mut().enumerate() {
            *key = ((row + column * 7_919) as u64 % keys) as u32;
        }
    }
    Ok(())
}
