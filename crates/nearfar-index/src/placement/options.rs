//! What a user chooses of placement, and what of it makes no sense.

use std::time::Duration;

use nearfar_memory::TierId;

use super::Tracking;

/// The share of a tier's budget between which its use is kept (U_low and U_high of zhao-2026,
/// section 4.3).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watermarks {
    /// Below this the tier has room to spare.
    pub low: f64,
    /// Above this the tier is under strain.
    pub high: f64,
}

/// Which leaves go nearer and which farther.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thresholds {
    /// Those above and below two numbers of uses that never change
    /// ([`PlacementOptions::uses_hot`], [`PlacementOptions::uses_cold`]).
    Fixed,
    /// The most and the least used shares of all leaves, from the histogram (zhao-2026, section
    /// 4.2.3).
    Shares,
    /// The most used leaves that fit the tier by their bytes, and those that are used a good deal
    /// less ([`PlacementOptions::hysteresis`]). Beyond the paper: nothing has to be searched for
    /// by shares, and no more is promoted than stays.
    Fitted,
}

/// What "used more" means when leaves are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranking {
    /// Their uses.
    Uses,
    /// Their uses per byte: what a byte of near memory saves. The latency saved per use is the same
    /// for all leaves between two tiers, so it does not change the order. Beyond the paper.
    UsesPerByte,
}

/// How leaves are chosen to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// By how much they are used.
    Uses,
    /// By chance: a leaf is promoted with the probability that one of its uses was chosen, of which
    /// one in so many is, and random leaves make room for it (zhao-2026, section 6.1).
    Random {
        /// Uses of which one promotes; the paper's number is 100.
        one_in: u32,
    },
}

/// The mechanisms, each of which can be left out (factor analysis: zhao-2026, figure 19).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mechanisms {
    /// New nodes go near only down to a level. Without, they go near as long as there is room.
    pub is_layered: bool,
    /// Which uses are counted.
    pub tracking: Tracking,
    /// Nodes are moved.
    pub migrates: bool,
    /// Which leaves are moved.
    pub thresholds: Thresholds,
    /// Parameters follow the used share of tiers.
    pub has_watermarks: bool,
    /// Promotion stops at the high watermark. Without, as in the paper, it goes on until the tier
    /// is full or found under strain.
    pub keeps_headroom: bool,
}

/// How often workers wake up (zhao-2026, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// The migration trigger.
    pub trigger: Duration,
    /// The cooler.
    pub cooler: Duration,
    /// The watermark maintainer.
    pub maintainer: Duration,
}

/// A guess of how many levels fit a number of bytes, with which placement begins: the mean of one
/// for full and one for sparse nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepthEstimate {
    /// The mean size of a node.
    pub node_bytes: u64,
    /// Children of a sparse node.
    pub fanout_min: u32,
    /// Children of a full node.
    pub fanout_max: u32,
    /// Whether all paths are of one length, so that the sparse estimate counts half of the nodes as
    /// leaves.
    pub is_balanced: bool,
}

/// What placement is to do. [`Default`] has the paper's numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementOptions {
    /// The watermarks of every tier but the farthest.
    pub watermarks: Watermarks,
    /// Other watermarks for some tiers.
    pub tier_watermarks: Vec<(TierId, Watermarks)>,
    /// What is switched on.
    pub mechanisms: Mechanisms,
    /// How often workers wake up.
    pub intervals: Intervals,
    /// Percentage of leaves that count as hot at first (P_hot).
    pub hot_percent: u8,
    /// Percentage of leaves that count as cold at first (P_cold).
    pub cold_percent: u8,
    /// Rank from which on a leaf is hot until the first histogram is there (T_hot).
    pub uses_hot: u32,
    /// Rank below which a leaf is cold until the first histogram is there (T_cold).
    pub uses_cold: u32,
    /// Guess of how deep each tier reaches at first.
    pub depth: DepthEstimate,
    /// How leaves are compared.
    pub ranking: Ranking,
    /// How leaves are chosen.
    pub selection: Selection,
    /// With [`Thresholds::Fitted`], how many times less than a hot leaf a cold one is used at
    /// least, so that leaves do not go back and forth.
    pub hysteresis: f64,
    /// The most bytes per second that are migrated, but for relief of strain; `None` for no limit.
    pub migration_bytes_per_second_max: Option<u64>,
    /// The most leaves that the trigger or the cooler look at per wake-up; `None` for all. Trees
    /// that cannot be visited in parts are visited whole.
    pub leaves_per_wakeup_max: Option<usize>,
    /// One in so many cold leaves on a farther tier is looked at for ancestors that stayed nearer
    /// (zhao-2026, section 4.3).
    pub stuck_one_in: u32,
    /// One in so many of the leaves that a scan passes counts as used; its first leaf always does. A scan
    /// asks for the leaves behind the first one ahead, so that less is gained where they are near.
    pub passed_one_in: u32,
    /// The most nodes that wait for promotion, and for demotion from each tier.
    pub queued_nodes_max: usize,
}

