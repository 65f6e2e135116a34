//! How often leaves are used, as a distribution.

/// Bins of a [`Histogram`].
pub const BINS: usize = 60;

/// Bins per doubling of the rank.
const BINS_PER_OCTAVE: u32 = 4;
/// Ranks below this have a bin each.
const EXACT_RANKS: u32 = BINS_PER_OCTAVE;
/// The bytes for which uses count once where leaves are ranked by uses per byte.
pub(super) const RANKED_BYTES: u32 = 1024;
/// The number that no rank reaches: above the highest bin.
pub(super) const RANK_END: u32 = 1 << 16;

/// The bin of a rank. Halving a rank (rounded down) halves its bin's edges, so that a cooled
/// histogram is exactly the histogram of the cooled leaves.
#[must_use]
pub(super) fn bin_of(rank: u16) -> usize {
    let rank = u32::from(rank);
    if rank < EXACT_RANKS {
        return rank as usize;
    }
    let octave = rank.ilog2();
    let quarter = (rank >> (octave - 2)) - BINS_PER_OCTAVE;
    (BINS_PER_OCTAVE * (octave - 1) + quarter) as usize
}

/// The bin of a rank that may be [`RANK_END`].
pub(super) fn bin_from(rank: u32) -> usize {
    u16::try_from(rank).map_or(BINS, bin_of)
}

/// The lowest rank of a bin; [`RANK_END`] behind the last one.
#[must_use]
pub(super) fn edge_of(bin: usize) -> u32 {
    let bin = bin as u32;
    if bin < EXACT_RANKS {
        return bin;
    }
    let octave = bin / BINS_PER_OCTAVE + 1;
    let quarter = bin % BINS_PER_OCTAVE;
    (BINS_PER_OCTAVE + quarter) << (octave - 2)
}

/// The bin that `bin` becomes when all ranks are halved.
fn halved(bin: usize) -> usize {
    bin_from(edge_of(bin) / 2)
}

/// Leaves and their bytes by rank: how often they are used, or that per byte.
///
/// Bins are quarters of octaves; the paper's bins, one per octave, are their sums (zhao-2026,
/// section 4.2.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    leaves: [u64; BINS],
    bytes: [u64; BINS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            leaves: [0; BINS],
            bytes: [0; BINS],
        }
    }
}

impl Histogram {
    /// Counts a leaf.
    pub(super) fn add(&mut self, rank: u16, bytes: usize) {
        let bin = bin_of(rank);
        self.leaves[bin] += 1;
        self.bytes[bin] += bytes as u64;
    }

    /// Counts all leaves of `other` too.
    pub(super) fn merge(&mut self, other: &Self) {
        for bin in 0..BINS {
            self.leaves[bin] += other.leaves[bin];
            self.bytes[bin] += other.bytes[bin];
        }
    }

    /// Does to the histogram what halving its leaves' uses does to them (the cooler's bin shift).
    pub(super) fn cool(&mut self) {
        let mut cooled = Self::default();
        for bin in 0..BINS {
            cooled.leaves[halved(bin)] += self.leaves[bin];
            cooled.bytes[halved(bin)] += self.bytes[bin];
        }
        *self = cooled;
    }

    /// Leaves per bin.
    #[must_use]
    pub fn leaves(&self) -> &[u64; BINS] {
        &self.leaves
    }

    /// Bytes per bin.
    #[must_use]
    pub fn bytes(&self) -> &[u64; BINS] {
        &self.bytes
    }

    /// The ranks of a bin: from the first number to below the second. Behind the last bin there
    /// is none.
    #[must_use]
    pub fn ranks(bin: usize) -> (u32, u32) {
        (edge_of(bin.min(BINS)), edge_of((bin + 1).min(BINS)))
    }

    /// All leaves.
    #[must_use]
    pub fn total_leaves(&self) -> u64 {
        self.leaves.iter().sum()
    }

    /// Bytes of all leaves.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The rank from which on a leaf is hot: from the top, the upper end of the octave in which
    /// the leaves exceed `percent` of all. `None` without leaves.
    pub(super) fn hot_by_share(&self, percent: u8) -> Option<u32> {
        let total = self.total_leaves();
        let mut sum = 0;
        for (first, end) in octaves().rev() {
            sum += self.leaves[first..end].iter().sum::<u64>();
            if sum * 100 > total * u64::from(percent) {
                return Some(edge_of(end));
            }
        }
        // With 100 %, every leaf is hot.
        (total > 0).then_some(0)
    }

