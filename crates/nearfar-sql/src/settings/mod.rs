//! A session's settings: those of Nearfar, in the namespace `nearfar` of DataFusion's configuration
//! ([`OWN`]), and those of DataFusion that sessions may change ([`LIBRARY`]).

mod isolation;
mod library;
mod own;
mod plan_cache;
mod read_ahead;
mod tablespaces;
mod value;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::Result;
use nearfar_memory::{Placement, TierId};
use nearfar_topology::FAR;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{EngineError, SqlError};
use crate::memory::{EngineMemory, SessionMemory, StatementMemory};
pub use isolation::{DEFAULT_ISOLATION, isolation_name};
use library::LIBRARY;
pub use library::{LibrarySetting, values as library_values};
use nearfar_durable::log::Log;
use nearfar_table::placement::{IndexWorkers, TemporaryBudget};
use nearfar_table::traffic::TrafficAccount;
use nearfar_table::transaction::{Isolation, MergeLimits};
use own::OWN;
pub use own::OwnSetting;
pub use plan_cache::PlanCacheMode;
pub use read_ahead::ReadAheadBy;
pub use tablespaces::{Place, Tablespaces};
pub use value::{Given, milliseconds};

/// Whose a setting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The session's own: it ends with the session.
    Session,
    /// That of all sessions: setting it is a change of the database.
    Shared,
    /// The session's own, of the library that runs queries.
    Library,
}

/// What there is to know of a setting that `SET` takes.
#[derive(Debug, Clone)]
pub struct SettingInfo {
    /// Its name, as it is written without the namespace of Nearfar.
    pub name: &'static str,
    /// What it is for; for those of the library, what it can be.
    pub description: String,
    /// Whose it is.
    pub scope: Scope,
}

/// The settings that there are, Nearfar's first.
pub fn all_settings() -> impl Iterator<Item = SettingInfo> {
    let own = OWN.iter().map(|setting| SettingInfo {
        name: setting.name,
        description: setting.description.to_owned(),
        scope: setting.scope,
    });
    let library = LIBRARY.iter().map(|setting| SettingInfo {
        name: setting.name,
        description: setting.allowed.describe(),
        scope: Scope::Library,
    });
    own.chain(library)
}

