//! One virtual core: program order, fill buffers, the L2 queue and the prefetchers.

use super::machine::CoreParameters;
use super::network::{DeviceIndex, Network, Transfer, mix};
use super::placement::{AddressMap, PAGE_LINES_LOG2};
use super::prefetch::{PrefetchedLines, Streams};
use super::program::{Access, Operation, Program};
use super::time::{Ps, ps};
use super::times::Times;

const LINE_BYTES_LOG2: u32 = 6;
const WINDOW: usize = 256;
const NEVER: Ps = Ps::MAX;

/// Where a line is in its way through the core.
#[derive(Debug, Clone, Copy)]
struct Slot {
    line: u64,
    access: Access,
    bytes: u32,
    compute: u32,
    depends: bool,
    sampled: bool,
    exposed: bool,
}

/// Picoseconds and counts of [`CoreParameters`].
#[derive(Debug, Clone)]
struct Limits {
    l2_queue: usize,
    l2_queue_prefetch: usize,
    turnaround: Ps,
    store_commit: Ps,
    load_window: u64,
    load_trigger: u32,
    store_trigger: u32,
    distance: u64,
    l2_hit: Ps,
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
    dirty: Vec<u64>,
    dirty_lines: usize,
    last_page: (u64, DeviceIndex),
    issued_at: Ps,
    previous_done: Ps,
    all_done: Ps,
    fence_until: Ps,
    pub samples: Vec<Ps>,
    pub counts: CoreCounts,
}

impl VirtualCore {
    pub(crate) fn new(
        parameters: &CoreParameters,
        programs: Vec<Box<dyn Program>>,
        dirty_lines: usize,
    ) -> Self {
        let limits = Limits {
            l2_queue: parameters.l2_queue as usize,
            l2_queue_prefetch: parameters.l2_queue_prefetch as usize,
            turnaround: ps(parameters.fill_turnaround_ns),
            store_commit: ps(parameters.store_commit_ns),
            load_window: u64::from(parameters.load_window_lines),
            load_trigger: parameters.load_trigger_lines,
            store_trigger: parameters.store_trigger_lines,
            distance: u64::from(parameters.streamer_distance_lines),
            l2_hit: ps(parameters.l2_hit_ns),
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
            exposed: false,
        };
        let mut fill_buffers = Times::new(parameters.fill_buffers as usize);
        (0..parameters.fill_buffers).for_each(|_| fill_buffers.insert(0));
        Self {
            limits,
            threads: programs.into_iter().map(|program| Thread { program, done: false }).collect(),
            turn: 0,
            window: vec![empty; WINDOW].into(),
            head: 0,
            seen: 0,
            tail: 0,
            fill_buffers,
            l2_queue: Times::new(parameters.l2_queue as usize),
            streams: Streams::new(),
            prefetched: PrefetchedLines::new(),
            dirty: Vec::with_capacity(dirty_lines),
            dirty_lines,
            last_page: (u64::MAX, 0),
            issued_at: 0,
            previous_done: 0,
            all_done: 0,
            fence_until: 0,
            samples: Vec::new(),
            counts: CoreCounts::default(),
        }
    }

    #[inline]
    fn slot(&self, sequence: u64) -> &Slot {
        &self.window[sequence as usize % WINDOW]
    }

