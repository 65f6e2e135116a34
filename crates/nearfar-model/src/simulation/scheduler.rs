//! The clock: cores are stepped in the order of virtual time.

use super::core::VirtualCore;
use super::machine::MachineParameters;
use super::network::Network;
use super::placement::AddressMap;
use super::program::Program;
use super::time::{Ps, ns};

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
    /// Requests that reached memory, warm-up included.
    pub requests: u64,
    /// Latencies of sampled operations.
    pub samples_ns: Vec<f64>,
}

impl Outcome {
    /// Bytes of programs per nanosecond, which is GB/s.
    pub fn gb_per_s(&self) -> f64 {
        (self.load_bytes + self.store_bytes) as f64 / self.elapsed_ns
    }
}

/// A machine with programs on its cores.
pub struct Simulation {
    map: AddressMap,
    network: Network,
    cores: Vec<VirtualCore>,
    next: Vec<Ps>,
}

impl Simulation {
    /// Distributes programs over the cores, further ones as second threads.
    pub fn new(
        machine: &MachineParameters,
        map: AddressMap,
        programs: Vec<Box<dyn Program>>,
        dirty_lines: usize,
    ) -> Self {
        let count = (machine.core.cores as usize).min(programs.len());
        let mut threads: Vec<Vec<Box<dyn Program>>> = (0..count).map(|_| Vec::new()).collect();
        for (index, program) in programs.into_iter().enumerate() {
            threads[index % count].push(program);
        }
        let cores: Vec<_> = threads
            .into_iter()
            .map(|programs| VirtualCore::new(&machine.core, programs, dirty_lines))
            .collect();
        Self { map, network: Network::new(machine), next: vec![0; cores.len()], cores }
    }

    fn lines(&self) -> u64 {
        self.cores.iter().map(|core| core.counts.lines).sum()
    }

    /// Runs until programs have touched `lines` lines in all, or ended; returns the time.
    fn run_lines(&mut self, lines: u64) -> Ps {
        let mut now = 0;
        loop {
            for _ in 0..256 {
                let (index, mut time, limit) = earliest(&self.next);
                if time == Ps::MAX {
                    return now;
                }
                let core = &mut self.cores[index];
                for _ in 0..64 {
                    now = time;
                    time = core.step(time, &self.map, &mut self.network);
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

    /// Warms up for `warm_lines` and measures the `lines` after them.
    pub fn measure(mut self, warm_lines: u64, lines: u64) -> Outcome {
        let start = self.run_lines(warm_lines);
        let before: Vec<_> = self.cores.iter().map(|core| core.counts.clone()).collect();
        let end = self.run_lines(warm_lines + lines);
        let mut outcome = Outcome {
            elapsed_ns: ns(end - start),
            load_bytes: 0,
            store_bytes: 0,
            lines: self.lines(),
            requests: self.network.counts.admitted,
            samples_ns: Vec::new(),
        };
        for (core, before) in self.cores.iter().zip(before) {
            outcome.load_bytes += core.counts.load_bytes - before.load_bytes;
            outcome.store_bytes += core.counts.store_bytes - before.store_bytes;
            outcome.samples_ns.extend(core.samples.iter().map(|sample| ns(*sample)));
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
