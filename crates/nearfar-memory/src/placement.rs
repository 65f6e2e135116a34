//! What a caller asks for: where pages go, how large they are, and what to do at the budget.

use std::convert::Infallible;
use std::num::NonZeroU32;

use nearfar_topology::UnknownTier;

use crate::sys::{BASE_PAGE_BYTES, HUGE_PAGE_BYTES};
use crate::tier::{PARTS_MAX, TierId};

/// On which tiers the pages of a region lie; as it is written, with names for tiers, a
/// [`PlacementSpec`](crate::PlacementSpec).
///
/// The unit is the page of the region: 4 KiB, or 2 MiB for [`PageSize::Huge`], as weisgut-2025
/// §3 places whole pages too.
#[derive(Debug, Clone, PartialEq)]
pub enum Placement<T = TierId> {
    /// Every page on one tier.
    Bind(T),
    /// Page by page in turn over these tiers.
    Interleave(Vec<T>),
    /// In turn over these tiers, each taking as many pages in a row as is told.
    Weighted(Vec<(T, NonZeroU32)>),
    /// The first pages on one tier and all others on another.
    Split {
        /// Where the first pages lie.
        first: T,
        /// The share of all pages that lie there, from 0 to 1, rounded to whole pages.
        first_share: f64,
        /// Where the other pages lie.
        rest: T,
    },
}

/// Why a [`Placement`] means nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// An interleaved placement that names no tier.
    #[error("an interleaved placement needs at least one tier")]
    NoTiers,
    /// An interleaved placement that lists more runs than are supported.
    #[error("an interleaved placement of {runs} runs: at most {max} are supported")]
    TooManyRuns {
        /// The runs asked for.
        runs: usize,
        /// The most that are supported.
        max: usize,
    },
    /// A share that is not between 0 and 1.
    #[error("a share of {share} for the first tier: it must be between 0 and 1")]
    Share {
        /// The share asked for.
        share: f64,
    },
    /// A tier that the system does not have.
    #[error("{tier} does not exist: this system has {tiers} tiers")]
    UnknownTier {
        /// The tier named.
        tier: TierId,
        /// The number of tiers of the system.
        tiers: usize,
    },
}

/// A placement that this machine's memory does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// A name that means nothing here.
    #[error(transparent)]
    Unknown(#[from] UnknownTier),
    /// A tier that has no pages to give.
    #[error("nothing can be put on tier {name:?}: bring its memory online first")]
    Offline {
        /// Its name.
        name: String,
    },
    /// A tier of another host's memory, which no page is of.
    #[error(
        "{name:?} is memory of another host, which holds tables that CREATE TABLE … TABLESPACE {name} AS puts \
         there, and nothing else"
    )]
    Remote {
        /// Its name.
        name: String,
    },
    /// One choice of a tier's devices more than are told apart.
    #[error(
        "{name:?} is one choice more of devices of tier {tier:?} than the {PARTS_MAX} that are told \
         apart: use one of those named before, or the tier"
    )]
    TooManyParts {
        /// The name.
        name: String,
        /// The tier.
        tier: String,
    },
}

impl<T> Placement<T> {
    /// What is named for tiers, in order, with repetitions.
    pub fn places(&self) -> impl Iterator<Item = &T> {
        let (listed, weighted, pair) = match self {
            Self::Bind(tier) => (std::slice::from_ref(tier), &[][..], None),
            Self::Interleave(tiers) => (&tiers[..], &[][..], None),
            Self::Weighted(runs) => (&[][..], &runs[..], None),
            Self::Split { first, rest, .. } => (&[][..], &[][..], Some([first, rest])),
        };
        let weighted = weighted.iter().map(|(tier, _)| tier);
        listed
            .iter()
            .chain(weighted)
            .chain(pair.into_iter().flatten())
    }

    /// The same placement over what `place` makes of each tier.
    ///
    /// # Errors
    /// The first error of `place`.
    pub fn try_map<U, E>(
        &self,
        mut place: impl FnMut(&T) -> Result<U, E>,
    ) -> Result<Placement<U>, E> {
        Ok(match self {
            Self::Bind(tier) => Placement::Bind(place(tier)?),
            Self::Interleave(tiers) => {
                let tiers = tiers.iter().map(place);
                Placement::Interleave(tiers.collect::<Result<_, E>>()?)
            }
            Self::Weighted(runs) => {
                let runs = runs.iter();
                let runs = runs.map(|(tier, pages)| place(tier).map(|tier| (tier, *pages)));
                Placement::Weighted(runs.collect::<Result<_, E>>()?)
            }
            Self::Split {
                first,
                first_share,
                rest,
            } => Placement::Split {
                first: place(first)?,
                first_share: *first_share,
                rest: place(rest)?,
            },
        })
    }
}

