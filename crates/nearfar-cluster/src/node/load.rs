//! Loads: rows that are on this node in a transaction that nobody sees, until their coordinator has all nodes commit
//! them or forget them. A load whose coordinator is gone is given up.

use nearfar_sql::engine::{ClientRows, Session, TransactionState};
use nearfar_sql::error::EngineError;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::Node;
use super::write::{LEASE, LOCK_PATIENCE};
use crate::error::failed;
use crate::home::quoted;
use crate::messages::{Load, Request, fresh};

/// A load whose rows are all here and that has not been heard of for so long is given up: longer than its coordinator
/// waits for the right to commit it, and then holds that right.
const LOAD_AGE_MAX: Duration = Duration::from_secs(LOCK_PATIENCE.as_secs() + 2 * LEASE.as_secs());

/// A load of which this node is told rows.
pub struct Loading {
    /// The node that sends them.
    pub coordinator: usize,
    rows: Arc<LoadedRows>,
    /// The tables of which rows have begun to come: this node's share of one, and its copies of other shares.
    tables: BTreeSet<String>,
    /// How many of them there are going to be.
    tables_expected: usize,
    /// How many of the streams of rows, one for each table, have begun and not come to their end.
    coming: usize,
    /// When the coordinator was last heard of.
    heard: Instant,
}

impl Loading {
    fn is_complete(&self) -> bool {
        self.coming == 0 && self.tables.len() == self.tables_expected
    }

    fn is_orphan(&self) -> bool {
        self.coming == 0 && self.heard.elapsed() > LOAD_AGE_MAX
    }
}

/// The rows of a load, in a transaction that is rolled back where they are dropped before it is committed.
pub struct LoadedRows {
    node: Arc<Node>,
    session: OnceCell<Session>,
}

impl LoadedRows {
    /// The session in whose transaction they are.
    ///
    /// # Errors
    /// A transaction that can't begin.
    pub async fn session(&self) -> Result<&Session, EngineError> {
        let begun = self.session.get_or_try_init(|| async {
            let session = self.node.session();
            session.execute("BEGIN").await?;
            Result::<_, EngineError>::Ok(session)
        });
        begun.await
    }
}

impl Drop for LoadedRows {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        // The server is dropped within its runtime, or with it.
        if session.transaction_state() != TransactionState::Idle
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move { roll_back(&session).await });
        }
    }
}

/// Rows of a load that are coming, for one table. The load is forgotten where this is dropped before they are all here.
pub struct Receiving {
    load: u64,
    is_complete: bool,
    rows: Arc<LoadedRows>,
}

impl Receiving {
    /// As [`LoadedRows::session`].
    ///
    /// # Errors
    /// As there.
    pub async fn session(&self) -> Result<&Session, EngineError> {
        self.rows.session().await
    }

    /// Says that the rows are all here.
    ///
    /// # Errors
    /// A load that was aborted meanwhile.
    pub fn complete(mut self) -> Result<(), EngineError> {
        let node = &self.rows.node;
        let mut loads = node.loads.lock();
        let loading = loads.get_mut(&self.load);
        let loading = loading.ok_or_else(|| node.without_load())?;
        loading.coming -= 1;
        loading.heard = Instant::now();
        drop(loads);
        self.is_complete = true;
        Ok(())
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if !self.is_complete {
            // Those that are coming for other tables have the rows until they are dropped too.
            self.rows.node.loads.lock().remove(&self.load);
        }
    }
}

/// A load that this node sends to all nodes. They forget it where this is dropped before it may be committed.
pub struct Sent {
    node: Arc<Node>,
    load: u64,
    may_be_committed: bool,
}

impl Sent {
    /// One without rows.
    pub fn new(node: &Arc<Node>) -> Self {
        Self {
            node: Arc::clone(node),
            load: fresh(),
            may_be_committed: false,
        }
    }

    /// Its number.
    pub fn load(&self) -> u64 {
        self.load
    }

    /// Says that a node may have committed it, so that none is to forget it.
    pub fn may_be_committed(mut self) {
        self.may_be_committed = true;
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if self.may_be_committed {
            return;
        }
        let (node, load) = (Arc::clone(&self.node), self.load);
        runtime.spawn(async move {
            for link in node.links() {
                let _forgotten = link.ask(&Request::Abort { load }).await;
            }
        });
    }
}

