//! Idle latency and sequential bandwidth of one tier.
//!
//! | figure | how |
//! |---|---|
//! | idle latency | one thread follows a random cycle of dependent 8-byte reads, each on a line of its own, over memory far larger than the last-level cache |
//! | read bandwidth | every thread reads its own part of the memory from end to end, over and over, with the widest vectors of the machine |
//! | write bandwidth | the same with ordinary stores; counted are the bytes stored, not the lines fetched for them |
//!
//! The set-up follows the micro-benchmarks of weisgut-2025 (sections 4.2 and 4.4) with larger
//! chunks. Each figure is repeated and given as median, smallest and largest run. Runs in which a
//! thread had to wait for a processor are repeated, and what it waited is not counted; only the
//! modelled bandwidths are left as they are, because a link does not stop for a thread that waits.
//! Threads run where the scheduler puts them: on a machine with several sockets, start the process
//! bound to the socket of interest.
//!
//! For a modelled tier, the same kernels run once as they are, which gives what the machine has,
//! and once delayed by the [`EmulatedTier`]; a [`Check`] per figure says whether the profile was
//! found.

mod bandwidth;
mod chase;
#[allow(unsafe_code)]
mod kernels;
mod latency;
mod metrics;
mod verdict;
mod waiting;

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use nearfar_memory::{
    MemorySystem, OverBudget, PageSize, Placement, Region, RegionError, RegionOptions, TierId,
};
use nearfar_model::EmulatedTier;
use nearfar_topology::Known;

use self::bandwidth::Bandwidth;
use self::chase::Chain;
pub use self::kernels::AccessKernel;
pub use self::verdict::{Check, TOLERANCE, Verdict};
use self::waiting::Runs;
pub use self::waiting::Waiting;
use crate::results::Kind;
use crate::statistics::Summary;

/// Bytes that a thread reads or writes between two looks at the clock, and between two calls of
/// the model. Also the least memory per thread.
const CHUNK_BYTES: usize = 64 << 10;

/// How a tier is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeOptions {
    /// Memory to probe. Several times the last-level cache, or the cache is what is probed.
    pub region_bytes: usize,
    /// Threads of the bandwidth figures. The latency is always that of one thread.
    pub threads: NonZeroU32,
    /// Runs per figure.
    pub runs: NonZeroU32,
    /// Length of one run.
    pub run_time: Duration,
    /// Seed of the random order of the latency figure.
    pub seed: u64,
}

impl ProbeOptions {
    /// Options for a machine whose last-level cache has `cache_bytes` (64 MiB are assumed where it
    /// is unknown): four times the cache, but 256 MiB to 8 GiB; five runs of 20 ms each.
    ///
    /// More is not better: beyond some GiB, translations of 2 MiB pages begin to miss their own
    /// caches, and that would be measured too.
    pub fn for_cache(cache_bytes: Option<u64>, threads: NonZeroU32) -> Self {
        let wanted_bytes = cache_bytes.unwrap_or(64 << 20).saturating_mul(4);
        Self {
            region_bytes: wanted_bytes.clamp(256 << 20, 8 << 30) as usize,
            threads,
            runs: NonZeroU32::MIN.saturating_add(4),
            run_time: Duration::from_millis(20),
            seed: 1,
        }
    }

    /// Whether `bytes` of memory suffice.
    fn check(&self, bytes: usize) -> Result<(), ProbeError> {
        let threads = self.threads.get();
        let bytes_min = threads as usize * CHUNK_BYTES;
        if bytes < bytes_min {
            return Err(ProbeError::TooSmall {
                bytes,
                threads,
                bytes_min,
            });
        }
        Ok(())
    }
}

/// Why a tier was not probed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The memory does not suffice for the threads and chunks asked for.
    #[error(
        "cannot probe {bytes} bytes with {threads} threads: at least {bytes_min} bytes are needed"
    )]
    TooSmall {
        /// Memory given.
        bytes: usize,
        /// Threads asked for.
        threads: u32,
        /// Memory that these threads need.
        bytes_min: usize,
    },
    /// The system gives no more threads.
    #[error("cannot start {threads} threads, ask for fewer: {source}")]
    Thread {
        /// Threads asked for.
        threads: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The tier gives no memory to probe.
    #[error("cannot probe tier {tier}: {source}")]
    Region {
        /// Name of the tier.
        tier: String,
        /// Why.
        #[source]
        source: RegionError,
    },
}