impl Default for Watermarks {
    fn default() -> Self {
        Self {
            low: 0.85,
            high: 0.95,
        }
    }
}

impl Default for Mechanisms {
    fn default() -> Self {
        Self {
            is_layered: true,
            tracking: Tracking::Leaf,
            migrates: true,
            thresholds: Thresholds::Shares,
            has_watermarks: true,
            keeps_headroom: false,
        }
    }
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            trigger: Duration::from_millis(500),
            cooler: Duration::from_millis(2000),
            maintainer: Duration::from_millis(100),
        }
    }
}

impl DepthEstimate {
    /// A B+tree of nodes of about `node_bytes` and 16 entries.
    #[must_use]
    pub const fn b_tree(node_bytes: u64) -> Self {
        Self {
            node_bytes,
            fanout_min: 8,
            fanout_max: 16,
            is_balanced: true,
        }
    }

    /// An adaptive radix tree, with nodes of 4 to 256 children.
    #[must_use]
    pub const fn radix_tree(node_bytes: u64) -> Self {
        Self {
            node_bytes,
            fanout_min: 4,
            fanout_max: 256,
            is_balanced: false,
        }
    }

    /// Levels of a tree that has so many bytes, at least one.
    #[must_use]
    pub fn levels(&self, bytes: u64) -> u8 {
        let nodes = (bytes as f64 / self.node_bytes.max(1) as f64).max(1.0);
        let log = |nodes: f64, fanout: u32| nodes.max(1.0).ln() / f64::from(fanout.max(2)).ln();
        let full = log(nodes, self.fanout_max);
        let sparse = if self.is_balanced {
            log(nodes / 2.0, self.fanout_min) + 1.0
        } else {
            log(nodes, self.fanout_min)
        };
        ((full + sparse) / 2.0).round().clamp(1.0, 255.0) as u8
    }
}

impl Default for PlacementOptions {
    fn default() -> Self {
        Self {
            watermarks: Watermarks::default(),
            tier_watermarks: Vec::new(),
            mechanisms: Mechanisms::default(),
            intervals: Intervals::default(),
            hot_percent: 5,
            cold_percent: 80,
            uses_hot: 128,
            uses_cold: 4,
            depth: DepthEstimate::b_tree(256),
            ranking: Ranking::Uses,
            selection: Selection::Uses,
            hysteresis: 2.0,
            migration_bytes_per_second_max: None,
            leaves_per_wakeup_max: None,
            stuck_one_in: 16,
            passed_one_in: 1,
            queued_nodes_max: 1 << 18,
        }
    }
}

impl PlacementOptions {
    /// What goes beyond the paper: leaves ranked by uses per byte, as many promoted as fit, uses cooled
    /// every second, since a leaf has to outdo another to take its place, and leaves that scans pass
    /// counted less.
    #[must_use]
    pub fn fitted() -> Self {
        Self {
            mechanisms: Mechanisms {
                thresholds: Thresholds::Fitted,
                keeps_headroom: true,
                ..Mechanisms::default()
            },
            ranking: Ranking::UsesPerByte,
            passed_one_in: 8,
            intervals: Intervals {
                cooler: Duration::from_millis(1000),
                ..Intervals::default()
            },
            ..Self::default()
        }
    }

