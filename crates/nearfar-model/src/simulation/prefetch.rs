//! The hardware prefetchers of one core: what they track, and which lines are under way.

use super::placement::PAGE_LINES_LOG2;
use super::time::Ps;

const STREAMS: usize = 64;
const LINES: usize = 1024;
/// Spreads neighbours over a table: 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// One page that the streamer follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageStream {
    pub page: u64,
    pub last_line: u64,
    pub run: u32,
    pub frontier: u64,
}

/// Pages that the streamer follows, replaced by hash.
#[derive(Debug)]
pub(crate) struct Streams {
    pages: [PageStream; STREAMS],
}

impl Streams {
    pub(crate) fn new() -> Self {
        let none = PageStream { page: u64::MAX, last_line: u64::MAX, run: 0, frontier: 0 };
        Self { pages: [none; STREAMS] }
    }

    #[inline]
    fn slot(page: u64) -> usize {
        (page.wrapping_mul(SPREAD) >> 58) as usize % STREAMS
    }

    /// Notes an access to `line` and returns the page's stream, its run counted.
    #[inline]
    pub(crate) fn touch(&mut self, line: u64) -> &mut PageStream {
        let page = line >> PAGE_LINES_LOG2;
        let stream = &self.pages[Self::slot(page)];
        let (mut run, mut frontier) = (0, line + 1);
        if stream.page == page {
            if line == stream.last_line + 1 {
                run = stream.run + 1;
                frontier = stream.frontier.max(line + 1);
            } else if line == stream.last_line {
                run = stream.run;
                frontier = stream.frontier;
            }
        }
        let stream = &mut self.pages[Self::slot(page)];
        *stream = PageStream { page, last_line: line, run, frontier };
        stream
    }
}

/// Lines that were requested by prefetches, and when they are in L2. Replaced by hash.
#[derive(Debug)]
pub(crate) struct PrefetchedLines {
    lines: Box<[(u64, Ps)]>,
}

impl PrefetchedLines {
    pub(crate) fn new() -> Self {
        Self { lines: vec![(u64::MAX, 0); LINES].into() }
    }

    #[inline]
    fn slot(line: u64) -> usize {
        (line.wrapping_mul(SPREAD) >> 54) as usize % LINES
    }

    #[inline]
    pub(crate) fn get(&self, line: u64) -> Option<Ps> {
        let (tag, ready) = self.lines[Self::slot(line)];
        (tag == line).then_some(ready)
    }

    #[inline]
    pub(crate) fn insert(&mut self, line: u64, ready: Ps) {
        self.lines[Self::slot(line)] = (line, ready);
    }

    #[inline]
    pub(crate) fn take(&mut self, line: u64) -> Option<Ps> {
        let slot = &mut self.lines[Self::slot(line)];
        if slot.0 != line {
            return None;
        }
        slot.0 = u64::MAX;
        Some(slot.1)
    }
}
