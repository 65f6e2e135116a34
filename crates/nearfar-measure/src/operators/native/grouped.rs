//! Joins one after the other over near and far columns, which are read where they are or copied (geyer-2023, section
//! 5).

use std::ops::Range;
use std::time::Instant;

use nearfar_kernels::copy::{
    Copiers, CopyCancel, CopyMethod, CopyOptions, MethodCopier, StagePart, Staged, staged,
};
use nearfar_kernels::{JoinKind, JoinTable, Matched, ProbeCursor, Probing, words, words_mut};
use nearfar_memory::Region;
use nearfar_model::Probe;

use super::error::TierRunError;
use super::threads::on_threads;
use super::tiers::{OperatorTiers, addresses};
use crate::operators::grid::{Copies, JoinConfiguration, JoinPoint, OperatorGrid};
use crate::operators::joins::Placement;

/// Bytes of a key.
const KEY_BYTES: usize = size_of::<u32>();
/// Columns begin with a cache line.
const ALIGN: usize = 64;

/// Runs all joins of a grid, `rounds` times in turn, with large columns of this many bytes. In each round the same
/// joins run with everything near too. `progress` is told of each round.
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
                for point in points {
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
        let whole = |bytes: usize| bytes.max(1).next_multiple_of(ALIGN);
        let large_bytes = whole(large_bytes);
        let small_bytes = whole((large_bytes as f64 * share) as usize).min(large_bytes);
        let bytes = large_bytes + most(&grid.joins) * small_bytes;
        let filled = |mut region: Region| {
            fill(region.as_mut_slice(), large_bytes, small_bytes)?;
            Ok::<_, TierRunError>(region)
        };
        let threads = 0..most(&grid.threads);
        let near = threads.clone().map(|_| filled(tiers.near_region(bytes)?));
        let far = threads.clone().map(|_| filled(tiers.far_region(bytes)?));
        let room = threads.map(|_| Ok::<_, TierRunError>(tiers.near_region(bytes)?));
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
        let found = match (far, configuration.copies) {
            (Some(_), Some(copies)) => self.copied(configuration, copies)?,
            _ => self.read(configuration, far)?,
        };
        let seconds = began.elapsed().as_secs_f64();
        let joined = configuration.joins * configuration.threads;
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
        let work = |worker: usize| {
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

    /// Joins over what copiers copy, group by group.
    fn copied(
        &mut self,
        configuration: &JoinConfiguration,
        copies: Copies,
    ) -> Result<usize, TierRunError> {
        let mut found = 0;
        let joins = configuration.joins;
        for begin in (0..joins).step_by(copies.group) {
            let group = begin..joins.min(begin + copies.group);
            found += self.copied_group(configuration, copies, group)?;
        }
        Ok(found)
    }

    fn copied_group(
        &mut self,
        configuration: &JoinConfiguration,
        copies: Copies,
        group: Range<usize>,
    ) -> Result<usize, TierRunError> {
        let (layout, threads, tiers) = (self.layout(), configuration.threads, self.tiers);
        let options = options(copies);
        let ranges: Vec<Range<usize>> = match configuration.placement {
            Placement::SmallFar => group.clone().map(|join| layout.small(join)).collect(),
            Placement::LargeFar => layout.pieces(options.chunk_bytes),
        };
        let mut rooms: Vec<_> = self.room[..threads]
            .iter_mut()
            .map(|room| split(room.as_mut_slice(), &ranges).into_iter())
            .collect();
        let mut parts = Vec::new();
        for range in &ranges {
            let of_range = self.far.iter().zip(&mut rooms).filter_map(|(far, room)| {
                let from = &far.as_slice()[range.clone()];
                room.next().map(|to| StagePart { from, to })
            });
            parts.extend(of_range);
        }
        let cancel = CopyCancel::default();
        let copier = MethodCopier::new(CopyMethod::default())?;
        let copier = |index| {
            // A copier that cannot be pinned copies all the same; threads that join say why.
            let _ = tiers.pin(threads + index);
            tiers.copier(copier)
        };
        let near = &self.near;
        staged(parts, options, &cancel, copier, |staged| {
            let work = |worker: usize| {
                tiers.pin(worker)?;
                let columns = GroupColumns {
                    near: near[worker].as_slice(),
                    layout,
                    staged,
                    part: |index: usize| index * threads + worker,
                    parts: ranges.len(),
                };
                match configuration.placement {
                    Placement::SmallFar => columns.join_small(group.clone()),
                    Placement::LargeFar => columns.join_large(group.clone()),
                }
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
}

/// What a thread joins of a group: near columns, and those that are being copied.
struct GroupColumns<'a, 's, P> {
    near: &'a [u8],
    layout: Layout,
    staged: &'a Staged<'s>,
    /// The number of a thread's own part.
    part: P,
    parts: usize,
}

impl<P: Fn(usize) -> usize> GroupColumns<'_, '_, P> {
    fn wait(&self, index: usize) -> Result<&[u32], TierRunError> {
        Ok(words(self.staged.wait((self.part)(index))?)?)
    }

    /// Small columns are copied, the large one is near.
    fn join_small(&self, group: Range<usize>) -> Result<usize, TierRunError> {
        let large = words(&self.near[self.layout.large()])?;
        let mut found = 0;
        for index in 0..group.len() {
            let table = JoinTable::build(self.wait(index)?, None, &nearfar_model::Native)?;
            found += look_up(&table, large, &nearfar_model::Native)?;
        }
        Ok(found)
    }

    /// The large column is copied, piece by piece, small ones are near.
    fn join_large(&self, group: Range<usize>) -> Result<usize, TierRunError> {
        let mut found = 0;
        for join in group {
            let small = words(&self.near[self.layout.small(join)])?;
            let table = JoinTable::build(small, None, &nearfar_model::Native)?;
            for piece in 0..self.parts {
                found += look_up(&table, self.wait(piece)?, &nearfar_model::Native)?;
            }
        }
        Ok(found)
    }
}

fn options(copies: Copies) -> CopyOptions {
    let defaults = CopyOptions::default();
    let copiers = copies.copiers.try_into().map(Copiers::Fixed);
    CopyOptions {
        chunk_bytes: copies.chunk_bytes.unwrap_or(defaults.chunk_bytes),
        copiers: copiers.unwrap_or(defaults.copiers),
    }
}

/// These parts of `bytes`, which are ascending and apart.
fn split<'a>(bytes: &'a mut [u8], ranges: &[Range<usize>]) -> Vec<&'a mut [u8]> {
    let (mut rest, mut begin) = (bytes, 0);
    let mut parts = Vec::new();
    for range in ranges {
        let (part, behind) = rest[range.start - begin..].split_at_mut(range.len());
        parts.push(part);
        (rest, begin) = (behind, range.end);
    }
    parts
}

/// How many rows the keys find.
fn look_up<P: Probe>(table: &JoinTable, keys: &[u32], probe: &P) -> Result<usize, TierRunError> {
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
