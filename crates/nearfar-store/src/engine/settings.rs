//! A session's settings, in the namespace `nearfar` of DataFusion's configuration.

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::{DataFusionError, Result};
use nearfar_memory::{Placement, TierId};
use nearfar_topology::FAR;
use std::any::Any;
use std::sync::Arc;

use super::memory::SessionMemory;
use super::tablespaces::Tablespaces;
use crate::durable::{DurabilityError, Log, LogSync};
use crate::error::StoreError;
use crate::placement::parse_bytes;
use crate::sql::{Place, SqlError};
use crate::table::TemporaryBudget;
use crate::transaction::MergeLimits;

/// What `spill_tablespace` is where operators spill to disk alone.
const DISK: &str = "disk";

/// The settings and what they are for. Each has a field of [`Settings`].
const SETTINGS: [(&str, &str); 11] = [
    (
        "default_tablespace",
        "Where tables are put that name no tablespace.",
    ),
    (
        "temp_tablespaces",
        "Where temporary tables are put that name no tablespace; empty for default_tablespace.",
    ),
    (
        "heap_tablespace",
        "Where queries keep hash-join builds, aggregation state and sort runs.",
    ),
    (
        "temp_limit",
        "What the temporary tables of the session may take, such as 2GiB; engine for what the \
         engine gives every session.",
    ),
    (
        "spill_tablespace",
        "Where sorts and aggregations spill whose memory is used up, before they spill to disk; \
         disk for nowhere else.",
    ),
    (
        "memory_limit",
        "What the operators of one query may take, such as 2GiB; engine for what all queries of \
         the engine may take together.",
    ),
    (
        "session_memory_limit",
        "What the operators of all queries of the session may take together, such as 2GiB; engine for \
         what every session is given.",
    ),
    (
        "count_accesses",
        "Whether scans count what they read, by column and by tier.",
    ),
    (
        "merge_rows",
        "Rows that are written to a table before they are merged, or never; for all sessions.",
    ),
    (
        "merge_bytes",
        "Bytes that are written to a table before they are merged, such as 64MiB, or never; for all \
         sessions.",
    ),
    (
        "log_sync",
        "When commits are on disk: on (before they are acknowledged), off, or so often, such as \
         200ms; for all sessions. Empty without a data directory.",
    ),
];

/// The names of the settings, without their namespace.
pub(crate) fn setting_names() -> [&'static str; 11] {
    SETTINGS.map(|(name, _)| name)
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
    temporary: Arc<TemporaryBudget>,
    memory: Arc<SessionMemory>,
    /// What the session is given at first.
    session_memory_bytes: u64,
    /// What the engine gives every session.
    temp_limit_bytes: u64,
    spill_tablespace: Option<TierId>,
    /// Those of the engine.
    merge_limits: MergeLimits,
    /// That of the engine, if it has a data directory.
    log: Option<Arc<Log>>,
}

