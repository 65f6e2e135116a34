//! What becomes of the head of the window: hits, lines that are brought, and lines that are sent away.

use super::{Shared, VirtualCore, Waiting, line_in_page};
use crate::simulation::network::{Asked, mix};
use crate::simulation::pending::{AFTER_ANSWER, UNANSWERED};
use crate::simulation::placement::PAGE_LINES_LOG2;
use crate::simulation::requests::{Purpose, Request, Target};
use crate::simulation::time::{NEVER, Ps};
use crate::simulation::window::{Action, Slot, flags};

impl VirtualCore {
    /// Issues the head; false if the L2 queue has no place for it.
    #[inline]
    pub(super) fn issue<const CACHED: bool>(&mut self, now: Ps, shared: &mut Shared) -> bool {
        let mut slot = *self.window.head();
        if !CACHED && slot.is_plain_load() && self.slots.is_none() && self.waits.is_none() {
            return self.issue_plain_load(now, slot, shared);
        }
        let since = (
            shared.requests.len() - self.first_request,
            self.waiting.len(),
        );
        if self.slots.is_some() {
            self.count_time(now);
        }
        let waited = self.waits.is_some().then(|| self.head_waited(now, slot));
        let Some(done) = self.carry_out::<CACHED>(now, slot, shared) else {
            return false;
        };
        if slot.action == Action::Compute && slot.flags & flags::SAMPLED != 0 {
            self.time_together(now);
            slot.flags &= !flags::SAMPLED;
        }
        if let Some((waits, waited)) = self.waits.as_mut().zip(waited) {
            waits.lines += 1;
            waits.fill_buffers += waited.0;
            waits.l2_queue += waited.1;
        }
        if slot.flags & flags::FILL_BUFFER != 0 {
            self.fill_buffers.take();
        }
        if done & UNANSWERED == 0 {
            self.complete(now, done, slot.flags);
        }
        if slot.flags & flags::DEPENDS != 0 || slot.action == Action::Compute {
            self.chain.clear(since);
        }
        let stored = slot.flags & flags::STORED != 0;
        let is_access = slot.is_access();
        let is_load = !stored && slot.flags & flags::PREFETCH == 0 && is_access;
        if is_load {
            self.chain.add(done);
        }
        if CACHED && let Some(reorder) = &mut self.reorder {
            reorder.issue(slot.instructions(), is_load.then_some(done));
        }
        if is_access {
            self.counts.bytes[usize::from(stored)] += u64::from(slot.bytes);
            self.counts.lines += 1;
        }
        self.note_issued(now, slot, stored && done & UNANSWERED != 0);
        self.issued_at = now;
        if self.slots.is_some() {
            self.count_miss(now, done, is_access && slot.flags & flags::PREFETCH == 0);
        }
        self.window.drop_head();
        if CACHED && !self.evicted.is_empty() {
            self.write_evicted(now, shared);
        }
        true
    }

    /// Does what the head asks for: when it is done, or a mark; `None` if the L2 queue has no place for it.
    #[inline]
    fn carry_out<const CACHED: bool>(
        &mut self,
        now: Ps,
        slot: Slot,
        shared: &mut Shared,
    ) -> Option<Ps> {
        Some(match slot.action {
            Action::Load | Action::Store => return self.bring::<CACHED>(now, slot, shared),
            Action::Compute | Action::Refill => now,
            Action::CriticalSection => {
                self.in_section = false;
                now
            }
            Action::Lock => {
                self.locking.has_word = false;
                now
            }
            Action::Unlock | Action::UnlockUnchanged => {
                self.release_word(now, slot, shared);
                now
            }
            Action::Validate => now,
            Action::HitL1 => self.hit(now, slot, self.limits.l1_hit),
            Action::HitL2 => self.hit(now, slot, self.limits.l2_hit),
            Action::HitL3 => {
                self.complete_pair(now, slot, shared);
                now + self.limits.l3_hit
            }
            Action::HitOther => {
                self.complete_pair(now, slot, shared);
                now + self.transfer()
            }
            Action::Write => self.send(now, slot, shared),
        })
    }