/// A setting that was found by its name.
pub enum Known {
    Own(&'static OwnSetting),
    Library(&'static LibrarySetting),
}

impl Known {
    /// The setting of this name, which is in lower case and may be without the namespace of Nearfar.
    ///
    /// # Errors
    /// A name that there is not, or that is not for users.
    pub fn find(name: &str) -> Result<Self, SqlError> {
        let name = match name {
            "timezone" | "time.zone" => "datafusion.execution.time_zone",
            other => other,
        };
        if name.starts_with(library::PREFIX) {
            let found = LIBRARY.iter().find(|setting| setting.name == name);
            return match found {
                Some(setting) => Ok(Self::Library(setting)),
                None => Err(library::refusal(name).unwrap_or_else(|| unknown(name))),
            };
        }
        let own = name.strip_prefix(NAMESPACE).unwrap_or(name);
        own_setting(own).map(Self::Own).ok_or_else(|| unknown(name))
    }
}

const NAMESPACE: &str = "nearfar.";

fn own_setting(name: &str) -> Option<&'static OwnSetting> {
    OWN.iter().find(|setting| setting.name == name)
}

fn unknown(name: &str) -> SqlError {
    SqlError::UnknownSetting {
        name: name.to_owned(),
        known: OWN.iter().map(|setting| setting.name.to_owned()).collect(),
    }
}

/// Whether Nearfar has a setting of this name, which is without its namespace.
pub(crate) fn is_own_setting(name: &str) -> bool {
    own_setting(name).is_some()
}

/// The settings of one session.
#[derive(Debug, Clone)]
pub struct Settings {
    tablespaces: Tablespaces,
    default_tablespace: Placement,
    temp_tablespaces: Option<Placement>,
    heap_tablespace: TierId,
    memory_limit_bytes: Option<u64>,
    count_accesses: bool,
    share_subplans: bool,
    narrow_outer_joins: bool,
    sorted_windows: bool,
    key_joins: bool,
    scan_aggregates: bool,
    cooperative_scans: bool,
    read_ahead: ReadAheadBy,
    group_finest_first: bool,
    group_before_joins: bool,
    drop_determined_keys: bool,
    plan_cache_mode: PlanCacheMode,
    isolation: Isolation,
    /// None for as long as it takes.
    lock_timeout: Option<Duration>,
    temporary: Arc<TemporaryBudget>,
    traffic: Arc<TrafficAccount>,
    memory: Arc<SessionMemory>,
    /// What all queries of the engine draw on.
    queries: Arc<EngineMemory>,
    /// The memory of the statement that these are the settings of.
    statement: Option<Arc<StatementMemory>>,
    /// What the session is given at first.
    session_memory_bytes: u64,
    /// What the engine gives every session.
    temp_limit_bytes: u64,
    spill_tablespace: Option<TierId>,
    /// Those of the engine.
    merge_limits: MergeLimits,
    index_workers: Arc<IndexWorkers>,
    /// That of the engine, if it has a data directory.
    log: Option<Arc<Log>>,
}

impl Settings {
    /// Everything near but what is spilled, which goes far where there is a far tier; no limit but
    /// the engine's, and accesses counted.
    pub fn new(
        tablespaces: Tablespaces,
        (merge_limits, index_workers): (MergeLimits, Arc<IndexWorkers>),
        log: Option<Arc<Log>>,
        (temporary, traffic): (Arc<TemporaryBudget>, Arc<TrafficAccount>),
        (queries, memory): (Arc<EngineMemory>, Arc<SessionMemory>),
    ) -> Self {
        Self {
            session_memory_bytes: memory.limit_bytes(),
            memory,
            queries,
            statement: None,
            temp_limit_bytes: temporary.limit_bytes(),
            temporary,
            traffic,
            spill_tablespace: tablespaces.tier(FAR).ok(),
            tablespaces,
            default_tablespace: Placement::Bind(TierId::NEAR),
            temp_tablespaces: None,
            heap_tablespace: TierId::NEAR,
            memory_limit_bytes: None,
            count_accesses: true,
            share_subplans: true,
            narrow_outer_joins: true,
            sorted_windows: true,
            key_joins: true,
            scan_aggregates: true,
            cooperative_scans: true,
            read_ahead: ReadAheadBy::default(),
            group_finest_first: true,
            group_before_joins: true,
            drop_determined_keys: true,
            plan_cache_mode: PlanCacheMode::default(),
            isolation: Isolation::default(),
            lock_timeout: None,
            merge_limits,
            index_workers,
            log,
        }
    }

    /// Where a table goes that names no place.
    pub fn table_placement(&self, temporary: bool) -> &Placement {
        match &self.temp_tablespaces {
            Some(placement) if temporary => placement,
            _ => &self.default_tablespace,
        }
    }

    /// The tier of operator memory.
    pub fn heap_tier(&self) -> TierId {
        self.heap_tablespace
    }

    /// The name of that tier.
    pub fn heap_tier_name(&self) -> String {
        self.tablespaces.name(self.heap_tablespace)
    }

    /// What one query may take, where it is less than what the engine has.
    pub fn memory_limit_bytes(&self) -> Option<u64> {
        self.memory_limit_bytes
    }

    /// The memory of all queries of the session.
    pub fn memory(&self) -> &Arc<SessionMemory> {
        &self.memory
    }

    /// Gives a statement memory of its own, for what it takes beside its operators.
    pub(crate) fn begin_statement(&mut self) {
        let (tier, limit_bytes) = (self.heap_tablespace, self.memory_limit_bytes);
        let memory = self.queries.query(&self.memory, tier, limit_bytes);
        self.statement = Some(StatementMemory::new(memory));
    }

