//! How many cores' private caches have a line.

use super::network::mix;

/// Bits of an entry that are its line; the others are its copies, less one.
const LINE_BITS: u32 = 58;
const LINE: u64 = (1 << LINE_BITS) - 1;
/// No line: addresses end far below the last one that an entry can name.
const FREE: u64 = u64::MAX;
const PLACES_MIN: usize = 1024;

/// Counts by line: a table that is searched from where the hash of a line points, at most half full.
#[derive(Debug)]
pub(crate) struct Copies {
    entries: Box<[u64]>,
    lines: usize,
}

impl Copies {
    pub(crate) fn new() -> Self {
        Self {
            entries: vec![FREE; PLACES_MIN].into(),
            lines: 0,
        }
    }

    #[inline]
    fn home(&self, line: u64) -> usize {
        mix(line) as usize & (self.entries.len() - 1)
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.entries.len() - 1)
    }

    /// Where the line is, or would be.
    #[inline]
    fn find(&self, line: u64) -> usize {
        let mut place = self.home(line);
        while self.entries[place] != FREE && self.entries[place] & LINE != line {
            place = self.after(place);
        }
        place
    }

    #[inline]
    pub(crate) fn contains(&self, line: u64) -> bool {
        self.entries[self.find(line)] != FREE
    }

    /// Notes one copy more; true if it is the only one.
    #[inline]
    pub(crate) fn add(&mut self, line: u64) -> bool {
        let place = self.find(line);
        if self.entries[place] != FREE {
            self.entries[place] += 1 << LINE_BITS;
            return false;
        }
        self.entries[place] = line;
        self.lines += 1;
        if self.lines * 2 > self.entries.len() {
            self.grow();
        }
        true
    }

    /// Notes that a copy is gone.
    #[inline]
    pub(crate) fn drop_one(&mut self, line: u64) {
        let mut hole = self.find(line);
        if self.entries[hole] == FREE {
            return;
        }
        if self.entries[hole] > LINE {
            self.entries[hole] -= 1 << LINE_BITS;
            return;
        }
        // Lines behind that were pushed away by this one move up.
        self.lines -= 1;
        let mut place = self.after(hole);
        while self.entries[place] != FREE {
            let home = self.home(self.entries[place] & LINE);
            let last = self.entries.len() - 1;
            if place.wrapping_sub(home) & last >= place.wrapping_sub(hole) & last {
                self.entries[hole] = self.entries[place];
                hole = place;
            }
            place = self.after(place);
        }
        self.entries[hole] = FREE;
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![FREE; 4 * self.entries.len()].into();
        let entries = std::mem::replace(&mut self.entries, larger);
        for entry in entries.into_iter().filter(|entry| *entry != FREE) {
            let place = self.find(entry & LINE);
            self.entries[place] = entry;
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
        fn copies_are_counted_as_a_map_does(steps in vec((any::<bool>(), 0_u64..2_000), 1..6_000)) {
            let mut copies = Copies::new();
            let mut expected = HashMap::<u64, u32>::new();
            for (add, line) in steps {
                if add && expected.get(&line).is_none_or(|count| *count < 64) {
                    let count = expected.entry(line).or_default();
                    *count += 1;
                    prop_assert_eq!(copies.add(line), *count == 1);
                } else if !add {
                    copies.drop_one(line);
                    if let Some(count) = expected.get_mut(&line) {
                        *count -= 1;
                        if *count == 0 {
                            expected.remove(&line);
                        }
                    }
                }
                prop_assert_eq!(copies.contains(line), expected.contains_key(&line));
            }
            prop_assert_eq!(copies.lines, expected.len());
            prop_assert!((0..2_000).all(|line| copies.contains(line) == expected.contains_key(&line)));
        }
    }
}
