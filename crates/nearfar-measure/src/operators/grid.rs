//! What is varied of operators over two tiers, and what was found, natively or in virtual time.

use std::fmt;

use nearfar_kernels::copy::CopyMethod;

use super::aggregate::modelled_sums;
use super::joins::{Access, Placement, modelled_joins};
use super::machine::OperatorMachine;
use super::pipelines::{PipelinePoint, PipelineWork, modelled_pipelines};
use crate::results::Kind;

/// Threads that join, that sum far buffers, and that copy, and pipelines, at most: far more than machines have processors.
pub(super) const THREADS_MAX: usize = 1024;
/// Chunks of a ring, at most: far more than copiers.
const RING_DEPTH_MAX: usize = 4096;
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
pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// Pipelines over the same column at the same time.
const PIPELINES: [usize; 4] = [1, 2, 4, 8];
/// Chunks of a ring: three for each of five copiers, so that none waits for the other while the slowest pipeline reads one.
const RING_DEPTH: usize = 16;

/// What is varied of sums, joins and pipelines over near and far columns. Every combination is run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OperatorGrid {
    /// Threads that sum near buffers, and threads that join.
    pub threads: Vec<usize>,
    /// Further threads, which sum far buffers.
    pub far_threads: Vec<usize>,
    /// Bytes of a far buffer over those of a near one, and of a small column over those of the large one.
    pub far_shares: Vec<f64>,
    /// Bytes of an integer that is summed, 4 or 8; `None` for 4, and in virtual time, where bytes are summed.
    pub integer_bytes: Option<usize>,
    /// Bytes of a small column over those of the large one, where they are not those of far buffers.
    pub join_shares: Vec<f64>,
    /// Joins one after the other.
    pub joins: Vec<usize>,
    /// Pipelines over the same column at the same time.
    pub pipelines: Vec<usize>,
    /// What they do.
    pub pipeline_works: Vec<PipelineWork>,
    /// How joins and pipelines reach far columns.
    pub accesses: Vec<Access>,
    /// Threads that copy.
    pub copiers: Vec<CopierCount>,
    /// Copiers take the place of so many threads that join; else they are on top of those.
    pub copiers_in_share: bool,
    /// Bytes in which is copied. In virtual time an eighth of a column of joins where there are none.
    pub chunk_bytes: Vec<usize>,
    /// Chunks of the ring through which pipelines read.
    pub ring_depths: Vec<usize>,
    /// How copies are made; none in virtual time, which has no such thing.
    pub copy_methods: Vec<CopyMethod>,
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
    /// Threads that join, each its own columns; with copiers in their share those too.
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

/// Threads that copy, for all joining threads or pipelines together.
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
    /// They take the place of so many threads that join.
    pub in_share: bool,
    /// Bytes of a chunk; `None` for an eighth of a column.
    pub chunk_bytes: Option<usize>,
    /// How they copy; `None` in virtual time.
    pub method: Option<CopyMethod>,
    /// Joins whose columns are copied together: what they share is copied once. Columns of a group are copied while
    /// the group before is joined, if copies do not begin with their join ([`Access::Asynchronous`]).
    pub group: usize,
}

/// Who copies, in which chunks, and how: what copies for joins and for pipelines have in common.
pub(super) type Way = (CopierCount, Option<usize>, Option<CopyMethod>);

/// Sums of some threads.
#[derive(Debug, Clone, PartialEq)]
pub struct SumPoint {
    /// Threads with a near buffer each.
    pub threads: usize,
    /// Threads with a far buffer each.
    pub far_threads: usize,
    /// Bytes of a far buffer over those of a near one.
    pub far_share: f64,
    /// Bytes of an integer; `None` in virtual time.
    pub integer_bytes: Option<usize>,
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

/// Sums, joins and pipelines over two tiers.
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
    /// Pipelines.
    pub pipelines: Vec<PipelinePoint>,
}

