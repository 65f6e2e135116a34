//! How many distinct values a column has, from the smallest hashes seen.

/// Hashes kept: the estimate's standard error is about 1 / sqrt(KEPT) = 3 %.
const KEPT: usize = 1024;

/// The `KEPT` smallest distinct hashes of what was added. Below `KEPT` distinct values the count
/// is exact; above, the largest hash kept tells how densely hashes lie (K minimum values;
/// Bar-Yossef et al., RANDOM 2002).
#[derive(Debug, Clone, Default)]
pub struct DistinctSketch {
    /// Unsorted candidates, at most `2 * KEPT`; those above `limit` are dropped.
    hashes: Vec<u64>,
    limit: Option<u64>,
}

impl DistinctSketch {
    /// Adds a value by its hash.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        if self.limit.is_some_and(|limit| hash > limit) {
            return;
        }
        self.hashes.push(hash);
        if self.hashes.len() >= 2 * KEPT {
            self.shrink();
        }
    }

    /// Adds an integer.
    #[inline]
    pub fn add_integer(&mut self, value: i128) {
        let folded = value as u64 ^ (value >> 64) as u64;
        self.add(mix(folded));
    }

    /// Adds a string.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut tail = [0; 8];
        tail[..rest.len()].copy_from_slice(rest);
        let seed = bytes.len() as u64;
        let hash = words
            .iter()
            .fold(seed, |h, word| mix(h ^ u64::from_le_bytes(*word)));
        self.add(mix(hash ^ u64::from_le_bytes(tail)));
    }

    /// Adds all that `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        other.hashes.iter().for_each(|hash| self.add(*hash));
        if let Some(limit) = other.limit {
            self.limit = Some(self.limit.map_or(limit, |own| own.min(limit)));
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
        if let Some(limit) = self.limit {
            self.hashes
                .truncate(self.hashes.partition_point(|hash| *hash <= limit));
        }
        if self.hashes.len() > KEPT {
            self.hashes.truncate(KEPT);
            self.limit = self.hashes.last().copied();
        }
    }

    /// Distinct values, and whether the number is exact.
    pub fn count(&self) -> (usize, bool) {
        let mut whole = self.clone();
        whole.shrink();
        match whole.limit {
            Some(limit) => {
                let share = (limit as f64 + 1.0) / 2f64.powi(64);
                (((whole.hashes.len() as f64 - 1.0) / share) as usize, false)
            }
            None => (whole.hashes.len(), true),
        }
    }
}

/// The finalizer of SplitMix64: every input bit reaches every output bit.
#[inline]
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_counted_exactly() {
        let mut sketch = DistinctSketch::default();
        (0..100_000).for_each(|i| sketch.add_integer(i % 1000));
        assert_eq!(sketch.count(), (1000, true));
    }

    #[test]
    fn many_values_are_estimated_within_a_tenth() {
        for distinct in [10_000usize, 300_000] {
            let (mut left, mut right) = (DistinctSketch::default(), DistinctSketch::default());
            for value in 0..distinct {
                left.add_integer(value as i128);
                right.add_integer((value / 2) as i128);
            }
            left.merge(&right);
            let (count, exact) = left.count();
            assert!(!exact);
            let error = count as f64 / distinct as f64 - 1.0;
            assert!(
                error.abs() < 0.1,
                "{distinct} values were estimated as {count}"
            );
        }
    }

    #[test]
    fn strings_of_any_length_are_told_apart() {
        let mut sketch = DistinctSketch::default();
        for text in ["", "a", "aaaaaaaa", "aaaaaaaaa", "\0", "\0\0"] {
            sketch.add_bytes(text.as_bytes());
            sketch.add_bytes(text.as_bytes());
        }
        assert_eq!(sketch.count(), (6, true));
    }
}
