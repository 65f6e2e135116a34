//! How many cores' private caches have a line.

use super::placement::PAGE_LINES_LOG2;
use super::sets::Hashed;

const PAGE_LINES: usize = 1 << PAGE_LINES_LOG2;
/// No page: addresses end far below the last one that a number can name.
const FREE: u64 = u64::MAX;
const PAGES_MIN: usize = 64;

/// Counts by line, those of a page together: a table of pages that is searched from where the hash of a page
/// points, at most half full.
#[derive(Debug)]
pub(crate) struct Copies {
    pages: Box<[u64]>,
    counts: Box<[[u8; PAGE_LINES]]>,
    /// Pages in the table. One whose lines are all gone leaves it when it gets too small.
    taken: usize,
}

impl Copies {
    pub(crate) fn new() -> Self {
        Self::with_places(PAGES_MIN)
    }

    fn with_places(places: usize) -> Self {
        Self {
            pages: vec![FREE; places].into(),
            counts: vec![[0; PAGE_LINES]; places].into(),
            taken: 0,
        }
    }

    /// Where the page of a line is, or would be.
    #[inline]
    fn find(&self, line: Hashed) -> usize {
        let last = self.pages.len() - 1;
        let mut place = line.hash as usize & last;
        while self.pages[place] != line.page() && self.pages[place] != FREE {
            place = (place + 1) & last;
        }
        place
    }

    #[inline]
    pub(crate) fn contains(&self, line: Hashed) -> bool {
        // Places without a page have no copies of its lines.
        self.counts[self.find(line)][line.in_page()] > 0
    }

    /// Notes one copy more; true if it is the only one.
    #[inline]
    pub(crate) fn add(&mut self, line: Hashed) -> bool {
        let place = self.find(line);
        let count = &mut self.counts[place][line.in_page()];
        *count += 1;
        let is_only = *count == 1;
        if self.pages[place] == FREE {
            self.pages[place] = line.page();
            self.taken += 1;
            if self.taken * 2 > self.pages.len() {
                self.grow();
            }
        }
        is_only
    }

    /// Notes that a copy is gone.
    #[inline]
    pub(crate) fn drop_one(&mut self, line: Hashed) {
        let place = self.find(line);
        let count = &mut self.counts[place][line.in_page()];
        *count = count.saturating_sub(1);
    }

    /// Makes a table with room for as many pages again as there are lines of.
    #[cold]
    fn grow(&mut self) {
        let has_lines = |counts: &[u8; PAGE_LINES]| counts.iter().any(|count| *count > 0);
        let kept = self
            .counts
            .iter()
            .filter(|counts| has_lines(counts))
            .count();
        let larger = Self::with_places((4 * kept).next_power_of_two().max(PAGES_MIN));
        let smaller = std::mem::replace(self, larger);
        for (page, counts) in smaller.pages.into_iter().zip(smaller.counts) {
            if has_lines(&counts) {
                let place = self.find(Hashed::new(page << PAGE_LINES_LOG2));
                self.pages[place] = page;
                self.counts[place] = counts;
                self.taken += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn copies_are_counted_as_a_map_does(steps in vec((any::<bool>(), 0_u64..20_000), 1..6_000)) {
            let mut copies = Copies::new();
            let mut expected = HashMap::<u64, u32>::new();
            for (add, line) in steps {
                if add && expected.get(&line).is_none_or(|count| *count < 64) {
                    let count = expected.entry(line).or_default();
                    *count += 1;
                    prop_assert_eq!(copies.add(Hashed::new(line)), *count == 1);
                } else if !add {
                    copies.drop_one(Hashed::new(line));
                    if let Some(count) = expected.get_mut(&line) {
                        *count -= 1;
                        if *count == 0 {
                            expected.remove(&line);
                        }
                    }
                }
                prop_assert_eq!(copies.contains(Hashed::new(line)), expected.contains_key(&line));
            }
            prop_assert!((0..20_000).all(|line| copies.contains(Hashed::new(line)) == expected.contains_key(&line)));
        }
    }
}
