//! Rounds of writing, querying and merging.

use arrow::util::pretty::pretty_format_batches;
use nearfar_sql::engine::{Engine, Session, StatementResult};
use nearfar_sql::error::EngineError;
use std::sync::Arc;
use std::time::Instant;

use super::error::MergeBenchError;

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeBenchOptions {
    /// Rows of the table before anything is written to it.
    pub rows: u64,
    /// Rows that are written in every round; one row in fifty is deleted as well.
    pub written_rows: u64,
    /// Rounds.
    pub rounds: u32,
    /// Queries of a round without a merge; beside it, as many as there is time for.
    pub queries: u32,
}

impl Default for MergeBenchOptions {
    /// Two million rows, of which 400,000 are written in each of five rounds, and 100 queries.
    fn default() -> Self {
        Self {
            rows: 2_000_000,
            written_rows: 400_000,
            rounds: 5,
            queries: 100,
        }
    }
}

/// One merge, and the queries before and beside it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MergeRound {
    /// Rows that the merge wrote.
    pub merged_rows: u64,
    /// Bytes of the delta and of the main storage that it replaced.
    pub replaced_bytes: u64,
    /// Time from the statement to its end.
    pub merge_seconds: f64,
    /// Latencies without a merge.
    pub quiet_seconds: Vec<f64>,
    /// Latencies of queries that began while the merge was under way.
    pub merging_seconds: Vec<f64>,
}

/// All rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeBenchOutcome {
    /// What was run.
    pub options: MergeBenchOptions,
    /// Threads that ran queries.
    pub threads: usize,
    /// Its rounds.
    pub rounds: Vec<MergeRound>,
}

/// Rows of one INSERT: few enough for the delta.
const INSERTED_ROWS: u64 = 50_000;

const COLUMNS: &str = "value AS k, value % 1000 AS g, value * 7919 % 100003 AS v, \
                       'text number ' || (value % 5000) AS s";

const QUERY: &str = "SELECT count(*), sum(v), max(s) FROM t WHERE g BETWEEN 100 AND 119";

/// Runs all rounds on a table of its own. `progress` is told how many of how many are done. To be
/// called on a runtime with as many worker threads as the engine has threads.
///
/// # Errors
/// See [`MergeBenchError`].
pub async fn measure_merges(
    engine: &Arc<Engine>,
    options: &MergeBenchOptions,
    mut progress: impl FnMut(u32, u32),
) -> Result<MergeBenchOutcome, MergeBenchError> {
    for (field, value) in [
        ("rows", options.rows),
        ("written-rows", options.written_rows),
    ] {
        if value == 0 {
            let reason = "give a number above 0";
            return Err(MergeBenchError::Options { field, reason });
        }
    }
    let session = engine.session();
    let rows = options.rows;
    run(&session, "SET merge_rows = never").await?;
    run(&session, "SET merge_bytes = never").await?;
    let create = format!("CREATE TABLE t AS SELECT {COLUMNS} FROM generate_series(1, {rows})");
    run(&session, &create).await?;
    let mut rounds = Vec::new();
    for round in 0..options.rounds {
        progress(round, options.rounds);
        write(&session, options, round).await?;
        rounds.push(measure(engine, &session, options).await?);
    }
    run(&session, "DROP TABLE t").await?;
    Ok(MergeBenchOutcome {
        options: options.clone(),
        threads: engine.threads(),
        rounds,
    })
}

/// Rows of the delta, and deleted ones in all of the main storage.
async fn write(
    session: &Session,
    options: &MergeBenchOptions,
    round: u32,
) -> Result<(), MergeBenchError> {
    let first = options.rows + u64::from(round) * options.written_rows + 1;
    let end = first + options.written_rows;
    let mut from = first;
    while from < end {
        let to = (from + INSERTED_ROWS).min(end) - 1;
        let insert = format!("INSERT INTO t SELECT {COLUMNS} FROM generate_series({from}, {to})");
        run(session, &insert).await?;
        from = to + 1;
    }
    run(session, &format!("DELETE FROM t WHERE k % 50 = {round}")).await?;
    Ok(())
}

async fn measure(
    engine: &Arc<Engine>,
    session: &Session,
    options: &MergeBenchOptions,
) -> Result<MergeRound, MergeBenchError> {
    let bytes = run(
        session,
        "SELECT bytes FROM nearfar.tables WHERE table_name = 't'",
    )
    .await?;
    let mut round = MergeRound {
        replaced_bytes: number(&bytes),
        ..MergeRound::default()
    };
    let expected = run(session, QUERY).await?;
    for _ in 0..options.queries {
        round.quiet_seconds.push(timed(session, &expected).await?);
    }
    let merging = engine.session();
    let merge = tokio::spawn(async move {
        let began = Instant::now();
        let tag = run(&merging, "CALL nearfar.merge('t')").await;
        (tag, began.elapsed())
    });
    while !merge.is_finished() {
        round.merging_seconds.push(timed(session, &expected).await?);
    }
    let (tag, elapsed) = match merge.await {
        Ok(merged) => merged,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    };
    round.merged_rows = number(&tag?);
    round.merge_seconds = elapsed.as_secs_f64();
    Ok(round)
}

async fn timed(session: &Session, expected: &str) -> Result<f64, MergeBenchError> {
    let began = Instant::now();
    let answer = run(session, QUERY).await?;
    let seconds = began.elapsed().as_secs_f64();
    match answer == expected {
        true => Ok(seconds),
        false => Err(MergeBenchError::Mismatch),
    }
}

/// The last number in a text.
fn number(text: &str) -> u64 {
    let digits = |c: char| !c.is_ascii_digit();
    let mut numbers = text.split(digits).filter_map(|number| number.parse().ok());
    numbers.next_back().unwrap_or(0)
}

/// What a statement gives, as text.
async fn run(session: &Session, sql: &str) -> Result<String, MergeBenchError> {
    let failed = |source: EngineError| MergeBenchError::Statement {
        sql: sql.to_owned(),
        source: Box::new(source),
    };
    match session.execute(sql).await.map_err(failed)?.pop() {
        Some(StatementResult::Rows(rows)) => {
            let batches = rows.collect().await.map_err(failed)?;
            let text = pretty_format_batches(&batches);
            Ok(text.map_err(|error| failed(error.into()))?.to_string())
        }
        Some(StatementResult::Command(tag)) => Ok(tag.to_string()),
        None => Ok(String::new()),
    }
}
