//! Several modelled threads in virtual time: each asks for its chunks and works on them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use nearfar_model::{
    BandwidthShare, Clock, Core, Direction, EmulatedTier, EmulationParameters, Pattern, Stamp,
    VirtualClock,
};

/// A tier of 40 GB/s read and 20 GB/s write, 500 ns, 6.4 GB/s per core, 20 cores.
pub fn parameters() -> EmulationParameters {
    EmulationParameters {
        latency_ns: 500.0,
        near_latency_ns: 150.0,
        read_bandwidth_bytes_per_s: 40e9,
        write_bandwidth_bytes_per_s: 20e9,
        cores: 20,
        outstanding_sequential: 50.0,
        outstanding_random: 16.0,
        cache_bytes: Some(100 << 20),
        copy_engine_bandwidth_bytes_per_s: None,
    }
}

/// A tier in virtual time.
pub struct VirtualTier {
    pub tier: Arc<EmulatedTier>,
    pub clock: Arc<VirtualClock>,
}

impl VirtualTier {
    pub fn new(
        parameters: EmulationParameters,
        share: BandwidthShare,
        clock: &Arc<VirtualClock>,
    ) -> Self {
        let tier = EmulatedTier::with_clock(parameters, share, Arc::clone(clock) as _);
        Self {
            tier: tier.unwrap(),
            clock: Arc::clone(clock),
        }
    }

    /// One of its cores.
    pub fn core(&self) -> Core {
        Core::new(Arc::clone(&self.clock) as _)
    }

    /// When the next `bytes` that `core` reads have arrived.
    pub fn request_read(&self, core: &mut Core, bytes: u64) -> Stamp {
        core.request(&self.tier, Direction::Read, Pattern::Next, bytes)
    }

    pub fn now_ns(&self) -> u64 {
        self.clock.now().as_ns()
    }
}

pub fn tier(parameters: EmulationParameters, share: BandwidthShare) -> VirtualTier {
    VirtualTier::new(parameters, share, &Arc::default())
}

/// What one modelled thread does.
#[derive(Debug, Clone)]
pub struct Actor {
    pub chunk_bytes: u64,
    /// Work on each chunk after it has arrived.
    pub work_ns: u64,
    pub writes: bool,
}

impl Actor {
    pub fn reader(chunk_bytes: u64, work_ns: u64) -> Self {
        Self {
            chunk_bytes,
            work_ns,
            writes: false,
        }
    }
}

/// One delivered chunk.
#[derive(Debug, Clone, Copy)]
pub struct Delivery {
    pub actor: usize,
    pub bytes: u64,
    pub at_ns: u64,
}

/// Runs the actors until `end_ns` and returns their deliveries in the order of the requests.
pub fn run(tier: &VirtualTier, actors: &[Actor], end_ns: u64) -> Vec<Delivery> {
    let mut cores: Vec<Core> = actors.iter().map(|_| tier.core()).collect();
    let mut asks: BinaryHeap<Reverse<(u64, usize)>> =
        (0..actors.len()).map(|actor| Reverse((0, actor))).collect();
    let mut deliveries = Vec::new();
    while let Some(Reverse((now_ns, actor))) = asks.pop() {
        if now_ns >= end_ns {
            break;
        }
        tier.clock.set(Stamp::from_ns(now_ns));
        let Actor {
            chunk_bytes,
            work_ns,
            writes,
        } = actors[actor];
        let direction = match writes {
            true => Direction::Write,
            false => Direction::Read,
        };
        let end = cores[actor].request(&tier.tier, direction, Pattern::Next, chunk_bytes);
        let at_ns = end.as_ns().max(now_ns);
        deliveries.push(Delivery {
            actor,
            bytes: chunk_bytes,
            at_ns,
        });
        asks.push(Reverse((at_ns + work_ns, actor)));
    }
    deliveries
}

/// Bytes per second that `actor` got by `end_ns`.
pub fn rate_bytes_per_s(deliveries: &[Delivery], actor: usize, end_ns: u64) -> f64 {
    let bytes: u64 = deliveries
        .iter()
        .filter(|delivery| delivery.actor == actor && delivery.at_ns <= end_ns)
        .map(|delivery| delivery.bytes)
        .sum();
    bytes as f64 / end_ns as f64 * 1e9
}

pub fn total_rate_bytes_per_s(deliveries: &[Delivery], actors: usize, end_ns: u64) -> f64 {
    (0..actors)
        .map(|actor| rate_bytes_per_s(deliveries, actor, end_ns))
        .sum()
}
