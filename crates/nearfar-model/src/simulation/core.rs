//! One virtual core: program order, fill buffers, the L2 queue and the prefetchers.
//!
//! A core runs on its own for one round of virtual time, which is shorter than any way to memory
//! and back. So nothing that it asks for in a round is answered in it: requests are collected, the
//! scheduler has them answered in the order of time, and the core settles what waited for them.

use nearfar_topology::SimulatedCores;

use super::cache::{Cache, Level, PrivateCaches};
use super::network::mix;
use super::placement::{AddressMap, PAGE_LINES_LOG2};
use super::prefetch::Streams;
use super::program::{Access, Operation, Program};
use super::requests::{Purpose, Request, Requests, Target};
use super::time::{NEVER, Ps, ps};
use super::times::{FillBuffers, Times};

const LINE_BYTES_LOG2: u32 = 6;
/// Marks a time that is not known yet: the place of a request is in the bits below.
const UNANSWERED: Ps = 1 << 63;
/// Marks an unknown time that is a hit of L2 after the answer.
const AFTER_ANSWER: Ps = 1 << 62;
/// Slots of the window, more than any profile asks for.
const SLOTS: usize = 256;

/// What all cores share beside the network.
#[derive(Debug)]
pub(crate) struct Shared {
    pub map: AddressMap,
    /// The last level, where caches are simulated line by line.
    pub l3: Option<Cache>,
    /// The requests of this round.
    pub requests: Requests,
}

/// What the caches of one core hold.
#[derive(Debug)]
pub(crate) enum CoreCaches {
    /// Nothing that is used again: programs over regions much larger than all caches. Of the
    /// modified lines some are kept, and each further store pushes one of them out.
    Streaming { modified: Vec<Target> },
    /// Every line, by sets.
    Simulated(PrivateCaches),
}

impl CoreCaches {
    /// Lines that stay modified until others push them out. Fewer than a core's share of the
    /// caches, so that write-backs are steady early; how many does not matter where nothing is
    /// used again.
    const MODIFIED: usize = 512;

    pub(crate) fn streaming() -> Self {
        Self::Streaming {
            modified: Vec::with_capacity(Self::MODIFIED),
        }
    }
}

/// What becomes of a line at the head of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Time passes.
    Compute,
    /// It is in L1.
    HitL1,
    HitL2,
    HitL3,
    /// It is brought from memory.
    Load,
    /// It is brought from memory and modified.
    Store,
    /// It is sent to memory.
    Write,
}

/// Properties of a line in the window, in one byte.
mod flags {
    pub const DEPENDS: u8 = 1;
    pub const FENCED: u8 = 1 << 1;
    pub const SAMPLED: u8 = 1 << 2;
    /// Its bytes count as stored.
    pub const STORED: u8 = 1 << 3;
    /// It holds its fill buffer until it is committed.
    pub const COMMITTED: u8 = 1 << 4;
    /// Prefetchers see it before it is at the head.
    pub const SEEN_AHEAD: u8 = 1 << 5;
    pub const FILL_BUFFER: u8 = 1 << 6;
}

/// Where a line is in its way through the core.
#[derive(Debug, Clone, Copy)]
struct Slot {
    line: u64,
    compute: u32,
    bytes: u16,
    action: Action,
    flags: u8,
}

/// A line that waits for the answer to a request, and is not the one that made a demand request.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    issued_at: Ps,
    /// With the marks of times that are not known.
    done: Ps,
    flags: u8,
}

/// Picoseconds and counts of [`SimulatedCores`].
#[derive(Debug, Clone)]
struct Limits {
    l2_queue: usize,
    turnaround: Ps,
    store_commit: Ps,
    window: u8,
    trigger: u32,
    distance: u8,
    l1_hit: Ps,
    l2_hit: Ps,
    l3_hit: Ps,
    access: u32,
    line: u32,
}

/// What a core has done.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoreCounts {
    /// Loaded, stored.
    pub bytes: [u64; 2],
    pub lines: u64,
}

/// A thread of the core.
struct Thread {
    program: Box<dyn Program>,
    last_line: u64,
    done: bool,
}

