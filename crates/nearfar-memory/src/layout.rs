//! The arithmetic of placements: which page of a region belongs to which tier.
//!
//! ```text
//! One      A A A A A A A A A
//! Cycle    A A B A A B A A B      runs (A, 2) (B, 1)
//! Split    A A A A A B B B B
//! ```

use std::ops::Range;

use crate::placement::Placement;
use crate::tier::{TierBytes, TierId};

/// The tier of every page of a region, by arithmetic: no table of pages is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    pattern: Pattern,
    page_bytes: usize,
    pages: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Pattern {
    One(TierId),
    /// Runs of pages, repeated; no run is empty.
    Cycle {
        runs: Vec<(TierId, usize)>,
        cycle_pages: usize,
    },
    Split {
        first: TierId,
        first_pages: usize,
        rest: TierId,
    },
}

impl Layout {
    /// The layout of `pages` pages under a placement that was checked.
    pub(crate) fn new(placement: &Placement, page_bytes: usize, pages: usize) -> Self {
        let cycle = |runs: Vec<(TierId, usize)>| match runs.as_slice() {
            [(only, _), others @ ..] if others.iter().all(|(tier, _)| tier == only) => {
                Pattern::One(*only)
            }
            _ => Pattern::Cycle {
                cycle_pages: runs.iter().map(|(_, run)| run).sum(),
                runs,
            },
        };
        let pattern = match placement {
            Placement::Bind(tier) => Pattern::One(*tier),
            Placement::Interleave(tiers) => cycle(tiers.iter().map(|tier| (*tier, 1)).collect()),
            Placement::Weighted(runs) => cycle(
                runs.iter()
                    .map(|(tier, run)| (*tier, run.get() as usize))
                    .collect(),
            ),
            Placement::Split { first, rest, .. } if first == rest => Pattern::One(*first),
            Placement::Split {
                first,
                first_share,
                rest,
            } => {
                let first_pages = (pages as f64 * first_share).round() as usize;
                Pattern::Split {
                    first: *first,
                    first_pages: first_pages.min(pages),
                    rest: *rest,
                }
            }
        };
        Self {
            pattern,
            page_bytes,
            pages,
        }
    }

    /// Bytes of one page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Bytes of all pages.
    pub(crate) fn total_bytes(&self) -> usize {
        self.pages * self.page_bytes
    }

    /// The number of pages.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// The tiers, and parts of tiers, that have pages, each once: whole tiers first, near to far.
    pub(crate) fn places(&self) -> Vec<TierId> {
        let mut places = match &self.pattern {
            _ if self.pages == 0 => Vec::new(),
            Pattern::One(tier) => vec![*tier],
            Pattern::Split {
                first, first_pages, ..
            } if *first_pages >= self.pages => vec![*first],
            Pattern::Split {
                first_pages: 0,
                rest,
                ..
            } => vec![*rest],
            Pattern::Split { first, rest, .. } => vec![*first, *rest],
            Pattern::Cycle { runs, .. } => {
                let mut start = 0;
                let has_pages = runs.iter().take_while(|(_, run)| {
                    start += run;
                    start - run < self.pages
                });
                has_pages.map(|(tier, _)| *tier).collect()
            }
        };
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Whether the tiers alternate page by page or run by run.
    pub(crate) fn is_cyclic(&self) -> bool {
        matches!(self.pattern, Pattern::Cycle { .. })
    }

    /// The tier of `page`, and the page at which that run of its tier ends.
    pub(crate) fn run_at(&self, page: usize) -> (TierId, usize) {
        match &self.pattern {
            Pattern::One(tier) => (*tier, self.pages),
            Pattern::Split {
                first, first_pages, ..
            } if page < *first_pages => (*first, *first_pages),
            Pattern::Split { rest, .. } => (*rest, self.pages),
            Pattern::Cycle { runs, cycle_pages } => {
                let mut end = page - page % cycle_pages;
                for (tier, run) in runs {
                    end += run;
                    if page < end {
                        return (*tier, end.min(self.pages));
                    }
                }
                unreachable!("a page lies before the end of its cycle")
            }
        }
    }

    /// All runs in order. Neighbouring runs may have the same tier.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (TierId, Range<usize>)> + '_ {
        let mut page = 0;
        std::iter::from_fn(move || {
            (page < self.pages).then(|| {
                let start = page;
                let (tier, end) = self.run_at(start);
                page = end;
                (tier, start..end)
            })
        })
    }

