//! What is varied of operators over two tiers, and what was found, natively or in virtual time.

use std::fmt;

use super::aggregate::modelled_sums;
use super::joins::{Access, Placement, modelled_joins};
use super::machine::OperatorMachine;
use crate::results::Kind;

/// Threads that join, that sum far buffers, and that copy, at most: far more than machines have processors.
const THREADS_MAX: usize = 1024;
/// Joins one after the other, at most.
const JOINS_MAX: usize = 1000;
/// Phases of all threads of some joins in virtual time, at most: some hundred megabytes.
const MODELLED_PHASES_MAX: usize = 2_000_000;
/// Phases of all joins of a grid in virtual time, each counted once for each thread that it may run beside, at most.
const MODELLED_STEPS_MAX: usize = 100_000_000;

/// Remote threads of figure 2 of geyer-2023, doubled from one to the next.
const FAR_THREADS: [usize; 5] = [0, 1, 2, 4, 8];
/// Copiers of geyer-2023, section 5.
pub(super) const COPIERS: usize = 5;
/// Bytes of a far buffer over those of a near one, on tiers whose bandwidths are not known.
const FAR_SHARE: f64 = 0.1;
/// Bytes of a chunk, as [`nearfar_kernels::copy::CopyOptions`] has them by default.
const CHUNK_BYTES: usize = 256 << 10;

/// What is varied of sums and joins over near and far columns. Every combination is run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OperatorGrid {
    /// Threads that sum near buffers, and threads that join.
    pub threads: Vec<usize>,
    /// Further threads, which sum far buffers.
    pub far_threads: Vec<usize>,
    /// Bytes of a far buffer over those of a near one, and of a small column over those of the large one.
    pub far_shares: Vec<f64>,
    /// Joins one after the other.
    pub joins: Vec<usize>,
    /// How joins reach far columns.
    pub accesses: Vec<Access>,
    /// Threads that copy, on top of those that join.
    pub copiers: Vec<CopierCount>,
    /// Bytes in which is copied. In virtual time an eighth of a column where there are none.
    pub chunk_bytes: Vec<usize>,
    /// Joins whose columns are copied together; `None` for all of them.
    pub group: Option<usize>,
}

/// A grid that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct GridError {
    /// What of it.
    pub field: &'static str,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// Joins one after the other, of several threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JoinConfiguration {
    /// How many joins.
    pub joins: usize,
    /// Threads that join, each its own columns.
    pub threads: usize,
    /// Bytes of a small column over those of the large one.
    pub far_share: f64,
    /// Which columns are far.
    pub placement: Placement,
    /// How they are reached.
    pub access: Access,
    /// How they are copied; `None` of joins that read them themselves.
    pub copies: Option<Copies>,
}

/// Threads that copy, for all joining threads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopierCount {
    /// So many.
    Fixed(usize),
    /// As many as are waited for, up to one for each processor and up to five in any case. Not in virtual time.
    Adaptive,
}

impl CopierCount {
    /// The number, if it is fixed.
    pub const fn fixed(self) -> Option<usize> {
        match self {
            Self::Fixed(count) => Some(count),
            Self::Adaptive => None,
        }
    }
}

impl fmt::Display for CopierCount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(count) => count.fmt(formatter),
            Self::Adaptive => formatter.write_str("adaptive"),
        }
    }
}

/// How far columns are copied before they are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    /// Threads that copy, for all joining threads together.
    pub copiers: CopierCount,
    /// Bytes of a chunk; `None` for an eighth of a column.
    pub chunk_bytes: Option<usize>,
    /// Joins whose columns are copied together: what they share is copied once. Columns of a group are copied while
    /// the group before is joined, if copies do not begin with their join ([`Access::Asynchronous`]).
    pub group: usize,
}

/// Sums of some threads.
#[derive(Debug, Clone, PartialEq)]
pub struct SumPoint {
    /// Threads with a near buffer each.
    pub threads: usize,
    /// Threads with a far buffer each.
    pub far_threads: usize,
    /// Bytes of a far buffer over those of a near one.
    pub far_share: f64,
    /// Bytes of all buffers over the time from the first start to the last end, of each round.
    pub bytes_per_s: Vec<f64>,
}

