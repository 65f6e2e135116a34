//! Turns of sessions that scan, each for itself or together.

use arrow::util::pretty::pretty_format_batches;
use nearfar_memory::{Placement, TierId};
use nearfar_sql::engine::{Engine, Session};
use nearfar_sql::error::EngineError;
use nearfar_sql::load::{Load, Progress, tpch};
use nearfar_table::placement::ColumnPlacements;
use nearfar_table::traffic::{Moved, Task};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::CooperativeBenchError;
use crate::database::Database;

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct CooperativeBenchOptions {
    /// TPC-H's scale factor.
    pub scale_factor: f64,
    /// Numbers of sessions, one after the other.
    pub sessions: Vec<usize>,
    /// How long sessions ask in each turn.
    pub turn: Duration,
    /// Times that both ways have their turn with each number of sessions.
    pub rounds: u32,
    /// The limit of far bandwidth, in bytes per second, if there is to be one.
    pub far_bandwidth_bytes_per_s: Option<u64>,
}

/// What sessions have done in one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// How many there were.
    pub sessions: usize,
    /// Whether they read far memory together.
    pub is_together: bool,
    /// The round.
    pub round: u32,
    /// Queries that were answered.
    pub queries: u64,
    /// Until the last of them was.
    pub seconds: f64,
    /// Bytes that were read of the far tier.
    pub far_bytes: u64,
    /// Bytes that were not, as another scan had brought them near.
    pub saved_bytes: u64,
}

/// All turns.
#[derive(Debug, Clone, PartialEq)]
pub struct CooperativeBenchOutcome {
    /// What was run.
    pub options: CooperativeBenchOptions,
    /// Threads that ran queries.
    pub threads: usize,
    /// Whether the far tier is emulated.
    pub is_modelled: bool,
    /// The turns, round by round.
    pub turns: Vec<Turn>,
}

const TABLE: &str = "lineitem";

/// Queries that read different columns of the table, and have some in common.
const QUERIES: [&str; 5] = [
    "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' \
     AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), count(*) FROM lineitem \
     WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus ORDER BY 1, 2",
    "SELECT l_shipmode, count(*), sum(l_tax) FROM lineitem WHERE l_commitdate < l_receiptdate \
     GROUP BY l_shipmode ORDER BY 1",
    "SELECT max(l_extendedprice), min(l_shipdate), sum(l_quantity) FROM lineitem",
    "SELECT count(*) FROM lineitem WHERE l_shipdate < l_commitdate AND l_quantity > 10",
];

/// Runs all turns. `progress` is told what happens. To be called on a runtime with as many worker threads as the engine
/// has threads.
///
/// # Errors
/// See [`CooperativeBenchError`]. A wrong answer ends the run.
pub async fn compare_cooperation(
    engine: &Arc<Engine>,
    options: &CooperativeBenchOptions,
    mut progress: impl FnMut(String),
) -> Result<CooperativeBenchOutcome, CooperativeBenchError> {
    check(options)?;
    let far = engine.tier("far").ok_or(CooperativeBenchError::NoFarTier)?;
    progress(format!("loading {TABLE}"));
    load(engine, far, options.scale_factor)?;
    let session = Database::Nearfar(engine.session());
    let mut answers = Vec::new();
    for query in QUERIES {
        answers.push(answer(&session, query).await?);
    }
    let bench = Bench {
        engine,
        far,
        turn: options.turn,
        answers: answers.into(),
    };
    engine
        .traffic()
        .set_limit(options.far_bandwidth_bytes_per_s);
    let mut turns = Vec::new();
    for round in 0..options.rounds {
        for sessions in options.sessions.iter().copied() {
            // Who begins takes turns, too.
            for is_together in [round % 2 == 1, round % 2 == 0] {
                let how = if is_together { "together" } else { "apart" };
                progress(format!(
                    "round {} of {}: {sessions} sessions, {how}",
                    round + 1,
                    options.rounds
                ));
                turns.push(bench.take_turn(round, sessions, is_together).await?);
            }
        }
    }
    Ok(CooperativeBenchOutcome {
        options: options.clone(),
        threads: engine.threads(),
        is_modelled: engine.models().of(far).is_some(),
        turns,
    })
}

