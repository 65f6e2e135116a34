//! What the engine asks the cluster: how to read and fill its tables, and how to run definitions.

use async_trait::async_trait;
use datafusion::catalog::Session as Planning;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use nearfar_sql::engine::{CommandTag, Distribution, Session, TransactionState};
use nearfar_sql::error::EngineError;
use nearfar_sql::scan::{RoutedScan, StatementPin, TableRouter};
use nearfar_sql::sql::Statement;
use nearfar_table::table::Table;
use nearfar_table::transaction::Transaction;
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::definition::{Definition, check_clauses, created, table_name, without_comments};
use super::leaf::{ClusterScan, ScanParts, Share};
use super::pin::QueryPin;
use super::sink::insertion;
use super::stages;
use crate::error::{AskError, failed, failed_query};
use crate::home::{TableHome, is_copy};
use crate::messages::{Reply, Request, Step, TableDefinition, fresh};
use crate::node::Node;

/// How long a query waits for a change to come to its end on all nodes.
const CHANGE_PATIENCE: Duration = Duration::from_secs(5);
/// How long it waits on a node that is behind itself: no other one stands in for it, and a step whose coordinator is
/// gone, or a state that the others have, is taken within seconds.
const MENDING_PATIENCE: Duration = Duration::from_secs(30);

/// The cluster, as the engine of a node knows it.
#[derive(Debug)]
pub struct Router(pub Arc<Node>);

impl Router {
    /// One state of the nodes that take part in a query, kept for it.
    async fn pin(&self) -> Result<QueryPin> {
        let begun = Instant::now();
        loop {
            let mut pin = self.try_pin().await?;
            let Some(states) = pin.differing() else {
                return Ok(pin);
            };
            let is_known = self.0.behind.lock().as_ref() == Some(&states);
            // A change may be under way, which comes to its end.
            let is_changing = !is_known && begun.elapsed() < CHANGE_PATIENCE;
            let is_mending = pin.is_behind() && self.0.is_mending();
            let is_mending = is_mending && begun.elapsed() < MENDING_PATIENCE;
            if is_changing || is_mending {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
            *self.0.behind.lock() = Some(states);
            return match pin.leave_out_those_behind() {
                Ok(()) => Ok(pin),
                Err(states) => Err(AskError::Behind { states }.into()),
            };
        }
    }

    /// What each node keeps for a query.
    async fn try_pin(&self) -> Result<QueryPin> {
        let node = &self.0;
        let pin = fresh();
        let me = node.me();
        let request = Request::Pin {
            pin,
            coordinator: me,
        };
        // Before anybody is asked, so that what was kept is forgotten where the query is given up here.
        let mut kept = QueryPin {
            node: Arc::clone(node),
            pin,
            nodes: Vec::new(),
        };
        let asked = node.links().iter().enumerate().map(|(index, link)| {
            let request = &request;
            async move {
                let reply = match index == me {
                    true => link.granted(node.pin(pin, me).await)?,
                    false => link.ask_briefly(request).await?,
                };
                match reply {
                    Reply::Pinned(pinned) => Ok(pinned),
                    other => Err(link.unexpected(&other)),
                }
            }
        });
        kept.nodes = futures::future::join_all(asked).await;
        match &kept.nodes[me] {
            Ok(_) => Ok(kept),
            Err(error) => Err(error.clone().into()),
        }
    }

    /// The table of the cluster that a statement is about, whose only name is the word at `at`; none for one that
    /// names no table of the cluster.
    ///
    /// # Errors
    /// A statement that says more than that, of which a node would do a part.
    fn only_table(
        &self,
        words: &[String],
        at: usize,
    ) -> std::result::Result<Option<String>, EngineError> {
        let tables = words.iter().map(|word| table_name(word));
        let is_ours = |table: &String| self.0.home(table).is_some() || is_copy(table);
        if !tables.clone().skip(1).any(|table| is_ours(&table)) {
            return Ok(None);
        }
        let table = tables.clone().nth(at).filter(|_| words.len() == at + 1);
        table.filter(is_ours).map(Some).ok_or_else(|| {
            failed("drop and truncate the tables of a cluster one by one, by their names alone")
        })
    }

    /// The state that all scans of a statement read.
    async fn statement_pin(&self, state: &dyn Planning) -> Result<Arc<QueryPin>> {
        let Some(cell) = state.config().get_extension::<StatementPin>() else {
            return Ok(Arc::new(self.pin().await?));
        };
        let pinned = cell.0.get_or_try_init(|| async {
            let pin: Arc<dyn Any + Send + Sync> = Arc::new(self.pin().await?);
            Result::<_>::Ok(pin)
        });
        let pinned = Arc::clone(pinned.await?).downcast::<QueryPin>();
        pinned.map_err(|_| failed_query("a pin of another kind"))
    }
}

#[async_trait]
impl TableRouter for Router {
    async fn scan(
        &self,
        state: &dyn Planning,
        table: &Arc<Table>,
        scan: RoutedScan,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let node = &self.0;
        if self.is_alone() {
            return Ok(None);
        }
        let Some(home) = node.home(table.name()) else {
            return Ok(None);
        };
        let pinned = self.statement_pin(state).await?;
        let shares = match &home {
            TableHome::Replicated => vec![Share::Here],
            TableHome::Distributed { copies, .. } => {
                let share = |share| match pinned.reader(share, *copies) {
                    Ok(reader) => Ok(Share::Of { share, reader }),
                    Err(missing) => Err(missing.without_rows_of(table.name(), *copies)),
                };
                (0..node.nodes()).map(share).collect::<Result<_>>()?
            }
        };
        let parts = ScanParts {
            table: table.name().to_owned(),
            scan,
            pin: pinned.pin,
            shares,
            width: state.config().target_partitions(),
            task: None,
        };
        let mut leaf = ClusterScan::try_new(node, parts)?;
        leaf.rows = pinned.rows(table.name(), &home);
        leaf.pinned = Some(pinned);
        Ok(Some(Arc::new(leaf)))
    }

