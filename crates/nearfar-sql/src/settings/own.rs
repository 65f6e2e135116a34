//! The settings of Nearfar, in one table: what each is for, whose it is, and how it is set and shown.

use nearfar_memory::{Placement, TierId};
use nearfar_topology::FAR;

use super::isolation::{DEFAULT_ISOLATION, isolation_name};
use super::plan_cache::PlanCacheMode;
use super::read_ahead::ReadAheadBy;
use super::value::Given;
use super::{Scope, Settings};
use crate::error::EngineError;
use crate::memory::SessionMemory;
use nearfar_durable::error::DurabilityError;
use nearfar_durable::log::LogSync;
use nearfar_table::placement::{IndexWorkers, TemporaryBudget};
use nearfar_table::traffic::TrafficAccount;
use nearfar_table::transaction::{Isolation, MergeLimits};

/// What `spill_tablespace` is where operators spill to disk alone.
const DISK: &str = "disk";
/// What limits are that are no lower than the engine's.
const ENGINE: &str = "engine";
/// What limits are that nothing reaches.
const NEVER: &str = "never";
/// What a bandwidth is that nobody is held to.
const UNLIMITED: &str = "unlimited";

/// A setting of Nearfar.
pub struct OwnSetting {
    /// Its name, without its namespace.
    pub name: &'static str,
    /// What it is for.
    pub description: &'static str,
    /// Whose it is.
    pub scope: Scope,
    /// Reads and keeps a value.
    pub assign: fn(&mut Settings, &Given<'_>) -> Result<(), EngineError>,
    /// Gives it the value that it had at first.
    pub reset: fn(&mut Settings) -> Result<(), EngineError>,
    /// Its value as text, which `assign` reads.
    pub show: fn(&Settings) -> String,
}

/// A setting of sessions that is on at first, with the name of its field.
macro_rules! switch {
    ($field:ident, $description:literal) => {
        OwnSetting {
            name: stringify!($field),
            description: $description,
            scope: Scope::Session,
            assign: |settings, given| {
                settings.$field = given.boolean()?;
                Ok(())
            },
            reset: |settings| {
                settings.$field = true;
                Ok(())
            },
            show: |settings| settings.$field.to_string(),
        }
    };
}

/// All of them.
pub const OWN: [OwnSetting; 28] = [
    OwnSetting {
        name: "default_tablespace",
        description: "Where tables are put that name no tablespace.",
        scope: Scope::Session,
        assign: |settings, given| {
            settings.default_tablespace = given.placement(&settings.tablespaces)?;
            Ok(())
        },
        reset: |settings| {
            settings.default_tablespace = Placement::Bind(TierId::NEAR);
            Ok(())
        },
        show: |settings| settings.tablespaces.describe(&settings.default_tablespace),
    },
    OwnSetting {
        name: "temp_tablespaces",
        description: "Where temporary tables are put that name no tablespace; empty for \
                      default_tablespace.",
        scope: Scope::Session,
        assign: |settings, given| {
            settings.temp_tablespaces = Some(given.placement(&settings.tablespaces)?);
            Ok(())
        },
        reset: |settings| {
            settings.temp_tablespaces = None;
            Ok(())
        },
        show: |settings| {
            let placement = settings.temp_tablespaces.as_ref();
            let described = placement.map(|placement| settings.tablespaces.describe(placement));
            described.unwrap_or_default()
        },
    },
    OwnSetting {
        name: "heap_tablespace",
        description: "Where queries keep hash-join builds, aggregation state and sort runs.",
        scope: Scope::Session,
        assign: |settings, given| {
            settings.heap_tablespace = given.heap_tier(&settings.tablespaces)?;
            Ok(())
        },
        reset: |settings| {
            settings.heap_tablespace = TierId::NEAR;
            Ok(())
        },
        show: |settings| settings.tablespaces.name(settings.heap_tablespace),
    },
    OwnSetting {
        name: "temp_limit",
        description: "What the temporary tables of the session may take, such as 2GiB; engine \
                      for what the engine gives every session.",
        scope: Scope::Session,
        assign: |settings, given| {
            let given_bytes = settings.temp_limit_bytes;
            let limit_bytes =
                given.word_or(ENGINE, given_bytes, |given| given.at_most(given_bytes));
            settings.temporary.set_limit_bytes(limit_bytes?);
            Ok(())
        },
        reset: |settings| {
            settings
                .temporary
                .set_limit_bytes(settings.temp_limit_bytes);
            Ok(())
        },
        show: |settings| limit_text(settings.temporary.limit_bytes(), TemporaryBudget::UNLIMITED),
    },
    OwnSetting {
        name: "spill_tablespace",
        description: "Where sorts and aggregations spill whose memory is used up, before they \
                      spill to disk; disk for nowhere else.",
        scope: Scope::Session,
        assign: |settings, given| {
            settings.spill_tablespace = given.word_or(DISK, None, |given| {
                given.tier(&settings.tablespaces).map(Some)
            })?;
            Ok(())
        },
        reset: |settings| {
            settings.spill_tablespace = settings.tablespaces.tier(FAR).ok();
            Ok(())
        },
        show: |settings| match settings.spill_tablespace {
            Some(tier) => settings.tablespaces.name(tier),
            None => DISK.to_owned(),
        },
    },
    OwnSetting {
        name: "memory_limit",
        description: "What the operators of one query may take, such as 2GiB; engine for what \
                      all queries of the engine may take together.",
        scope: Scope::Session,
        assign: |settings, given| {
            settings.memory_limit_bytes =
                given.word_or(ENGINE, None, |given| given.bytes().map(Some))?;
            Ok(())
        },
        reset: |settings| {
            settings.memory_limit_bytes = None;
            Ok(())
        },
        show: |settings| match settings.memory_limit_bytes {
            Some(bytes) => format!("{bytes}B"),
            None => ENGINE.to_owned(),
        },
    },
    OwnSetting {
        name: "session_memory_limit",
        description: "What the operators of all queries of the session may take together, such \
                      as 2GiB; engine for what every session is given.",
        scope: Scope::Session,
        assign: |settings, given| {
            let given_bytes = settings.session_memory_bytes;
            let limit_bytes =
                given.word_or(ENGINE, given_bytes, |given| given.at_most(given_bytes));
            settings.memory.set_limit_bytes(limit_bytes?);
            Ok(())
        },
        reset: |settings| {
            settings
                .memory
                .set_limit_bytes(settings.session_memory_bytes);
            Ok(())
        },
        show: |settings| limit_text(settings.memory.limit_bytes(), SessionMemory::UNLIMITED),
    },
    switch!(
        count_accesses,
        "Whether scans count what they read, by column and by tier."
    ),
    switch!(
        share_subplans,
        "Whether parts of a statement that are the same, such as a view that it names \
         twice, are computed once."
    ),
    switch!(
        cooperative_scans,
        "Whether scans of the same far data that run concurrently read it once."
    ),
    OwnSetting {
        name: "read_ahead",
        description: "What brings far columns near ahead of the scans that read them: with auto the \
                      engines of an emulated machine that copy while cores work, where they keep \
                      up; with cached, non-temporal, movdir64b or idxd threads, by that; with off \
                      nothing.",
        scope: Scope::Session,
        assign: |settings, given| {
            settings.read_ahead = given.read_ahead()?;
            Ok(())
        },
        reset: |settings| {
            settings.read_ahead = ReadAheadBy::default();
            Ok(())
        },
        show: |settings| settings.read_ahead.name().to_owned(),
    },
    switch!(
        group_finest_first,
        "Whether ROLLUP, CUBE and GROUPING SETS are computed of the finest groups, not \
         of all rows."
    ),
    switch!(
        group_before_joins,
        "Whether rows are grouped by the keys of joins before these, where joins only add \
         to what they are grouped by."
    ),
    switch!(
        drop_determined_keys,
        "Whether rows are not grouped by keys that nobody reads and that other keys \
         determine."
    ),
    switch!(
        key_joins,
        "Whether hash joins by integers, dates, times and decimals are Nearfar's own."
    ),
    switch!(
        scan_aggregates,
        "Whether sums, counts and extremes of few groups are computed in the scans of \
         their rows."
    ),
    switch!(
        narrow_outer_joins,
        "Whether outer joins are made inner ones where a join above finds nothing for \
         their rows without a partner."
    ),
    switch!(
        sorted_windows,
        "Whether windows over sorted rows are evaluated by Nearfar, all partitions of a batch at a \
         time."
    ),
    OwnSetting {
        name: "plan_cache_mode",
        description: "Whether a query that runs again is optimized again: with auto those with \
                      parameters, but for short ones; with force_custom_plan all; with \
                      force_generic_plan none.",
        scope: Scope::Session,
        assign: |settings, given| {
            settings.plan_cache_mode = given.plan_cache_mode()?;
            Ok(())
        },
        reset: |settings| {
            settings.plan_cache_mode = PlanCacheMode::default();
            Ok(())
        },
        show: |settings| settings.plan_cache_mode.name().to_owned(),
    },
    OwnSetting {
        name: DEFAULT_ISOLATION,
        description: "What transactions read of which BEGIN says nothing else: read committed, \
                      or repeatable read.",
        scope: Scope::Session,
        assign: |settings, given| {
            settings.isolation = given.isolation()?;
            Ok(())
        },
        reset: |settings| {
            settings.isolation = Isolation::default();
            Ok(())
        },
        show: |settings| isolation_name(settings.isolation).to_owned(),
    },
    OwnSetting {
        name: "lock_timeout",
        description: "How long a statement waits for a row that another transaction is changing, \
                      such as 500ms or 5s; a number alone is milliseconds, and 0 is for as long \
                      as it takes.",
        scope: Scope::Session,
        assign: |settings, given| {
            let timeout = given.time()?;
            settings.lock_timeout = (!timeout.is_zero()).then_some(timeout);
            Ok(())
        },
        reset: |settings| {
            settings.lock_timeout = None;
            Ok(())
        },
        show: |settings| match settings.lock_timeout {
            Some(timeout) => format!("{}ms", timeout.as_millis()),
            None => "0".to_owned(),
        },
    },
    OwnSetting {
        name: "far_bandwidth_percent",
        description: "The most of far_bandwidth that the session takes, from 1 to 100.",
        scope: Scope::Session,
        assign: |settings, given| {
            let most = u64::from(TrafficAccount::PERCENT);
            settings.traffic.set_percent(given.count(1, most)? as u8);
            Ok(())
        },
        reset: |settings| {
            settings.traffic.set_percent(TrafficAccount::PERCENT);
            Ok(())
        },
        show: |settings| settings.traffic.percent().to_string(),
    },
    OwnSetting {
        name: "far_bandwidth",
        description: "What scans, loads, merges, moves and spills may move to and from each tier that \
                      is not near, such as 2GB/s, or unlimited; for all sessions.",
        scope: Scope::Shared,
        assign: |settings, given| {
            let limit = given.word_or(UNLIMITED, None, |given| given.bandwidth().map(Some))?;
            settings.traffic.traffic().set_limit(limit);
            Ok(())
        },
        reset: |settings| {
            let traffic = settings.traffic.traffic();
            traffic.set_limit(traffic.limit_at_first());
            Ok(())
        },
        show: |settings| match settings.traffic.traffic().limit_set() {
            Some(bytes_per_s) => format!("{bytes_per_s}B/s"),
            None => UNLIMITED.to_owned(),
        },
    },
    OwnSetting {
        name: "merge_rows",
        description: "Rows that are written to a table before they are merged, or never; for all \
                      sessions.",
        scope: Scope::Shared,
        assign: |settings, given| {
            let rows = given.word_or(NEVER, MergeLimits::NEVER, Given::rows)?;
            settings.merge_limits.set_rows(rows);
            Ok(())
        },
        reset: |settings| {
            settings.merge_limits.set_rows(MergeLimits::ROWS);
            Ok(())
        },
        show: |settings| match settings.merge_limits.rows() {
            MergeLimits::NEVER => NEVER.to_owned(),
            rows => rows.to_string(),
        },
    },
    OwnSetting {
        name: "merge_bytes",
        description: "Bytes that are written to a table before they are merged, such as 64MiB, \
                      or never; for all sessions.",
        scope: Scope::Shared,
        assign: |settings, given| {
            let bytes = given.word_or(NEVER, MergeLimits::NEVER, Given::bytes)?;
            settings.merge_limits.set_bytes(bytes);
            Ok(())
        },
        reset: |settings| {
            settings.merge_limits.set_bytes(MergeLimits::BYTES);
            Ok(())
        },
        show: |settings| match settings.merge_limits.bytes() {
            MergeLimits::NEVER => NEVER.to_owned(),
            bytes => format!("{bytes}B"),
        },
    },
    OwnSetting {
        name: "log_sync",
        description: "When commits are on disk: on (before they are acknowledged), off, or so \
                      often, such as 200ms; for all sessions. Empty without a data directory.",
        scope: Scope::Shared,
        assign: |settings, given| {
            let log = settings.log.as_ref().ok_or(DurabilityError::InMemory)?;
            log.set_sync(given.log_sync()?);
            Ok(())
        },
        reset: |settings| {
            let log = settings.log.as_ref().ok_or(DurabilityError::InMemory)?;
            log.set_sync(LogSync::default());
            Ok(())
        },
        show: |settings| {
            let sync = settings.log.as_ref();
            sync.map(|log| log.sync_setting().to_string())
                .unwrap_or_default()
        },
    },
    OwnSetting {
        name: "index_workers",
        description: "Threads that move nodes of indexes between tiers, from 0 to 64; for all \
                      sessions.",
        scope: Scope::Shared,
        assign: |settings, given| {
            let count = given.count(0, IndexWorkers::COUNT_MAX as u64)?;
            settings.index_workers.set_count(count as usize);
            Ok(())
        },
        reset: |settings| {
            settings.index_workers.set_count(IndexWorkers::COUNT);
            Ok(())
        },
        show: |settings| settings.index_workers.count().to_string(),
    },
    OwnSetting {
        name: "index_worker_percent",
        description: "The most of a processor that each of these threads takes, from 1 to 100; for \
                      all sessions.",
        scope: Scope::Shared,
        assign: |settings, given| {
            let percent = given.count(1, 100)?;
            settings.index_workers.set_percent(percent as u8);
            Ok(())
        },
        reset: |settings| {
            settings.index_workers.set_percent(IndexWorkers::PERCENT);
            Ok(())
        },
        show: |settings| settings.index_workers.percent().to_string(),
    },
];

fn limit_text(limit_bytes: u64, unlimited: u64) -> String {
    match limit_bytes == unlimited {
        true => ENGINE.to_owned(),
        false => format!("{limit_bytes}B"),
    }
}
