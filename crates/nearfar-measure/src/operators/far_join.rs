//! The join's own code on a modelled core, with its build side near and far.

use nearfar_kernels::{
    HashJoin, JoinError, JoinKind, JoinPlan, JoinTable, Line, Matched, ProbeCursor, Probing,
};
use nearfar_model::Native;
use nearfar_model::simulation::{
    DeviceIndex, Machine, MachineError, OperationCost, PlacedBuffer, TierName, VirtualProbe,
};

/// Core time of each access of the join (assumed: two accesses, of 4 ns, for each row).
const ACCESS_NS: f64 = 2.0;

/// How a join goes about a far build side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FarJoinStrategy {
    /// A table where the build side is, and a loop over lookups.
    Plain,
    /// The same, with every line asked for ahead of its use.
    Prefetching,
    /// Both sides are divided, and tables are near.
    Divided,
}

impl FarJoinStrategy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Prefetching, Self::Divided];

    /// Its word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Prefetching => "prefetching",
            Self::Divided => "divided",
        }
    }
}

/// Probe rows per second on one core of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FarJoin {
    /// How.
    pub strategy: FarJoinStrategy,
    /// With the build side near.
    pub near_rows_per_s: f64,
    /// With the build side on the far tier.
    pub far_rows_per_s: f64,
}

impl FarJoin {
    /// Far throughput over near throughput of the same strategy.
    pub fn ratio(&self) -> f64 {
        self.far_rows_per_s / self.near_rows_per_s
    }
}

/// Rows of a table that no cache holds a part of worth mentioning: 85 MB, over caches that begin empty.
const TABLE_ROWS: usize = 4 << 20;
/// Lookups in it.
const LOOKUPS: usize = 100_000;
/// Rows of both sides where they are divided, into tables of 170 KB.
const DIVIDED_ROWS: (usize, usize) = (1 << 17, 1 << 18);
const DIVIDED_LOG2: u32 = 4;

/// Runs the join of keys that are all found, each strategy with the build side near and on all devices of the
/// far tier.
///
/// # Errors
/// [`MachineError`].
///
/// # Panics
/// Never: the sides are small enough.
pub fn far_joins(machine: &Machine, far_devices: u32) -> Result<Vec<FarJoin>, MachineError> {
    let near = machine.devices(TierName::Near, 1)?;
    let far = machine.devices(TierName::Far, far_devices)?;
    let keys = keys(TABLE_ROWS);
    let lookups = lookups(&keys, LOOKUPS);
    let lines = vec![Line::default(); Line::count_for(keys.len())];
    let addresses = range(&lines);
    let table = JoinTable::build_in(lines, vec![0; keys.len()], &keys, None, &Native)
        .expect("a table of rows that fit");
    let mut joins = Vec::new();
    for (strategy, probing) in [
        (FarJoinStrategy::Plain, Probing::PLAIN),
        (FarJoinStrategy::Prefetching, Probing::default()),
    ] {
        let rows_per_s = |cycle: &Vec<_>| {
            let buffer = PlacedBuffer {
                addresses: addresses.clone(),
                cycle: cycle.clone(),
            };
            let probe_all = |probe: &VirtualProbe| {
                begin(probe);
                look_up(&table, probing, &lookups, probe).expect("keys without nulls");
            };
            seconds(machine, buffer, probe_all).map(|seconds| LOOKUPS as f64 / seconds)
        };
        joins.push(FarJoin {
            strategy,
            near_rows_per_s: rows_per_s(&near)?,
            far_rows_per_s: rows_per_s(&far)?,
        });
    }
    let rows_per_s = |cycle| divided(machine, cycle);
    joins.push(FarJoin {
        strategy: FarJoinStrategy::Divided,
        near_rows_per_s: rows_per_s(near)?,
        far_rows_per_s: rows_per_s(far)?,
    });
    Ok(joins)
}

/// The whole join of divided sides, its build keys on these devices.
fn divided(machine: &Machine, cycle: Vec<DeviceIndex>) -> Result<f64, MachineError> {
    let build = keys(DIVIDED_ROWS.0);
    let probed = lookups(&build, DIVIDED_ROWS.1);
    let plan = JoinPlan {
        partitions_log2: DIVIDED_LOG2,
        ..JoinPlan::default()
    };
    let buffer = PlacedBuffer {
        addresses: range(&build),
        cycle,
    };
    let join = |probe: &VirtualProbe| {
        begin(probe);
        let join = HashJoin::new(JoinKind::Inner, plan);
        let joined = join.run((&build, None), (&probed, None), probe, |_| ());
        joined.expect("keys without nulls");
    };
    Ok(DIVIDED_ROWS.1 as f64 / seconds(machine, buffer, join)?)
}

fn begin(probe: &VirtualProbe) {
    probe.begin(OperationCost {
        operation_ns: 0.0,
        access_ns: ACCESS_NS,
    });
}

fn look_up(
    table: &JoinTable,
    probing: Probing,
    keys: &[u64],
    probe: &VirtualProbe,
) -> Result<(), JoinError> {
    let (mut cursor, mut matched) = (ProbeCursor::default(), Matched::default());
    while !table.probe(
        JoinKind::Inner,
        probing,
        keys,
        None,
        &mut cursor,
        &mut matched,
        probe,
    )? {
        matched.clear();
    }
    Ok(())
}

fn seconds(
    machine: &Machine,
    buffer: PlacedBuffer,
    work: impl FnOnce(&VirtualProbe) + Send,
) -> Result<f64, MachineError> {
    let outcome = machine.run(&[buffer], vec![work])?;
    Ok(outcome.elapsed_ns * 1e-9)
}

fn range<T>(values: &[T]) -> std::ops::Range<usize> {
    let range = values.as_ptr_range();
    range.start.addr()..range.end.addr()
}

fn keys(rows: usize) -> Vec<u64> {
    (0..rows as u64).map(|row| row * 7_919 + 13).collect()
}

/// Keys of a table in an order that has nothing to do with its own.
fn lookups(keys: &[u64], count: usize) -> Vec<u64> {
    // A product with an odd number, of which the highest bits follow from all others.
    let place =
        |index: u64| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % keys.len();
    (0..count as u64).map(|index| keys[place(index)]).collect()
}