    fn insert(
        &self,
        state: &dyn Planning,
        table: &Arc<Table>,
        input: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if is_copy(table.name()) {
            return Err(failed_query(format!(
                "`{}` has copies of other nodes' rows: add rows to the table itself",
                table.name()
            )));
        }
        let Some(home) = self.0.home(table.name()) else {
            return Ok(None);
        };
        let transaction = state.config().get_extension::<Transaction>();
        if transaction.is_some_and(|transaction| transaction.is_explicit()) {
            return Err(failed_query(
                "rows are added to tables of a cluster by statements of their own: end the transaction first",
            ));
        }
        match self.is_alone() {
            true => Ok(None),
            false => insertion(&self.0, table, &home, input).map(Some),
        }
    }
}

/// What a statement asks for.
enum Asked {
    /// A table that is made, dropped or emptied.
    Change(Definition),
    /// Nothing that is left to do.
    Done(CommandTag),
    /// Something else.
    Another,
}

impl Router {
    /// What a `CREATE TABLE` asks for.
    fn asked_table(
        &self,
        statement: &Statement,
        words: &[String],
        upper: &[&str],
    ) -> Result<Asked, EngineError> {
        let Some(clause) = statement.distribution() else {
            return Err(failed(
                "a table of a cluster says where its rows are: end CREATE TABLE with DISTRIBUTED BY (columns) or \
                 REPLICATED, or create a TEMPORARY table on this node",
            ));
        };
        if words.iter().any(|word| word.eq_ignore_ascii_case("select")) {
            return Err(failed(
                "create the table first, then add the rows by INSERT INTO … SELECT",
            ));
        }
        check_clauses(words)?;
        let table = created(words, upper)?;
        if self.0.home(&table).is_some() {
            return match upper[2] {
                "IF" => Ok(Asked::Done(done("CREATE TABLE"))),
                _ => Err(failed(format!("table `{table}` exists already"))),
            };
        }
        let home = TableHome::from(clause);
        if home.tables() > self.0.nodes() {
            return Err(failed(format!(
                "COPIES {}: the cluster has {} nodes, and each has a row once",
                home.tables(),
                self.0.nodes()
            )));
        }
        definition("CREATE TABLE", table, Some(home)).map(Asked::Change)
    }

