//! How many copiers work.

use super::options::Copiers;

/// Times in a row that nobody had to wait after which one copier less works: a single time says little, and a copier
/// that rests is missed for as long as a chunk takes.
pub(super) const SPARED_IN_A_ROW: usize = if cfg!(loom) { 1 } else { 4 };

/// The copiers that work: those with the lowest numbers. One always does.
#[derive(Debug)]
pub(super) struct Active {
    copiers: Copiers,
    count: usize,
    /// Times in a row that nobody had to wait.
    spared: usize,
}

impl Active {
    pub(super) fn new(copiers: Copiers) -> Self {
        Self {
            copiers,
            count: copiers.active_at_first(),
            spared: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether the copier with this number works.
    pub(super) fn has(&self, copier: usize) -> bool {
        copier < self.count
    }

    /// Somebody waits for a chunk. Whether one more works now.
    pub(super) fn waited_for(&mut self) -> bool {
        self.spared = 0;
        let grows = self.count < self.copiers.threads();
        self.count += usize::from(grows);
        grows
    }

    /// Copies are ahead of those who read them.
    pub(super) fn spared(&mut self) {
        if let Copiers::Fixed(_) = self.copiers {
            return;
        }
        self.spared += 1;
        if self.spared >= SPARED_IN_A_ROW {
            self.spared = 0;
            self.count = (self.count - 1).max(1);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    fn count(number: usize) -> NonZeroUsize {
        NonZeroUsize::new(number).unwrap()
    }

    #[test]
    fn a_number_that_is_fixed_stays() {
        let mut active = Active::new(Copiers::Fixed(count(3)));
        (0..20).for_each(|_| active.spared());
        assert!(!active.waited_for());
        assert_eq!(active.count(), 3);
    }

    #[test]
    fn one_more_for_each_wait_and_one_less_after_some_without() {
        let mut active = Active::new(Copiers::Adaptive(count(3)));
        assert_eq!(active.count(), 1);
        assert!(active.waited_for() && active.waited_for());
        assert!(!active.waited_for(), "there are three");
        for _ in 0..SPARED_IN_A_ROW - 1 {
            active.spared();
        }
        assert!(active.has(2), "too few in a row");
        // A wait between them begins the row again.
        active.waited_for();
        for _ in 0..SPARED_IN_A_ROW - 1 {
            active.spared();
        }
        assert_eq!(active.count(), 3);
        active.spared();
        assert_eq!(active.count(), 2);
        (0..10 * SPARED_IN_A_ROW).for_each(|_| active.spared());
        assert!(active.has(0) && !active.has(1), "one always works");
    }
}
