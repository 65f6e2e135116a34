//! From arguments to the memory of other hosts: tiers of an engine, and connections.

use std::sync::Arc;

use anyhow::Context;
use nearfar_memory::{Budgets, MemorySystem, TierKind, TierSpec};
use nearfar_rdma::{HostOptions, RemoteHost, Secret};
use nearfar_sql::engine::{Engine, EngineOptions};

use crate::args::MemoryHostArgs;
use crate::human::NamedAddress;

/// Near memory for the buffers of the one connection by which a host is asked.
const NEAR_BYTES: u64 = 16 << 20;

/// Hosts that an engine is to use.
pub struct MemoryHosts {
    hosts: Vec<NamedAddress>,
    secret: Option<Secret>,
    options: HostOptions,
}

impl MemoryHosts {
    /// Those of `args`. Each is asked what it offers, and becomes a tier of the engine that `options` describe.
    ///
    /// # Errors
    /// A secret that can't be read; a host that can't be reached.
    pub fn plan(args: &MemoryHostArgs, options: &mut EngineOptions) -> anyhow::Result<Self> {
        let secret = args.memory_secret_file.as_deref().map(Secret::read);
        let hosts = Self {
            hosts: args.memory_hosts.clone(),
            secret: secret.transpose()?,
            options: HostOptions {
                device: args.memory_device.clone(),
                ..HostOptions::default()
            },
        };
        if let Some(bytes) = args.memory_cache {
            options.remote_cache_bytes = bytes.0;
        }
        for host in &hosts.hosts {
            let bytes = hosts.offered_bytes(host)?;
            let tier = TierSpec::rdma(&host.name, host.address.to_string(), bytes);
            options.remote_tiers.push(tier);
        }
        Ok(hosts)
    }

    /// Connects to them, so that tables can be put there.
    ///
    /// # Errors
    /// A host that can't be reached, or has no place for another client.
    pub fn connect(&self, engine: &Engine) -> anyhow::Result<()> {
        for host in &self.hosts {
            let connected = self.connected(engine.system(), host, self.options.clone())?;
            engine.add_memory_host(&host.name, Arc::new(connected));
        }
        Ok(())
    }

    /// What a host offers to all its clients together.
    fn offered_bytes(&self, host: &NamedAddress) -> anyhow::Result<u64> {
        let near = TierSpec::new("near", TierKind::LocalDram, [0], NEAR_BYTES);
        let remote = TierSpec::rdma(&host.name, host.address.to_string(), u64::MAX);
        let system = MemorySystem::from_specs(vec![near, remote], &Budgets::new())?;
        let options = HostOptions {
            links: 1,
            ..self.options.clone()
        };
        Ok(self.connected(&system, host, options)?.offered_bytes())
    }

    fn connected(
        &self,
        system: &Arc<MemorySystem>,
        host: &NamedAddress,
        options: HostOptions,
    ) -> anyhow::Result<RemoteHost> {
        let secret = self.secret.as_ref().context("hosts without a secret")?;
        let tier = system.tier(&host.name)?;
        let connected = RemoteHost::connect(system, tier, host.address, secret, options);
        Ok(connected?)
    }
}
