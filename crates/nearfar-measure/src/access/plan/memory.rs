//! Specifications held against this machine and its memory.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use nearfar_memory::{
    Budgets, MemorySystem, PlaceError, Placement, PlacementSpec, TierId, UnknownTier,
};
use nearfar_model::EmulatedTier;
use nearfar_topology::Topology;

use super::pins::{Processors, pins};
use super::planned::{Plan, PlanError, PlanTarget, PlannedPlacement, PlannedRegion, PlannedRun};
use super::steps::{automatic_bytes, check_pages, check_steps, page_size};
use crate::access::kernels::Operation;
use crate::access::prefetchers::{PrefetcherError, PrefetchersOff};
use crate::access::spec::{
    Context, Document, Mistake, RunSpec, Size, SpecError, StepSpec, TaskSpec,
};

impl Plan {
    /// Checks every point of `document` on the machine of `topology`. `models` has the models of its modelled
    /// tiers, by name.
    ///
    /// # Errors
    /// [`PlanError`]; nothing was allocated and nothing has run.
    pub fn new(
        document: &Document,
        topology: &Topology,
        models: Vec<(String, Arc<EmulatedTier>)>,
    ) -> Result<Self, PlanError> {
        Self::of_documents(std::slice::from_ref(document), topology, models)
    }

    /// The same for the points of several documents, one document after the other, in the memory of
    /// one system.
    ///
    /// # Errors
    /// [`PlanError`] of the first document that has one.
    pub fn of_documents(
        documents: &[Document],
        topology: &Topology,
        models: Vec<(String, Arc<EmulatedTier>)>,
    ) -> Result<Self, PlanError> {
        let cpus = nearfar_memory::sys::allowed_cpus()?;
        let tiers = topology.tiers.iter().filter(|tier| tier.allocatable);
        let context = Context {
            cpus: cpus.len(),
            rest_cpus: cpus.len(),
            tiers: tiers.map(|tier| tier.name.clone()).collect(),
        };
        let system = MemorySystem::new(topology, &Budgets::new().with_devices())?;
        let plan_one = |spec| plan_run(spec, &system, &cpus);
        let models = models.into_iter();
        let models = models.filter_map(|(tier, model)| Some((system.tier(&tier).ok()?, model)));
        let models = models.collect();
        let mut runs = Vec::new();
        for document in documents {
            for spec in document.expand(&context)? {
                runs.push(plan_one(spec)?);
            }
        }
        check_prefetchers(&runs)?;
        Ok(Self {
            runs,
            target: PlanTarget::Memory { system, models },
            settings: documents
                .first()
                .map(Document::settings)
                .unwrap_or_default(),
        })
    }
}

fn plan_run(
    spec: RunSpec,
    system: &Arc<MemorySystem>,
    cpus: &[u32],
) -> Result<PlannedRun, PlanError> {
    check_instructions(&spec)?;
    let mut regions = Vec::new();
    let mut needed = Needed::default();
    for (index, region) in spec.regions.iter().enumerate() {
        let path = format!("region.{}.placement", region.name);
        let placement =
            placement(&region.placement, system).map_err(|message| spec.error(&path, message))?;
        let bytes = region_bytes(region.size, &placement, system, spec.regions.len());
        check_pages(&spec, region, bytes)?;
        for (tier, bytes) in shares(&placement, bytes) {
            needed.add(system, tier, bytes).map_err(|message| {
                let path = format!("region.{}.size", region.name);
                spec.error(&path, message)
            })?;
        }
        let is_modelled = placement
            .tiers()
            .any(|tier| system.info(tier).is_modelled());
        check_modelled(&spec, index, is_modelled)?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        regions.push(PlannedRegion {
            bytes,
            page_size: page_size(region),
            placement: PlannedPlacement::Memory(placement),
            is_modelled,
        });
    }
    check_steps(&spec, &regions)?;
    let owner = "this process".to_owned();
    let processors = Processors {
        cpus,
        owner,
        is_simulated: false,
    };
    let pins = pins(&spec, &processors)?;
    Ok(PlannedRun {
        spec,
        regions,
        pins,
        window: None,
    })
}

/// Finds out whether prefetchers can be switched off where a run wants that.
fn check_prefetchers(runs: &[PlannedRun]) -> Result<(), PrefetcherError> {
    match runs.iter().all(|run| run.spec.prefetchers) {
        true => Ok(()),
        false => PrefetchersOff::check(),
    }
}

/// Refuses operations that this machine has no instruction for.
fn check_instructions(spec: &RunSpec) -> Result<(), SpecError> {
    for task in &spec.tasks {
        for (index, step) in task.steps.iter().enumerate() {
            if let Some(reason) = step.operation.missing() {
                let path = if task.is_chain() {
                    format!("task.{}.steps.{index}.operation", task.name)
                } else {
                    format!("task.{}.operation", task.name)
                };
                return Err(spec.error(&path, format!("{}: {reason}", step.operation)));
            }
        }
    }
    Ok(())
}