    /// The watermarks of a tier.
    #[must_use]
    pub fn watermarks_of(&self, tier: TierId) -> Watermarks {
        let own = self.tier_watermarks.iter().find(|(of, _)| *of == tier);
        own.map_or(self.watermarks, |(_, watermarks)| *watermarks)
    }

    /// Checks what does not depend on the tree.
    ///
    /// # Errors
    /// The first option that makes no sense.
    pub fn validate(&self, tiers: usize) -> Result<(), PlacementError> {
        if tiers < 2 {
            return Err(PlacementError::OneTier);
        }
        for tier in (0..tiers - 1).filter_map(TierId::from_index) {
            let Watermarks { low, high } = self.watermarks_of(tier);
            if !(low > 0.0 && high <= 1.0) {
                return Err(PlacementError::WatermarkOutOfRange { tier, low, high });
            }
            if low >= high {
                return Err(PlacementError::WatermarksCrossed { tier, low, high });
            }
        }
        if u32::from(self.hot_percent) + u32::from(self.cold_percent) > 100 {
            return Err(PlacementError::SharesOverlap {
                hot_percent: self.hot_percent,
                cold_percent: self.cold_percent,
            });
        }
        if self.uses_cold >= self.uses_hot {
            return Err(PlacementError::ThresholdsCrossed {
                uses_hot: self.uses_hot,
                uses_cold: self.uses_cold,
            });
        }
        self.validate_rates()
    }

    fn validate_rates(&self) -> Result<(), PlacementError> {
        let intervals = [
            ("trigger", self.intervals.trigger),
            ("cooler", self.intervals.cooler),
            ("maintainer", self.intervals.maintainer),
        ];
        if let Some((worker, _)) = intervals.into_iter().find(|(_, every)| every.is_zero()) {
            return Err(PlacementError::ZeroInterval { worker });
        }
        let zero = [
            (
                "leaves_per_wakeup_max",
                self.leaves_per_wakeup_max == Some(0),
            ),
            (
                "migration_bytes_per_second_max",
                self.migration_bytes_per_second_max == Some(0),
            ),
            ("queued_nodes_max", self.queued_nodes_max == 0),
            ("stuck_one_in", self.stuck_one_in == 0),
            ("passed_one_in", self.passed_one_in == 0),
            ("depth.node_bytes", self.depth.node_bytes == 0),
            (
                "selection.one_in",
                self.selection == Selection::Random { one_in: 0 },
            ),
        ];
        if let Some((option, _)) = zero.into_iter().find(|(_, is_zero)| *is_zero) {
            return Err(PlacementError::Zero { option });
        }
        if !(self.hysteresis >= 1.0 && self.hysteresis.is_finite()) {
            return Err(PlacementError::Hysteresis {
                hysteresis: self.hysteresis,
            });
        }
        Ok(())
    }
}

