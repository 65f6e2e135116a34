//! Threads that sum near buffers beside threads that sum far ones (geyer-2023, section 3).

use std::time::Instant;

use nearfar_kernels::{Aggregate, signed_longs, signed_words};
use nearfar_memory::{Region, RegionError};

use super::error::TierRunError;
use super::threads::{Start, on_threads};
use super::tiers::{OperatorTiers, addresses};
use crate::operators::grid::{OperatorGrid, SumPoint};

/// Values are 0 to 100, as in the paper.
const VALUES: usize = 101;
/// Buffers are whole pages.
const PAGE_BYTES: usize = 4096;
/// Bytes of a value where a grid says nothing.
const INTEGER_BYTES: usize = 4;

/// A buffer for each thread that may sum one.
struct Buffers<'a> {
    tiers: &'a OperatorTiers,
    near: Vec<Region>,
    far: Vec<Region>,
    integer_bytes: usize,
}

/// Runs all sums of a grid, `rounds` times in turn, over near buffers of this many bytes. `progress` is told of each
/// round.
///
/// # Errors
/// [`TierRunError`].
pub fn tier_sums(
    tiers: &OperatorTiers,
    buffer_bytes: usize,
    grid: &OperatorGrid,
    rounds: u32,
    mut progress: impl FnMut(u32),
) -> Result<Vec<SumPoint>, TierRunError> {
    let most = |counts: &[usize]| counts.iter().copied().max().unwrap_or(0);
    let share_max = grid.far_shares.iter().copied().fold(0.0, f64::max);
    let far_bytes = far_bytes(buffer_bytes, share_max);
    let integer_bytes = grid.integer_bytes.unwrap_or(INTEGER_BYTES);
    let near = (0..most(&grid.threads)).map(|_| tiers.near_region(buffer_bytes));
    let far = (0..most(&grid.far_threads)).map(|_| tiers.far_region(far_bytes));
    let filled = |region: Result<Region, RegionError>| Ok(filled(region?, integer_bytes));
    let buffers = Buffers {
        tiers,
        near: near.map(filled).collect::<Result<_, TierRunError>>()?,
        far: far.map(filled).collect::<Result<_, TierRunError>>()?,
        integer_bytes,
    };
    let point = |(threads, far_threads, far_share)| SumPoint {
        threads,
        far_threads,
        far_share,
        integer_bytes: Some(integer_bytes),
        bytes_per_s: Vec::new(),
    };
    let mut points: Vec<SumPoint> = grid.sums().into_iter().map(point).collect();
    for round in 0..rounds {
        progress(round);
        for point in &mut points {
            point.bytes_per_s.push(buffers.bytes_per_s(point)?);
        }
    }
    Ok(points)
}

/// Bytes of all near buffers, and of all far ones.
pub(super) fn needed_bytes(buffer_bytes: usize, grid: &OperatorGrid) -> (u64, u64) {
    let bytes = |threads: &[usize], of_each: usize| {
        let threads = threads.iter().copied().max().unwrap_or(0) as u64;
        threads.saturating_mul(of_each as u64)
    };
    let share_max = grid.far_shares.iter().copied().fold(0.0, f64::max);
    (
        bytes(&grid.threads, buffer_bytes),
        bytes(&grid.far_threads, far_bytes(buffer_bytes, share_max)),
    )
}

/// Bytes of a far buffer, at least a page.
fn far_bytes(buffer_bytes: usize, share: f64) -> usize {
    let bytes = (buffer_bytes as f64 * share) as usize;
    (bytes / PAGE_BYTES).max(1) * PAGE_BYTES
}

fn filled(mut region: Region, integer_bytes: usize) -> Region {
    let integers = region.as_mut_slice().chunks_exact_mut(integer_bytes);
    for (row, integer) in integers.enumerate() {
        let value = row % VALUES;
        match integer.len() {
            8 => integer.copy_from_slice(&(value as i64).to_ne_bytes()),
            _ => integer.copy_from_slice(&(value as i32).to_ne_bytes()),
        }
    }
    region
}

/// The sum of so many values.
fn expected(rows: usize) -> i128 {
    let of_first = |rows: usize| (rows * rows.saturating_sub(1) / 2) as i128;
    (rows / VALUES) as i128 * of_first(VALUES) + of_first(rows % VALUES)
}

impl Buffers<'_> {
    /// Bytes of all buffers over the time from the first start to the last end.
    fn bytes_per_s(&self, point: &SumPoint) -> Result<f64, TierRunError> {
        let near = self.near[..point.threads].iter().map(Region::as_slice);
        let far = self.far[..point.far_threads].iter().map(|region| {
            let bytes = far_bytes(self.near[0].len(), point.far_share);
            &region.as_slice()[..bytes]
        });
        let buffers: Vec<(&[u8], bool)> = near
            .map(|buffer| (buffer, false))
            .chain(far.map(|buffer| (buffer, true)))
            .collect();
        let times = on_threads(buffers.len(), |thread, start| {
            let (buffer, is_far) = buffers[thread];
            self.sum(thread, buffer, is_far, start)
        })?;
        let began = times.iter().map(|(began, _)| *began).min();
        let ended = times.iter().map(|(_, ended)| *ended).max();
        let (Some(began), Some(ended)) = (began, ended) else {
            return Ok(0.0);
        };
        let bytes: usize = buffers.iter().map(|(buffer, _)| buffer.len()).sum();
        Ok(bytes as f64 / (ended - began).as_secs_f64())
    }

    /// When a thread began its sum and when it ended.
    fn sum(
        &self,
        thread: usize,
        buffer: &[u8],
        is_far: bool,
        start: &Start,
    ) -> Result<(Instant, Instant), TierRunError> {
        let pinned = self.tiers.pin(thread);
        start.wait()?;
        pinned?;
        let far = if is_far { addresses(buffer) } else { 0..0 };
        let streams = self.tiers.streams(far);
        let began = Instant::now();
        let found = match self.integer_bytes {
            8 => Aggregate::new().sum(signed_longs(buffer)?, &streams),
            _ => Aggregate::new().sum(signed_words(buffer)?, &streams),
        };
        streams.finish();
        let ended = Instant::now();
        let expected = expected(buffer.len() / self.integer_bytes);
        if found == expected {
            Ok((began, ended))
        } else {
            Err(TierRunError::Wrong {
                what: "a sum",
                found,
                expected,
            })
        }
    }
}
