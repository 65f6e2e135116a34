//! Specifications held against this machine and its memory.

use std::num::NonZeroU32;
use std::sync::Arc;

use nearfar_memory::{
    Budgets, MemorySystem, PageSize, Placement, TierBytes, TierId, TierKind, TierSpec,
};
use nearfar_model::EmulatedTier;
use nearfar_topology::Topology;

use super::pins::{Processors, pins};
use super::planned::{Plan, PlanError, PlanTarget, PlannedPlacement, PlannedRegion, PlannedRun};
use super::steps::{automatic_bytes, check_steps};
use crate::access::kernels::Operation;
use crate::access::spec::{
    Context, Document, Mistake, PlacementSpec, RunSpec, Size, SpecError, StepSpec, TaskSpec,
};

impl Plan {
    /// Checks every point of `document` on the machine of `topology`. `emulated` is the model of its modelled
    /// tier.
    ///
    /// # Errors
    /// [`PlanError`]; nothing was allocated and nothing has run.
    pub fn new(
        document: &Document,
        topology: &Topology,
        emulated: Option<Arc<EmulatedTier>>,
    ) -> Result<Self, PlanError> {
        let cpus = nearfar_memory::sys::allowed_cpus()?;
        let tiers = topology.tiers.iter().filter(|tier| tier.allocatable);
        let context = Context {
            cpus: cpus.len(),
            rest_cpus: cpus.len(),
            tiers: tiers.map(|tier| tier.name.clone()).collect(),
        };
        let specs = document.expand(&context)?;
        let system = system(topology, &specs)?;
        let plan_one = |spec| plan_run(spec, &system, &cpus);
        Ok(Self {
            runs: specs.into_iter().map(plan_one).collect::<Result<_, _>>()?,
            target: PlanTarget::Memory { system, emulated },
            settings: document.settings(),
        })
    }
}

/// The tiers of the machine, and one for each of its nodes that a placement names.
fn system(topology: &Topology, specs: &[RunSpec]) -> Result<Arc<MemorySystem>, PlanError> {
    let plain = MemorySystem::new(topology, &Budgets::new())?;
    let tier = |(_, info): (TierId, &nearfar_memory::TierInfo)| {
        TierSpec::new(
            &info.name,
            info.kind,
            info.nodes.clone(),
            info.capacity_bytes,
        )
    };
    let mut tiers: Vec<TierSpec> = plain.tiers().map(tier).collect();
    for spec in specs {
        for region in &spec.regions {
            for name in region.placement.tiers() {
                let node = name
                    .strip_prefix("node")
                    .and_then(|node| node.parse::<u32>().ok());
                let Some(node) = node.filter(|_| tiers.iter().all(|tier| tier.name != name)) else {
                    continue;
                };
                let real = tiers
                    .iter()
                    .find(|tier| tier.kind != TierKind::Modelled && tier.nodes.contains(&node));
                if let Some(tier) = real {
                    let (kind, bytes) = (tier.kind, tier.capacity_bytes);
                    tiers.push(TierSpec::new(name, kind, [node], bytes));
                }
            }
        }
    }
    Ok(MemorySystem::from_specs(tiers, &Budgets::new())?)
}

fn plan_run(
    spec: RunSpec,
    system: &Arc<MemorySystem>,
    cpus: &[u32],
) -> Result<PlannedRun, PlanError> {
    check_instructions(&spec)?;
    let mut regions = Vec::new();
    let mut needed = TierBytes::ZERO;
    for (index, region) in spec.regions.iter().enumerate() {
        let path = format!("region.{}.placement", region.name);
        let placement =
            placement(&region.placement, system).map_err(|message| spec.error(&path, message))?;
        let page_size = if region.huge_pages {
            PageSize::Huge
        } else {
            PageSize::Base
        };
        let bytes = region_bytes(region.size, &placement, system, spec.regions.len());
        let shares = shares(&placement, bytes);
        for (tier, bytes) in shares.iter() {
            needed[tier] += bytes;
            let available = available_bytes(system, tier);
            if needed[tier] > available {
                let path = format!("region.{}.size", region.name);
                return Err(spec
                    .error(&path, too_large(system, tier, needed[tier], available))
                    .into());
            }
        }
        let is_modelled = placement
            .tiers()
            .any(|tier| system.info(tier).kind == TierKind::Modelled);
        check_modelled(&spec, index, is_modelled)?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        regions.push(PlannedRegion {
            bytes,
            page_size,
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

fn too_large(system: &MemorySystem, tier: TierId, needed: u64, available: u64) -> String {
    let name = &system.info(tier).name;
    format!(
        "tier {name} has {available} bytes left, but the regions need {needed} there: make them \
         smaller or place them elsewhere"
    )
}

/// What a tier can still give: its budget, and the free memory of its nodes.
fn available_bytes(system: &MemorySystem, tier: TierId) -> u64 {
    let nodes = system.info(tier).nodes.iter().copied().collect();
    let free = system.roots().available_bytes(&nodes).unwrap_or(u64::MAX);
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

/// Bytes on each tier, to the page.
fn shares(placement: &Placement, bytes: u64) -> TierBytes {
    let mut shares = TierBytes::ZERO;
    let mut add = |tier: TierId, share: f64| shares[tier] += (bytes as f64 * share).round() as u64;
    match placement {
        Placement::Bind(tier) => add(*tier, 1.0),
        Placement::Interleave(tiers) => {
            for tier in tiers {
                add(*tier, 1.0 / tiers.len() as f64);
            }
        }
        Placement::Weighted(runs) => {
            let all: u32 = runs.iter().map(|(_, pages)| pages.get()).sum();
            for (tier, pages) in runs {
                add(*tier, f64::from(pages.get()) / f64::from(all));
            }
        }
        Placement::Split {
            first,
            first_share,
            rest,
        } => {
            add(*first, *first_share);
            add(*rest, 1.0 - first_share);
        }
    }
    shares
}

fn placement(spec: &PlacementSpec, system: &MemorySystem) -> Result<Placement, Mistake> {
    let tier = |name: &str| -> Result<TierId, Mistake> {
        let id = system.tier(name).map_err(|error| {
            let far = match name.strip_prefix("node") {
                Some(_) => "",
                None => "; a model stands in for a far tier with --profile NAME",
            };
            Mistake::unknown_tier(format!(
                "this machine has no tier or node {name:?}; there are: {}{far}",
                error.known.join(", ")
            ))
        })?;
        if system.info(id).is_allocatable() {
            Ok(id)
        } else {
            let message =
                format!("no memory can be taken from tier {name:?}: bring it online first");
            Err(message.into())
        }
    };
    match spec {
        PlacementSpec::Bind(name) => Ok(Placement::Bind(tier(name)?)),
        PlacementSpec::Interleave(names) => {
            let tiers: Result<_, _> = names.iter().map(|name| tier(name)).collect();
            Ok(Placement::Interleave(tiers?))
        }
        PlacementSpec::Weighted(runs) => {
            let run = |(name, pages): &(String, u32)| {
                let pages = NonZeroU32::new(*pages).unwrap_or(NonZeroU32::MIN);
                Ok((tier(name)?, pages))
            };
            let runs: Result<_, Mistake> = runs.iter().map(run).collect();
            Ok(Placement::Weighted(runs?))
        }
        PlacementSpec::Split {
            first,
            first_share,
            rest,
        } => Ok(Placement::Split {
            first: tier(first)?,
            first_share: *first_share,
            rest: tier(rest)?,
        }),
    }
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
