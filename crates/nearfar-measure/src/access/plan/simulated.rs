//! Specifications held against the machine of a profile, which is simulated in virtual time.

use std::collections::BTreeMap;

use nearfar_model::simulation::{Caches, DeviceIndex, Machine};
use nearfar_topology::Profile;

use super::pins::{Processors, pins};
use super::planned::{Plan, PlanError, PlanTarget, PlannedPlacement, PlannedRegion, PlannedRun};
use super::steps::{automatic_bytes, check_pages, check_steps, page_size};
use crate::access::kernels::{LINE_BYTES, Operation};
use crate::access::simulate::{DeviceTiers, HUGE_PAGE_BYTES, PAGE_BYTES, place};
use crate::access::spec::{Context, Document, Length, RunSpec, Size, SpecError, TaskSpec};

pub use crate::access::simulate::DevicePages;

/// Most bytes of all regions of a run: addresses above belong to what is not placed.
const REGIONS_BYTES_MAX: u64 = 1 << 43;

/// Lines measured in one repetition, and lines before them.
const MEASURED_LINES: u64 = 40_000;
const WARM_LINES: u64 = 8_000;

/// Lines of every thread before the measurement: with stores, enough that write-backs are steady.
const WARM_LINES_PER_THREAD: u64 = 1_200;

/// Timed accesses of one repetition that percentiles need, and most lines followed to get them.
const SAMPLES: u64 = 8_000;
const SAMPLED_LINES_MAX: u64 = 8_000_000;

/// Regions this many times as large as all caches together find next to nothing in them.
const STREAMING_FACTOR: u64 = 8;

/// Passes over a working set until caches hold what they will hold.
const WARM_PASSES: u64 = 3;

/// Longest time between two lines of a thread that a limit asks for, in ns.
const INTERVAL_NS_MAX: f64 = 4e6;

/// What of a run is simulated.
///
/// Nothing changes in virtual time from one batch to the next but the order of addresses. So of a
/// long run, a window in the middle is followed, and rates are those of the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Lines that threads touch before it begins.
    pub warm_lines: u64,
    /// Most lines that are followed in it.
    pub lines: u64,
    /// Whether the run is longer than the window.
    pub is_part: bool,
    /// How caches take part.
    pub caches: Caches,
}

impl Plan {
    /// Checks every point of `document` on the machine of `profile`, to be run in virtual time. Of
    /// each repetition at most `lines` lines are followed; if none are given, as many as rates and
    /// percentiles need.
    ///
    /// # Errors
    /// [`PlanError`]; nothing has run.
    pub fn simulated(
        document: &Document,
        profile: &Profile,
        lines: Option<u64>,
    ) -> Result<Self, PlanError> {
        let machine = Machine::new(profile)?;
        let tiers = DeviceTiers::new(&machine, profile)?;
        let context = Context {
            cpus: machine.threads_max(),
            rest_cpus: machine.cores as usize,
            tiers: tiers.names(),
        };
        let specs = document.expand(&context)?.into_iter();
        let planned = specs.map(|spec| plan_run(spec, &machine, &tiers, lines));
        let runs = planned.collect::<Result<_, _>>()?;
        let mut settings = document.settings();
        settings.insert("clock".to_owned(), "virtual".to_owned());
        if let Some(lines) = lines {
            settings.insert("lines".to_owned(), lines.to_string());
        }
        Ok(Self {
            runs,
            target: PlanTarget::Simulated(Box::new(machine)),
            settings,
        })
    }
}

fn plan_run(
    spec: RunSpec,
    machine: &Machine,
    tiers: &DeviceTiers,
    lines: Option<u64>,
) -> Result<PlannedRun, SpecError> {
    let regions = plan_regions(&spec, tiers)?;
    check_steps(&spec, &regions)?;
    let cpus: Vec<u32> = (0..machine.threads_max() as u32).collect();
    let processors = Processors {
        cpus: &cpus,
        owner: format!("profile {}", machine.profile),
        is_simulated: true,
    };
    let pins = pins(&spec, &processors)?;
    check_cores(&spec, &pins, machine)?;
    for task in &spec.tasks {
        check_task(&spec, task)?;
    }
    let window = window(&spec, &regions, machine, lines);
    Ok(PlannedRun {
        spec,
        regions,
        pins,
        window: Some(window),
    })
}

