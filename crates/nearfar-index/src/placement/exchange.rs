//! Which leaves make room for which, where thresholds are fitted ([`Thresholds::Fitted`]).
//!
//! [`Thresholds::Fitted`]: super::Thresholds::Fitted

use super::histogram::{BINS, RANKED_BYTES, edge_of};
use super::{Histogram, PlacementOptions, Ranking};

/// Uses that are more than chance where other leaves have none.
const FEW_USES: f64 = 4.0;

/// The leaves of a tree as one tier sees them.
#[derive(Debug)]
pub(super) struct Leaves {
    /// All of them.
    pub(super) all: Histogram,
    /// Those on the tier.
    pub(super) here: Histogram,
    /// Those on farther ones.
    pub(super) farther: Histogram,
}

/// An exchange of leaves between a tier and those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Exchange {
    /// Leaves of the tier below this rank go.
    pub(super) cold_rank: u32,
    /// Bytes of leaves on farther tiers that are worth it.
    pub(super) bytes: u64,
}

impl Leaves {
    /// The exchange that leaves from `hot_rank` on are worth: the lowest rank below which enough
    /// bytes are on the tier to make room for all leaves that are used clearly more than that.
    pub(super) fn exchange(&self, hot_rank: u32, options: &PlacementOptions) -> Exchange {
        let ranks_per_use = self.ranks_per_use(options);
        let beats = |bin: usize| beaten_by(edge_of(bin), ranks_per_use, options.hysteresis);
        let mut exchange = Exchange::default();
        let mut colder_bytes = 0;
        for end in 1..=BINS {
            let cold_rank = edge_of(end);
            colder_bytes += self.here.bytes()[end - 1];
            let winners =
                (0..BINS).filter(|bin| edge_of(*bin) >= hot_rank && beats(*bin) >= cold_rank);
            let bytes = winners.map(|bin| self.farther.bytes()[bin]).sum();
            if bytes == 0 {
                break;
            }
            exchange = Exchange { cold_rank, bytes };
            if colder_bytes >= bytes {
                break;
            }
        }
        exchange
    }

    fn ranks_per_use(&self, options: &PlacementOptions) -> f64 {
        match options.ranking {
            Ranking::Uses => 1.0,
            Ranking::UsesPerByte => {
                let bytes = self.all.total_bytes().max(1) as f64;
                f64::from(RANKED_BYTES) * self.all.total_leaves().max(1) as f64 / bytes
            }
        }
    }
}

/// The rank below which leaves are used clearly less than one of `rank`: less by the hysteresis,
/// and by what could be chance, for which the standard deviation of that many uses stands. Where
/// uses are so few that everything could be, those that were not used at all are.
fn beaten_by(rank: u32, ranks_per_use: f64, hysteresis: f64) -> u32 {
    let uses = f64::from(rank) / ranks_per_use;
    let beaten = (uses / hysteresis - uses.sqrt()) * ranks_per_use;
    let unused = if uses >= FEW_USES { 1 } else { 0 };
    (beaten as u32).max(unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(leaves: &[(u16, u64)]) -> Histogram {
        let mut histogram = Histogram::default();
        for (rank, count) in leaves {
            for _ in 0..*count {
                histogram.add(*rank, 100);
            }
        }
        histogram
    }

    fn exchange(here: &[(u16, u64)], farther: &[(u16, u64)], hot_rank: u32) -> Exchange {
        let (here, farther) = (of(here), of(farther));
        let mut all = here.clone();
        all.merge(&farther);
        let leaves = Leaves { all, here, farther };
        let options = PlacementOptions {
            ranking: Ranking::Uses,
            ..PlacementOptions::fitted()
        };
        leaves.exchange(hot_rank, &options)
    }

    #[test]
    fn a_leaf_beats_those_used_clearly_less() {
        let beaten = [0, 2, 4, 6, 8, 16, 100].map(|rank| beaten_by(rank, 1.0, 2.0));
        assert_eq!(beaten, [0, 0, 1, 1, 1, 4, 40]);
        assert_eq!(beaten_by(400, 4.0, 2.0), 160, "100 uses beat 40");
    }

    #[test]
    fn the_coldest_make_room_for_as_many_as_are_worth_it() {
        // Of those used 1000 times there are 20; the 30 unused ones are enough.
        let swap = exchange(&[(0, 30), (50, 100)], &[(1000, 20), (3, 500)], 64);
        assert_eq!((swap.cold_rank, swap.bytes), (1, 2000));
        // With 10 unused ones, some of those used 50 times go too.
        let swap = exchange(&[(0, 10), (50, 100)], &[(1000, 20)], 64);
        assert_eq!((swap.cold_rank, swap.bytes), (56, 2000));
    }

    #[test]
    fn leaves_used_alike_stay_where_they_are() {
        let none = Exchange::default();
        assert_eq!(exchange(&[(10, 100)], &[(12, 100)], 12).bytes, 10_000);
        assert_eq!(
            exchange(&[(10, 100)], &[(12, 100)], 12).cold_rank,
            2,
            "nobody is below"
        );
        assert_eq!(exchange(&[(1, 100)], &[(3, 100)], 2), none);
        assert_eq!(exchange(&[(0, 100)], &[(1000, 10)], 1024), none, "not hot");
    }
}
