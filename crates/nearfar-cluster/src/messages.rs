//! What nodes ask of each other beside plans and rows, as JSON in Flight's actions.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::home::TableHome;

/// Changes with every change of what nodes say to each other.
pub const PROTOCOL: u32 = 1;

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Who are you? Asked when a node starts, and again and again.
    Hello(Hello),
    /// Which nodes are there? Asked by one that has no file of the cluster.
    Members,
    /// Keep the present state for a query.
    Pin {
        /// What the query calls it.
        pin: u64,
    },
    /// The query has ended.
    Unpin {
        /// What it was called.
        pin: u64,
    },
    /// Let nobody else change the cluster for a while.
    Lock,
    /// Let others.
    Unlock {
        /// What [`Reply::Locked`] said.
        ticket: u64,
    },
    /// Create, drop or empty a table.
    Define {
        /// The statement.
        sql: String,
        /// The table.
        table: String,
        /// Where its rows are from now on; nothing if the table is dropped, or stays where it is.
        home: Option<TableHome>,
        /// The state that is left, and the one that is reached.
        change: Change,
    },
    /// Make the rows of a load seen, if there are any for this node.
    Commit {
        /// The load.
        load: u64,
        /// The state that is left, and the one that is reached.
        change: Change,
    },
    /// Forget the rows of a load.
    Abort {
        /// The load.
        load: u64,
    },
}

/// A step from one state of the cluster to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The state that all nodes are in.
    pub from: u64,
    /// The state behind it.
    pub to: u64,
}

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The version of the program.
    pub program: String,
    /// The cluster.
    pub cluster: String,
    /// The names of all nodes, in their order.
    pub nodes: Vec<String>,
    /// The node.
    pub node: String,
    /// The state of its tables.
    pub version: u64,
    /// Its tables, with their columns and types, and where their rows are.
    pub tables: BTreeMap<String, (String, TableHome)>,
    /// Whether its tables are changing at this moment.
    pub is_changing: bool,
    /// Whether it takes no more queries.
    pub is_draining: bool,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Hello`].
    Hello(Hello),
    /// To [`Request::Members`].
    Members {
        /// The cluster.
        cluster: String,
        /// Its nodes: their names and addresses.
        nodes: Vec<(String, SocketAddr)>,
    },
    /// To [`Request::Pin`].
    Pinned {
        /// The state that is kept.
        version: u64,
        /// The rows of each table in it.
        rows: BTreeMap<String, u64>,
    },
    /// To [`Request::Lock`].
    Locked {
        /// For [`Request::Unlock`].
        ticket: u64,
    },
    /// To everything else.
    Done,
    /// It can't be done.
    Refused {
        /// Why.
        message: String,
    },
}

/// Which rows a stream asks for: those of one partition of a plan that reads this node's tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// The plan, as bytes.
    pub plan: Vec<u8>,
    /// The partition.
    pub partition: usize,
}

/// Which load a stream of rows belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The load.
    pub load: u64,
    /// The table.
    pub table: String,
}
