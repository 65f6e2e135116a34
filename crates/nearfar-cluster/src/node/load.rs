//! Loads: rows that are on this node in a transaction that nobody sees, until their coordinator has all nodes commit
//! them or forget them. A load whose coordinator is gone is given up.

use nearfar_sql::engine::Session;
use nearfar_sql::error::EngineError;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Node;
use super::write::{LEASE, LOCK_PATIENCE};
use crate::error::failed;
use crate::messages::{Load, Reply, Request, fresh};

/// A load whose rows are all here and that has not been heard of for so long is given up: longer than its coordinator
/// waits for the right to commit it, and then holds that right.
const LOAD_AGE_MAX: Duration = Duration::from_secs(LOCK_PATIENCE.as_secs() + 2 * LEASE.as_secs());

/// A load of which this node is told rows.
pub struct Loading {
    /// The node that sends them.
    pub coordinator: usize,
    /// The rows, once they are all here. Until then only [`Receiving`] has their transaction.
    complete: Option<Complete>,
}

/// All rows of a load.
struct Complete {
    /// In whose transaction they are.
    session: Session,
    /// When the coordinator was last heard of.
    heard: Instant,
}

impl Loading {
    fn is_orphan(&self) -> bool {
        let complete = self.complete.as_ref();
        complete.is_some_and(|complete| complete.heard.elapsed() > LOAD_AGE_MAX)
    }
}

/// A load whose rows are coming. They are forgotten where this is dropped before they are all here.
pub struct Receiving {
    node: Arc<Node>,
    load: u64,
    is_complete: bool,
    /// In whose transaction they go.
    pub session: Session,
}

impl Receiving {
    /// Says that the rows are all here.
    ///
    /// # Errors
    /// A load that was aborted meanwhile.
    pub fn complete(mut self) -> Result<(), EngineError> {
        let mut loads = self.node.loads.lock();
        let loading = loads.get_mut(&self.load);
        let loading = loading.ok_or_else(|| self.node.without_load())?;
        loading.complete = Some(Complete {
            session: self.session.clone(),
            heard: Instant::now(),
        });
        drop(loads);
        self.is_complete = true;
        Ok(())
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        self.node.loads.lock().remove(&self.load);
        let session = self.session.clone();
        // The server is dropped within its runtime, or with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { roll_back(&session).await });
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
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
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
    /// Begins a load, in whose transaction rows are added that nobody sees.
    ///
    /// # Errors
    /// A node that is being stopped; a load that has begun already.
    pub(crate) async fn begin_load(
        self: &Arc<Self>,
        load: &Load,
    ) -> Result<Receiving, EngineError> {
        if self.is_draining.load(Ordering::Relaxed) {
            return Err(failed("it is being stopped and takes no more rows"));
        }
        match self.loads.lock().entry(load.load) {
            Entry::Occupied(_) => return Err(failed("it has rows of this load already")),
            Entry::Vacant(free) => free.insert(Loading {
                coordinator: load.coordinator,
                complete: None,
            }),
        };
        let receiving = Receiving {
            node: Arc::clone(self),
            load: load.load,
            is_complete: false,
            session: self.session(),
        };
        receiving.session.execute("BEGIN").await?;
        Ok(receiving)
    }

    /// Keeps the rows of a load for its commit, which is near.
    ///
    /// # Errors
    /// Rows that are not here, or not all.
    pub(crate) fn hold(&self, load: u64) -> Result<Reply, EngineError> {
        let mut loads = self.loads.lock();
        let loading = loads.get_mut(&load);
        let complete = loading.and_then(|loading| loading.complete.as_mut());
        complete.ok_or_else(|| self.without_load())?.heard = Instant::now();
        Ok(Reply::Done)
    }

    /// The session of a load that is to be committed.
    ///
    /// # Errors
    /// Rows that are not here, or not all.
    pub(super) fn finish_load(&self, load: u64) -> Result<Session, EngineError> {
        let loading = self.loads.lock().remove(&load);
        let complete = loading.and_then(|loading| loading.complete);
        let complete = complete.ok_or_else(|| self.without_load())?;
        Ok(complete.session)
    }

    fn without_load(&self) -> EngineError {
        failed(format!(
            "node `{}` has not the rows that were sent to it: it was started again, or has given them up; repeat \
             the statement",
            self.name_of(self.me)
        ))
    }

    /// Forgets the rows of a load, here: those that are still coming when the last of them has come.
    pub(crate) async fn abort(&self, load: u64) {
        let loading = self.loads.lock().remove(&load);
        if let Some(complete) = loading.and_then(|loading| loading.complete) {
            roll_back(&complete.session).await;
        }
    }

    /// Forgets the rows of loads whose coordinators are gone.
    pub(crate) async fn give_up_orphans(&self) {
        for session in self.take_loads(Loading::is_orphan) {
            tracing::warn!("a load is given up: its coordinator is not heard of");
            roll_back(&session).await;
        }
    }

    /// Forgets the rows of a node's loads.
    pub(super) async fn give_up_loads_of(&self, coordinator: usize) {
        for session in self.take_loads(|loading| loading.coordinator == coordinator) {
            roll_back(&session).await;
        }
    }

    /// Removes loads; the sessions of those that are complete.
    fn take_loads(&self, is_over: impl Fn(&Loading) -> bool) -> Vec<Session> {
        let mut loads = self.loads.lock();
        let over = loads.extract_if(|_, loading| is_over(loading));
        let complete = over.filter_map(|(_, loading)| loading.complete);
        complete.map(|complete| complete.session).collect()
    }
}

async fn roll_back(session: &Session) {
    if let Err(error) = session.execute("ROLLBACK").await {
        tracing::warn!(%error, "a load can't be rolled back");
    }
}