impl GridOutcome {
    /// Runs a grid in virtual time.
    pub fn modelled(machine: &OperatorMachine, grid: &OperatorGrid) -> Self {
        Self {
            far: "far".to_owned(),
            profile: Some(machine.profile.clone()),
            sums: modelled_sums(machine, grid),
            joins: modelled_joins(machine, grid),
            pipelines: modelled_pipelines(machine, grid),
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
            copy_methods: vec![CopyMethod::default()],
            integer_bytes: Some(4),
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
            pipelines: PIPELINES.into(),
            pipeline_works: vec![PipelineWork::Sum, PipelineWork::Mixed],
            ring_depths: vec![RING_DEPTH],
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
            integer_bytes: self.integer_bytes.or(defaults.integer_bytes),
            join_shares: either(&self.join_shares, defaults.join_shares),
            joins: either(&self.joins, defaults.joins),
            pipelines: either(&self.pipelines, defaults.pipelines),
            pipeline_works: either(&self.pipeline_works, defaults.pipeline_works),
            accesses: either(&self.accesses, defaults.accesses),
            copiers: either(&self.copiers, defaults.copiers),
            copiers_in_share: self.copiers_in_share,
            chunk_bytes: either(&self.chunk_bytes, defaults.chunk_bytes),
            ring_depths: either(&self.ring_depths, defaults.ring_depths),
            copy_methods: either(&self.copy_methods, defaults.copy_methods),
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
            ("pipelines", &self.pipelines, 1, THREADS_MAX),
            ("ring-depth", &self.ring_depths, 1, RING_DEPTH_MAX),
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
        if let Some(bytes) = self.integer_bytes.filter(|bytes| ![4, 8].contains(bytes)) {
            return refuse("integer-bytes", format!("{bytes}: give 4 or 8"));
        }
        self.check_copiers_in_share()?;
        let is_share = |share: &&f64| **share > 0.0 && **share <= 1.0;
        for (field, shares) in [
            ("far-share", &self.far_shares),
            ("table", &self.join_shares),
        ] {
            if let Some(share) = shares.iter().find(|share| !is_share(share)) {
                let percent = share * 100.0;
                let reason = format!("{percent} %: give more than 0 and at most 100");
                return refuse(field, reason);
            }
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

    /// Refuses copiers that leave none of the threads whose place they take.
    fn check_copiers_in_share(&self) -> Result<(), GridError> {
        let threads = self.threads.iter().copied().min();
        let (true, Some(threads)) = (self.copiers_in_share, threads) else {
            return Ok(());
        };
        let leaves_none = |count: &&CopierCount| count.fixed().is_none_or(|count| count >= threads);
        match self.copiers.iter().find(leaves_none) {
            None => Ok(()),
            Some(count) => Err(GridError {
                field: "copiers-in-share",
                reason: format!(
                    "{count} copiers take the place of as many of {threads} threads, one of which must be left: give a \
                     smaller --copiers or larger --threads"
                ),
            }),
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
        for (field, is_given) in [
            ("copy-method", !self.copy_methods.is_empty()),
            ("integer-bytes", self.integer_bytes.is_some()),
        ] {
            if is_given {
                let reason = "there is no such thing in virtual time: leave it out".to_owned();
                return Err(GridError { field, reason });
            }
        }
        let joins = self.join_configurations();
        let joins = joins.iter().map(|one| (one.phases(), one.steps()));
        check_work("joins", "joins or threads", joins)?;
        let pipelines = self.pipeline_configurations();
        let pipelines = pipelines.iter().map(|one| (one.phases(), one.steps()));
        check_work("pipelines", "pipelines", pipelines)
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

    /// Bytes of small columns over those of the large one.
    pub(super) fn shares_of_joins(&self) -> &[f64] {
        match &self.join_shares[..] {
            [] => &self.far_shares,
            shares => shares,
        }
    }

    /// All joins. Those of the same number, threads and share follow each other.
    pub(super) fn join_configurations(&self) -> Vec<JoinConfiguration> {
        let mut all = Vec::new();
        for &far_share in self.shares_of_joins() {
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
        let of = |(copiers, chunk_bytes, method): Way| {
            Some(Copies {
                copiers,
                in_share: self.copiers_in_share,
                chunk_bytes,
                method,
                group,
            })
        };
        self.ways().into_iter().map(of).collect()
    }

    /// Every combination of copiers, chunks and methods.
    pub(super) fn ways(&self) -> Vec<Way> {
        fn each<T: Copy>(values: &[T]) -> Vec<Option<T>> {
            match values {
                [] => vec![None],
                values => values.iter().copied().map(Some).collect(),
            }
        }
        let (chunks, methods) = (each(&self.chunk_bytes), each(&self.copy_methods));
        let mut ways = Vec::new();
        for &copiers in &self.copiers {
            for &chunk in &chunks {
                ways.extend(methods.iter().map(|method| (copiers, chunk, *method)));
            }
        }
        ways
    }
}

/// Refuses runs of so many phases and steps each that take too long in virtual time.
fn check_work(
    field: &'static str,
    what: &str,
    runs: impl Iterator<Item = (usize, usize)>,
) -> Result<(), GridError> {
    let (mut phases, mut steps) = (0, 0_usize);
    for (of_run, steps_of_run) in runs {
        phases = of_run.max(phases);
        steps = steps.saturating_add(steps_of_run);
    }
    let much = match (phases > MODELLED_PHASES_MAX, steps > MODELLED_STEPS_MAX) {
        (false, false) => return Ok(()),
        (true, _) => format!("{phases} phases of one run, of {MODELLED_PHASES_MAX}"),
        (false, true) => format!("{steps} steps of all runs, of {MODELLED_STEPS_MAX}"),
    };
    Err(GridError {
        field,
        reason: format!(
            "too much for virtual time ({much} that are possible): give fewer {what}, larger chunks, or fewer values of \
             each"
        ),
    })
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
            copy_methods: Vec::new(),
            integer_bytes: None,
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
        assert_eq!(
            refused(|grid| grid.copy_methods = vec![CopyMethod::Cached]),
            "copy-method"
        );
        assert_eq!(
            refused(|grid| grid.integer_bytes = Some(8)),
            "integer-bytes"
        );
        assert_eq!(
            refused(|grid| {
                (grid.joins, grid.pipelines) = (vec![1], vec![1024]);
                grid.chunk_bytes = vec![8 << 10];
            }),
            "pipelines"
        );
    }

    #[test]
    fn copiers_in_the_share_leave_a_thread() {
        let grid = OperatorGrid {
            threads: vec![4, 6],
            copiers: vec![CopierCount::Fixed(3)],
            copiers_in_share: true,
            ..OperatorGrid::of_processors(6)
        };
        assert_eq!(grid.check(), Ok(()));
        let joining = grid.join_configurations().into_iter().map(|one| {
            let in_share = one.copies.map_or(0, |_| 3);
            (one.threads - in_share, one.joining())
        });
        assert!(
            joining
                .clone()
                .all(|(expected, joining)| joining == expected)
        );
        for copiers in [CopierCount::Fixed(4), CopierCount::Adaptive] {
            let mut refused = grid.clone();
            refused.copiers.push(copiers);
            assert_eq!(refused.check().unwrap_err().field, "copiers-in-share");
            refused.copiers_in_share = false;
            assert_eq!(refused.check(), Ok(()));
        }
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
        assert_eq!(
            refused(|grid| grid.integer_bytes = Some(2)),
            "integer-bytes"
        );
        assert_eq!(refused(|grid| grid.pipelines = vec![1, 1025]), "pipelines");
        assert_eq!(refused(|grid| grid.pipelines = vec![0]), "pipelines");
        assert_eq!(refused(|grid| grid.ring_depths = vec![0]), "ring-depth");
        assert_eq!(refused(|grid| grid.ring_depths = vec![4097]), "ring-depth");
        assert_eq!(refused(|grid| grid.join_shares = vec![2.0]), "table");
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