/// Joins of some threads.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinPoint {
    /// What was joined, and how.
    pub configuration: JoinConfiguration,
    /// Bytes of all columns that are joined, shared ones as often as they are, over the time, of each round.
    pub bytes_per_s: Vec<f64>,
    /// The same with everything near and no copies, in the same rounds.
    pub near_bytes_per_s: Vec<f64>,
}

impl JoinPoint {
    /// Throughput over that with everything near, of each round.
    pub fn ratios(&self) -> impl Iterator<Item = f64> {
        let near = self.near_bytes_per_s.iter();
        self.bytes_per_s
            .iter()
            .zip(near)
            .map(|(far, near)| far / near)
    }
}

/// Sums and joins over two tiers.
#[derive(Debug, Clone, PartialEq)]
pub struct GridOutcome {
    /// Where far columns were.
    pub far: String,
    /// The profile whose far tier was modelled, where it was.
    pub profile: Option<String>,
    /// Sums.
    pub sums: Vec<SumPoint>,
    /// Joins.
    pub joins: Vec<JoinPoint>,
}

impl GridOutcome {
    /// Runs a grid in virtual time.
    pub fn modelled(machine: &OperatorMachine, grid: &OperatorGrid) -> Self {
        Self {
            far: "far".to_owned(),
            profile: Some(machine.profile.clone()),
            sums: modelled_sums(machine, grid),
            joins: modelled_joins(machine, grid),
        }
    }

    /// The kind of its figures.
    pub fn kind(&self) -> Kind {
        match self.profile {
            Some(_) => Kind::Modelled,
            None => Kind::Measured,
        }
    }
}

impl OperatorGrid {
    /// For a machine of so many processors: half of them and all, up to as many far threads, and far buffers of a
    /// tenth.
    pub fn of_processors(processors: usize) -> Self {
        let far_threads = FAR_THREADS.into_iter();
        Self {
            far_threads: far_threads
                .filter(|threads| *threads <= processors.max(2))
                .collect(),
            far_shares: vec![FAR_SHARE],
            joins: vec![1, 5, 20],
            chunk_bytes: vec![CHUNK_BYTES],
            ..Self::of_cores(processors)
        }
    }

    /// For a machine in virtual time: far buffers are smaller by the ratio of bandwidths, and chunks are an eighth of a
    /// column.
    pub fn of_machine(machine: &OperatorMachine) -> Self {
        Self {
            far_shares: vec![machine.far_share()],
            ..Self::of_cores(machine.cores)
        }
    }

    fn of_cores(cores: usize) -> Self {
        let mut threads = vec![(cores / 2).max(1), cores.max(1)];
        threads.dedup();
        Self {
            threads,
            far_threads: FAR_THREADS.into(),
            joins: vec![1, 2, 5, 10, 20],
            accesses: Access::ALL.into(),
            copiers: vec![CopierCount::Fixed(COPIERS)],
            ..Self::default()
        }
    }

