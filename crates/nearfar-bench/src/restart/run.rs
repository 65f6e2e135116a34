//! Restarts, one after another.

use nearfar_sql::load::tpch;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::error::RestartBenchError;
use super::start::{Order, Step};
use crate::bench::write_table;
use crate::tpch::{Suite, TpchOptions, queries};

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct RestartBenchOptions {
    /// The larger size of the data, 1 is about 1 GB as text; the smaller is a tenth of it.
    pub scale_factor: f64,
    /// Restarts of each kind and size.
    pub runs: u32,
    /// Restarts of each before those, which do not count: what was written while data was made is on its
    /// way to the disk still, and files are not in the page cache.
    pub warm_up_runs: u32,
    /// Threads of every process.
    pub threads: usize,
    /// The folder that pools are made in, on tmpfs or a DAX file system. Each is removed when its
    /// size has been measured.
    pub pool_directory: PathBuf,
    /// The folder that Parquet files, data directories and DuckDB's files are made in.
    pub directory: PathBuf,
    /// The program that calls [`start`](super::start()) with what is its last argument.
    pub program: PathBuf,
    /// Its arguments before that.
    pub arguments: Vec<String>,
    /// The Python interpreter that has the package `duckdb`, or has not.
    pub python: PathBuf,
}

/// With what a process starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// A pool beside a data directory, whose log has a tail that the pool has not: verified in the
    /// background and before each first use.
    Pool,
    /// The same, all of the pool verified first.
    PoolVerified,
    /// A data directory, whose columns are read when they are needed.
    DataDirectory,
    /// A data directory, all of which is read first.
    DataDirectoryLoaded,
    /// Parquet files that are loaded into memory.
    Parquet,
    /// A database file of DuckDB.
    DuckDb,
    /// The same, with every column read once.
    DuckDbWarmed,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Pool,
        Self::PoolVerified,
        Self::DataDirectory,
        Self::DataDirectoryLoaded,
        Self::Parquet,
        Self::DuckDb,
        Self::DuckDbWarmed,
    ];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::PoolVerified => "pool-verified",
            Self::DataDirectory => "data-directory",
            Self::DataDirectoryLoaded => "data-directory-loaded",
            Self::Parquet => "parquet",
            Self::DuckDb => "duckdb",
            Self::DuckDbWarmed => "duckdb-warmed",
        }
    }

    fn is_duckdb(self) -> bool {
        matches!(self, Self::DuckDb | Self::DuckDbWarmed)
    }
}

/// Seconds since before a process was started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RestartTimes {
    /// Until its tables were there.
    pub ready_seconds: f64,
    /// Until its first query was answered.
    pub answer_seconds: f64,
}

/// One restart of each kind.
pub type RestartRun = BTreeMap<Way, RestartTimes>;

/// What one size of the data gave.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeOutcome {
    /// The size.
    pub scale_factor: f64,
    /// Bytes of the Parquet files.
    pub parquet_bytes: u64,
    /// All runs.
    pub runs: Vec<RestartRun>,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct RestartBenchOutcome {
    /// What was run.
    pub options: RestartBenchOptions,
    /// The smaller size and the larger.
    pub sizes: Vec<SizeOutcome>,
    /// Why DuckDB took no part, if it did not.
    pub absent: Option<String>,
}

/// The query that every process answers first: it reads four columns of the largest table.
const QUERY: u8 = 6;

/// The least bytes of a pool, and those for each unit of the scale factor. It takes memory as it is
/// written to, and no more.
const POOL_BYTES_MIN: u64 = 64 << 20;
const POOL_BYTES_PER_SCALE: f64 = 2e9;

/// Rows that the log has behind what a pool has: most of what there can be before they are merged,
/// whatever the size of the tables.
const TAIL_ROWS: u64 = 100_000;

/// Measures restarts at both sizes. `progress` is told what is being done.
///
/// # Errors
/// See [`RestartBenchError`]. DuckDB that is not installed is no error: the outcome says so.
pub fn measure_restarts(
    options: &RestartBenchOptions,
    mut progress: impl FnMut(String),
) -> Result<RestartBenchOutcome, RestartBenchError> {
    let workload = TpchOptions {
        scale_factor: options.scale_factor,
        runs: options.runs,
        ..TpchOptions::default()
    };
    workload.texts()?;
    let mut outcome = RestartBenchOutcome {
        options: options.clone(),
        sizes: Vec::new(),
        absent: None,
    };
    for scale_factor in [options.scale_factor / 10.0, options.scale_factor] {
        let size = Size::new(options, scale_factor);
        let measured = size.measure(&mut outcome.absent, &mut progress);
        size.remove();
        outcome.sizes.push(measured?);
    }
    Ok(outcome)
}

