//! Chains of dependent reads.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::ticks::{after, before};
use super::{LINE_BYTES, Target};

/// Lines of a chain that are written between two looks at whether the user wants to stop.
const LINES_AT_ONCE: usize = 1 << 18;

/// A cycle through all lines of a region, in an order that no prefetcher foresees.
///
/// The order comes from a linear congruential generator of full period (Hull and Dobell 1962) over
/// the next power of two, whose states are mixed by a bijection and left out where they lie beyond
/// the region. So it needs no table, however large the region is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain<'a> {
    target: Target<'a>,
}

impl<'a> Chain<'a> {
    /// Writes the chain into `memory`, which must begin at a line and hold at least one; `None` if
    /// it was stopped.
    pub(crate) fn build(memory: &'a mut [u8], seed: u64, stop: &AtomicBool) -> Option<Self> {
        let order = Order::new(memory.len() / LINE_BYTES, seed);
        let first = order.lines().next().unwrap_or(0);
        let mut place = first;
        for (index, next) in order.lines().skip(1).chain([first]).enumerate() {
            if index.is_multiple_of(LINES_AT_ONCE) && stop.load(Ordering::Relaxed) {
                return None;
            }
            let at = place * LINE_BYTES;
            memory[at..at + 8].copy_from_slice(&((next * LINE_BYTES) as u64).to_ne_bytes());
            place = next;
        }
        Some(Self::existing(memory))
    }

    /// The chain that was built into `memory` before.
    pub(crate) fn existing(memory: &'a mut [u8]) -> Self {
        Self {
            target: Target::new(memory),
        }
    }

    /// The memory it lies in.
    pub(crate) fn target(&self) -> Target<'a> {
        self.target
    }

    /// The line that is nearest to `share` of the region: where one of several threads begins.
    pub(crate) fn start(&self, share: f64) -> usize {
        let lines = self.target.bytes() / LINE_BYTES;
        ((lines as f64 * share) as usize).min(lines - 1) * LINE_BYTES
    }

    /// Follows the chain for `hops` reads from the node at `offset`; returns where it led.
    pub(crate) fn follow(&self, offset: usize, hops: usize) -> usize {
        let mut at = offset;
        for _ in 0..hops {
            at = self.hop(at);
        }
        at
    }

    /// One read: the offset that the node at `offset` tells.
    #[inline(always)]
    pub(crate) fn hop(&self, offset: usize) -> usize {
        assert!(offset + 8 <= self.target.bytes() && offset.is_multiple_of(8));
        let word: *const AtomicU64 = self.target.base().wrapping_add(offset).cast();
        // SAFETY: inside of the target and aligned; targets are accessed atomically.
        let next = unsafe { (*word).load(Ordering::Relaxed) };
        next as usize
    }

    /// One read, with its ticks.
    pub(crate) fn sampled(&self, offset: usize) -> (usize, u64) {
        let began = before();
        let next = self.hop(offset);
        (next, after() - began)
    }
}

/// The numbers below `lines`, each once, in a scrambled order.
#[derive(Debug, Clone, Copy)]
struct Order {
    lines: usize,
    mask: u64,
    shift: u32,
    seed: u64,
}

impl Order {
    fn new(lines: usize, seed: u64) -> Self {
        assert!(lines > 0, "a chain needs a line");
        let bits = (lines as u64).next_power_of_two().trailing_zeros();
        Self {
            lines,
            mask: (1_u64 << bits) - 1,
            shift: bits.div_ceil(2).max(1),
            seed,
        }
    }

    fn lines(self) -> impl Iterator<Item = usize> {
        let mut walk = Walk {
            state: self.seed & self.mask,
            order: self,
        };
        (0..self.lines).map(move |_| walk.next_line())
    }

    /// A bijection on the numbers up to the mask: shifts to the right and odd factors undo nothing.
    fn mix(&self, state: u64) -> u64 {
        let mut mixed = state;
        for factor in [0xBF58_476D_1CE4_E5B9_u64, 0x94D0_49BB_1331_11EB] {
            mixed ^= mixed >> self.shift;
            mixed = mixed.wrapping_mul(factor) & self.mask;
        }
        mixed ^ (mixed >> self.shift)
    }
}

/// The lines of a chain one after the other, again and again, without the chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    order: Order,
    state: u64,
}

impl Walk {
    /// The chain that [`Chain::build`] makes over `lines`, from a `share` of the way on.
    pub(crate) fn new(lines: usize, seed: u64, share: f64) -> Self {
        let order = Order::new(lines, seed);
        let state = seed.wrapping_add((share * order.mask as f64) as u64) & order.mask;
        Self { order, state }
    }

    /// The next line.
    pub(crate) fn next_line(&mut self) -> usize {
        loop {
            let place = self.order.mix(self.state) as usize;
            self.state = self
                .state
                .wrapping_mul(0x5851_F42D_4C95_7F2D)
                .wrapping_add(0x1405_7B7E_F767_814F)
                & self.order.mask;
            if place < self.order.lines {
                return place;
            }
        }
    }
}
