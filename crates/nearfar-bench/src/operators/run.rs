//! The whole benchmark.

use std::num::NonZeroU32;

use nearfar_measure::operators::native::{
    JOIN_ROW_BYTES, OperatorTiers, OperatorTiersError, available_bytes, check_room, tier_joins,
    tier_pipelines, tier_sums,
};
use nearfar_measure::operators::{
    FarJoin, GridOutcome, MODELLED_LARGE_BYTES, OperatorGrid, OperatorMachine, far_joins,
};
use nearfar_memory::{Budgets, MemorySystem, TierId};
use nearfar_model::simulation::{Machine, MachineError};
use nearfar_topology::{Known, Profile, Topology};

use super::aggregate::Aggregates;
use super::duckdb::{self, DuckDbOptions, QueryRounds};
use super::error::OperatorsBenchError;
use super::join::Sides;
use super::reads::{self, ReadsOfRound};
use super::round::Round;

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorsBenchOptions {
    /// Bytes of the column that is read, summed and filtered, of buffers that threads sum, and of the column that
    /// pipelines share.
    pub column_bytes: usize,
    /// Times that everything has its turn; over two tiers a fifth of it.
    pub rounds: NonZeroU32,
    /// Bytes of the build sides of joins.
    pub build_bytes: Vec<usize>,
    /// Rows of the probe side.
    pub probe_rows: usize,
    /// The machine whose far tier is modelled, or emulated where this one has none.
    pub profile: Profile,
    /// Only what is modelled: sums, joins and pipelines over two tiers in virtual time, and the far join.
    pub is_virtual: bool,
    /// Threads that serve RDMA in virtual time, where they are not those of the model.
    pub rdma_threads: Option<usize>,
    /// What is varied over two tiers; lists without a number are those of the machine.
    pub grid: OperatorGrid,
    /// Bytes of the large column of each joining thread; in virtual time it has [`MODELLED_LARGE_BYTES`].
    pub large_bytes: usize,
    /// Bytes of the small columns of joins, of which their tables are made, where they are not shares of the large one.
    pub table_bytes: Vec<usize>,
    /// DuckDB, for whole queries of the same columns.
    pub duckdb: Option<DuckDbOptions>,
}

/// Groups of the aggregates beside DataFusion's: few, and more than caches hold.
const GROUPS: [Option<usize>; 3] = [None, Some(100), Some(1 << 20)];

/// Bytes that a row of a build side takes at most: its columns, and DataFusion's copy of them, hashes and table, which
/// are more than ours.
const BUILD_ROW_BYTES: u64 = 96;
/// Bytes that a row of a probe side takes at most: its columns, and where it is aggregated by a million keys the tables.
const PROBE_ROW_BYTES: u64 = 32;

/// Bytes of a table's column, at least: a line.
const TABLE_BYTES_MIN: usize = 64;

/// Rounds over one tier for each over two.
const ROUNDS_PER_TIER_ROUND: u32 = 5;

impl OperatorsBenchOptions {
    /// 128 MiB of column, 15 rounds, build sides of 1, 16 and 256 MiB, four million probe rows, large columns of 8 MiB.
    pub fn new(profile: Profile) -> Self {
        Self {
            column_bytes: 128 << 20,
            rounds: const { NonZeroU32::new(15).unwrap() },
            build_bytes: vec![1 << 20, 16 << 20, 256 << 20],
            probe_rows: 4 << 20,
            profile,
            is_virtual: false,
            rdma_threads: None,
            grid: OperatorGrid::default(),
            large_bytes: 8 << 20,
            table_bytes: Vec::new(),
            duckdb: None,
        }
    }

    /// Rounds over two tiers.
    pub fn tier_rounds(&self) -> u32 {
        self.rounds.get().div_ceil(ROUNDS_PER_TIER_ROUND)
    }

