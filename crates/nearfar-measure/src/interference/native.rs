//! The matrix on this machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use nearfar_memory::sys::{NodeSet, allowed_cpus};
use nearfar_topology::Topology;

use super::application::{Application, ApplicationError, ApplicationMetric};
use super::error::InterferenceError;
use super::matrix::{Ground, Matrix, Point};
use super::native_run::NativePlan;
use super::storage::{Storage, StorageOptions};
use super::traffic::Traffic;
use crate::access::{CpuList, Document, Plan, PlanError, PlanTarget};
use crate::results::Gap;

/// How points are run.
#[derive(Debug, Clone)]
pub struct NativeOptions {
    /// How long one repetition takes.
    pub time: Duration,
    /// How long a load runs before what is under test begins, where one of them is a process.
    pub settle: Duration,
    /// How often each point is run.
    pub repetitions: u32,
    /// Bytes of each region: several times what the caches hold.
    pub region_bytes: u64,
    /// Processors to use; if empty, one of each core that this process may run on.
    pub cpus: Vec<u32>,
    /// The file or device of storage load, if one was named.
    pub storage: Option<StorageOptions>,
    /// The program under test, if there is one.
    pub application: Option<Application>,
    /// The tier that its memory comes from; the kernel's choice if none is named.
    pub application_tier: Option<String>,
    /// Whether it is watched why something is lost: counters, kernel functions, last-level occupancy.
    pub causes: bool,
}

/// This machine, and what it offers to a matrix.
#[derive(Debug)]
pub struct Native {
    pub(super) options: NativeOptions,
    topology: Topology,
    cpus: Vec<u32>,
    ground: Ground,
}

impl Native {
    /// Looks at the machine of `topology`, whose sysfs lies below `sys`.
    ///
    /// # Errors
    /// [`InterferenceError::Cpu`] for a processor that this process may not use, and
    /// [`InterferenceError::Cpus`] where the kernel does not tell which it may.
    pub fn new(
        options: NativeOptions,
        topology: Topology,
        sys: &Path,
    ) -> Result<Self, InterferenceError> {
        let allowed = allowed_cpus().map_err(InterferenceError::Cpus)?;
        if let Some(cpu) = options.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(InterferenceError::Cpu {
                cpu: *cpu,
                allowed: CpuList(allowed).to_string(),
            });
        }
        let cpus = match options.cpus.is_empty() {
            true => one_of_each_core(&allowed, sys),
            false => options.cpus.clone(),
        };
        let tiers = topology.tiers.iter().filter(|tier| tier.allocatable);
        let tiers: Vec<String> = tiers.map(|tier| tier.name.clone()).collect();
        let mut gaps = Vec::new();
        if tiers.len() < 2 {
            gaps.push(Gap {
                what: "interference between tiers".to_owned(),
                reason: "this machine has one tier of memory that can be allocated".to_owned(),
            });
        }
        let storage_gap = options
            .storage
            .is_none()
            .then(|| "no file or device was named for it".to_owned());
        let ground = Ground {
            tiers,
            cpus: cpus.len(),
            storage_gap,
            gaps,
            is_virtual: false,
        };
        Ok(Self {
            options,
            topology,
            cpus,
            ground,
        })
    }

    /// What the machine offers.
    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    /// The processors that threads are pinned to, in the order in which they are taken.
    pub fn cpus(&self) -> CpuList {
        CpuList(self.cpus.clone())
    }

    /// Checks everything that can be checked before anything runs.
    ///
    /// # Errors
    /// [`InterferenceError`]; nothing was allocated, made or run.
    pub fn plan<'a>(&'a self, matrix: &'a Matrix) -> Result<NativePlan<'a>, InterferenceError> {
        let mut documents = Vec::new();
        let mut runs = BTreeMap::new();
        for point in &matrix.points {
            if let Some(text) = self.specification(point) {
                runs.insert(point.to_string(), documents.len());
                let name = point.to_string();
                documents.push(Document::parse(&name, &text).map_err(PlanError::from)?);
            }
        }
        let plan = Plan::of_documents(&documents, &self.topology, Vec::new())?;
        let is_storage = |traffic: &Traffic| matches!(traffic, Traffic::Storage(_));
        let writes = |traffic: &Traffic| match traffic {
            Traffic::Storage(pattern) => pattern.writes(),
            _ => false,
        };
        let traffic = || {
            let background = |point: &'a Point| point.background.as_ref().map(|(one, _)| one);
            let points = matrix.points.iter();
            points.flat_map(move |point| background(point).into_iter().chain([&point.subject]))
        };
        let application = self.options.application.as_ref();
        let is_on_storage =
            application.is_some_and(|one| matches!(one.metric, ApplicationMetric::Fio));
        let storage = match &self.options.storage {
            Some(options) if traffic().any(is_storage) || is_on_storage => {
                let writes = traffic().any(writes) || is_on_storage;
                Some(Storage::check(options, writes)?)
            }
            _ => None,
        };
        let nodes = self.application_nodes(&plan)?;
        Ok(NativePlan {
            native: self,
            matrix,
            plan,
            runs,
            storage,
            nodes,
        })
    }

    /// The nodes that the memory of the application comes from.
    fn application_nodes(&self, plan: &Plan) -> Result<Option<NodeSet>, InterferenceError> {
        let (Some(name), PlanTarget::Memory { system, .. }) =
            (&self.options.application_tier, &plan.target)
        else {
            return Ok(None);
        };
        let tier = system.tier(name)?;
        if self
            .options
            .application
            .as_ref()
            .is_some_and(|one| one.places_itself)
        {
            return Ok(None);
        }
        let nodes: NodeSet = system.nodes(tier).iter().copied().collect();
        match nodes.is_empty() || system.info(tier).is_modelled() {
            true => Err(ApplicationError::NoNode { tier: name.clone() }.into()),
            false => Ok(Some(nodes)),
        }
    }

    /// The access benchmark of a point, if some of it accesses memory.
    fn specification(&self, point: &Point) -> Option<String> {
        let options = &self.options;
        let is_beside_process = point.subject.is_process();
        let time = match is_beside_process {
            // As long as the process runs.
            true => "100000000s".to_owned(),
            false => format!("{}us", options.time.as_micros().max(1)),
        };
        let mut text = format!(
            "name = \"interference\"\nrepetitions = {}\ntime = \"{time}\"\nbatch = \"4MiB\"\n",
            options.repetitions
        );
        let before = text.len();
        let mut regions = Regions {
            text: &mut text,
            bytes: options.region_bytes,
        };
        regions.of(&point.subject, "tested");
        if let Some((traffic, _)) = &point.background {
            regions.of(traffic, "beside");
        }
        if text.len() == before {
            return None;
        }
        let (own, others) = self.pins(point);
        add_task(&mut text, &point.subject, "tested", own, false);
        if let Some((traffic, _)) = &point.background {
            add_task(&mut text, traffic, "beside", others, !is_beside_process);
        }
        Some(text)
    }

    /// Processors of what is under test, and of the background.
    pub(super) fn pins(&self, point: &Point) -> (&[u32], &[u32]) {
        let (own, rest) = self.cpus.split_at(point.threads.min(self.cpus.len()));
        let others = point.background.as_ref().map_or(0, |(_, others)| *others);
        (own, &rest[..others.min(rest.len())])
    }
}

