//! Hash joins one after the other (sections 4 and 5, figures 4 and 5).

use super::fluid::{self, Phase};
use super::grid::{COPIERS, CopierCount, Copies, JoinConfiguration, JoinPoint, OperatorGrid};
use super::machine::{OperatorMachine, Threads};

/// Bytes of the large column of each thread in virtual time (assumed: the paper gives none).
pub const MODELLED_LARGE_BYTES: usize = 8_000_000;
const LARGE_BYTES: f64 = MODELLED_LARGE_BYTES as f64;
/// Core time of looking up one byte of keys, of 8 bytes each: 4 ns for a key (assumed).
pub(super) const PROBE_S_PER_BYTE: f64 = 0.5e-9;
/// Core time of putting one byte of keys into a table: 8 ns for a key (assumed).
const BUILD_S_PER_BYTE: f64 = 1.0e-9;
/// Threads are started one after the other, so long apart (assumed).
const START_S: f64 = 30e-6;
/// Chunks in which one thread's column is copied where their bytes are not given: copiers share it.
const CHUNKS: usize = 8;

/// How far columns are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// By the loads of joins and pipelines; where memory is not mapped, by fetching each column, or chunk of a pipeline,
    /// before it is used.
    Synchronous,
    /// By copies that begin with the join whose columns they are, or by those of a pipeline for itself.
    Asynchronous,
    /// By copies of grouped joins: in order, ahead of their use, those of the next group while a group is joined, and
    /// once for all joins of a group; or by copies of every chunk once for all pipelines.
    Grouped,
}

impl Access {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Synchronous, Self::Asynchronous, Self::Grouped];

    /// Its word in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Synchronous => "synchronous",
            Self::Asynchronous => "asynchronous",
            Self::Grouped => "grouped",
        }
    }
}

/// Which columns are far (section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// (i): the small ones, of which each join has its own.
    SmallFar,
    /// (ii): the large one, which all joins share.
    LargeFar,
}

impl Placement {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::SmallFar, Self::LargeFar];

    /// Its word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SmallFar => "small-far",
            Self::LargeFar => "large-far",
        }
    }
}

impl JoinConfiguration {
    /// Joins of section 4 or 5: small columns are smaller by the ratio of bandwidths, and five copiers copy for all
    /// joins together.
    pub(super) fn published(
        machine: &OperatorMachine,
        (joins, threads): (usize, usize),
        placement: Placement,
        access: Access,
    ) -> Self {
        let copies = Copies {
            copiers: CopierCount::Fixed(COPIERS),
            in_share: false,
            chunk_bytes: None,
            method: None,
            group: joins,
        };
        Self {
            joins,
            threads,
            far_share: machine.far_share(),
            placement,
            access,
            copies: (access != Access::Synchronous).then_some(copies),
        }
    }

    fn small_bytes(&self) -> f64 {
        LARGE_BYTES * self.far_share
    }

    /// Threads that join: without those whose place copiers take.
    pub(super) fn joining(&self) -> usize {
        let in_share = self.copies.filter(|copies| copies.in_share);
        let copiers = in_share.and_then(|copies| copies.copiers.fixed());
        self.threads.saturating_sub(copiers.unwrap_or(0)).max(1)
    }

    /// Bytes of all columns that are joined, a shared one as often as it is.
    fn bytes(&self) -> f64 {
        (LARGE_BYTES + self.small_bytes()) * (self.joins * self.joining()) as f64
    }

    /// Bytes per second, see [`Self::bytes`].
    pub(super) fn bytes_per_s(&self, machine: &OperatorMachine) -> f64 {
        self.bytes() / self.seconds(machine)
    }

    /// Columns of a thread that are copied or fetched.
    fn columns(&self) -> usize {
        match (self.placement, self.copies) {
            (Placement::SmallFar, _) | (Placement::LargeFar, None) => self.joins,
            (Placement::LargeFar, Some(copies)) => self.joins.div_ceil(copies.group),
        }
    }

    /// The one of them that a join needs.
    fn column_of(&self, join: usize) -> usize {
        match (self.placement, self.copies) {
            (Placement::SmallFar, _) | (Placement::LargeFar, None) => join,
            (Placement::LargeFar, Some(copies)) => join / copies.group,
        }
    }

    /// Joins that have ended before a column is copied.
    fn joins_before(&self, column: usize) -> usize {
        let Some(copies) = self.copies else {
            return 0;
        };
        let group = match self.placement {
            Placement::SmallFar => column / copies.group,
            Placement::LargeFar => column,
        };
        // Near memory holds the columns of two groups.
        let ended = match self.access {
            Access::Grouped => group.saturating_sub(1),
            Access::Synchronous | Access::Asynchronous => group,
        };
        ended * copies.group
    }

