//! Locks that cores wait for, in virtual time.

use std::collections::BTreeMap;

use super::time::Ps;

/// One lock.
#[derive(Debug, Clone, Copy, Default)]
struct Lock {
    free_at: Ps,
    /// The core that was in the section last.
    last: Option<usize>,
}

/// Locks by their lines. Cores get one in the order in which they ask: cores of one round in their
/// order, as they run one after the other in it.
#[derive(Debug, Default)]
pub(crate) struct Locks(BTreeMap<u64, Lock>);

/// What a core asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    /// The line of the lock.
    pub line: u64,
    pub core: usize,
    /// Core time.
    pub own: Ps,
    /// What is added where the lines of the section come from another core.
    pub transfers: Ps,
}

impl Locks {
    /// Takes a lock from `now` on, or as soon as it is free; when it is released.
    pub(crate) fn enter(&mut self, now: Ps, section: Section) -> Ps {
        let lock = self.0.entry(section.line).or_default();
        let comes_from_another = lock.last.is_some_and(|last| last != section.core);
        let transfers = if comes_from_another {
            section.transfers
        } else {
            0
        };
        lock.free_at = lock.free_at.max(now) + section.own + transfers;
        lock.last = Some(section.core);
        lock.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_one_lock_follow_each_other() {
        let mut locks = Locks::default();
        let section = |line, core| Section {
            line,
            core,
            own: 10,
            transfers: 100,
        };
        assert_eq!(locks.enter(0, section(1, 0)), 10);
        assert_eq!(locks.enter(50, section(1, 0)), 60, "its lines are there");
        assert_eq!(locks.enter(55, section(1, 1)), 170);
        assert_eq!(locks.enter(100, section(1, 0)), 280);
        assert_eq!(locks.enter(100, section(2, 0)), 110, "another lock");
    }
}