/// Writes the regions of a specification.
struct Regions<'a> {
    text: &'a mut String,
    bytes: u64,
}

impl Regions<'_> {
    fn of(&mut self, traffic: &Traffic, task: &str) {
        match traffic {
            Traffic::Memory { tier, .. } => self.add(task, tier),
            Traffic::Copy { from, to, .. } => {
                self.add(task, to);
                self.add(&format!("{task}-from"), from);
            }
            Traffic::Storage(_) | Traffic::Application => {}
        }
    }

    fn add(&mut self, name: &str, tier: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.text,
            "[region.{name}]\nsize = \"{}\"\nplacement = \"{tier}\"",
            self.bytes
        );
    }
}

/// Adds the task that makes the accesses of `traffic`, if it makes any.
fn add_task(text: &mut String, traffic: &Traffic, name: &str, cpus: &[u32], is_background: bool) {
    let (operation, source) = match traffic {
        Traffic::Memory { operation, .. } => (operation.operation(), String::new()),
        Traffic::Copy { operation, .. } => {
            (operation.operation(), format!("source = \"{name}-from\"\n"))
        }
        Traffic::Storage(_) | Traffic::Application => return,
    };
    let pins = CpuList(cpus.to_vec());
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "[task.{name}]\noperation = \"{operation}\"\nregion = \"{name}\"\n{source}threads = {}\n\
         pin = \"{pins}\"\nbackground = {is_background}\n",
        cpus.len()
    );
}

/// One processor of each core, of those that this process may run on; all where the machine does not
/// tell which of them share a core.
pub(crate) fn one_of_each_core(allowed: &[u32], sys: &Path) -> Vec<u32> {
    let siblings = |cpu: u32| -> Option<CpuList> {
        let file = format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        std::fs::read_to_string(sys.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let is_first = |cpu: &u32| match siblings(*cpu) {
        Some(list) => list.0.iter().find(|one| allowed.contains(one)) == Some(cpu),
        None => true,
    };
    allowed.iter().copied().filter(is_first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_of_each_core_is_taken() {
        let sys = tempfile::tempdir().unwrap();
        for (cpu, siblings) in [(0, "0,4"), (1, "1,5"), (4, "0,4"), (5, "1,5")] {
            let folder = format!("devices/system/cpu/cpu{cpu}/topology");
            let folder = sys.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("thread_siblings_list"), format!("{siblings}\n")).unwrap();
        }
        assert_eq!(one_of_each_core(&[0, 1, 4, 5], sys.path()), [0, 1]);
        assert_eq!(one_of_each_core(&[1, 4, 5], sys.path()), [1, 4]);
        assert_eq!(
            one_of_each_core(&[7, 8], sys.path()),
            [7, 8],
            "nothing is told"
        );
    }
}
