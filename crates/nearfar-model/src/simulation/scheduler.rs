//! The clock: cores are stepped in the order of virtual time.

use super::cache::{Cache, PrivateCaches};
use super::core::{CoreCaches, CoreCounts, Shared, VirtualCore};
use super::machine::{Machine, MachineError};
use super::network::Network;
use super::placement::AddressMap;
use super::program::Program;
use super::time::{Ps, ns, ps};

/// What the request table has seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableCounts {
    /// Requests that got an entry.
    pub admitted: u64,
    /// Requests whose entry was freed.
    pub released: u64,
    /// Entries in use at the end.
    pub in_flight: u64,
    /// Most entries in use at once.
    pub in_flight_max: u64,
    /// Sum of the times that requests hold their entries.
    pub occupancy_ns: f64,
    /// From the first admission to the last release.
    pub span_ns: f64,
}

/// What a simulation gave.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Measured virtual time.
    pub elapsed_ns: f64,
    /// Bytes loaded by programs.
    pub load_bytes: u64,
    /// Bytes stored by programs.
    pub store_bytes: u64,
    /// Lines that programs touched, warm-up included.
    pub lines: u64,
    /// Lines read from each device, warm-up included.
    pub lines_read: Vec<u64>,
    /// Lines written to each device, warm-up included.
    pub lines_written: Vec<u64>,
    /// Bytes loaded by programs, core by core.
    pub load_bytes_by_core: Vec<u64>,
    /// The request table, warm-up included.
    pub table: TableCounts,
    /// Latencies of sampled operations.
    pub samples_ns: Vec<f64>,
}

impl Outcome {
    /// Requests that reached memory, warm-up included.
    pub fn requests(&self) -> u64 {
        self.lines_read.iter().chain(&self.lines_written).sum()
    }

    /// Bytes of programs per nanosecond, which is GB/s.
    pub fn gb_per_s(&self) -> f64 {
        (self.load_bytes + self.store_bytes) as f64 / self.elapsed_ns
    }
}

/// How caches take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caches {
    /// Programs go once over regions much larger than all caches: every line misses, and stored
    /// lines are written back after a while.
    Streaming,
    /// L1, L2 and L3 are simulated line by line, empty at the start.
    Simulated,
}

/// A machine with programs on its cores.
pub struct Simulation {
    shared: Shared,
    cores: Vec<VirtualCore>,
    next: Vec<Ps>,
}

impl Simulation {
    /// Distributes programs over the cores, further ones as second threads.
    ///
    /// # Errors
    /// [`MachineError::Threads`] for no programs, or more than the machine has threads.
    pub fn new(
        machine: &Machine,
        map: AddressMap,
        programs: Vec<Box<dyn Program>>,
        caches: Caches,
    ) -> Result<Self, MachineError> {
        machine.check_threads(programs.len())?;
        let count = (machine.cores as usize).min(programs.len());
        let mut threads: Vec<Vec<Box<dyn Program>>> = (0..count).map(|_| Vec::new()).collect();
        for (index, program) in programs.into_iter().enumerate() {
            threads[index % count].push(program);
        }
        Self::on_cores(machine, map, threads, caches)
    }

    /// As [`Simulation::new`], with the programs of each core chosen by the caller.
    ///
    /// # Errors
    /// [`MachineError::Threads`] for no programs, or more than the machine has threads.
    pub fn on_cores(
        machine: &Machine,
        map: AddressMap,
        threads: Vec<Vec<Box<dyn Program>>>,
        caches: Caches,
    ) -> Result<Self, MachineError> {
        machine.check_threads(threads.iter().map(Vec::len).sum())?;
        let core = &machine.core;
        let cores: Vec<_> = threads
            .into_iter()
            .map(|programs| {
                let caches = match caches {
                    Caches::Streaming => CoreCaches::streaming(),
                    Caches::Simulated => CoreCaches::Simulated(PrivateCaches::new(
                        Cache::new(core.l1_bytes, core.l1_ways),
                        Cache::new(core.l2_bytes, core.l2_ways),
                    )),
                };
                VirtualCore::new(core, programs, caches)
            })
            .collect();
        let l3 = match caches {
            Caches::Streaming => None,
            Caches::Simulated => Some(Cache::new(machine.l3_bytes, core.l3_ways)),
        };
        let shared = Shared {
            map,
            network: Network::new(machine),
            l3,
        };
        Ok(Self {
            shared,
            next: vec![0; cores.len()],
            cores,
        })
    }

