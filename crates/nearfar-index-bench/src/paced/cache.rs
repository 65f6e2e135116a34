//! Lines that a core finds in its share of the caches.

/// Lines per set.
const WAYS: usize = 8;
/// The least lines: what one operation reads twice, it has.
const LINES_MIN: u64 = 512;
/// Lines are numbered by their address over 64, so that no line has this number.
const NO_LINE: u64 = u64::MAX;

/// The lines of far memory that one thread used last, as many as its share of a cache holds: sets of
/// eight lines, of which the one that was used longest ago goes first.
#[derive(Debug, Clone)]
pub(super) struct LineCache {
    sets: Vec<[u64; WAYS]>,
}

impl LineCache {
    /// An empty one of about so many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let sets = (bytes / 64).max(LINES_MIN) as usize / WAYS;
        Self {
            sets: vec![[NO_LINE; WAYS]; sets],
        }
    }

    /// Uses a line; whether it was there.
    #[inline]
    pub(super) fn touch(&mut self, line: u64) -> bool {
        let hash = line.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let set = (u128::from(hash) * self.sets.len() as u128) >> 64;
        let set = &mut self.sets[set as usize];
        if set[0] == line {
            return true;
        }
        let found = set.iter().position(|held| *held == line);
        for way in (1..=found.unwrap_or(WAYS - 1)).rev() {
            set[way] = set[way - 1];
        }
        set[0] = line;
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_there_and_what_was_used_long_ago_is_not() {
        let mut cache = LineCache::new(1 << 20);
        let lines = (1 << 20) / 64;
        assert!((0..lines / 4).all(|line| !cache.touch(line)));
        assert!((0..lines / 4).all(|line| cache.touch(line)));
        for line in lines..lines * 4 {
            cache.touch(line);
        }
        let left = (0..lines / 4).filter(|line| cache.touch(*line)).count();
        assert!(left < lines as usize / 40, "{left}");
    }
}
