//! The links of a tier, one per direction: servers that all cores share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::core::CoreId;
use crate::clock::Stamp;

/// For how long after its last transfer a core counts as one that uses the link, at least: far longer
/// than the work on a chunk, so that a core between two chunks counts.
const IDLE_NS_MIN: u64 = 10_000_000;

/// Both directions of a tier.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) read: Link,
    pub(super) write: Link,
    /// The engines of the machine that copy, where it has any.
    pub(super) engines: Option<Engines>,
}

/// Engines that copy while cores work: a server of their own in front of the link, one after the other.
#[derive(Debug)]
pub(super) struct Engines {
    id: CoreId,
    link: Link,
}

impl Engines {
    /// Engines of `bandwidth_bytes_per_s` all together, idle.
    pub(super) fn new(bandwidth_bytes_per_s: f64) -> Self {
        Self {
            id: CoreId::new(),
            link: Link::new(bandwidth_bytes_per_s),
        }
    }

    pub(super) fn bandwidth_bytes_per_s(&self) -> f64 {
        self.link.bandwidth_bytes_per_s()
    }

    /// When the next `bytes`, asked for `now`, have passed the engines and `link`, behind all that passes these before.
    pub(super) fn pass(&self, link: &Link, now: Stamp, bytes: u64) -> Stamp {
        let of_engines = self.link.pass_in_turn(self.id, now, bytes);
        of_engines.max(link.pass_in_turn(self.id, now, bytes))
    }
}

/// A link that serves one transfer after another.
///
/// Reserved intervals never overlap, so that all cores together get no more than the link has as long
/// as each asks for its next transfer when the last one has ended.
#[derive(Debug)]
pub(super) struct Link {
    ns_per_byte: f64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the last reserved transfer ends.
    free_at: Stamp,
    users: Vec<User>,
}

/// A core that uses the link, until a moment unless it goes on.
#[derive(Debug)]
struct User {
    core: CoreId,
    until: Stamp,
}

/// A transfer that a core asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    pub(super) core: CoreId,
    /// When it begins at the earliest.
    pub(super) start: Stamp,
    /// When it has passed the core.
    pub(super) core_end: Stamp,
    /// Time that it takes of the link.
    pub(super) link_ns: u64,
}

impl Link {
    /// A link of `bandwidth_bytes_per_s`, idle.
    pub(super) fn new(bandwidth_bytes_per_s: f64) -> Self {
        Self {
            ns_per_byte: 1e9 / bandwidth_bytes_per_s,
            state: Mutex::default(),
        }
    }

    pub(super) fn ns_per_byte(&self) -> f64 {
        self.ns_per_byte
    }

    pub(super) fn bandwidth_bytes_per_s(&self) -> f64 {
        1e9 / self.ns_per_byte
    }

    /// When `transfer` has passed its core and the link.
    ///
    /// The link serves its transfers in the order of their requests, but delays no core below an equal
    /// share of it: the earlier of the two ends counts.
    pub(super) fn pass(&self, transfer: Transfer) -> Stamp {
        let Transfer {
            core,
            start,
            core_end,
            link_ns,
        } = transfer;
        let mut state = self.state();
        let in_turn = state.reserve(start, link_ns);
        let users = state.users_with(core, start);
        let at_equal_share = start.plus_ns(link_ns.saturating_mul(users));
        let end = core_end.max(in_turn.min(at_equal_share));
        state.uses(core, (start, end));
        end
    }

    /// When `bytes` of a core that waits for its turn, however long that takes, have passed.
    fn pass_in_turn(&self, core: CoreId, now: Stamp, bytes: u64) -> Stamp {
        let mut state = self.state();
        let end = state.reserve(now, (bytes as f64 * self.ns_per_byte).round() as u64);
        state.users_with(core, now);
        state.uses(core, (now, end));
        end
    }

    /// Forgets a core.
    pub(super) fn leave(&self, core: CoreId) {
        self.state().users.retain(|user| user.core != core);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Reserves `duration_ns` from `earliest` or from when the link is free, whichever is later, and
    /// returns the end.
    fn reserve(&mut self, earliest: Stamp, duration_ns: u64) -> Stamp {
        self.free_at = self.free_at.max(earliest).plus_ns(duration_ns);
        self.free_at
    }

    /// `core` uses the link from `start` to `end`, and goes on unless it is idle for long.
    fn uses(&mut self, core: CoreId, (start, end): (Stamp, Stamp)) {
        let idle_ns = end.since_ns(start).max(IDLE_NS_MIN);
        let until = end.plus_ns(idle_ns);
        self.users.push(User { core, until });
    }

    /// Takes `core` out, and those that have not used the link for long at `now`; how many there are
    /// with it.
    fn users_with(&mut self, core: CoreId, now: Stamp) -> u64 {
        self.users
            .retain(|user| user.core != core && user.until >= now);
        self.users.len() as u64 + 1
    }
}

/// Turns bytes into whole nanoseconds at a fixed rate and carries the remainder, so that many
/// small transfers take as long as one large one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    ns_per_byte: f64,
    remainder_ns: f64,
}

impl Meter {
    pub(super) fn new(ns_per_byte: f64) -> Self {
        Self {
            ns_per_byte,
            remainder_ns: 0.0,
        }
    }

    /// Whole nanoseconds that `bytes` take.
    pub(super) fn take_ns(&mut self, bytes: u64) -> u64 {
        let exact_ns = bytes as f64 * self.ns_per_byte + self.remainder_ns;
        let whole_ns = exact_ns.floor();
        self.remainder_ns = exact_ns - whole_ns;
        whole_ns as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(core: CoreId, start_ns: u64, link_ns: u64) -> Transfer {
        let start = Stamp::from_ns(start_ns);
        Transfer {
            core,
            start,
            core_end: start,
            link_ns,
        }
    }

    #[test]
    fn reservations_queue_and_skip_idle_time() {
        let mut state = State::default();
        assert_eq!(state.reserve(Stamp::from_ns(100), 10).as_ns(), 110);
        assert_eq!(state.reserve(Stamp::from_ns(105), 10).as_ns(), 120);
        assert_eq!(state.reserve(Stamp::from_ns(500), 10).as_ns(), 510);
    }

    #[test]
    fn a_core_waits_for_no_more_than_an_equal_share() {
        let link = Link::new(1e9);
        let (large, small) = (CoreId::new(), CoreId::new());
        assert_eq!(link.pass(transfer(large, 0, 1000)).as_ns(), 1000);
        assert_eq!(link.pass(transfer(small, 0, 10)).as_ns(), 20);
    }

    #[test]
    fn a_core_that_has_left_or_long_been_idle_has_no_share() {
        let end_ns = |leaves: bool, later_ns| {
            let link = Link::new(1e9);
            let (one, other) = (CoreId::new(), CoreId::new());
            link.pass(transfer(one, 0, 1000));
            if leaves {
                link.leave(one);
            }
            link.pass(transfer(other, later_ns, 10))
                .since_ns(Stamp::from_ns(later_ns))
        };
        assert_eq!(end_ns(false, 500), 20, "it has a share");
        assert_eq!(end_ns(true, 500), 10);
        assert_eq!(end_ns(false, 2000 + IDLE_NS_MIN), 10);
    }

    #[test]
    fn a_meter_loses_nothing_to_rounding() {
        let mut meter = Meter::new(0.3);
        let total_ns: u64 = (0..10_000).map(|_| meter.take_ns(1)).sum();
        assert!((2_999..=3_000).contains(&total_ns), "{total_ns}");
    }
}
