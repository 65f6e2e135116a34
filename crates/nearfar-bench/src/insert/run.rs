//! Rounds of inserting.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use nearfar_durable::log::{DataOptions, LogSync};
use nearfar_sql::engine::{Engine, Session};
use nearfar_sql::error::EngineError;
use nearfar_sql::scratch::ScratchFolder;
use std::fmt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::InsertBenchError;
use crate::database::Database;

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct InsertBenchOptions {
    /// Times that every contestant has its turn.
    pub rounds: u32,
    /// For how long it inserts each time.
    pub turn: Duration,
    /// The folder that data directories are made in, on the disk that is measured. Each is removed at
    /// the end of its turn.
    pub directory: PathBuf,
}

/// A way to insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InsertContestant {
    /// When commits are on disk; in memory without.
    pub sync: Option<LogSync>,
    /// Sessions that insert concurrently.
    pub sessions: usize,
    /// Rows of each statement, which is a transaction.
    pub rows: usize,
}

impl InsertContestant {
    /// All of them, in the order of their turns.
    pub const ALL: [Self; 8] = {
        const fn with(sync: Option<LogSync>, sessions: usize, rows: usize) -> InsertContestant {
            InsertContestant {
                sync,
                sessions,
                rows,
            }
        }
        let every = LogSync::Every(Duration::from_millis(200));
        [
            with(None, 1, 1),
            with(Some(LogSync::Off), 1, 1),
            with(Some(every), 1, 1),
            with(Some(LogSync::On), 1, 1),
            with(None, 16, 1),
            with(Some(LogSync::On), 16, 1),
            with(None, 1, 1000),
            with(Some(LogSync::On), 1, 1000),
        ]
    };

    /// The setting in results.
    pub fn sync_name(&self) -> String {
        self.sync
            .map_or_else(|| "memory".to_owned(), |sync| sync.to_string())
    }

    /// The one that inserts in the same way in memory.
    pub fn in_memory(self) -> Self {
        Self { sync: None, ..self }
    }
}

impl fmt::Display for InsertContestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sync {
            Some(sync) => write!(f, "log_sync {sync}")?,
            None => f.write_str("tables in memory")?,
        }
        write!(f, ", sessions: {}, rows: {}", self.sessions, self.rows)
    }
}

/// One turn of a contestant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InsertRun {
    /// Transactions that were acknowledged.
    pub commits: u64,
    /// Rows that they inserted.
    pub rows: u64,
    /// Time from the first statement to the end of the last.
    pub seconds: f64,
    /// Writes of the log to disk in that time.
    pub syncs: u64,
}

impl InsertRun {
    /// Acknowledged rows per second.
    pub fn rows_per_s(&self) -> f64 {
        self.rows as f64 / self.seconds
    }

    /// Transactions that shared one write to disk, on average; `None` where nothing was written.
    pub fn commits_per_sync(&self) -> Option<f64> {
        (self.syncs > 0).then(|| self.commits as f64 / self.syncs as f64)
    }
}

/// All rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct InsertBenchOutcome {
    /// What was run.
    pub options: InsertBenchOptions,
    /// Threads that ran statements.
    pub threads: usize,
    /// The turns of every contestant, round by round.
    pub contestants: Vec<(InsertContestant, Vec<InsertRun>)>,
}

