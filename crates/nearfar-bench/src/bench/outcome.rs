//! What a comparison found.

use nearfar_measure::Summary;
use std::collections::BTreeMap;

use super::contender::{Rival, Who};
use super::protocol::{Loaded, QueryMemory};
use super::run::BenchOptions;
use super::serve::Role;
use crate::tpch::{geometric_mean, summary};

/// A comparison of all-near Nearfar with others.
#[derive(Debug, Clone)]
pub struct BenchOutcome {
    /// What was compared.
    pub options: BenchOptions,
    /// Bytes of the Parquet files.
    pub file_bytes: u64,
    /// Loads by Nearfar, and by DataFusion into its own tables where these take part.
    pub loads: Vec<ContenderLoads>,
    /// Queries against DataFusion's own tables where these take part, then against each rival that took part.
    pub comparisons: Vec<Comparison>,
    /// Queries on Nearfar with accesses counted, against the same without; of TPC-H.
    pub counting: Option<Comparison>,
    /// Queries on Nearfar with each of the settings on, against the same with it off.
    pub without: Vec<(String, Comparison)>,
    /// Rivals that did not take part, and why.
    pub absent: Vec<(Rival, String)>,
}

/// How runs of two contenders follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turns {
    /// Each query alternates between the two.
    Alternating,
    /// One runs all queries, and then the other: for data of which two copies do not fit into
    /// memory. Drift of the machine then counts in full.
    Apart,
}

impl Turns {
    /// Its word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alternating => "alternating",
            Self::Apart => "apart",
        }
    }
}

/// The loads of one contender.
#[derive(Debug, Clone)]
pub struct ContenderLoads {
    /// Which contender.
    pub who: Who,
    /// At least one.
    pub loads: Vec<Loaded>,
}

/// All queries against one rival.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Which contender.
    pub who: Who,
    /// Engine and version of the rival.
    pub version: String,
    /// In the order asked for.
    pub queries: Vec<QueryComparison>,
    /// Queries that are left out.
    pub missed: Vec<Missed>,
    /// Where the rival ended before it had run all queries.
    pub ended: Option<Ended>,
}

/// A query that could not be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    /// The query.
    pub query: u8,
    /// Which contender failed and how, or where the answers differ.
    pub reason: String,
}

/// The end of a contender in the middle of a comparison, as where memory did not suffice for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The query that it ended in, which is not compared, nor are those after it.
    pub query: u8,
    /// What is known of it.
    pub reason: String,
}

/// One query against one rival.
#[derive(Debug, Clone)]
pub struct QueryComparison {
    /// The query.
    pub number: u8,
    /// Seconds of each run on Nearfar; at least one.
    pub nearfar: Vec<f64>,
    /// Seconds of each run on the rival, in turn with those on Nearfar or after all of them.
    pub rival: Vec<f64>,
    /// What one more run took on each. None where both sides are Nearfar.
    pub memory: Option<ComparedMemory>,
}

/// Memory of one query on Nearfar and on a rival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComparedMemory {
    /// On Nearfar.
    pub nearfar: QueryMemory,
    /// On the rival.
    pub rival: QueryMemory,
}

impl ComparedMemory {
    /// Resident bytes at Nearfar's peak over those at the rival's, tables included. None where the kernel does not tell
    /// one of them.
    pub fn peak_ratio(&self) -> Option<f64> {
        let (nearfar, rival) = self.nearfar.peak_bytes.zip(self.rival.peak_bytes)?;
        Some(nearfar as f64 / rival as f64)
    }
}

impl ContenderLoads {
    /// Seconds of the loads.
    pub fn seconds(&self) -> Summary {
        summary(self.loads.iter().map(|load| load.seconds))
    }

    /// What the process took at its peak beyond what it had before, over what it keeps: by its own
    /// account of the tables where it has one, or else by what remains resident. `None` where the
    /// kernel does not tell the peak, or nothing is kept.
    pub fn peak_ratio(&self) -> Option<Summary> {
        let ratio = |load: &Loaded| {
            let resident_bytes = load.after_bytes.saturating_sub(load.before_bytes);
            let kept_bytes = match load.kept_bytes.values().sum() {
                0 => resident_bytes,
                bytes => bytes,
            };
            let peak_bytes = load.peak_bytes?.saturating_sub(load.before_bytes);
            (kept_bytes > 0).then(|| peak_bytes as f64 / kept_bytes as f64)
        };
        Summary::of(self.loads.iter().map(ratio).collect::<Option<Vec<f64>>>()?)
    }

    /// Bytes that each table keeps.
    pub fn kept_bytes(&self) -> Option<&BTreeMap<String, u64>> {
        self.loads.last().map(|load| &load.kept_bytes)
    }
}

