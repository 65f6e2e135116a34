//! How many cores' private caches have a line, and whether one of them has it for itself.

use super::placement::PAGE_LINES_LOG2;
use super::sets::Hashed;

const PAGE_LINES: usize = 1 << PAGE_LINES_LOG2;
/// No page: addresses end far below the last one that a number can name.
const FREE: u64 = u64::MAX;
const PAGES_MIN: usize = 64;
/// Of a count: one core alone had the line when it wrote to it, and no other has asked for it since.
const OWNED: u8 = 1 << 7;

/// What the caches of other cores have of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    Nothing,
    Copies,
    /// One has it for itself, and may have modified it.
    Own,
}

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

    /// Notes one copy more, and that nobody has the line for itself; what others have of it.
    #[inline]
    pub(crate) fn add(&mut self, line: Hashed) -> Others {
        let place = self.find(line);
        let count = &mut self.counts[place][line.in_page()];
        let others = match *count {
            0 => Others::Nothing,
            count if count & OWNED != 0 => Others::Own,
            _ => Others::Copies,
        };
        *count = (*count & !OWNED) + 1;
        if self.pages[place] == FREE {
            self.pages[place] = line.page();
            self.taken += 1;
            if self.taken * 2 > self.pages.len() {
                self.grow();
            }
        }
        others
    }

    /// Notes that a core that has a copy has the line for itself; whether others had copies.
    #[inline]
    pub(crate) fn own(&mut self, line: Hashed) -> bool {
        let place = self.find(line);
        let count = &mut self.counts[place][line.in_page()];
        let is_shared = *count & !OWNED > 1;
        if *count > 0 {
            *count = 1 | OWNED;
        }
        is_shared
    }

    /// Notes that a copy is gone.
    #[inline]
    pub(crate) fn drop_one(&mut self, line: Hashed) {
        let place = self.find(line);
        let count = &mut self.counts[place][line.in_page()];
        *count = (*count & !OWNED).saturating_sub(1);
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
        fn copies_are_counted_as_a_map_does(steps in vec((0_u8..5, 0_u64..20_000), 1..6_000)) {
            let mut copies = Copies::new();
            // How many have the line, and whether one of them for itself.
            let mut expected = HashMap::<u64, (u32, bool)>::new();
            for (step, line) in steps {
                let hashed = Hashed::new(line);
                let (count, is_owned) = expected.get(&line).copied().unwrap_or_default();
                let next = match step {
                    0 | 1 if count < 64 => {
                        let others = match (count, is_owned) {
                            (0, _) => Others::Nothing,
                            (_, true) => Others::Own,
                            (_, false) => Others::Copies,
                        };
                        prop_assert_eq!(copies.add(hashed), others);
                        (count + 1, false)
                    }
                    2 | 3 => {
                        copies.drop_one(hashed);
                        (count.saturating_sub(1), false)
                    }
                    _ => {
                        prop_assert_eq!(copies.own(hashed), count > 1);
                        (count.min(1), count > 0)
                    }
                };
                if next.0 == 0 {
                    expected.remove(&line);
                } else {
                    expected.insert(line, next);
                }
                prop_assert_eq!(copies.contains(Hashed::new(line)), expected.contains_key(&line));
            }
            prop_assert!((0..20_000).all(|line| copies.contains(Hashed::new(line)) == expected.contains_key(&line)));
        }
    }
}
