//! What a core does with the answers of a round.

use super::VirtualCore;
use crate::simulation::cache::CoreCaches;
use crate::simulation::locks::LockWords;
use crate::simulation::network::Asked;
use crate::simulation::pending::{AFTER_ANSWER, UNANSWERED};
use crate::simulation::requests::{Purpose, Requests};
use crate::simulation::time::{NEVER, Ps};
use crate::simulation::window::flags;

impl VirtualCore {
    /// Takes the answers to the round's requests and returns when there is more to do, or
    /// [`NEVER`].
    pub(crate) fn settle(&mut self, requests: &Requests, end: usize, words: &mut LockWords) -> Ps {
        let l2_hit = self.limits.l2_hit;
        let mine = requests.range(self.first_request..end);
        for (index, request) in mine.iter().enumerate() {
            let mark = UNANSWERED | index as u64;
            let time = request.time;
            match request.purpose {
                Purpose::Write => continue,
                // Its place in the L2 queue is all that it holds.
                Purpose::WriteBack => {}
                Purpose::Prefetch(place) => {
                    self.streams.answer(place, mark, time);
                    let line = request.target.line();
                    self.in_flight
                        .answer(line, mark | AFTER_ANSWER, time + l2_hit);
                }
                Purpose::Load | Purpose::Demand => {
                    self.all_done = self.all_done.max(time);
                    if request.asked == Asked::Ownership {
                        self.locking.store(time);
                    }
                    let is_prefetch =
                        request.purpose == Purpose::Demand && request.asked == Asked::Read;
                    if !is_prefetch {
                        self.ordered_done = self.ordered_done.max(time);
                    }
                    let release = time + self.limits.turnaround;
                    self.fill_buffers.release_fill(release);
                    self.in_flight.answer(request.target.line(), mark, time);
                    if request.purpose == Purpose::Load {
                        self.chain.answer_request(index, time);
                    }
                }
            }
            self.l2_queue.insert(time);
        }
        let answer = |done: Ps| {
            let more = if done & AFTER_ANSWER == 0 { 0 } else { l2_hit };
            mine[(done & !(UNANSWERED | AFTER_ANSWER)) as usize].time + more
        };
        self.settle_waiting(answer);
        self.chain.settle();
        if let Some(reorder) = &mut self.reorder {
            reorder.settle(answer);
        }
        if let Some(slots) = &mut self.slots {
            let reads = mine.iter().filter(|request| request.asked == Asked::Read);
            slots.settle(reads.map(|request| request.time), answer);
        }
        self.unanswered = 0;
        self.settle_locks(words);
        if self.window.is_empty() {
            NEVER
        } else if let Some(at) = self.locking.look_again {
            at
        } else if self.head_blocked {
            self.l2_queue.first()
        } else {
            let ready = match &self.caches {
                CoreCaches::Streaming { .. } => self.head_ready::<false>(),
                CoreCaches::Simulated(_) => self.head_ready::<true>(),
            };
            self.wake(ready)
        }
    }

    /// Completes the lines that wait for answers of this round.
    fn settle_waiting(&mut self, answer: impl Fn(Ps) -> Ps) {
        let mut waiting = std::mem::take(&mut self.waiting);
        for (index, line) in waiting.drain(..).enumerate() {
            let done = answer(line.done);
            if line.flags & (flags::STORED | flags::PREFETCH) == 0 {
                self.chain.answer_waiting(index, done);
            }
            self.complete(line.issued_at, done, line.flags);
        }
        self.waiting = waiting;
    }

    /// Notes when a line is done.
    #[inline]
    pub(super) fn complete(&mut self, issued_at: Ps, done: Ps, flags: u8) {
        self.all_done = self.all_done.max(done);
        if flags & flags::PREFETCH == 0 {
            self.ordered_done = self.ordered_done.max(done);
        }
        if flags & flags::STORED != 0 {
            self.locking.store(done);
        }
        if flags & flags::FILL_BUFFER != 0 {
            // A line that waits in L2 is handed over immediately; one from memory is filled and
            // replayed.
            if done <= issued_at + self.limits.l2_hit {
                self.fill_buffers.release_hit(done);
            } else if flags & flags::POSTED != 0 {
                self.fill_buffers.release_fill(done);
            } else {
                self.fill_buffers
                    .release_fill(done + self.limits.turnaround);
            }
        }
        if flags & (flags::SAMPLED | flags::FENCED) != 0 {
            if flags & flags::SAMPLED != 0 {
                let waited = std::mem::take(&mut self.locking.waited);
                self.samples.push(done - issued_at + waited);
            }
            if flags & flags::FENCED != 0 {
                self.fence_until = done;
            }
        }
    }
}
