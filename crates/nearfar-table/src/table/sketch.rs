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
        let high = match (value >> 64) as u64 {
            0 => 0,
            high => mix(high),
        };
        self.add(mix(value as u64 ^ high));
    }

    /// Adds a string.
    #[inline]
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(hash_bytes(bytes));
    }

    /// What it keeps: the hashes, and the limit above which it has dropped some.
    pub fn parts(&self) -> (Vec<u64>, Option<u64>) {
        let mut whole = self.clone();
        whole.shrink();
        (whole.hashes, whole.limit)
    }

    /// The sketch that kept these [`Self::parts`].
    pub fn of_parts(hashes: Vec<u64>, limit: Option<u64>) -> Self {
        let mut sketch = Self { hashes, limit };
        sketch.shrink();
        sketch
    }

    /// Adds all that `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        other.hashes.iter().for_each(|hash| self.add(*hash));
        if let Some(limit) = other.limit {
            self.limit = Some(self.limit.map_or(limit, |own| own.min(limit)));
        }
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

/// A hash of which every bit depends on all of `bytes`: sixteen at a time are folded together by a
/// wide multiplication, the last sixteen once more if they are not a multiple.
#[inline]
fn hash_bytes(bytes: &[u8]) -> u64 {
    let (chunks, rest) = bytes.as_chunks::<16>();
    let hash = chunks.iter().fold(bytes.len() as u64, fold_chunk);
    if rest.is_empty() {
        return mix(hash);
    }
    let last = bytes.last_chunk::<16>().copied().unwrap_or_else(|| {
        let mut padded = [0; 16];
        padded[..rest.len()].copy_from_slice(rest);
        padded
    });
    mix(fold_chunk(hash, &last))
}

/// `hash` and sixteen bytes as one word: the product of both halves, its high half on its low one.
#[inline]
fn fold_chunk(hash: u64, chunk: &[u8; 16]) -> u64 {
    /// Odd numbers without pattern, so that no text makes a factor zero but by chance.
    const KEYS: [u64; 2] = [0xA076_1D64_78BD_642F, 0xE703_7ED1_A0B4_28DB];
    let (low, high) = chunk.split_at(8);
    let word = |half: &[u8]| u64::from_le_bytes(half.try_into().unwrap_or_default());
    let product = u128::from(word(low) ^ hash ^ KEYS[0])
        * u128::from(word(high) ^ hash.rotate_left(32) ^ KEYS[1]);
    product as u64 ^ (product >> 64) as u64
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
    fn signs_and_high_halves_tell_values_apart() {
        let mut sketch = DistinctSketch::default();
        (-500..500).for_each(|value| sketch.add_integer(value));
        assert_eq!(sketch.count(), (1000, true));
        let mut sketch = DistinctSketch::default();
        for high in -10..10 {
            (-10..10).for_each(|low| sketch.add_integer((high << 64) + low));
        }
        assert_eq!(sketch.count(), (400, true));
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
        let texts = (0..100).map(|length| "a".repeat(length));
        let zeros = (1..100).map(|length| "\0".repeat(length));
        let middles = (0..99).map(|at| format!("{}b{}", "a".repeat(at), "a".repeat(98 - at)));
        for text in texts.chain(zeros).chain(middles) {
            sketch.add_bytes(text.as_bytes());
            sketch.add_bytes(text.as_bytes());
        }
        assert_eq!(sketch.count(), (100 + 99 + 99, true));
    }
}
