//! Hash tables whose buckets are cache lines, in memory of any tier.
//!
//! A lookup touches one line, or, rarely, those behind it: what a far tier charges for is one latency.

use nearfar_model::Probe;

use crate::line::{LINE_KEYS, Line, OVERFLOWS};
use crate::vectors::{Vectors, prefetch};

/// No row: what a lookup gives that finds nothing, and the build row of a probe row that a left join
/// found nothing for.
pub const NO_ROW: u32 = u32::MAX;

/// A hash of a key: both halves of a product with an odd number, folded.
#[inline(always)]
pub(crate) fn hash(key: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    const MASK: u64 = 0x2545_f491_4f6c_dd1d;
    let product = u128::from(key ^ MASK) * u128::from(FACTOR);
    let folded = (product as u64) ^ (product >> 64) as u64;
    // The highest bits choose lines: bring all others there.
    folded.wrapping_mul(FACTOR).rotate_left(32) ^ folded
}

/// A number below `count` that follows from the highest bits of `hash`.
#[inline(always)]
pub(crate) fn place(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// Different keys with a row each.
#[derive(Debug, Clone)]
pub(crate) struct LineTable<S> {
    lines: S,
    keys: usize,
}

impl<S: AsRef<[Line]> + AsMut<[Line]>> LineTable<S> {
    /// An empty table in `lines`, which are more than none; what they held is overwritten.
    pub(crate) fn new(mut lines: S) -> Self {
        assert!(!lines.as_ref().is_empty(), "a table has a line");
        lines.as_mut().fill(Line::default());
        Self { lines, keys: 0 }
    }

    /// Different keys that it holds.
    pub(crate) fn len(&self) -> usize {
        self.keys
    }

    /// Whether there is room for so many more keys with short ways.
    pub(crate) fn has_room_for(&self, keys: usize) -> bool {
        Line::count_for(self.keys + keys) <= self.lines.as_ref().len()
    }

    /// Finds `key`, or puts it in with `row`. The row that was there before, or [`NO_ROW`].
    ///
    /// There is room for one more key, see [`Self::has_room_for`].
    #[inline(always)]
    pub(crate) fn find_or_insert<V: Vectors, P: Probe>(
        &mut self,
        key: u64,
        mut at: usize,
        row: u32,
        probe: &P,
    ) -> u32 {
        let lines = self.lines.as_mut();
        loop {
            let line = &mut lines[at];
            tell!(probe.read(std::ptr::from_ref(line).addr(), size_of::<Line>()));
            let taken = line.taken();
            let found = V::equal_keys(line, key) & ((1 << taken) - 1);
            if found != 0 {
                return line.rows[found.trailing_zeros() as usize];
            }
            if taken < LINE_KEYS {
                line.keys[taken] = key;
                line.rows[taken] = row;
                line.state += 1;
                tell!(probe.write(std::ptr::from_ref(line).addr(), size_of::<Line>()));
                self.keys += 1;
                return NO_ROW;
            }
            line.state |= OVERFLOWS;
            at = if at + 1 == lines.len() { 0 } else { at + 1 };
        }
    }
}

impl<S: AsRef<[Line]>> LineTable<S> {
    /// The line where the way of a key with this hash begins.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> usize {
        place(hash, self.lines.as_ref().len())
    }

    /// Asks for a line.
    #[inline(always)]
    pub(crate) fn prefetch<P: Probe>(&self, at: usize, probe: &P) {
        let line = std::ptr::from_ref(&self.lines.as_ref()[at]);
        tell!(probe.prefetch(line.addr(), size_of::<Line>()));
        prefetch(line);
    }

    /// The row of `key`, whose way begins at line `at`, or [`NO_ROW`].
    #[inline(always)]
    pub(crate) fn find<V: Vectors, P: Probe>(&self, key: u64, mut at: usize, probe: &P) -> u32 {
        let lines = self.lines.as_ref();
        loop {
            let line = &lines[at];
            tell!(probe.read(std::ptr::from_ref(line).addr(), size_of::<Line>()));
            let found = V::equal_keys(line, key) & ((1 << line.taken()) - 1);
            if found != 0 {
                return line.rows[found.trailing_zeros() as usize];
            }
            if !line.overflows() {
                return NO_ROW;
            }
            at = if at + 1 == lines.len() { 0 } else { at + 1 };
        }
    }

    /// Bytes of the table.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.lines.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_near_keys_and_of_multiples_spread_over_places() {
        for step in [1_u64, 2, 3, 64, 4096, 1 << 20, 1 << 32, 1 << 40] {
            let mut counts = [0_u32; 64];
            for key in 0..6400_u64 {
                counts[place(hash(key.wrapping_mul(step)), 64)] += 1;
            }
            let range = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(*range.0 > 40 && *range.1 < 200, "step {step}: {range:?}");
        }
    }
}
