//! Lines that a thread finds in its share of the caches.

/// Lines per set.
const WAYS: usize = 8;
/// The least lines: what one operation reads twice, it has.
const LINES_MIN: u64 = 512;
/// No line: those are numbered by their address over 64.
const NO_LINE: u64 = u64::MAX >> 1;

/// The lines of far memory that one thread used last, as many as its share of a cache holds: sets of
/// eight lines, of which the one that was used longest ago goes first.
#[derive(Debug, Clone)]
pub(super) struct LineCache {
    /// Numbers of lines times two, and one more where the line was changed.
    sets: Vec<[u64; WAYS]>,
}

/// What became of the use of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Touched {
    /// The line was there.
    pub(super) is_hit: bool,
    /// A line that was changed made room, and is written back.
    pub(super) writes_back: bool,
}

impl LineCache {
    /// An empty one of about so many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let sets = (bytes / 64).max(LINES_MIN) as usize / WAYS;
        Self {
            sets: vec![[NO_LINE << 1; WAYS]; sets],
        }
    }

    /// Uses a line, and changes it or not.
    #[inline]
    pub(super) fn touch(&mut self, line: u64, changes: bool) -> Touched {
        let hash = line.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let set = (u128::from(hash) * self.sets.len() as u128) >> 64;
        let set = &mut self.sets[set as usize];
        let way = set.iter().position(|held| held >> 1 == line);
        let held = set[way.unwrap_or(WAYS - 1)];
        for later in (1..=way.unwrap_or(WAYS - 1)).rev() {
            set[later] = set[later - 1];
        }
        let was_changed = way.is_some() && held & 1 == 1;
        set[0] = line << 1 | u64::from(changes || was_changed);
        Touched {
            is_hit: way.is_some(),
            writes_back: way.is_none() && held & 1 == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: u64 = 1 << 14;

    fn hits(cache: &mut LineCache, lines: std::ops::Range<u64>) -> usize {
        lines
            .filter(|line| cache.touch(*line, false).is_hit)
            .count()
    }

    #[test]
    fn what_was_used_last_is_there_and_what_was_used_long_ago_is_not() {
        let mut cache = LineCache::new(LINES * 64);
        assert_eq!(hits(&mut cache, 0..LINES / 4), 0);
        assert_eq!(hits(&mut cache, 0..LINES / 4), LINES as usize / 4);
        hits(&mut cache, LINES..LINES * 4);
        let left = hits(&mut cache, 0..LINES / 4);
        assert!(left < LINES as usize / 40, "{left}");
    }

    #[test]
    fn a_changed_line_is_written_back_once() {
        let mut cache = LineCache::new(LINES * 64);
        for _ in 0..3 {
            assert!(!cache.touch(7, true).writes_back);
        }
        assert!(cache.touch(7, false).is_hit);
        let others = LINES..LINES * 9;
        let written = others.filter(|line| cache.touch(*line, false).writes_back);
        assert_eq!(written.count(), 1);
    }
}