    /// What a statement asks for, by its words and the first of them in upper case.
    fn asked(
        &self,
        statement: &Statement,
        words: &[String],
        upper: &[&str],
    ) -> Result<Asked, EngineError> {
        let (command, table) = match upper {
            ["CREATE", "TABLE", ..] => return self.asked_table(statement, words, upper),
            ["DROP", "TABLE", ..] => {
                let at = if upper.get(2) == Some(&"IF") { 4 } else { 2 };
                match self.only_table(words, at)? {
                    Some(table) => ("DROP TABLE", table),
                    None => return Ok(Asked::Another),
                }
            }
            ["TRUNCATE", ..] => {
                let at = if upper.get(1) == Some(&"TABLE") { 2 } else { 1 };
                match self.only_table(words, at)? {
                    Some(table) => ("TRUNCATE TABLE", table),
                    None => return Ok(Asked::Another),
                }
            }
            ["PREPARE", ..]
                if words
                    .iter()
                    .any(|word| word.eq_ignore_ascii_case("truncate")) =>
            {
                return Err(failed("TRUNCATE can't be prepared in a cluster"));
            }
            ["CREATE", "TEMP" | "TEMPORARY", ..] => return Ok(Asked::Another),
            // Of this node's tables, which have the same rows behind it.
            ["CALL", call, ..] if call.starts_with("NEARFAR.MERGE") => return Ok(Asked::Another),
            [
                "CREATE" | "ALTER" | "DROP" | "VACUUM" | "CALL" | "MERGE" | "UPDATE" | "DELETE",
                ..,
            ] => {
                return Err(failed(format!(
                    "{} is not known in a cluster yet; it has CREATE, DROP and TRUNCATE TABLE, INSERT, COPY and \
                     queries",
                    upper.iter().take(2).copied().collect::<Vec<_>>().join(" ")
                )));
            }
            _ => return Ok(Asked::Another),
        };
        definition(command, table, None).map(Asked::Change)
    }
}

/// What a command does to a table.
///
/// # Errors
/// The name of a table of copies.
fn definition(
    command: &'static str,
    table: String,
    home: Option<TableHome>,
) -> Result<Definition, EngineError> {
    match is_copy(&table) {
        true => Err(failed(format!(
            "`{table}` is a name for copies of other nodes' rows: {command} the table itself"
        ))),
        false => Ok(Definition {
            command,
            table,
            home,
        }),
    }
}

#[async_trait]
impl Distribution for Router {
    fn is_alone(&self) -> bool {
        self.0.nodes() == 1
    }

    fn distributed(&self, builder: SessionStateBuilder) -> SessionStateBuilder {
        let failed = match stages::distributed(&self.0, builder) {
            Ok(builder) => return builder,
            Err(error) => error,
        };
        // It has worked when the node started.
        let builder = SessionStateBuilder::new().with_default_features();
        stages::refusing(builder, failed.to_string())
    }

    fn metrics(&self) -> String {
        self.0.metrics()
    }

    async fn run(
        &self,
        session: &Session,
        statement: &Statement,
    ) -> Result<Option<CommandTag>, EngineError> {
        let text = without_comments(statement.text());
        let words: Vec<String> = text
            .split(|c: char| !(c.is_alphanumeric() || "_.\"".contains(c)))
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        let upper: Vec<String> = words
            .iter()
            .take(5)
            .map(|word| word.to_uppercase())
            .collect();
        let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
        let definition = match self.asked(statement, &words, &upper)? {
            Asked::Change(definition) => definition,
            Asked::Done(tag) => return Ok(Some(tag)),
            Asked::Another => return Ok(None),
        };
        if session.transaction_state() != TransactionState::Idle {
            return Err(failed(format!(
                "{} can't be part of a transaction in a cluster",
                definition.command
            )));
        }
        if session.options().is_read_only {
            return Err(failed(format!(
                "this session may only read: {} is refused",
                definition.command
            )));
        }
        let gate = session.gate();
        let present = || self.0.home(&definition.table);
        let home = definition.home.clone().or_else(present);
        let tables = home.map_or(1, |home| home.tables());
        let sql = definition.statements(statement.text(), tables)?;
        let step = Step::Define(TableDefinition {
            since: 0,
            table: definition.table,
            home: definition.home,
            sql,
        });
        self.0.step(None, gate, step).await?;
        Ok(Some(done(definition.command)))
    }
}

fn done(command: &'static str) -> CommandTag {
    CommandTag {
        command,
        rows: None,
    }
}