    fn check(&self) -> Result<(), OperatorsBenchError> {
        let refuse = |field, reason: String| Err(OperatorsBenchError::Options { field, reason });
        if self.column_bytes == 0 || !self.column_bytes.is_multiple_of(4096) {
            let reason = format!("{} bytes: give a multiple of 4096", self.column_bytes);
            return refuse("column", reason);
        }
        if let Some(bytes) = self
            .build_bytes
            .iter()
            .find(|bytes| **bytes < JOIN_ROW_BYTES)
        {
            return refuse(
                "build",
                format!("{bytes} bytes: a row has {JOIN_ROW_BYTES}"),
            );
        }
        let large_bytes = self.large_bytes();
        let is_table = |bytes: &&usize| (TABLE_BYTES_MIN..=large_bytes).contains(*bytes);
        if let Some(bytes) = self.table_bytes.iter().find(|bytes| !is_table(bytes)) {
            let reason = format!(
                "{bytes} bytes: give at least {TABLE_BYTES_MIN}, and at most the {large_bytes} of the large column"
            );
            return refuse("table", reason);
        }
        if self.rdma_threads.is_some() && !self.is_virtual {
            let reason = "threads that serve RDMA are modelled: give --virtual".to_owned();
            return refuse("rdma-threads", reason);
        }
        Ok(self.grid.check()?)
    }

    fn large_bytes(&self) -> usize {
        match self.is_virtual {
            true => MODELLED_LARGE_BYTES,
            false => self.large_bytes,
        }
    }

    /// The grid, with what it does not say from `defaults`.
    fn grid(&self, defaults: OperatorGrid) -> OperatorGrid {
        let large_bytes = self.large_bytes() as f64;
        let tables = self.table_bytes.iter();
        OperatorGrid {
            join_shares: tables.map(|bytes| *bytes as f64 / large_bytes).collect(),
            ..self.grid.or(defaults)
        }
    }

