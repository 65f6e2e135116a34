//! The regions of a run.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearfar_memory::{MemorySystem, OverBudget, Region, RegionOptions, Verification};

use super::ExecuteError;
use crate::access::kernels::{Chain, Operation, Target};
use crate::access::outcome::RegionFacts;
use crate::access::plan::{PlannedPlacement, PlannedRegion, PlannedRun};
use crate::probe::AccessKernel;

/// Word that regions are filled with before they are read.
const FILL: u64 = 0x0123_4567_89AB_CDEF;

/// Bytes that are filled between two looks at whether the user wants to stop.
const FILLED_AT_ONCE_BYTES: usize = 16 << 20;

/// Time between two looks at whether a region is there, or the user wants to stop.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Memory of the run in progress. Regions that the next run needs alike are kept.
#[derive(Default)]
pub(super) struct Memory {
    regions: Vec<Prepared>,
}

struct Prepared {
    region: Region,
    planned: PlannedRegion,
    /// The seed of the chain in it.
    chain: Option<u64>,
}

/// What a thread accesses.
#[derive(Debug, Clone, Copy)]
pub(super) enum Accessed<'a> {
    Plain(Target<'a>),
    Chain(Chain<'a>),
}

impl Memory {
    /// Gets the regions of `run`, filled, as it needs them; false if it was stopped.
    pub(super) fn prepare(
        &mut self,
        system: &Arc<MemorySystem>,
        run: &PlannedRun,
        stop: &AtomicBool,
    ) -> Result<bool, ExecuteError> {
        let mut old = std::mem::take(&mut self.regions);
        for (index, planned) in run.regions.iter().enumerate() {
            let chain = is_chased(run, index).then_some(run.spec.seed);
            let same = old.iter().position(|old| old.planned == *planned);
            let mut prepared = match same {
                Some(at) => old.swap_remove(at),
                None => {
                    // The old ones are needed no more, and may be in the way.
                    old.clear();
                    match allocate(system, run, index, stop)? {
                        Some(allocated) => allocated,
                        None => return Ok(false),
                    }
                }
            };
            if prepared.chain != chain || (same.is_none() && chain.is_none()) {
                if !fill(prepared.region.as_mut_slice(), chain, stop) {
                    return Ok(false);
                }
                prepared.chain = chain;
            }
            self.regions.push(prepared);
        }
        Ok(true)
    }

    /// Gives the regions to `work`, which accesses them from several threads.
    pub(super) fn with_targets<T>(
        &mut self,
        work: impl FnOnce(&[Accessed<'_>], &Tiers<'_>) -> T,
    ) -> T {
        // A pointer for the kernels is taken first, and places are asked of the regions meanwhile:
        // layouts are copied, so that nothing borrows a region that is accessed.
        let layouts: Vec<Vec<u64>> = self.regions.iter().map(modelled_pages).collect();
        let page_bytes: Vec<usize> = self
            .regions
            .iter()
            .map(|prepared| prepared.region.page_bytes())
            .collect();
        let targets: Vec<Accessed<'_>> = self
            .regions
            .iter_mut()
            .map(|prepared| {
                let memory = prepared.region.as_mut_slice();
                match prepared.chain {
                    Some(_) => Accessed::Chain(Chain::existing(memory)),
                    None => Accessed::Plain(Target::new(memory)),
                }
            })
            .collect();
        work(
            &targets,
            &Tiers {
                layouts: &layouts,
                page_bytes: &page_bytes,
            },
        )
    }

    /// Asks the kernel where all pages are; what it says if some lie elsewhere than they should.
    pub(super) fn misplaced(&self) -> Option<String> {
        let regions = self.regions.iter();
        regions
            .filter(|prepared| prepared.region.verification() == Verification::Verified)
            .find_map(|prepared| {
                prepared
                    .region
                    .verify()
                    .err()
                    .map(|error| error.to_string())
            })
    }

    /// What is known of the regions.
    pub(super) fn facts(&self) -> Vec<RegionFacts> {
        let facts = |prepared: &Prepared| RegionFacts {
            verification: match prepared.region.verification() {
                Verification::Verified => "verified".to_owned(),
                Verification::Unverified { reason } => format!("unverified: {reason}"),
                _ => "unknown".to_owned(),
            },
            huge_page_bytes: prepared.region.huge_page_bytes().ok(),
        };
        self.regions.iter().map(facts).collect()
    }
}

fn is_chased(run: &PlannedRun, region: usize) -> bool {
    run.spec
        .tasks
        .iter()
        .flat_map(|task| &task.steps)
        .any(|step| step.operation == Operation::Chase && step.regions.contains(&region))
}

/// Gets a region; `None` if it was stopped. The kernel takes seconds for the pages of a large one,
/// so they are asked for on a thread that is left to itself then, and gives them back.
fn allocate(
    system: &Arc<MemorySystem>,
    run: &PlannedRun,
    index: usize,
    stop: &AtomicBool,
) -> Result<Option<Prepared>, ExecuteError> {
    let planned = run.regions[index].clone();
    let PlannedPlacement::Memory(placement) = planned.placement.clone() else {
        unreachable!("a plan for memory places regions in memory");
    };
    let options = RegionOptions {
        page_size: planned.page_size,
        over_budget: OverBudget::Refuse,
    };
    let system = Arc::clone(system);
    let bytes = planned.bytes;
    let allocation =
        std::thread::spawn(move || Region::allocate(&system, bytes, &placement, options));
    while !allocation.is_finished() {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    let region = allocation
        .join()
        .unwrap_or_else(|panic| resume_unwind(panic));
    let region = region.map_err(|source| ExecuteError::Region {
        run: run.id(),
        region: run.spec.regions[index].name.clone(),
        source: Box::new(source),
    })?;
    Ok(Some(Prepared {
        region,
        planned,
        chain: None,
    }))
}

/// Fills a region or builds a chain in it; false if it was stopped.
fn fill(memory: &mut [u8], chain: Option<u64>, stop: &AtomicBool) -> bool {
    if let Some(seed) = chain {
        return Chain::build(memory, seed, stop).is_some();
    }
    for part in memory.chunks_mut(FILLED_AT_ONCE_BYTES) {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        AccessKernel::widest().write(part, FILL);
    }
    true
}

/// Bytes on modelled tiers before each page: one sum more than there are pages.
fn modelled_pages(prepared: &Prepared) -> Vec<u64> {
    if !prepared.planned.is_modelled {
        return Vec::new();
    }
    let region = &prepared.region;
    let system = region.system();
    let mut sums = vec![0];
    let page_bytes = region.page_bytes();
    for first in (0..region.len()).step_by(page_bytes) {
        let page = first..(first + page_bytes).min(region.len());
        let bytes: u64 = region
            .tier_bytes(page)
            .iter()
            .filter(|(tier, _)| system.info(*tier).is_modelled())
            .map(|(_, bytes)| bytes)
            .sum();
        sums.push(sums[sums.len() - 1] + bytes);
    }
    sums
}

/// Where the pages of all regions lie.
#[derive(Debug)]
pub(super) struct Tiers<'a> {
    layouts: &'a [Vec<u64>],
    page_bytes: &'a [usize],
}

impl Tiers<'_> {
    /// Bytes of `first..end` of a region on modelled tiers; of a page that lies partly in the
    /// range, the same share.
    pub(super) fn modelled_bytes(&self, region: usize, first: usize, end: usize) -> u64 {
        let sums = &self.layouts[region];
        if sums.is_empty() {
            return 0;
        }
        let page_bytes = self.page_bytes[region];
        let before = |offset: usize| {
            let page = (offset / page_bytes).min(sums.len() - 1);
            let is_modelled = sums.get(page + 1).is_some_and(|next| *next > sums[page]);
            sums[page]
                + if is_modelled {
                    (offset % page_bytes) as u64
                } else {
                    0
                }
        };
        before(end) - before(first)
    }

    /// The share of a region on modelled tiers.
    pub(super) fn modelled_share(&self, region: usize, bytes: usize) -> f64 {
        self.modelled_bytes(region, 0, bytes) as f64 / bytes as f64
    }
}