/// One size of the data, and where it is kept.
struct Size<'a> {
    options: &'a RestartBenchOptions,
    scale_factor: f64,
    pool: PathBuf,
    folder: PathBuf,
}

impl<'a> Size<'a> {
    fn new(options: &'a RestartBenchOptions, scale_factor: f64) -> Self {
        let name = format!("sf-{scale_factor}");
        Self {
            options,
            scale_factor,
            pool: options.pool_directory.join(format!("{name}.pool")),
            folder: options.directory.join(name),
        }
    }

    fn parquet(&self) -> PathBuf {
        self.folder.join("parquet")
    }

    /// Removes what was made; what can't be removed is below folders that the caller removes.
    fn remove(&self) {
        let _ = fs::remove_file(&self.pool);
        let _ = fs::remove_dir_all(&self.folder);
    }

    fn measure(
        &self,
        absent: &mut Option<String>,
        progress: &mut impl FnMut(String),
    ) -> Result<SizeOutcome, RestartBenchError> {
        let at = format!("scale factor {}", self.scale_factor);
        let mut parquet_bytes = 0;
        for table in tpch::TABLES {
            progress(format!("{at}: writing {table} to Parquet files"));
            let threads = self.options.threads;
            parquet_bytes += write_table(
                &self.parquet(),
                Suite::TpcH,
                table,
                self.scale_factor,
                threads,
            )?;
        }
        for way in [Way::Pool, Way::DataDirectory, Way::DuckDb] {
            if !(way.is_duckdb() && absent.is_some()) {
                progress(format!("{at}: filling {}", way.name()));
                *absent = absent.take().or(self.start(way, true)?.absent);
            }
        }
        let (mut runs, mut expected) = (Vec::new(), None);
        let warm_up_runs = self.options.warm_up_runs;
        for run in 1..=warm_up_runs + self.options.runs {
            let mut times = RestartRun::new();
            for way in Way::ALL {
                if way.is_duckdb() && absent.is_some() {
                    continue;
                }
                progress(format!("{at}: run {run}, {}", way.name()));
                let started = self.start(way, false)?;
                check(way, &started.answer, &mut expected)?;
                times.insert(way, started.times);
            }
            if run > warm_up_runs {
                runs.push(times);
            }
        }
        Ok(SizeOutcome {
            scale_factor: self.scale_factor,
            parquet_bytes,
            runs,
        })
    }

    /// Runs a process to its end: one that fills what others start with, or one of these.
    fn start(&self, way: Way, is_filling: bool) -> Result<Started, RestartBenchError> {
        let mut command = match way.is_duckdb() {
            true => self.duckdb(way, is_filling),
            false => self.nearfar(way, is_filling)?,
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let began = Instant::now();
        let child = command.spawn();
        if let Err(error) = &child
            && error.kind() == io::ErrorKind::NotFound
            && way.is_duckdb()
        {
            let python = self.options.python.display();
            let reason = format!("there is no Python interpreter `{python}`");
            return Ok(Started {
                absent: Some(reason),
                ..Started::default()
            });
        }
        let failed = |source| RestartBenchError::Process {
            way: way.name(),
            source,
        };
        let mut child = child.map_err(failed)?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe);
        let output = output.map_err(|kind| failed(kind.into()))?;
        let heard = hear(way, BufReader::new(output), began);
        let status = child.wait().map_err(failed)?;
        let started = heard?;
        match status.success() {
            true => Ok(started),
            false => Err(RestartBenchError::Failed {
                way: way.name(),
                reason: format!("it ended with {status}"),
            }),
        }
    }

    fn nearfar(&self, way: Way, is_filling: bool) -> Result<Command, RestartBenchError> {
        let is_pool = matches!(way, Way::Pool | Way::PoolVerified);
        let data = match way {
            Way::Pool | Way::PoolVerified => Some("pool-data"),
            Way::DataDirectory | Way::DataDirectoryLoaded => Some("data"),
            Way::Parquet | Way::DuckDb | Way::DuckDbWarmed => None,
        };
        let order = Order {
            threads: self.options.threads,
            pool: is_pool.then(|| self.pool.clone()),
            pool_bytes: is_filling.then(|| self.pool_bytes()),
            verify_all: way == Way::PoolVerified,
            data: data.map(|name| self.folder.join(name)),
            parquet: (is_filling || way == Way::Parquet).then(|| self.parquet()),
            load_all: way == Way::DataDirectoryLoaded,
            tail_rows: if is_filling && is_pool { TAIL_ROWS } else { 0 },
            is_killed: is_pool,
            query: self.query(is_filling),
        };
        let order = serde_json::to_string(&order).map_err(|error| RestartBenchError::Process {
            way: way.name(),
            source: error.into(),
        })?;
        let mut command = Command::new(&self.options.program);
        command.args(&self.options.arguments).arg(order);
        Ok(command)
    }