    /// The byte ranges whose tiers are `wanted`, in order and as long as they can be.
    pub(crate) fn ranges(&self, wanted: impl Fn(TierId) -> bool) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (_, pages) in self.runs().filter(|(tier, _)| wanted(*tier)) {
            let bytes = pages.start * self.page_bytes..pages.end * self.page_bytes;
            match ranges.last_mut() {
                Some(last) if last.end == bytes.start => last.end = bytes.end,
                _ => ranges.push(bytes),
            }
        }
        ranges
    }

    /// The bytes of the byte range `range` on each tier, in time that depends on the number of runs
    /// of a cycle alone.
    pub(crate) fn bytes(&self, range: Range<usize>) -> TierBytes {
        let mut bytes = TierBytes::ZERO;
        if range.is_empty() {
            return bytes;
        }
        match &self.pattern {
            Pattern::One(tier) => bytes[*tier] = range.len() as u64,
            Pattern::Split {
                first,
                first_pages,
                rest,
            } => {
                let border = (first_pages * self.page_bytes).clamp(range.start, range.end);
                // Both may be parts of one tier.
                bytes[*first] += (border - range.start) as u64;
                bytes[*rest] += (range.end - border) as u64;
            }
            Pattern::Cycle { runs, cycle_pages } => {
                let cycle_bytes = cycle_pages * self.page_bytes;
                let (start_cycles, mut start) =
                    (range.start / cycle_bytes, range.start % cycle_bytes);
                let (end_cycles, mut end) = (range.end / cycle_bytes, range.end % cycle_bytes);
                let cycles = (end_cycles - start_cycles) as u64;
                for (tier, run) in runs {
                    let run_bytes = run * self.page_bytes;
                    let (before, within) = (start.min(run_bytes), end.min(run_bytes));
                    bytes[*tier] += cycles * run_bytes as u64 + within as u64 - before as u64;
                    start -= before;
                    end -= within;
                }
            }
        }
        bytes
    }

    /// The bytes of all pages on each of [`Self::places`].
    pub(crate) fn place_bytes(&self) -> Vec<(TierId, u64)> {
        let pages_of = |place: TierId| match &self.pattern {
            Pattern::One(_) => self.pages,
            Pattern::Split {
                first, first_pages, ..
            } if *first == place => *first_pages,
            Pattern::Split { first_pages, .. } => self.pages - first_pages,
            Pattern::Cycle { runs, cycle_pages } => {
                let (cycles, mut left) = (self.pages / cycle_pages, self.pages % cycle_pages);
                let of_run = runs.iter().map(|(tier, run)| {
                    let within = left.min(*run);
                    left -= within;
                    (tier, cycles * run + within)
                });
                let own = of_run.filter(|(tier, _)| **tier == place);
                own.map(|(_, pages)| pages).sum()
            }
        };
        let bytes = |place| (place, (pages_of(place) * self.page_bytes) as u64);
        self.places().into_iter().map(bytes).collect()
    }

    /// The bytes of all pages on each tier.
    pub(crate) fn all_bytes(&self) -> TierBytes {
        self.bytes(0..self.total_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;

    /// A tier or a part of one.
    fn tier() -> impl Strategy<Value = TierId> {
        let part = (0u8..3, 0usize..3).prop_map(|(index, part)| TierId::at(index).with_part(part));
        prop_oneof![3 => (0u8..5).prop_map(TierId::at), 1 => part]
    }

    pub(crate) fn placement() -> impl Strategy<Value = Placement> {
        prop_oneof![
            tier().prop_map(Placement::Bind),
            prop::collection::vec(tier(), 1..6).prop_map(Placement::Interleave),
            prop::collection::vec((tier(), 1u32..9), 1..6).prop_map(|runs| {
                Placement::Weighted(
                    runs.into_iter()
                        .map(|(tier, run)| (tier, NonZeroU32::new(run).unwrap()))
                        .collect(),
                )
            }),
            (tier(), 0.0..=1.0, tier()).prop_map(|(first, first_share, rest)| Placement::Split {
                first,
                first_share,
                rest
            }),
        ]
    }

    /// The tier of each page, by walking the definition of the placement.
    fn oracle(placement: &Placement, pages: usize) -> Vec<TierId> {
        let cycle: Vec<TierId> = match placement {
            Placement::Bind(tier) => vec![*tier],
            Placement::Interleave(tiers) => tiers.clone(),
            Placement::Weighted(runs) => runs
                .iter()
                .flat_map(|(tier, run)| std::iter::repeat_n(*tier, run.get() as usize))
                .collect(),
            Placement::Split {
                first,
                first_share,
                rest,
            } => {
                let share = (pages as f64 * first_share).round() as usize;
                return (0..pages)
                    .map(|page| if page < share { *first } else { *rest })
                    .collect();
            }
        };
        cycle.into_iter().cycle().take(pages).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 512 }, ..ProptestConfig::default() })]

        #[test]
        fn bytes_and_runs_agree_with_a_walk_over_pages(
            placement in placement(),
            pages in 1usize..200,
            page_bytes in prop::sample::select(vec![1usize, 16, 4096]),
            ends in (0.0..=1.0f64, 0.0..=1.0f64),
        ) {
            let layout = Layout::new(&placement, page_bytes, pages);
            let tiers = oracle(&placement, pages);
            let at = |share: f64| (layout.total_bytes() as f64 * share) as usize;
            let (start, end) = (at(ends.0).min(at(ends.1)), at(ends.0).max(at(ends.1)));
            let mut expected = TierBytes::ZERO;
            for (page, tier) in tiers.iter().enumerate() {
                let low = (page * page_bytes).clamp(start, end);
                let high = ((page + 1) * page_bytes).clamp(start, end);
                expected[*tier] += (high - low) as u64;
            }
            prop_assert_eq!(layout.bytes(start..end), expected);
            let walked: Vec<TierId> = layout
                .runs()
                .flat_map(|(tier, range)| std::iter::repeat_n(tier, range.len()))
                .collect();
            prop_assert_eq!(&walked, &tiers);
            let ranges = layout.ranges(|tier| tier == walked[0]);
            let in_ranges: Vec<usize> = ranges.iter().cloned().flatten().step_by(page_bytes).collect();
            let first = walked.iter().enumerate().filter(|(_, tier)| **tier == walked[0]);
            let expected: Vec<usize> = first.map(|(page, _)| page * page_bytes).collect();
            prop_assert_eq!(in_ranges, expected);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            let places: std::collections::BTreeSet<TierId> = tiers.into_iter().collect();
            prop_assert_eq!(layout.places(), places.into_iter().collect::<Vec<_>>());
            for (place, bytes) in layout.place_bytes() {
                let pages = walked.iter().filter(|tier| **tier == place).count();
                prop_assert_eq!(bytes, (pages * page_bytes) as u64);
            }
        }
    }

    #[test]
    fn placements_that_name_one_tier_collapse() {
        let same = Placement::Interleave(vec![TierId::at(2); 3]);
        assert_eq!(
            Layout::new(&same, 4096, 9).pattern,
            Pattern::One(TierId::at(2))
        );
        let split = Placement::Split {
            first: TierId::at(1),
            first_share: 0.3,
            rest: TierId::at(1),
        };
        assert_eq!(
            Layout::new(&split, 4096, 9).pattern,
            Pattern::One(TierId::at(1))
        );
    }
}
