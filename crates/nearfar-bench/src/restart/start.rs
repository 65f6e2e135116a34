//! The process that starts.

use arrow::util::display::array_value_to_string;
use nearfar_durable::checkpoint::pooled::{TablePoolOptions, Verify};
use nearfar_durable::log::{DataOptions, LogSync};
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_sql::error::EngineError;
use nearfar_sql::load::tpch;
use nearfar_topology::Topology;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bench::{Failure, chain, install, load_nearfar};
use crate::database::Database;

/// With what a process starts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    pub threads: usize,
    /// The pool of main storage.
    pub pool: Option<PathBuf>,
    /// How large it is made, where there is none yet.
    pub pool_bytes: Option<u64>,
    /// Whether all of it is verified before the tables are there.
    pub verify_all: bool,
    /// The data directory.
    pub data: Option<PathBuf>,
    /// The folder of Parquet files to load all tables from.
    pub parquet: Option<PathBuf>,
    /// Whether every column is brought to memory before the tables are there.
    pub load_all: bool,
    /// Rows that are written last, a thousand in each transaction.
    pub tail_rows: u64,
    /// Whether it ends without closing what it has open, as if it were killed.
    pub is_killed: bool,
    /// The query to answer then: one number.
    pub query: Option<String>,
}

/// What a process says, a line of JSON each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Step {
    /// Its tables are there.
    Ready,
    /// The query is answered.
    Answer {
        /// The number.
        text: String,
    },
    /// It can't take part.
    Absent {
        /// Why.
        reason: String,
    },
    /// It failed.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Starts as `order` says, which [`measure_restarts`](super::measure_restarts) has made, and says on
/// `output` how far it has come. To be called in a process of its own, before that has started threads.
///
/// # Errors
/// Only those of `output`; what else goes wrong is said there.
pub fn start(order: &str, mut output: impl Write) -> io::Result<()> {
    let mut say = |step: &Step| -> io::Result<()> {
        let mut line = serde_json::to_vec(step)?;
        line.push(b'\n');
        output.write_all(&line)?;
        output.flush()
    };
    match follow(order, &mut say) {
        Ok(()) => Ok(()),
        Err(failure) => say(&Step::Failed {
            reason: chain(failure.as_ref()),
        }),
    }
}

fn follow(order: &str, say: &mut impl FnMut(&Step) -> io::Result<()>) -> Result<(), Failure> {
    let order: Order = serde_json::from_str(order)?;
    let engine = open(&order)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(order.threads)
        .enable_all()
        .build()?;
    if let Some(folder) = order.parquet.clone() {
        let engine = Arc::clone(&engine);
        let tables: Vec<String> = tpch::TABLES.map(str::to_owned).to_vec();
        let loading = async move { load_nearfar(&engine, &folder, &tables).await.map(drop) };
        runtime.block_on(runtime.spawn(loading))??;
    }
    if order.load_all {
        load_all(&engine)?;
    }
    if order.tail_rows > 0 {
        let database = Database::Nearfar(engine.session());
        let writing = async move { write_tail(&database, order.tail_rows).await };
        runtime.block_on(runtime.spawn(writing))??;
    }
    say(&Step::Ready)?;
    if let Some(sql) = order.query {
        let database = Database::Nearfar(engine.session());
        let query = runtime.spawn(async move { database.rows(&sql).await });
        let (_, batches) = runtime.block_on(query)??;
        let batch = batches.iter().find(|batch| batch.num_rows() > 0);
        let batch = batch.ok_or("the query gives no row")?;
        let text = array_value_to_string(batch.column(0), 0)?;
        say(&Step::Answer { text })?;
    }
    if order.is_killed {
        std::mem::forget(engine);
    }
    Ok(())
}

/// Writes rows to a table of their own, all of which are in the log on disk in the end, behind a checkpoint:
/// as in a database that has been used for a while.
async fn write_tail(database: &Database, rows: u64) -> Result<(), Failure> {
    const TRANSACTION_ROWS: u64 = 1000;
    database.rows("CHECKPOINT").await?;
    database.rows("SET nearfar.log_sync = 'on'").await?;
    database
        .rows("CREATE TABLE tail (k BIGINT, v TEXT)")
        .await?;
    for first in (0..rows).step_by(TRANSACTION_ROWS as usize) {
        let last = (first + TRANSACTION_ROWS).min(rows) - 1;
        let insert = format!(
            "INSERT INTO tail SELECT value, 'row ' || value FROM generate_series({first}, {last})"
        );
        database.rows(&insert).await?;
    }
    Ok(())
}

fn open(order: &Order) -> Result<Arc<Engine>, Failure> {
    let pool = order.pool.as_ref().map(|path| TablePoolOptions {
        bytes: order.pool_bytes,
        verify: match order.verify_all {
            true => Verify::All,
            false => Verify::Background,
        },
        ..TablePoolOptions::new(path)
    });
    let data = order.data.as_ref().map(|folder| {
        let mut data = DataOptions::new(folder);
        // A folder that is only being filled is on disk at its end.
        data.sync = LogSync::Off;
        data
    });
    install(EngineOptions {
        threads: order.threads,
        pool,
        data,
        ..EngineOptions::new(Topology::this_machine()?)
    })
}

/// Brings every column segment to memory, by as many threads as run queries.
fn load_all(engine: &Engine) -> Result<(), EngineError> {
    let tables = engine.tables();
    let snapshots: Vec<_> = tables.iter().map(|(_, table)| table.snapshot()).collect();
    let parts = snapshots.iter().flat_map(|snapshot| snapshot.parts());
    let slots: Vec<_> = parts.flat_map(|part| part.segment.columns()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
            slot.current()?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..engine.threads()).map(|_| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().try_for_each(join)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_started_is_told() {
        let mut output = Vec::new();
        start("{", &mut output).expect("written");
        let step = serde_json::from_slice(&output).expect("a step");
        assert!(matches!(step, Step::Failed { .. }), "{step:?}");
    }
}