    /// Begins to time operations together, or notes how long those before have taken.
    #[cold]
    fn time_together(&mut self, now: Ps) {
        match self.timed_from.take() {
            None => self.timed_from = Some(now),
            Some(from) => {
                let done = self.ordered_done.max(self.issued_at);
                self.samples.push(done - from);
            }
        }
    }

    /// Tells the counting of slots of what was issued: what it waits for, if that is memory.
    #[inline(never)]
    fn count_miss(&mut self, now: Ps, done: Ps, is_demand: bool) {
        let is_from_memory = done & UNANSWERED != 0 || done > now + self.limits.l3_hit;
        if let Some(slots) = &mut self.slots {
            if is_demand {
                slots.miss(done, is_from_memory);
            }
            slots.next();
        }
    }

    /// How long the head has waited for a fill buffer, and then for a place in the L2 queue.
    #[inline(never)]
    fn head_waited(&self, now: Ps, slot: Slot) -> (Ps, Ps) {
        let wanted = (self.issued_at + Ps::from(slot.compute)).max(self.fence_until);
        let mut ready = wanted;
        if slot.flags & flags::FILL_BUFFER != 0 {
            ready = ready.max(self.fill_buffers.first());
        }
        let depends = slot.flags & (flags::DEPENDS | flags::FENCED) != 0;
        // What waits for data waits for no queue.
        let queued = if depends {
            0
        } else {
            now.saturating_sub(ready)
        };
        (ready - wanted, queued)
    }

    /// As [`Self::issue`], of a plain load where no cache is looked up.
    #[inline]
    fn issue_plain_load(&mut self, now: Ps, slot: Slot, shared: &mut Shared) -> bool {
        let (page, in_page) = (slot.line >> PAGE_LINES_LOG2, line_in_page(slot.line));
        let stream = self.streams.find(page);
        let ready = stream.and_then(|at| self.streams.take(at, in_page));
        if ready.is_none() && self.is_l2_full(now) {
            return false;
        }
        self.fill_buffers.take();
        let done = match ready {
            Some(mark) if mark & UNANSWERED != 0 => self.wait(now, mark | AFTER_ANSWER, slot.flags),
            Some(ready) => {
                let done = ready.max(now) + self.limits.l2_hit;
                self.complete(now, done, slot.flags);
                done
            }
            None => {
                let device = match stream {
                    Some(at) => self.streams.get(at).device,
                    None => shared.map.device(page),
                };
                self.l2_taken += 1;
                self.unanswered += 1;
                let target = Target::new(slot.line, device);
                self.ask(now, target, Asked::Read, Purpose::Load, shared)
            }
        };
        self.in_flight.insert(slot.line, done);
        self.chain.add(done);
        self.note_time(slot);
        self.counts.bytes[0] += u64::from(slot.bytes);
        self.counts.lines += 1;
        self.issued_at = now;
        self.window.drop_head();
        true
    }

    /// Sends a line to memory and notes that it waits for the acknowledgement.
    #[inline]
    fn send(&mut self, now: Ps, slot: Slot, shared: &mut Shared) -> Ps {
        let device = shared.map.device(slot.line >> PAGE_LINES_LOG2);
        let target = Target::new(slot.line, device);
        // Who waits for a write waits for its acknowledgement.
        let is_awaited = slot.flags & (flags::SAMPLED | flags::FENCED) != 0;
        let (asked, posted) = if slot.flags & flags::STORED == 0 || is_awaited {
            (Asked::Write, 0)
        } else {
            (Asked::Post, flags::POSTED)
        };
        let done = self.ask(now, target, asked, Purpose::Write, shared);
        self.wait(now, done, slot.flags | posted)
    }

    /// When a line is there that a cache has, or will have once it is filled.
    #[inline]
    fn hit(&mut self, now: Ps, slot: Slot, latency: Ps) -> Ps {
        match self.in_flight.find(slot.line) {
            None => now + latency,
            Some(mark) if mark & UNANSWERED != 0 => self.wait(now, mark, slot.flags),
            Some(done) => done.max(now + latency),
        }
    }

