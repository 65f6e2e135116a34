//! The machines of the experiments, and what is assumed of them.

use nearfar_topology::{Known, Profile};

use super::fluid::Phase;
use super::grid::{GridError, THREADS_MAX};

/// Near bandwidth of a socket whose profile has none: eight channels of DDR5-4800 have 307 GB/s, of which
/// four fifths are reached (assumed; weisgut-2025 measures 260 GB/s of the same channels).
const NEAR_BANDWIDTH_ASSUMED: f64 = 246e9;

/// What both threads of a core get done together, of what one alone does (assumed).
const TWO_THREADS: f64 = 1.2;
/// Threads that serve RDMA (assumed; the paper gives no number).
const RDMA_THREADS: usize = 2;

/// Core time of the sum, per byte: vectors are added at 25 GB/s by one core (assumed).
pub(super) const SUM_S_PER_BYTE: f64 = 1.0 / 25e9;

/// A machine on which operators run.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorMachine {
    /// Its profile.
    pub profile: String,
    /// Cores of the socket.
    pub cores: usize,
    /// Bandwidth of near memory, in bytes per second.
    pub near_bytes_per_s: f64,
    /// Bandwidth of the far tier, in bytes per second.
    pub far_bytes_per_s: f64,
    /// What one core reads of near memory, in bytes per second.
    pub core_near_bytes_per_s: f64,
    /// What one core reads of the far tier, in bytes per second.
    pub core_far_bytes_per_s: f64,
    /// Latency of one far read, in seconds.
    pub far_latency_s: f64,
    /// Far memory is fetched into near memory by threads of its own, and not read by loads.
    pub is_fetched: bool,
    /// Those threads, which poll all the time.
    pub rdma_threads: usize,
}

/// A profile that says too little.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "profile {profile} has no far read bandwidth ({reason}): operators cannot be modelled on it"
)]
pub struct OperatorMachineError {
    /// Its name.
    pub profile: String,
    /// Why it has none.
    pub reason: String,
}

/// Links, then the computing of each core, then the lines that each core has under way.
pub(super) const NEAR: usize = 0;
pub(super) const FAR: usize = 1;
const CORES: usize = 2;

impl OperatorMachine {
    /// The machine of a profile. Memory of `geyer-rdma` is fetched.
    ///
    /// # Errors
    /// [`OperatorMachineError`] where the far read bandwidth is unknown.
    pub fn new(profile: &Profile) -> Result<Self, OperatorMachineError> {
        let far_bytes_per_s = match &profile.far.read_bandwidth_bytes_per_s {
            Known::Value(bandwidth) => *bandwidth,
            other => {
                return Err(OperatorMachineError {
                    profile: profile.name.clone(),
                    reason: other.reason().unwrap_or("unknown").to_owned(),
                });
            }
        };
        let near_bytes_per_s = profile.near.read_bandwidth_bytes_per_s.get();
        let near_bytes_per_s = near_bytes_per_s.unwrap_or(NEAR_BANDWIDTH_ASSUMED);
        let of_core = |lines: f64, latency_ns: f64| lines * 64.0 / (latency_ns * 1e-9);
        let (near, far) = (&profile.near, &profile.far);
        let core_near = of_core(near.core_outstanding_sequential, near.idle_latency_ns);
        let core_far = of_core(far.core_outstanding_sequential, far.idle_latency_ns);
        Ok(Self {
            profile: profile.name.clone(),
            cores: profile.cores as usize,
            near_bytes_per_s,
            far_bytes_per_s,
            core_near_bytes_per_s: core_near.min(near_bytes_per_s),
            core_far_bytes_per_s: core_far.min(far_bytes_per_s),
            far_latency_s: far.idle_latency_ns * 1e-9,
            is_fetched: profile.name == "geyer-rdma",
            rdma_threads: RDMA_THREADS,
        })
    }

    /// The same with so many threads that serve RDMA.
    ///
    /// # Errors
    /// [`GridError`] where its far memory is not fetched, and for other numbers than 1 to 1024.
    pub fn with_rdma_threads(self, threads: usize) -> Result<Self, GridError> {
        let refuse = |reason| {
            Err(GridError {
                field: "rdma-threads",
                reason,
            })
        };
        if !self.is_fetched {
            let profile = self.profile;
            return refuse(format!(
                "no threads serve the far memory of profile {profile}: give --profile geyer-rdma"
            ));
        }
        if !(1..=THREADS_MAX).contains(&threads) {
            return refuse(format!(
                "{threads}: give at least 1 and at most {THREADS_MAX}"
            ));
        }
        Ok(Self {
            rdma_threads: threads,
            ..self
        })
    }

