//! Hash joins one after the other (sections 4 and 5, figures 4 and 5).

use super::fluid::{self, Phase};
use super::machine::{OperatorMachine, Threads};

/// Bytes of the large column of each thread (assumed: the paper gives none).
const LARGE_BYTES: f64 = 8e6;
/// Core time of looking up one byte of keys, of 8 bytes each: 4 ns for a key (assumed).
const PROBE_S_PER_BYTE: f64 = 0.5e-9;
/// Core time of putting one byte of keys into a table: 8 ns for a key (assumed).
const BUILD_S_PER_BYTE: f64 = 1.0e-9;
/// Threads are started one after the other, so long apart (assumed).
const START_S: f64 = 30e-6;
/// Threads that copy (section 5).
const COPIERS: usize = 5;
/// Chunks in which one thread's column is copied: copiers share it.
const CHUNKS: usize = 8;

/// How far columns are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// By the loads of the joins; where memory is not mapped, by fetching each column before it is used.
    Synchronous,
    /// By copies of grouped joins: in order, ahead of their use, and once for all joins.
    Grouped,
}

/// Which columns are far (section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// (i): the small ones, of which each join has its own.
    SmallFar,
    /// (ii): the large one, which all joins share.
    LargeFar,
}

/// Sequences of joins, one per thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joins {
    pub joins: usize,
    /// Threads that join; copiers come on top.
    pub workers: usize,
    pub placement: Placement,
    pub access: Access,
}

impl Joins {
    fn small_bytes(machine: &OperatorMachine) -> f64 {
        LARGE_BYTES * machine.far_share()
    }

    /// Bytes of all columns that are joined, a shared one as often as it is.
    pub(super) fn bytes(&self, small_bytes: f64) -> f64 {
        (LARGE_BYTES + small_bytes) * (self.joins * self.workers) as f64
    }

    /// Seconds until the last thread has joined.
    pub(super) fn seconds(&self, machine: &OperatorMachine) -> f64 {
        self.seconds_with(machine, Self::small_bytes(machine))
    }

    /// Bytes per second, see [`Self::bytes`].
    pub(super) fn bytes_per_s(&self, machine: &OperatorMachine) -> f64 {
        self.bytes(Self::small_bytes(machine)) / self.seconds(machine)
    }

    fn seconds_with(&self, machine: &OperatorMachine, small_bytes: f64) -> f64 {
        let is_copied = self.access == Access::Grouped || machine.is_fetched;
        let copiers = match (is_copied, self.access) {
            (false, _) => 0,
            (true, Access::Grouped) => COPIERS,
            // Every thread fetches its own, which costs no core.
            (true, Access::Synchronous) => self.workers,
        };
        let placed = self.workers
            + if self.access == Access::Grouped {
                copiers
            } else {
                0
            };
        let threads = Threads::place(machine, placed, true);
        let columns = match self.placement {
            Placement::SmallFar => self.joins,
            Placement::LargeFar if self.access == Access::Grouped => 1,
            Placement::LargeFar => self.joins,
        };
        let mut phases: Vec<Vec<Phase>> = (0..self.workers)
            .map(|worker| self.worker(&threads, worker, columns, small_bytes, is_copied))
            .collect();
        let column_bytes = match self.placement {
            Placement::SmallFar => small_bytes,
            Placement::LargeFar => LARGE_BYTES,
        };
        let mut copies = vec![Vec::new(); copiers];
        for column in 0..if copiers > 0 { columns } else { 0 } {
            for worker in 0..self.workers {
                for chunk in 0..CHUNKS {
                    let copier = match self.access {
                        Access::Grouped => (worker * CHUNKS + chunk) % copiers,
                        Access::Synchronous => worker,
                    };
                    let thread = if self.access == Access::Grouped {
                        self.workers + copier
                    } else {
                        worker
                    };
                    let mut copy = threads.copy(thread, column_bytes / CHUNKS as f64);
                    copy.signals = Some(worker * columns + column);
                    copies[copier].push(copy);
                }
            }
        }
        phases.extend(copies);
        let ends = fluid::run(&threads.capacities(), phases, self.workers * columns);
        ends.into_iter().take(self.workers).fold(0.0, f64::max)
    }

    /// The phases of a thread: for each join the table of its small column, then the lookups of the large
    /// one.
    fn worker(
        &self,
        threads: &Threads<'_>,
        worker: usize,
        columns: usize,
        small_bytes: f64,
        is_copied: bool,
    ) -> Vec<Phase> {
        let start = Phase {
            alone_s: START_S * worker as f64,
            ..Phase::default()
        };
        let mut phases = vec![start];
        for join in 0..self.joins {
            let waits_for = Some((worker * columns + join.min(columns - 1), CHUNKS));
            let is_far = |placement| self.placement == placement && !is_copied;
            let bytes = |is_far: bool, bytes: f64| if is_far { (0.0, bytes) } else { (bytes, 0.0) };
            let (near, far) = bytes(is_far(Placement::SmallFar), small_bytes);
            let mut build = threads.phase(worker, near, far, small_bytes * BUILD_S_PER_BYTE);
            let (near, far) = bytes(is_far(Placement::LargeFar), LARGE_BYTES);
            let mut lookups = threads.phase(worker, near, far, LARGE_BYTES * PROBE_S_PER_BYTE);
            if is_copied {
                match self.placement {
                    Placement::SmallFar => build.waits_for = waits_for,
                    Placement::LargeFar => lookups.waits_for = waits_for,
                }
            }
            phases.extend([build, lookups]);
        }
        phases
    }
}

/// Joins over grouped copies beside the same with everything near.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupedRatio {
    /// Joins one after the other.
    pub joins: usize,
    /// Which columns are far.
    pub placement: Placement,
    /// How they are reached.
    pub access: Access,
    /// Throughput over that with everything near and no copies.
    pub ratio: f64,
}

/// For each number of joins and placement the ratio of throughputs, grouped and synchronous, with as many
/// joining threads as half of the cores, so that copiers have cores of their own.
pub fn grouped_ratios(machine: &OperatorMachine, joins: &[usize]) -> Vec<GroupedRatio> {
    let small_bytes = Joins::small_bytes(machine);
    let near = machine.all_near();
    let mut ratios = Vec::new();
    for &joins in joins {
        for placement in [Placement::SmallFar, Placement::LargeFar] {
            for access in [Access::Grouped, Access::Synchronous] {
                let one = Joins {
                    joins,
                    workers: (machine.cores / 2).max(1),
                    placement,
                    access,
                };
                let all_near = Joins {
                    access: Access::Synchronous,
                    ..one
                };
                let ratio = all_near.seconds_with(&near, small_bytes)
                    / one.seconds_with(machine, small_bytes);
                ratios.push(GroupedRatio {
                    joins,
                    placement,
                    access,
                    ratio,
                });
            }
        }
    }
    ratios
}
