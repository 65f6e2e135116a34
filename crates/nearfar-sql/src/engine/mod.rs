//! The engine: one machine's memory, its tables, and sessions that query them.
//!
//! An [`Engine`] is made from [`EngineOptions`]; each client gets a [`Session`] of it, in which it
//! runs scripts ([`Session::execute`]).

mod attached;
mod catalog;
mod client;
mod compact;
mod cursors;
mod defaults;
mod definitions;
mod distribution;
mod execute;
mod fault;
mod known_definitions;
mod lanes;
mod loading;
mod memory_hosts;
mod metering;
pub mod operator_memory;
mod options;
mod planning;
mod pool;
mod preload;
mod references;
mod remote_rows;
mod sequences;
mod session;
mod sleep;
mod slicing;
mod spill;
mod stream;
mod system;
mod variables;
pub mod wire;
mod yielding;

pub use crate::error::{LimitOf, Refusal};
pub use crate::interrupt::{Interrupt, PlanningTurns};
pub use crate::memory::{
    Charge, EngineMemory, FLOOR_BYTES, QueryMemory, SessionMemory, SpillAccount, StatementMemory,
};
pub use crate::settings::{
    Scope, SettingInfo, Settings, Tablespaces, all_settings, isolation_name, milliseconds,
};
pub use attached::parameters_of_row;
pub use catalog::{CATALOG, INFORMATION_SCHEMA, PUBLIC, SYSTEM, TEMPORARY};
pub use client::{Described, TransactionState};
pub use definitions::view_sql;
pub use distribution::Distribution;
pub use execute::{Action, ClientRows, Immediate, PREPARED_MAX, Ran, Right};
pub use known_definitions::KnownDefinitions;
pub use lanes::Lanes;
pub use loading::Loading;
pub use nearfar_durable::log::Origin;
pub use options::{EngineOptions, SessionOptions};
pub use sequences::sequence_of;
pub use session::Session;
use spill::SpillFolder;
pub use stream::{CommandTag, ReadyRows, RowStream, StatementResult};
pub use variables::ClientSettings;

use datafusion::execution::runtime_env::RuntimeEnv;
use nearfar_memory::{MemorySystem, RegionOptions, TierId};
use nearfar_model::{BandwidthShare, EmulatedTier};
use nearfar_topology::{Profile, Topology};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};

use crate::error::EngineError;
use crate::remote::NearCache;
use crate::scan::{NearfarTable, ScanCosts};
use catalog::SharedCatalog;
use definitions::DefinitionLock;
use memory_hosts::MemoryHosts;
use nearfar_durable::Opened;
use nearfar_durable::checkpoint::pooled::TablePool;
use nearfar_durable::checkpoint::{Publisher, Verifier};
use nearfar_durable::error::DurabilityError;
use nearfar_durable::log::{DataOptions, Definitions, Durability, Log};
use nearfar_table::placement::{Storage, TemporaryBudget};
use nearfar_table::table::Table;
use nearfar_table::tier_models::TierModels;
use nearfar_table::traffic::{TierTraffic, TrafficAccount};
use nearfar_table::transaction::{CommitGate, Database};
use preload::Preloader;
use references::References;

/// The memory of a machine and the tables on it, shared by all sessions.
#[derive(Debug)]
pub struct Engine {
    topology: Topology,
    storage: Storage,
    /// The pool of `storage`, if there is one.
    pool: Option<Arc<TablePool>>,
    costs: Arc<ScanCosts>,
    /// What was fetched of other hosts.
    remote_cache: Arc<NearCache>,
    memory_hosts: MemoryHosts,
    threads: usize,
    /// Ends before what it writes checkpoints of.
    durability: Option<Durability>,
    origin: Origin,
    catalog: Arc<SharedCatalog>,
    query_memory: Arc<EngineMemory>,
    database: Arc<Database>,
    definitions: Arc<DefinitionLock>,
    references: References,
    /// Publishes main storage in the pool, if there is one.
    publisher: OnceLock<Arc<Publisher>>,
    /// Ends before the pool is given back.
    verifier: Mutex<Option<Verifier>>,
    preloader: Preloader,
    runtime: Arc<RuntimeEnv>,
    /// The cluster that the machine is part of.
    distribution: OnceLock<Arc<dyn Distribution>>,
    /// Where queries run, if not where their statements do.
    lanes: OnceLock<Lanes>,
    planning_turns: Arc<PlanningTurns>,
    /// Sessions so far.
    sessions: AtomicU64,
    temp_limit_bytes: u64,
    closed: Once,
}

