//! The regions of a run.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearfar_memory::{MemorySystem, OverBudget, Region, RegionOptions, TierId, Verification};
use nearfar_model::EmulatedTier;

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

    /// Gives the regions to `work`, which accesses them from several threads, with what of them lies on each
    /// of the modelled tiers.
    pub(super) fn with_targets<T>(
        &mut self,
        models: &[(TierId, Arc<EmulatedTier>)],
        work: impl FnOnce(&[Accessed<'_>], &[Emulated<'_>]) -> T,
    ) -> T {
        // A pointer for the kernels is taken first, and places are asked of the regions meanwhile:
        // layouts are copied, so that nothing borrows a region that is accessed.
        let emulated: Vec<Emulated<'_>> = models
            .iter()
            .map(|(tier, model)| Emulated {
                model,
                layouts: self
                    .regions
                    .iter()
                    .map(|region| Layout::of(region, *tier))
                    .collect(),
            })
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
        work(&targets, &emulated)
    }

    /// Asks the kernel where all pages are; what it says if some lie elsewhere than they should.
    pub(super) fn misplaced(&self) -> Option<String> {
        let regions = self.regions.iter();
        regions
            .filter(|prepared| {
                let verification = prepared.region.verification();
                matches!(
                    verification,
                    Verification::Verified | Verification::ByMapping
                )
            })
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
                Verification::ByMapping => "verified by the mapping of its device".to_owned(),
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

/// A modelled tier, and what of each region lies on it.
#[derive(Debug)]
pub(super) struct Emulated<'a> {
    pub model: &'a EmulatedTier,
    layouts: Vec<Layout>,
}

impl Emulated<'_> {
    /// Whether anything of a region lies on the tier.
    pub(super) fn has(&self, region: usize) -> bool {
        !self.layouts[region].before.is_empty()
    }

    /// Bytes of `first..end` of a region on the tier; of a page that lies partly in the range, the same share.
    pub(super) fn bytes(&self, region: usize, first: usize, end: usize) -> u64 {
        let layout = &self.layouts[region];
        layout.before(end) - layout.before(first)
    }

    /// The share of a region of so many bytes that lies on the tier.
    pub(super) fn share(&self, region: usize, bytes: usize) -> f64 {
        self.bytes(region, 0, bytes) as f64 / bytes as f64
    }
}

/// Which pages of a region lie on a tier.
#[derive(Debug)]
struct Layout {
    /// Bytes on the tier before each page: one sum more than there are pages, or none where nothing lies on it.
    before: Vec<u64>,
    page_bytes: usize,
}

impl Layout {
    fn of(prepared: &Prepared, tier: TierId) -> Self {
        let region = &prepared.region;
        let page_bytes = region.page_bytes();
        let mut before = Vec::new();
        if prepared.planned.is_modelled {
            before.push(0);
            for first in (0..region.len()).step_by(page_bytes) {
                let page = first..(first + page_bytes).min(region.len());
                before.push(before[before.len() - 1] + region.tier_bytes(page)[tier]);
            }
        }
        if before.last() == Some(&0) {
            before.clear();
        }
        Self { before, page_bytes }
    }

    /// Bytes on the tier before `offset`.
    fn before(&self, offset: usize) -> u64 {
        let sums = &self.before;
        if sums.is_empty() {
            return 0;
        }
        let page = (offset / self.page_bytes).min(sums.len() - 1);
        let is_on_tier = sums.get(page + 1).is_some_and(|next| *next > sums[page]);
        sums[page]
            + if is_on_tier {
                (offset % self.page_bytes) as u64
            } else {
                0
            }
    }
}
