//! The same in this process, through the library: what a statement takes without a connection.

use datafusion::scalar::ScalarValue;
use nearfar_durable::log::{DataOptions, LogSync};
use nearfar_sql::engine::{Engine, Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_sql::scratch::ScratchFolder;
use nearfar_sql::sql::Statement;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::OltpError;
use super::run::OltpOptions;

/// Rows of the table that is read.
const ROWS: i64 = 100_000;

/// Statements between two looks at the clock.
const STATEMENTS: u32 = 256;

/// Statements per second of one thread of an embedding program, round by round.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InProcess {
    /// Queries of one row by its key.
    pub reads_per_s: Vec<f64>,
    /// New rows, each a transaction of its own, of a table with a key.
    pub inserts_per_s: Vec<f64>,
}

/// Runs prepared statements one after another on the calling thread, in the rounds and turns of `options`. `engine` makes
/// what they run in, with a data directory if commits are to wait for the disk. To be called on a runtime.
///
/// # Errors
/// A statement that fails, or is planned each time.
pub async fn measure_in_process(
    options: &OltpOptions,
    engine: impl Fn(Option<DataOptions>) -> Result<Arc<Engine>, EngineError>,
) -> Result<InProcess, OltpError> {
    let failed = |source| OltpError::Engine {
        source: Box::new(source),
    };
    let folder = ScratchFolder::make(&options.directory, "oltp").map_err(OltpError::Folder)?;
    let data = options.durable.then(|| DataOptions {
        sync: LogSync::On,
        checkpoint_at_end: false,
        ..DataOptions::new(folder.path().join("data"))
    });
    let engine = engine(data).map_err(failed)?;
    let measured = rounds_of(&engine.session(), options).await;
    measured.map_err(failed)?.ok_or(OltpError::Planned)
}

async fn rounds_of(
    session: &Session,
    options: &OltpOptions,
) -> Result<Option<InProcess>, EngineError> {
    let turn = options.turn;
    let tables = "CREATE TABLE accounts (id BIGINT PRIMARY KEY, branch INT, balance INT, filler VARCHAR);
                  CREATE TABLE history (id BIGINT PRIMARY KEY, account BIGINT, delta INT, note VARCHAR)";
    session.execute(tables).await?;
    let fill = format!(
        "INSERT INTO accounts SELECT value, value % 10, 0, 'a text that fills the row'
         FROM generate_series(0, {})",
        ROWS - 1
    );
    session.execute(&fill).await?;
    session.execute("CALL nearfar.merge('accounts')").await?;
    let mut key = Keys(1);
    let read = "SELECT balance FROM accounts WHERE id = $1";
    let read = Repeated::prepare(session, read, vec![key.next().into()]).await?;
    let insert = "INSERT INTO history VALUES ($1, $2, 7, 'a note')";
    let mut rows = 0_i64;
    let insert = Repeated::prepare(session, insert, vec![(-1_i64).into(), 1_i64.into()]).await?;
    let mut rates = InProcess::default();
    for _ in 0..options.rounds {
        let Some(reads) = read
            .run(session, turn, |values| values[0] = key.next().into())
            .await?
        else {
            return Ok(None);
        };
        let inserts = insert.run(session, turn, |values| {
            *values = vec![rows.into(), key.next().into()];
            rows += 1;
        });
        let Some(inserts) = inserts.await? else {
            return Ok(None);
        };
        rates.reads_per_s.push(reads);
        rates.inserts_per_s.push(inserts);
    }
    Ok(Some(rates))
}

/// Keys in no order (Steele and Vigna, "Computationally easy, spectrally good multipliers", table 4).
struct Keys(u64);

impl Keys {
    fn next(&mut self) -> i64 {
        const MULTIPLIER: u64 = 0xd134_2543_de82_ef95;
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(1);
        (self.0 >> 33) as i64 % ROWS
    }
}

/// A prepared statement.
struct Repeated {
    statement: Statement,
    values: Vec<ScalarValue>,
}

impl Repeated {
    async fn prepare(
        session: &Session,
        sql: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Self, EngineError> {
        let mut statements = session.read(sql)?;
        let statement = statements.pop().ok_or_else(|| EngineError::Internal {
            message: "a text without a statement".to_owned(),
        })?;
        session.compile(&statement, &values).await?;
        Ok(Self { statement, values })
    }

    /// Statements per second; none where one is planned.
    async fn run(
        &self,
        session: &Session,
        turn: Duration,
        mut change: impl FnMut(&mut Vec<ScalarValue>),
    ) -> Result<Option<f64>, EngineError> {
        let mut values = self.values.clone();
        let (began, mut count) = (Instant::now(), 0_u64);
        while began.elapsed() < turn {
            for _ in 0..STATEMENTS {
                change(&mut values);
                let ran = session.run_immediately(&self.statement, &values)?;
                let Some(result) = ran.wait()? else {
                    return Ok(None);
                };
                if let StatementResult::Rows(rows) = result {
                    rows.collect().await?;
                }
            }
            count += u64::from(STATEMENTS);
        }
        Ok(Some(count as f64 / began.elapsed().as_secs_f64()))
    }
}