fn check(options: &CooperativeBenchOptions) -> Result<(), CooperativeBenchError> {
    let refuse = |field, reason| Err(CooperativeBenchError::Options { field, reason });
    let scale_factor = options.scale_factor;
    if !(scale_factor > 0.0 && scale_factor.is_finite()) {
        return refuse("sf", format!("{scale_factor}: give a number above 0"));
    }
    if options.sessions.is_empty() || options.sessions.contains(&0) {
        return refuse("sessions", "give numbers above 0".to_owned());
    }
    if options.turn.is_zero() {
        return refuse("seconds", "give a number above 0".to_owned());
    }
    Ok(())
}

fn load(engine: &Arc<Engine>, far: TierId, scale_factor: f64) -> Result<(), CooperativeBenchError> {
    let failed = |source| failed(&format!("loading {TABLE}"), source);
    let rows = tpch::rows(TABLE, scale_factor, engine.threads()).map_err(failed)?;
    let load = Load {
        storage: engine.storage().clone(),
        name: TABLE.to_owned(),
        placements: ColumnPlacements::all(Placement::Bind(far)),
        progress: Arc::new(Progress::default()),
    };
    let table = tokio::task::block_in_place(|| load.batches(&rows.schema, rows.parts));
    engine.register(table.map_err(failed)?).map_err(failed)?;
    Ok(())
}

struct Bench<'a> {
    engine: &'a Arc<Engine>,
    far: TierId,
    turn: Duration,
    /// Of each query alone.
    answers: Arc<[String]>,
}

impl Bench<'_> {
    async fn take_turn(
        &self,
        round: u32,
        sessions: usize,
        is_together: bool,
    ) -> Result<Turn, CooperativeBenchError> {
        let before = self.moved();
        let began = Instant::now();
        let mut asking = Vec::new();
        for number in 0..sessions {
            let session = self.engine.session();
            let set = format!("SET cooperative_scans = {is_together}");
            run(&session, &set).await?;
            let (answers, ends) = (Arc::clone(&self.answers), began + self.turn);
            let session = Database::Nearfar(session);
            asking.push(tokio::spawn(async move {
                ask(&session, number, &answers, ends).await
            }));
        }
        let mut queries = 0;
        for asked in asking {
            queries += match asked.await {
                Ok(asked) => asked?,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            };
        }
        let after = self.moved();
        Ok(Turn {
            sessions,
            is_together,
            round,
            queries,
            seconds: began.elapsed().as_secs_f64(),
            far_bytes: after.read_bytes - before.read_bytes,
            saved_bytes: after.saved_bytes - before.saved_bytes,
        })
    }

    fn moved(&self) -> Moved {
        self.engine.traffic().moved(self.far, Task::Scan)
    }
}

/// Asks one query after the other, beginning with the one of this number; how many were answered.
async fn ask(
    session: &Database,
    first: usize,
    answers: &[String],
    ends: Instant,
) -> Result<u64, CooperativeBenchError> {
    let mut asked = 0;
    let turns = QUERIES.iter().zip(answers).cycle().skip(first);
    for (query, expected) in turns {
        if Instant::now() >= ends {
            break;
        }
        if answer(session, query).await? != *expected {
            return Err(CooperativeBenchError::Mismatch { query });
        }
        asked += 1;
    }
    Ok(asked)
}

async fn answer(session: &Database, query: &str) -> Result<String, CooperativeBenchError> {
    let failed = |source| failed(query, source);
    let (_, batches) = session.rows(query).await.map_err(failed)?;
    let text = pretty_format_batches(&batches);
    Ok(text.map_err(|error| failed(error.into()))?.to_string())
}

async fn run(session: &Session, sql: &str) -> Result<(), CooperativeBenchError> {
    let ran = session.execute(sql).await;
    ran.map(drop).map_err(|source| failed(sql, source))
}

fn failed(what: &str, source: EngineError) -> CooperativeBenchError {
    CooperativeBenchError::Engine {
        what: what.to_owned(),
        source: Box::new(source),
    }
}
