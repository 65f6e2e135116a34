//! A set-associative cache whose sets are searched and ordered a word at a time.

use super::network::mix;
use super::placement::PAGE_LINES_LOG2;

const INVALID: u64 = u64::MAX;
const DIRTY: u64 = 1 << 63;
/// Most ways of a set: what the words of a [`Set`] have room for.
const WAYS_MAX: usize = 16;

/// A line and the hash of its page, which gives its set and its tag in every cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashed {
    pub line: u64,
    /// Of the page.
    pub hash: u64,
}

impl Hashed {
    #[inline]
    pub(crate) fn new(line: u64) -> Self {
        Self {
            line,
            hash: mix(line >> PAGE_LINES_LOG2),
        }
    }

    #[inline]
    pub(crate) fn page(self) -> u64 {
        self.line >> PAGE_LINES_LOG2
    }

    #[inline]
    pub(crate) fn in_page(self) -> usize {
        self.line as usize & ((1 << PAGE_LINES_LOG2) - 1)
    }

    /// Eight bits of the hash, and never what a way without a line has; nor 1, which the search for
    /// a tag may take for one where it stands above the tag.
    #[inline]
    fn tag(self) -> u8 {
        (self.hash as u8).max(2)
    }
}

/// A set without its lines, which are looked at only where tags agree.
#[derive(Debug, Clone, Copy)]
struct Set {
    /// Ways from the most to the least recently used, four bits each, lowest first; ways that have
    /// no line are the last.
    order: u64,
    /// The tags of the ways, a byte each.
    tags: [u64; 2],
}

const TAG_ONES: u64 = 0x0101_0101_0101_0101;
const TAG_TOPS: u64 = 0x8080_8080_8080_8080;
const WAY_ONES: u64 = 0x1111_1111_1111_1111;
const WAY_TOPS: u64 = 0x8888_8888_8888_8888;

impl Set {
    const EMPTY: Self = Self {
        order: 0xfedc_ba98_7654_3210,
        tags: [0; 2],
    };

    /// The first way that `is_there` says has the line, of those whose tags are the line's.
    #[inline]
    fn find(&self, line: Hashed, is_there: impl Fn(usize) -> bool) -> Option<usize> {
        let tag = u64::from(line.tag()) * TAG_ONES;
        for (word, tags) in self.tags.iter().enumerate() {
            let differs = tags ^ tag;
            let mut equal = differs.wrapping_sub(TAG_ONES) & !differs & TAG_TOPS;
            while equal != 0 {
                let way = word * 8 + equal.trailing_zeros() as usize / 8;
                if is_there(way) {
                    return Some(way);
                }
                equal &= equal - 1;
            }
        }
        None
    }

    /// Where a way stands in the order.
    #[inline]
    fn rank(&self, way: usize) -> u32 {
        let differs = self.order ^ (WAY_ONES * way as u64);
        // The lowest bit is that of the lowest digit that is zero; others may be wrong.
        let zeros = differs.wrapping_sub(WAY_ONES) & !differs & WAY_TOPS;
        zeros.trailing_zeros() / 4
    }

    /// Makes the way at a rank the most recently used.
    #[inline]
    fn raise(&mut self, rank: u32, way: usize) {
        let before = !(u64::MAX << (4 * rank));
        let behind = u64::MAX << (4 * rank) << 4;
        self.order = (self.order & behind) | (self.order & before) << 4 | way as u64;
    }

    /// Makes the way at a rank the last of `ways`.
    #[inline]
    fn lower(&mut self, rank: u32, way: usize, ways: u32) {
        let before = !(u64::MAX << (4 * rank));
        let last = 4 * (ways - 1);
        let behind = u64::MAX << last << 4;
        let between = !before & !behind;
        let moved = (self.order & between) >> 4 & between & !(0xf << last);
        let way = (way as u64) << last;
        self.order = (self.order & (before | behind)) | moved | way;
    }

    #[inline]
    fn set_tag(&mut self, way: usize, tag: u8) {
        let (word, shift) = (way / 8, way % 8 * 8);
        self.tags[word] = self.tags[word] & !(0xff << shift) | u64::from(tag) << shift;
    }
}

/// A set-associative cache with least-recently-used replacement.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    ways: u32,
    sets: Box<[Set]>,
    /// The lines of the first way of all sets, of the second one, and so on; in their top bits whether they were
    /// modified. Lines that follow each other are in sets that do, and mostly in the same way.
    lines: Box<[u64]>,
}

impl Cache {
    /// A cache of `bytes` with 64-byte lines; at least one set. One of more than 16 ways gets more
    /// sets of fewer.
    pub(crate) fn new(bytes: u64, ways: u32) -> Self {
        let ways = ways / ways.div_ceil(WAYS_MAX as u32);
        let sets = (bytes / 64 / u64::from(ways)).max(1) as usize;
        Self {
            ways,
            sets: vec![Set::EMPTY; sets].into(),
            lines: vec![INVALID; sets * ways as usize].into(),
        }
    }

    /// Where the line that the set has in this way is noted.
    #[inline]
    fn place(&self, set: usize, way: usize) -> usize {
        way * self.sets.len() + set
    }

    /// The way of the set that has the line.
    #[inline]
    fn find(&self, set: usize, line: Hashed) -> Option<usize> {
        self.sets[set].find(line, |way| {
            self.lines[self.place(set, way)] & !DIRTY == line.line
        })
    }

