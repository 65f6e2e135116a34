//! Placement policies by name.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use nearfar_index::placement::{
    Allocation, Mechanisms, PlacementOptions, Selection, Thresholds, Tracking,
};
use nearfar_memory::kernel_tiering::Mover;
use nearfar_memory::{PlaceName, Placement, PlacementSpec, TierId};

/// How pages are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PageRule {
    /// In the manner of TPP (Maruf et al., ASPLOS 2023): a far page that was used in two looks
    /// running is promoted; near pages that were not used since the last look make room.
    Recency,
    /// In the manner of MEMTIS (Lee et al., SOSP 2023): sampled uses are counted and halved from
    /// time to time; the most used pages that fit are near.
    Frequency,
}

/// Who decides where nodes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Everything near, whatever the share.
    AllNear,
    /// Everything far.
    AllFar,
    /// Runs of 4 KiB of new nodes on both tiers in turn, in the proportion of their shares: the
    /// kernel's weighted interleave, the baseline of zhao-2026.
    Interleave,
    /// Runs of 4 KiB of new nodes, so many near and so many far in turn, whatever the share: the
    /// placement `interleave:N:F`.
    Weighted {
        /// Runs near.
        near: NonZeroU32,
        /// Runs far.
        far: NonZeroU32,
    },
    /// Inner nodes near, leaves far.
    InnerNear,
    /// The framework with the mechanisms and numbers of zhao-2026.
    Sidle,
    /// The framework with what goes beyond that paper.
    Fitted,
    /// The framework's layered allocation, without moving anything.
    Layered,
    /// As layered, and leaves count their uses (factor analysis: zhao-2026, figure 19).
    Tracked,
    /// As layered, and all nodes on the way count their uses.
    TrackedPaths,
    /// As tracked, and leaves are moved by numbers of uses that never change.
    Migrating,
    /// As migrating, by shares from the histogram; without watermarks.
    Histogram,
    /// Random promotion and demotion (zhao-2026, section 6.1).
    Random,
    /// The leaves that will be used most, and their ways, placed near beforehand.
    Oracle,
    /// Pages instead of nodes, of 4 KiB or 2 MiB, in the model.
    Pages {
        /// How pages are chosen.
        rule: PageRule,
        /// Whether pages have 2 MiB.
        is_huge: bool,
    },
    /// This machine's kernel moves pages between its nodes, by automatic NUMA balancing.
    NumaBalancing {
        /// Whether pages may have 2 MiB.
        is_huge: bool,
    },
    /// The same by DAMON, whose ballast leaves no whole pages of 2 MiB.
    Damon,
}

/// What is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A name that no policy has.
    #[error(
        "no policy is named {name:?}; there are: {}, and the placements near, far and interleave:N:F",
        Policy::names_of(|_| true)
    )]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// A placement that trees can't have.
    #[error(
        "placement {placement} is not one of a tree's nodes, which go to near and far alone and have \
         no first pages: write near, far or interleave:N:F (4 KiB of nodes in turn, such as \
         interleave:2:1)"
    )]
    Placement {
        /// The placement.
        placement: String,
    },
}

/// Layers, and nothing that moves.
fn standing(tracking: Tracking) -> Mechanisms {
    Mechanisms {
        migrates: false,
        tracking,
        ..Mechanisms::default()
    }
}

const fn pages(rule: PageRule, is_huge: bool) -> Policy {
    Policy::Pages { rule, is_huge }
}

impl Policy {
    /// All of them that have no numbers.
    pub const ALL: [Self; 20] = [
        Self::AllNear,
        Self::AllFar,
        Self::Interleave,
        Self::InnerNear,
        Self::Layered,
        Self::Tracked,
        Self::TrackedPaths,
        Self::Migrating,
        Self::Histogram,
        Self::Sidle,
        Self::Fitted,
        Self::Random,
        Self::Oracle,
        pages(PageRule::Recency, false),
        pages(PageRule::Recency, true),
        pages(PageRule::Frequency, false),
        pages(PageRule::Frequency, true),
        Self::NumaBalancing { is_huge: false },
        Self::NumaBalancing { is_huge: true },
        Self::Damon,
    ];