    /// Copiers of a model; none of joins that read columns themselves.
    fn copiers(&self) -> usize {
        let copiers = self.copies.and_then(|copies| copies.copiers.fixed());
        copiers.unwrap_or(0)
    }

    /// Phases of all threads.
    pub(super) fn phases(&self) -> usize {
        let copied = self.columns().saturating_mul(self.chunks());
        let of_thread = copied.saturating_add(2 * self.joins + 1);
        of_thread.saturating_mul(self.joining())
    }

    /// Phases, each counted once for each thread that it may run beside: what running it takes.
    pub(super) fn steps(&self) -> usize {
        self.phases()
            .saturating_mul(self.joining() + self.copiers())
    }

    fn column_bytes(&self) -> f64 {
        match self.placement {
            Placement::SmallFar => self.small_bytes(),
            Placement::LargeFar => LARGE_BYTES,
        }
    }

    /// Chunks of a column.
    fn chunks(&self) -> usize {
        match self.copies.and_then(|copies| copies.chunk_bytes) {
            Some(bytes) => (self.column_bytes() / bytes as f64).ceil().max(1.0) as usize,
            None => CHUNKS,
        }
    }

    /// Seconds until the last thread has joined.
    pub(super) fn seconds(&self, machine: &OperatorMachine) -> f64 {
        let is_copied = self.copies.is_some() || machine.is_fetched;
        let joining = self.joining();
        let threads = Threads::place(machine, joining + self.copiers(), true);
        let columns = self.columns();
        let mut phases: Vec<Vec<Phase>> = (0..joining)
            .map(|worker| self.worker(&threads, worker, is_copied))
            .collect();
        if is_copied {
            phases.extend(self.copy_phases(&threads));
        }
        let events = joining * (columns + 1);
        let ends = fluid::run(&threads.capacities(), phases, events);
        ends.into_iter().take(joining).fold(0.0, f64::max)
    }

    /// The event of chunks of a column.
    fn copied_event(&self, worker: usize, column: usize) -> usize {
        worker * self.columns() + column
    }

    /// The event of joins that have ended.
    fn joined_event(&self, worker: usize) -> usize {
        self.joining() * self.columns() + worker
    }

    /// The phases of those who copy: copiers, which share all chunks, or every thread, which fetches its own. That
    /// costs no core.
    fn copy_phases(&self, threads: &Threads<'_>) -> Vec<Vec<Phase>> {
        let (chunks, joining) = (self.chunks(), self.joining());
        let copiers = self.copies.map_or(joining, |_| self.copiers());
        let mut copies = vec![Vec::new(); copiers];
        for column in 0..self.columns() {
            let ended = self.joins_before(column);
            for worker in 0..joining {
                for chunk in 0..chunks {
                    let (copier, thread) = match self.copies {
                        Some(_) => {
                            let copier = (worker * chunks + chunk) % copiers;
                            (copier, joining + copier)
                        }
                        None => (worker, worker),
                    };
                    let mut copy = threads.copy(thread, self.column_bytes() / chunks as f64);
                    copy.signals = Some(self.copied_event(worker, column));
                    copy.waits_for = (ended > 0).then(|| (self.joined_event(worker), ended));
                    copies[copier].push(copy);
                }
            }
        }
        copies
    }

    /// The phases of a thread: for each join the table of its small column, then the lookups of the large
    /// one.
    fn worker(&self, threads: &Threads<'_>, worker: usize, is_copied: bool) -> Vec<Phase> {
        let start = Phase {
            alone_s: START_S * worker as f64,
            ..Phase::default()
        };
        let small_bytes = self.small_bytes();
        let mut phases = vec![start];
        for join in 0..self.joins {
            let column = self.copied_event(worker, self.column_of(join));
            let waits_for = Some((column, self.chunks()));
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
            lookups.signals = Some(self.joined_event(worker));
            phases.extend([build, lookups]);
        }
        phases
    }
}

/// The joins of a grid in virtual time, each beside the same with everything near and no copies.
pub(super) fn modelled_joins(machine: &OperatorMachine, grid: &OperatorGrid) -> Vec<JoinPoint> {
    let near = machine.all_near();
    let point = |configuration: JoinConfiguration| {
        let all_near = JoinConfiguration {
            access: Access::Synchronous,
            copies: None,
            ..configuration
        };
        JoinPoint {
            configuration,
            bytes_per_s: vec![configuration.bytes_per_s(machine)],
            near_bytes_per_s: vec![all_near.bytes_per_s(&near)],
        }
    };
    let all = grid.join_configurations().into_iter();
    all.map(point).collect()
}