impl Engine {
    /// An engine without tables. Needs no Tokio runtime; the statements of its sessions do.
    ///
    /// # Errors
    /// Budgets that name no tier or exceed it; a profile that can't be emulated; a data directory that
    /// can't be opened, or has more than there is memory for.
    pub fn new(options: EngineOptions) -> Result<Arc<Self>, EngineError> {
        let EngineOptions {
            topology,
            profile,
            threads,
            ..
        } = options;
        let topology = match &profile {
            Some(profile) => topology.with_profile(profile),
            None => topology,
        };
        let system = MemorySystem::with_tiers(&topology, options.remote_tiers, &options.budgets)?;
        let share = match options.whole_device {
            true => BandwidthShare::WholeDevice,
            false => BandwidthShare::Threads(threads as u32),
        };
        let models = match &profile {
            Some(profile) => tier_models(&system, &topology, profile, share)?,
            None => TierModels::default(),
        };
        let traffic = TierTraffic::new(options.far_bandwidth_bytes_per_s);
        let costs = ScanCosts::new(&system, &models, &traffic);
        let remote_cache = NearCache::new(&system, options.remote_cache_bytes);
        operator_memory::inherit_tiers();
        let query_memory = EngineMemory::new(Arc::clone(&system), options.memory_limit_bytes);
        let region_options = RegionOptions {
            page_size: options.page_size,
            over_budget: options.over_budget,
        };
        let storage = Storage {
            system,
            options: region_options,
            temporary: None,
            pool: None,
            shelf: Arc::default(),
            models,
            index_workers: Arc::default(),
            traffic,
        };
        let opened = Opened::new(storage, options.data.as_ref(), options.pool.as_ref())?;
        let engine = Arc::new(Self {
            topology,
            database: opened.database,
            storage: opened.storage,
            pool: opened.pool,
            costs,
            remote_cache,
            memory_hosts: MemoryHosts::default(),
            threads,
            catalog: Arc::default(),
            query_memory,
            definitions: Arc::default(),
            references: References::default(),
            durability: opened.durability,
            origin: opened.origin,
            publisher: OnceLock::new(),
            verifier: Mutex::new(opened.verifier),
            preloader: Preloader::default(),
            distribution: OnceLock::new(),
            lanes: OnceLock::new(),
            planning_turns: PlanningTurns::new(threads),
            runtime: SpillFolder::runtime()?,
            sessions: AtomicU64::new(1),
            temp_limit_bytes: options
                .temp_limit_bytes
                .unwrap_or(TemporaryBudget::UNLIMITED),
            closed: Once::new(),
        });
        engine.begin(opened.definitions, options.data.as_ref());
        Ok(engine)
    }

    /// Makes what was kept known, and keeps what is committed from now on.
    fn begin(self: &Arc<Self>, definitions: Option<Definitions>, data: Option<&DataOptions>) {
        let views = definitions.map(|definitions| self.restore(definitions));
        self.restore_checks();
        self.note_references();
        self.restore_views(views.unwrap_or_default());
        if let Some((durability, data)) = self.durability.as_ref().zip(data) {
            self.database.set_log(Arc::clone(durability.log()) as _);
            durability.start_checkpoints(data, &self.database, self.manifest_taker());
        }
        self.start_publishing();
        self.preloader.start(&self.catalog);
    }

    /// Ends merges, so that none goes on without an engine, publishes what is committed, has it on
    /// disk, and gives the pool back. Nothing that is kept can be changed after that. It is done by
    /// itself when the engine is dropped.
    pub fn close(&self) {
        self.closed.call_once(|| {
            self.preloader.stop();
            self.storage.index_workers.stop();
            drop(self.verifier.lock().take());
            self.database.merges().stop();
            if let Some(publisher) = self.publisher.get() {
                publisher.publish_or_warn();
            }
            if let Some(durability) = &self.durability {
                durability.close();
            }
            let given_back = self.pool.as_ref().map(|pool| pool.give_back());
            if let Some(Err(error)) = given_back {
                tracing::warn!(%error, "the next owner waits for the lease");
            }
        });
    }

    /// The data directory, where there is one.
    pub fn data_directory(&self) -> Option<&Path> {
        self.durability.as_ref().map(Durability::path)
    }

    /// Where the tables were when the engine was made.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The machine, with the modelled tier if there is one.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The tiers and their accounts.
    pub fn system(&self) -> &Arc<MemorySystem> {
        &self.storage.system
    }

    /// Where segments are put.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// What scans have cost.
    pub fn costs(&self) -> &Arc<ScanCosts> {
        &self.costs
    }

    /// What was fetched of other hosts and is kept near.
    pub fn remote_cache(&self) -> &Arc<NearCache> {
        &self.remote_cache
    }

    /// The tier of a name, if there is one.
    pub fn tier(&self, name: &str) -> Option<TierId> {
        self.system().tier(name).ok()
    }

    /// The models of those tiers that are emulated.
    pub fn models(&self) -> &TierModels {
        &self.storage.models
    }

