//! The numbers that placement follows, and how strain and abundance change them.

use super::histogram::{BINS, RANK_END, RANKED_BYTES, bin_from};
use super::{Histogram, PlacementOptions, Ranking, Thresholds};

/// Uses that are more than chance where other leaves have none.
const FEW_USES: f64 = 4.0;

/// The numbers that govern one tier (zhao-2026, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// New nodes of levels below this go to the tier (L_fast).
    pub fast_levels: u8,
    /// Nodes of levels from this on may be demoted (L_demote).
    pub demote_level: u8,
    /// Percentage of leaves that count as hot (P_hot).
    pub hot_percent: u8,
    /// Percentage of leaves that count as cold (P_cold).
    pub cold_percent: u8,
    /// Rank from which on a leaf is hot (T_hot).
    pub hot_rank: u32,
    /// Rank from which on a leaf is promoted while there is room below the low watermark.
    pub warm_rank: u32,
    /// Rank below which a leaf is cold (T_cold).
    pub cold_rank: u32,
    /// With [`Thresholds::Fitted`], bins by which strain has raised the cold rank.
    pub raised_bins: u8,
}

impl Parameters {
    /// Those to begin with, for a tier that so many levels are guessed to fit.
    pub(super) fn new(options: &PlacementOptions, levels: u8) -> Self {
        Self {
            fast_levels: levels,
            demote_level: levels.saturating_sub(1),
            hot_percent: options.hot_percent,
            cold_percent: options.cold_percent,
            hot_rank: options.uses_hot,
            warm_rank: options.uses_hot,
            cold_rank: options.uses_cold,
            raised_bins: 0,
        }
    }

    /// One step of aggressive adjustment: more is demoted, less goes there (figure 13,
    /// `adjustStrain`). Returns whether anything could still be changed.
    pub(super) fn tighten(&mut self, level_min: u8) -> bool {
        let before = *self;
        if self.demote_level > level_min {
            self.demote_level -= 1;
        }
        if self.fast_levels > level_min {
            self.fast_levels -= 1;
        }
        self.hot_percent = self.hot_percent.saturating_sub(1);
        self.cold_percent = (self.cold_percent + 1).min(100);
        self.raised_bins = (self.raised_bins + 1).min(BINS as u8);
        *self != before
    }

    /// One step of gentle adjustment: less is demoted, more goes there (figure 13,
    /// `adjustAbundant`).
    pub(super) fn loosen(&mut self, level_max: u8) {
        if self.demote_level < level_max {
            self.demote_level += 1;
        }
        if self.fast_levels < level_max {
            self.fast_levels += 1;
        }
        self.hot_percent = (self.hot_percent + 1).min(100);
        self.cold_percent = self.cold_percent.saturating_sub(1);
        self.raised_bins = self.raised_bins.saturating_sub(1);
    }

    /// Goes back half way to what was before the strain (figure 12, step 4). Halves are rounded
    /// down.
    pub(super) fn restore_half_way(&mut self, before: &Self) {
        let mean = |now: u8, before: u8| u16::midpoint(now.into(), before.into()) as u8;
        self.fast_levels = mean(self.fast_levels, before.fast_levels);
        self.demote_level = mean(self.demote_level, before.demote_level);
        self.hot_percent = mean(self.hot_percent, before.hot_percent);
        self.cold_percent = mean(self.cold_percent, before.cold_percent);
        self.raised_bins = mean(self.raised_bins, before.raised_bins);
    }

    /// Follows the leaves' distribution: `bytes_that_fit` is how many bytes of leaves this tier and
    /// nearer ones can hold.
    pub(super) fn follow(
        &mut self,
        histogram: &Histogram,
        options: &PlacementOptions,
        bytes_that_fit: u64,
    ) {
        if histogram.total_leaves() == 0 {
            return;
        }
        match options.mechanisms.thresholds {
            Thresholds::Fixed => {}
            Thresholds::Shares => self.follow_shares(histogram),
            Thresholds::Fitted => self.follow_bytes(histogram, options, bytes_that_fit),
        }
    }

    fn follow_shares(&mut self, histogram: &Histogram) {
        self.hot_rank = histogram.hot_by_share(self.hot_percent).unwrap_or(RANK_END);
        self.warm_rank = self.hot_rank;
        let cold = histogram.cold_by_share(self.cold_percent).unwrap_or(0);
        // A hot leaf is never cold, whatever the shares have come to.
        self.cold_rank = cold.min(self.hot_rank);
    }

    fn follow_bytes(&mut self, histogram: &Histogram, options: &PlacementOptions, fit: u64) {
        let first = histogram.first_bin_that_fits(fit);
        self.hot_rank = Histogram::ranks(first).0;
        let warm = Histogram::ranks(first.saturating_sub(1)).0;
        self.warm_rank = warm.max(1).min(self.hot_rank);
        self.cold_rank = cold_below(self.hot_rank, options, histogram);
        if self.raised_bins > 0 {
            let raised = bin_from(self.cold_rank) + usize::from(self.raised_bins);
            self.cold_rank = Histogram::ranks(raised).0;
        }
    }