/// Runs all rounds. `engine` makes the engine of a turn, with this data directory or without; `progress`
/// is told who has its turn. To be called on a runtime with as many worker threads as engines have
/// threads.
///
/// # Errors
/// See [`InsertBenchError`]. A row that is not there ends the run.
pub async fn measure_inserts(
    options: &InsertBenchOptions,
    mut engine: impl FnMut(Option<DataOptions>) -> Result<Arc<Engine>, EngineError>,
    mut progress: impl FnMut(String),
) -> Result<InsertBenchOutcome, InsertBenchError> {
    check(options)?;
    let mut outcome = InsertBenchOutcome {
        options: options.clone(),
        threads: 0,
        contestants: InsertContestant::ALL.map(|one| (one, Vec::new())).into(),
    };
    for round in 1..=options.rounds {
        for (contestant, runs) in &mut outcome.contestants {
            progress(format!("round {round} of {}: {contestant}", options.rounds));
            let directory = folder(&options.directory)?;
            let data = contestant.sync.map(|sync| DataOptions {
                sync,
                checkpoint_at_end: false,
                ..DataOptions::new(directory.path().join("data"))
            });
            let engine = engine(data).map_err(|error| contestant.failed("an engine", error))?;
            outcome.threads = engine.threads();
            runs.push(contestant.insert(&engine, options.turn).await?);
        }
    }
    Ok(outcome)
}

fn check(options: &InsertBenchOptions) -> Result<(), InsertBenchError> {
    let given = [
        ("rounds", options.rounds > 0),
        ("seconds", !options.turn.is_zero()),
    ];
    match given.into_iter().find(|(_, is_given)| !is_given) {
        Some((field, _)) => {
            let reason = "give a number above 0";
            Err(InsertBenchError::Options { field, reason })
        }
        None => Ok(()),
    }
}

fn folder(parent: &Path) -> Result<ScratchFolder, InsertBenchError> {
    ScratchFolder::make(parent, "insert").map_err(|source| InsertBenchError::Directory {
        path: parent.to_owned(),
        source,
    })
}

impl InsertContestant {
    /// Inserts into a new table from all sessions concurrently.
    async fn insert(
        &self,
        engine: &Arc<Engine>,
        turn: Duration,
    ) -> Result<InsertRun, InsertBenchError> {
        let session = engine.session();
        let created = session
            .execute("CREATE TABLE t (a BIGINT, b VARCHAR)")
            .await;
        created.map_err(|error| self.failed("CREATE TABLE", error))?;
        let values = vec!["(1, 'some text that is no longer than a line')"; self.rows];
        let insert: Arc<str> = format!("INSERT INTO t VALUES {}", values.join(", ")).into();
        let syncs = || engine.log().map_or(0, |log| log.status().syncs);
        let (syncs_before, started) = (syncs(), Instant::now());
        let clients: Vec<_> = (0..self.sessions)
            .map(|_| {
                let (session, insert) = (engine.session(), Arc::clone(&insert));
                tokio::spawn(async move { repeat(&session, &insert, started + turn).await })
            })
            .collect();
        let mut commits = 0;
        for client in clients {
            let done = client
                .await
                .unwrap_or_else(|e| resume_unwind(e.into_panic()));
            commits += done.map_err(|error| self.failed("INSERT", error))?;
        }
        let run = InsertRun {
            commits,
            rows: commits * self.rows as u64,
            seconds: started.elapsed().as_secs_f64(),
            syncs: syncs() - syncs_before,
        };
        let found = count(session).await;
        let found = found.map_err(|error| self.failed("count(*)", error))?;
        match found == run.rows {
            true => Ok(run),
            false => Err(InsertBenchError::Mismatch {
                contestant: self.to_string(),
                inserted: run.rows,
                found,
            }),
        }
    }

    fn failed(&self, what: &'static str, source: EngineError) -> InsertBenchError {
        InsertBenchError::Engine {
            what,
            contestant: self.to_string(),
            source: Box::new(source),
        }
    }
}

/// Executes a statement until `end`, and at least once; gives how often.
async fn repeat(session: &Session, sql: &str, end: Instant) -> Result<u64, EngineError> {
    let mut times = 0;
    loop {
        session.execute(sql).await?;
        times += 1;
        if Instant::now() >= end {
            return Ok(times);
        }
    }
}

async fn count(session: Session) -> Result<u64, EngineError> {
    let (_, batches) = Database::Nearfar(session)
        .rows("SELECT count(*) FROM t")
        .await?;
    let counts = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values());
    Ok(counts.sum::<i64>().unsigned_abs())
}
