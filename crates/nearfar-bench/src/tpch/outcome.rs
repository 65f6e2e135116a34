//! What a run found.

use nearfar_measure::{Kind, Summary};
use nearfar_table::placement::Strategy;
use std::time::Duration;

use super::options::TpchOptions;

/// Bytes by tier name, near to far.
pub type BytesByTier = Vec<(String, u64)>;

/// A run of TPC-H or TPC-DS under placements.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was run.
    pub options: TpchOptions,
    /// Threads that ran queries.
    pub threads: usize,
    /// The far tier that was used, if there is one.
    pub far: Option<FarTier>,
    /// How each table was loaded.
    pub tables: Vec<TableOutcome>,
    /// Queries whose answers agree with DataFusion's over its own tables; none if not checked.
    pub checked: Option<Vec<u8>>,
    /// Queries whose answers were to be checked, but which DataFusion could not answer, or of TPC-DS answers otherwise,
    /// and why.
    pub unchecked: Vec<(u8, String)>,
    /// By placement, all near first.
    pub placements: Vec<PlacementOutcome>,
}

/// The far tier of a run.
#[derive(Debug, Clone)]
pub struct FarTier {
    /// Its name.
    pub name: String,
    /// Where it is modelled: after what, in words.
    pub modelled: Option<String>,
}

/// The loading of one table.
#[derive(Debug, Clone)]
pub struct TableOutcome {
    /// The table's name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Bytes before encoding.
    pub arrow_bytes: u64,
    /// Bytes in regions.
    pub stored_bytes: u64,
    /// Generating and loading.
    pub elapsed: Duration,
}

/// All queries under one placement.
#[derive(Debug, Clone)]
pub struct PlacementOutcome {
    /// The placement.
    pub placement: Strategy,
    /// Modelled if the far tier is and the placement is not all near.
    pub kind: Kind,
    /// Bytes of all tables on each tier.
    pub stored_bytes: BytesByTier,
    /// Columns near, where some columns are near and others far.
    pub near_columns: Vec<String>,
    /// Moving the columns there, the last time, from the placement before.
    pub migration: Duration,
    /// In the order asked for.
    pub queries: Vec<QueryOutcome>,
}

/// One query under one placement.
#[derive(Debug, Clone)]
pub struct QueryOutcome {
    /// The query.
    pub number: u8,
    /// Of each run, in order; at least one.
    pub seconds: Vec<f64>,
    /// Bytes that scans read from each tier in the last run.
    pub read_bytes: BytesByTier,
}

impl QueryOutcome {
    /// Median and spread over the runs, in seconds.
    pub fn summary(&self) -> Summary {
        summary(self.seconds.iter().copied())
    }
}

/// Half the spread of the totals above which differences are to be read with care, as a share.
const HALF_SPREAD_MAX: f64 = 0.05;

impl PlacementOutcome {
    /// Whether the runs differ by so much that small differences between placements mean nothing.
    pub fn runs_differ(&self) -> bool {
        self.total().spread() / 2.0 > HALF_SPREAD_MAX
    }

    /// Sum of all queries in each run, in seconds.
    pub fn total(&self) -> Summary {
        summary(self.run_seconds())
    }

    fn run_seconds(&self) -> impl Iterator<Item = f64> + '_ {
        let runs = self.queries.iter().map(|query| query.seconds.len()).min();
        let of_run = |run: usize| self.queries.iter().map(|query| query.seconds[run]).sum();
        (0..runs.unwrap_or(0)).map(of_run)
    }

    /// Geometric mean of the queries' medians, in seconds.
    pub fn geometric_mean(&self) -> f64 {
        geometric_mean(self.queries.iter().map(|query| query.summary().median))
    }

    /// The median of [`Self::relative_throughput_of_runs`].
    pub fn relative_throughput(&self, near: &Self) -> f64 {
        self.relative_throughput_of_runs(near).median
    }

    /// Throughput relative to `near`: the ratio of the times for all queries in the same run.
    pub fn relative_throughput_of_runs(&self, near: &Self) -> Summary {
        let (mine, base) = (self.run_seconds(), near.run_seconds());
        summary(mine.zip(base).map(|(mine, base)| base / mine))
    }

    /// The geometric mean over the queries of the throughput relative to `near`, each the median of
    /// its ratios in the same run.
    pub fn relative_geometric_mean(&self, near: &Self) -> f64 {
        let queries = self.queries.iter().zip(&near.queries);
        geometric_mean(queries.map(|(mine, base)| {
            let runs = mine.seconds.iter().zip(&base.seconds);
            summary(runs.map(|(mine, base)| base / mine)).median
        }))
    }

    /// Bytes that scans read from each tier in a run of all queries.
    pub fn read_bytes(&self) -> BytesByTier {
        let mut sums: BytesByTier = Vec::new();
        for (tier, bytes) in self.queries.iter().flat_map(|query| &query.read_bytes) {
            match sums.iter_mut().find(|(name, _)| name == tier) {
                Some((_, sum)) => *sum += bytes,
                None => sums.push((tier.clone(), *bytes)),
            }
        }
        sums
    }
}

impl Outcome {
    /// The base of comparison; none if the run has no placements, which no run returns.
    pub fn near(&self) -> Option<&PlacementOutcome> {
        self.placements.first()
    }
}

/// The geometric mean, NaN of nothing.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(sum, count), value| {
        (sum + value.ln(), count + 1.0)
    });
    f64::exp(sum / count)
}

/// Of at least one value; NaN of none.
pub(crate) fn summary(values: impl Iterator<Item = f64>) -> Summary {
    Summary::of(values).unwrap_or(Summary {
        median: f64::NAN,
        min: f64::NAN,
        max: f64::NAN,
        runs: 0,
    })
}