    /// Follows the cooler, which has halved all uses.
    pub(super) fn cool(&mut self, thresholds: Thresholds) {
        if thresholds != Thresholds::Fixed {
            for rank in [&mut self.hot_rank, &mut self.warm_rank, &mut self.cold_rank] {
                *rank = rank.div_ceil(2);
            }
        }
    }
}

/// The rank below which a leaf makes room for one of `hot_rank`: less by the hysteresis, and by what
/// could be chance, for which the standard deviation of that many uses stands. Where uses are so
/// few that everything could be, leaves that were not used at all make room.
fn cold_below(hot_rank: u32, options: &PlacementOptions, histogram: &Histogram) -> u32 {
    let ranks_per_use = match options.ranking {
        Ranking::Uses => 1.0,
        Ranking::UsesPerByte => {
            let leaves = histogram.total_leaves().max(1) as f64;
            f64::from(RANKED_BYTES) * leaves / (histogram.total_bytes().max(1) as f64)
        }
    };
    let hot_uses = f64::from(hot_rank) / ranks_per_use;
    let cold_uses = hot_uses / options.hysteresis - hot_uses.sqrt();
    let unused = if hot_uses >= FEW_USES { 1 } else { 0 };
    ((cold_uses * ranks_per_use) as u32).max(unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Parameters {
        Parameters::new(&PlacementOptions::default(), 5)
    }

    /// Figure 13 of zhao-2026, stepped by hand: three rounds of strain from the defaults with
    /// L_min = 3.
    #[test]
    fn strain_adjusts_as_figure_13_says() {
        let mut parameters = start();
        let expected = [(4, 3, 4, 81), (3, 3, 3, 82), (3, 3, 2, 83)];
        for (fast, demote, hot, cold) in expected {
            assert!(parameters.tighten(3));
            let now = (
                parameters.fast_levels,
                parameters.demote_level,
                parameters.hot_percent,
                parameters.cold_percent,
            );
            assert_eq!(now, (fast, demote, hot, cold));
        }
        parameters.restore_half_way(&start());
        let restored = (
            parameters.fast_levels,
            parameters.demote_level,
            parameters.hot_percent,
            parameters.cold_percent,
        );
        assert_eq!(restored, (4, 3, 3, 81), "the means with 5, 4, 5 and 80");
    }

    #[test]
    fn strain_ends_where_nothing_is_left_to_change() {
        let mut parameters = start();
        let mut rounds = 0;
        while parameters.tighten(2) {
            rounds += 1;
        }
        assert_eq!(
            rounds, 60,
            "the bins of fitted thresholds are the most steps"
        );
        assert_eq!((parameters.fast_levels, parameters.demote_level), (2, 2));
        assert_eq!((parameters.hot_percent, parameters.cold_percent), (0, 100));
    }

    #[test]
    fn abundance_adjusts_as_figure_13_says() {
        let mut parameters = start();
        parameters.loosen(6);
        parameters.loosen(6);
        assert_eq!((parameters.fast_levels, parameters.demote_level), (6, 6));
        assert_eq!((parameters.hot_percent, parameters.cold_percent), (7, 78));
    }

    #[test]
    fn fitted_thresholds_hold_as_many_bytes_as_fit() {
        let mut histogram = Histogram::default();
        for rank in [0_u16, 1, 10, 100, 1000] {
            for _ in 0..100 {
                histogram.add(rank, 100);
            }
        }
        let mut options = PlacementOptions::fitted();
        options.ranking = Ranking::Uses;
        let mut parameters = Parameters::new(&options, 5);
        parameters.follow(&histogram, &options, 25_000);
        // Those used 1000 and 100 times fit, those used 10 times do not.
        assert_eq!((parameters.hot_rank, parameters.warm_rank), (12, 10));
        assert_eq!(parameters.cold_rank, 2, "12 / 2 less the root of 12");
        parameters.tighten(1);
        parameters.follow(&histogram, &options, 25_000);
        assert_eq!(parameters.cold_rank, 3, "one bin more");
        parameters.follow(&histogram, &options, 1 << 20);
        assert_eq!(parameters.hot_rank, 0, "everything fits");
        parameters.follow(&histogram, &options, 0);
        assert_eq!(parameters.hot_rank, 1024, "above every leaf that there is");
    }

    #[test]
    fn where_uses_are_few_only_unused_leaves_make_room() {
        let histogram = Histogram::default();
        let mut options = PlacementOptions::fitted();
        options.ranking = Ranking::Uses;
        let cold = [0, 2, 4, 6, 8, 16, 100].map(|hot| cold_below(hot, &options, &histogram));
        assert_eq!(cold, [0, 0, 1, 1, 1, 4, 40]);
    }

    #[test]
    fn thresholds_are_halved_but_for_fixed_ones() {
        let mut parameters = start();
        parameters.cool(Thresholds::Fixed);
        assert_eq!((parameters.hot_rank, parameters.cold_rank), (128, 4));
        parameters.cool(Thresholds::Shares);
        assert_eq!((parameters.hot_rank, parameters.cold_rank), (64, 2));
        parameters.cool(Thresholds::Shares);
        parameters.cool(Thresholds::Shares);
        assert_eq!(parameters.cold_rank, 1, "unused leaves stay cold");
    }
}
