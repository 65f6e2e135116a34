//! One virtual core: program order, fill buffers, the L2 queue and the prefetchers.

use nearfar_topology::SimulatedCores;

use super::cache::{Cache, Level, PrivateCaches};
use super::network::{DeviceIndex, Network, Transfer, mix};
use super::placement::{AddressMap, PAGE_LINES_LOG2};
use super::prefetch::{PrefetchedLines, Streams};
use super::program::{Access, Operation, Program};
use super::time::{Ps, ps};
use super::times::Times;

const LINE_BYTES_LOG2: u32 = 6;
const WINDOW: usize = 256;
/// Pages whose device a core remembers.
const PAGES: usize = 8;
const NEVER: Ps = Ps::MAX;

/// What all cores share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub map: AddressMap,
    pub network: Network,
    /// The last level, where caches are simulated line by line.
    pub l3: Option<Cache>,
}

/// What the caches of one core hold.
#[derive(Debug)]
pub(crate) enum CoreCaches {
    /// Nothing that is used again: programs over regions much larger than all caches. Of the
    /// modified lines some are kept, and each further store pushes one of them out.
    Streaming { modified: Vec<u64>, capacity: usize },
    /// Every line, by sets.
    Simulated(PrivateCaches),
}

/// Where a line is in its way through the core.
#[derive(Debug, Clone, Copy)]
struct Slot {
    line: u64,
    access: Access,
    bytes: u32,
    compute: u32,
    depends: bool,
    sampled: bool,
    fenced: bool,
    level: Level,
}

/// Picoseconds and counts of [`SimulatedCores`].
#[derive(Debug, Clone)]
struct Limits {
    l2_queue: usize,
    turnaround: Ps,
    store_commit: Ps,
    load_window: u64,
    trigger: u32,
    distance: u64,
    l1_hit: Ps,
    l2_hit: Ps,
    l3_hit: Ps,
    access: u32,
    line: u32,
}

impl CoreCaches {
    /// Lines that stay modified until others push them out. Fewer than a core's share of the
    /// caches, so that write-backs are steady early; how many does not matter where nothing is
    /// used again.
    const MODIFIED: usize = 512;

