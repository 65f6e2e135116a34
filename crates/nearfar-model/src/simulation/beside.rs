//! Groups of threads beside each other, each doing one thing on one tier.

use super::machine::{Machine, MachineError, TierName};
use super::pattern::{Order, Pattern};
use super::placement::AddressMap;
use super::program::{Access, Operation, Program};
use super::scheduler::{Caches, Simulation};
use super::time::{ns, ps};
use super::waits::Waits;

/// Bytes that each group goes over.
const REGION_BYTES: u64 = 7 << 30;
/// Bytes of one access of a stream.
const LINE_BYTES: u32 = 64;
/// Bytes of one read of a chase.
const WORD_BYTES: u32 = 8;

/// Threads of which each does the same.
///
/// One paced thread stands for a device's DMA too: loads of near memory for what is written to
/// storage, non-temporal stores for what is read from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// Where its memory lies.
    pub tier: TierName,
    /// What it does, line after line.
    pub access: Access,
    /// Its threads, each on a core of its own.
    pub threads: usize,
    /// Time that a thread spends before each access beyond what its core needs.
    pub pause_ns: f64,
    /// Whether accesses are random reads that wait for each other.
    pub chases: bool,
    /// The tier that each line is loaded from before it is stored, of a copy.
    pub source: Option<TierName>,
}

impl Group {
    /// A group that goes as fast as it can.
    pub fn new(tier: TierName, access: Access, threads: usize) -> Self {
        Self {
            tier,
            access,
            threads,
            pause_ns: 0.0,
            chases: false,
            source: None,
        }
    }

    /// Threads that copy: each line is loaded from one tier and stored to the other, by `store`. The
    /// store does not wait for the load, as no store waits for its value here. Its bandwidth is that of
    /// the bytes copied.
    pub fn copy(from: TierName, to: TierName, store: Access, threads: usize) -> Self {
        Self {
            source: Some(from),
            ..Self::new(to, store, threads)
        }
    }

    /// One thread of dependent reads, whose bandwidth tells the latency.
    pub fn chase(tier: TierName) -> Self {
        Self {
            chases: true,
            ..Self::new(tier, Access::Load, 1)
        }
    }

    /// Makes each thread pause before every access.
    #[must_use]
    pub fn pausing(mut self, pause_ns: f64) -> Self {
        self.pause_ns = pause_ns;
        self
    }

    /// The program of a thread whose stores lie from `base` on, and the loads of a copy before them.
    fn program(&self, thread: usize, base: u64, seed: u64) -> Box<dyn Program> {
        let pattern = self.pattern(self.access, thread, base, seed);
        let pause_ps = ps(self.pause_ns) as u32;
        match self.source {
            None => Box::new(Paced { pattern, pause_ps }),
            Some(_) => Box::new(Copied {
                loads: Paced {
                    pattern: self.pattern(Access::Load, thread, base - REGION_BYTES, seed),
                    pause_ps,
                },
                stores: pattern,
                is_loaded: false,
            }),
        }
    }

    fn pattern(&self, access: Access, thread: usize, base: u64, seed: u64) -> Pattern {
        let (order, bytes) = match self.chases {
            true => (Order::Random, WORD_BYTES),
            false => (Order::Sequential, LINE_BYTES),
        };
        let (thread, threads) = (thread as u64, self.threads as u64);
        let pattern = Pattern::new(access, order, bytes, REGION_BYTES, thread, threads, seed);
        let pattern = pattern.from(base);
        match self.chases {
            true => pattern.dependent(),
            false => pattern,
        }
    }
}

/// A pattern with a pause before each access.
struct Paced {
    pattern: Pattern,
    pause_ps: u32,
}

impl Program for Paced {
    fn next_operation(&mut self) -> Option<Operation> {
        let mut operation = self.pattern.next_operation()?;
        operation.compute_ps += self.pause_ps;
        Some(operation)
    }
}

/// A load of each line, and its store.
struct Copied {
    loads: Paced,
    stores: Pattern,
    is_loaded: bool,
}

impl Program for Copied {
    fn next_operation(&mut self) -> Option<Operation> {
        self.is_loaded = !self.is_loaded;
        match self.is_loaded {
            true => self.loads.next_operation(),
            false => self.stores.next_operation(),
        }
    }
}

/// Virtual time of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Until queues are as long as they stay.
    pub warm_ns: f64,
    /// What is measured after it.
    pub measured_ns: f64,
}

/// Runs groups beside each other and returns the bandwidth of each in GB/s.
///
/// # Errors
/// [`MachineError::Threads`] for more threads than the machine has, [`MachineError::NoTier`] for a tier
/// that it lacks.
pub fn run_beside(
    machine: &Machine,
    groups: &[Group],
    span: Span,
) -> Result<Vec<f64>, MachineError> {
    let mut simulation = simulation(machine, groups)?;
    simulation.advance(u64::MAX, span.warm_ns);
    let before = simulation.bytes_by_core();
    simulation.advance(u64::MAX, span.warm_ns + span.measured_ns);
    Ok(rates(groups, &before, &simulation.bytes_by_core(), span))
}