    /// Refuses sides of joins that near memory does not hold beside each other, with the option that takes most.
    fn check_sides(&self, available_bytes: u64) -> Result<(), OperatorsBenchError> {
        let build_bytes = self.build_bytes.iter().copied().max().unwrap_or(0);
        let build_rows = (build_bytes / JOIN_ROW_BYTES) as u64;
        let sides = [
            ("build", build_rows.saturating_mul(BUILD_ROW_BYTES)),
            (
                "probe-rows",
                (self.probe_rows as u64).saturating_mul(PROBE_ROW_BYTES),
            ),
        ];
        let needed_bytes = sides[0].1.saturating_add(sides[1].1);
        if needed_bytes <= available_bytes {
            return Ok(());
        }
        let (option, _) = sides[usize::from(sides[1].1 > sides[0].1)];
        Err(OperatorsBenchError::Room {
            option,
            needed_bytes,
            available_bytes,
        })
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorsBenchOutcome {
    /// What was run.
    pub options: OperatorsBenchOptions,
    pub(super) measured: Measured,
    /// The join's code in the simulator; unavailable where the profile says too little for it.
    pub far_joins: Known<Vec<FarJoin>>,
    /// Sums, joins and pipelines over two tiers; unavailable where the machine has one and the profile cannot be emulated.
    pub tiers: Known<GridOutcome>,
}

/// What was measured on one thread.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Measured {
    pub reads: Vec<ReadsOfRound>,
    /// By number of groups.
    pub aggregates: Vec<(Option<usize>, Vec<Round>)>,
    /// By bytes of the build side.
    pub joins: Vec<(usize, Vec<Round>)>,
    /// Queries beside DuckDB, where it was asked for, or why there are none.
    pub duckdb: Option<Known<Vec<QueryRounds>>>,
}

/// Runs the benchmark. `progress` is told what is done.
///
/// # Errors
/// [`OperatorsBenchError`], among others where both joins find other rows.
pub fn bench_operators(
    options: &OperatorsBenchOptions,
    mut progress: impl FnMut(String),
) -> Result<OperatorsBenchOutcome, OperatorsBenchError> {
    options.check()?;
    let (measured, tiers) = if options.is_virtual {
        let (machine, grid) = modelled_tiers(options)?;
        progress("sums, joins and pipelines in virtual time".to_owned());
        let tiers = GridOutcome::modelled(&machine, &grid);
        (Measured::default(), Known::Value(tiers))
    } else {
        let tiers = native_tiers(options)?;
        let measured = measure(options, &mut progress)?;
        let tiers = match tiers {
            Known::Value(tiers) => Known::Value(run_tiers(options, &tiers, &mut progress)?),
            Known::Unavailable(reason) => Known::Unavailable(reason),
        };
        (measured, tiers)
    };
    progress("the far join in the simulator".to_owned());
    Ok(OperatorsBenchOutcome {
        options: options.clone(),
        measured,
        far_joins: simulated(&options.profile)?,
        tiers,
    })
}

/// What runs on one thread over near memory, beside rivals.
fn measure(
    options: &OperatorsBenchOptions,
    progress: &mut impl FnMut(String),
) -> Result<Measured, OperatorsBenchError> {
    let rounds = options.rounds.get();
    let mut say = |what: &str, round: u32| {
        progress(format!("{what}, round {} of {rounds}", round + 1));
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(OperatorsBenchError::Runtime)?;
    let mut measured = Measured {
        reads: reads::rounds(options.column_bytes, rounds, |round| say("column", round))?,
        ..Measured::default()
    };
    for groups in GROUPS {
        let aggregates = Aggregates::new(options.probe_rows, groups)?;
        // The first of each warms up.
        aggregates.round(&runtime)?;
        let mut taken = Vec::new();
        for round in 0..rounds {
            say("aggregate", round);
            taken.push(aggregates.round(&runtime)?);
        }
        measured.aggregates.push((groups, taken));
    }
    for &build_bytes in &options.build_bytes {
        let sides = Sides::new(build_bytes, options.probe_rows)?;
        let what = format!("build side of {build_bytes} B");
        sides.round(&runtime)?;
        let mut taken = Vec::new();
        for round in 0..rounds {
            say(&what, round);
            taken.push(sides.round(&runtime)?);
        }
        measured.joins.push((build_bytes, taken));
        if let Some(duckdb) = &options.duckdb {
            let what = format!("{what} beside DuckDB");
            let side = (build_bytes, &sides);
            let queries = duckdb::rounds(duckdb, side, rounds, |round| say(&what, round))?;
            measured.add_queries(queries);
        }
    }
    Ok(measured)
}

impl Measured {
    /// Adds the queries of a build side; those of one table are the same for all.
    fn add_queries(&mut self, queries: Known<Vec<QueryRounds>>) {
        match (&mut self.duckdb, queries) {
            (Some(Known::Value(all)), Known::Value(queries)) => {
                all.extend(
                    queries
                        .into_iter()
                        .filter(|query| query.build_bytes.is_some()),
                );
            }
            (Some(_), _) => {}
            (none, queries) => *none = Some(queries),
        }
    }
}

/// The machine in virtual time, and what is run there. Refuses what takes too long.
fn modelled_tiers(
    options: &OperatorsBenchOptions,
) -> Result<(OperatorMachine, OperatorGrid), OperatorsBenchError> {
    let mut machine = OperatorMachine::new(&options.profile)?;
    if let Some(threads) = options.rdma_threads {
        machine = machine.with_rdma_threads(threads)?;
    }
    let grid = options.grid(OperatorGrid::of_machine(&machine));
    grid.check_modelled()?;
    Ok((machine, grid))
}

/// Near memory beside this machine's far tier, or an emulated one, and what is run over both. Refuses what does not fit,
/// so that nothing is measured in vain.
fn native_tiers(
    options: &OperatorsBenchOptions,
) -> Result<Known<(OperatorTiers, OperatorGrid)>, OperatorsBenchError> {
    let topology = Topology::this_machine().map_err(|error| OperatorsBenchError::Options {
        field: "machine",
        reason: error.to_string(),
    })?;
    let near = MemorySystem::new(&topology, &Budgets::new())?;
    options.check_sides(available_bytes(&near, TierId::NEAR))?;
    let tiers = match OperatorTiers::new(topology, &options.profile) {
        Ok(tiers) => tiers,
        Err(error @ OperatorTiersError::Emulation { .. }) => {
            return Ok(Known::unavailable(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    let grid = options.grid(OperatorGrid::of_processors(tiers.processors()));
    grid.check()?;
    check_room(&tiers, options.column_bytes, options.large_bytes, &grid)?;
    Ok(Known::Value((tiers, grid)))
}

/// Sums, joins and pipelines over near and far memory.
fn run_tiers(
    options: &OperatorsBenchOptions,
    (tiers, grid): &(OperatorTiers, OperatorGrid),
    progress: &mut impl FnMut(String),
) -> Result<GridOutcome, OperatorsBenchError> {
    let rounds = options.tier_rounds();
    let mut say = |what: &str, round: u32| {
        progress(format!("{what}, round {} of {rounds}", round + 1));
    };
    let sums = tier_sums(tiers, options.column_bytes, grid, rounds, |round| {
        say("sums of near and far buffers", round);
    })?;
    let joins = tier_joins(tiers, options.large_bytes, grid, rounds, |round| {
        say("joins of near and far columns", round);
    })?;
    let pipelines = tier_pipelines(tiers, options.column_bytes, grid, rounds, |round| {
        say("pipelines over a far column", round);
    })?;
    Ok(GridOutcome {
        far: tiers.far_name().to_owned(),
        profile: tiers.profile().map(str::to_owned),
        sums,
        joins,
        pipelines,
    })
}

/// The far join on the simulated machine of a profile, if that can be simulated.
fn simulated(profile: &Profile) -> Result<Known<Vec<FarJoin>>, MachineError> {
    match Machine::new(profile) {
        Ok(machine) => Ok(Known::Value(far_joins(&machine, profile.far.devices)?)),
        Err(MachineError::Unavailable { reason, .. }) => Ok(Known::unavailable(reason)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use nearfar_kernels::copy::CopyMethod;
    use nearfar_measure::operators::native::TierRunError;
    use nearfar_measure::operators::{CopierCount, PipelineWork};

    use nearfar_measure::results::Metric;

    use super::*;

    /// Why the benchmark is not run with this change.
    fn refused(change: impl FnOnce(&mut OperatorsBenchOptions)) -> OperatorsBenchError {
        let mut options = OperatorsBenchOptions::new(Profile::builtin("cxl-blades-4").unwrap());
        change(&mut options);
        bench_operators(&options, |step| panic!("{step}")).unwrap_err()
    }

    #[test]
    fn what_does_not_fit_is_refused_before_anything_runs() {
        let option = |error: OperatorsBenchError| match error {
            OperatorsBenchError::Room {
                option,
                needed_bytes,
                available_bytes,
            } if needed_bytes > available_bytes => option,
            other => panic!("{other:?}"),
        };
        let sides = [
            option(refused(|options| options.build_bytes.push(1 << 40))),
            option(refused(|options| options.build_bytes.push(usize::MAX))),
            option(refused(|options| options.probe_rows = 1 << 40)),
        ];
        assert_eq!(sides, ["build", "build", "probe-rows"]);
        for change in [
            (|options| options.column_bytes = 1 << 40) as fn(&mut OperatorsBenchOptions),
            |options| options.large_bytes = 1 << 40,
            |options| {
                (options.column_bytes, options.grid.threads) = (1 << 36, vec![1024]);
            },
        ] {
            let error = refused(change);
            let is_room = matches!(
                error,
                OperatorsBenchError::TierRun(TierRunError::Room { .. })
            );
            assert!(is_room, "{error:?}");
        }
    }

    #[test]
    fn grids_and_tables_that_mean_nothing_are_refused_before_anything_runs() {
        for change in [
            (|options| options.grid.copiers = vec![CopierCount::Fixed(1_000_000)])
                as fn(&mut OperatorsBenchOptions),
            |options| options.grid.joins = vec![100_000],
            |options| options.grid.threads = vec![100_000],
            |options| options.grid.pipelines = vec![100_000],
            |options| options.grid.ring_depths = vec![100_000],
            |options| {
                // Five copiers, which are the default, of as many threads.
                (options.grid.threads, options.grid.copiers_in_share) = (vec![5], true);
            },
            |options| {
                options.is_virtual = true;
                (options.grid.threads, options.grid.joins) = (vec![1000], vec![1000]);
            },
            |options| {
                options.is_virtual = true;
                options.grid.copy_methods = vec![CopyMethod::Cached];
            },
            |options| {
                // The profile has no threads that serve RDMA.
                (options.is_virtual, options.rdma_threads) = (true, Some(2));
            },
        ] {
            let error = refused(change);
            assert!(matches!(error, OperatorsBenchError::Grid(_)), "{error:?}");
        }
        let field = |change: fn(&mut OperatorsBenchOptions)| match refused(change) {
            OperatorsBenchError::Options { field, .. } => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            field(|options| options.rdma_threads = Some(2)),
            "rdma-threads"
        );
        assert_eq!(
            field(|options| options.table_bytes = vec![1 << 20, 63]),
            "table"
        );
        assert_eq!(
            field(|options| options.table_bytes = vec![(8 << 20) + 1]),
            "table"
        );
        assert_eq!(
            field(|options| (options.is_virtual, options.table_bytes) = (true, vec![8 << 20])),
            "table"
        );
    }

    #[test]
    fn profiles_that_are_not_simulated_still_run_in_virtual_time() {
        for name in ["geyer-upi2", "geyer-rdma"] {
            let mut options = OperatorsBenchOptions::new(Profile::builtin(name).unwrap());
            options.is_virtual = true;
            options.grid.joins = vec![1, 20];
            options.table_bytes = vec![100_000];
            let outcome = bench_operators(&options, |_| ()).unwrap();
            let reason = outcome.far_joins.reason().unwrap();
            let metrics = outcome.metrics();
            let of = |name: &'static str| metrics.iter().filter(move |one| one.metric == name);
            let absent: Vec<_> = of("join_far_ratio_to_near").collect();
            assert_eq!(absent.len(), 3);
            assert!(absent.iter().all(|one| one.value.reason() == Some(reason)));
            // Two numbers of joins, of threads and of placements.
            assert_eq!(of("grouped_far_ratio_to_near").count(), 8);
            assert!(of("grouped_far_ratio_to_near").all(|one| one.value.is_known()));
            let share = |one: &Metric| one.dimensions["far_share_percent"] == 1.25;
            assert!(of("grouped_far_ratio_to_near").all(share));
            // Four numbers of pipelines, two works and three accesses.
            assert_eq!(of("concurrent_far_ratio_to_near").count(), 24);
        }
    }

    #[test]
    fn a_small_run_over_two_tiers_has_a_row_for_each_parameter() {
        let mut options = OperatorsBenchOptions::new(Profile::builtin("cxl-blades-4").unwrap());
        options.column_bytes = 1 << 20;
        options.large_bytes = 256 << 10;
        options.rounds = NonZeroU32::MIN;
        options.build_bytes = vec![1 << 10];
        options.probe_rows = 1000;
        options.grid = OperatorGrid {
            threads: vec![1, 2],
            far_threads: vec![0, 3],
            joins: vec![1, 3],
            copiers: vec![CopierCount::Fixed(1), CopierCount::Adaptive],
            chunk_bytes: vec![4096],
            group: Some(2),
            pipelines: vec![1, 3],
            pipeline_works: vec![PipelineWork::Mixed],
            ring_depths: vec![1, 2],
            ..OperatorGrid::default()
        };
        options.table_bytes = vec![64 << 10, 1 << 10];
        let outcome = bench_operators(&options, |_| ()).unwrap();
        let metrics = outcome.metrics();
        let count = |name| metrics.iter().filter(|one| one.metric == name).count();
        assert_eq!(count("sum_bytes_per_s"), 4);
        assert_eq!(count("sum_ratio_to_near"), 2);
        // Two tables, numbers of threads and of joins, and placements.
        assert_eq!(count("synchronous_far_ratio_to_near"), 2 * 2 * 2 * 2);
        assert_eq!(count("asynchronous_far_ratio_to_near"), 2 * 2 * 2 * 2 * 2);
        assert_eq!(count("grouped_far_ratio_to_near"), 2 * 2 * 2 * 2 * 2);
        // One that reads itself, and two that copy in four ways.
        for name in ["concurrent_far_ratio_to_near", "concurrent_far_bytes"] {
            assert_eq!(count(name), 2 * (1 + 2 * 4), "{name}");
        }
    }
}