    #[inline]
    fn set_of(&self, line: Hashed) -> usize {
        let sets = self.sets.len() as u64;
        // Pages begin anywhere, their lines are in sets one after the other. Multiplication instead
        // of a modulus: sets need not be a power of two.
        let first = (u128::from(line.hash) * u128::from(sets)) >> 64;
        let set = first as u64 + (line.line & ((1 << PAGE_LINES_LOG2) - 1));
        // Divisions take long, and only caches of less than a page need one.
        let set = match set.checked_sub(sets) {
            None => set,
            Some(wrapped) if wrapped < sets => wrapped,
            Some(wrapped) => wrapped % sets,
        };
        set as usize
    }

    /// Whether the line was modified, or `None` where it is not there; makes it the most recently used, modified
    /// if `dirty`.
    #[inline]
    pub(crate) fn touch(&mut self, line: Hashed, dirty: bool) -> Option<bool> {
        let set = self.set_of(line);
        let way = self.find(set, line)?;
        let place = self.place(set, way);
        let was_dirty = self.lines[place] & DIRTY != 0;
        if dirty {
            self.lines[place] |= DIRTY;
        }
        let set = &mut self.sets[set];
        if set.order & 0xf != way as u64 {
            set.raise(set.rank(way), way);
        }
        Some(was_dirty)
    }

    /// Marks a line as not modified, wherever it is in the order; whether it was.
    pub(crate) fn clean(&mut self, line: Hashed) -> bool {
        let set = self.set_of(line);
        let Some(way) = self.find(set, line) else {
            return false;
        };
        let place = self.place(set, way);
        let was_dirty = self.lines[place] & DIRTY != 0;
        self.lines[place] &= !DIRTY;
        was_dirty
    }

    /// Puts a line in that is not there and returns the one that leaves, with whether it was
    /// modified.
    #[inline]
    pub(crate) fn insert(&mut self, line: Hashed, dirty: bool) -> Option<(u64, bool)> {
        let at = self.set_of(line);
        let last = self.ways - 1;
        let set = &mut self.sets[at];
        let way = (set.order >> (4 * last) & 0xf) as usize;
        set.raise(last, way);
        set.set_tag(way, line.tag());
        let entry = line.line | if dirty { DIRTY } else { 0 };
        let place = self.place(at, way);
        let leaves = std::mem::replace(&mut self.lines[place], entry);
        (leaves != INVALID).then_some((leaves & !DIRTY, leaves & DIRTY != 0))
    }

    /// Whether the line is there; changes nothing.
    #[inline]
    pub(crate) fn contains(&self, line: Hashed) -> bool {
        self.find(self.set_of(line), line).is_some()
    }

    /// Takes a line out; whether it was modified, or `None` if it was not there.
    #[inline]
    pub(crate) fn remove(&mut self, line: Hashed) -> Option<bool> {
        let at = self.set_of(line);
        let way = self.find(at, line)?;
        let place = self.place(at, way);
        let entry = std::mem::replace(&mut self.lines[place], INVALID);
        let set = &mut self.sets[at];
        set.lower(set.rank(way), way, self.ways);
        set.set_tag(way, 0);
        Some(entry & DIRTY != 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_least_recently_used_line_of_a_set_leaves() {
        let mut cache = Cache::new(128, 2);
        let [one, two, three, four] = [1, 2, 3, 4].map(Hashed::new);
        assert_eq!(cache.insert(one, true), None);
        assert_eq!(cache.insert(two, false), None);
        assert_eq!(cache.touch(one, false), Some(true));
        assert_eq!(cache.insert(three, false), Some((2, false)));
        assert_eq!(cache.insert(four, false), Some((1, true)));
        assert_eq!(cache.touch(one, false), None);
        assert_eq!(cache.touch(three, true), Some(false));
        assert!(cache.clean(three) && !cache.clean(three) && !cache.clean(one));
        assert_eq!(cache.remove(three), Some(false));
        assert_eq!(cache.remove(three), None);
    }

    /// A set as a list of lines, the most recently used first.
    #[derive(Default)]
    struct Listed(Vec<(u64, bool)>);

    impl Listed {
        fn take(&mut self, line: u64) -> Option<bool> {
            let place = self.0.iter().position(|(other, _)| *other == line)?;
            Some(self.0.remove(place).1)
        }

        fn put(&mut self, line: u64, dirty: bool, ways: usize) -> Option<(u64, bool)> {
            self.0.insert(0, (line, dirty));
            if self.0.len() > ways {
                self.0.pop()
            } else {
                None
            }
        }
    }

    proptest! {
        #[test]
        fn sets_behave_as_lists_do(
            ways in 1_u32..=16,
            steps in vec((0_u8..3, 0_u64..600, any::<bool>()), 1..800),
        ) {
            // Lines of few pages, so that tags collide, in one set.
            let mut cache = Cache::new(64 * u64::from(ways), ways);
            let mut listed = Listed::default();
            for (step, line, dirty) in steps {
                let line = line * 13;
                let hashed = Hashed::new(line);
                prop_assert_eq!(cache.contains(hashed), listed.0.iter().any(|(l, _)| *l == line));
                if step == 2 {
                    prop_assert_eq!(cache.remove(hashed), listed.take(line));
                } else if let Some(was) = cache.touch(hashed, dirty) {
                    prop_assert_eq!(listed.take(line), Some(was));
                    listed.put(line, was || dirty, ways as usize);
                } else {
                    prop_assert_eq!(listed.take(line), None);
                    let leaves = cache.insert(hashed, dirty);
                    prop_assert_eq!(leaves, listed.put(line, dirty, ways as usize));
                }
            }
        }
    }

    #[test]
    fn more_ways_than_a_word_has_room_for_are_more_sets() {
        let cache = Cache::new(20 * 64 * 8, 20);
        assert_eq!((cache.ways, cache.sets.len()), (10, 16));
    }
}