    /// What is moved to and from the tiers, and its limit.
    pub fn traffic(&self) -> &Arc<TierTraffic> {
        &self.storage.traffic
    }

    /// Threads that run queries.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The names under which SQL knows the tiers.
    pub fn tablespaces(&self) -> Tablespaces {
        Tablespaces::new(Arc::clone(&self.storage.system))
    }

    /// The tables' contents, and their changes.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// What queries may take together, and what they hold.
    pub fn query_memory(&self) -> &Arc<EngineMemory> {
        &self.query_memory
    }

    /// Has queries run on `lanes` by how long they are expected to take, and not where their statements
    /// do. Once.
    pub fn set_lanes(&self, lanes: Lanes) {
        self.lanes.get_or_init(|| lanes);
    }

    fn lanes(&self) -> Option<&Lanes> {
        self.lanes.get()
    }

    /// Has the statements of sessions from now on run in a cluster, but for those of local sessions. Once.
    pub fn set_distribution(&self, distribution: Arc<dyn Distribution>) {
        self.distribution.get_or_init(|| distribution);
    }

    /// Counters of the cluster that the machine is part of, in Prometheus's form.
    pub fn cluster_metrics(&self) -> Option<String> {
        self.distribution()
            .map(|distribution| distribution.metrics())
    }

    fn distribution(&self) -> Option<&Arc<dyn Distribution>> {
        self.distribution.get()
    }

    /// The turns that statements take whose planning takes long.
    pub fn planning_turns(&self) -> &Arc<PlanningTurns> {
        &self.planning_turns
    }

    /// A new session.
    pub fn session(self: &Arc<Self>) -> Session {
        self.session_with(SessionOptions::default())
    }

    /// A new session that may do what `options` say.
    pub fn session_with(self: &Arc<Self>, options: SessionOptions) -> Session {
        Session::new(Arc::clone(self), options)
    }

    /// Makes `table` known under its name in schema `public`, to all sessions.
    ///
    /// # Errors
    /// A name that is taken; a log that can't be written.
    pub fn register(&self, table: Arc<Table>) -> Result<(), EngineError> {
        let slot = self.public_slot(table.name());
        self.create_table(&CommitGate::default(), &slot, table, &[])
    }

    fn provider(&self, table: Arc<Table>) -> Arc<NearfarTable> {
        self.database.add(&table);
        self.provider_of(table)
    }

    /// The provider of a table that is part of the database.
    fn provider_of(&self, table: Arc<Table>) -> Arc<NearfarTable> {
        let provider = NearfarTable::new(table, Arc::clone(&self.costs));
        Arc::new(provider.writable(&self.database))
    }

    /// Writes a checkpoint to the data directory, after which the log begins anew.
    ///
    /// # Errors
    /// [`DurabilityError::InMemory`] without a data directory; a disk that can't be written.
    pub fn checkpoint(&self) -> Result<(), EngineError> {
        let durability = self.durability.as_ref().ok_or(DurabilityError::InMemory)?;
        Ok(durability.checkpoint()?)
    }

    /// The log, once changes are written to it.
    pub fn log(&self) -> Option<&Arc<Log>> {
        self.database.log()?;
        self.durability.as_ref().map(Durability::log)
    }

    fn catalog(&self) -> &Arc<SharedCatalog> {
        &self.catalog
    }

    fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.runtime
    }

    /// The settings of a new session.
    fn default_settings(&self, options: SessionOptions) -> Settings {
        let limits = self.database.merges().limits().clone();
        let session = self.sessions.fetch_add(1, Ordering::Relaxed);
        let temporary = TemporaryBudget::new(session, self.temp_limit_bytes);
        let traffic = TrafficAccount::of_session(self.traffic(), session);
        let log = self.log().cloned();
        let memory_limit_bytes = options.memory_limit_bytes;
        let memory = SessionMemory::new(memory_limit_bytes.unwrap_or(SessionMemory::UNLIMITED));
        let memory = (Arc::clone(&self.query_memory), memory);
        let shared = (limits, Arc::clone(&self.storage.index_workers));
        Settings::new(
            self.tablespaces(),
            shared,
            log,
            (temporary, traffic),
            memory,
        )
    }
}

/// The models of the tiers of `system` that `profile` models.
fn tier_models(
    system: &MemorySystem,
    topology: &Topology,
    profile: &Profile,
    share: BandwidthShare,
) -> Result<TierModels, EngineError> {
    let models = topology.modelled(profile).map(|(tier, modelled)| {
        let model = EmulatedTier::of_tier(profile, modelled, share)?;
        Ok((system.tier(&tier.name)?, model))
    });
    Ok(TierModels::new(
        models.collect::<Result<Vec<_>, EngineError>>()?,
    ))
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}
