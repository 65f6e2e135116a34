//! What is compared, and the comparison as a whole.

use std::path::PathBuf;

use nearfar_sql::scratch::ScratchFolder;

use super::contender::{Launch, Rival, Who};
use super::error::BenchError;
use super::field::Field;
use super::outcome::{BenchOutcome, Turns};
use crate::tpch::{Suite, TpchError, TpchOptions};

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchOptions {
    /// Tables and queries. A query of TPC-DS that fails or has another answer is left out with the reason; one of TPC-H ends
    /// the comparison.
    pub suite: Suite,
    /// Size of the data; 1 is about 1 GB as text.
    pub scale_factor: f64,
    /// Threads of every contender.
    pub threads: usize,
    /// Queries to run, in order.
    pub queries: Vec<u8>,
    /// Timed runs of each query by each of two contenders, in turn.
    pub runs: u32,
    /// How runs of two contenders follow each other.
    pub turns: Turns,
    /// Timed loads by Nearfar and by DataFusion, in turn, each in a fresh process.
    pub load_runs: u32,
    /// Whether DataFusion's tables in memory take part.
    pub memtable: bool,
    /// Rivals beside those.
    pub rivals: Vec<Rival>,
    /// Settings of Nearfar, each on or off, without which queries are run in turn with them.
    pub without: Vec<String>,
    /// Whether Nearfar plans a query each time that it runs, and does not keep the plan of its text.
    pub plan_anew: bool,
    /// What the operators of one query of Nearfar may take; they spill the rest. The engine's own limit if none.
    pub memory_limit_bytes: Option<u64>,
    /// The folder in which Parquet files are written, about 0.4 GB per scale factor; they are
    /// removed in the end. The system's for temporary files if none.
    pub directory: Option<PathBuf>,
}

impl Default for BenchOptions {
    /// As [`BenchOptions::of`] TPC-H.
    fn default() -> Self {
        Self::of(Suite::TpcH)
    }
}

impl BenchOptions {
    /// Scale factor 1, all processors, all queries, five runs in turn, three loads, no further
    /// rivals.
    pub fn of(suite: Suite) -> Self {
        Self {
            suite,
            scale_factor: 1.0,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            queries: suite.numbers().collect(),
            runs: 5,
            turns: Turns::Alternating,
            load_runs: 3,
            memtable: true,
            rivals: Vec::new(),
            without: Vec::new(),
            plan_anew: false,
            memory_limit_bytes: None,
            directory: None,
        }
    }
}

/// A step of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum BenchEvent {
    /// A table is being generated and written to Parquet files.
    Writing {
        /// The table.
        table: &'static str,
    },
    /// A contender loads all tables.
    Loading {
        /// Which contender.
        who: Who,
        /// Of all loads the how many-th, from 1.
        run: u32,
    },
    /// A contender loaded all tables.
    Loaded {
        /// Which contender.
        who: Who,
        /// Of all loads the how many-th, from 1.
        run: u32,
        /// The time it took.
        seconds: f64,
    },
    /// A rival can't take part.
    Absent {
        /// Which rival.
        rival: Rival,
    },
    /// A query is left out of a comparison.
    Missed {
        /// Against whom.
        who: Who,
        /// The query.
        query: u8,
    },
    /// A contender ended in a query; what it did before is kept.
    Ended {
        /// Which contender.
        who: Who,
        /// The query.
        query: u8,
    },
    /// Nearfar's answer to a query is being compared with this contender's.
    Checking {
        /// Which contender.
        who: Who,
        /// The query.
        query: u8,
    },
    /// All runs of a query by a contender that runs alone are done; seconds are their median.
    Timed {
        /// Which contender.
        who: Who,
        /// The query.
        query: u8,
        /// The time it took.
        seconds: f64,
    },
    /// All runs of a query by Nearfar with and without a setting are done; seconds are medians.
    Switched {
        /// The query.
        query: u8,
        /// Median with the setting on.
        on_seconds: f64,
        /// Median with it off.
        off_seconds: f64,
    },
    /// All runs of a query by Nearfar and this contender, in turn, are done; seconds are medians.
    Compared {
        /// Which contender.
        who: Who,
        /// The query.
        query: u8,
        /// Median on Nearfar.
        nearfar_seconds: f64,
        /// Median on the other.
        rival_seconds: f64,
    },
}

/// Whoever follows a comparison; called between what is timed.
pub trait BenchObserver {
    /// Takes note of a step.
    fn on(&self, event: &BenchEvent);
}

/// Follows nothing.
impl BenchObserver for () {
    fn on(&self, _: &BenchEvent) {}
}

/// Compares all-near Nearfar with DataFusion's own tables in memory, if asked for, and with rivals.
///
/// All load the same Parquet files. No more than two hold the data concurrently, or one where they run
/// [apart](Turns::Apart).
///
/// # Errors
/// See [`BenchError`]. A rival that is not installed is no error: the outcome says so.
pub fn compare(
    options: &BenchOptions,
    launcher: &dyn Launch,
    observer: &dyn BenchObserver,
) -> Result<BenchOutcome, BenchError> {
    let texts = texts(options)?;
    let parent = options.directory.clone().unwrap_or_else(std::env::temp_dir);
    let directory = ScratchFolder::make(&parent, options.suite.name())
        .map_err(|source| BenchError::file(&parent, source))?;
    let field = Field {
        options,
        launcher,
        observer,
        directory: directory.path(),
        texts,
    };
    let file_bytes = field.write_files()?;
    let found = match options.turns {
        Turns::Alternating => field.compare_in_turn()?,
        Turns::Apart => field.compare_apart()?,
    };
    Ok(BenchOutcome {
        options: options.clone(),
        file_bytes,
        loads: found.loads,
        comparisons: found.comparisons,
        counting: found.counting,
        without: found.without,
        absent: found.absent,
    })
}

fn texts(options: &BenchOptions) -> Result<Vec<(u8, String)>, TpchError> {
    let workload = TpchOptions {
        suite: options.suite,
        scale_factor: options.scale_factor,
        queries: options.queries.clone(),
        runs: options.runs.min(options.load_runs),
        ..Default::default()
    };
    workload.texts()
}
