//! Several machines: tables whose rows are divided among the nodes of a cluster, or are on all of them.
//!
//! A [`Node`] joins the cluster that a [`ClusterFile`] describes. Queries of its sessions are planned by
//! `datafusion-distributed`, which cuts plans into stages and moves rows between nodes; this crate tells it which
//! node has which rows ([`TableHome`]), adds rows where they belong, and sees to it that a query reads one state
//! of all nodes. Every node is a worker and may coordinate.
//!
//! It schedules nothing and shuffles nothing by code of its own, and keeps no rows: these are in the tables of
//! the node's engine, with its budgets and tiers.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod config;
mod error;
mod home;
mod messages;
mod node;
mod plan;
mod serve;

pub use config::{ClusterFile, NodeEntry, TlsFiles};
pub use home::TableHome;
pub use node::Node;