    /// The same with the far tier as near memory is: what everything near is compared with.
    pub(super) fn all_near(&self) -> Self {
        Self {
            far_bytes_per_s: self.near_bytes_per_s,
            core_far_bytes_per_s: self.core_near_bytes_per_s,
            is_fetched: false,
            ..self.clone()
        }
    }

    /// The ratio of remote to local bandwidth, by which remote buffers are smaller (section 3).
    pub(super) fn far_share(&self) -> f64 {
        (self.far_bytes_per_s / self.near_bytes_per_s).min(1.0)
    }
}

/// Threads on the cores of a machine: each takes a free core, then the second thread of one.
pub(super) struct Threads<'a> {
    machine: &'a OperatorMachine,
    /// The core of each thread, in the order in which they were placed.
    cores: Vec<usize>,
    /// Threads that poll on each core.
    polling: Vec<usize>,
}

impl<'a> Threads<'a> {
    /// So many threads, and those of RDMA behind them where `fetches`: on free cores, else on the last
    /// ones.
    pub(super) fn place(machine: &'a OperatorMachine, threads: usize, fetches: bool) -> Self {
        let cores: Vec<usize> = (0..threads).map(|thread| thread % machine.cores).collect();
        let mut polling = vec![0; machine.cores];
        if fetches && machine.is_fetched {
            for thread in 0..machine.rdma_threads {
                let free = threads + thread;
                let last = machine.cores - 1 - thread % machine.cores;
                polling[if free < machine.cores { free } else { last }] += 1;
            }
        }
        Self {
            machine,
            cores,
            polling,
        }
    }

    /// Threads with work on a core.
    fn working(&self, core: usize) -> usize {
        self.cores.iter().filter(|placed| **placed == core).count()
    }

    /// What there is of all resources per second. A thread that polls takes its share of a core.
    pub(super) fn capacities(&self) -> Vec<f64> {
        let core = |core: usize| {
            let (working, polling) = (self.working(core), self.polling[core]);
            let of_all = if working + polling > 1 {
                TWO_THREADS
            } else {
                1.0
            };
            of_all * working.max(1) as f64 / (working.max(1) + polling) as f64
        };
        let links = [self.machine.near_bytes_per_s, self.machine.far_bytes_per_s];
        links
            .into_iter()
            .chain((0..self.machine.cores).map(core))
            .chain((0..self.machine.cores).map(|_| 1.0))
            .collect()
    }

    /// The lines that the core of a thread has under way.
    fn lines(&self, thread: usize) -> usize {
        CORES + self.machine.cores + self.cores[thread]
    }

    /// A phase of a thread that reads bytes of both memories and computes. Threads of one core share the
    /// lines that it has under way.
    pub(super) fn phase(
        &self,
        thread: usize,
        near_bytes: f64,
        far_bytes: f64,
        core_s: f64,
    ) -> Phase {
        let core = self.cores[thread];
        let near_s = near_bytes / self.machine.core_near_bytes_per_s;
        let mut far_s = far_bytes / self.machine.core_far_bytes_per_s;
        let mut takes = vec![(CORES + core, core_s)];
        let is_fetched = self.machine.is_fetched;
        let lines_s = if is_fetched { near_s } else { near_s + far_s };
        takes.push((self.lines(thread), lines_s));
        let mut near_link = near_bytes;
        if is_fetched && far_bytes > 0.0 {
            // Fetched bytes are written to near memory and read from there.
            near_link += 2.0 * far_bytes;
            far_s = far_bytes / self.machine.far_bytes_per_s + self.machine.far_latency_s;
        }
        takes.push((NEAR, near_link));
        takes.push((FAR, far_bytes));
        Phase {
            alone_s: core_s.max(near_s + far_s),
            takes,
            ..Phase::default()
        }
    }

    /// A phase of a thread that copies far bytes to near memory.
    pub(super) fn copy(&self, thread: usize, bytes: f64) -> Phase {
        let alone_s = match self.machine.is_fetched {
            true => bytes / self.machine.far_bytes_per_s + self.machine.far_latency_s,
            false => bytes / self.machine.core_far_bytes_per_s,
        };
        // Copies by loads wait for lines of their core; what is fetched has those that poll wait.
        let lines_s = if self.machine.is_fetched {
            0.0
        } else {
            alone_s
        };
        Phase {
            alone_s,
            takes: vec![(self.lines(thread), lines_s), (NEAR, bytes), (FAR, bytes)],
            ..Phase::default()
        }
    }
}
