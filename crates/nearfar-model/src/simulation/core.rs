//! One virtual core: program order, fill buffers, the L2 queue and the prefetchers.
//!
//! A core runs on its own for one round of virtual time, which is shorter than any way to memory
//! and back. So nothing that it asks for in a round is answered in it: requests are collected, the
//! scheduler has them answered in the order of time, and the core settles what waited for them.

use nearfar_topology::SimulatedCores;

use super::cache::{CoreCaches, Levels};
use super::locks::{Locks, Section};
use super::network::{Asked, mix};
use super::pending::{AFTER_ANSWER, Chain, InFlight, Reorder, UNANSWERED};
use super::placement::{AddressMap, PAGE_LINES_LOG2};
use super::prefetch::Streams;
use super::program::Program;
use super::requests::{Purpose, Request, Requests, Target};
use super::slots::{SlotCounter, SlotTimes};
use super::time::{NEVER, Ps, ps};
use super::times::{FillBuffers, Times};
use super::window::{Action, LINE_BYTES_LOG2, Slot, Window, flags};

/// What all cores share beside the network.
#[derive(Debug)]
pub(crate) struct Shared {
    pub map: AddressMap,
    /// Where caches are simulated line by line.
    pub levels: Option<Levels>,
    /// The requests of this round.
    pub requests: Requests,
    pub locks: Locks,
}

/// A line that waits for the answer to a request, and is not the one that made a demand request.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    issued_at: Ps,
    /// With the marks of times that are not known.
    done: Ps,
    flags: u8,
}

/// Misses under way at which the spatial prefetcher rests. Assumed: a quarter of the fill buffers.
const PAIRS_BUSY: usize = 4;

/// Picoseconds and counts of [`SimulatedCores`].
#[derive(Debug, Clone)]
struct Limits {
    l2_queue: usize,
    turnaround: Ps,
    trigger: u32,
    distance: u8,
    l1_hit: Ps,
    l2_hit: Ps,
    l3_hit: Ps,
    write_backs_in_table: bool,
}

/// What a core has done.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoreCounts {
    /// Loaded, stored.
    pub bytes: [u64; 2],
    pub lines: u64,
}

pub(crate) struct VirtualCore {
    number: usize,
    limits: Limits,
    /// The spatial prefetcher completes the pairs of lines that are missed.
    completes_pairs: bool,
    window: Window,
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
    /// The head has its turn of the lock that it needs.
    in_section: bool,
    /// A load ahead of the head does.
    ahead_blocked: bool,
    /// Lines of this round that were issued and wait for answers.
    unanswered: usize,
    issued_at: Ps,
    chain: Chain,
    in_flight: InFlight,
    /// Of a core whose caches are simulated.
    reorder: Option<Reorder>,
    all_done: Ps,
    fence_until: Ps,
    pub samples: Vec<Ps>,
    pub counts: CoreCounts,
    /// Where issue slots go, if asked for.
    slots: Option<Box<SlotCounter>>,
}

impl VirtualCore {
    pub(crate) fn new(
        number: usize,
        parameters: &SimulatedCores,
        programs: Vec<Box<dyn Program>>,
        caches: CoreCaches,
        completes_pairs: bool,
    ) -> Self {
        let limits = Limits {
            l2_queue: parameters.l2_queue_entries as usize,
            turnaround: ps(parameters.fill_turnaround_ns),
            trigger: parameters.stream_trigger_lines,
            distance: parameters.streamer_distance_lines.min(1 << PAGE_LINES_LOG2) as u8,
            l1_hit: ps(parameters.l1_hit_ns),
            l2_hit: ps(parameters.l2_hit_ns),
            l3_hit: ps(parameters.l3_hit_ns),
            write_backs_in_table: parameters.write_backs_in_table,
        };
        // Streams are held back by fill buffers before.
        let reorder = match &caches {
            CoreCaches::Simulated(_) => {
                let access = parameters.access_ns + parameters.line_ns;
                let window = ps(f64::from(parameters.window_lines) * access);
                Some(Reorder::new(window))
            }
            CoreCaches::Streaming { .. } => None,
        };
        Self {
            number,
            limits,
            completes_pairs,
            window: Window::new(
                programs,
                parameters.window_lines,
                ps(parameters.access_ns),
                ps(parameters.line_ns),
            ),
            fill_buffers: FillBuffers::new(parameters.fill_buffers as usize),
            l2_queue: Times::new(parameters.l2_queue_entries as usize),
            l2_taken: 0,
            streams: Streams::new(),
            caches,
            evicted: Vec::new(),
            waiting: Vec::new(),
            first_request: 0,
            head_blocked: false,
            in_section: false,
            ahead_blocked: false,
            unanswered: 0,
            issued_at: 0,
            chain: Chain::default(),
            in_flight: InFlight::new(),
            reorder,
            all_done: 0,
            fence_until: 0,
            samples: Vec::new(),
            counts: CoreCounts::default(),
            slots: None,
        }
    }

    /// Counts where issue slots go from now on, of a core that so many threads share.
    pub(crate) fn count_slots(&mut self, parameters: &SimulatedCores, threads: u32) {
        let access = parameters.access_ns + parameters.line_ns;
        let window = ps(f64::from(parameters.window_lines) * access);
        self.slots = Some(Box::new(SlotCounter::new(window, threads)));
    }

    /// Where issue slots went; nothing where they are not counted.
    pub(crate) fn slot_times(&self) -> SlotTimes {
        let slots = self.slots.as_ref();
        slots.map(|slots| slots.times).unwrap_or_default()
    }

