//! The hardware prefetchers of one core: which pages they follow, and which lines are under way.

use super::network::DeviceIndex;
use super::placement::PAGE_LINES_LOG2;
use super::requests::Place;
use super::time::Ps;

const PAGE_LINES: usize = 1 << PAGE_LINES_LOG2;
const SETS_LOG2: u32 = 4;
const WAYS: usize = 2;
const PAGES: usize = WAYS << SETS_LOG2;
/// No line of a page comes after this one.
const NO_LINE: u8 = u8::MAX - 1;

/// One page that the streamer follows. Lines count from its first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageStream {
    /// Lines that were requested by prefetches and not used yet, a bit each.
    pub under_way: u64,
    pub run: u32,
    pub last: u8,
    pub frontier: u8,
    pub device: DeviceIndex,
}

/// Pages that the streamer follows: sets of two by a hash, so that parallel streams rarely share
/// one; the page that was used last stays. What was prefetched of a page that leaves is forgotten.
#[derive(Debug)]
pub(crate) struct Streams {
    tags: [u64; PAGES],
    pages: [PageStream; PAGES],
    /// The way of each set that was used last.
    recent: [u8; 1 << SETS_LOG2],
    /// When prefetched lines are in L2, by page and line.
    ready: Box<[Ps; PAGES * PAGE_LINES]>,
}

impl Streams {
    pub(crate) fn new() -> Self {
        let none = PageStream {
            under_way: 0,
            run: 0,
            last: NO_LINE,
            frontier: 0,
            device: 0,
        };
        Self {
            tags: [u64::MAX; PAGES],
            pages: [none; PAGES],
            recent: [0; 1 << SETS_LOG2],
            ready: Box::new([0; PAGES * PAGE_LINES]),
        }
    }

    #[inline]
    fn set(page: u64) -> usize {
        (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SETS_LOG2)) as usize
    }

    /// Where a page is followed.
    #[inline]
    pub(crate) fn find(&self, page: u64) -> Option<usize> {
        let first = Self::set(page) * WAYS;
        if self.tags[first] == page {
            return Some(first);
        }
        (self.tags[first + 1] == page).then_some(first + 1)
    }

    /// Notes an access to line `line` of `page` and returns where the page is followed.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        page: u64,
        line: u8,
        device: impl FnOnce() -> DeviceIndex,
    ) -> usize {
        let set = Self::set(page);
        let Some(at) = self.find(page) else {
            let at = set * WAYS + 1 - usize::from(self.recent[set]);
            self.recent[set] ^= 1;
            self.tags[at] = page;
            self.pages[at] = PageStream {
                under_way: 0,
                run: 0,
                last: line,
                frontier: line + 1,
                device: device(),
            };
            return at;
        };
        self.recent[set] = (at % WAYS) as u8;
        let stream = &mut self.pages[at];
        if line == stream.last + 1 {
            stream.run += 1;
            stream.frontier = stream.frontier.max(line + 1);
        } else if line != stream.last {
            stream.run = 0;
            stream.frontier = line + 1;
        }
        stream.last = line;
        at
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> &PageStream {
        &self.pages[at]
    }

    /// Notes up to where the streamer has gone.
    #[inline]
    pub(crate) fn set_frontier(&mut self, at: usize, frontier: u8) {
        self.pages[at].frontier = frontier;
    }

    #[inline]
    pub(crate) fn is_under_way(&self, at: usize, line: u8) -> bool {
        self.pages[at].under_way >> line & 1 != 0
    }

    /// Notes a prefetch of a line; `ready` may be a mark until the answer is there.
    #[inline]
    pub(crate) fn insert(&mut self, at: usize, line: u8, ready: Ps) -> Place {
        let place = at * PAGE_LINES + usize::from(line);
        self.pages[at].under_way |= 1 << line;
        self.ready[place] = ready;
        place as Place
    }

    /// Replaces the mark of a prefetch, where it is still the line's.
    #[inline]
    pub(crate) fn answer(&mut self, place: Place, mark: Ps, ready: Ps) {
        let noted = &mut self.ready[usize::from(place)];
        if *noted == mark {
            *noted = ready;
        }
    }

    /// Takes a line that was prefetched: what [`Self::insert`] noted of it.
    #[inline]
    pub(crate) fn take(&mut self, at: usize, line: u8) -> Option<Ps> {
        let stream = &mut self.pages[at];
        let under_way = stream.under_way >> line & 1 != 0;
        stream.under_way &= !(1 << line);
        under_way.then(|| self.ready[at * PAGE_LINES + usize::from(line)])
    }
}
