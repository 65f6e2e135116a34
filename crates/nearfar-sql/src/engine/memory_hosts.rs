//! Hosts in whose memory tables can be put.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Engine;
use crate::remote::ColumnHost;

/// Hosts by the names of their tablespaces.
#[derive(Debug, Default)]
pub(super) struct MemoryHosts(RwLock<BTreeMap<String, Arc<dyn ColumnHost>>>);

impl Engine {
    /// Makes the memory of a host a tablespace of this name, in place of another host's: `CREATE TABLE … TABLESPACE name
    /// AS …` puts rows there. What they take is counted on the host's tier, which should be one of
    /// [`EngineOptions::remote_tiers`](super::EngineOptions::remote_tiers) and have the name.
    pub fn add_memory_host(&self, name: &str, host: Arc<dyn ColumnHost>) {
        let name = name.to_lowercase();
        self.memory_hosts.0.write().insert(name, host);
    }

    /// The host whose memory is the tablespace of this name.
    pub(super) fn memory_host(&self, name: &str) -> Option<Arc<dyn ColumnHost>> {
        self.memory_hosts.0.read().get(name).cloned()
    }
}