    /// Counts the time until `now`, when the head is to be issued.
    #[inline(never)]
    fn count_time(&mut self, now: Ps) {
        let Some(slots) = &mut self.slots else { return };
        // Places of those that have arrived are taken until somebody asks for one.
        let arrivals = self.l2_queue.after(slots.until);
        let arrived = self.l2_queue.len() - arrivals.len();
        let under_way = self.l2_taken.saturating_sub(arrived);
        slots.count(now, self.window.head(), under_way, arrivals.iter().copied());
    }

    /// When the last operation so far was complete.
    pub(crate) fn finished_at(&self) -> Ps {
        self.all_done
    }

    /// Does all that there is to do from `now` on, before `end`.
    pub(crate) fn run(&mut self, now: Ps, end: Ps, shared: &mut Shared) {
        match &self.caches {
            CoreCaches::Streaming { .. } => self.run_as::<false>(now, end, shared),
            CoreCaches::Simulated(_) => self.run_as::<true>(now, end, shared),
        }
    }

    /// As [`Self::run`], where caches are simulated or, if not `CACHED`, where every line misses.
    fn run_as<const CACHED: bool>(&mut self, mut now: Ps, end: Ps, shared: &mut Shared) {
        self.first_request = shared.requests.len();
        self.head_blocked = false;
        loop {
            let (caches, evicted) = (&mut self.caches, &mut self.evicted);
            self.window.fill(|slot| {
                if CACHED {
                    caches.look_up(slot, shared.levels.as_mut(), evicted);
                }
            });
            self.expose::<CACHED>(now, shared);
            if self.window.is_empty() {
                return;
            }
            let ready = self.head_ready::<CACHED>();
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
            if self.window.head().action == Action::CriticalSection && !self.in_section {
                self.enter_section(now, shared);
                continue;
            }
            if !self.issue::<CACHED>(now, shared) {
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
        self.unanswered = 0;
        if self.window.is_empty() {
            NEVER
        } else if self.head_blocked {
            self.l2_queue.first()
        } else {
            self.wake(match &self.caches {
                CoreCaches::Streaming { .. } => self.head_ready::<false>(),
                CoreCaches::Simulated(_) => self.head_ready::<true>(),
            })
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
    fn expose<const CACHED: bool>(&mut self, now: Ps, shared: &mut Shared) {
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
    fn follow<const CACHED: bool>(
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
    fn complete_pair(&mut self, now: Ps, slot: Slot, shared: &mut Shared) {
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

    /// When the head can be issued: its fill buffer is free and what it waits for is there;
    /// [`NEVER`] where an answer of this round decides.
    #[inline]
    fn head_ready<const CACHED: bool>(&self) -> Ps {
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
    fn enter_section(&mut self, now: Ps, shared: &mut Shared) {
        let head = self.window.head();
        let own = Ps::from(head.compute);
        let lines = Ps::from(head.bytes) >> LINE_BYTES_LOG2;
        // To the last level, and from there to the core that has the line and back.
        let transfers = lines * 2 * self.limits.l3_hit;
        let section = Section {
            line: head.line,
            core: self.number,
            own,
            transfers,
        };
        let released = shared.locks.enter(now.saturating_sub(own), section);
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
            ready = ready.max(self.all_done + compute);
        }
        ready
    }

    /// Issues the head; false if the L2 queue has no place for it.
    #[inline]
    fn issue<const CACHED: bool>(&mut self, now: Ps, shared: &mut Shared) -> bool {
        let slot = *self.window.head();
        let since = (
            shared.requests.len() - self.first_request,
            self.waiting.len(),
        );
        if self.slots.is_some() {
            self.count_time(now);
        }
        let done = match slot.action {
            Action::Load | Action::Store => match self.bring::<CACHED>(now, slot, shared) {
                Some(done) => done,
                None => return false,
            },
            Action::Compute | Action::Refill => now,
            Action::CriticalSection => {
                self.in_section = false;
                now
            }
            Action::HitL1 => self.hit(now, slot, self.limits.l1_hit),
            Action::HitL2 => self.hit(now, slot, self.limits.l2_hit),
            Action::HitL3 => {
                self.complete_pair(now, slot, shared);
                now + self.limits.l3_hit
            }
            Action::Write => self.send(now, slot, shared),
        };
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
        let is_access = !matches!(
            slot.action,
            Action::Compute | Action::Refill | Action::CriticalSection
        );
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
        self.issued_at = now;
        if let Some(slots) = &mut self.slots {
            slots.next();
        }
        self.window.drop_head();
        if CACHED && !self.evicted.is_empty() {
            self.write_evicted(now, shared);
        }
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
                    self.unanswered += 1;
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
                self.samples.push(done - issued_at);
            }
            if flags & flags::FENCED != 0 {
                self.fence_until = done;
            }
        }
    }

    /// What is asked for where a line is brought, which a store has to own.
    #[inline]
    fn asked(own: bool) -> Asked {
        if own { Asked::Ownership } else { Asked::Read }
    }

    /// Notes a request and returns the mark of its answer.
    #[inline]
    fn ask(
        &mut self,
        now: Ps,
        target: Target,
        asked: Asked,
        purpose: Purpose,
        shared: &mut Shared,
    ) -> Ps {
        let place = shared.requests.push(Request {
            time: now,
            target,
            asked,
            purpose,
        });
        UNANSWERED | (place - self.first_request) as u64
    }
}

#[inline]
fn line_in_page(line: u64) -> u8 {
    (line & ((1 << PAGE_LINES_LOG2) - 1)) as u8
}