/// What was found of one tier.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeResult {
    /// [`Kind::Modelled`] for an emulated tier, else [`Kind::Measured`].
    pub kind: Kind,
    /// Time of one dependent random read.
    pub idle_latency_ns: Summary,
    /// Bytes read by all threads together.
    pub read_bandwidth_bytes_per_s: Summary,
    /// Bytes stored by all threads together.
    pub write_bandwidth_bytes_per_s: Summary,
    /// For an emulated tier: the figures beside the profile's and the machine's own.
    pub checks: Option<ProfileChecks>,
    /// How much of the memory lies in huge pages.
    pub huge_page_bytes: Known<u64>,
    /// Share of its run that a thread spent waiting for a processor, in the worst run that was
    /// kept. Above a few per cent, another process disturbed the figures.
    pub waited_share: Known<f64>,
    /// Memory that was probed.
    pub region_bytes: usize,
    /// Threads of the bandwidth figures.
    pub threads: u32,
    /// Instructions of the bandwidth figures.
    pub kernel: &'static str,
}

/// The figures of an emulated tier beside the profile's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProfileChecks {
    /// Idle latency, in ns.
    pub idle_latency_ns: Check,
    /// Read bandwidth, in bytes per second.
    pub read_bandwidth_bytes_per_s: Check,
    /// Write bandwidth, in bytes per second.
    pub write_bandwidth_bytes_per_s: Check,
}

impl ProfileChecks {
    /// The three checks with the names of their figures.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Check)> {
        [
            ("idle_latency_ns", &self.idle_latency_ns),
            (
                "read_bandwidth_bytes_per_s",
                &self.read_bandwidth_bytes_per_s,
            ),
            (
                "write_bandwidth_bytes_per_s",
                &self.write_bandwidth_bytes_per_s,
            ),
        ]
        .into_iter()
    }

    /// Whether the emulation did what it could for every figure.
    pub fn are_sound(&self) -> bool {
        self.iter().all(|(_, check)| check.verdict.is_sound())
    }
}

/// One set of figures, with or without delays.
#[derive(Debug, Clone, Copy)]
struct Figures {
    latency_ns: Runs,
    read_bytes_per_s: Runs,
    write_bytes_per_s: Runs,
}

/// Probes `tier` over a region of huge pages, of `options.region_bytes` or half of what the tier's
/// budget has left, whichever is less. With `emulated`, finds what the model makes of it.
///
/// # Errors
/// [`ProbeError::Region`] where the tier does not give the memory; [`ProbeError::TooSmall`] where
/// its budget does not suffice; [`ProbeError::Thread`] where the threads cannot be started.
pub fn probe_tier(
    system: &Arc<MemorySystem>,
    tier: TierId,
    emulated: Option<&EmulatedTier>,
    options: &ProbeOptions,
) -> Result<ProbeResult, ProbeError> {
    let available_bytes = system.usage(tier).available_bytes() / 2;
    let bytes = options
        .region_bytes
        .min(usize::try_from(available_bytes).unwrap_or(usize::MAX));
    options.check(bytes)?;
    let region_options = RegionOptions {
        page_size: PageSize::Huge,
        over_budget: OverBudget::Refuse,
    };
    let placement = Placement::Bind(tier);
    let mut region =
        Region::allocate(system, bytes, &placement, region_options).map_err(|source| {
            ProbeError::Region {
                tier: system.info(tier).name.clone(),
                source,
            }
        })?;
    let huge_page_bytes = match region.huge_page_bytes() {
        Ok(bytes) => Known::Value(bytes as u64),
        Err(error) => Known::unavailable(error.to_string()),
    };
    let result = probe_memory(region.as_mut_slice(), emulated, options)?;
    Ok(ProbeResult {
        huge_page_bytes,
        ..result
    })
}