    pub(crate) fn streaming() -> Self {
        Self::Streaming {
            modified: Vec::with_capacity(Self::MODIFIED),
            capacity: Self::MODIFIED,
        }
    }
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
    window: Box<[Slot]>,
    /// Sequence numbers of slots: next to issue, next to expose, next to fill.
    head: u64,
    seen: u64,
    tail: u64,
    fill_buffers: Times,
    l2_queue: Times,
    streams: Streams,
    prefetched: PrefetchedLines,
    caches: CoreCaches,
    evicted: Vec<u64>,
    pages: [(u64, DeviceIndex); PAGES],
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
            load_window: u64::from(parameters.window_lines),
            trigger: parameters.stream_trigger_lines,
            distance: u64::from(parameters.streamer_distance_lines),
            l1_hit: ps(parameters.l1_hit_ns),
            l2_hit: ps(parameters.l2_hit_ns),
            l3_hit: ps(parameters.l3_hit_ns),
            access: ps(parameters.access_ns) as u32,
            line: ps(parameters.line_ns) as u32,
        };
        let empty = Slot {
            line: 0,
            access: Access::Load,
            bytes: 0,
            compute: 0,
            depends: false,
            sampled: false,
            fenced: false,
            level: Level::Memory,
        };
        let mut fill_buffers = Times::new(parameters.fill_buffers as usize);
        (0..parameters.fill_buffers).for_each(|_| fill_buffers.insert(0));
        Self {
            limits,
            threads: programs
                .into_iter()
                .map(|program| Thread {
                    program,
                    last_line: u64::MAX,
                    done: false,
                })
                .collect(),
            turn: 0,
            window: vec![empty; WINDOW].into(),
            head: 0,
            seen: 0,
            tail: 0,
            fill_buffers,
            l2_queue: Times::new(parameters.l2_queue_entries as usize),
            streams: Streams::new(),
            prefetched: PrefetchedLines::new(),
            caches,
            evicted: Vec::new(),
            pages: [(u64::MAX, 0); PAGES],
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
        &self.window[sequence as usize % WINDOW]
    }

    /// Fills the window up to what can be exposed.
    fn fill(&mut self, shared: &mut Shared) {
        let ahead = self.limits.load_window + 1;
        while self.tail < self.head + ahead {
            let Some(operation) = self.next_operation() else {
                return;
            };
            self.push(operation, shared);
        }
    }

    fn next_operation(&mut self) -> Option<Operation> {
        for _ in 0..self.threads.len() {
            self.turn = (self.turn + 1) % self.threads.len();
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

    fn push(&mut self, operation: Operation, shared: &mut Shared) {
        let first = operation.address >> LINE_BYTES_LOG2;
        let last = (operation.address + u64::from(operation.bytes.max(1)) - 1) >> LINE_BYTES_LOG2;
        let lines = last - first + 1;
        let mut compute = operation.compute_ps + self.limits.access;
        for line in first..=last {
            let level = self.find(line, operation.access, shared);
            self.window[self.tail as usize % WINDOW] = Slot {
                line,
                access: operation.access,
                bytes: operation.bytes / lines as u32,
                compute: compute + self.limits.line,
                depends: operation.depends && line == first,
                sampled: operation.sampled,
                fenced: operation.fenced,
                level,
            };
            compute = 0;
            self.tail += 1;
        }
    }

    /// Does all that can be done at `now` and returns when there is more to do, or [`NEVER`].
    pub(crate) fn step(&mut self, now: Ps, shared: &mut Shared) -> Ps {
        self.l2_queue.drop_until(now);
        loop {
            self.fill(shared);
            self.expose(now, shared);
            if self.head == self.tail {
                return NEVER;
            }
            let ready = self.head_ready();
            if ready > now {
                return self.wake(ready);
            }
            if !self.issue(now, shared) {
                return self.l2_queue.first().unwrap_or(NEVER);
            }
        }
    }

    /// When there is something to do, given when the head is ready.
    fn wake(&self, ready: Ps) -> Ps {
        let blocked = self.seen < self.tail
            && self.seen < self.head + self.limits.load_window
            && self.l2_queue.len() >= self.limits.l2_queue
            && self.exposable(self.seen);
        match self.l2_queue.first() {
            Some(release) if blocked => ready.min(release),
            _ => ready,
        }
    }

    fn exposable(&self, sequence: u64) -> bool {
        let slot = self.slot(sequence);
        !(slot.depends || slot.fenced)
    }

    /// Shows loads ahead of the head to the prefetchers, in program order.
    fn expose(&mut self, now: Ps, shared: &mut Shared) {
        self.seen = self.seen.max(self.head);
        let end = self.tail.min(self.head + self.limits.load_window);
        while self.seen < end {
            if self.seen > self.head && !self.exposable(self.seen) {
                return;
            }
            let slot = self.slot(self.seen);
            if slot.access == Access::Load && slot.level == Level::Memory {
                let line = self.slot(self.seen).line;
                let full = self.l2_queue.len() >= self.limits.l2_queue;
                if self.seen > self.head && full {
                    return;
                }
                let covered = self.follow(now, line, shared);
                if self.seen > self.head && covered && !self.prefetched.contains(line) {
                    self.prefetch(now, line, shared);
                }
            }
            self.seen += 1;
        }
    }

    /// Lets the streamer see an access to `line`; true if it had predicted the line.
    fn follow(&mut self, now: Ps, line: u64, shared: &mut Shared) -> bool {
        let stream = *self.streams.touch(line);
        // The spatial prefetcher completes pairs of lines.
        let covered = stream.run >= self.limits.trigger || (stream.run > 0 && line & 1 == 1);
        if stream.run < self.limits.trigger {
            return covered;
        }
        let page_end = ((line >> PAGE_LINES_LOG2) + 1) << PAGE_LINES_LOG2;
        let end = (line + 1 + self.limits.distance).min(page_end);
        let mut frontier = stream.frontier.max(line + 1);
        let until = end.min(frontier + 2);
        while frontier < until {
            if self.is_wanted(frontier, shared) {
                if self.l2_queue.len() >= self.limits.l2_queue {
                    break;
                }
                self.prefetch(now, frontier, shared);
            }
            frontier += 1;
        }
        self.streams.touch(line).frontier = frontier;
        covered
    }

    /// Whether a prefetch of the line would bring anything: it is in no cache and not under way.
    fn is_wanted(&self, line: u64, shared: &Shared) -> bool {
        let cached = match (&self.caches, &shared.l3) {
            (CoreCaches::Simulated(caches), Some(l3)) => caches.contains(line) || l3.contains(line),
            _ => false,
        };
        !cached && !self.prefetched.contains(line)
    }

    fn prefetch(&mut self, now: Ps, line: u64, shared: &mut Shared) {
        let done = self.request(now, line, Transfer::Read, shared);
        self.l2_queue.insert(done);
        self.prefetched.insert(line, done);
    }

    #[inline]
    fn request(&mut self, now: Ps, line: u64, kind: Transfer, shared: &mut Shared) -> Ps {
        let page = line >> PAGE_LINES_LOG2;
        let known = &mut self.pages[(page ^ (page >> 3) ^ (page >> 16)) as usize % PAGES];
        if known.0 != page {
            *known = (page, shared.map.device(page));
        }
        shared.network.request(now, line, known.1, kind)
    }

    /// When the head can be issued: its fill buffer is free and what it waits for is there.
    #[inline]
    fn head_ready(&self) -> Ps {
        let slot = self.slot(self.head);
        let mut ready = (self.issued_at + Ps::from(slot.compute)).max(self.fence_until);
        if slot.level != Level::L1 && slot.access != Access::Compute {
            ready = ready.max(self.fill_buffers.first().unwrap_or(0));
        }
        if slot.depends {
            ready = ready.max(self.previous_done + Ps::from(slot.compute));
        }
        if slot.fenced {
            ready = ready.max(self.all_done + Ps::from(slot.compute));
        }
        ready
    }

    /// Issues the head; false if the L2 queue has no place for it.
    fn issue(&mut self, now: Ps, shared: &mut Shared) -> bool {
        while let Some(line) = self.evicted.pop() {
            self.request(now, line, Transfer::Write, shared);
        }
        let slot = *self.slot(self.head);
        let done = match (slot.access, slot.level) {
            (Access::Compute, _) => now,
            (Access::NonTemporalStore, _) | (Access::Flush, Level::Memory) => {
                self.request(now, slot.line, Transfer::Write, shared)
            }
            (_, Level::L1) => now + self.limits.l1_hit,
            (_, Level::L2) => now + self.limits.l2_hit,
            (_, Level::L3) => now + self.limits.l3_hit,
            (_, Level::Memory) => match self.fetch(now, &slot, shared) {
                Some(done) => done,
                None => return false,
            },
        };
        self.account(now, &slot, done, shared);
        self.issued_at = now;
        self.previous_done = done;
        self.all_done = self.all_done.max(done);
        if slot.sampled {
            self.samples.push(done - now);
        }
        if slot.fenced {
            self.fence_until = done;
        }
        self.head += 1;
        true
    }

    /// Counts an issued line and takes a fill buffer for as long as it needs one.
    fn account(&mut self, now: Ps, slot: &Slot, done: Ps, shared: &mut Shared) {
        // A line that waits in L2 is handed over at once; one from memory is filled and replayed.
        let mut release = done;
        let missed = done > now + self.limits.l2_hit;
        if missed {
            release += self.limits.turnaround;
        }
        match slot.access {
            Access::Load | Access::Prefetch => self.counts.load_bytes += u64::from(slot.bytes),
            Access::Store => {
                if missed {
                    release += self.limits.store_commit;
                }
                self.counts.store_bytes += u64::from(slot.bytes);
                if slot.level == Level::Memory {
                    self.modify(now, slot.line, shared);
                }
            }
            Access::NonTemporalStore => self.counts.store_bytes += u64::from(slot.bytes),
            Access::Flush => {}
            Access::Compute => return,
        }
        self.counts.lines += 1;
        if slot.level != Level::L1 {
            self.fill_buffers.pop_first();
            self.fill_buffers.insert(release);
        }
    }

    /// Brings a line to L1; `None` if the L2 queue is full.
    fn fetch(&mut self, now: Ps, slot: &Slot, shared: &mut Shared) -> Option<Ps> {
        if slot.access == Access::Store {
            self.follow(now, slot.line, shared);
        }
        if let Some(ready) = self.prefetched.take(slot.line) {
            return Some(ready.max(now) + self.limits.l2_hit);
        }
        if self.l2_queue.len() >= self.limits.l2_queue {
            return None;
        }
        let done = self.request(now, slot.line, Transfer::Read, shared);
        self.l2_queue.insert(done);
        Some(done)
    }

    /// Where the caches find a line, in program order.
    fn find(&mut self, line: u64, access: Access, shared: &mut Shared) -> Level {
        let (CoreCaches::Simulated(caches), Some(l3)) = (&mut self.caches, &mut shared.l3) else {
            // Parts of one line, one after the other.
            let last = std::mem::replace(&mut self.threads[self.turn].last_line, line);
            let part = last == line && matches!(access, Access::Load | Access::Store);
            return if part { Level::L1 } else { Level::Memory };
        };
        match access {
            Access::Load | Access::Prefetch => caches.access(l3, line, false, &mut self.evicted),
            Access::Store => caches.access(l3, line, true, &mut self.evicted),
            Access::Flush if !caches.clean(l3, line) => Level::L1,
            Access::NonTemporalStore | Access::Flush | Access::Compute => Level::Memory,
        }
    }

    /// Where programs stream: a stored line replaces a modified one, which is written back.
    ///
    /// Sets are hashed, so the line that leaves is any of the modified ones, not the oldest.
    fn modify(&mut self, now: Ps, line: u64, shared: &mut Shared) {
        let CoreCaches::Streaming { modified, capacity } = &mut self.caches else {
            return;
        };
        if modified.len() < *capacity {
            modified.push(line);
            return;
        }
        let place = (mix(line ^ self.head) >> 16) as usize % *capacity;
        let evicted = std::mem::replace(&mut modified[place], line);
        self.request(now, evicted, Transfer::Write, shared);
    }
}
