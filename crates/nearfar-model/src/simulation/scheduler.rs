//! The clock: rounds of virtual time, in which cores run one after the other.
//!
//! A round is no longer than the shortest way to memory and back. What a core does in it can
//! therefore not depend on what others ask for in it, and nobody has to go back: the requests of
//! all cores are answered in the order of time when the round is over.

use super::cache::{CoreCaches, LastLevel, Levels, PrivateCaches};
use super::core::{CoreCounts, Shared, VirtualCore};
use super::locks::Locks;
use super::machine::{Machine, MachineError};
use super::network::{Network, TableVisit};
use super::placement::AddressMap;
use super::program::{Operation, Program};
use super::requests::Requests;
use super::sets::Cache;
use super::slots::{ReadWatch, SlotTimes};
use super::time::{NEVER, Ps, ns, ps};
use super::waits::{NetworkWaits, Waits};

/// What the request table has seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableCounts {
    /// Requests that got an entry.
    pub admitted: u64,
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
    /// When the last operation of each core was complete, in ns since the beginning.
    pub ended_ns_by_core: Vec<f64>,
    /// The request table, warm-up included.
    pub table: TableCounts,
    /// Latencies of sampled operations.
    pub samples_ns: Vec<f64>,
    /// Where the time of all cores went, warm-up included; nothing unless the machine is
    /// [counting it](Machine::counting_slots).
    pub slot_times: SlotTimes,
    /// Every visit to the request table in the order of admission, if asked for (see
    /// [`Simulation::record_visits`]).
    pub visits: Vec<TableVisit>,
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
    network: Network,
    cores: Vec<VirtualCore>,
    /// When each core has something to do.
    next: Vec<Ps>,
    /// Cores of the round, and where their requests end.
    ran: Vec<(usize, usize)>,
    /// Where slots are counted: reads under way by queues, and the queue of each core.
    watches: Vec<ReadWatch>,
    watch_of: Vec<usize>,
    /// Length of a round.
    round: Ps,
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
        let mut private = Vec::new();
        let cores: Vec<_> = threads
            .into_iter()
            .enumerate()
            .map(|(index, programs)| {
                let core = &machine.core_of(index);
                let completes_pairs = caches == Caches::Simulated
                    && !machine.is_part(index)
                    && machine.has_prefetchers();
                let caches = match caches {
                    Caches::Streaming => CoreCaches::streaming(),
                    Caches::Simulated => {
                        let own = machine.caches_of(index);
                        if own == private.len() {
                            let of = u64::from(machine.sharers_of(index));
                            private.push(PrivateCaches::new(
                                Cache::new(core.l1_bytes * of, core.l1_ways),
                                Cache::new(core.l2_bytes * of, core.l2_ways),
                            ));
                        }
                        CoreCaches::Simulated(own)
                    }
                };
                let parameters = core;
                let mut core =
                    VirtualCore::new(index, parameters, programs, caches, completes_pairs);
                if let Some(instructions_ns) = machine.counts_slots {
                    let threads = machine.sharers_of(index);
                    core.count_slots(parameters, threads, instructions_ns);
                }
                core
            })
            .collect();
        // Threads that share caches share the queue of requests too.
        let watch_of: Vec<usize> = (0..cores.len())
            .map(|index| machine.caches_of(index))
            .collect();
        let mut watches = Vec::new();
        if machine.counts_slots.is_some() {
            let count = watch_of.last().map_or(0, |last| last + 1);
            let sharers = |watch| watch_of.iter().filter(|other| **other == watch).count();
            watches.extend(
                (0..count).map(|watch| {
                    ReadWatch::new(sharers(watch) as u32, machine.core.l2_queue_entries)
                }),
            );
        }
        let levels = match caches {
            Caches::Streaming => None,
            Caches::Simulated => Some(Levels {
                private,
                last: LastLevel::new(machine.l3_bytes, machine.core.l3_ways),
            }),
        };
        let network = Network::new(machine, |device| map.uses(device));
        Ok(Self {
            round: network.shortest_answer().max(1),
            network,
            shared: Shared {
                map,
                levels,
                requests: Requests::new(),
                locks: Locks::default(),
            },
            watches,
            watch_of,
            next: vec![0; cores.len()],
            ran: Vec::new(),
            cores,
        })
    }

    /// Keeps a record of every request in [`Outcome::visits`].
    #[must_use]
    pub fn record_visits(mut self) -> Self {
        self.network.visits = Some(Vec::new());
        self
    }

    /// Keeps where the requests of every core spend their time, for [`Simulation::waits`].
    #[must_use]
    pub(crate) fn count_waits(mut self) -> Self {
        self.network.waits = Some(NetworkWaits::new(self.cores.len()));
        for core in &mut self.cores {
            core.count_waits();
        }
        self
    }

    /// Where the requests of every core spent their time so far; nothing unless they are counted.
    pub(crate) fn waits(&self) -> Vec<Waits> {
        let mut waits = self.network.waits.clone().unwrap_or_default().of_cores;
        for (waits, core) in waits.iter_mut().zip(&self.cores) {
            let own = core.waits();
            waits.fill_buffers += own.fill_buffers;
            waits.l2_queue += own.l2_queue;
            waits.lines = own.lines;
        }
        waits
    }

    /// Lines that programs have touched so far.
    pub fn lines(&self) -> u64 {
        self.cores.iter().map(|core| core.counts.lines).sum()
    }

    /// Bytes that programs have loaded and stored so far, core by core.
    pub fn bytes_by_core(&self) -> Vec<u64> {
        let counts = self.cores.iter().map(|core| core.counts.bytes);
        counts.map(|[loaded, stored]| loaded + stored).collect()
    }

    /// Where the time of all cores went so far; nothing unless the machine is
    /// [counting it](Machine::counting_slots).
    pub fn slot_times(&self) -> SlotTimes {
        let mut times = SlotTimes::default();
        for core in &self.cores {
            times += core.slot_times();
        }
        for watch in &self.watches {
            times += watch.times;
        }
        times
    }

    /// Lines read from each device so far, and lines written.
    pub fn memory_lines(&self) -> (Vec<u64>, Vec<u64>) {
        self.network.lines()
    }

    /// Runs until programs have touched about `lines` lines in all, until the time `until_ns`, or
    /// to their end; returns the time in ns.
    pub fn advance(&mut self, lines: u64, until_ns: f64) -> f64 {
        ns(self.run_lines(lines, ps(until_ns)))
    }

    /// Takes operations of a core through the caches as if they took no time, so that what comes next finds there
    /// what it would if they had run; returns how many lines no cache had. Memory is asked for nothing, prefetchers
    /// see nothing, and modified lines that leave are not written. Where caches are not simulated nothing happens.
    pub fn warm(&mut self, core: usize, operations: impl IntoIterator<Item = Operation>) -> u64 {
        let Some(levels) = &mut self.shared.levels else {
            return 0;
        };
        self.cores[core].warm(operations.into_iter(), levels)
    }

    /// Whether all programs have ended.
    pub fn is_done(&self) -> bool {
        self.next.iter().all(|next| *next >= NEVER)
    }

    /// Latencies of the sampled operations of a core so far, in its order, in ns.
    pub fn samples_ns(&self, core: usize) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.cores[core].samples.iter().map(|sample| ns(*sample))
    }

    /// Runs until programs have touched `lines` lines in all, until a time, or to their end;
    /// returns the time.
    fn run_lines(&mut self, lines: u64, until: Ps) -> Ps {
        loop {
            let start = self.next.iter().copied().min().unwrap_or(NEVER);
            if start >= NEVER {
                return self.finished_at();
            }
            if start > until {
                return until;
            }
            self.run_round(start);
            if self.lines() >= lines {
                return start + self.round;
            }
        }
    }

    fn run_round(&mut self, start: Ps) {
        let end = start + self.round;
        self.shared.requests.clear();
        self.ran.clear();
        for (index, core) in self.cores.iter_mut().enumerate() {
            if self.next[index] < end {
                core.run(self.next[index], end, &mut self.shared);
                self.ran.push((index, self.shared.requests.len()));
            }
        }
        let (network, ran) = (&mut self.network, &self.ran);
        let one_core = ran.len() == 1;
        self.shared
            .requests
            .answer(start, self.round, one_core, |index, request| {
                if let Some(waits) = &mut network.waits {
                    let place = ran.partition_point(|(_, end)| *end <= index);
                    waits.asking = ran[place].0;
                }
                network.request(request.time, request.target, request.asked)
            });
        for (index, requests_end) in &self.ran {
            let words = &mut self.shared.locks.words;
            self.next[*index] =
                self.cores[*index].settle(&self.shared.requests, *requests_end, words);
        }
        if !self.watches.is_empty() {
            self.watch_reads();
        }
    }

    /// Counts what was read in the round, in the order of time.
    fn watch_reads(&mut self) {
        let mut reads = Vec::new();
        for (index, _) in &self.ran {
            let watch = self.watch_of[*index];
            let of_core = self.cores[*index].reads().iter();
            reads.extend(of_core.map(|(at, arrival)| (*at, *arrival, watch)));
        }
        reads.sort_unstable();
        for (at, arrival, watch) in reads {
            self.watches[watch].read(at, arrival);
        }
    }

    /// When the last operation of all was complete.
    fn finished_at(&self) -> Ps {
        self.cores
            .iter()
            .map(VirtualCore::finished_at)
            .max()
            .unwrap_or(0)
    }

    /// Runs all programs to their end.
    pub fn run(mut self) -> Outcome {
        let end = self.run_lines(u64::MAX, NEVER);
        self.outcome(end, &[])
    }

    /// Warms up for `warm_lines` and measures the `lines` after them.
    pub fn measure(mut self, warm_lines: u64, lines: u64) -> Outcome {
        let start = self.run_lines(warm_lines, NEVER);
        let before: Vec<_> = self.cores.iter().map(|core| core.counts.clone()).collect();
        let end = self.run_lines(warm_lines + lines, NEVER);
        self.outcome(end - start, &before)
    }

    fn outcome(&mut self, elapsed: Ps, before: &[CoreCounts]) -> Outcome {
        let (lines_read, lines_written) = self.network.lines();
        let mut outcome = Outcome {
            elapsed_ns: ns(elapsed),
            load_bytes: 0,
            store_bytes: 0,
            lines: self.lines(),
            lines_read,
            lines_written,
            load_bytes_by_core: Vec::new(),
            ended_ns_by_core: self
                .cores
                .iter()
                .map(|core| ns(core.finished_at()))
                .collect(),
            table: self.network.table_counts(),
            samples_ns: Vec::new(),
            slot_times: self.slot_times(),
            visits: self.network.visits.take().unwrap_or_default(),
        };
        for (index, core) in self.cores.iter().enumerate() {
            let before = before.get(index).cloned().unwrap_or_default();
            let load_bytes = core.counts.bytes[0] - before.bytes[0];
            outcome.load_bytes += load_bytes;
            outcome.load_bytes_by_core.push(load_bytes);
            outcome.store_bytes += core.counts.bytes[1] - before.bytes[1];
            outcome
                .samples_ns
                .extend(core.samples.iter().map(|sample| ns(*sample)));
        }
        outcome
    }
}