impl Node {
    /// Begins to take rows of a load for a table, in the load's transaction, whose rows nobody sees.
    ///
    /// # Errors
    /// A node that is being stopped; rows that were sent already, or of a load that is complete.
    pub(crate) fn begin_load(self: &Arc<Self>, load: &Load) -> Result<Receiving, EngineError> {
        if self.is_draining.load(Ordering::Relaxed) {
            return Err(failed("it is being stopped and takes no more rows"));
        }
        self.check_table(load)?;
        let mut loads = self.loads.lock();
        let loading = loads.entry(load.load).or_insert_with(|| Loading {
            coordinator: load.coordinator,
            rows: Arc::new(LoadedRows {
                node: Arc::clone(self),
                session: OnceCell::new(),
            }),
            tables: BTreeSet::new(),
            tables_expected: load.tables,
            coming: 0,
            heard: Instant::now(),
        });
        if !loading.tables.insert(load.table.clone()) {
            return Err(failed("it has rows of this load already"));
        }
        loading.coming += 1;
        Ok(Receiving {
            load: load.load,
            is_complete: false,
            rows: Arc::clone(&loading.rows),
        })
    }

    /// Checks that there is the table that gets the rows of a load.
    ///
    /// # Errors
    /// A table that this node has not, most likely since it has missed a change.
    fn check_table(&self, load: &Load) -> Result<(), EngineError> {
        if self.kept(&load.table).is_none() {
            self.check_state(self.reached_state(), load.state)?;
        }
        Ok(())
    }

    /// Keeps the rows of a load for its commit, which is near.
    ///
    /// # Errors
    /// Rows that are not here, or not all.
    pub(super) fn keep_load(&self, load: u64) -> Result<(), EngineError> {
        let mut loads = self.loads.lock();
        let complete = loads.get_mut(&load).filter(|it| it.is_complete());
        complete.ok_or_else(|| self.without_load())?.heard = Instant::now();
        Ok(())
    }

    /// The rows of a load that is to be committed.
    ///
    /// # Errors
    /// Rows that are not here, or not all.
    pub(super) fn finish_load(&self, load: u64) -> Result<Arc<LoadedRows>, EngineError> {
        let loading = self.loads.lock().remove(&load);
        let complete = loading.filter(Loading::is_complete);
        Ok(complete.ok_or_else(|| self.without_load())?.rows)
    }

    fn without_load(&self) -> EngineError {
        failed(format!(
            "node `{}` has not the rows that were sent to it: it was started again, or has given them up; repeat \
             the statement",
            self.name_of(self.me)
        ))
    }

    /// Forgets the rows of a load, here: those that are still coming when the last of them has come.
    pub(crate) fn abort(&self, load: u64) {
        let forgotten = self.loads.lock().remove(&load);
        drop(forgotten);
    }

    /// Forgets the rows of loads whose coordinators are gone.
    pub(crate) fn give_up_orphans(&self) {
        let orphans = self.take_loads(Loading::is_orphan);
        if !orphans.is_empty() {
            tracing::warn!("loads are given up: their coordinators are not heard of");
        }
    }

    /// Forgets the rows of a node's loads.
    pub(super) fn give_up_loads_of(&self, coordinator: usize) {
        drop(self.take_loads(|loading| loading.coordinator == coordinator));
    }

    /// Removes loads, but for one that this node is ready to commit: the first node decides on that.
    fn take_loads(&self, is_over: impl Fn(&Loading) -> bool) -> Vec<Loading> {
        let mut loads = self.loads.lock();
        let over = loads.extract_if(|load, loading| is_over(loading) && !self.is_held(*load));
        over.map(|(_, loading)| loading).collect()
    }
}

/// Adds rows to a table of this node, in the session's transaction; how many they are.
///
/// # Errors
/// The first among the rows; a table that is not there.
pub async fn add_rows(
    session: &Session,
    table: &str,
    rows: ClientRows,
) -> Result<u64, EngineError> {
    let statements = session.read(&format!("COPY {} FROM STDIN", quoted(table)))?;
    session.copy_in(&Arc::default(), &statements[0], rows).await
}

pub(super) async fn roll_back(session: &Session) {
    if let Err(error) = session.execute("ROLLBACK").await {
        tracing::warn!(%error, "a load can't be rolled back");
    }
}
