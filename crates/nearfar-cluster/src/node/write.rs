//! Changes: rows that are added, and tables that are made, on several nodes or on none.
//!
//! A change is prepared on all nodes, which nobody sees. Then its coordinator asks the first node for the right
//! to change the cluster, makes sure that all nodes are in one state, and has each of them take the step to the
//! next. A query reads nodes of one state only: where a node is lost during the step, queries over divided tables
//! are refused until it has taken it, or its tables were made again. They never read half a change.

use nearfar_sql::engine::Session;
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::Statement;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Node;
use crate::error::failed;
use crate::home::TableHome;
use crate::messages::{Change, Reply, Request};

/// Who may change the cluster loses the right after so long: all steps take less, or their coordinator is gone.
const LEASE: Duration = Duration::from_secs(20);
/// How long others wait for it.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);

/// The right to change the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    ticket: u64,
    since: Instant,
}

impl Node {
    /// Gives the right to change the cluster away, when it is free.
    pub(crate) async fn lend(&self) -> Result<Reply, EngineError> {
        let begun = Instant::now();
        while begun.elapsed() < LOCK_PATIENCE {
            {
                let mut writer = self.writer.lock();
                if writer.is_none_or(|lease| lease.since.elapsed() > LEASE) {
                    let ticket = self.fresh();
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

    /// Has every node take one step, which `request` is for the given change.
    ///
    /// # Errors
    /// A node that does not answer or refuses, before the step or in it.
    pub(crate) async fn step(
        &self,
        request: impl Fn(Change) -> Request,
    ) -> Result<(), EngineError> {
        let first = self.link(0);
        let Reply::Locked { ticket } = first.ask_patiently(&Request::Lock).await? else {
            return Err(failed(format!("node `{}` gives no lock", first.name())));
        };
        let stepped = self.step_locked(request).await;
        // Who holds it and is gone loses it after a while.
        let unlocked = first.ask(&Request::Unlock { ticket }).await;
        stepped?;
        unlocked.map(drop)
    }

    async fn step_locked(&self, request: impl Fn(Change) -> Request) -> Result<(), EngineError> {
        let own = self.hello().await;
        let asked = self.links().iter().map(|link| link.hello(&own));
        let hellos = futures::future::try_join_all(asked).await?;
        if let Some(other) = hellos.iter().find(|other| other.version != own.version) {
            return Err(failed(format!(
                "node `{}` is at state {} of the cluster and `{}` at {}: one of them has missed a change; \
                 give it its data directory of then, or make the tables again",
                other.node, other.version, own.node, own.version
            )));
        }
        let change = Change {
            from: own.version,
            to: own.version + 1,
        };
        let request = request(change);
        let steps = self.links().iter().map(|link| link.ask_patiently(&request));
        let mut missed = Vec::new();
        for (link, step) in self
            .links()
            .iter()
            .zip(futures::future::join_all(steps).await)
        {
            if let Err(error) = step {
                missed.push(format!("`{}` ({error})", link.name()));
            }
        }
        match &missed[..] {
            [] => Ok(()),
            missed if missed.len() == self.nodes() => Err(failed(missed.join(" and "))),
            missed => Err(failed(format!(
                "the change is in doubt: node {} did not take it, and others did; queries over divided tables \
                 are refused until all nodes are in one state",
                missed.join(" and ")
            ))),
        }
    }

    /// Takes the step that makes, drops or empties a table, here.
    pub(crate) async fn define(
        &self,
        sql: &str,
        table: &str,
        home: Option<&TableHome>,
        change: Change,
    ) -> Result<Reply, EngineError> {
        let mut version = self.version.lock().await;
        self.check_step(*version, change)?;
        let session = self.session();
        let quoted = table.replace('\'', "''");
        if let Some(home) = home {
            let home = serde_json::to_string(home).map_err(|error| failed(error.to_string()))?;
            let home = home.replace('\'', "''");
            let forget = format!("DELETE FROM nearfar_cluster_tables WHERE name = '{quoted}'");
            session.execute(&forget).await?;
            let known = format!("INSERT INTO nearfar_cluster_tables VALUES ('{quoted}', '{home}')");
            session.execute(&known).await?;
        }
        session.execute(sql).await?;
        if let Some(TableHome::Distributed { columns }) = home {
            let made = session.context().table_provider(table).await?;
            let missing = columns
                .iter()
                .find(|column| made.schema().index_of(column).is_err());
            if let Some(missing) = missing {
                let name = table.replace('"', "\"\"");
                session.execute(&format!("DROP TABLE \"{name}\"")).await?;
                return Err(failed(format!(
                    "table `{table}` has no column `{missing}` to be distributed by"
                )));
            }
        }
        self.set_version(&session, change).await?;
        self.read_tables(&session).await?;
        *version = change.to;
        self.reached.store(change.to, Ordering::Release);
        Ok(Reply::Done)
    }

    async fn set_version(&self, session: &Session, change: Change) -> Result<(), EngineError> {
        let sql = format!("UPDATE nearfar_cluster_state SET version = {}", change.to);
        session.execute(&sql).await.map(drop)
    }

    /// Makes the rows of a load seen, here.
    pub(crate) async fn commit(&self, load: u64, change: Change) -> Result<Reply, EngineError> {
        let mut version = self.version.lock().await;
        self.check_step(*version, change)?;
        let loaded = self.loads.lock().remove(&load);
        let session = match loaded {
            Some(session) => session,
            None => {
                let session = self.session();
                session.execute("BEGIN").await?;
                session
            }
        };
        self.set_version(&session, change).await?;
        session.execute("COMMIT").await?;
        *version = change.to;
        self.reached.store(change.to, Ordering::Release);
        Ok(Reply::Done)
    }

    /// Forgets the rows of a load, here.
    pub(crate) async fn abort(&self, load: u64) {
        let loaded = self.loads.lock().remove(&load);
        if let Some(session) = loaded
            && let Err(error) = session.execute("ROLLBACK").await
        {
            tracing::warn!(%error, "a load can't be rolled back");
        }
    }

    /// The session of a load, in whose transaction rows are added that nobody sees.
    pub(crate) async fn load(&self, load: u64) -> Result<Session, EngineError> {
        self.refuse_draining()?;
        let known = self.loads.lock().get(&load).cloned();
        if let Some(session) = known {
            return Ok(session);
        }
        let session = self.session();
        session.execute("BEGIN").await?;
        self.loads.lock().insert(load, session.clone());
        Ok(session)
    }

    /// Runs a definition on all nodes.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub(crate) async fn define_everywhere(
        self: &Arc<Self>,
        statement: &Statement,
        table: &str,
        home: Option<TableHome>,
    ) -> Result<(), EngineError> {
        self.step(|change| Request::Define {
            sql: statement.text().to_owned(),
            table: table.to_owned(),
            home: home.clone(),
            change,
        })
        .await
    }
}