impl Settings {
    /// Everything near but what is spilled, which goes far where there is a far tier; no limit but
    /// the engine's, and accesses counted.
    pub fn new(
        tablespaces: Tablespaces,
        merge_limits: MergeLimits,
        log: Option<Arc<Log>>,
        temporary: Arc<TemporaryBudget>,
        memory: Arc<SessionMemory>,
    ) -> Self {
        Self {
            session_memory_bytes: memory.limit_bytes(),
            memory,
            temp_limit_bytes: temporary.limit_bytes(),
            temporary,
            spill_tablespace: tablespaces.tier(FAR).ok(),
            tablespaces,
            default_tablespace: Placement::Bind(TierId::NEAR),
            temp_tablespaces: None,
            heap_tablespace: TierId::NEAR,
            memory_limit_bytes: None,
            count_accesses: true,
            merge_limits,
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

    /// The tier of the query heap.
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

    /// Whether scans count the accesses of columns and the bytes read from each tier.
    pub fn count_accesses(&self) -> bool {
        self.count_accesses
    }

    /// The memory of the session's temporary tables.
    pub fn temporary(&self) -> &Arc<TemporaryBudget> {
        &self.temporary
    }

    /// The tier that operators spill to before they spill to disk: one farther than their heap's.
    pub fn spill_tier(&self) -> Option<TierId> {
        self.spill_tablespace
            .filter(|tier| *tier > self.heap_tablespace)
    }

    fn assign(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        let is_default = value.is_empty() || value.eq_ignore_ascii_case("default");
        let place = || {
            self.tablespaces
                .placement(&Place::Tablespace(value.to_lowercase()))
        };
        match key {
            "default_tablespace" if is_default => {
                self.default_tablespace = Placement::Bind(TierId::NEAR);
            }
            "default_tablespace" => self.default_tablespace = place()?,
            "temp_tablespaces" if is_default => self.temp_tablespaces = None,
            "temp_tablespaces" => self.temp_tablespaces = Some(place()?),
            "heap_tablespace" if is_default => self.heap_tablespace = TierId::NEAR,
            "heap_tablespace" => {
                self.heap_tablespace = self.tablespaces.tier(&value.to_lowercase())?;
            }
            "memory_limit" if is_default || value.eq_ignore_ascii_case("engine") => {
                self.memory_limit_bytes = None;
            }
            "memory_limit" => self.memory_limit_bytes = Some(bytes(key, value)?),
            "session_memory_limit" if is_default || value.eq_ignore_ascii_case("engine") => {
                self.memory.set_limit_bytes(self.session_memory_bytes);
            }
            "session_memory_limit" => {
                let limit_bytes = allowed(key, value, self.session_memory_bytes)?;
                self.memory.set_limit_bytes(limit_bytes);
            }
            "temp_limit" if is_default || value.eq_ignore_ascii_case("engine") => {
                self.temporary.set_limit_bytes(self.temp_limit_bytes);
            }
            "temp_limit" => {
                let limit_bytes = allowed(key, value, self.temp_limit_bytes)?;
                self.temporary.set_limit_bytes(limit_bytes);
            }
            "spill_tablespace" if is_default => {
                self.spill_tablespace = self.tablespaces.tier(FAR).ok();
            }
            "spill_tablespace" if value.eq_ignore_ascii_case(DISK) => self.spill_tablespace = None,
            "spill_tablespace" => {
                self.spill_tablespace = Some(self.tablespaces.tier(&value.to_lowercase())?);
            }
            "count_accesses" if is_default => self.count_accesses = true,
            "count_accesses" => self.count_accesses = boolean(key, value)?,
            "merge_rows" if is_default => self.merge_limits.set_rows(MergeLimits::ROWS),
            "merge_rows" => self.merge_limits.set_rows(limit(value, rows(key, value))?),
            "merge_bytes" if is_default => self.merge_limits.set_bytes(MergeLimits::BYTES),
            "merge_bytes" => self
                .merge_limits
                .set_bytes(limit(value, bytes(key, value))?),
            "log_sync" => {
                let log = self.log.as_ref().ok_or(DurabilityError::InMemory)?;
                log.set_sync(match is_default {
                    true => LogSync::default(),
                    false => log_sync(key, value)?,
                });
            }
            _ => {
                return Err(DataFusionError::Configuration(format!(
                    "there is no setting `nearfar.{key}`; there are: {}",
                    setting_names().join(", ")
                ))
                .into());
            }
        }
        Ok(())
    }

    fn value(&self, key: &str) -> String {
        let describe = |placement| self.tablespaces.describe(placement);
        match key {
            "default_tablespace" => describe(&self.default_tablespace),
            "temp_tablespaces" => self
                .temp_tablespaces
                .as_ref()
                .map(describe)
                .unwrap_or_default(),
            "heap_tablespace" => self.tablespaces.name(self.heap_tablespace),
            "temp_limit" => match self.temporary.limit_bytes() {
                TemporaryBudget::UNLIMITED => "engine".to_owned(),
                bytes => format!("{bytes}B"),
            },
            "session_memory_limit" => match self.memory.limit_bytes() {
                SessionMemory::UNLIMITED => "engine".to_owned(),
                bytes => format!("{bytes}B"),
            },
            "spill_tablespace" => self
                .spill_tablespace
                .map_or_else(|| DISK.to_owned(), |tier| self.tablespaces.name(tier)),
            "count_accesses" => self.count_accesses.to_string(),
            "merge_rows" => match self.merge_limits.rows() {
                MergeLimits::NEVER => "never".to_owned(),
                rows => rows.to_string(),
            },
            "merge_bytes" => match self.merge_limits.bytes() {
                MergeLimits::NEVER => "never".to_owned(),
                bytes => format!("{bytes}B"),
            },
            "log_sync" => {
                let sync = self.log.as_ref().map(|log| log.sync_setting().to_string());
                sync.unwrap_or_default()
            }
            _ => match self.memory_limit_bytes {
                Some(bytes) => format!("{bytes}B"),
                None => "engine".to_owned(),
            },
        }
    }
}

/// `value` as a limit, where it is not above what the engine gives.
fn allowed(name: &str, value: &str, given_bytes: u64) -> Result<u64, SqlError> {
    let limit_bytes = bytes(name, value)?;
    match limit_bytes <= given_bytes {
        true => Ok(limit_bytes),
        false => Err(SqlError::SettingValue {
            name: name.to_owned(),
            value: value.to_owned(),
            allowed: format!("the engine allows {given_bytes}B"),
        }),
    }
}

/// `never`, or what `value` was read as.
fn limit(value: &str, read: Result<u64, SqlError>) -> Result<u64, SqlError> {
    if value.eq_ignore_ascii_case("never") {
        return Ok(MergeLimits::NEVER);
    }
    read.map_err(|mut error| {
        if let SqlError::SettingValue { allowed, .. } = &mut error {
            allowed.push_str(", or never");
        }
        error
    })
}

fn rows(name: &str, value: &str) -> Result<u64, SqlError> {
    let rows = value.parse().ok().filter(|rows| *rows > 0);
    rows.ok_or_else(|| SqlError::SettingValue {
        name: name.to_owned(),
        value: value.to_owned(),
        allowed: "use a number of rows above 0".to_owned(),
    })
}

fn bytes(name: &str, value: &str) -> Result<u64, SqlError> {
    parse_bytes(value)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| SqlError::SettingValue {
            name: name.to_owned(),
            value: value.to_owned(),
            allowed: "use a number of bytes with its unit, such as 512MiB or 2GiB".to_owned(),
        })
}

fn log_sync(name: &str, value: &str) -> Result<LogSync, SqlError> {
    value.parse().map_err(|_| SqlError::SettingValue {
        name: name.to_owned(),
        value: value.to_owned(),
        allowed: "use on, off, or a time such as 200ms or 5s".to_owned(),
    })
}

/// The words that PostgreSQL takes.
fn boolean(name: &str, value: &str) -> Result<bool, SqlError> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(SqlError::SettingValue {
            name: name.to_owned(),
            value: value.to_owned(),
            allowed: "use on or off".to_owned(),
        }),
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
        SETTINGS
            .iter()
            .map(|(name, description)| ConfigEntry {
                key: format!("{}.{name}", Self::PREFIX),
                value: Some(self.value(name)),
                description,
            })
            .collect()
    }
}
