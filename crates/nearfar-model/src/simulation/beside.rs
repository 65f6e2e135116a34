//! Groups of threads beside each other, each doing one thing on one tier.

use super::machine::{Machine, MachineError, TierName};
use super::pattern::{Order, Pattern};
use super::placement::AddressMap;
use super::program::{Access, Operation, Program};
use super::scheduler::{Caches, Simulation};
use super::time::ps;

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
    let mut simulation = Simulation::new(machine, map, programs, Caches::Streaming)?;
    simulation.advance(u64::MAX, span.warm_ns);
    let before = simulation.bytes_by_core();
    simulation.advance(u64::MAX, span.warm_ns + span.measured_ns);
    let after = simulation.bytes_by_core();
    let mut first = 0;
    let of_group = groups.iter().map(|group| {
        let cores = first..first + group.threads;
        first = cores.end;
        let bytes: u64 = cores.map(|core| after[core] - before[core]).sum();
        // What is copied is loaded and stored.
        let times = if group.source.is_some() { 2.0 } else { 1.0 };
        bytes as f64 / times / span.measured_ns
    });
    Ok(of_group.collect())
}