impl Placement {
    /// The most runs of one cycle of an interleaved placement.
    pub const RUNS_MAX: usize = 64;

    /// The tiers and parts of tiers named, in order, with repetitions.
    pub fn tiers(&self) -> impl Iterator<Item = TierId> + '_ {
        self.places().copied()
    }

    /// The same placement with `from` and all parts of it replaced by `to`.
    #[must_use]
    pub(crate) fn with_replaced(&self, from: TierId, to: TierId) -> Self {
        let swap = |tier: &TierId| match tier.whole() == from {
            true => Ok::<TierId, Infallible>(to),
            false => Ok(*tier),
        };
        let Ok(replaced) = self.try_map(swap);
        replaced
    }

    /// Checks that the placement means something in a system of `tiers` tiers.
    pub(crate) fn check(&self, tiers: usize) -> Result<(), PlacementError> {
        let runs = match self {
            Self::Interleave(tiers) => tiers.len(),
            Self::Weighted(runs) => runs.len(),
            Self::Split { first_share, .. } if !(0.0..=1.0).contains(first_share) => {
                return Err(PlacementError::Share {
                    share: *first_share,
                });
            }
            Self::Bind(_) | Self::Split { .. } => 1,
        };
        if runs == 0 {
            return Err(PlacementError::NoTiers);
        }
        if runs > Self::RUNS_MAX {
            return Err(PlacementError::TooManyRuns {
                runs,
                max: Self::RUNS_MAX,
            });
        }
        match self.tiers().find(|tier| tier.index() >= tiers) {
            Some(tier) => Err(PlacementError::UnknownTier { tier, tiers }),
            None => Ok(()),
        }
    }
}

/// The size of a region's pages, which is also the grain of its placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Base,
    /// 2 MiB: explicitly reserved ones where enough are free, else transparent ones, for which the
    /// kernel may fall back to base pages ([`Region::huge_page_bytes`](crate::Region::huge_page_bytes)
    /// says how many bytes really lie in huge pages). The placement has this grain in any case.
    Huge,
}

impl PageSize {
    /// Bytes of one page.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Base => BASE_PAGE_BYTES,
            Self::Huge => HUGE_PAGE_BYTES,
        }
    }
}

/// What to do when a tier's budget does not suffice for a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverBudget {
    /// Fail with an error that names the tier and what it has left.
    #[default]
    Refuse,
    /// Put all that was meant for the tier on the next farther one with room or, when there is none,
    /// on the next nearer one. [`Region::placement`](crate::Region::placement) tells what came of it.
    Spill,
}

/// How a region is to be made, beside its placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegionOptions {
    /// The size of its pages.
    pub page_size: PageSize,
    /// What to do when a budget does not suffice.
    pub over_budget: OverBudget,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meaningless_placements_are_refused() {
        let near = TierId::NEAR;
        assert_eq!(
            Placement::Interleave(vec![]).check(1),
            Err(PlacementError::NoTiers)
        );
        assert_eq!(
            Placement::Bind(TierId::at(3)).check(2),
            Err(PlacementError::UnknownTier {
                tier: TierId::at(3),
                tiers: 2
            })
        );
        for share in [-0.1, 1.1, f64::INFINITY] {
            let split = Placement::Split {
                first: near,
                first_share: share,
                rest: near,
            };
            assert_eq!(split.check(1), Err(PlacementError::Share { share }));
        }
        let split = Placement::Split {
            first: near,
            first_share: f64::NAN,
            rest: near,
        };
        assert!(matches!(split.check(1), Err(PlacementError::Share { .. })));
        let long = Placement::Interleave(vec![near; 65]);
        assert_eq!(
            long.check(1),
            Err(PlacementError::TooManyRuns { runs: 65, max: 64 })
        );
    }

    #[test]
    fn replacing_a_tier_keeps_the_shape() {
        let (near, far, third) = (TierId::at(0), TierId::at(1), TierId::at(2));
        let weighted = Placement::Weighted(vec![
            (near, NonZeroU32::MIN),
            (far, NonZeroU32::new(3).unwrap()),
            (near, NonZeroU32::MIN),
        ]);
        let replaced = weighted.with_replaced(near, third);
        assert_eq!(replaced.tiers().collect::<Vec<_>>(), [third, far, third]);
    }
}