    /// What it is called in arguments and results.
    #[must_use]
    pub fn name(self) -> String {
        let word = match self {
            Self::Weighted { near, far } => return format!("interleave:{near}:{far}"),
            Self::AllNear => "all-near",
            Self::AllFar => "all-far",
            Self::Interleave => "interleave",
            Self::InnerNear => "inner-near",
            Self::Layered => "layered",
            Self::Tracked => "tracked",
            Self::TrackedPaths => "tracked-paths",
            Self::Migrating => "migrating",
            Self::Histogram => "histogram",
            Self::Sidle => "sidle",
            Self::Fitted => "fitted",
            Self::Random => "random",
            Self::Oracle => "oracle",
            Self::Pages { rule, is_huge } => match (rule, is_huge) {
                (PageRule::Recency, false) => "tpp-4k",
                (PageRule::Recency, true) => "tpp-2m",
                (PageRule::Frequency, false) => "memtis-4k",
                (PageRule::Frequency, true) => "memtis-2m",
            },
            Self::NumaBalancing { is_huge: false } => "numa-balancing-4k",
            Self::NumaBalancing { is_huge: true } => "numa-balancing-2m",
            Self::Damon => "damon-4k",
        };
        word.to_owned()
    }

    /// The policy that is this placement, on two tiers.
    fn placed(placement: &PlacementSpec) -> Result<Self, PolicyError> {
        let is_near = |name: &PlaceName| *name == PlaceName::near();
        let is_far = |name: &PlaceName| *name == PlaceName::far();
        let weighted = |near, far| Self::Weighted { near, far };
        let policy = match placement {
            Placement::Bind(tier) if is_near(tier) => Some(Self::AllNear),
            Placement::Bind(tier) if is_far(tier) => Some(Self::AllFar),
            Placement::Bind(name) => {
                let name = name.to_string();
                return Err(PolicyError::Unknown { name });
            }
            Placement::Interleave(tiers) => match &tiers[..] {
                [near, far] if is_near(near) && is_far(far) => {
                    Some(weighted(NonZeroU32::MIN, NonZeroU32::MIN))
                }
                _ => None,
            },
            Placement::Weighted(runs) => match &runs[..] {
                [(near, near_runs), (far, far_runs)] if is_near(near) && is_far(far) => {
                    Some(weighted(*near_runs, *far_runs))
                }
                _ => None,
            },
            Placement::Split { .. } => None,
        };
        policy.ok_or_else(|| PolicyError::Placement {
            placement: placement.to_string(),
        })
    }

    /// Whether it moves pages of an operating system, not nodes.
    #[must_use]
    pub const fn moves_pages(self) -> bool {
        self.kernel().is_some() || matches!(self, Self::Pages { .. })
    }

    /// Who moves pages of this machine's kernel, if that does, and whether pages may have 2 MiB.
    #[must_use]
    pub const fn kernel(self) -> Option<(Mover, bool)> {
        match self {
            Self::NumaBalancing { is_huge } => Some((Mover::NumaBalancing, is_huge)),
            Self::Damon => Some((Mover::Damon, false)),
            _ => None,
        }
    }

    /// The names of those for which it holds, for messages.
    pub(crate) fn names_of(holds: impl Fn(Self) -> bool) -> String {
        let all = Self::ALL.into_iter().filter(|one| holds(*one));
        all.map(Self::name).collect::<Vec<_>>().join(", ")
    }

    /// Whether a share of the bytes may be near, and not all or none of them.
    pub(crate) const fn has_share(self) -> bool {
        matches!(self.near_bytes_max(1), Some(1))
    }

    /// The most bytes that may be near, of so many that its share allows; none for any number.
    pub(crate) const fn near_bytes_max(self, share_bytes: u64) -> Option<u64> {
        match self {
            Self::AllNear | Self::Weighted { .. } => None,
            Self::AllFar => Some(0),
            Self::Interleave
            | Self::InnerNear
            | Self::Sidle
            | Self::Fitted
            | Self::Layered
            | Self::Tracked
            | Self::TrackedPaths
            | Self::Migrating
            | Self::Histogram
            | Self::Random
            | Self::Oracle
            | Self::Pages { .. }
            | Self::NumaBalancing { .. }
            | Self::Damon => Some(share_bytes),
        }
    }

    /// How new nodes find their tier, with this percentage of the tree near.
    pub(super) fn allocation(self, near_percent: u8) -> Allocation {
        let far = TierId::from_index(1).unwrap_or(TierId::NEAR);
        match self {
            Self::AllNear
            | Self::Pages { .. }
            | Self::NumaBalancing { .. }
            | Self::Damon
            | Self::Random => Allocation::Bound(TierId::NEAR),
            // The oracle promotes what is hot into near memory that is empty.
            Self::AllFar | Self::Oracle => Allocation::Bound(far),
            Self::Interleave => {
                let near = u32::from(near_percent);
                Allocation::Interleaved(vec![near, 100 - near])
            }
            Self::Weighted { near, far } => Allocation::Interleaved(vec![near.get(), far.get()]),
            Self::InnerNear => Allocation::InnerNear,
            Self::Layered
            | Self::Tracked
            | Self::TrackedPaths
            | Self::Migrating
            | Self::Histogram
            | Self::Sidle
            | Self::Fitted => Allocation::Layered,
        }
    }