    /// The rank below which a leaf is cold: the highest end of an octave with at most `percent` of
    /// all leaves below it. `None` without leaves.
    pub(super) fn cold_by_share(&self, percent: u8) -> Option<u32> {
        let total = self.total_leaves();
        if total == 0 {
            return None;
        }
        let mut sum = 0;
        for (first, end) in octaves() {
            sum += self.leaves[first..end].iter().sum::<u64>();
            if sum * 100 > total * u64::from(percent) {
                return Some(edge_of(first));
            }
        }
        Some(RANK_END)
    }

    /// The lowest bin such that the leaves from there on have at most `bytes`.
    pub(super) fn first_bin_that_fits(&self, bytes: u64) -> usize {
        let mut sum = 0;
        for bin in (0..BINS).rev() {
            sum += self.bytes[bin];
            if sum > bytes {
                return bin + 1;
            }
        }
        0
    }
}

/// The bins of each octave: zero, one, two and three, four to seven, …
fn octaves() -> impl DoubleEndedIterator<Item = (usize, usize)> {
    let small = [(0, 1), (1, 2), (2, 4)];
    let large = (4..BINS).step_by(BINS_PER_OCTAVE as usize);
    small
        .into_iter()
        .chain(large.map(|first| (first, first + BINS_PER_OCTAVE as usize)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(ranks: &[u16]) -> Histogram {
        let mut histogram = Histogram::default();
        for rank in ranks {
            histogram.add(*rank, 100);
        }
        histogram
    }

    #[test]
    fn every_rank_is_within_the_edges_of_its_bin() {
        for rank in 0..=u16::MAX {
            let bin = bin_of(rank);
            assert!(bin < BINS);
            let (first, end) = Histogram::ranks(bin);
            assert!((first..end).contains(&u32::from(rank)), "{rank}");
        }
        assert_eq!(edge_of(BINS), RANK_END);
        let ends: Vec<_> = octaves().map(|(_, end)| edge_of(end)).collect();
        assert_eq!(ends, (0..17).map(|bit| 1 << bit).collect::<Vec<_>>());
    }

    #[test]
    fn thresholds_are_where_the_shares_are_passed() {
        // 80 leaves unused, 15 used 10 times, 5 used 1000 times.
        let ranks: Vec<u16> = [vec![0; 80], vec![10; 15], vec![1000; 5]].concat();
        let histogram = of(&ranks);
        assert_eq!(histogram.hot_by_share(5), Some(16), "5 % are above 15");
        assert_eq!(histogram.hot_by_share(4), Some(1024), "4 % are not 5");
        assert_eq!(histogram.hot_by_share(100), Some(0));
        assert_eq!(histogram.cold_by_share(80), Some(8), "80 % are below 8");
        assert_eq!(histogram.cold_by_share(79), Some(0));
        assert_eq!(histogram.cold_by_share(100), Some(RANK_END));
        assert_eq!(Histogram::default().hot_by_share(5), None);
        assert_eq!(Histogram::default().cold_by_share(5), None);
    }

    #[test]
    fn what_fits_is_counted_from_the_top() {
        let histogram = of(&[0, 0, 10, 10, 1000]);
        assert_eq!(histogram.first_bin_that_fits(99), bin_of(1000) + 1);
        assert_eq!(histogram.first_bin_that_fits(100), bin_of(10) + 1);
        assert_eq!(histogram.first_bin_that_fits(300), 1);
        assert_eq!(histogram.first_bin_that_fits(500), 0);
    }

    proptest! {
        #[test]
        fn cooling_is_as_halving_every_leaf(ranks in prop::collection::vec(any::<u16>(), 0..200)) {
            let mut histogram = of(&ranks);
            histogram.cool();
            let halved: Vec<u16> = ranks.iter().map(|rank| rank / 2).collect();
            prop_assert_eq!(histogram, of(&halved));
        }

        #[test]
        fn at_most_the_share_is_hot_or_cold(
            ranks in prop::collection::vec(0_u16..5000, 1..200),
            percent in 0_u8..=100,
        ) {
            let histogram = of(&ranks);
            let (hot, cold) = (histogram.hot_by_share(percent).unwrap(), histogram.cold_by_share(percent).unwrap());
            let hot_leaves = ranks.iter().filter(|rank| u32::from(**rank) >= hot).count();
            let cold_leaves = ranks.iter().filter(|rank| u32::from(**rank) < cold).count();
            prop_assert!(hot_leaves * 100 <= ranks.len() * usize::from(percent));
            prop_assert!(cold_leaves * 100 <= ranks.len() * usize::from(percent));
        }
    }
}
