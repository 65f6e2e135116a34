//! A node: its tables, its links to the others, and what it does for them.

mod catch_up;
mod held;
mod link;
mod load;
mod local;
mod share;
mod write;

pub use link::{ACTION, ANSWER_TIMEOUT, Heard, KEEP_ALIVE, Link, Links as NodeLinks};
pub use load::{Sent, add_rows};
pub use local::{LocalTable, Pinned};
pub use share::Sharing;

use datafusion::error::Result;
use nearfar_sql::engine::{Engine, Session, SessionOptions};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::config::ClusterFile;
use crate::error::failed_query;
use crate::home::{TableHome, keeper};
use crate::messages::{Hello, PROTOCOL, State};

/// A node of a cluster, which this process is.
pub struct Node {
    pub(crate) file: ClusterFile,
    pub(crate) me: usize,
    pub(crate) engine: Arc<Engine>,
    pub(crate) links: Vec<Link>,
    /// The tables of the cluster, by name.
    pub(crate) tables: RwLock<BTreeMap<String, LocalTable>>,
    /// The state of the tables. Held while it changes and while it is pinned, so that a pin is of one state.
    pub(crate) state: tokio::sync::Mutex<State>,
    /// The same for those that do not wait: the last state that was reached.
    pub(crate) reached: Mutex<State>,
    /// The session whose settings parts of plans run with.
    pub(crate) parts: std::sync::OnceLock<Session>,
    pub(crate) pins: Mutex<HashMap<u64, Pinned>>,
    /// A number since this node was started.
    pub(crate) life: u64,
    /// Those of other nodes, as they were last heard of.
    pub(crate) lives: Mutex<HashMap<usize, u64>>,
    pub(crate) loads: Mutex<HashMap<u64, load::Loading>>,
    /// The step that this node is ready for.
    pub(crate) held: Mutex<Option<held::Held>>,
    /// The states that other nodes were in when they were last heard of.
    pub(crate) seen: Mutex<HashMap<usize, State>>,
    pub(crate) is_catching_up: AtomicBool,
    /// The pool of another node in which this one reads replicated tables.
    pub(crate) sharing: Option<Sharing>,
    /// Who may change the cluster, on the first node.
    pub(crate) writer: Mutex<Option<write::Lease>>,
    pub(crate) is_draining: AtomicBool,
    pub(crate) queries: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) retries: AtomicU64,
    /// The states of nodes of which one was found to be behind, and is not waited for any more.
    pub(crate) behind: Mutex<Option<String>>,
    pub(crate) worker: std::sync::OnceLock<datafusion_distributed::Worker>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("cluster", &self.file.name)
            .field("node", &self.name_of(self.me))
            .finish_non_exhaustive()
    }
}

impl Node {
    /// The index of this node.
    pub(crate) fn me(&self) -> usize {
        self.me
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.file.nodes.len()
    }

