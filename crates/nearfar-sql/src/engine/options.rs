//! What an engine is made with.

use nearfar_memory::{Budgets, OverBudget, PageSize, TierSpec};
use nearfar_topology::{Profile, Topology};

use nearfar_durable::checkpoint::pooled::TablePoolOptions;
use nearfar_durable::log::DataOptions;

/// What an [`Engine`](super::Engine) is made with.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The machine.
    pub topology: Topology,
    /// The machine whose far tier is modelled, if one is.
    pub profile: Option<Profile>,
    /// Threads that run queries.
    pub threads: usize,
    /// Whether these threads get the whole modelled device or their share of it.
    pub whole_device: bool,
    /// Bytes that each tier may hold.
    pub budgets: Budgets,
    /// What to do with a segment that exceeds its tier's budget.
    pub over_budget: OverBudget,
    /// Pages that segments are put on.
    pub page_size: PageSize,
    /// What the operators of all queries may take together. Where it is not given: four fifths of
    /// what tables leave of the budget of the tier that operator memory is on.
    pub memory_limit_bytes: Option<u64>,
    /// What the temporary tables of every session may take; the tiers' budgets where it is not
    /// given.
    pub temp_limit_bytes: Option<u64>,
    /// What may be moved to and from each tier that is not near, in bytes per second, where nothing else
    /// is set; unlimited where it is not given.
    pub far_bandwidth_bytes_per_s: Option<u64>,
    /// Where tables are kept; without it everything is in memory only.
    pub data: Option<DataOptions>,
    /// The pool that main storage is in, so that the next process has it immediately.
    pub pool: Option<TablePoolOptions>,
    /// Tiers of memory of other hosts ([`TierSpec::rdma`]), behind those of the machine: what tables there take and
    /// move is counted on them.
    pub remote_tiers: Vec<TierSpec>,
    /// What is fetched of other hosts and kept near for later queries, at most. It is memory of the near tier like
    /// that of tables, and counts against its budget.
    pub remote_cache_bytes: u64,
}

/// What is kept near of other hosts where nothing else is told.
const REMOTE_CACHE_BYTES: u64 = 256 << 20;

impl EngineOptions {
    /// The defaults for a machine: no modelled tier, as many threads as processors, budgets of the
    /// tiers' capacities, segments over budget refused, base pages.
    pub fn new(topology: Topology) -> Self {
        Self {
            topology,
            profile: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            whole_device: false,
            budgets: Budgets::new(),
            over_budget: OverBudget::Refuse,
            page_size: PageSize::Base,
            memory_limit_bytes: None,
            data: None,
            temp_limit_bytes: None,
            far_bandwidth_bytes_per_s: None,
            pool: None,
            remote_tiers: Vec::new(),
            remote_cache_bytes: REMOTE_CACHE_BYTES,
        }
    }
}

/// What a [`Session`](super::Session) may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// Whether statements that create, change or move tables are refused.
    pub is_read_only: bool,
    /// Whether statements may read and write files of this machine.
    pub may_use_files: bool,
    /// Whether its statements stay on this machine where the engine is part of a cluster.
    pub is_local: bool,
    /// What the operators of all its queries may take together, where that is less than what the
    /// engine has. The session may set itself a lower limit.
    pub memory_limit_bytes: Option<u64>,
}

/// Everything.
impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            is_read_only: false,
            may_use_files: true,
            is_local: false,
            memory_limit_bytes: None,
        }
    }
}