fn plan_regions(spec: &RunSpec, tiers: &DeviceTiers) -> Result<Vec<PlannedRegion>, SpecError> {
    let mut regions = Vec::new();
    let mut needed: BTreeMap<DeviceIndex, u64> = BTreeMap::new();
    let mut all_bytes = 0_u64;
    for region in &spec.regions {
        let placement_path = format!("region.{}.placement", region.name);
        let size_path = format!("region.{}.size", region.name);
        let wrong = |message| spec.error(&placement_path, message);
        let devices = tiers.devices_of(&region.placement).map_err(wrong)?;
        let bytes = match region.size {
            Size::Bytes(bytes) => bytes,
            Size::Auto => {
                let least = tiers.available_bytes(&devices).unwrap_or(u64::MAX);
                automatic_bytes(least, spec.regions.len())
            }
        };
        all_bytes = all_bytes.saturating_add(bytes);
        if all_bytes > REGIONS_BYTES_MAX {
            let message = "the model has addresses for 8 TiB of regions: make them smaller";
            return Err(spec.error(&size_path, message));
        }
        let page_bytes = if region.huge_pages {
            HUGE_PAGE_BYTES
        } else {
            PAGE_BYTES
        };
        let parts = place(&region.placement, tiers, bytes, page_bytes).map_err(wrong)?;
        check_pages(spec, region, bytes)?;
        for part in &parts {
            part.add_bytes(&mut needed);
        }
        let too_large = |message| spec.error(&size_path, message);
        tiers.check(&needed).map_err(too_large)?;
        regions.push(PlannedRegion {
            bytes: bytes as usize,
            page_size: page_size(region),
            placement: PlannedPlacement::Simulated(parts),
            is_modelled: true,
        });
    }
    Ok(regions)
}

/// Refuses what the model has no word for.
fn check_task(spec: &RunSpec, task: &TaskSpec) -> Result<(), SpecError> {
    let path = |field: &str| format!("task.{}.{field}", task.name);
    let access_bytes = task.steps.iter().map(|step| step.access_bytes);
    let largest = access_bytes.max().unwrap_or(0);
    // A chain is timed as a whole.
    let times_lines = task.sample_every.is_some() && !task.is_chain();
    if (times_lines || task.fence) && largest > LINE_BYTES {
        let field = if task.fence { "fence" } else { "sample" };
        let message = format!(
            "the model waits for single lines: accesses of up to {LINE_BYTES} bytes, not {largest}"
        );
        return Err(spec.error(&path(field), message));
    }
    if let Some(limit) = task.limit_bytes_per_s {
        let line = largest.min(LINE_BYTES) as f64;
        let interval_ns = line * task.threads as f64 / limit * 1e9;
        if interval_ns > INTERVAL_NS_MAX {
            let message = format!(
                "each thread would access one line in {:.0} ms: the model holds threads back for \
                 up to {:.0} ms; write a higher limit",
                interval_ns * 1e-6,
                INTERVAL_NS_MAX * 1e-6
            );
            return Err(spec.error(&path("limit"), message));
        }
    }
    Ok(())
}

