//! When the head of the window can be issued.

use super::{Shared, VirtualCore};
use crate::simulation::locks::Section;
use crate::simulation::time::{NEVER, Ps};
use crate::simulation::window::{LINE_BYTES_LOG2, Slot, flags};

impl VirtualCore {
    /// Places that have become free are looked for only when there seems to be none.
    #[inline]
    pub(super) fn is_l2_full(&mut self, now: Ps) -> bool {
        if self.l2_taken < self.limits.l2_queue {
            return false;
        }
        self.l2_taken -= self.l2_queue.drop_until(now);
        self.l2_taken >= self.limits.l2_queue
    }

    /// When there is something to do, given when the head is ready.
    #[inline]
    pub(super) fn wake(&mut self, ready: Ps) -> Ps {
        if self.ahead_blocked {
            ready.min(self.l2_queue.first())
        } else {
            ready
        }
    }

    /// When the head can be issued: its fill buffer is free and what it waits for is there;
    /// [`NEVER`] where an answer of this round decides.
    #[inline]
    pub(super) fn head_ready<const CACHED: bool>(&self) -> Ps {
        let slot = self.window.head();
        let compute = Ps::from(slot.compute);
        let mut ready = (self.issued_at + compute).max(self.fence_until);
        if CACHED && let Some(reorder) = &self.reorder {
            let Some(room) = reorder.room(slot.instructions()) else {
                return NEVER;
            };
            ready = ready.max(room);
        }
        if slot.flags & flags::FILL_BUFFER != 0 {
            ready = ready.max(self.fill_buffers.first());
        }
        if slot.flags & (flags::DEPENDS | flags::FENCED) != 0 {
            ready = self.head_waits(slot, ready);
        }
        ready
    }

    /// Takes the lock that the head needs, or waits for it. Its core time is over at `now` if nobody has
    /// it; nothing is issued before it is released.
    #[cold]
    pub(super) fn enter_section(&mut self, now: Ps, shared: &mut Shared) {
        let head = self.window.head();
        let own = Ps::from(head.compute);
        let lines = Ps::from(head.bytes) >> LINE_BYTES_LOG2;
        let transfers = lines * self.transfer();
        let section = Section {
            line: head.line,
            core: self.number,
            own,
            transfers,
        };
        let released = shared
            .locks
            .sections
            .enter(now.saturating_sub(own), section);
        self.fence_until = self.fence_until.max(released);
        self.in_section = true;
    }

    /// When the lines are done that the head waits for, not before `ready`.
    #[inline(never)]
    fn head_waits(&self, slot: &Slot, mut ready: Ps) -> Ps {
        let compute = Ps::from(slot.compute);
        if slot.flags & flags::DEPENDS != 0 {
            let Some(done) = self.chain.done() else {
                return NEVER;
            };
            ready = ready.max(done + compute);
        }
        if slot.flags & flags::FENCED != 0 {
            if self.unanswered > 0 {
                return NEVER;
            }
            ready = ready.max(self.ordered_done + compute);
        }
        ready
    }
}