    /// This grid, with the lists of `defaults` where it has none.
    #[must_use]
    pub fn or(&self, defaults: Self) -> Self {
        fn either<T: Clone>(own: &[T], default: Vec<T>) -> Vec<T> {
            if own.is_empty() { default } else { own.into() }
        }
        Self {
            threads: either(&self.threads, defaults.threads),
            far_threads: either(&self.far_threads, defaults.far_threads),
            far_shares: either(&self.far_shares, defaults.far_shares),
            joins: either(&self.joins, defaults.joins),
            accesses: either(&self.accesses, defaults.accesses),
            copiers: either(&self.copiers, defaults.copiers),
            chunk_bytes: either(&self.chunk_bytes, defaults.chunk_bytes),
            group: self.group.or(defaults.group),
        }
    }

    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// [`GridError`].
    pub fn check(&self) -> Result<(), GridError> {
        let refuse = |field, reason: String| Err(GridError { field, reason });
        let copiers = self.copiers.iter().filter_map(|count| count.fixed());
        for (field, numbers, least, most) in [
            ("threads", &self.threads, 1, THREADS_MAX),
            ("far-threads", &self.far_threads, 0, THREADS_MAX),
            ("joins", &self.joins, 1, JOINS_MAX),
            ("copiers", &copiers.collect(), 1, THREADS_MAX),
        ] {
            let is_wrong = |number: &&usize| !(least..=most).contains(*number);
            if let Some(number) = numbers.iter().find(is_wrong) {
                let reason = format!("{number}: give at least {least} and at most {most}");
                return refuse(field, reason);
            }
        }
        if self.group == Some(0) {
            return refuse("group", "0: give 1 or more".to_owned());
        }
        let is_share = |share: &&f64| **share > 0.0 && **share <= 1.0;
        if let Some(share) = self.far_shares.iter().find(|share| !is_share(share)) {
            let reason = format!("{} %: give more than 0 and at most 100", share * 100.0);
            return refuse("far-share", reason);
        }
        let is_chunk = |bytes: &&usize| **bytes > 0 && bytes.is_multiple_of(64);
        match self.chunk_bytes.iter().find(|bytes| !is_chunk(bytes)) {
            Some(bytes) => refuse(
                "chunk",
                format!("{bytes} bytes: give a multiple of 64 that is not 0"),
            ),
            None => Ok(()),
        }
    }

    /// Refuses, beyond [`Self::check`], what cannot be run in virtual time, or takes too long there.
    ///
    /// # Errors
    /// [`GridError`].
    pub fn check_modelled(&self) -> Result<(), GridError> {
        self.check()?;
        if self.copiers.contains(&CopierCount::Adaptive) {
            return Err(GridError {
                field: "copiers",
                reason: "adaptive: give numbers in virtual time".to_owned(),
            });
        }
        let configurations = self.join_configurations();
        let phases = configurations.iter().map(JoinConfiguration::phases);
        let phases = phases.max().unwrap_or(0);
        let steps = configurations.iter().map(JoinConfiguration::steps);
        let steps = steps.fold(0, usize::saturating_add);
        let what = match (phases > MODELLED_PHASES_MAX, steps > MODELLED_STEPS_MAX) {
            (false, false) => return Ok(()),
            (true, _) => format!("{phases} phases of one run, of {MODELLED_PHASES_MAX}"),
            (false, true) => format!("{steps} steps of all runs, of {MODELLED_STEPS_MAX}"),
        };
        Err(GridError {
            field: "joins",
            reason: format!(
                "too much for virtual time ({what} that are possible): give fewer joins or threads, larger chunks, or \
                 fewer values of each"
            ),
        })
    }

    /// All sums: threads, far threads and share.
    pub(super) fn sums(&self) -> Vec<(usize, usize, f64)> {
        let mut sums = Vec::new();
        for &far_share in &self.far_shares {
            for &threads in &self.threads {
                let far = self.far_threads.iter();
                sums.extend(far.map(|far| (threads, *far, far_share)));
            }
        }
        sums
    }

    /// All joins. Those of the same number, threads and share follow each other.
    pub(super) fn join_configurations(&self) -> Vec<JoinConfiguration> {
        let mut all = Vec::new();
        for &far_share in &self.far_shares {
            for &threads in &self.threads {
                for &joins in &self.joins {
                    for &access in &self.accesses {
                        for copies in self.copies(access, joins) {
                            all.extend(Placement::ALL.map(|placement| JoinConfiguration {
                                joins,
                                threads,
                                far_share,
                                placement,
                                access,
                                copies,
                            }));
                        }
                    }
                }
            }
        }
        all
    }

