//! What of the cluster's tables is on this node, and the states of it that queries read.

use arrow::array::AsArray;
use datafusion::error::Result;
use nearfar_sql::engine::{Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_sql::scan::table_of;
use nearfar_table::table::Table;
use nearfar_table::transaction::DatabaseSnapshot;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Node;
use crate::error::{failed, failed_query};
use crate::home::TableHome;
use crate::messages::{Change, Hello, Reply, State};

/// A pin whose query has not been heard of for so long is given up: its coordinator is gone.
const PIN_AGE_MAX: Duration = Duration::from_secs(3600);

/// A table of the cluster, as it is on this node.
#[derive(Debug, Clone)]
pub struct LocalTable {
    /// Where its rows are.
    pub home: TableHome,
    /// Those that are here.
    pub table: Arc<Table>,
}

/// A state of this node that a query reads.
#[derive(Debug, Clone)]
pub struct Pinned {
    /// The tables' contents.
    pub snapshot: Arc<DatabaseSnapshot>,
    since: Instant,
    coordinator: usize,
}

impl Node {
    /// Keeps the present state for a query of the node `coordinator`.
    pub(crate) async fn pin(&self, pin: u64, coordinator: usize) -> Reply {
        if self.is_draining.load(Ordering::Relaxed) {
            return Reply::Stopping;
        }
        let state = self.state.lock().await;
        let snapshot = self.engine.database().snapshot();
        let tables = self.tables.read();
        let rows = tables.iter().map(|(name, local)| {
            let rows = snapshot
                .table(&local.table)
                .map_or(0, |snapshot| snapshot.rows());
            (name.clone(), rows as u64)
        });
        let rows: BTreeMap<String, u64> = rows.collect();
        drop(tables);
        let since = Instant::now();
        let mut pins = self.pins.lock();
        pins.retain(|_, pinned| pinned.since.elapsed() < PIN_AGE_MAX);
        let pinned = Pinned {
            snapshot,
            since,
            coordinator,
        };
        pins.insert(pin, pinned);
        Reply::Pinned {
            state: *state,
            rows,
        }
    }

    /// Takes note of a node: if it has been started again, its queries and loads of before are over.
    pub(crate) async fn meet(&self, other: &Hello) {
        let Ok(coordinator) = self.file.index_of(&other.node) else {
            return;
        };
        let before = self.lives.lock().insert(coordinator, other.life);
        if before.is_some_and(|before| before != other.life) {
            let is_over = |pinned: &Pinned| pinned.coordinator == coordinator;
            self.pins.lock().retain(|_, pinned| !is_over(pinned));
            self.give_up_loads_of(coordinator).await;
        }
    }

    /// Forgets a state.
    pub(crate) fn unpin(&self, pin: u64) {
        self.pins.lock().remove(&pin);
    }

    /// The state that a query reads.
    ///
    /// # Errors
    /// A query that has ended, or whose node has been started again since.
    pub(crate) fn pinned(&self, pin: u64) -> Result<Pinned> {
        self.pins.lock().get(&pin).cloned().ok_or_else(|| {
            failed_query(format!(
                "node `{}` has been started again, or has given the query up: repeat the query",
                self.name_of(self.me)
            ))
        })
    }

    /// Takes no more queries, and waits for those that run and for changes, for `grace` at most, but not for those of
    /// nodes that are gone. Whether all have ended.
    pub async fn drain(&self, grace: Duration) -> bool {
        self.is_draining.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        loop {
            let is_idle = self.is_idle();
            if is_idle || begun.elapsed() > grace {
                return is_idle;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether no query reads here, no rows wait for their commit, and no change is being made.
    fn is_idle(&self) -> bool {
        let has_queries = {
            let pins = self.pins.lock();
            pins.values().any(|pin| !self.is_gone(pin.coordinator))
        };
        let has_loads = {
            let loads = self.loads.lock();
            loads.values().any(|load| !self.is_gone(load.coordinator))
        };
        // A load that is being committed is one no more.
        !has_queries && !has_loads && self.state.try_lock().is_ok()
    }

    /// Reads what this node has of the cluster from its own tables, and makes the tables that say it where there
    /// are none.
    pub(crate) async fn restore(&self) -> Result<(), EngineError> {
        let session = self.session();
        for sql in [
            "CREATE TABLE IF NOT EXISTS nearfar_cluster_tables (name TEXT NOT NULL, home TEXT NOT NULL)",
            "CREATE TABLE IF NOT EXISTS nearfar_cluster_state (version BIGINT NOT NULL, step BIGINT NOT NULL)",
        ] {
            session.execute(sql).await?;
        }
        let kept = session
            .context()
            .table_provider("nearfar_cluster_state")
            .await?;
        if kept.schema().index_of("step").is_err() {
            // Nodes of protocol 1 count steps only.
            let sql = "ALTER TABLE nearfar_cluster_state ADD COLUMN step BIGINT NOT NULL DEFAULT 0";
            session.execute(sql).await?;
        }
        let sql = "SELECT version::text, step::text FROM nearfar_cluster_state";
        let state = match texts(&session, sql).await?.first() {
            Some(row) => state_of(row)?,
            None => {
                session
                    .execute("INSERT INTO nearfar_cluster_state VALUES (0, 0)")
                    .await?;
                State::default()
            }
        };
        *self.reached.lock() = state;
        *self.state.lock().await = state;
        self.read_tables(&session).await
    }

    /// Reads which tables there are, and where their rows are.
    pub(crate) async fn read_tables(&self, session: &Session) -> Result<(), EngineError> {
        let rows = texts(session, "SELECT name, home FROM nearfar_cluster_tables").await?;
        let mut tables = BTreeMap::new();
        for row in rows {
            let [name, home] = &row[..] else {
                return Err(failed("a table of the cluster without a home"));
            };
            let home: TableHome = serde_json::from_str(home)
                .map_err(|error| failed(format!("the home of `{name}` can't be read: {error}")))?;
            // What says that a table is there is written first, so that no table is without a home.
            let Ok(provider) = session.context().table_provider(name.as_str()).await else {
                continue;
            };
            let Some(table) = table_of(provider.as_ref()).cloned() else {
                continue;
            };
            tables.insert(name.clone(), LocalTable { home, table });
        }
        *self.tables.write() = tables;
        Ok(())
    }

    /// Takes a step that begins in the state that this node is in.
    ///
    /// # Errors
    /// Another state: this node has missed a step, or is ahead.
    pub(crate) fn check_step(&self, state: State, change: Change) -> Result<(), EngineError> {
        match state == change.from {
            true => Ok(()),
            false => Err(failed(format!(
                "node `{}` is at state {state} of the cluster, and not at {}: repeat the statement",
                self.name_of(self.me),
                change.from
            ))),
        }
    }
}

/// The state that a row of `nearfar_cluster_state` tells. SQL's integers have signs.
fn state_of(row: &[String]) -> Result<State, EngineError> {
    let number = |column: usize| {
        let text = row.get(column);
        let number = text.and_then(|text| text.parse::<i64>().ok());
        number.ok_or_else(|| failed("the table `nearfar_cluster_state` does not tell a state"))
    };
    Ok(State {
        version: number(0)?.cast_unsigned(),
        step: number(1)?.cast_unsigned(),
    })
}

/// The rows of a query as texts.
async fn texts(session: &Session, sql: &str) -> Result<Vec<Vec<String>>, EngineError> {
    let mut texts = Vec::new();
    for result in session.execute(sql).await? {
        let StatementResult::Rows(rows) = result else {
            continue;
        };
        for batch in rows.collect().await? {
            for row in 0..batch.num_rows() {
                let columns = batch.columns().iter();
                let columns = columns.map(|column| {
                    let text = arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8)?;
                    Ok(text.as_string::<i32>().value(row).to_owned())
                });
                texts.push(columns.collect::<Result<Vec<_>, EngineError>>()?);
            }
        }
    }
    Ok(texts)
}