    /// What a node is called.
    pub(crate) fn name_of(&self, node: usize) -> &str {
        &self.file.nodes[node].name
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn link(&self, node: usize) -> &Link {
        &self.links[node]
    }

    pub(crate) fn links(&self) -> &[Link] {
        &self.links
    }

    /// Where the rows of a table are, if it is one of the cluster's.
    pub(crate) fn home(&self, table: &str) -> Option<TableHome> {
        self.tables
            .read()
            .get(table)
            .map(|table| table.home.clone())
    }

    /// A table of the cluster, as it is here.
    ///
    /// # Errors
    /// A table that this node does not have.
    pub(crate) fn table(&self, name: &str) -> Result<LocalTable> {
        self.tables.read().get(name).cloned().ok_or_else(|| {
            failed_query(format!(
                "node `{}` has no table `{name}`",
                self.name_of(self.me)
            ))
        })
    }

    /// A session whose statements stay on this node.
    pub(crate) fn session(&self) -> Session {
        self.engine.session_with(SessionOptions {
            is_local: true,
            ..SessionOptions::default()
        })
    }

    /// The session whose settings parts of plans run with.
    pub(crate) fn parts_session(&self) -> &Session {
        self.parts.get_or_init(|| self.session())
    }

    pub(crate) fn worker(&self) -> Result<&datafusion_distributed::Worker> {
        let worker = self.worker.get();
        worker.ok_or_else(|| failed_query("the node has not started"))
    }

    /// Who this node is.
    pub(crate) async fn hello(&self) -> Hello {
        // A change that takes its time keeps nobody from being known.
        let (state, unchanged) = match self.state.try_lock() {
            Ok(unchanged) => (*unchanged, Some(unchanged)),
            Err(_) => (*self.reached.lock(), None),
        };
        let is_changing = unchanged.is_none();
        let tables = self.tables.read();
        let tables = tables.iter().map(|(name, local)| {
            let fields = local.table.schema().fields().iter();
            let fields = fields.map(|f| format!("{} {}", f.name(), f.data_type()));
            let columns = fields.collect::<Vec<_>>().join(", ");
            (name.clone(), (columns, local.home.clone()))
        });
        Hello {
            protocol: PROTOCOL,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            cluster: self.file.name.clone(),
            nodes: self
                .file
                .nodes
                .iter()
                .map(|node| node.name.clone())
                .collect(),
            node: self.name_of(self.me).to_owned(),
            life: self.life,
            state,
            tables: tables.collect(),
            is_changing,
            is_draining: self.is_draining.load(Ordering::Relaxed),
        }
    }

    /// Counters for a page of metrics, as text in Prometheus's form.
    pub fn metrics(&self) -> String {
        let metrics = self.counters().into_iter();
        metrics.map(|metric| metric.to_string()).collect()
    }

    fn counters(&self) -> [Metric; 9] {
        let of_links = |value: fn(&Link) -> u64| -> Vec<(String, u64)> {
            let links = self.links.iter();
            links
                .map(|link| (format!("{{node=\"{}\"}}", link.name()), value(link)))
                .collect()
        };
        let single = |value: u64| vec![(String::new(), value)];
        let pins = self.pins.lock().len() as u64;
        let loads = self.loads.lock().len() as u64;
        [
            Metric(
                "nearfar_cluster_pins",
                "gauge",
                "Queries of all nodes for which a state is kept here.",
                single(pins),
            ),
            Metric(
                "nearfar_cluster_loads",
                "gauge",
                "Loads of all nodes whose rows are here and not seen yet.",
                single(loads),
            ),
            Metric(
                "nearfar_cluster_shared_bytes",
                "gauge",
                "Bytes of replicated tables that are read in the pool of another node.",
                single(self.shared_bytes()),
            ),
            Metric(
                "nearfar_cluster_up",
                "gauge",
                "Whether a node answers.",
                of_links(|l| u64::from(l.is_up())),
            ),
            Metric(
                "nearfar_cluster_sent_bytes_total",
                "counter",
                "Bytes sent on connections to a node.",
                of_links(Link::sent_bytes),
            ),
            Metric(
                "nearfar_cluster_received_bytes_total",
                "counter",
                "Bytes received on connections to a node.",
                of_links(Link::received_bytes),
            ),
            Metric(
                "nearfar_cluster_queries_total",
                "counter",
                "Queries coordinated here.",
                single(self.counted_queries()),
            ),
            Metric(
                "nearfar_cluster_failures_total",
                "counter",
                "Queries coordinated here that a node has failed.",
                single(self.failures.load(Ordering::Relaxed)),
            ),
            Metric(
                "nearfar_cluster_retries_total",
                "counter",
                "Queries coordinated here that were run again without a node that was lost.",
                single(self.retries.load(Ordering::Relaxed)),
            ),
        ]
    }

    /// Bytes that were sent and received on connections that this node has made.
    pub fn exchanged_bytes(&self) -> u64 {
        self.links
            .iter()
            .map(|link| link.sent_bytes() + link.received_bytes())
            .sum()
    }

    pub(crate) fn count_query(&self) {
        self.queries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// The first node of which something is heard, of `node` and those behind it.
    pub(crate) fn first_heard(&self, node: usize) -> usize {
        let nodes = (0..self.nodes()).map(|rank| keeper(node, rank, self.nodes()));
        let mut heard = nodes.filter(|node| self.links[*node].heard() != Heard::Nothing);
        heard.next().unwrap_or(self.me)
    }

    /// Whether nothing is heard of a node that asks for something here.
    pub(crate) fn is_gone(&self, coordinator: usize) -> bool {
        coordinator != self.me
            && self
                .links
                .get(coordinator)
                .is_none_or(|link| link.heard() == Heard::Nothing)
    }
}

/// A number that a node tells: its name, its kind, what it is, and its values with their labels.
struct Metric(&'static str, &'static str, &'static str, Vec<(String, u64)>);

impl std::fmt::Display for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(name, kind, help, values) = self;
        let family = name.strip_suffix("_total").unwrap_or(name);
        write!(f, "# HELP {family} {help}\n# TYPE {family} {kind}\n")?;
        let mut values = values.iter();
        values.try_for_each(|(label, value)| writeln!(f, "{name}{label} {value}"))
    }
}
