//! Changes: rows that are added, and tables that are made, on several nodes or on none.
//!
//! A change is prepared on all nodes, which nobody sees. Then its coordinator asks the first node for the right
//! to change the cluster, makes sure that all nodes are in one state and hold what was prepared, and has each of them
//! take the step to the next. The first node takes it first: a coordinator that was held up for longer than its right
//! lasts, so that another one has changed the cluster, is refused there before others hear of its step. States are
//! told apart by a number that each coordinator draws, so that two steps are never taken for one.
//!
//! A query reads nodes of one state only, and does without those that are behind where others have copies of their
//! rows. A node that is lost during the step takes it later ([`super::held`]), or gets the state that it leads to from
//! the others ([`super::catch_up`]). Queries never read half a change.

use datafusion::common::TableReference;
use nearfar_sql::engine::Session;
use nearfar_sql::error::EngineError;
use nearfar_table::transaction::CommitGate;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Node;
use super::load::{Sent, roll_back};
use crate::error::{AskError, failed};
use crate::home::TableHome;
use crate::messages::{Change, Reply, Request, Step, TableDefinition, fresh};

/// Who may change the cluster loses the right after so long: all steps take less, or their coordinator is gone.
pub const LEASE: Duration = Duration::from_secs(20);
/// How long others wait for it.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(60);

/// The right to change the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    ticket: u64,
    since: Instant,
}

/// The right to change the cluster, as its coordinator has it. Dropped, it is given back: where that fails, it is free
/// again after a while.
struct Right {
    node: Arc<Node>,
    ticket: u64,
}

impl Drop for Right {
    fn drop(&mut self) {
        let (node, ticket) = (Arc::clone(&self.node), self.ticket);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _given_back = node.link(0).ask(&Request::Unlock { ticket }).await;
            });
        }
    }
}