    fn duckdb(&self, way: Way, is_filling: bool) -> Command {
        let order = json!({
            "file": self.folder.join("duckdb"),
            "threads": self.options.threads,
            "tables": tpch::TABLES,
            "parquet": is_filling.then(|| self.parquet()),
            "load_all": way == Way::DuckDbWarmed,
            "query": self.query(is_filling),
        });
        let mut command = Command::new(&self.options.python);
        command.args(["-c", DUCKDB_SCRIPT]).arg(order.to_string());
        command
    }

    fn query(&self, is_filling: bool) -> Option<String> {
        let text = || queries::query(QUERY, self.scale_factor);
        (!is_filling).then(text).flatten()
    }

    fn pool_bytes(&self) -> u64 {
        const GRAIN_BYTES: u64 = 2 << 20;
        let wanted = (self.scale_factor * POOL_BYTES_PER_SCALE) as u64;
        wanted.max(POOL_BYTES_MIN).next_multiple_of(GRAIN_BYTES)
    }
}

const DUCKDB_SCRIPT: &str = include_str!("../../rivals/duckdb_restart.py");

/// What a process has done.
#[derive(Debug, Default)]
struct Started {
    times: RestartTimes,
    answer: Option<String>,
    absent: Option<String>,
}

/// Takes in what a process says.
fn hear(way: Way, lines: impl BufRead, began: Instant) -> Result<Started, RestartBenchError> {
    let mut started = Started::default();
    for line in lines.lines() {
        let line = line.map_err(|source| RestartBenchError::Process {
            way: way.name(),
            source,
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let failed = |reason| RestartBenchError::Failed {
            way: way.name(),
            reason,
        };
        match serde_json::from_str(&line) {
            Ok(Step::Ready) => started.times.ready_seconds = seconds,
            Ok(Step::Answer { text }) => {
                started.times.answer_seconds = seconds;
                started.answer = Some(text);
            }
            Ok(Step::Absent { reason }) => started.absent = Some(reason),
            Ok(Step::Failed { reason }) => return Err(failed(reason)),
            Err(_) => return Err(failed(format!("it said {line:?}"))),
        }
    }
    Ok(started)
}

/// Whether an answer is that of the processes before. One without is none.
fn check(
    way: Way,
    answer: &Option<String>,
    expected: &mut Option<f64>,
) -> Result<(), RestartBenchError> {
    const RELATIVE: f64 = 1e-9;
    let found = answer.clone().unwrap_or_default();
    let number: Option<f64> = found.parse().ok();
    let wanted = *expected.get_or_insert(number.unwrap_or(f64::NAN));
    match number {
        Some(number) if (number - wanted).abs() <= RELATIVE * wanted.abs() => Ok(()),
        _ => Err(RestartBenchError::Mismatch {
            way: way.name(),
            found,
            expected: wanted.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_must_agree() {
        let mut expected = None;
        let text = |text: &str| Some(text.to_owned());
        check(Way::Pool, &text("12.50"), &mut expected).expect("the first");
        check(Way::DuckDb, &text("12.5"), &mut expected).expect("the same");
        for other in [text("12.6"), text("none"), None] {
            check(Way::Parquet, &other, &mut expected).expect_err("another");
        }
    }

    #[test]
    fn what_a_process_says_is_understood() {
        let hear = |lines: &str| hear(Way::Pool, lines.as_bytes(), Instant::now());
        let started = hear("{\"step\":\"ready\"}\n{\"step\":\"answer\",\"text\":\"7\"}\n");
        let started = started.expect("a restart");
        assert_eq!(started.answer.as_deref(), Some("7"));
        assert!(started.times.ready_seconds <= started.times.answer_seconds);
        hear("{\"step\":\"failed\",\"reason\":\"no\"}\n").expect_err("a failure");
        hear("nonsense\n").expect_err("nonsense");
    }
}