pub(crate) struct VirtualCore {
    limits: Limits,
    threads: Vec<Thread>,
    turn: usize,
    /// Lines of the last operation that are not in the window yet; the first and second of them.
    entering: u64,
    next: Slot,
    rest: Slot,
    window: Box<[Slot; SLOTS]>,
    /// Slots in a ring: next to issue, next to expose, next to fill.
    head: u8,
    seen: u8,
    tail: u8,
    fill_buffers: FillBuffers,
    l2_queue: Times,
    /// Places of the L2 queue that are taken, those included that wait for an answer.
    l2_taken: usize,
    streams: Streams,
    caches: CoreCaches,
    evicted: Vec<u64>,
    waiting: Vec<Waiting>,
    /// Place of this round's first request.
    first_request: usize,
    /// The head waits for a place in the L2 queue.
    head_blocked: bool,
    /// A load ahead of the head does.
    ahead_blocked: bool,
    /// Lines of this round that were issued and wait for answers.
    unanswered: usize,
    issued_at: Ps,
    /// When the line issued last is done, marked where that is not known.
    previous_done: Ps,
    all_done: Ps,
    fence_until: Ps,
    pub samples: Vec<Ps>,
    pub counts: CoreCounts,
}

impl VirtualCore {
    pub(crate) fn new(
        parameters: &SimulatedCores,
        programs: Vec<Box<dyn Program>>,
        caches: CoreCaches,
    ) -> Self {
        let limits = Limits {
            l2_queue: parameters.l2_queue_entries as usize,
            turnaround: ps(parameters.fill_turnaround_ns),
            store_commit: ps(parameters.store_commit_ns),
            window: parameters.window_lines.min(SLOTS as u32 / 2) as u8,
            trigger: parameters.stream_trigger_lines,
            distance: parameters.streamer_distance_lines.min(1 << PAGE_LINES_LOG2) as u8,
            l1_hit: ps(parameters.l1_hit_ns),
            l2_hit: ps(parameters.l2_hit_ns),
            l3_hit: ps(parameters.l3_hit_ns),
            access: ps(parameters.access_ns) as u32,
            line: ps(parameters.line_ns) as u32,
        };
        let empty = Slot {
            line: 0,
            compute: 0,
            bytes: 0,
            action: Action::Compute,
            flags: 0,
        };
        let thread = |program| Thread {
            program,
            last_line: u64::MAX,
            done: false,
        };
        Self {
            window: Box::new([empty; SLOTS]),
            limits,
            threads: programs.into_iter().map(thread).collect(),
            turn: 0,
            entering: 0,
            next: empty,
            rest: empty,
            head: 0,
            seen: 0,
            tail: 0,
            fill_buffers: FillBuffers::new(parameters.fill_buffers as usize),
            l2_queue: Times::new(parameters.l2_queue_entries as usize),
            l2_taken: 0,
            streams: Streams::new(),
            caches,
            evicted: Vec::new(),
            waiting: Vec::new(),
            first_request: 0,
            head_blocked: false,
            ahead_blocked: false,
            unanswered: 0,
            issued_at: 0,
            previous_done: 0,
            all_done: 0,
            fence_until: 0,
            samples: Vec::new(),
            counts: CoreCounts::default(),
        }
    }

    /// When the last operation so far was complete.
    pub(crate) fn finished_at(&self) -> Ps {
        self.all_done
    }

    #[inline]
    fn slot(&self, place: u8) -> &Slot {
        &self.window[usize::from(place)]
    }

    /// Does all that there is to do from `now` on, before `end`.
    pub(crate) fn run(&mut self, mut now: Ps, end: Ps, shared: &mut Shared) {
        self.first_request = shared.requests.len();
        self.head_blocked = false;
        loop {
            self.fill(shared);
            self.expose(now, shared);
            if self.head == self.tail {
                return;
            }
            let ready = self.head_ready();
            if ready > now {
                let next = self.wake(ready);
                if next >= end {
                    return;
                }
                now = next;
                if self.ahead_blocked {
                    continue;
                }
            }
            if !self.issue(now, shared) {
                now = self.l2_queue.first();
                if now >= end {
                    self.head_blocked = true;
                    return;
                }
            }
        }
    }

