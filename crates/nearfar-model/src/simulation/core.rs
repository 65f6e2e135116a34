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
/// Marks a time that is not known yet; the place of the request is in the bits below.
const UNANSWERED: Ps = 1 << 63;

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

/// Where a line is in its way through the core.
#[derive(Debug, Clone, Copy)]
struct Slot {
    line: u64,
    bytes: u32,
    compute: u32,
    access: Access,
    level: Level,
    depends: bool,
    sampled: bool,
    fenced: bool,
}

/// An operation of which some lines are not in the window yet.
#[derive(Debug, Clone, Copy)]
struct Entering {
    slot: Slot,
    lines: u64,
}

/// When something is done.
#[derive(Debug, Clone, Copy)]
enum Done {
    At(Ps),
    /// So long after the answer to this request of the round.
    After(u32, Ps),
}

/// A line that was issued and waits for its answer.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    issued_at: Ps,
    more: Ps,
    request: u32,
    store: bool,
    sampled: bool,
    fenced: bool,
}

/// Picoseconds and counts of [`SimulatedCores`].
#[derive(Debug, Clone)]
struct Limits {
    l2_queue: usize,
    turnaround: Ps,
    store_commit: Ps,
    window: u64,
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
    pub load_bytes: u64,
    pub store_bytes: u64,
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
    entering: Entering,
    window: Box<[Slot]>,
    /// Sequence numbers of slots: next to issue, next to expose, next to fill.
    head: u64,
    seen: u64,
    tail: u64,
    fill_buffers: FillBuffers,
    l2_queue: Times,
    /// Places of the L2 queue that wait for an answer.
    l2_unanswered: usize,
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
    issued_at: Ps,
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
            window: u64::from(parameters.window_lines),
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
            bytes: 0,
            compute: 0,
            access: Access::Load,
            level: Level::Memory,
            depends: false,
            sampled: false,
            fenced: false,
        };
        let thread = |program| Thread {
            program,
            last_line: u64::MAX,
            done: false,
        };
        Self {
            window: vec![empty; (limits.window as usize + 1).next_power_of_two()].into(),
            limits,
            threads: programs.into_iter().map(thread).collect(),
            turn: 0,
            entering: Entering {
                slot: empty,
                lines: 0,
            },
            head: 0,
            seen: 0,
            tail: 0,
            fill_buffers: FillBuffers::new(parameters.fill_buffers as usize),
            l2_queue: Times::new(parameters.l2_queue_entries as usize),
            l2_unanswered: 0,
            streams: Streams::new(),
            caches,
            evicted: Vec::new(),
            waiting: Vec::new(),
            first_request: 0,
            head_blocked: false,
            ahead_blocked: false,
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
    fn slot(&self, sequence: u64) -> &Slot {
        &self.window[sequence as usize & (self.window.len() - 1)]
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
        for index in self.first_request..end {
            let request = requests.get(index);
            if request.purpose != Purpose::Write {
                self.l2_queue.insert(request.time);
            }
            if let Purpose::Prefetch(place) = request.purpose {
                self.streams
                    .answer(place, UNANSWERED | index as u64, request.time);
            }
        }
        self.l2_unanswered = 0;
        let mut last_done = 0;
        let mut waiting = std::mem::take(&mut self.waiting);
        for line in &waiting {
            let done = requests.get(line.request as usize).time + line.more;
            self.release_fill_buffer(line.issued_at, done, line.store);
            self.complete(line.issued_at, done, line.sampled, line.fenced);
            last_done = done;
        }
        if self.previous_done == NEVER {
            self.previous_done = last_done;
        }
        waiting.clear();
        self.waiting = waiting;
        if self.head == self.tail {
            NEVER
        } else if self.head_blocked {
            self.l2_queue.first()
        } else {
            let ready = self.head_ready();
            self.wake(ready)
        }
    }

    /// Fills the window with what can be exposed.
    #[inline]
    fn fill(&mut self, shared: &mut Shared) {
        while self.tail <= self.head + self.limits.window {
            if self.entering.lines == 0 && !self.enter() {
                return;
            }
            let mut slot = self.entering.slot;
            self.entering.slot.line += 1;
            self.entering.slot.compute = self.limits.line;
            self.entering.slot.depends = false;
            self.entering.lines -= 1;
            slot.level = self.find(&slot, shared);
            let place = self.tail as usize & (self.window.len() - 1);
            self.window[place] = slot;
            self.tail += 1;
        }
    }

    /// Begins with the next operation; false if there is none.
    #[inline]
    fn enter(&mut self) -> bool {
        let Some(operation) = self.next_operation() else {
            return false;
        };
        let first = operation.address >> LINE_BYTES_LOG2;
        let last = (operation.address + u64::from(operation.bytes.max(1)) - 1) >> LINE_BYTES_LOG2;
        let lines = last - first + 1;
        // Parts of one line, one after the other, where caches are not simulated.
        let previous = std::mem::replace(&mut self.threads[self.turn].last_line, last);
        let part = previous == first && matches!(operation.access, Access::Load | Access::Store);
        self.entering = Entering {
            slot: Slot {
                line: first,
                bytes: if lines == 1 {
                    operation.bytes
                } else {
                    operation.bytes / lines as u32
                },
                compute: operation.compute_ps + self.limits.access + self.limits.line,
                access: operation.access,
                level: if part { Level::L1 } else { Level::Memory },
                depends: operation.depends,
                sampled: operation.sampled,
                fenced: operation.fenced,
            },
            lines,
        };
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

    /// Where the caches find a line, in program order.
    #[inline]
    fn find(&mut self, slot: &Slot, shared: &mut Shared) -> Level {
        let (CoreCaches::Simulated(caches), Some(l3)) = (&mut self.caches, &mut shared.l3) else {
            let level = slot.level;
            self.entering.slot.level = Level::Memory;
            return level;
        };
        match slot.access {
            Access::Load | Access::Prefetch => {
                caches.access(l3, slot.line, false, &mut self.evicted)
            }
            Access::Store => caches.access(l3, slot.line, true, &mut self.evicted),
            Access::Flush if !caches.clean(l3, slot.line) => Level::L1,
            Access::NonTemporalStore | Access::Flush | Access::Compute => Level::Memory,
        }
    }

    /// Places that have become free are looked for only when there seems to be none.
    #[inline]
    fn is_l2_full(&mut self, now: Ps) -> bool {
        if self.l2_queue.len() + self.l2_unanswered < self.limits.l2_queue {
            return false;
        }
        self.l2_queue.drop_until(now);
        self.l2_queue.len() + self.l2_unanswered >= self.limits.l2_queue
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

    #[inline]
    fn is_exposable(&self, sequence: u64) -> bool {
        let slot = self.slot(sequence);
        !(slot.depends || slot.fenced)
    }

    /// Shows loads ahead of the head to the prefetchers, in program order.
    #[inline]
    fn expose(&mut self, now: Ps, shared: &mut Shared) {
        self.ahead_blocked = false;
        let end = self.tail.min(self.head + self.limits.window);
        while self.seen < end {
            let ahead = self.seen > self.head;
            if ahead && !self.is_exposable(self.seen) {
                return;
            }
            let slot = self.slot(self.seen);
            if slot.access == Access::Load && slot.level == Level::Memory {
                let line = slot.line;
                if ahead && self.is_l2_full(now) {
                    self.ahead_blocked = true;
                    return;
                }
                let (stream, covered) = self.follow(now, line, shared);
                let in_page = line_in_page(line);
                if ahead && covered && !self.streams.is_under_way(stream, in_page) {
                    self.prefetch(now, stream, line, shared);
                }
            }
            self.seen += 1;
        }
    }

    /// Lets the streamer see an access to `line`; where it follows the page, and whether it had
    /// predicted the line.
    #[inline]
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
    #[inline]
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
        let mark = UNANSWERED | shared.requests.len() as u64;
        let place = self.streams.insert(at, line_in_page(line), mark);
        let target = Target::new(line, self.streams.get(at).device);
        self.l2_unanswered += 1;
        ask(now, target, Purpose::Prefetch(place), shared);
    }

    /// When the head can be issued: its fill buffer is free and what it waits for is there;
    /// [`NEVER`] where an answer of this round decides.
    #[inline]
    fn head_ready(&mut self) -> Ps {
        let slot = *self.slot(self.head);
        let compute = Ps::from(slot.compute);
        let mut ready = (self.issued_at + compute).max(self.fence_until);
        if slot.level != Level::L1 && slot.access != Access::Compute {
            ready = ready.max(self.fill_buffers.first());
        }
        if slot.depends {
            ready = ready.max(self.previous_done + compute);
        }
        if slot.fenced {
            let all_done = if self.waiting.is_empty() {
                self.all_done
            } else {
                NEVER
            };
            ready = ready.max(all_done + compute);
        }
        ready
    }

    /// Issues the head; false if the L2 queue has no place for it.
    #[inline]
    fn issue(&mut self, now: Ps, shared: &mut Shared) -> bool {
        while let Some(line) = self.evicted.pop() {
            let device = shared.map.device(line >> PAGE_LINES_LOG2);
            ask(now, Target::new(line, device), Purpose::Write, shared);
        }
        let slot = *self.slot(self.head);
        let done = match (slot.access, slot.level) {
            (Access::Compute, _) => Done::At(now),
            (Access::NonTemporalStore, _) | (Access::Flush, Level::Memory) => {
                let device = shared.map.device(slot.line >> PAGE_LINES_LOG2);
                let target = Target::new(slot.line, device);
                Done::After(ask(now, target, Purpose::Write, shared), 0)
            }
            (_, Level::L1) => Done::At(now + self.limits.l1_hit),
            (_, Level::L2) => Done::At(now + self.limits.l2_hit),
            (_, Level::L3) => Done::At(now + self.limits.l3_hit),
            (_, Level::Memory) => match self.bring(now, &slot, shared) {
                Some(done) => done,
                None => return false,
            },
        };
        self.count(&slot);
        self.hold_fill_buffer(now, &slot, done);
        self.issued_at = now;
        self.head += 1;
        true
    }

    /// Brings a line to L1; `None` if the L2 queue is full.
    #[inline]
    fn bring(&mut self, now: Ps, slot: &Slot, shared: &mut Shared) -> Option<Done> {
        let (page, in_page) = (slot.line >> PAGE_LINES_LOG2, line_in_page(slot.line));
        let stream = match slot.access {
            Access::Store => Some(self.follow(now, slot.line, shared).0),
            _ => self.streams.find(page),
        };
        let ready = stream.and_then(|at| self.streams.take(at, in_page));
        let device = match stream {
            Some(at) => self.streams.get(at).device,
            None => shared.map.device(page),
        };
        let target = Target::new(slot.line, device);
        let done = match ready {
            Some(mark) if mark & UNANSWERED != 0 => Done::After(mark as u32, self.limits.l2_hit),
            Some(ready) => Done::At(ready.max(now) + self.limits.l2_hit),
            None if self.is_l2_full(now) => return None,
            None => {
                self.l2_unanswered += 1;
                Done::After(ask(now, target, Purpose::Demand, shared), 0)
            }
        };
        if slot.access == Access::Store {
            self.modify(now, target, shared);
        }
        Some(done)
    }

    #[inline]
    fn count(&mut self, slot: &Slot) {
        match slot.access {
            Access::Load | Access::Prefetch => self.counts.load_bytes += u64::from(slot.bytes),
            Access::Store | Access::NonTemporalStore => {
                self.counts.store_bytes += u64::from(slot.bytes);
            }
            Access::Flush => {}
            Access::Compute => return,
        }
        self.counts.lines += 1;
    }

    /// Takes a fill buffer for as long as the line needs one.
    #[inline]
    fn hold_fill_buffer(&mut self, now: Ps, slot: &Slot, done: Done) {
        let buffered = slot.level != Level::L1 && slot.access != Access::Compute;
        if buffered {
            self.fill_buffers.take();
        }
        let store = slot.access == Access::Store;
        match done {
            Done::At(done) => {
                if buffered {
                    self.release_fill_buffer(now, done, store);
                }
                self.previous_done = done;
                self.complete(now, done, slot.sampled, slot.fenced);
            }
            Done::After(request, more) => {
                self.previous_done = NEVER;
                if slot.fenced {
                    self.fence_until = NEVER;
                }
                self.waiting.push(Waiting {
                    issued_at: now,
                    request,
                    more,
                    store,
                    sampled: slot.sampled,
                    fenced: slot.fenced,
                });
            }
        }
    }

    #[inline]
    fn release_fill_buffer(&mut self, issued_at: Ps, done: Ps, store: bool) {
        // A line that waits in L2 is handed over at once; one from memory is filled and replayed.
        if done <= issued_at + self.limits.l2_hit {
            self.fill_buffers.release_hit(done);
        } else {
            let commit = if store { self.limits.store_commit } else { 0 };
            let release = done + self.limits.turnaround + commit;
            self.fill_buffers.release_fill(release);
        }
    }

    #[inline]
    fn complete(&mut self, issued_at: Ps, done: Ps, sampled: bool, fenced: bool) {
        self.all_done = self.all_done.max(done);
        if sampled {
            self.samples.push(done - issued_at);
        }
        if fenced {
            self.fence_until = done;
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
        let place = (mix(target.line() ^ self.head) >> 16) as usize % CoreCaches::MODIFIED;
        let evicted = std::mem::replace(&mut modified[place], target);
        ask(now, evicted, Purpose::Write, shared);
    }
}

#[inline]
fn line_in_page(line: u64) -> u8 {
    (line & ((1 << PAGE_LINES_LOG2) - 1)) as u8
}

/// Notes a request and returns its place in the round.
#[inline]
fn ask(now: Ps, target: Target, purpose: Purpose, shared: &mut Shared) -> u32 {
    shared.requests.push(Request {
        time: now,
        target,
        purpose,
    }) as u32
}
