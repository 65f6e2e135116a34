//! Latency and bandwidth of tiers.

use std::ffi::c_char;
use std::num::NonZeroU32;

use nearfar_measure::probe::{ProbeOptions, probe_tier};
use nearfar_measure::{Kind, Summary};

use crate::failure::{Failure, Status, guarded, result, text};
use crate::handles::Handle;
use crate::system::{SYSTEMS, tier_of};

/// What was found of a tier: medians of the runs.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ProbeFigures {
    /// Time of one dependent random read.
    pub idle_latency_ns: f64,
    /// Bytes read by all threads together.
    pub read_bandwidth_bytes_per_s: f64,
    /// Bytes written by all threads together.
    pub write_bandwidth_bytes_per_s: f64,
    /// Memory that was probed.
    pub region_bytes: usize,
    /// Threads of the bandwidths.
    pub threads: u32,
    /// Whether a model stands for the memory: such figures are modelled, and the others measured.
    pub is_modelled: bool,
}

/// Probes a tier with so many threads over so many bytes; 0 for as many as the machine suggests.
///
/// # Safety
/// `tier` ends with a zero byte, and `figures` points to figures.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_probe(
    system: Handle,
    tier: *const c_char,
    threads: u32,
    region_bytes: usize,
    figures: *mut ProbeFigures,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let (figures, name) = unsafe { (result(figures, "figures")?, text(tier, "tier")?) };
        let system = SYSTEMS.get(system)?;
        let tier = tier_of(&system, name)?;
        let available = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let threads = NonZeroU32::new(threads).or(NonZeroU32::new(available));
        let mut options = ProbeOptions::for_cache(None, threads.unwrap_or(NonZeroU32::MIN));
        if region_bytes > 0 {
            options.region_bytes = region_bytes;
        }
        let model = system.models.iter().find(|(modelled, _)| modelled == name);
        let model = model.map(|(_, model)| model.as_ref());
        let found = probe_tier(&system.memory, tier, model, &options)
            .map_err(Failure::of(Status::Memory))?;
        let median = |summary: &Summary| summary.median;
        *figures = ProbeFigures {
            idle_latency_ns: median(&found.idle_latency_ns),
            read_bandwidth_bytes_per_s: median(&found.read_bandwidth_bytes_per_s),
            write_bandwidth_bytes_per_s: median(&found.write_bandwidth_bytes_per_s),
            region_bytes: found.region_bytes,
            threads: found.threads,
            is_modelled: found.kind == Kind::Modelled,
        };
        Ok(())
    })
}
