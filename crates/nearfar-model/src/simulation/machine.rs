//! What a simulation needs to know of a machine.

/// Cores, their queues and their prefetchers.
#[derive(Debug, Clone, PartialEq)]
pub struct CoreParameters {
    /// Physical cores; more virtual threads share them two by two.
    pub cores: u32,
    /// L1 fill buffers: demand misses that one core keeps in flight.
    pub fill_buffers: u32,
    /// Entries of the L2 queue: misses of one core in flight, prefetches included.
    pub l2_queue: u32,
    /// Part of the L2 queue that prefetches may fill.
    pub l2_queue_prefetch: u32,
    /// Time from the arrival of a line until its fill buffer serves the next miss.
    pub fill_turnaround_ns: f64,
    /// Further time that a store keeps its fill buffer, until it commits in order.
    pub store_commit_ns: f64,
    /// Lines of loads that the instruction window exposes to the prefetchers beyond the last line
    /// that holds a fill buffer.
    pub load_window_lines: u32,
    /// Consecutive lines of a page after which the streamer prefetches loads.
    pub load_trigger_lines: u32,
    /// Consecutive lines of a page after which the streamer prefetches for stores.
    pub store_trigger_lines: u32,
    /// Lines that the streamer runs ahead.
    pub streamer_distance_lines: u32,
    /// Time of a load that finds its line in L2.
    pub l2_hit_ns: f64,
    /// Time the core spends on each access beside its lines.
    pub access_ns: f64,
    /// Time the core spends on each line.
    pub line_ns: f64,
}

/// One class of memory.
#[derive(Debug, Clone, PartialEq)]
pub struct TierParameters {
    /// Devices over which pages can be interleaved.
    pub devices: u32,
    /// Channels of one device; a line is served by one of them.
    pub channels: u32,
    /// Idle latency of a read, from the core's queue and back.
    pub read_latency_ns: f64,
    /// Idle latency of a write until it is acknowledged.
    pub write_latency_ns: f64,
    /// Lines spread over caching agents near and far: width of the latency's spread.
    pub latency_spread_ns: f64,
    /// Time one device takes per line read.
    pub read_service_ns: f64,
    /// Time one device takes per line written.
    pub write_service_ns: f64,
    /// Growth of the read service time per microsecond of backlog.
    pub backlog_slowdown_per_us: f64,
    /// Spread of service times about their mean, as a part of it.
    pub service_variation: f64,
    /// Time between refreshes.
    pub refresh_interval_ns: f64,
    /// Time a channel is closed for one refresh.
    pub refresh_ns: f64,
}

/// A machine for the simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineParameters {
    /// Cores.
    pub core: CoreParameters,
    /// Entries of the request table that all cores share.
    pub request_table: u32,
    /// Tiers, from near to far.
    pub tiers: Vec<TierParameters>,
}
