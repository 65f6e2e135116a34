//! What a core waits for: loads that others depend on, and lines on their way.

use super::time::Ps;

/// Marks a time that is not known yet: the place of a request is in the bits below.
pub(crate) const UNANSWERED: Ps = 1 << 63;
/// Marks an unknown time that is a hit of L2 after the answer.
pub(crate) const AFTER_ANSWER: Ps = 1 << 62;

/// What an operation waits for that depends on those before: the loads since the last operation that
/// waited. Stores and software prefetches give nothing to wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chain {
    known: Ps,
    /// Loads that wait for an answer of this round.
    unanswered: usize,
    /// Where they begin among the core's requests of this round, and among its lines that wait.
    since: (usize, usize),
}

impl Chain {
    #[inline]
    pub(crate) fn add(&mut self, done: Ps) {
        if done & UNANSWERED == 0 {
            self.known = self.known.max(done);
        } else {
            self.unanswered += 1;
        }
    }

    /// Begins again with what comes behind so many of the core's requests and waiting lines.
    #[inline]
    pub(crate) fn clear(&mut self, since: (usize, usize)) {
        self.known = 0;
        self.unanswered = 0;
        self.since = since;
    }

    /// When all of them are done; `None` where an answer of this round decides.
    #[inline]
    pub(crate) fn done(&self) -> Option<Ps> {
        (self.unanswered == 0).then_some(self.known)
    }

    /// The load with the core's request `index` is done.
    #[inline]
    pub(crate) fn answer_request(&mut self, index: usize, done: Ps) {
        if index >= self.since.0 {
            self.known = self.known.max(done);
        }
    }

    /// The load with the core's waiting line `index` is done.
    #[inline]
    pub(crate) fn answer_waiting(&mut self, index: usize, done: Ps) {
        if index >= self.since.1 {
            self.known = self.known.max(done);
        }
    }

    /// All answers of the round were told of.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.unanswered = 0;
        self.since = (0, 0);
    }
}

/// Lines that caches list already and that are still on their way to them. Of two lines with one
/// place, the older one is forgotten.
#[derive(Debug)]
pub(crate) struct InFlight {
    lines: Box<[(u64, Ps); Self::PLACES]>,
}

impl InFlight {
    /// Several times as many as the L2 queue has places.
    const PLACES: usize = 256;

    pub(crate) fn new() -> Self {
        Self {
            lines: Box::new([(u64::MAX, 0); Self::PLACES]),
        }
    }

    #[inline]
    fn place(line: u64) -> usize {
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
    }

    #[inline]
    pub(crate) fn insert(&mut self, line: u64, done: Ps) {
        self.lines[Self::place(line)] = (line, done);
    }

    #[inline]
    pub(crate) fn find(&self, line: u64) -> Option<Ps> {
        let (noted, done) = self.lines[Self::place(line)];
        (noted == line).then_some(done)
    }

    /// Replaces the mark of a line, where it is still the line's. Marks are all different.
    #[inline]
    pub(crate) fn answer(&mut self, line: u64, mark: Ps, done: Ps) {
        let noted = &mut self.lines[Self::place(line)].1;
        if *noted == mark {
            *noted = done;
        }
    }
}

/// The loads that are not retired, oldest first: a core goes on for a while behind a load that is not
/// done, until what it has begun since fills its instruction window.
#[derive(Debug)]
pub(crate) struct Reorder {
    /// Core time that fits the window.
    window: Ps,
    /// Core time of all that was issued.
    position: Ps,
    /// Positions of loads, and when they are done; those before `first` are retired.
    loads: Vec<(Ps, Ps)>,
    first: usize,
    /// Loads of this round at the end whose times may be marks.
    fresh: usize,
}

impl Reorder {
    /// Retired loads that are kept at most, so that the others seldom have to move.
    const RETIRED: usize = 1024;

    pub(crate) fn new(window: Ps) -> Self {
        Self {
            window,
            position: 0,
            loads: Vec::new(),
            first: 0,
            fresh: 0,
        }
    }

    /// When there is room for what takes `compute` more core time; `None` where an answer of this
    /// round decides.
    #[inline]
    pub(crate) fn room(&self, compute: Ps) -> Option<Ps> {
        let end = (self.position + compute).saturating_sub(self.window);
        let mut latest = 0;
        for (position, done) in &self.loads[self.first..] {
            if *position >= end {
                break;
            }
            if *done & UNANSWERED != 0 {
                return None;
            }
            latest = latest.max(*done);
        }
        Some(latest)
    }

    /// Notes what was issued, and, of a load, when it is done.
    #[inline]
    pub(crate) fn issue(&mut self, compute: Ps, load: Option<Ps>) {
        self.position += compute;
        let end = self.position.saturating_sub(self.window);
        while let Some((position, _)) = self.loads.get(self.first)
            && *position < end
        {
            self.first += 1;
        }
        if self.first >= Self::RETIRED {
            self.loads.drain(..self.first);
            self.first = 0;
        }
        self.fresh = self.fresh.min(self.loads.len() - self.first);
        if let Some(done) = load {
            self.loads.push((self.position, done));
            self.fresh += 1;
        }
    }

    pub(crate) fn settle(&mut self, answer: impl Fn(Ps) -> Ps) {
        let fresh = std::mem::take(&mut self.fresh);
        let old = self.loads.len() - fresh;
        for (_, done) in &mut self.loads[old..] {
            if *done & UNANSWERED != 0 {
                *done = answer(*done);
            }
        }
    }
}