    /// The memory of the statement that these are the settings of, beside that of its operators.
    pub fn statement(&self) -> Option<&Arc<StatementMemory>> {
        self.statement.as_ref()
    }

    /// Whether scans count the accesses of columns and the bytes read from each tier.
    pub fn count_accesses(&self) -> bool {
        self.count_accesses
    }

    /// Whether parts of a statement that are the same are computed once.
    pub fn share_subplans(&self) -> bool {
        self.share_subplans
    }

    /// Whether grouping sets are computed of the finest groups.
    pub fn group_finest_first(&self) -> bool {
        self.group_finest_first
    }

    /// Whether rows are grouped before joins that only add to what they are grouped by.
    pub fn group_before_joins(&self) -> bool {
        self.group_before_joins
    }

    /// Whether rows are not grouped by what other keys determine and nobody reads.
    pub fn drop_determined_keys(&self) -> bool {
        self.drop_determined_keys
    }

    /// Whether outer joins are made inner ones where the joins above allow it.
    pub fn narrow_outer_joins(&self) -> bool {
        self.narrow_outer_joins
    }

    /// Whether windows over sorted rows are Nearfar's own.
    pub fn sorted_windows(&self) -> bool {
        self.sorted_windows
    }

    /// Whether hash joins by integers and the like are Nearfar's own.
    pub fn key_joins(&self) -> bool {
        self.key_joins
    }

    /// Whether aggregates are computed in their scans.
    pub fn scan_aggregates(&self) -> bool {
        self.scan_aggregates
    }

    /// Whether concurrent scans of the same far data read it once.
    pub fn cooperative_scans(&self) -> bool {
        self.cooperative_scans
    }

    /// What brings far columns near ahead of the scans that read them.
    pub fn read_ahead(&self) -> ReadAheadBy {
        self.read_ahead
    }

    /// Has parts of a statement that are the same be computed each for itself.
    pub(crate) fn compute_subplans_apart(&mut self) {
        self.share_subplans = false;
    }

    /// Which queries have generic plans.
    pub fn plan_cache_mode(&self) -> PlanCacheMode {
        self.plan_cache_mode
    }

    /// What transactions read of which nothing else is said.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// How long a statement waits for a row that another transaction is changing; none for as long as it
    /// takes.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.lock_timeout
    }

    /// The memory of the session's temporary tables.
    pub fn temporary(&self) -> &Arc<TemporaryBudget> {
        &self.temporary
    }

    /// Where what the session moves is counted, and limited.
    pub fn traffic(&self) -> &Arc<TrafficAccount> {
        &self.traffic
    }

    /// The tier that operators spill to before they spill to disk: one farther than their heap's.
    pub fn spill_tier(&self) -> Option<TierId> {
        self.spill_tablespace
            .filter(|tier| *tier > self.heap_tablespace)
    }

    /// Gives a setting a value; with `default` or nothing, the value that it had at first.
    fn assign(&mut self, name: &str, value: &str) -> Result<(), EngineError> {
        let setting = own_setting(name).ok_or_else(|| unknown(&format!("{NAMESPACE}{name}")))?;
        if value.is_empty() || value.eq_ignore_ascii_case("default") {
            return (setting.reset)(self);
        }
        let name = setting.name;
        (setting.assign)(self, &Given { name, text: value })
    }
}

impl ConfigExtension for Settings {
    const PREFIX: &'static str = "nearfar";
}

impl ExtensionOptions for Settings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        Ok(self.assign(key, value)?)
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        OWN.iter()
            .map(|setting| ConfigEntry {
                key: format!("{}.{}", Self::PREFIX, setting.name),
                value: Some((setting.show)(self)),
                description: setting.description,
            })
            .collect()
    }
}
