//! Pipelines over the same far column at the same time: each reads it, each copies it for itself, or all read the same
//! copies.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use nearfar_kernels::copy::{Chunks, Copier, CopyCancel, CopyOptions, MethodCopier, streamed};
use nearfar_kernels::{Aggregate, JoinTable, signed_words, words, words_mut};
use nearfar_memory::Region;
use nearfar_model::{Native, Probe};

use super::error::TierRunError;
use super::grouped::{copiers, is_available, look_up};
use super::reads::count_within;
use super::threads::{Start, on_threads};
use super::tiers::{FarCopier, OperatorTiers, addresses};
use crate::operators::grid::OperatorGrid;
use crate::operators::joins::Access;
use crate::operators::pipelines::{
    PipelineConfiguration, PipelineOperator, PipelinePoint, PipelineWork, RingCopies, share,
};

/// Values are 0 to 4095, over and over.
const VALUES: usize = 4096;
/// A filter passes a thousandth of them, or so.
const PASSES: RangeInclusive<u32> = 0..=3;
/// The values that a probe finds: every second one, so that their table stays in the caches.
const STEP: usize = 2;
/// Columns are whole pages.
const PAGE_BYTES: usize = 4096;

/// A column on both tiers, and what probes look up.
struct Columns<'a> {
    tiers: &'a OperatorTiers,
    near: Region,
    far: Region,
    table: JoinTable,
}

/// What a run found of each pipeline, and how many bytes of the far tier were read.
struct Found {
    of_pipelines: Vec<i128>,
    far_bytes: u64,
}

/// Runs all pipelines of a grid, `rounds` times in turn, over one column of this many bytes. In each round the same
/// pipelines run with the column near too. Those whose copies this machine cannot make are not run. `progress` is told of
/// each round.
///
/// # Errors
/// [`TierRunError`].
pub fn tier_pipelines(
    tiers: &OperatorTiers,
    column_bytes: usize,
    grid: &OperatorGrid,
    rounds: u32,
    mut progress: impl FnMut(u32),
) -> Result<Vec<PipelinePoint>, TierRunError> {
    let point = |configuration| PipelinePoint {
        configuration,
        bytes_per_s: Vec::new(),
        near_bytes_per_s: Vec::new(),
        far_bytes: 0,
    };
    let configurations = grid.pipeline_configurations().into_iter();
    let mut points: Vec<PipelinePoint> = configurations.map(point).collect();
    let columns = Columns::new(tiers, column_bytes)?;
    let room_bytes = room_bytes(columns.near.len(), grid);
    let mut room = tiers.near_region(whole_pages(room_bytes))?;
    let same = |a: &PipelinePoint, b: &PipelinePoint| {
        let (a, b) = (&a.configuration, &b.configuration);
        (a.pipelines, a.work) == (b.pipelines, b.work)
    };
    for round in 0..rounds {
        progress(round);
        for points in points.chunk_by_mut(same) {
            let (near_bytes_per_s, _) = columns.bytes_per_s(&points[0].configuration, None)?;
            let available = |point: &&mut PipelinePoint| {
                let ring = point.configuration.ring;
                is_available(ring.and_then(|ring| ring.method))
            };
            for point in points.iter_mut().filter(available) {
                let room = Some(room.as_mut_slice());
                let (bytes_per_s, far_bytes) = columns.bytes_per_s(&point.configuration, room)?;
                point.bytes_per_s.push(bytes_per_s);
                point.near_bytes_per_s.push(near_bytes_per_s);
                point.far_bytes = far_bytes;
            }
        }
    }
    Ok(points)
}

fn whole_pages(bytes: usize) -> usize {
    let pages = bytes.max(1).div_ceil(PAGE_BYTES);
    pages.saturating_mul(PAGE_BYTES)
}

/// Near and far bytes of the column and of the chunks of all rings.
pub(super) fn needed_bytes(column_bytes: usize, grid: &OperatorGrid) -> (u64, u64) {
    if grid.pipelines.is_empty() {
        return (0, 0);
    }
    let column = whole_pages(column_bytes);
    let room = room_bytes(column, grid) as u64;
    ((column as u64).saturating_add(room), column as u64)
}

/// Bytes of the chunks of all rings that run at the same time.
fn room_bytes(column_bytes: usize, grid: &OperatorGrid) -> usize {
    let of = |one: &PipelineConfiguration| {
        let (chunk_bytes, depth) = chunks_of(one.ring?, column_bytes);
        let bytes = chunk_bytes.saturating_mul(depth);
        Some(bytes.saturating_mul(one.rings()))
    };
    let all = grid.pipeline_configurations();
    all.iter().filter_map(of).max().unwrap_or(0)
}

