//! Specifications held against the machine.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use nearfar_memory::{
    Budgets, MemorySystem, PageSize, Placement, SystemError, TierBytes, TierId, TierKind, TierSpec,
};
use nearfar_model::PacedTier;
use nearfar_topology::Topology;

use super::kernels::Operation;
use super::spec::{
    Context, Document, Length, Pin, PlacementSpec, RunSpec, Size, SpecError, TaskSpec,
};

/// Bytes of an automatic region where the tier has enough (weisgut-2025, section 4.2).
const AUTO_BYTES: u64 = 7 << 30;

/// Speed at which regions are filled and checked, for estimates of a plan's time.
const PREPARED_BYTES_PER_S: f64 = 1.5e9;

/// Speed of accesses by volume, for estimates of a plan's time.
const ACCESSED_BYTES_PER_S: f64 = 5e9;

/// Time of an access that is waited for, for estimates of a plan's time.
const WAITED_ACCESS_S: f64 = 200e-9;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A field that is impossible on this machine, or means nothing.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The machine's tiers make no memory system.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The kernel does not tell which processors may be used.
    #[error("the kernel does not tell the processors of this process")]
    Cpus(#[from] nearfar_memory::sys::SysError),
}

impl PlanError {
    /// Whether the specification asks for a tier that this machine has not.
    pub fn is_missing_tier(&self) -> bool {
        matches!(self, Self::Spec(error) if error.field.ends_with("placement")
            && error.message.contains(NO_SUCH_TIER))
    }
}

const NO_SUCH_TIER: &str = "this machine has no tier";

/// A region with everything decided.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedRegion {
    /// Bytes of it.
    pub bytes: usize,
    /// Size of its pages.
    pub page_size: PageSize,
    /// Where they lie.
    pub placement: Placement,
    /// Whether some lie on a modelled tier.
    pub is_modelled: bool,
}

/// A point of the matrix with everything decided.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedRun {
    /// What is meant.
    pub spec: RunSpec,
    /// Its regions.
    pub regions: Vec<PlannedRegion>,
    /// Processors of each thread of each task; none for those that are not pinned.
    pub pins: Vec<Vec<Option<u32>>>,
}

/// All points, checked.
#[derive(Debug)]
pub struct Plan {
    /// The points, in order.
    pub runs: Vec<PlannedRun>,
    /// The tiers.
    pub system: Arc<MemorySystem>,
    /// The modelled tier, if there is one.
    pub paced: Option<Arc<PacedTier>>,
    /// Settings as they were written, for results.
    pub settings: std::collections::BTreeMap<String, String>,
}

impl Plan {
    /// Checks every point of `document` on the machine of `topology`. `paced` paces its modelled
    /// tier.
    ///
    /// # Errors
    /// [`PlanError`]; nothing was allocated and nothing has run.
    pub fn new(
        document: &Document,
        topology: &Topology,
        paced: Option<Arc<PacedTier>>,
    ) -> Result<Self, PlanError> {
        let cpus = nearfar_memory::sys::allowed_cpus()?;
        let tiers = topology.tiers.iter().filter(|tier| tier.allocatable);
        let context = Context {
            cpus: cpus.len(),
            tiers: tiers.map(|tier| tier.name.clone()).collect(),
        };
        let specs = document.expand(&context)?;
        let system = system(topology, &specs)?;
        let plan_one = |spec| plan_run(spec, &system, &cpus);
        Ok(Self {
            runs: specs.into_iter().map(plan_one).collect::<Result<_, _>>()?,
            system,
            paced,
            settings: document.settings(),
        })
    }

    /// Most bytes that any run takes on all tiers together.
    pub fn memory_bytes(&self) -> u64 {
        let of_run = |run: &PlannedRun| run.regions.iter().map(|region| region.bytes as u64).sum();
        self.runs.iter().map(of_run).max().unwrap_or(0)
    }

    /// About how long all runs take, repetitions included.
    pub fn time(&self) -> Duration {
        let times = self.runs.iter().map(PlannedRun::time);
        times.fold(Duration::ZERO, Duration::saturating_add)
    }
}

impl PlannedRun {
    /// About how long all its repetitions take.
    pub fn time(&self) -> Duration {
        let once = match self.spec.length {
            Length::Time(time) => time,
            Length::Volume(bytes) => {
                let tasks = self.spec.tasks.iter().filter(|task| !task.background);
                let seconds = tasks.map(|task| task_s(task, bytes));
                Duration::from_secs_f64(seconds.fold(0.0, f64::max))
            }
        };
        let prepared: usize = self.regions.iter().map(|region| region.bytes).sum();
        let prepare = Duration::from_secs_f64(prepared as f64 / PREPARED_BYTES_PER_S);
        once.saturating_mul(self.spec.repetitions)
            .saturating_add(prepare)
    }

    /// Whether a figure of it is modelled.
    pub fn is_modelled(&self) -> bool {
        self.regions.iter().any(|region| region.is_modelled)
    }

    /// A name that is the same for the same point of the same specification.
    pub fn id(&self) -> String {
        let parameters = self.spec.parameters.iter();
        let words: Vec<String> = parameters
            .map(|(path, value)| format!("{path}={value}"))
            .collect();
        if words.is_empty() {
            self.spec.name.clone()
        } else {
            words.join(" ")
        }
    }
}