    /// Whether the framework's workers run.
    pub(crate) fn has_workers(self) -> bool {
        // What the oracle places stays where it is.
        self.framework().is_some() && self != Self::Oracle
    }

    /// Whether near memory is kept between watermarks.
    pub(crate) fn has_watermarks(self) -> bool {
        self.framework()
            .is_some_and(|framework| framework.mechanisms.has_watermarks)
    }

    /// What the framework is to do, if it takes part.
    pub(crate) fn framework(self) -> Option<PlacementOptions> {
        let with = |mechanisms| PlacementOptions {
            mechanisms,
            ..PlacementOptions::default()
        };
        match self {
            Self::Sidle => Some(PlacementOptions::default()),
            Self::Fitted => Some(PlacementOptions::fitted()),
            Self::Layered => Some(with(standing(Tracking::Off))),
            Self::Tracked => Some(with(standing(Tracking::Leaf))),
            Self::TrackedPaths => Some(with(standing(Tracking::Path))),
            Self::Migrating => Some(with(Mechanisms {
                thresholds: Thresholds::Fixed,
                has_watermarks: false,
                ..Mechanisms::default()
            })),
            Self::Histogram => Some(with(Mechanisms {
                has_watermarks: false,
                ..Mechanisms::default()
            })),
            Self::Oracle => Some(with(Mechanisms {
                migrates: false,
                tracking: Tracking::Off,
                is_layered: false,
                has_watermarks: false,
                ..Mechanisms::default()
            })),
            Self::Random => Some(PlacementOptions {
                selection: Selection::Random { one_in: 100 },
                ..with(Mechanisms {
                    is_layered: false,
                    ..Mechanisms::default()
                })
            }),
            Self::AllNear
            | Self::AllFar
            | Self::Interleave
            | Self::Weighted { .. }
            | Self::InnerNear
            | Self::Pages { .. }
            | Self::NumaBalancing { .. }
            | Self::Damon => None,
        }
    }

    /// The bytes of a page, where pages are moved.
    pub(crate) const fn page(self) -> Option<(PageRule, u32)> {
        match self {
            Self::Pages { rule, is_huge } => Some((rule, if is_huge { 21 } else { 12 })),
            _ => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name())
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(name: &str) -> Result<Self, PolicyError> {
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        if let Some(found) = found {
            return Ok(found);
        }
        let placement = name.parse::<PlacementSpec>();
        let unknown = |_| PolicyError::Unknown {
            name: name.to_owned(),
        };
        Self::placed(&placement.map_err(unknown)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_read_as_they_print() {
        let two_to_one: Policy = "interleave:2:1".parse().expect("a placement");
        assert!(
            matches!(two_to_one, Policy::Weighted { near, far } if (near.get(), far.get()) == (2, 1))
        );
        for policy in Policy::ALL.into_iter().chain([two_to_one]) {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
    }

    #[test]
    fn placements_on_near_and_far_are_policies_and_others_are_refused() {
        let named = |text: &str| text.parse::<Policy>().map(|policy| policy.to_string());
        assert_eq!(named("near").as_deref(), Ok("all-near"));
        assert_eq!(named("far").as_deref(), Ok("all-far"));
        assert_eq!(named("interleave:0:1").as_deref(), Ok("all-far"));
        assert_eq!(
            named("interleave:near,far").as_deref(),
            Ok("interleave:1:1")
        );
        assert_eq!(
            named("weighted:near=3,far=1").as_deref(),
            Ok("interleave:3:1")
        );
        for (refused, part) in [
            ("split:near=90%,far", "no first pages"),
            ("interleave:near,cxl", "near and far alone"),
            ("weighted:far=1,near=2", "near and far alone"),
            ("cxl", "no policy is named \"cxl\""),
            ("interleave:2", "no policy is named"),
        ] {
            let error = named(refused).expect_err(refused).to_string();
            assert!(
                error.contains(part) && error.contains("interleave:N:F"),
                "{error}"
            );
        }
    }
}
