//! The idle latency figure.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nearfar_model::EmulatedTier;

use super::chase::Chain;
use super::waiting::{Run, Waiting};
use crate::statistics::Summary;

/// Reads between two looks at the clock: their time is far above the cost of a look, and far below
/// the time between two interrupts.
const HOPS_PER_BLOCK: u32 = 64;

/// Time of a dependent read: the median over blocks of reads for `run_time`, so that interrupts
/// and other processes, which stretch single blocks, do not count.
pub(super) fn idle_ns(
    chain: &mut Chain<'_>,
    emulated: Option<&EmulatedTier>,
    run_time: Duration,
) -> Run {
    let waiting = Waiting::start();
    let began = Instant::now();
    let mut blocks_ns = Vec::new();
    let mut block_began = began;
    let mut started = emulated.map(|tier| tier.now());
    loop {
        for _ in 0..HOPS_PER_BLOCK {
            black_box(chain.hop());
            if let (Some(tier), Some(started)) = (emulated, &mut started) {
                *started = tier.dependent_read(*started);
            }
        }
        let now = Instant::now();
        let block = now.duration_since(block_began);
        blocks_ns.push(block.as_secs_f64() * 1e9 / f64::from(HOPS_PER_BLOCK));
        block_began = now;
        let elapsed = now.duration_since(began);
        if elapsed >= run_time {
            return Run {
                figure: Summary::of_runs(blocks_ns[0], blocks_ns[1..].iter().copied()).median,
                waited_share: waiting
                    .elapsed()
                    .map(|waited| waited.div_duration_f64(elapsed)),
            };
        }
    }
}

/// Time of one look at the tier's clock, which every read of an emulated tier needs: median over blocks.
pub(super) fn clock_ns(tier: &EmulatedTier) -> f64 {
    let block = || {
        let began = Instant::now();
        for _ in 0..HOPS_PER_BLOCK {
            black_box(tier.now());
        }
        began.elapsed().as_secs_f64() * 1e9 / f64::from(HOPS_PER_BLOCK)
    };
    Summary::of_runs(block(), (0..100).map(|_| block())).median
}