/// A core issues the operations of its two threads in one order. So a thread that waits, or that is
/// held back, would hold back the other one too, and gets a core of its own.
fn check_cores(
    spec: &RunSpec,
    pins: &[Vec<Option<u32>>],
    machine: &Machine,
) -> Result<(), SpecError> {
    let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
    let mut of_core: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (task, pins) in pins.iter().enumerate() {
        for cpu in pins.iter().flatten() {
            if let Some(other) = taken.insert(*cpu, task) {
                let other = &spec.tasks[other].name;
                let message = format!(
                    "task {other:?} runs on processor {cpu} too: a virtual processor runs one thread"
                );
                return Err(spec.error(&format!("task.{}.pin", spec.tasks[task].name), message));
            }
            of_core.entry(cpu % machine.cores).or_default().push(task);
        }
    }
    for (core, tasks) in of_core.iter().filter(|(_, tasks)| tasks.len() > 1) {
        let mut tasks_of_core = tasks.iter().map(|task| &spec.tasks[*task]);
        let is_shared = |task: &TaskSpec| tasks.iter().any(|other| spec.tasks[*other] != *task);
        let alone = tasks_of_core
            .find(|task| waits(task) || (task.limit_bytes_per_s.is_some() && is_shared(task)));
        if let Some(task) = alone {
            let message = format!(
                "a thread that waits for its accesses or is limited needs a core of its own in the \
                 model, but core {core} has {} threads: ask for at most {} threads in all",
                tasks.len(),
                machine.cores
            );
            return Err(spec.error(&format!("task.{}.threads", task.name), message));
        }
    }
    Ok(())
}

/// Whether each access, or a timed one, waits for those before.
fn waits(task: &TaskSpec) -> bool {
    let is_waited = |operation| matches!(operation, Operation::Chase | Operation::WriteFlush);
    task.fence
        || task.sample_every.is_some()
        || task
            .steps
            .iter()
            .any(|step| step.depends || is_waited(step.operation))
}

/// What of a run is followed.
fn window(
    spec: &RunSpec,
    regions: &[PlannedRegion],
    machine: &Machine,
    lines: Option<u64>,
) -> Window {
    let steps = || spec.tasks.iter().flat_map(|task| &task.steps);
    // Parts of a line are accesses of their own, but bring no further lines.
    let parts = steps().map(|step| match step.operation {
        Operation::Chase => 1,
        _ => (LINE_BYTES / step.access_bytes).max(1),
    });
    let parts = parts.max().unwrap_or(1) as u64;
    let threads: usize = spec.tasks.iter().map(|task| task.threads).sum();
    let cores = (machine.cores as usize).min(threads) as u64;
    let cache_bytes = machine.l3_bytes + cores * machine.core.l2_bytes;
    let region_bytes: u64 = regions.iter().map(|region| region.bytes as u64).sum();
    // A chain of operations comes back to its lines, which only caches know.
    let streams = region_bytes >= STREAMING_FACTOR * cache_bytes
        && spec.tasks.iter().all(|task| !task.is_chain());
    let mut warm_lines = WARM_LINES + WARM_LINES_PER_THREAD * threads as u64;
    if !streams {
        let set = region_bytes.min(cache_bytes) / LINE_BYTES as u64;
        warm_lines = warm_lines.max(WARM_PASSES * set);
    }
    let mut window = Window {
        warm_lines: warm_lines * parts,
        lines: lines.unwrap_or_else(|| default_lines(spec).max(MEASURED_LINES * parts)),
        is_part: true,
        caches: if streams {
            Caches::Streaming
        } else {
            Caches::Simulated
        },
    };
    if let Length::Volume(bytes) = spec.length {
        let touched = spec.tasks.iter().filter(|task| !task.background);
        let touched: u64 = touched
            .map(|task| bytes / least_access_bytes(task).min(LINE_BYTES) as u64)
            .fold(0, u64::saturating_add);
        if touched <= window.lines {
            window.is_part = false;
            window.warm_lines = 0;
            window.lines = touched;
        }
    }
    window
}

fn least_access_bytes(task: &TaskSpec) -> usize {
    let sizes = task.steps.iter().map(|step| step.access_bytes);
    sizes.min().unwrap_or(LINE_BYTES)
}

/// Lines that percentiles need.
fn default_lines(spec: &RunSpec) -> u64 {
    let sampled = spec.tasks.iter().filter_map(|task| task.sample_every);
    let least = sampled.min().unwrap_or(0);
    SAMPLES.saturating_mul(least).min(SAMPLED_LINES_MAX)
}
