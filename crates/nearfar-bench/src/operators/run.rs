//! The whole benchmark.

use std::num::NonZeroU32;

use nearfar_measure::operators::native::{JOIN_ROW_BYTES, ReadRound};
use nearfar_measure::operators::{
    FarJoin, GroupedRatio, OperatorMachine, far_joins, grouped_ratios,
};
use nearfar_model::simulation::Machine;
use nearfar_topology::Profile;

use super::error::OperatorsBenchError;
use super::join::{JoinRound, Sides};
use super::reads;

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorsBenchOptions {
    /// Bytes of the column that is read, summed and filtered.
    pub column_bytes: usize,
    /// Times that everything has its turn.
    pub rounds: NonZeroU32,
    /// Bytes of the build sides of joins.
    pub build_bytes: Vec<usize>,
    /// Rows of the probe side.
    pub probe_rows: usize,
    /// The machine whose far tier is modelled.
    pub profile: Profile,
    /// Only what is modelled: joins over grouped copies by these numbers of joins, and the far join.
    pub virtual_joins: Option<Vec<usize>>,
}

impl OperatorsBenchOptions {
    /// 128 MiB of column, 15 rounds, build sides of 1, 16 and 256 MiB, four million probe rows.
    pub fn new(profile: Profile) -> Self {
        Self {
            column_bytes: 128 << 20,
            rounds: const { NonZeroU32::new(15).unwrap() },
            build_bytes: vec![1 << 20, 16 << 20, 256 << 20],
            probe_rows: 4 << 20,
            profile,
            virtual_joins: None,
        }
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
        match self
            .virtual_joins
            .iter()
            .flatten()
            .find(|joins| **joins == 0)
        {
            Some(_) => refuse("joins", "0 joins: give 1 or more".to_owned()),
            None => Ok(()),
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorsBenchOutcome {
    /// What was run.
    pub options: OperatorsBenchOptions,
    pub(super) reads: Vec<ReadRound>,
    pub(super) joins: Vec<(usize, Vec<JoinRound>)>,
    /// The join's code in the simulator.
    pub far_joins: Vec<FarJoin>,
    /// Joins over grouped copies.
    pub grouped: Vec<GroupedRatio>,
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
    let machine = Machine::new(&options.profile)?;
    let mut outcome = OperatorsBenchOutcome {
        options: options.clone(),
        reads: Vec::new(),
        joins: Vec::new(),
        far_joins: Vec::new(),
        grouped: Vec::new(),
    };
    match &options.virtual_joins {
        Some(joins) => {
            let machine = OperatorMachine::new(&options.profile)?;
            outcome.grouped = grouped_ratios(&machine, joins);
        }
        None => {
            let rounds = options.rounds.get();
            outcome.reads = reads::rounds(options.column_bytes, rounds, |round| {
                progress(format!("round {} of {rounds}", round + 1));
            })?;
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let runtime = runtime.map_err(OperatorsBenchError::Runtime)?;
            for &build_bytes in &options.build_bytes {
                let sides = Sides::new(build_bytes, options.probe_rows)?;
                // The first of each warms up.
                sides.round(&runtime)?;
                let mut taken = Vec::new();
                for round in 0..rounds {
                    progress(format!(
                        "build side of {build_bytes} B, round {} of {rounds}",
                        round + 1
                    ));
                    taken.push(sides.round(&runtime)?);
                }
                outcome.joins.push((build_bytes, taken));
            }
        }
    }
    progress("the far join in the simulator".to_owned());
    outcome.far_joins = far_joins(&machine, options.profile.far.devices)?;
    Ok(outcome)
}