    /// Fills the window up to what can be exposed.
    fn fill(&mut self) {
        let ahead = self.limits.load_window + 1;
        while self.tail < self.head + ahead {
            let Some(operation) = self.next_operation() else { return };
            self.push(operation);
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

    fn push(&mut self, operation: Operation) {
        let first = operation.address >> LINE_BYTES_LOG2;
        let last = (operation.address + u64::from(operation.bytes.max(1)) - 1) >> LINE_BYTES_LOG2;
        let lines = last - first + 1;
        let mut compute = operation.compute_ps + self.limits.access;
        for line in first..=last {
            self.window[self.tail as usize % WINDOW] = Slot {
                line,
                access: operation.access,
                bytes: operation.bytes / lines as u32,
                compute: compute + self.limits.line,
                depends: operation.depends && line == first,
                sampled: operation.sampled,
                exposed: false,
            };
            compute = 0;
            self.tail += 1;
        }
    }

    /// Does all that can be done at `now` and returns when there is more to do, or [`NEVER`].
    pub(crate) fn step(&mut self, now: Ps, map: &AddressMap, network: &mut Network) -> Ps {
        self.l2_queue.drop_until(now);
        loop {
            self.fill();
            self.expose(now, map, network);
            if self.head == self.tail {
                return NEVER;
            }
            let ready = self.head_ready();
            if ready > now {
                return self.wake(ready);
            }
            if !self.issue(now, map, network) {
                return self.l2_queue.first().unwrap_or(NEVER);
            }
        }
    }

    /// When there is something to do, given when the head is ready.
    fn wake(&self, ready: Ps) -> Ps {
        let blocked = self.seen < self.tail
            && self.seen < self.head + self.limits.load_window
            && self.l2_queue.len() >= self.limits.l2_queue_prefetch
            && self.exposable(self.seen);
        match self.l2_queue.first() {
            Some(release) if blocked => ready.min(release),
            _ => ready,
        }
    }

    fn exposable(&self, sequence: u64) -> bool {
        let slot = self.slot(sequence);
        !(slot.depends || slot.sampled)
    }

    /// Shows loads ahead of the head to the prefetchers, in program order.
    fn expose(&mut self, now: Ps, map: &AddressMap, network: &mut Network) {
        self.seen = self.seen.max(self.head);
        let end = self.tail.min(self.head + self.limits.load_window);
        while self.seen < end {
            if self.seen > self.head && !self.exposable(self.seen) {
                return;
            }
            if self.slot(self.seen).access == Access::Load {
                let line = self.slot(self.seen).line;
                let full = self.l2_queue.len() >= self.limits.l2_queue_prefetch;
                if self.seen > self.head && full {
                    return;
                }
                let covered = self.follow(now, line, self.limits.load_trigger, map, network);
                if self.seen > self.head && covered && self.prefetched.get(line).is_none() {
                    self.prefetch(now, line, map, network);
                }
                self.window[self.seen as usize % WINDOW].exposed = true;
            }
            self.seen += 1;
        }
    }

    /// Lets the streamer see an access to `line`; true if it had predicted the line.
    fn follow(
        &mut self,
        now: Ps,
        line: u64,
        trigger: u32,
        map: &AddressMap,
        network: &mut Network,
    ) -> bool {
        let stream = *self.streams.touch(line);
        // The spatial prefetcher completes pairs of lines.
        let covered = stream.run >= trigger || (stream.run > 0 && line & 1 == 1);
        if stream.run < trigger {
            return covered;
        }
        let page_end = ((line >> PAGE_LINES_LOG2) + 1) << PAGE_LINES_LOG2;
        let end = (line + 1 + self.limits.distance).min(page_end);
        let mut frontier = stream.frontier.max(line + 1);
        let until = end.min(frontier + 2);
        while frontier < until {
            if self.prefetched.get(frontier).is_none() {
                if self.l2_queue.len() >= self.limits.l2_queue_prefetch {
                    break;
                }
                self.prefetch(now, frontier, map, network);
            }
            frontier += 1;
        }
        self.streams.touch(line).frontier = frontier;
        covered
    }

    fn prefetch(&mut self, now: Ps, line: u64, map: &AddressMap, network: &mut Network) {
        let done = self.request(now, line, Transfer::Read, map, network);
        self.l2_queue.insert(done);
        self.prefetched.insert(line, done);
    }

    #[inline]
    fn request(
        &mut self,
        now: Ps,
        line: u64,
        kind: Transfer,
        map: &AddressMap,
        network: &mut Network,
    ) -> Ps {
        let page = line >> PAGE_LINES_LOG2;
        if self.last_page.0 != page {
            self.last_page = (page, map.device(page));
        }
        network.request(now, line, self.last_page.1, kind)
    }

    /// When the head can be issued: its fill buffer is free and what it waits for is there.
    #[inline]
    fn head_ready(&self) -> Ps {
        let slot = self.slot(self.head);
        let mut ready = (self.issued_at + Ps::from(slot.compute)).max(self.fence_until);
        ready = ready.max(self.fill_buffers.first().unwrap_or(0));
        if slot.depends {
            ready = ready.max(self.previous_done + Ps::from(slot.compute));
        }
        if slot.sampled {
            ready = ready.max(self.all_done);
        }
        ready
    }

    /// Issues the head; false if the L2 queue has no place for it.
    fn issue(
        &mut self,
        now: Ps,
        map: &AddressMap,
        network: &mut Network,
    ) -> bool {
        let slot = *self.slot(self.head);
        let done = match slot.access {
            Access::Load | Access::Store => {
                let Some(done) = self.fetch(now, &slot, map, network) else { return false };
                done
            }
            Access::NonTemporalStore | Access::Flush => {
                self.request(now, slot.line, Transfer::Write, map, network)
            }
        };
        // A line that waits in L2 is handed over at once; one from memory is filled and replayed.
        let missed = slot.access != Access::Load && slot.access != Access::Store
            || done > now + self.limits.l2_hit;
        let mut release = done;
        if missed {
            release += self.limits.turnaround;
        }
        match slot.access {
            Access::Load => self.counts.load_bytes += u64::from(slot.bytes),
            Access::Store => {
                if missed {
                    release += self.limits.store_commit;
                }
                self.counts.store_bytes += u64::from(slot.bytes);
                self.write_back(now, slot.line, map, network);
            }
            Access::NonTemporalStore => self.counts.store_bytes += u64::from(slot.bytes),
            Access::Flush => {}
        }
        self.fill_buffers.pop_first();
        self.fill_buffers.insert(release);
        self.counts.lines += 1;
        self.issued_at = now;
        self.previous_done = done;
        self.all_done = self.all_done.max(done);
        if slot.sampled {
            self.samples.push(done - now);
            self.fence_until = done;
        }
        self.head += 1;
        true
    }

    /// Brings a line to L1; `None` if the L2 queue is full.
    fn fetch(
        &mut self,
        now: Ps,
        slot: &Slot,
        map: &AddressMap,
        network: &mut Network,
    ) -> Option<Ps> {
        if slot.access == Access::Store {
            self.follow(now, slot.line, self.limits.store_trigger, map, network);
        }
        if let Some(ready) = self.prefetched.take(slot.line) {
            return Some(ready.max(now) + self.limits.l2_hit);
        }
        if self.l2_queue.len() >= self.limits.l2_queue {
            return None;
        }
        let done = self.request(now, slot.line, Transfer::Read, map, network);
        self.l2_queue.insert(done);
        Some(done)
    }

    /// Marks a line as modified; the cache gives back one that was modified some time ago.
    ///
    /// Sets are hashed, so the line that leaves is any of the modified ones, not the oldest.
    fn write_back(&mut self, now: Ps, line: u64, map: &AddressMap, network: &mut Network) {
        if self.dirty.len() < self.dirty_lines {
            self.dirty.push(line);
            return;
        }
        let place = (mix(line ^ self.head) >> 16) as usize % self.dirty_lines;
        let evicted = std::mem::replace(&mut self.dirty[place], line);
        self.request(now, evicted, Transfer::Write, map, network);
    }
}