    /// Lines that programs have touched so far.
    pub fn lines(&self) -> u64 {
        self.cores.iter().map(|core| core.counts.lines).sum()
    }

    /// Runs until programs have touched about `lines` lines in all, until the time `until_ns`, or
    /// to their end; returns the time in ns.
    pub fn advance(&mut self, lines: u64, until_ns: f64) -> f64 {
        let now = self.run_lines(lines, ps(until_ns));
        if !self.is_done() {
            return ns(now);
        }
        let finished = self.cores.iter().map(VirtualCore::finished_at);
        ns(finished.fold(now, Ps::max))
    }

    /// Whether all programs have ended.
    pub fn is_done(&self) -> bool {
        self.next.iter().all(|next| *next == Ps::MAX)
    }

    /// Latencies of the sampled operations of a core so far, in its order, in ns.
    pub fn samples_ns(&self, core: usize) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.cores[core].samples.iter().map(|sample| ns(*sample))
    }

    /// Runs until programs have touched `lines` lines in all, until a time, or to their end;
    /// returns the time.
    fn run_lines(&mut self, lines: u64, until: Ps) -> Ps {
        let mut now = 0;
        loop {
            for _ in 0..256 {
                let (index, mut time, limit) = earliest(&self.next);
                if time == Ps::MAX {
                    return now;
                }
                if time > until {
                    return until;
                }
                let limit = limit.min(until);
                let core = &mut self.cores[index];
                for _ in 0..64 {
                    now = time;
                    time = core.step(time, &mut self.shared);
                    if time > limit || time == Ps::MAX {
                        break;
                    }
                }
                self.next[index] = time;
            }
            if self.lines() >= lines {
                return now;
            }
        }
    }

    /// Runs all programs to their end.
    pub fn run(mut self) -> Outcome {
        let end = self.run_lines(u64::MAX, Ps::MAX - 1);
        let end = self
            .cores
            .iter()
            .map(VirtualCore::finished_at)
            .fold(end, Ps::max);
        self.outcome(end, &[])
    }

    /// Warms up for `warm_lines` and measures the `lines` after them.
    pub fn measure(mut self, warm_lines: u64, lines: u64) -> Outcome {
        let start = self.run_lines(warm_lines, Ps::MAX - 1);
        let before: Vec<_> = self.cores.iter().map(|core| core.counts.clone()).collect();
        let end = self.run_lines(warm_lines + lines, Ps::MAX - 1);
        self.outcome(end - start, &before)
    }

    fn outcome(&self, elapsed: Ps, before: &[CoreCounts]) -> Outcome {
        let network = &self.shared.network.counts;
        let mut outcome = Outcome {
            elapsed_ns: ns(elapsed),
            load_bytes: 0,
            store_bytes: 0,
            lines: self.lines(),
            lines_read: network.reads.clone(),
            lines_written: network.writes.clone(),
            load_bytes_by_core: Vec::new(),
            table: self.shared.network.table_counts(),
            samples_ns: Vec::new(),
        };
        for (index, core) in self.cores.iter().enumerate() {
            let before = before.get(index).cloned().unwrap_or_default();
            let load_bytes = core.counts.load_bytes - before.load_bytes;
            outcome.load_bytes += load_bytes;
            outcome.load_bytes_by_core.push(load_bytes);
            outcome.store_bytes += core.counts.store_bytes - before.store_bytes;
            outcome
                .samples_ns
                .extend(core.samples.iter().map(|sample| ns(*sample)));
        }
        outcome
    }
}

/// The first of the earliest moments, and the earliest of the others.
fn earliest(times: &[Ps]) -> (usize, Ps, Ps) {
    let (mut index, mut first, mut second) = (0, Ps::MAX, Ps::MAX);
    for (at, time) in times.iter().enumerate() {
        if *time < first {
            second = first;
            first = *time;
            index = at;
        } else {
            second = second.min(*time);
        }
    }
    (index, first, second)
}
