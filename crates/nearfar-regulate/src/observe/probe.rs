//! A victim that is always there: a chain of dependent reads of near memory.

use std::hint::black_box;
use std::time::Instant;

use super::{Observer, Sureness};
use crate::error::RegulateError;

/// Entries of the chain, 64 bytes each: larger than the last level of most machines.
const ENTRIES: usize = 1 << 20;
/// Parts of one look, of which the median counts: a thread that has to wait for a processor loses one or two.
const PARTS: usize = 11;
/// Reads of one part.
const READS: usize = 2_000;
/// Looks of which the fastest is what is undisturbed.
const IDLE_LOOKS: usize = 9;

/// An entry fills a line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Entry(u32);

/// Latency of dependent reads against the best that was seen.
pub struct NearProbe {
    entries: Vec<Entry>,
    at: u32,
    idle_ns: f64,
}

impl NearProbe {
    /// Builds the chain and takes the latency to compare with: nothing should disturb it then.
    pub fn new() -> Self {
        let mut order: Vec<u32> = (0..ENTRIES as u32).collect();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for last in (1..order.len()).rev() {
            random = random.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
            order.swap(last, (random >> 33) as usize % (last + 1));
        }
        let mut entries = vec![Entry(0); ENTRIES];
        for pair in order.windows(2) {
            entries[pair[0] as usize] = Entry(pair[1]);
        }
        entries[order[ENTRIES - 1] as usize] = Entry(order[0]);
        let mut probe = Self {
            entries,
            at: 0,
            idle_ns: f64::INFINITY,
        };
        for _ in 0..IDLE_LOOKS {
            probe.idle_ns = probe.idle_ns.min(probe.look_ns());
        }
        probe
    }

    fn look_ns(&mut self) -> f64 {
        let mut parts_ns = [(); PARTS].map(|()| self.part_ns());
        parts_ns.sort_unstable_by(f64::total_cmp);
        parts_ns[PARTS / 2]
    }

    fn part_ns(&mut self) -> f64 {
        let start = Instant::now();
        let mut at = self.at;
        for _ in 0..READS {
            at = self.entries[at as usize].0;
        }
        self.at = black_box(at);
        start.elapsed().as_nanos() as f64 / READS as f64
    }
}

impl Default for NearProbe {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for NearProbe {
    fn tells(&self) -> &'static str {
        "latency of near memory, by a probe of its own: sees every tier's traffic, names no task"
    }

    fn sureness(&self) -> Sureness {
        Sureness::Sampled
    }

    fn victim(&mut self, _now_ms: f64) -> Result<f64, RegulateError> {
        Ok((self.idle_ns / self.look_ns()).min(1.0))
    }
}
