//! The hardware prefetchers of one core: what they track, and which lines are under way.

use super::network::mix;
use super::placement::PAGE_LINES_LOG2;
use super::time::Ps;

const STREAMS: usize = 64;
const LINES: usize = 1024;

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
        let none = PageStream {
            page: u64::MAX,
            last_line: u64::MAX,
            run: 0,
            frontier: 0,
        };
        Self {
            pages: [none; STREAMS],
        }
    }

    #[inline]
    fn slot(page: u64) -> usize {
        mix(page) as usize % STREAMS
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
        *stream = PageStream {
            page,
            last_line: line,
            run,
            frontier,
        };
        stream
    }
}

/// Lines that were requested by prefetches, and when they are in L2: sets of two, in which the line
/// that arrived first gives way.
#[derive(Debug)]
pub(crate) struct PrefetchedLines {
    sets: Box<[[(u64, Ps); 2]]>,
}

impl PrefetchedLines {
    pub(crate) fn new() -> Self {
        Self {
            sets: vec![[(u64::MAX, 0); 2]; LINES / 2].into(),
        }
    }

    #[inline]
    fn set(line: u64) -> usize {
        mix(line) as usize % (LINES / 2)
    }

    #[inline]
    pub(crate) fn contains(&self, line: u64) -> bool {
        self.sets[Self::set(line)]
            .iter()
            .any(|(tag, _)| *tag == line)
    }

    #[inline]
    pub(crate) fn insert(&mut self, line: u64, ready: Ps) {
        let set = &mut self.sets[Self::set(line)];
        let oldest = usize::from(set[1].1 < set[0].1);
        set[oldest] = (line, ready);
    }

    #[inline]
    pub(crate) fn take(&mut self, line: u64) -> Option<Ps> {
        let set = &mut self.sets[Self::set(line)];
        let found = set.iter_mut().find(|(tag, _)| *tag == line)?;
        let ready = found.1;
        *found = (u64::MAX, 0);
        Some(ready)
    }
}