/// Bytes of a chunk of a ring, and how many it needs: no more than the column has.
fn chunks_of(ring: RingCopies, column_bytes: usize) -> (usize, usize) {
    let chunk_bytes = ring.chunk_bytes.min(column_bytes);
    let chunks = column_bytes.div_ceil(chunk_bytes);
    (chunk_bytes, ring.depth.min(chunks))
}

impl<'a> Columns<'a> {
    fn new(tiers: &'a OperatorTiers, column_bytes: usize) -> Result<Self, TierRunError> {
        let bytes = whole_pages(column_bytes);
        let filled = |mut region: Region| {
            for (row, value) in words_mut(region.as_mut_slice())?.iter_mut().enumerate() {
                *value = (row % VALUES) as u32;
            }
            Ok::<_, TierRunError>(region)
        };
        let keys: Vec<u32> = (0..VALUES as u32).step_by(STEP).collect();
        Ok(Self {
            near: filled(tiers.near_region(bytes)?)?,
            far: filled(tiers.far_region(bytes)?)?,
            table: JoinTable::build(&keys, None, &Native)?,
            tiers,
        })
    }

    /// Bytes that all pipelines read over the time, and bytes of the far tier that were read. Without `room` for copies
    /// the column is near.
    fn bytes_per_s(
        &self,
        configuration: &PipelineConfiguration,
        room: Option<&mut [u8]>,
    ) -> Result<(f64, u64), TierRunError> {
        let began = Instant::now();
        let found = match (room, configuration.ring) {
            (Some(room), Some(ring)) => self.copied(configuration, ring, room)?,
            (room, _) => self.read(configuration, room.is_some())?,
        };
        let seconds = began.elapsed().as_secs_f64();
        let rows = self.near.len() / size_of::<u32>();
        for (pipeline, found) in found.of_pipelines.iter().enumerate() {
            let (what, expected) = expected(configuration.work.of(pipeline), rows);
            if *found != expected {
                return Err(TierRunError::Wrong {
                    what,
                    found: *found,
                    expected,
                });
            }
        }
        let bytes = configuration.pipelines * self.near.len();
        Ok((bytes as f64 / seconds, found.far_bytes))
    }

    /// Pipelines that read the column where it is.
    fn read(
        &self,
        configuration: &PipelineConfiguration,
        is_far: bool,
    ) -> Result<Found, TierRunError> {
        let pipelines = configuration.pipelines;
        let column = match is_far {
            true => self.far.as_slice(),
            false => self.near.as_slice(),
        };
        let work = |pipeline: usize, _: &Start| {
            self.tiers.pin(pipeline)?;
            let streams = self.tiers.streams(addresses(self.far.as_slice()));
            let found = self.take(configuration.work.of(pipeline), column, &streams)?;
            streams.finish();
            Ok(found)
        };
        let of_pipelines = on_threads(pipelines, work)?;
        let far_bytes = if is_far { pipelines * column.len() } else { 0 };
        Ok(Found {
            of_pipelines,
            far_bytes: far_bytes as u64,
        })
    }

    /// Pipelines that read copies: all the same, or each its own.
    fn copied(
        &self,
        configuration: &PipelineConfiguration,
        ring: RingCopies,
        room: &mut [u8],
    ) -> Result<Found, TierRunError> {
        let pipelines = configuration.pipelines;
        let far_bytes = AtomicU64::new(0);
        let mut rings: Vec<Ring<'_>> = Vec::new();
        let (chunk_bytes, depth) = chunks_of(ring, self.far.len());
        let mut chunks = room.chunks_exact_mut(chunk_bytes);
        let (mut copier, of_rings) = (pipelines, configuration.rings());
        for index in 0..of_rings {
            let copiers = copiers(ring.copiers, self.tiers.processors(), |count| {
                share(count, index, of_rings)
            });
            rings.push(Ring {
                columns: self,
                work: configuration.work,
                buffers: chunks.by_ref().take(depth).collect(),
                options: CopyOptions {
                    chunk_bytes,
                    copiers,
                },
                copier: MethodCopier::new(ring.method.unwrap_or_default())?,
                first: copier,
                far_bytes: &far_bytes,
            });
            copier += copiers.threads();
        }
        let of_pipelines = match configuration.access {
            Access::Grouped => {
                let ring = rings.pop().expect("grouped pipelines have one");
                ring.run((0..pipelines).collect())?
            }
            Access::Synchronous | Access::Asynchronous => {
                let rings = rings.into_iter().map(|ring| Mutex::new(Some(ring)));
                let rings: Vec<_> = rings.collect();
                let work = |pipeline: usize, _: &Start| {
                    let ring = rings[pipeline].lock();
                    let ring = ring.unwrap_or_else(PoisonError::into_inner).take();
                    ring.expect("each is run once").run(vec![pipeline])
                };
                on_threads(pipelines, work)?.concat()
            }
        };
        Ok(Found {
            of_pipelines,
            far_bytes: far_bytes.into_inner(),
        })
    }

