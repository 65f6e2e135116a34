//! Which pages of a device are taken.

use std::ops::Range;

const BITS: usize = u64::BITS as usize;

/// The pages of a device, each taken or free.
#[derive(Debug)]
pub(super) struct ExtentMap {
    /// One bit per page, set where it is taken.
    words: Vec<u64>,
    pages: usize,
    free_pages: usize,
}

impl ExtentMap {
    /// So many pages, all free.
    pub(super) fn new(pages: usize) -> Self {
        Self {
            words: vec![0; pages.div_ceil(BITS)],
            pages,
            free_pages: pages,
        }
    }

    /// The number of free pages.
    pub(super) fn free_pages(&self) -> usize {
        self.free_pages
    }

    /// Takes so many pages: of the first gap that is long enough or, where none is, of one gap after
    /// another. `None`, and nothing is taken, where there are not so many.
    pub(super) fn take(&mut self, pages: usize) -> Option<Vec<Range<usize>>> {
        if pages > self.free_pages {
            return None;
        }
        let whole = self.gaps().find(|gap| gap.len() >= pages);
        let extents: Vec<Range<usize>> = match whole {
            Some(gap) => std::iter::once(gap.start..gap.start + pages).collect(),
            None => {
                let mut left = pages;
                let parts = self.gaps().map_while(|gap| {
                    let part = gap.len().min(left);
                    left -= part;
                    (part > 0).then(|| gap.start..gap.start + part)
                });
                parts.collect()
            }
        };
        for page in extents.iter().cloned().flatten() {
            self.words[page / BITS] |= 1 << (page % BITS);
        }
        self.free_pages -= pages;
        Some(extents)
    }

    /// Frees pages that were taken.
    pub(super) fn release(&mut self, extent: Range<usize>) {
        self.free_pages += extent.len();
        for page in extent {
            let (word, bit) = (&mut self.words[page / BITS], 1 << (page % BITS));
            debug_assert!(*word & bit != 0, "page {page} was not taken");
            *word &= !bit;
        }
    }

    /// The runs of free pages, in order.
    fn gaps(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let start = self.first(from, false);
            from = self.first(start, true);
            (start < self.pages).then_some(start..from)
        })
    }

    /// The first page from `from` on that is taken, or that is not; the number of pages where none is.
    fn first(&self, from: usize, is_taken: bool) -> usize {
        let mut page = from;
        while page < self.pages {
            let word = self.words[page / BITS];
            let wanted = if is_taken { word } else { !word } >> (page % BITS);
            if wanted != 0 {
                return (page + wanted.trailing_zeros() as usize).min(self.pages);
            }
            page = (page / BITS + 1) * BITS;
        }
        self.pages
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Take(usize),
        /// Releases what was taken at this position, counted round.
        Release(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0usize..90).prop_map(Step::Take),
            2 => any::<usize>().prop_map(Step::Release),
        ]
    }

    /// The first gap that is long enough, found page by page.
    fn first_gap(taken: &[bool], pages: usize) -> Option<usize> {
        let is_gap = |start: &usize| taken[*start..start + pages].iter().all(|taken| !taken);
        (0..(taken.len() + 1).saturating_sub(pages)).find(is_gap)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, ..ProptestConfig::default() })]

        /// Against a plain list of pages: nothing is given twice, nothing that fits is refused, one
        /// extent is given where there is a gap for it, and what is released is given again.
        #[test]
        fn extents_agree_with_a_list_of_pages(
            pages in 0usize..300,
            steps in prop::collection::vec(step(), 1..60),
        ) {
            let mut map = ExtentMap::new(pages);
            let mut taken = vec![false; pages];
            let mut held: Vec<Vec<Range<usize>>> = Vec::new();
            for step in steps {
                match step {
                    Step::Take(wanted) => {
                        let free = taken.iter().filter(|taken| !**taken).count();
                        let gap = first_gap(&taken, wanted);
                        let extents = map.take(wanted);
                        prop_assert_eq!(extents.is_some(), wanted <= free);
                        let Some(extents) = extents else { continue };
                        let total: usize = extents.iter().map(ExactSizeIterator::len).sum();
                        prop_assert_eq!(total, wanted);
                        if let (Some(gap), true) = (gap, wanted > 0) {
                            let expected = gap..gap + wanted;
                            prop_assert_eq!(&extents[..], std::slice::from_ref(&expected));
                        }
                        for page in extents.iter().cloned().flatten() {
                            prop_assert!(!std::mem::replace(&mut taken[page], true), "page {} twice", page);
                        }
                        held.push(extents);
                    }
                    Step::Release(at) if !held.is_empty() => {
                        let at = at % held.len();
                        for extent in held.swap_remove(at) {
                            taken[extent.clone()].fill(false);
                            map.release(extent);
                        }
                    }
                    Step::Release(_) => {}
                }
                prop_assert_eq!(map.free_pages(), taken.iter().filter(|taken| !**taken).count());
            }
        }
    }
}