/// Probes `memory`, whose contents are lost. With `emulated`, finds what the model makes of it.
///
/// # Errors
/// [`ProbeError::TooSmall`] for memory of less than 64 KiB per thread; [`ProbeError::Thread`] where
/// the threads cannot be started.
pub fn probe_memory(
    memory: &mut [u8],
    emulated: Option<&EmulatedTier>,
    options: &ProbeOptions,
) -> Result<ProbeResult, ProbeError> {
    options.check(memory.len())?;
    let threads = options.threads.get();
    let mut take = |emulated| {
        Figures::take(memory, emulated, options)
            .map_err(|source| ProbeError::Thread { threads, source })
    };
    let machine = take(None)?;
    let modelled = match emulated {
        Some(tier) => Some((tier, take(emulated)?)),
        None => None,
    };
    let found = modelled.map_or(machine, |(_, figures)| figures);
    Ok(ProbeResult {
        kind: if emulated.is_some() {
            Kind::Modelled
        } else {
            Kind::Measured
        },
        idle_latency_ns: found.latency_ns.figure,
        read_bandwidth_bytes_per_s: found.read_bytes_per_s.figure,
        write_bandwidth_bytes_per_s: found.write_bytes_per_s.figure,
        checks: modelled.map(|(tier, figures)| check(tier, &figures, &machine, threads)),
        huge_page_bytes: Known::unavailable("only asked of regions"),
        waited_share: match found.waited_share() {
            Some(share) => Known::Value(share),
            None => Known::unavailable("the kernel does not tell how long threads wait"),
        },
        region_bytes: memory.len(),
        threads,
        kernel: AccessKernel::widest().name(),
    })
}

impl Figures {
    fn take(
        memory: &mut [u8],
        emulated: Option<&EmulatedTier>,
        options: &ProbeOptions,
    ) -> io::Result<Self> {
        let bandwidth = Bandwidth {
            kernel: AccessKernel::widest(),
            emulated,
            options,
        };
        // Writes first: they would destroy the chain. Reads before the latency: they sweep the
        // chain, just written, out of the caches.
        let write_bytes_per_s =
            Runs::take(options.runs, |attempt| bandwidth.write(memory, attempt))?;
        let mut chain = Chain::build(memory, options.seed);
        let whole = chain.memory();
        let read_bytes_per_s = Runs::take(options.runs, |attempt| bandwidth.read(whole, attempt))?;
        let latency_ns = Runs::take(options.runs, |_| {
            io::Result::Ok(latency::idle_ns(&mut chain, emulated, options.run_time))
        })?;
        Ok(Self {
            latency_ns,
            read_bytes_per_s,
            write_bytes_per_s,
        })
    }

    /// The largest of the three figures' waited shares.
    fn waited_share(&self) -> Option<f64> {
        let latency = self.latency_ns.waited_share?;
        let read = self.read_bytes_per_s.waited_share?;
        Some(latency.max(read).max(self.write_bytes_per_s.waited_share?))
    }
}

fn check(tier: &EmulatedTier, found: &Figures, machine: &Figures, threads: u32) -> ProfileChecks {
    let cores_bytes_per_s = tier.core_bandwidth_bytes_per_s() * f64::from(threads);
    ProfileChecks {
        idle_latency_ns: Check::latency(
            &found.latency_ns,
            &machine.latency_ns,
            tier.read_latency_ns(),
            latency::clock_ns(tier),
        ),
        read_bandwidth_bytes_per_s: Check::bandwidth(
            &found.read_bytes_per_s,
            &machine.read_bytes_per_s,
            tier.read_bandwidth_bytes_per_s().min(cores_bytes_per_s),
        ),
        write_bandwidth_bytes_per_s: Check::bandwidth(
            &found.write_bytes_per_s,
            &machine.write_bytes_per_s,
            tier.write_bandwidth_bytes_per_s().min(cores_bytes_per_s),
        ),
    }
}