/// Why placement cannot work so.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// There is nowhere to move nodes to.
    #[error("the memory has one tier: placement needs at least two")]
    OneTier,
    /// Low is not below high.
    #[error("{tier}: the low watermark {low} is not below the high one {high}: lower it")]
    WatermarksCrossed {
        /// The tier.
        tier: TierId,
        /// U_low.
        low: f64,
        /// U_high.
        high: f64,
    },
    /// Not a share.
    #[error(
        "{tier}: watermarks {low} and {high}: both are shares of the budget, above 0 and at most 1"
    )]
    WatermarkOutOfRange {
        /// The tier.
        tier: TierId,
        /// U_low.
        low: f64,
        /// U_high.
        high: f64,
    },
    /// A tier that nothing can be put on.
    #[error("{tier} has a budget of zero bytes: give it one, or make the memory without this tier")]
    NoBudget {
        /// The tier.
        tier: TierId,
    },
    /// Every path begins at the root, so nothing else could be there.
    #[error(
        "{tier} may use {usable_bytes} bytes below its high watermark, and the root alone takes \
         {root_bytes}: raise its budget"
    )]
    RootDoesNotFit {
        /// The tier.
        tier: TierId,
        /// Its budget below the high watermark.
        usable_bytes: u64,
        /// Bytes of the root.
        root_bytes: u64,
    },
    /// A leaf would be hot and cold.
    #[error("{hot_percent} % hot and {cold_percent} % cold leaves are more than all: lower one")]
    SharesOverlap {
        /// P_hot.
        hot_percent: u8,
        /// P_cold.
        cold_percent: u8,
    },
    /// A leaf would be hot and cold.
    #[error("leaves are cold below {uses_cold} uses and hot from {uses_hot}: lower the first")]
    ThresholdsCrossed {
        /// T_hot.
        uses_hot: u32,
        /// T_cold.
        uses_cold: u32,
    },
    /// A worker that would never sleep.
    #[error("the {worker}'s interval is zero: say how long it sleeps between wake-ups")]
    ZeroInterval {
        /// The worker.
        worker: &'static str,
    },
    /// A limit with which nothing would happen.
    #[error("the option {option} is zero: give a number, or leave the limit out")]
    Zero {
        /// The option.
        option: &'static str,
    },
    /// Cold leaves would be hotter than hot ones.
    #[error("a hysteresis of {hysteresis}: it is a factor of at least 1")]
    Hysteresis {
        /// The factor.
        hysteresis: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(change: impl FnOnce(&mut PlacementOptions)) -> PlacementError {
        let mut options = PlacementOptions::default();
        change(&mut options);
        options.validate(2).expect_err("makes no sense")
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        assert!(PlacementOptions::default().validate(2).is_ok());
        assert!(PlacementOptions::fitted().validate(16).is_ok());
        assert_eq!(
            PlacementOptions::default().validate(1),
            Err(PlacementError::OneTier)
        );
        let crossed = error(|options| {
            options.watermarks = Watermarks {
                low: 0.9,
                high: 0.8,
            }
        });
        assert_eq!(
            crossed.to_string(),
            "tier 0: the low watermark 0.9 is not below the high one 0.8: lower it"
        );
        for (low, high) in [
            (0.5, 1.1),
            (0.0, 0.9),
            (-1.0, 0.5),
            (f64::NAN, 0.5),
            (0.5, f64::NAN),
        ] {
            let refused = error(|options| options.watermarks = Watermarks { low, high });
            assert!(matches!(
                refused,
                PlacementError::WatermarkOutOfRange { .. }
            ));
        }
        let own = error(|options| {
            let watermarks = Watermarks {
                low: 0.7,
                high: 0.7,
            };
            options.tier_watermarks = vec![(TierId::NEAR, watermarks)];
        });
        assert!(matches!(own, PlacementError::WatermarksCrossed { .. }));
        assert!(matches!(
            error(|options| options.cold_percent = 96),
            PlacementError::SharesOverlap { .. }
        ));
        assert!(matches!(
            error(|options| options.uses_cold = 128),
            PlacementError::ThresholdsCrossed { .. }
        ));
        assert!(matches!(
            error(|options| options.intervals.cooler = Duration::ZERO),
            PlacementError::ZeroInterval { worker: "cooler" }
        ));
        assert!(matches!(
            error(|options| options.queued_nodes_max = 0),
            PlacementError::Zero { .. }
        ));
        assert!(matches!(
            error(|options| options.hysteresis = 0.5),
            PlacementError::Hysteresis { .. }
        ));
    }

    #[test]
    fn the_depth_is_the_mean_of_two_estimates() {
        // 65,536 nodes: log16 is 4, log8 of half of them plus one is 6.
        assert_eq!(DepthEstimate::b_tree(256).levels(256 << 16), 5);
        // log256 is 2, log4 is 8.
        assert_eq!(DepthEstimate::radix_tree(64).levels(64 << 16), 5);
        assert_eq!(DepthEstimate::b_tree(256).levels(0), 1);
    }
}
