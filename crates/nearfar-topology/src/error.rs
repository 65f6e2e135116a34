//! What can go wrong while a machine's memory is read.

use std::path::PathBuf;

use thiserror::Error;

use crate::id_list::NodeId;

/// The memory of a machine cannot be read from its sysfs.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DiscoverError {
    /// There is no node at all.
    #[error(
        "no memory nodes under {}: not a sysfs, or a kernel built without NUMA support",
        path.display()
    )]
    NoNodes {
        /// Folder that should have `node<N>` folders.
        path: PathBuf,
    },
    /// There are nodes, and none has memory.
    #[error("no node under {} has memory", path.display())]
    NoMemory {
        /// Folder of the nodes.
        path: PathBuf,
    },
    /// The node to look from is not there, or has no CPUs.
    #[error(
        "cannot order tiers as seen from {viewpoint}: nodes with CPUs are {}",
        with_cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    BadViewpoint {
        /// The node asked for.
        viewpoint: NodeId,
        /// The nodes that would do.
        with_cpus: Vec<NodeId>,
    },
    /// A file is there and cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file holds what it never should.
    #[error("{} holds {content:?}, expected {expected}", path.display())]
    Garbled {
        /// The file.
        path: PathBuf,
        /// Its content: the first part where it is long, with replacement
        /// characters where it is not UTF-8.
        content: String,
        /// What it should hold.
        expected: &'static str,
    },
}