    /// The ways to copy for so many joins.
    fn copies(&self, access: Access, joins: usize) -> Vec<Option<Copies>> {
        let group = match access {
            Access::Synchronous => return vec![None],
            Access::Asynchronous => 1,
            Access::Grouped => self.group.unwrap_or(joins).min(joins),
        };
        let chunks: Vec<Option<usize>> = match &self.chunk_bytes[..] {
            [] => vec![None],
            chunks => chunks.iter().copied().map(Some).collect(),
        };
        let of = |&copiers: &CopierCount| {
            let of_chunk = move |chunk_bytes: &Option<usize>| {
                Some(Copies {
                    copiers,
                    chunk_bytes: *chunk_bytes,
                    group,
                })
            };
            chunks.iter().map(of_chunk).collect::<Vec<_>>()
        };
        self.copiers.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_joins_that_copy_are_varied_by_how() {
        let grid = OperatorGrid {
            copiers: [1, 5].map(CopierCount::Fixed).into(),
            chunk_bytes: vec![64, 128, 192],
            joins: vec![4],
            group: Some(9),
            ..OperatorGrid::of_processors(2)
        };
        let all = grid.join_configurations();
        let of = |access| all.iter().filter(move |one| one.access == access);
        // Two numbers of threads, and two placements.
        assert_eq!(of(Access::Synchronous).count(), 4);
        assert_eq!(of(Access::Grouped).count(), 4 * 6);
        assert!(of(Access::Grouped).all(|one| one.copies.unwrap().group == 4));
        assert!(of(Access::Asynchronous).all(|one| one.copies.unwrap().group == 1));
    }

    #[test]
    fn what_is_not_given_is_the_default() {
        let own = OperatorGrid {
            joins: vec![7],
            ..OperatorGrid::default()
        };
        let grid = own.or(OperatorGrid::of_processors(8));
        assert_eq!(
            (&grid.joins[..], &grid.threads[..]),
            (&[7][..], &[4, 8][..])
        );
        assert_eq!(OperatorGrid::of_processors(1).threads, [1]);
    }

    #[test]
    fn what_takes_too_long_in_virtual_time_is_refused() {
        let fine = OperatorGrid {
            chunk_bytes: Vec::new(),
            ..OperatorGrid::of_processors(2)
        };
        assert_eq!(fine.check_modelled(), Ok(()));
        let refused = |change: fn(&mut OperatorGrid)| {
            let mut grid = fine.clone();
            change(&mut grid);
            grid.check().unwrap();
            grid.check_modelled().unwrap_err().field
        };
        assert_eq!(
            refused(|grid| (grid.threads, grid.joins) = (vec![1000], vec![1000])),
            "joins"
        );
        assert_eq!(refused(|grid| grid.chunk_bytes = vec![64]), "joins");
        assert_eq!(
            refused(|grid| grid.copiers.push(CopierCount::Adaptive)),
            "copiers"
        );
    }

    #[test]
    fn what_means_nothing_is_refused_by_its_name() {
        let fine = OperatorGrid::of_processors(2);
        assert_eq!(fine.check(), Ok(()));
        let refused = |change: fn(&mut OperatorGrid)| {
            let mut grid = fine.clone();
            change(&mut grid);
            grid.check().unwrap_err().field
        };
        assert_eq!(refused(|grid| grid.threads = vec![1, 0]), "threads");
        assert_eq!(refused(|grid| grid.joins = vec![0]), "joins");
        let copiers =
            |grid: &mut OperatorGrid, count| grid.copiers = vec![CopierCount::Fixed(count)];
        for count in [0, THREADS_MAX + 1, usize::MAX] {
            let mut grid = fine.clone();
            copiers(&mut grid, count);
            assert_eq!(grid.check().unwrap_err().field, "copiers");
            grid = fine.clone();
            grid.threads = vec![2, count];
            assert_eq!(grid.check().unwrap_err().field, "threads");
        }
        assert_eq!(
            refused(|grid| grid.far_threads = vec![0, 1025]),
            "far-threads"
        );
        assert_eq!(refused(|grid| grid.joins = vec![1001]), "joins");
        assert_eq!(refused(|grid| grid.group = Some(0)), "group");
        assert_eq!(refused(|grid| grid.chunk_bytes = vec![100]), "chunk");
        assert_eq!(
            refused(|grid| grid.far_shares = vec![0.1, 1.5]),
            "far-share"
        );
        assert_eq!(
            refused(|grid| grid.far_shares = vec![f64::NAN]),
            "far-share"
        );
    }
}
