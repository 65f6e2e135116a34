//! What a run does.

use nearfar_memory::{MemorySystem, PlaceError, PlaceName, PlacementSpec, TierId};
use nearfar_table::placement::{ColumnAccess, NearBudget, Strategy, StrategyError};

use super::error::TpchError;
use super::suite::Suite;

/// The largest scale factor that TPC-H defines.
const SCALE_FACTOR_MAX: f64 = 100_000.0;

/// What a run of TPC-H or TPC-DS under placements does. Threads, budgets and the far tier's profile are the
/// engine's.
#[derive(Debug, Clone, PartialEq)]
pub struct TpchOptions {
    /// Tables and queries.
    pub suite: Suite,
    /// Size of the data; 1 is about 1 GB as text.
    pub scale_factor: f64,
    /// Placements to run under, in order. All near always runs first, as the base of comparison.
    pub placements: Vec<Strategy>,
    /// Queries to run, in order.
    pub queries: Vec<u8>,
    /// Timed runs of each query under each placement.
    pub runs: u32,
    /// Whether all answers are checked against DataFusion's own tables in memory, which takes their
    /// memory beside Nearfar's for that time.
    pub check: bool,
}

impl Default for TpchOptions {
    /// As [`TpchOptions::of`] TPC-H.
    fn default() -> Self {
        Self::of(Suite::TpcH)
    }
}

impl TpchOptions {
    /// Scale factor 1, all queries, three runs, the placements of [`default_placements`], checked.
    pub fn of(suite: Suite) -> Self {
        Self {
            suite,
            scale_factor: 1.0,
            placements: default_placements(NearBudget::Share(0.25)),
            queries: suite.numbers().collect(),
            runs: 3,
            check: true,
        }
    }
}

/// The placements that say most about a machine: near, far, pages 1:1 and 2:1, and the most accessed
/// columns near.
pub fn default_placements(near_budget: NearBudget) -> Vec<Strategy> {
    let interleaved = [(1, 1), (2, 1)].into_iter();
    let interleaved = interleaved.filter_map(|(near, far)| PlacementSpec::near_far(near, far));
    [Strategy::near(), Strategy::far()]
        .into_iter()
        .chain(interleaved.map(Strategy::All))
        .chain([Strategy::ByAccess(near_budget)])
        .collect()
}

/// The placement that `text` names; `columns` alone means by access with `near_budget`.
///
/// # Errors
/// What [`Strategy`] can't read.
pub fn parse_placement(text: &str, near_budget: NearBudget) -> Result<Strategy, StrategyError> {
    match text {
        "columns" => Ok(Strategy::ByAccess(near_budget)),
        other => other.parse(),
    }
}

impl TpchOptions {
    /// The placements with all near first and no repetition.
    pub(super) fn ordered_placements(&self) -> Vec<Strategy> {
        let mut ordered = vec![Strategy::near()];
        for placement in &self.placements {
            if !ordered.contains(placement) {
                ordered.push(placement.clone());
            }
        }
        ordered
    }

    /// The queries' numbers and texts.
    ///
    /// # Errors
    /// A scale factor, a query or a number of runs that the benchmark does not have.
    pub fn texts(&self) -> Result<Vec<(u8, String)>, TpchError> {
        let scale_factor = self.scale_factor;
        if !(scale_factor > 0.0 && scale_factor <= SCALE_FACTOR_MAX) {
            return Err(TpchError::ScaleFactor { scale_factor });
        }
        if self.runs == 0 {
            return Err(TpchError::NoRuns);
        }
        if self.queries.is_empty() {
            return Err(TpchError::NoQueries { suite: self.suite });
        }
        let text = |&number: &u8| {
            let text = self.suite.query(number, scale_factor);
            let suite = self.suite;
            text.map(|text| (number, text))
                .ok_or(TpchError::UnknownQuery { suite, number })
        };
        self.queries.iter().map(text).collect()
    }

    /// Finds placements that the machine does not allow, before anything is generated.
    ///
    /// # Errors
    /// [`TpchError::NoFarTier`], and others for places and budgets that it has not.
    pub fn check_placements(&self, system: &MemorySystem) -> Result<(), TpchError> {
        let capacity_bytes = system.info(TierId::NEAR).capacity_bytes;
        for placement in &self.placements {
            for name in placement.places() {
                check_place(system, placement, &name)?;
            }
            match placement {
                Strategy::ByAccess(NearBudget::Bytes(bytes)) if *bytes > capacity_bytes => {
                    return Err(TpchError::NearBudgetTooLarge {
                        placement: placement.to_string(),
                        budget_bytes: *bytes,
                        capacity_bytes,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn check_place(
    system: &MemorySystem,
    placement: &Strategy,
    name: &PlaceName,
) -> Result<(), TpchError> {
    match system.place(name.as_str()) {
        Ok(_) => Ok(()),
        Err(PlaceError::Unknown(_)) if *name == PlaceName::far() => Err(TpchError::NoFarTier {
            placement: placement.to_string(),
        }),
        Err(error) => Err(StrategyError::Place(error).into()),
    }
}

/// Refuses a near budget that leaves every column far that the queries read.
pub(super) fn check_near_budget(
    placement: &Strategy,
    columns: &[ColumnAccess],
) -> Result<(), TpchError> {
    let Strategy::ByAccess(budget) = placement else {
        return Ok(());
    };
    let all_bytes: u64 = columns.iter().map(|column| column.bytes).sum();
    let budget_bytes = match budget {
        NearBudget::Bytes(bytes) => *bytes,
        NearBudget::Share(share) => (all_bytes as f64 * share) as u64,
        NearBudget::Columns(0) => 0,
        NearBudget::Columns(_) => return Ok(()),
    };
    let read = columns.iter().filter(|column| column.accesses > 0);
    match read.min_by_key(|column| column.bytes) {
        Some(smallest) if smallest.bytes > budget_bytes => Err(TpchError::NearBudgetTooSmall {
            placement: placement.to_string(),
            budget_bytes,
            column: format!("{}.{}", smallest.table, smallest.column),
            column_bytes: smallest.bytes,
        }),
        _ => Ok(()),
    }
}
