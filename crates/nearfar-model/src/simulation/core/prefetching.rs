//! What the prefetchers of a core see, and what they fetch.

use super::{PAIRS_BUSY, Shared, VirtualCore, line_in_page};
use crate::simulation::pending::UNANSWERED;
use crate::simulation::placement::PAGE_LINES_LOG2;
use crate::simulation::requests::{Purpose, Target};
use crate::simulation::time::Ps;
use crate::simulation::window::{Action, Slot, flags};

impl VirtualCore {
    /// Shows loads ahead of the head to the prefetchers, in program order.
    #[inline]
    pub(super) fn expose<const CACHED: bool>(&mut self, now: Ps, shared: &mut Shared) {
        self.ahead_blocked = false;
        while let Some((slot, ahead)) = self.window.unseen() {
            let (line, flags) = (slot.line, slot.flags);
            if ahead && flags & (flags::DEPENDS | flags::FENCED) != 0 {
                return;
            }
            if flags & flags::SEEN_AHEAD != 0 {
                if ahead && self.is_l2_full(now) {
                    self.ahead_blocked = true;
                    return;
                }
                let (stream, covered) = self.follow::<CACHED>(now, (line, false), shared);
                if ahead && covered && !self.streams.is_under_way(stream, line_in_page(line)) {
                    self.prefetch(now, stream, (line, false), shared);
                }
            }
            self.window.mark_seen();
        }
    }

    /// Lets the streamer see an access to `line`, of a store if it has to `own` it; where it follows
    /// the page, and whether it had predicted the line.
    #[inline(always)]
    pub(super) fn follow<const CACHED: bool>(
        &mut self,
        now: Ps,
        (line, own): (u64, bool),
        shared: &mut Shared,
    ) -> (usize, bool) {
        let page = line >> PAGE_LINES_LOG2;
        let map = &shared.map;
        let at = self
            .streams
            .touch(page, line_in_page(line), || map.device(page));
        if self.limits.distance == 0 {
            return (at, false);
        }
        let run = self.streams.get(at).run;
        if run < self.limits.trigger {
            // The spatial prefetcher completes pairs of lines.
            return (at, run > 0 && line & 1 == 1);
        }
        self.run_ahead::<CACHED>(now, at, (line, own), shared);
        (at, true)
    }

    /// The spatial prefetcher: where L2 has missed a line and few misses are under way, the other
    /// line of its pair is fetched too.
    pub(super) fn complete_pair(&mut self, now: Ps, slot: Slot, shared: &mut Shared) {
        if !self.completes_pairs {
            return;
        }
        self.l2_taken -= self.l2_queue.drop_until(now);
        let other = slot.line ^ 1;
        // Caches list the lines of the window already.
        let is_cached = || self.caches.contains(other, shared.levels.as_ref());
        if self.l2_taken > PAIRS_BUSY || !self.window.awaits(other) && is_cached() {
            return;
        }
        let (page, in_page) = (slot.line >> PAGE_LINES_LOG2, line_in_page(slot.line));
        let map = &shared.map;
        let at = match self.streams.find(page) {
            Some(at) => at,
            None => self.streams.touch(page, in_page, || map.device(page)),
        };
        if !self.streams.is_under_way(at, line_in_page(other)) {
            let own = slot.action == Action::Store;
            self.prefetch(now, at, (other, own), shared);
        }
    }

    /// Prefetches the next lines of a page that the streamer follows.
    #[inline(never)]
    fn run_ahead<const CACHED: bool>(
        &mut self,
        now: Ps,
        at: usize,
        (line, own): (u64, bool),
        shared: &mut Shared,
    ) {
        let in_page = line_in_page(line);
        let page = line - u64::from(in_page);
        let end = (in_page + 1 + self.limits.distance).min(1 << PAGE_LINES_LOG2);
        let mut frontier = self.streams.get(at).frontier;
        let until = end.min(frontier + 2);
        while frontier < until {
            let wanted = page + u64::from(frontier);
            let is_cached = || CACHED && self.caches.contains(wanted, shared.levels.as_ref());
            if !self.streams.is_under_way(at, frontier) && !is_cached() {
                if self.is_l2_full(now) {
                    break;
                }
                self.prefetch(now, at, (wanted, own), shared);
            }
            frontier += 1;
        }
        self.streams.set_frontier(at, frontier);
    }

    #[inline]
    fn prefetch(&mut self, now: Ps, at: usize, (line, own): (u64, bool), shared: &mut Shared) {
        let request = shared.requests.len() - self.first_request;
        let mark = UNANSWERED | request as u64;
        let place = self.streams.insert(at, line_in_page(line), mark);
        let target = Target::new(line, self.streams.get(at).device);
        self.l2_taken += 1;
        let asked = Self::asked(own);
        self.ask(now, target, asked, Purpose::Prefetch(place), shared);
    }
}
