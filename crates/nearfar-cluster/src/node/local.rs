//! What of the cluster's tables is on this node, and the states of it that queries read.

use arrow::array::AsArray;
use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use nearfar_sql::engine::{Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_sql::scan::{RoutedScan, local_scan, table_of};
use nearfar_table::table::{Snapshot, Table};
use nearfar_table::transaction::DatabaseSnapshot;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Node;
use crate::error::{failed, failed_query};
use crate::home::{TableHome, kept_in};
use crate::messages::{Hello, PinnedState, Reply, State, TableDefinition};

/// A pin whose query has not been heard of for so long is given up: its coordinator is gone.
const PIN_AGE_MAX: Duration = Duration::from_secs(3600);

/// A table of the cluster, as it is on this node.
#[derive(Debug, Clone)]
pub struct LocalTable {
    /// Where its rows are.
    pub home: TableHome,
    /// The statements that make it; none where a version made it that did not write them down.
    pub definition: Vec<String>,
    /// The random number of the step by which it was made, or emptied last.
    pub since: u64,
    /// Those that are here because this is their node.
    pub table: Arc<Table>,
    /// Copies of those of the nodes before this one, the next one first.
    pub copies: Vec<Arc<Table>>,
}

impl LocalTable {
    /// All that this node keeps of it.
    fn all(&self) -> impl Iterator<Item = &Arc<Table>> {
        std::iter::once(&self.table).chain(&self.copies)
    }

    /// What this node keeps with a rank: its own rows with 0, copies with others.
    ///
    /// # Errors
    /// A rank that the table's number of copies does not reach.
    pub fn kept(&self, rank: usize) -> Result<&Arc<Table>> {
        let kept = match rank {
            0 => Some(&self.table),
            rank => self.copies.get(rank - 1),
        };
        kept.ok_or_else(|| {
            failed_query(format!(
                "there is no copy {rank} of `{}` on this node",
                self.table.name()
            ))
        })
    }
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
        let kept = tables.values().flat_map(LocalTable::all);
        let rows = kept.map(|table| {
            let rows = snapshot.table(table).map_or(0, Snapshot::rows);
            (table.name().to_owned(), rows as u64)
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
        Reply::Pinned(PinnedState {
            life: self.life,
            state: *state,
            rows,
        })
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
            self.give_up_loads_of(coordinator);
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
            "CREATE TABLE IF NOT EXISTS nearfar_cluster_tables \
             (name TEXT NOT NULL, home TEXT NOT NULL, definition TEXT NOT NULL DEFAULT '[]', \
             since BIGINT NOT NULL DEFAULT 0)",
            "CREATE TABLE IF NOT EXISTS nearfar_cluster_state (version BIGINT NOT NULL, step BIGINT NOT NULL)",
        ] {
            session.execute(sql).await?;
        }
        // Nodes of protocol 1 count steps only, those of protocol 2 do not write down how tables are made, and those of
        // protocol 3 not since when they have been what they are.
        for (table, column, definition) in [
            ("nearfar_cluster_state", "step", "BIGINT NOT NULL DEFAULT 0"),
            (
                "nearfar_cluster_tables",
                "definition",
                "TEXT NOT NULL DEFAULT '[]'",
            ),
            (
                "nearfar_cluster_tables",
                "since",
                "BIGINT NOT NULL DEFAULT 0",
            ),
        ] {
            let kept = session.context().table_provider(table).await?;
            if kept.schema().index_of(column).is_err() {
                let sql = format!("ALTER TABLE {table} ADD COLUMN {column} {definition}");
                session.execute(&sql).await?;
            }
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
        let sql = "SELECT name, home, definition, since::text FROM nearfar_cluster_tables";
        let rows = texts(session, sql).await?;
        let mut tables = BTreeMap::new();
        for row in rows {
            let [name, home, definition, since] = &row[..] else {
                return Err(failed("a table of the cluster without a home"));
            };
            let home: TableHome = serde_json::from_str(home)
                .map_err(|error| failed(format!("the home of `{name}` can't be read: {error}")))?;
            let definition = serde_json::from_str(definition)
                .map_err(|error| failed(format!("how `{name}` is made can't be read: {error}")))?;
            let since: i64 = since
                .parse()
                .map_err(|_| failed(format!("it is not known since when `{name}` is")))?;
            let mut kept = Vec::new();
            for rank in 0..home.tables() {
                let name = TableReference::bare(kept_in(name, rank));
                let found = session.context().table_provider(name).await;
                kept.extend(
                    found
                        .ok()
                        .and_then(|found| table_of(found.as_ref()).cloned()),
                );
            }
            // What says that a table is there may be written before the table.
            if kept.len() < home.tables() {
                continue;
            }
            let table = kept.remove(0);
            let copies = kept;
            let local = LocalTable {
                home,
                definition,
                since: since.cast_unsigned(),
                table,
                copies,
            };
            tables.insert(name.clone(), local);
        }
        *self.tables.write() = tables;
        Ok(())
    }

    /// How the cluster's tables are made.
    pub(crate) fn definitions(&self) -> Vec<TableDefinition> {
        let tables = self.tables.read();
        let definitions = tables.iter().map(|(name, local)| TableDefinition {
            table: name.clone(),
            home: Some(local.home.clone()),
            sql: local.definition.clone(),
            since: local.since,
        });
        definitions.collect()
    }

    /// The table of this node that is called so here, if it keeps rows of the cluster.
    pub(super) fn kept(&self, name: &str) -> Option<Arc<Table>> {
        let tables = self.tables.read();
        let mut kept = tables.values().flat_map(LocalTable::all);
        kept.find(|kept| kept.name() == name).cloned()
    }

    /// The scan of all of a table of this node that is called so here, in the state that a pin keeps.
    ///
    /// # Errors
    /// A table or a pin that is not there.
    pub(crate) fn kept_in_pin(&self, table: &str, pin: u64) -> Result<Arc<dyn ExecutionPlan>> {
        let pinned = self.pinned(pin)?;
        let of_pin = self.kept(table).and_then(|table| {
            let snapshot = pinned.snapshot.table(&table).cloned();
            Some((table, snapshot?))
        });
        let (table, snapshot) =
            of_pin.ok_or_else(|| failed_query(format!("there is no table `{table}` here")))?;
        let scan = RoutedScan {
            projection: (0..table.schema().fields().len()).collect(),
            filters: Vec::new(),
            fetch: None,
        };
        local_scan(&table, snapshot, scan, 1, self.engine.costs())
    }

    /// The last state that this node has reached.
    pub(crate) fn reached_state(&self) -> State {
        *self.reached.lock()
    }

    /// Checks that this node, which is in the state `own`, is in that of a coordinator.
    ///
    /// # Errors
    /// Another state: this node has missed a step, or is ahead.
    pub(crate) fn check_state(&self, own: State, expected: State) -> Result<(), EngineError> {
        match own == expected {
            true => Ok(()),
            false => Err(failed(format!(
                "node `{}` is at state {own} of the cluster, and not at {expected}: one of them has missed a change, \
                 or the cluster was changed meanwhile; repeat the statement",
                self.name_of(self.me)
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