    /// Takes the answers to the round's requests and returns when there is more to do, or
    /// [`NEVER`].
    pub(crate) fn settle(&mut self, requests: &Requests, end: usize) -> Ps {
        let l2_hit = self.limits.l2_hit;
        let mine = requests.range(self.first_request..end);
        for (index, request) in mine.iter().enumerate() {
            match request.purpose {
                Purpose::Write => continue,
                Purpose::Demand { store } => {
                    self.all_done = self.all_done.max(request.time);
                    let commit = if store { self.limits.store_commit } else { 0 };
                    let release = request.time + self.limits.turnaround + commit;
                    self.fill_buffers.release_fill(release);
                }
                Purpose::Prefetch(place) => {
                    let mark = UNANSWERED | index as u64;
                    self.streams.answer(place, mark, request.time);
                }
            }
            self.l2_queue.insert(request.time);
        }
        self.unanswered = 0;
        let answer = |done: Ps| {
            let more = if done & AFTER_ANSWER == 0 { 0 } else { l2_hit };
            mine[(done & !(UNANSWERED | AFTER_ANSWER)) as usize].time + more
        };
        if self.previous_done & UNANSWERED != 0 {
            self.previous_done = answer(self.previous_done);
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        for line in waiting.drain(..) {
            self.complete(line.issued_at, answer(line.done), line.flags);
        }
        self.waiting = waiting;
        if self.head == self.tail {
            NEVER
        } else if self.head_blocked {
            self.l2_queue.first()
        } else {
            self.wake(self.head_ready())
        }
    }

    /// Fills the window with what can be exposed.
    #[inline]
    fn fill(&mut self, shared: &mut Shared) {
        while self.tail.wrapping_sub(self.head) <= self.limits.window {
            if self.entering == 0 && !self.enter() {
                return;
            }
            let place = usize::from(self.tail);
            self.window[place] = self.next;
            self.tail = self.tail.wrapping_add(1);
            self.entering -= 1;
            if self.entering > 0 {
                self.next = self.rest;
                self.rest.line += 1;
            }
            if shared.l3.is_some() {
                self.look_up(place, shared);
            }
        }
    }

    /// Begins with the next operation; false if there is none.
    #[inline]
    fn enter(&mut self) -> bool {
        let Some(operation) = self.next_operation() else {
            return false;
        };
        let (action, of_access) = action(operation.access);
        let line = operation.address >> LINE_BYTES_LOG2;
        let mut slot = Slot {
            line,
            compute: operation.compute_ps + self.limits.access + self.limits.line,
            bytes: match operation.access {
                Access::Flush => 0,
                _ => operation.bytes as u16,
            },
            action,
            flags: of_access
                | u8::from(operation.depends) * flags::DEPENDS
                | u8::from(operation.fenced) * flags::FENCED
                | u8::from(operation.sampled) * flags::SAMPLED,
        };
        let in_line = operation.address & ((1 << LINE_BYTES_LOG2) - 1);
        let end = in_line + u64::from(operation.bytes);
        self.entering = 1;
        if end > 1 << LINE_BYTES_LOG2 {
            self.entering = (end - 1 >> LINE_BYTES_LOG2) + 1;
            slot.bytes = (u64::from(slot.bytes) / self.entering) as u16;
            self.rest = Slot {
                line: line + 1,
                compute: self.limits.line,
                flags: slot.flags & !flags::DEPENDS,
                ..slot
            };
        }
        // Parts of one line, one after the other, where caches are not simulated.
        let last = line + self.entering - 1;
        let previous = std::mem::replace(&mut self.threads[self.turn].last_line, last);
        if previous == line && matches!(action, Action::Load | Action::Store) {
            slot.find(Level::L1);
        }
        self.next = slot;
        true
    }

    #[inline]
    fn next_operation(&mut self) -> Option<Operation> {
        for _ in 0..self.threads.len() {
            self.turn += 1;
            if self.turn >= self.threads.len() {
                self.turn = 0;
            }
            let thread = &mut self.threads[self.turn];
            if !thread.done {
                match thread.program.next_operation() {
                    Some(operation) => return Some(operation),
                    None => thread.done = true,
                }
            }
        }
        None
    }

    /// Looks a line up in the caches, in program order.
    #[inline(never)]
    fn look_up(&mut self, place: usize, shared: &mut Shared) {
        let (CoreCaches::Simulated(caches), Some(l3)) = (&mut self.caches, &mut shared.l3) else {
            return;
        };
        let slot = &mut self.window[place];
        let level = match slot.action {
            Action::Compute => return,
            Action::Write if slot.flags & flags::STORED != 0 => return,
            Action::Write if caches.clean(l3, slot.line) => return,
            Action::Write => Level::L1,
            _ => {
                let store = slot.flags & flags::STORED != 0;
                caches.access(l3, slot.line, store, &mut self.evicted)
            }
        };
        slot.find(level);
    }

    /// Places that have become free are looked for only when there seems to be none.
    #[inline]
    fn is_l2_full(&mut self, now: Ps) -> bool {
        if self.l2_taken < self.limits.l2_queue {
            return false;
        }
        self.l2_taken -= self.l2_queue.drop_until(now);
        self.l2_taken >= self.limits.l2_queue
    }

    /// When there is something to do, given when the head is ready.
    #[inline]
    fn wake(&self, ready: Ps) -> Ps {
        if self.ahead_blocked {
            ready.min(self.l2_queue.first())
        } else {
            ready
        }
    }

    /// Shows loads ahead of the head to the prefetchers, in program order.
    #[inline]
    fn expose(&mut self, now: Ps, shared: &mut Shared) {
        self.ahead_blocked = false;
        let filled = self.tail.wrapping_sub(self.head);
        let end = self.head.wrapping_add(filled.min(self.limits.window));
        while self.seen != end {
            let slot = self.slot(self.seen);
            let ahead = self.seen != self.head;
            if ahead && slot.flags & (flags::DEPENDS | flags::FENCED) != 0 {
                return;
            }
            if slot.flags & flags::SEEN_AHEAD != 0 {
                let line = slot.line;
                if ahead && self.is_l2_full(now) {
                    self.ahead_blocked = true;
                    return;
                }
                let (stream, covered) = self.follow(now, line, shared);
                if ahead && covered && !self.streams.is_under_way(stream, line_in_page(line)) {
                    self.prefetch(now, stream, line, shared);
                }
            }
            self.seen = self.seen.wrapping_add(1);
        }
    }

    /// Lets the streamer see an access to `line`; where it follows the page, and whether it had
    /// predicted the line.
    #[inline(always)]
    fn follow(&mut self, now: Ps, line: u64, shared: &mut Shared) -> (usize, bool) {
        let page = line >> PAGE_LINES_LOG2;
        let map = &shared.map;
        let at = self
            .streams
            .touch(page, line_in_page(line), || map.device(page));
        let run = self.streams.get(at).run;
        if run < self.limits.trigger {
            // The spatial prefetcher completes pairs of lines.
            return (at, run > 0 && line & 1 == 1);
        }
        self.run_ahead(now, at, line, shared);
        (at, true)
    }

    /// Prefetches the next lines of a page that the streamer follows.
    #[inline(never)]
    fn run_ahead(&mut self, now: Ps, at: usize, line: u64, shared: &mut Shared) {
        let in_page = line_in_page(line);
        let page = line - u64::from(in_page);
        let end = (in_page + 1 + self.limits.distance).min(1 << PAGE_LINES_LOG2);
        let mut frontier = self.streams.get(at).frontier;
        let until = end.min(frontier + 2);
        while frontier < until {
            let wanted = page + u64::from(frontier);
            if !self.streams.is_under_way(at, frontier) && !self.is_cached(wanted, shared) {
                if self.is_l2_full(now) {
                    break;
                }
                self.prefetch(now, at, wanted, shared);
            }
            frontier += 1;
        }
        self.streams.set_frontier(at, frontier);
    }

    #[inline]
    fn is_cached(&self, line: u64, shared: &Shared) -> bool {
        match (&self.caches, &shared.l3) {
            (CoreCaches::Simulated(caches), Some(l3)) => caches.contains(line) || l3.contains(line),
            _ => false,
        }
    }

    #[inline]
    fn prefetch(&mut self, now: Ps, at: usize, line: u64, shared: &mut Shared) {
        let request = shared.requests.len() - self.first_request;
        let mark = UNANSWERED | request as u64;
        let place = self.streams.insert(at, line_in_page(line), mark);
        let target = Target::new(line, self.streams.get(at).device);
        self.l2_taken += 1;
        self.ask(now, target, Purpose::Prefetch(place), shared);
    }

    /// When the head can be issued: its fill buffer is free and what it waits for is there;
    /// [`NEVER`] where an answer of this round decides.
    #[inline]
    fn head_ready(&self) -> Ps {
        let slot = self.slot(self.head);
        let compute = Ps::from(slot.compute);
        let mut ready = (self.issued_at + compute).max(self.fence_until);
        if slot.flags & flags::FILL_BUFFER != 0 {
            ready = ready.max(self.fill_buffers.first());
        }
        if slot.flags & (flags::DEPENDS | flags::FENCED) != 0 {
            ready = self.head_waits(slot, ready);
        }
        ready
    }

    /// When the lines are done that the head waits for, not before `ready`.
    #[inline(never)]
    fn head_waits(&self, slot: &Slot, mut ready: Ps) -> Ps {
        let compute = Ps::from(slot.compute);
        if slot.flags & flags::DEPENDS != 0 {
            if self.previous_done & UNANSWERED != 0 {
                return NEVER;
            }
            ready = ready.max(self.previous_done + compute);
        }
        if slot.flags & flags::FENCED != 0 {
            if self.unanswered > 0 {
                return NEVER;
            }
            ready = ready.max(self.all_done + compute);
        }
        ready
    }

    /// Issues the head; false if the L2 queue has no place for it.
    #[inline]
    fn issue(&mut self, now: Ps, shared: &mut Shared) -> bool {
        let slot = *self.slot(self.head);
        let done = match slot.action {
            Action::Load | Action::Store => match self.bring(now, slot, shared) {
                Some(done) => done,
                None => return false,
            },
            Action::Compute => now,
            Action::HitL1 => now + self.limits.l1_hit,
            Action::HitL2 => now + self.limits.l2_hit,
            Action::HitL3 => now + self.limits.l3_hit,
            Action::Write => {
                let device = shared.map.device(slot.line >> PAGE_LINES_LOG2);
                let target = Target::new(slot.line, device);
                let done = self.ask(now, target, Purpose::Write, shared);
                self.wait(now, done, slot.flags)
            }
        };
        if slot.flags & flags::FILL_BUFFER != 0 {
            self.fill_buffers.take();
        }
        if done & UNANSWERED == 0 {
            self.complete(now, done, slot.flags);
        }
        self.previous_done = done;
        let stored = slot.flags & flags::STORED != 0;
        if slot.action != Action::Compute {
            self.counts.bytes[usize::from(stored)] += u64::from(slot.bytes);
            self.counts.lines += 1;
        }
        self.issued_at = now;
        self.head = self.head.wrapping_add(1);
        if !self.evicted.is_empty() {
            self.write_evicted(now, shared);
        }
        true
    }

    /// Sends modified lines to memory that have left the caches.
    #[inline(never)]
    fn write_evicted(&mut self, now: Ps, shared: &mut Shared) {
        while let Some(line) = self.evicted.pop() {
            let device = shared.map.device(line >> PAGE_LINES_LOG2);
            self.ask(now, Target::new(line, device), Purpose::Write, shared);
        }
    }

    /// Brings a line to L1; `None` if the L2 queue is full.
    #[inline]
    fn bring(&mut self, now: Ps, slot: Slot, shared: &mut Shared) -> Option<Ps> {
        let (page, in_page) = (slot.line >> PAGE_LINES_LOG2, line_in_page(slot.line));
        let store = slot.action == Action::Store;
        let stream = if store {
            Some(self.follow(now, slot.line, shared).0)
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
                let done = self.ask(now, target, Purpose::Demand { store }, shared);
                if slot.flags & (flags::SAMPLED | flags::FENCED) != 0 {
                    self.wait(now, done, slot.flags & !flags::FILL_BUFFER)
                } else {
                    self.unanswered += 1;
                    done
                }
            }
        };
        if store {
            self.modify(now, target, shared);
        }
        Some(done)
    }