impl QueryComparison {
    /// Of the runs on Nearfar, in seconds.
    pub fn nearfar_summary(&self) -> Summary {
        summary(self.nearfar.iter().copied())
    }

    /// Of the runs on the rival, in seconds.
    pub fn rival_summary(&self) -> Summary {
        summary(self.rival.iter().copied())
    }

    /// Nearfar's time over the rival's: the ratio of the medians, with the least and the largest
    /// ratio of runs of the same position.
    pub fn ratio(&self) -> Summary {
        let pairs = self.nearfar.iter().zip(&self.rival);
        let of_runs = pairs.map(|(nearfar, rival)| nearfar / rival);
        let ratio = self.nearfar_summary().median / self.rival_summary().median;
        around(ratio, of_runs)
    }
}

impl Comparison {
    /// The least that was resident before any of the queries on Nearfar, and on the rival: about what the tables take.
    pub(super) fn least_resident(&self) -> (u64, u64) {
        let memory = self.queries.iter().filter_map(|query| query.memory);
        let before = memory.map(|memory| (memory.nearfar.before_bytes, memory.rival.before_bytes));
        let least = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.min(b.1));
        before.reduce(least).unwrap_or_default()
    }

    /// The geometric mean over the queries of the ratio of the medians, with the least and the
    /// largest of the geometric means over the runs.
    pub fn geometric_mean_ratio(&self) -> Summary {
        let runs = self
            .queries
            .iter()
            .map(|query| query.nearfar.len())
            .min()
            .unwrap_or(0);
        let of_run = |run: usize| {
            let ratios = self
                .queries
                .iter()
                .map(|query| query.nearfar[run] / query.rival[run]);
            geometric_mean(ratios)
        };
        let median = geometric_mean(self.queries.iter().map(|query| query.ratio().median));
        around(median, (0..runs).map(of_run))
    }
}

impl BenchOutcome {
    /// Nearfar's time over that of the better rival, query by query: the geometric mean over the queries that were
    /// compared with all rivals of the larger ratio of the medians. None with fewer than two rivals.
    pub fn best_ratio(&self) -> Option<f64> {
        let rivals = self.comparisons.iter();
        let rivals: Vec<&Comparison> = rivals
            .filter(|comparison| matches!(comparison.who, Who::Rival(_)))
            .collect();
        let (first, others) = rivals.split_first()?;
        let of_all = |query: &QueryComparison| {
            others
                .iter()
                .try_fold(query.ratio().median, |ratio, other| {
                    let same = other.queries.iter();
                    let same = same.clone().find(|other| other.number == query.number)?;
                    Some(ratio.max(same.ratio().median))
                })
        };
        let ratios: Vec<f64> = first.queries.iter().filter_map(of_all).collect();
        (!others.is_empty() && !ratios.is_empty()).then(|| geometric_mean(ratios))
    }

    /// The loads of `role`.
    pub fn loads_of(&self, role: Role) -> Option<&ContenderLoads> {
        self.loads.iter().find(|loads| loads.who == Who::Own(role))
    }
}

/// A ratio of medians with the spread of the ratios of single runs, which need not lie around it.
pub(super) fn around(ratio: f64, of_runs: impl Iterator<Item = f64>) -> Summary {
    let spread = summary(of_runs);
    Summary {
        median: ratio,
        min: spread.min.min(ratio),
        max: spread.max.max(ratio),
        runs: spread.runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn against(rival: Rival, seconds: &[(u8, f64)]) -> Comparison {
        let query = |&(number, seconds): &(u8, f64)| QueryComparison {
            number,
            nearfar: vec![2.0],
            rival: vec![seconds],
            memory: None,
        };
        Comparison {
            who: Who::Rival(rival),
            version: String::new(),
            queries: seconds.iter().map(query).collect(),
            missed: Vec::new(),
            ended: None,
        }
    }

    #[test]
    fn the_better_rival_counts_query_by_query() {
        let mut outcome = BenchOutcome {
            options: BenchOptions::default(),
            file_bytes: 0,
            loads: Vec::new(),
            comparisons: vec![against(Rival::DuckDb, &[(1, 1.0), (2, 8.0), (3, 1.0)])],
            counting: None,
            without: Vec::new(),
            absent: Vec::new(),
        };
        assert_eq!(outcome.best_ratio(), None);
        let hyper = against(Rival::Hyper, &[(1, 4.0), (2, 4.0)]);
        outcome.comparisons.push(hyper);
        // Twice DuckDB's time in query 1, and half of Hyper's in query 2.
        assert!(
            outcome
                .best_ratio()
                .is_some_and(|ratio| (ratio - 1.0).abs() < 1e-9)
        );
    }
}