/// What a group has beside others, and where its requests spend their time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Explained {
    /// Its bandwidth.
    pub gb_per_s: f64,
    /// Its requests that got an entry of the request table, per microsecond. What caches write back may have none, and is then
    /// counted nowhere here.
    pub requests_per_us: f64,
    /// Time that a line waits until its core has a free fill buffer, in the mean, in ns.
    pub fill_buffers_ns: f64,
    /// Time that it waits then until the core's L2 queue has a place, in the mean of all lines, in ns.
    pub l2_queue_ns: f64,
    /// Time that a request waits for an entry of the request table, in the mean, in ns.
    pub table_ns: f64,
    /// Time on the way to the device and, unless the table has answered, back, in the mean, in ns.
    pub link_ns: f64,
    /// Time in the queue of the device and served by it, in the mean, in ns.
    pub device_ns: f64,
    /// Time from a request that leaves the L2 queue to its answer, in the mean, in ns. Without the wait for the table,
    /// it is what a request takes once it has missed the last level.
    pub answered_ns: f64,
    /// Time that a request holds its entry, in the mean, in ns.
    pub held_ns: f64,
    /// Entries of the table that the group holds, in the mean: what enters per time, times what each stays (Little's law).
    pub entries: f64,
}

/// As [`run_beside`], with what explains it.
///
/// # Errors
/// As [`run_beside`].
pub fn explain_beside(
    machine: &Machine,
    groups: &[Group],
    span: Span,
) -> Result<Vec<Explained>, MachineError> {
    let mut simulation = simulation(machine, groups)?.count_waits();
    simulation.advance(u64::MAX, span.warm_ns);
    let before = (simulation.bytes_by_core(), simulation.waits());
    simulation.advance(u64::MAX, span.warm_ns + span.measured_ns);
    let rates = rates(groups, &before.0, &simulation.bytes_by_core(), span);
    let after = simulation.waits();
    let mut first = 0;
    let of_group = groups.iter().zip(rates).map(|(group, gb_per_s)| {
        let cores = first..first + group.threads;
        first = cores.end;
        let waits: Vec<Waits> = cores.map(|core| after[core] - before.1[core]).collect();
        explained(&waits, gb_per_s, span)
    });
    Ok(of_group.collect())
}

fn explained(waits: &[Waits], gb_per_s: f64, span: Span) -> Explained {
    let sum = |of: fn(&Waits) -> u64| waits.iter().map(of).sum::<u64>();
    let requests = sum(|waits| waits.requests);
    let mean = |of: fn(&Waits) -> u64, count: u64| ns(sum(of)) / count.max(1) as f64;
    let of_requests = |of| mean(of, requests);
    let of_lines = |of| mean(of, sum(|waits| waits.lines));
    Explained {
        gb_per_s,
        requests_per_us: requests as f64 / span.measured_ns * 1e3,
        fill_buffers_ns: of_lines(|waits| waits.fill_buffers),
        l2_queue_ns: of_lines(|waits| waits.l2_queue),
        table_ns: of_requests(|waits| waits.table),
        link_ns: of_requests(|waits| waits.link),
        device_ns: of_requests(|waits| waits.device),
        answered_ns: of_requests(|waits| waits.answered),
        held_ns: of_requests(|waits| waits.held),
        entries: ns(sum(|waits| waits.held)) / span.measured_ns,
    }
}

/// The bandwidth of each group in GB/s, of bytes by core.
fn rates(groups: &[Group], before: &[u64], after: &[u64], span: Span) -> Vec<f64> {
    let mut first = 0;
    let of_group = groups.iter().map(|group| {
        let cores = first..first + group.threads;
        first = cores.end;
        let bytes: u64 = cores.map(|core| after[core] - before[core]).sum();
        // What is copied is loaded and stored.
        let times = if group.source.is_some() { 2.0 } else { 1.0 };
        bytes as f64 / times / span.measured_ns
    });
    of_group.collect()
}

/// All groups on one machine, at the start.
fn simulation(machine: &Machine, groups: &[Group]) -> Result<Simulation, MachineError> {
    let mut map = AddressMap::new();
    let mut programs = Vec::new();
    let mut base = 0;
    for (index, group) in groups.iter().enumerate() {
        if let Some(source) = group.source {
            let devices = machine.devices(source, 1)?;
            map.add(base >> 12, REGION_BYTES >> 12, devices);
            base += REGION_BYTES;
        }
        let devices = machine.devices(group.tier, 1)?;
        map.add(base >> 12, REGION_BYTES >> 12, devices);
        let of_thread = |thread| group.program(thread, base, index as u64 + 1);
        programs.extend((0..group.threads).map(of_thread));
        base += REGION_BYTES;
    }
    // A page that nobody touches: posted stores are answered as fast as the nearest memory in use, and
    // near memory is in use on every machine.
    map.add(base >> 12, 1, machine.devices(TierName::Near, 1)?);
    Simulation::new(machine, map, programs, Caches::Streaming)
}
