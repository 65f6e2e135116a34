//! Hash tables whose buckets are cache lines, in memory of any tier.
//!
//! A lookup touches one line, or, rarely, those behind it: what a far tier charges for is one latency.

use nearfar_model::Probe;

use crate::line::{LINE_KEYS, Line, OVERFLOWS};
use crate::vectors::{Vectors, prefetch};

/// No row: what a lookup gives that finds nothing, and the build row of a probe row that a left join
/// found nothing for.
pub const NO_ROW: u32 = u32::MAX;

/// A hash of a key, whose highest bits depend on all of the key: two products with odd numbers, the upper half of
/// the first brought down between them. A loop over keys has vectors.
#[inline(always)]
pub(crate) fn hash(key: u64) -> u64 {
    const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];
    let product = key.wrapping_mul(FACTORS[0]);
    (product ^ product >> 32).wrapping_mul(FACTORS[1])
}

/// A number below `count`, which is at most 2^32, that follows from the highest 32 bits of `hash`.
#[inline(always)]
pub(crate) fn place(hash: u64, count: usize) -> usize {
    ((hash >> 32).wrapping_mul(count as u64) >> 32) as usize
}

/// Different keys with a row each.
#[derive(Debug, Clone)]
pub(crate) struct LineTable<S> {
    lines: S,
    keys: usize,
}

impl<S: AsRef<[Line]> + AsMut<[Line]>> LineTable<S> {
    /// An empty table in `lines`, which are more than none and have no keys.
    pub(crate) fn of_empty(lines: S) -> Self {
        assert!(!lines.as_ref().is_empty(), "a table has a line");
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
            let found = V::equal_keys(line, key) & line.state;
            if found != 0 {
                return line.row_of(found);
            }
            let taken = line.taken();
            if taken < LINE_KEYS {
                line.keys[taken] = key;
                line.rows[taken] = row;
                line.state |= 1 << taken;
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

    /// The row of `key` in line `at`, or [`NO_ROW`], and whether the key may be in the next line. Nothing is decided by
    /// a branch, of which one in some lookups would be taken for the wrong one.
    #[inline(always)]
    pub(crate) fn find_in<V: Vectors, P: Probe>(
        &self,
        key: u64,
        at: usize,
        probe: &P,
    ) -> (u32, bool) {
        let line = &self.lines.as_ref()[at];
        tell!(probe.read(std::ptr::from_ref(line).addr(), size_of::<Line>()));
        let _ = probe;
        let found = V::equal_keys(line, key) & line.state;
        let row = line.row_of(found);
        let is_found = found != 0;
        (
            if is_found { row } else { NO_ROW },
            !is_found & line.overflows(),
        )
    }

    /// The row of `key`, of which it is known that it is not in line `at`, or [`NO_ROW`].
    #[inline(always)]
    pub(crate) fn find_behind<V: Vectors, P: Probe>(
        &self,
        key: u64,
        mut at: usize,
        probe: &P,
    ) -> u32 {
        loop {
            at = self.behind(at);
            let (row, goes_on) = self.find_in::<V, P>(key, at, probe);
            if !goes_on {
                return row;
            }
        }
    }

    /// The line behind line `at`.
    #[inline(always)]
    pub(crate) fn behind(&self, at: usize) -> usize {
        let lines = self.lines.as_ref().len();
        if at + 1 == lines { 0 } else { at + 1 }
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