impl Node {
    /// Gives the right to change the cluster away, when it is free.
    pub(crate) async fn lend(&self) -> Result<Reply, EngineError> {
        let begun = Instant::now();
        while begun.elapsed() < LOCK_PATIENCE {
            {
                let mut writer = self.writer.lock();
                if writer.is_none_or(|lease| lease.since.elapsed() > LEASE) {
                    let ticket = fresh();
                    *writer = Some(Lease {
                        ticket,
                        since: Instant::now(),
                    });
                    return Ok(Reply::Locked { ticket });
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Err(failed(
            "the cluster is being changed by others all the time: try again",
        ))
    }

    pub(crate) fn take_back(&self, ticket: u64) {
        let mut writer = self.writer.lock();
        if writer.is_some_and(|lease| lease.ticket == ticket) {
            *writer = None;
        }
    }

    /// Has every node take one step, whose rows were `sent` before, if it has some. A step that has passed `gate` goes on
    /// where the statement is given up.
    ///
    /// # Errors
    /// A node that does not answer or refuses, before the step or in it; a gate that is closed.
    pub(crate) async fn step(
        self: &Arc<Self>,
        sent: Option<Sent>,
        gate: &CommitGate,
        step: Step,
    ) -> Result<(), EngineError> {
        let first = self.link(0);
        let right = match first.ask_patiently(&Request::Lock).await? {
            Reply::Locked { ticket } => Right {
                node: Arc::clone(self),
                ticket,
            },
            other => return Err(first.unexpected(&other).into()),
        };
        let change = self.prepare(step, gate).await?;
        let stepping = tokio::spawn(async move {
            let taken = right.node.take_everywhere(change, sent).await;
            drop(right);
            taken
        });
        stepping
            .await
            .unwrap_or_else(|error| Err(failed(error.to_string())))
    }

    /// Makes all nodes ready for a step, the first one before the others.
    async fn prepare(&self, step: Step, gate: &CommitGate) -> Result<Change, EngineError> {
        let own = self.hello().await;
        let asked = self.links().iter().map(|link| link.hello(&own));
        let hellos = futures::future::try_join_all(asked).await?;
        if let Some(other) = hellos.iter().find(|other| other.state != own.state) {
            return Err(failed(format!(
                "node `{}` is at state {} of the cluster and `{}` at {}: one of them has missed a change; wait \
                 until it has caught up, give it its data directory of then, or make the tables again",
                other.node, other.state, own.node, own.state
            )));
        }
        let change = Change::of(own.state);
        let hold = Request::Hold {
            step,
            change,
            coordinator: self.me,
        };
        self.link(0).ask(&hold).await?;
        let others = self.links().iter().skip(1).map(|link| link.ask(&hold));
        futures::future::try_join_all(others).await?;
        gate.pass()?;
        Ok(change)
    }

    /// Has every node take a step, the first one before the others. Rows that were sent are forgotten where the first
    /// one refuses; from then on, nodes that did not answer may still take it.
    async fn take_everywhere(&self, change: Change, sent: Option<Sent>) -> Result<(), EngineError> {
        let doubt = |what: String| {
            failed(format!(
                "the change is in doubt: {what}; queries that need such a node are refused until it has taken it, or is \
                 known not to"
            ))
        };
        let request = &Request::Take { change };
        let (first, others) = (self.link(0), self.links().iter().skip(1));
        let asked = first.ask_patiently(request).await;
        if let (Ok(_) | Err(AskError::Silent { .. }), Some(sent)) = (&asked, sent) {
            sent.may_be_committed();
        }
        match asked {
            Ok(_) => {}
            Err(lost @ AskError::Silent { .. }) => {
                let name = first.name();
                return Err(doubt(format!(
                    "node `{name}` ({lost}) may have taken it, and no other has"
                )));
            }
            Err(refused) => return Err(refused.into()),
        }
        let steps = others.clone().map(|link| link.ask_patiently(request));
        let steps = futures::future::join_all(steps).await;
        let missed: Vec<String> = others
            .zip(steps)
            .filter_map(|(link, step)| Some(format!("`{}` ({})", link.name(), step.err()?)))
            .collect();
        match &missed[..] {
            [] => Ok(()),
            missed => Err(doubt(format!(
                "node {} did not take it, and others did",
                missed.join(" and ")
            ))),
        }
    }

    /// Makes, drops or empties a table, here: whole, or not at all.
    pub(super) async fn define(
        &self,
        definition: &TableDefinition,
        change: Change,
    ) -> Result<(), EngineError> {
        let session = self.session();
        session.execute("BEGIN").await?;
        let since = change.to.step;
        if let Err(error) = self.define_in(&session, definition, since).await {
            roll_back(&session).await;
            return Err(error);
        }
        self.write_state(&session, change).await?;
        session.execute("COMMIT").await?;
        self.read_tables(&session).await
    }

    /// Runs the statements of a definition in a transaction, and writes down what they make.
    async fn define_in(
        &self,
        session: &Session,
        definition: &TableDefinition,
        since: u64,
    ) -> Result<(), EngineError> {
        for sql in &definition.sql {
            session.execute(sql).await?;
        }
        if let Some(TableHome::Distributed { columns, .. }) = &definition.home {
            let table = &definition.table;
            let made = session
                .context()
                .table_provider(TableReference::bare(table.as_str()));
            let made = made.await?;
            let is_there = |column: &String| made.schema().index_of(column).is_ok();
            if let Some(missing) = columns.iter().find(|column| !is_there(column)) {
                return Err(failed(format!(
                    "table `{table}` has no column `{missing}` to be distributed by"
                )));
            }
        }
        self.write_definition(session, definition, since).await
    }

    /// Writes down where the rows of a table are, how it is made, and since when it has been what it is.
    pub(super) async fn write_definition(
        &self,
        session: &Session,
        definition: &TableDefinition,
        since: u64,
    ) -> Result<(), EngineError> {
        let since = since.cast_signed();
        let Some(home) = &definition.home else {
            let name = definition.table.replace('\'', "''");
            let emptied =
                format!("UPDATE nearfar_cluster_tables SET since = {since} WHERE name = '{name}'");
            return session.execute(&emptied).await.map(drop);
        };
        let wrong = |error: serde_json::Error| failed(error.to_string());
        let home = serde_json::to_string(home).map_err(wrong)?;
        let made = serde_json::to_string(&definition.sql).map_err(wrong)?;
        let [name, home, made] =
            [&definition.table, &home, &made].map(|text| text.replace('\'', "''"));
        for sql in [
            format!("DELETE FROM nearfar_cluster_tables WHERE name = '{name}'"),
            format!(
                "INSERT INTO nearfar_cluster_tables (name, home, definition, since) \
                 VALUES ('{name}', '{home}', '{made}', {since})"
            ),
        ] {
            session.execute(&sql).await?;
        }
        Ok(())
    }

    pub(super) async fn write_state(
        &self,
        session: &Session,
        change: Change,
    ) -> Result<(), EngineError> {
        let sql = format!(
            "UPDATE nearfar_cluster_state SET version = {}, step = {}",
            change.to.version,
            change.to.step.cast_signed()
        );
        session.execute(&sql).await.map(drop)
    }

    /// Makes the rows of a load seen, here.
    pub(super) async fn commit(&self, load: u64, change: Change) -> Result<(), EngineError> {
        let rows = self.finish_load(load)?;
        let session = rows.session().await?;
        self.write_state(session, change).await?;
        session.execute("COMMIT").await.map(drop)
    }
}
