//! How a node starts: it reads what it has, opens its port, and looks for the others.

use arrow_flight::flight_service_server::FlightServiceServer;
use nearfar_durable::checkpoint::pooled::SharedPoolOptions;
use nearfar_sql::engine::Engine;
use nearfar_sql::error::EngineError;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use super::service::Service;
use crate::config::{ClusterFile, NodeEntry, TlsFiles};
use crate::error::{AskError, failed};
use crate::home::{TableHome, keeper};
use crate::messages::{Hello, Reply, Request, fresh};
use crate::node::{ANSWER_TIMEOUT, Heard, KEEP_ALIVE, Link, Node, Sharing};

/// How long a node that starts waits for others that it can do without.
const MISSING_PATIENCE: Duration = Duration::from_secs(5);
/// How often nodes ask each other whether they are there.
const HEARTBEAT: Duration = Duration::from_secs(1);

impl Node {
    /// Makes this process the node `name` of a cluster: opens its port, and has the engine's sessions run in the
    /// cluster from now on. Nodes that are not there yet are looked for again and again. Replicated tables are read in the
    /// `shared` pool, which another node owns, where they are the same there.
    ///
    /// # Errors
    /// A name that the cluster has not; files of certificates that can't be read; a port that is taken; a node
    /// that is there, but of another version, cluster or schema.
    pub async fn start(
        engine: &Arc<Engine>,
        file: ClusterFile,
        name: &str,
        shared: Option<SharedPoolOptions>,
    ) -> Result<Arc<Self>, EngineError> {
        let me = file.index_of(name)?;
        let tls = file.tls.client()?;
        let links = file.nodes.iter().map(|node| Link::new(node, tls.clone()));
        let links = links.collect::<Result<Vec<_>, _>>()?;
        let address = file.nodes[me].address;
        let node = Arc::new(Self {
            me,
            engine: Arc::clone(engine),
            links,
            tables: RwLock::default(),
            state: tokio::sync::Mutex::default(),
            reached: Mutex::default(),
            parts: std::sync::OnceLock::new(),
            pins: Mutex::default(),
            life: fresh(),
            lives: Mutex::default(),
            loads: Mutex::default(),
            writer: Mutex::default(),
            held: Mutex::default(),
            seen: Mutex::default(),
            is_catching_up: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            sharing: shared.map(Sharing::new),
            queries: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            behind: Mutex::default(),
            worker: std::sync::OnceLock::new(),
            file,
        });
        node.restore().await?;
        let worker = node.make_worker();
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| failed(format!("node `{name}` can't listen on {address}: {error}")))?;
        let flight = FlightServiceServer::new(Service(Arc::clone(&node)))
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        let server = Server::builder()
            .tls_config(node.file.tls.server()?)
            .map_err(|error| failed(format!("the certificates of node `{name}`: {error}")))?
            .tcp_nodelay(true)
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(ANSWER_TIMEOUT))
            .initial_connection_window_size(16 << 20)
            .initial_stream_window_size(4 << 20)
            .add_service(flight)
            .add_service(worker.clone().into_worker_server());
        node.worker.get_or_init(|| worker);
        let serving = server.serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "the node serves others no more");
            }
        });
        crate::plan::check(&node)?;
        node.look_around().await?;
        engine.set_distribution(Arc::new(crate::plan::Router(Arc::clone(&node))));
        tokio::spawn(keep_looking(Arc::downgrade(&node)));
        Ok(node)
    }

    /// The cluster that the node at `address` is part of, with the certificates of this node.
    ///
    /// # Errors
    /// A node that does not answer, or does not take the certificates.
    pub async fn ask_for_file(
        address: SocketAddr,
        tls: TlsFiles,
    ) -> Result<ClusterFile, EngineError> {
        let asked = NodeEntry {
            name: String::from("to join"),
            address,
        };
        let link = Link::new(&asked, tls.client()?)?;
        let (cluster, nodes) = match link.ask(&Request::Members).await? {
            Reply::Members { cluster, nodes } => (cluster, nodes),
            other => return Err(link.unexpected(&other).into()),
        };
        let nodes = nodes.into_iter();
        Ok(ClusterFile {
            name: cluster,
            tls,
            nodes: nodes
                .map(|(name, address)| NodeEntry { name, address })
                .collect(),
        })
    }

    /// Asks all nodes who they are, and keeps of each what was heard.
    ///
    /// # Errors
    /// The first node that does not fit. One that does not answer is none.
    async fn look_around(&self) -> Result<(), EngineError> {
        let own = self.hello().await;
        let asked = self.links.iter().map(|link| link.hello(&own));
        let answers = futures::future::join_all(asked).await;
        let mut misfit = Ok(());
        let mut seen = HashMap::new();
        for (index, (link, answer)) in self.links.iter().zip(answers).enumerate() {
            if let Ok(hello) = &answer
                && index != self.me
            {
                seen.insert(index, hello.state);
            }
            let (heard, wrong) = judged(&own, answer, link.name());
            link.set_heard(heard);
            if let Some(wrong) = wrong
                && misfit.is_ok()
            {
                misfit = Err(failed(wrong));
            }
        }
        *self.seen.lock() = seen;
        misfit
    }

    /// Whether all nodes answer.
    pub fn is_complete(&self) -> bool {
        self.links.iter().all(Link::is_up)
    }

    /// Whether those nodes that answer have all rows, of tables that there are.
    fn has_every_share(&self) -> bool {
        let tables = self.tables.read();
        let nodes = self.nodes();
        let is_there = |node: usize| node == self.me || self.links[node].is_up();
        !tables.is_empty()
            && tables.values().all(|local| match &local.home {
                TableHome::Replicated => true,
                TableHome::Distributed { copies, .. } => (0..nodes).all(|share| {
                    let mut keepers = (0..*copies).map(|rank| keeper(share, rank, nodes));
                    keepers.any(is_there)
                }),
            })
    }

    /// Waits until all nodes answer, or for a while until those that do have all rows.
    pub async fn wait_for_nodes(&self) {
        let begun = Instant::now();
        let is_enough = || begun.elapsed() > MISSING_PATIENCE && self.has_every_share();
        while !self.is_complete() && !is_enough() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if let Err(error) = self.look_around().await {
                tracing::warn!(%error, "a node does not fit");
            }
        }
    }

    /// Bytes and counts, for those that show them.
    pub fn counted_queries(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }
}

/// Asks other nodes again and again whether they are there, and does what follows from that, as long as there is the
/// node.
async fn keep_looking(watched: Weak<Node>) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        let Some(node) = watched.upgrade() else {
            return;
        };
        if let Err(error) = node.look_around().await {
            tracing::warn!(%error, "a node does not fit");
        }
        node.settle().await;
        node.give_up_orphans();
        node.begin_to_catch_up();
        node.begin_to_share();
    }
}

/// What is heard from an answer of the node `name`, and why it does not fit.
fn judged(own: &Hello, answer: Result<Hello, AskError>, name: &str) -> (Heard, Option<String>) {
    match answer {
        Ok(other) => match own.mismatch(&other, name) {
            Some(wrong) => (Heard::Unfit, Some(wrong)),
            None if other.is_draining => (Heard::Stopping, None),
            None => (Heard::Up, None),
        },
        Err(AskError::Silent { .. }) => (Heard::Nothing, None),
        Err(refused) => (Heard::Unfit, Some(refused.to_string())),
    }
}