    /// Notes that the line at the head waits for the answer to a request.
    #[inline]
    fn wait(&mut self, now: Ps, done: Ps, flags: u8) -> Ps {
        self.unanswered += 1;
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

    /// Notes when a line is done.
    #[inline]
    fn complete(&mut self, issued_at: Ps, done: Ps, flags: u8) {
        self.all_done = self.all_done.max(done);
        if flags & flags::FILL_BUFFER != 0 {
            // A line that waits in L2 is handed over at once; one from memory is filled and
            // replayed.
            if done <= issued_at + self.limits.l2_hit {
                self.fill_buffers.release_hit(done);
            } else {
                let committed = flags & flags::COMMITTED != 0;
                let commit = if committed {
                    self.limits.store_commit
                } else {
                    0
                };
                self.fill_buffers
                    .release_fill(done + self.limits.turnaround + commit);
            }
        }
        if flags & (flags::SAMPLED | flags::FENCED) != 0 {
            if flags & flags::SAMPLED != 0 {
                self.samples.push(done - issued_at);
            }
            if flags & flags::FENCED != 0 {
                self.fence_until = done;
            }
        }
    }

    /// Where programs stream: a stored line replaces a modified one, which is written back.
    ///
    /// Sets are hashed, so the line that leaves is any of the modified ones, not the oldest.
    #[inline]
    fn modify(&mut self, now: Ps, target: Target, shared: &mut Shared) {
        let CoreCaches::Streaming { modified } = &mut self.caches else {
            return;
        };
        if modified.len() < CoreCaches::MODIFIED {
            modified.push(target);
            return;
        }
        let place = (mix(target.line() ^ self.counts.lines) >> 16) as usize % CoreCaches::MODIFIED;
        let evicted = std::mem::replace(&mut modified[place], target);
        self.ask(now, evicted, Purpose::Write, shared);
    }

    /// Notes a request and returns the mark of its answer.
    #[inline]
    fn ask(&mut self, now: Ps, target: Target, purpose: Purpose, shared: &mut Shared) -> Ps {
        let place = shared.requests.push(Request {
            time: now,
            target,
            purpose,
        });
        UNANSWERED | (place - self.first_request) as u64
    }
}

impl Slot {
    /// Notes where the caches have found the line.
    #[inline]
    fn find(&mut self, level: Level) {
        self.action = match level {
            Level::L1 => Action::HitL1,
            Level::L2 => Action::HitL2,
            Level::L3 => Action::HitL3,
            Level::Memory => return,
        };
        self.flags &= !flags::SEEN_AHEAD;
        if level == Level::L1 {
            self.flags &= !flags::FILL_BUFFER;
        }
    }
}

/// What becomes of a line that no cache has.
#[inline]
fn action(access: Access) -> (Action, u8) {
    use flags::{COMMITTED, FILL_BUFFER, SEEN_AHEAD, STORED};
    match access {
        Access::Load => (Action::Load, FILL_BUFFER | SEEN_AHEAD),
        Access::Prefetch => (Action::Load, FILL_BUFFER),
        Access::Store => (Action::Store, FILL_BUFFER | STORED | COMMITTED),
        Access::NonTemporalStore => (Action::Write, FILL_BUFFER | STORED),
        Access::Flush => (Action::Write, FILL_BUFFER),
        Access::Compute => (Action::Compute, 0),
    }
}

#[inline]
fn line_in_page(line: u64) -> u8 {
    (line & ((1 << PAGE_LINES_LOG2) - 1)) as u8
}