/// About how long a task takes to access so many bytes.
fn task_s(task: &TaskSpec, bytes: u64) -> f64 {
    let is_waited = |operation| matches!(operation, Operation::Chase | Operation::WriteFlush);
    let of_element = task.steps.iter().map(|step| {
        let bytes = step.access_bytes as f64;
        let access_s = if is_waited(step.operation) {
            WAITED_ACCESS_S
        } else {
            bytes / ACCESSED_BYTES_PER_S
        };
        (bytes * step.count as f64, access_s * step.count as f64)
    });
    let (element_bytes, element_s) = of_element.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    let passes = bytes as f64 / element_bytes;
    passes * element_s
        / if is_waited(task.steps[0].operation) {
            task.threads as f64
        } else {
            1.0
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
            placement,
            is_modelled,
        });
    }
    check_steps(&spec, &regions)?;
    let pins = pins(&spec, cpus)?;
    Ok(PlannedRun {
        spec,
        regions,
        pins,
    })
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
            let quarter = least.unwrap_or(0) / 4 / regions as u64;
            (AUTO_BYTES.min(quarter) >> 21 << 21).max(8192)
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

fn placement(spec: &PlacementSpec, system: &MemorySystem) -> Result<Placement, String> {
    let tier = |name: &str| {
        let id = system.tier(name).map_err(|error| {
            let far = match name.strip_prefix("node") {
                Some(_) => "",
                None => "; a model stands in for a far tier with --profile NAME",
            };
            format!(
                "{NO_SUCH_TIER} or node {name:?}; there are: {}{far}",
                error.known.join(", ")
            )
        })?;
        if system.info(id).is_allocatable() {
            Ok(id)
        } else {
            Err(format!(
                "no memory can be taken from tier {name:?}: bring it online first"
            ))
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
            let runs: Result<_, String> = runs.iter().map(run).collect();
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

/// Pacing knows streams and dependent reads; it cannot tell what single stores cost.
fn check_modelled(spec: &RunSpec, region: usize, is_modelled: bool) -> Result<(), SpecError> {
    if !is_modelled {
        return Ok(());
    }
    for task in &spec.tasks {
        let uses = |step: &&super::spec::StepSpec| step.regions.contains(&region);
        for step in task.steps.iter().filter(uses) {
            let is_flush = step.operation == Operation::WriteFlush;
            let is_sampled_stream =
                task.sample_every.is_some() && step.operation != Operation::Chase;
            if is_flush || is_sampled_stream {
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

/// Checks what steps ask of their regions, and that a chain has its region to itself.
fn check_steps(spec: &RunSpec, regions: &[PlannedRegion]) -> Result<(), SpecError> {
    for task in &spec.tasks {
        for step in &task.steps {
            for &region in &step.regions {
                let name = &spec.regions[region].name;
                if step.operation == Operation::Chase
                    && spec.tasks.iter().any(|other| writes_to(other, region))
                {
                    let message =
                        format!("region {name:?} is written too: give the chase its own region");
                    return Err(spec.error(&format!("task.{}.operation", task.name), message));
                }
                if step.access_bytes > regions[region].bytes {
                    let message = format!("larger than region {name:?}");
                    return Err(spec.error(&format!("task.{}.access", task.name), message));
                }
            }
            if step.operation == Operation::Chase && step.regions.len() > 1 {
                let message = "a chain lies in one region: name it";
                return Err(spec.error(&format!("task.{}.region", task.name), message));
            }
        }
    }
    Ok(())
}

fn writes_to(task: &TaskSpec, region: usize) -> bool {
    task.steps.iter().any(|step| {
        step.regions.contains(&region)
            && (step.operation.writes() || task.writes_share.is_some_and(|share| share > 0.0))
    })
}

/// A processor for every thread.
fn pins(spec: &RunSpec, cpus: &[u32]) -> Result<Vec<Vec<Option<u32>>>, SpecError> {
    let is_taken = |cpu: &u32| {
        spec.tasks
            .iter()
            .any(|task| matches!(&task.pin, Pin::Cpus(list) if list.0.contains(cpu)))
    };
    let mut free = cpus.iter().copied().filter(|cpu| !is_taken(cpu));
    let mut pins = Vec::new();
    for task in &spec.tasks {
        let threads = format!("task.{}.threads", task.name);
        match &task.pin {
            Pin::None => pins.push(vec![None; task.threads]),
            Pin::Auto => {
                let own: Vec<Option<u32>> = free.by_ref().take(task.threads).map(Some).collect();
                if own.len() < task.threads {
                    let message = format!(
                        "{} threads, but {} of the {} processors are left for them: ask for fewer, \
                         or set pin = \"none\"",
                        task.threads,
                        own.len(),
                        cpus.len()
                    );
                    return Err(spec.error(&threads, message));
                }
                pins.push(own);
            }
            Pin::Cpus(list) => {
                if let Some(cpu) = list.0.iter().find(|cpu| !cpus.contains(cpu)) {
                    let message = format!(
                        "processor {cpu} is not among those of this process: {}",
                        super::cpus::CpuList(cpus.to_vec())
                    );
                    return Err(spec.error(&format!("task.{}.pin", task.name), message));
                }
                if task.threads > list.0.len() {
                    let message = format!(
                        "{} threads on {} pinned processors: pin more, or ask for fewer threads",
                        task.threads,
                        list.0.len()
                    );
                    return Err(spec.error(&threads, message));
                }
                pins.push(
                    list.0
                        .iter()
                        .take(task.threads)
                        .copied()
                        .map(Some)
                        .collect(),
                );
            }
        }
    }
    Ok(pins)
}