    /// What a pipeline finds in bytes of the column.
    fn take(
        &self,
        operator: PipelineOperator,
        bytes: &[u8],
        probe: &impl Probe,
    ) -> Result<i128, TierRunError> {
        Ok(match operator {
            PipelineOperator::Sum => Aggregate::new().sum(signed_words(bytes)?, probe),
            PipelineOperator::Filter => count_within(words(bytes)?, PASSES, probe) as i128,
            PipelineOperator::Probe => look_up(&self.table, words(bytes)?, probe)? as i128,
        })
    }
}

/// What a pipeline finds in so many rows, and what that is.
fn expected(operator: PipelineOperator, rows: usize) -> (&'static str, i128) {
    let (whole, rest) = (rows / VALUES, rows % VALUES);
    let of = |of_first: fn(usize) -> usize| (whole * of_first(VALUES) + of_first(rest)) as i128;
    match operator {
        PipelineOperator::Sum => ("a sum", of(|rows| rows * rows.saturating_sub(1) / 2)),
        PipelineOperator::Filter => (
            "rows of a filter",
            of(|rows| rows.min(*PASSES.end() as usize + 1)),
        ),
        PipelineOperator::Probe => ("rows of a join", of(|rows| rows.div_ceil(STEP))),
    }
}

/// A ring of chunks between the far column and pipelines.
struct Ring<'a> {
    columns: &'a Columns<'a>,
    work: PipelineWork,
    buffers: Vec<&'a mut [u8]>,
    options: CopyOptions,
    copier: MethodCopier,
    /// The place of its first copier.
    first: usize,
    far_bytes: &'a AtomicU64,
}

impl<'a> Ring<'a> {
    /// What these pipelines find, which read all of its chunks.
    fn run(self, pipelines: Vec<usize>) -> Result<Vec<i128>, TierRunError> {
        let (columns, tiers, work) = (self.columns, self.columns.tiers, self.work);
        let (first, copier, far_bytes) = (self.first, self.copier, self.far_bytes);
        let consumer = |pipeline: usize| {
            move |chunks: &mut Chunks<'_, &'a mut [u8]>| {
                tiers.pin(pipeline)?;
                let mut found = 0;
                while let Some(chunk) = chunks.next_chunk()? {
                    found += columns.take(work.of(pipeline), &chunk, &Native)?;
                }
                Ok::<_, TierRunError>(found)
            }
        };
        let far_copier = |index| {
            // A copier that cannot be pinned copies all the same; pipelines say why.
            let _ = tiers.pin(first + index);
            Counting {
                copier: tiers.copier(copier),
                bytes: far_bytes,
            }
        };
        let found = streamed(
            columns.far.as_slice(),
            self.buffers,
            self.options,
            &CopyCancel::default(),
            far_copier,
            pipelines.into_iter().map(consumer).collect(),
        )?;
        found.into_iter().collect()
    }
}

/// Counts the bytes that it copies.
struct Counting<'a> {
    copier: FarCopier<'a>,
    bytes: &'a AtomicU64,
}

impl Copier for Counting<'_> {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        // Nothing else is told by it.
        self.bytes.fetch_add(from.len() as u64, Ordering::Relaxed);
        self.copier.copy(from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pipelines_must_find_is_what_a_loop_finds() {
        for rows in [0, 1, 2, 3, 4, 5, 4095, 4096, 4097, 10_000] {
            let values = (0..rows).map(|row| row % VALUES);
            let sum: usize = values.clone().sum();
            let passed = values.clone().filter(|value| *value <= 3).count();
            let found = values.filter(|value| value % STEP == 0).count();
            let of = |operator| expected(operator, rows).1;
            assert_eq!(of(PipelineOperator::Sum), sum as i128);
            assert_eq!(of(PipelineOperator::Filter), passed as i128);
            assert_eq!(of(PipelineOperator::Probe), found as i128);
        }
    }
}
