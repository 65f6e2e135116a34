//! One virtual core: program order, fill buffers, the L2 queue and the prefetchers.
//!
//! A core runs on its own for one round of virtual time, which is shorter than any way to memory
//! and back. So nothing that it asks for in a round is answered in it: requests are collected, the
//! scheduler has them answered in the order of time, and the core settles what waited for them.

mod issue;
mod locking;
mod prefetching;
mod ready;
mod settle;

use nearfar_topology::SimulatedCores;

use self::locking::Locking;
use super::cache::{CoreCaches, Levels};
use super::locks::Locks;
use super::pending::{Chain, InFlight, Reorder};
use super::placement::{AddressMap, PAGE_LINES_LOG2};
use super::prefetch::Streams;
use super::program::{Operation, Program};
use super::requests::Requests;
use super::slots::{SlotCounter, SlotTimes, SlotUse};
use super::time::{Ps, ps};
use super::times::{FillBuffers, LazyTimes};
use super::waits::Waits;
use super::window::{Action, Window};

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
    /// 0 where there are no prefetchers.
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
    l2_queue: LazyTimes,
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
    locking: Locking,
    /// A load ahead of the head does.
    ahead_blocked: bool,
    /// Loads and stores of this round that wait for answers.
    unanswered: usize,
    issued_at: Ps,
    chain: Chain,
    in_flight: InFlight,
    /// Of a core whose caches are simulated.
    reorder: Option<Reorder>,
    all_done: Ps,
    /// When all loads and stores are done, without prefetches and loads on wrong paths.
    ordered_done: Ps,
    fence_until: Ps,
    /// When operations began that are timed together.
    timed_from: Option<Ps>,
    pub samples: Vec<Ps>,
    pub counts: CoreCounts,
    /// Where issue slots go, if asked for.
    slots: Option<Box<SlotCounter>>,
    /// What the program waited for before requests left, where that is counted.
    waits: Option<Box<Waits>>,
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
                (ps(parameters.access_ns), ps(parameters.line_ns)),
                matches!(caches, CoreCaches::Simulated(_)),
            ),
            fill_buffers: FillBuffers::new(parameters.fill_buffers as usize),
            l2_queue: LazyTimes::new(parameters.l2_queue_entries as usize),
            l2_taken: 0,
            streams: Streams::new(),
            caches,
            evicted: Vec::new(),
            waiting: Vec::new(),
            first_request: 0,
            head_blocked: false,
            in_section: false,
            locking: Locking::new(),
            ahead_blocked: false,
            unanswered: 0,
            issued_at: 0,
            chain: Chain::default(),
            in_flight: InFlight::new(),
            reorder,
            all_done: 0,
            ordered_done: 0,
            fence_until: 0,
            timed_from: None,
            samples: Vec::new(),
            counts: CoreCounts::default(),
            slots: None,
            waits: None,
        }
    }

    /// Counts what the program waits for from now on.
    pub(crate) fn count_waits(&mut self) {
        self.waits = Some(Box::default());
    }

    /// What the program has waited for; nothing where that is not counted.
    pub(crate) fn waits(&self) -> Waits {
        self.waits.as_deref().copied().unwrap_or_default()
    }

    /// Counts where issue slots go from now on, of a core that so many threads share.
    pub(crate) fn count_slots(
        &mut self,
        parameters: &SimulatedCores,
        threads: u32,
        access_instructions_ns: f64,
    ) {
        let access = parameters.access_ns + parameters.line_ns;
        self.slots = Some(Box::new(SlotCounter::new(SlotUse {
            window: ps(f64::from(parameters.window_lines) * access),
            threads,
            access: ps(access),
            access_instructions: ps(access_instructions_ns.min(access)),
        })));
    }

    /// When lines of the last round were asked for and arrive that are to be read; nothing where slots are not
    /// counted.
    pub(crate) fn reads(&self) -> &[(Ps, Ps)] {
        self.slots.as_ref().map_or(&[], |slots| &slots.reads)
    }

    /// Where issue slots went; nothing where they are not counted.
    pub(crate) fn slot_times(&self) -> SlotTimes {
        let slots = self.slots.as_ref();
        slots.map(|slots| slots.times).unwrap_or_default()
    }

    /// Counts the time until `now`, when the head is to be issued.
    #[inline(never)]
    fn count_time(&mut self, now: Ps) {
        if let Some(slots) = &mut self.slots {
            slots.count(now, self.window.head());
        }
    }

    /// When the last operation so far was complete.
    pub(crate) fn finished_at(&self) -> Ps {
        self.all_done
    }

    /// Takes operations through the caches as if no time passed; how many lines no cache had.
    pub(crate) fn warm(
        &mut self,
        operations: impl Iterator<Item = Operation>,
        levels: &mut Levels,
    ) -> u64 {
        let (caches, evicted) = (&self.caches, &mut self.evicted);
        // Those that are still to be written stay.
        let kept = evicted.len();
        let brought = operations.map(|operation| {
            let lines = caches.warm(&operation, levels, evicted);
            evicted.truncate(kept);
            lines
        });
        brought.sum()
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
        self.locking.look_again = None;
        loop {
            if CACHED {
                let (caches, evicted) = (&mut self.caches, &mut self.evicted);
                let levels = &mut shared.levels;
                self.window
                    .fill(|slot| caches.look_up(slot, levels.as_mut(), evicted));
            } else {
                self.window.fill_early();
            }
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
            if !self.passes_locks(now, end, shared) {
                if self.locking.look_again.is_some() {
                    return;
                }
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
}

#[inline]
fn line_in_page(line: u64) -> u8 {
    (line & ((1 << PAGE_LINES_LOG2) - 1)) as u8
}