/// What regions need of each tier, and of each part of a tier that is named.
#[derive(Default)]
struct Needed(BTreeMap<TierId, u64>);

impl Needed {
    /// Adds `bytes` of a tier, or the message that it has not so many left.
    fn add(&mut self, system: &MemorySystem, tier: TierId, bytes: u64) -> Result<(), String> {
        let mut places = vec![tier.whole(), tier];
        places.dedup();
        for place in places {
            let needed = self.0.entry(place).or_default();
            *needed += bytes;
            let available = available_bytes(system, place);
            if *needed > available {
                let name = system.name(place);
                return Err(format!(
                    "tier {name} has {available} bytes left, but the regions need {needed} there: \
                     make them smaller or place them elsewhere"
                ));
            }
        }
        Ok(())
    }
}

/// What a tier or a part of it can still give: its budget, and the free memory of its nodes.
pub(crate) fn available_bytes(system: &MemorySystem, tier: TierId) -> u64 {
    let nodes = system.nodes(tier).iter().copied().collect();
    // What a device has free is for its memory system to know.
    let asked = system.info(tier).has_nodes();
    let free = asked.then(|| system.roots().available_bytes(&nodes));
    let free = free.flatten().unwrap_or(u64::MAX);
    system.usage(tier).available_bytes().min(free)
}

fn region_bytes(size: Size, placement: &Placement, system: &MemorySystem, regions: usize) -> u64 {
    match size {
        Size::Bytes(bytes) => bytes,
        Size::Auto => {
            let least = placement
                .tiers()
                .map(|tier| available_bytes(system, tier))
                .min();
            automatic_bytes(least.unwrap_or(0), regions)
        }
    }
}

/// Bytes on each tier and part of a tier that is named, to the page.
fn shares(placement: &Placement, bytes: u64) -> Vec<(TierId, u64)> {
    let share = |tier: TierId, share: f64| (tier, (bytes as f64 * share).round() as u64);
    match placement {
        Placement::Bind(tier) => vec![share(*tier, 1.0)],
        Placement::Interleave(tiers) => {
            let each = 1.0 / tiers.len() as f64;
            tiers.iter().map(|tier| share(*tier, each)).collect()
        }
        Placement::Weighted(runs) => {
            let all: f64 = runs.iter().map(|(_, pages)| f64::from(pages.get())).sum();
            let of_run =
                |(tier, pages): &(TierId, NonZeroU32)| share(*tier, f64::from(pages.get()) / all);
            runs.iter().map(of_run).collect()
        }
        Placement::Split {
            first,
            first_share,
            rest,
        } => vec![share(*first, *first_share), share(*rest, 1.0 - first_share)],
    }
}

fn placement(spec: &PlacementSpec, system: &MemorySystem) -> Result<Placement, Mistake> {
    spec.try_map(|name| {
        system.place(name.as_str()).map_err(|error| match &error {
            PlaceError::Unknown(error) => unknown_tier(error),
            other => other.to_string().into(),
        })
    })
}

fn unknown_tier(error: &UnknownTier) -> Mistake {
    let far = match error.name.starts_with("node") {
        true => "",
        false => "; a model stands in for a far tier with --profile NAME",
    };
    Mistake::unknown_tier(format!(
        "this machine has no tier or node {:?}; there are: {}{far}",
        error.name,
        error.known.join(", ")
    ))
}

/// Whether the latency of its single accesses counts.
fn is_waited_for(task: &TaskSpec) -> bool {
    task.sample_every.is_some() || task.fence
}

/// Emulation knows transfers and dependent reads; it cannot tell what single stores cost.
fn check_modelled(spec: &RunSpec, region: usize, is_modelled: bool) -> Result<(), SpecError> {
    if !is_modelled {
        return Ok(());
    }
    for task in &spec.tasks {
        let uses = |step: &&StepSpec| step.regions.contains(&region);
        // What depends waits for the reads of all steps.
        let depends = task.steps.iter().position(|step| step.depends);
        if let Some(index) = depends.filter(|_| task.steps.iter().any(|step| uses(&step))) {
            let message = format!(
                "of dependent accesses, only a chase is modelled in wall-clock time; region {:?} lies on a modelled \
                 tier: run it with --virtual",
                spec.regions[region].name
            );
            let path = format!("task.{}.steps.{index}.depends", task.name);
            return Err(spec.error(&path, message));
        }
        for step in task.steps.iter().filter(uses) {
            let is_flush = step.operation == Operation::WriteFlush;
            let is_waited_stream = is_waited_for(task) && step.operation != Operation::Chase;
            if is_flush || is_waited_stream {
                let message = format!(
                    "the latency of single {} accesses is not modelled in wall-clock time: only \
                     chase is; region {:?} lies on a modelled tier",
                    step.operation, spec.regions[region].name
                );
                return Err(spec.error(&format!("task.{}.operation", task.name), message));
            }
        }
    }
    Ok(())
}