    /// Sends modified lines to memory that have left the caches.
    #[inline(never)]
    fn write_evicted(&mut self, now: Ps, shared: &mut Shared) {
        while let Some(line) = self.evicted.pop() {
            let device = shared.map.device(line >> PAGE_LINES_LOG2);
            self.write_back(now, Target::new(line, device), shared);
        }
    }

    /// Sends a modified line to memory. One that waits in the last level keeps its place in the L2
    /// queue until memory has taken it.
    #[inline]
    fn write_back(&mut self, now: Ps, target: Target, shared: &mut Shared) {
        if self.limits.write_backs_in_table {
            self.ask(now, target, Asked::Write, Purpose::Write, shared);
        } else {
            self.l2_taken += 1;
            self.ask(now, target, Asked::WriteBack, Purpose::WriteBack, shared);
        }
    }

    /// Brings a line to L1; `None` if the L2 queue is full.
    #[inline]
    fn bring<const CACHED: bool>(
        &mut self,
        now: Ps,
        slot: Slot,
        shared: &mut Shared,
    ) -> Option<Ps> {
        let (page, in_page) = (slot.line >> PAGE_LINES_LOG2, line_in_page(slot.line));
        let store = slot.action == Action::Store;
        let stream = if store {
            Some(self.follow::<CACHED>(now, (slot.line, true), shared).0)
        } else {
            self.streams.find(page)
        };
        let (ready, device) = match stream {
            Some(at) => (self.streams.take(at, in_page), self.streams.get(at).device),
            None => (None, shared.map.device(page)),
        };
        let target = Target::new(slot.line, device);
        let done = match ready {
            Some(mark) if mark & UNANSWERED != 0 => self.wait(now, mark | AFTER_ANSWER, slot.flags),
            Some(ready) => ready.max(now) + self.limits.l2_hit,
            None if self.is_l2_full(now) => return None,
            None => {
                self.l2_taken += 1;
                let purpose = if store || slot.flags & flags::PREFETCH != 0 {
                    Purpose::Demand
                } else {
                    Purpose::Load
                };
                let done = self.ask(now, target, Self::asked(store), purpose, shared);
                if slot.flags & (flags::SAMPLED | flags::FENCED) != 0 {
                    self.wait(now, done, slot.flags & !flags::FILL_BUFFER)
                } else {
                    self.unanswered += usize::from(slot.flags & flags::PREFETCH == 0);
                    done
                }
            }
        };
        if CACHED && ready.is_none() {
            self.complete_pair(now, slot, shared);
        }
        self.in_flight.insert(slot.line, done);
        if store && !CACHED {
            let random = mix(slot.line ^ self.counts.lines);
            if let Some(evicted) = self.caches.modify(target, random) {
                self.write_back(now, evicted, shared);
            }
        }
        Some(done)
    }

    /// Notes that the line at the head waits for the answer to a request.
    #[inline]
    fn wait(&mut self, now: Ps, done: Ps, flags: u8) -> Ps {
        self.unanswered += usize::from(flags & flags::PREFETCH == 0);
        if flags & flags::FENCED != 0 {
            self.fence_until = NEVER;
        }
        self.waiting.push(Waiting {
            issued_at: now,
            done,
            flags,
        });
        done
    }

    /// What is asked for where a line is brought, which a store has to own.
    #[inline]
    pub(super) fn asked(own: bool) -> Asked {
        if own { Asked::Ownership } else { Asked::Read }
    }

    /// Notes a request and returns the mark of its answer.
    #[inline]
    pub(super) fn ask(
        &mut self,
        now: Ps,
        target: Target,
        asked: Asked,
        purpose: Purpose,
        shared: &mut Shared,
    ) -> Ps {
        if let Some(slots) = &mut self.slots
            && asked == Asked::Read
        {
            slots.ask(now);
        }
        let place = shared.requests.push(Request {
            time: now,
            target,
            asked,
            purpose,
        });
        UNANSWERED | (place - self.first_request) as u64
    }
}
