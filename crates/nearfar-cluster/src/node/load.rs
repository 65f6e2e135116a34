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

/// The rows of a load that are here.
pub struct Loading {
    /// In whose transaction they are.
    session: Session,
    /// The node that sends them.
    pub coordinator: usize,
    /// When it was last heard of, once the rows are all here.
    heard: Option<Instant>,
}

impl Loading {
    fn is_orphan(&self, age_max: Duration) -> bool {
        self.heard.is_some_and(|heard| heard.elapsed() > age_max)
    }
}

/// A load whose rows are coming. It is given up where this is dropped before they are all here.
pub struct Receiving {
    node: Arc<Node>,
    load: Option<u64>,
    /// In whose transaction they go.
    pub session: Session,
}

impl Receiving {
    /// Says that the rows are all here.
    pub fn complete(mut self) {
        if let Some(load) = self.load.take()
            && let Some(loading) = self.node.loads.lock().get_mut(&load)
        {
            loading.heard = Some(Instant::now());
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let Some(load) = self.load.take() else {
            return;
        };
        let node = Arc::clone(&self.node);
        // The server is dropped within its runtime, or with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { node.abort(load).await });
        }
    }
}

/// A load that this node sends to all nodes. They forget it where this is dropped before its commit.
pub struct Sent {
    node: Arc<Node>,
    load: u64,
    is_committed: bool,
}

impl Sent {
    /// One without rows.
    pub fn new(node: &Arc<Node>) -> Self {
        Self {
            node: Arc::clone(node),
            load: fresh(),
            is_committed: false,
        }
    }

    /// Its number.
    pub fn load(&self) -> u64 {
        self.load
    }

    /// Says that it was committed.
    pub fn committed(mut self) {
        self.is_committed = true;
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if self.is_committed {
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
        let session = self.session();
        session.execute("BEGIN").await?;
        match self.loads.lock().entry(load.load) {
            Entry::Occupied(_) => return Err(failed("it has rows of this load already")),
            Entry::Vacant(free) => {
                free.insert(Loading {
                    session: session.clone(),
                    coordinator: load.coordinator,
                    heard: None,
                });
            }
        }
        Ok(Receiving {
            node: Arc::clone(self),
            load: Some(load.load),
            session,
        })
    }

    /// Keeps the rows of a load for its commit, which is near.
    ///
    /// # Errors
    /// Rows that are not here, or not all.
    pub(crate) fn hold(&self, load: u64) -> Result<Reply, EngineError> {
        let mut loads = self.loads.lock();
        let loading = loads.get_mut(&load);
        match loading.filter(|loading| loading.heard.is_some()) {
            Some(loading) => {
                loading.heard = Some(Instant::now());
                Ok(Reply::Done)
            }
            None => Err(self.without_load()),
        }
    }

    /// The session of a load that is to be committed.
    ///
    /// # Errors
    /// Rows that are not here, or not all.
    pub(super) fn finish_load(&self, load: u64) -> Result<Session, EngineError> {
        let mut loads = self.loads.lock();
        match loads.get(&load) {
            Some(loading) if loading.heard.is_some() => {}
            _ => return Err(self.without_load()),
        }
        let loading = loads.remove(&load);
        loading
            .map(|loading| loading.session)
            .ok_or_else(|| self.without_load())
    }

    fn without_load(&self) -> EngineError {
        failed(format!(
            "node `{}` has not the rows that were sent to it: it was started again, or has given them up; repeat \
             the statement",
            self.name_of(self.me)
        ))
    }

    /// Forgets the rows of a load, here.
    pub(crate) async fn abort(&self, load: u64) {
        let loaded = self.loads.lock().remove(&load);
        if let Some(loading) = loaded {
            roll_back(&loading.session).await;
        }
    }

    /// Forgets the rows of loads whose coordinators are gone.
    pub(crate) async fn give_up_orphans(&self) {
        for session in self.take_orphans(LOAD_AGE_MAX) {
            tracing::warn!("a load is given up: its coordinator is not heard of");
            roll_back(&session).await;
        }
    }

    fn take_orphans(&self, age_max: Duration) -> Vec<Session> {
        let mut loads = self.loads.lock();
        let orphans = loads.extract_if(|_, loading| loading.is_orphan(age_max));
        orphans.map(|(_, loading)| loading.session).collect()
    }
}

async fn roll_back(session: &Session) {
    if let Err(error) = session.execute("ROLLBACK").await {
        tracing::warn!(%error, "a load can't be rolled back");
    }
}
