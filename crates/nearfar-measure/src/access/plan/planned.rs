//! What a plan consists of.

use std::collections::BTreeMap;
use std::sync::Arc;

use nearfar_memory::{MemorySystem, PageSize, Placement, SystemError, TierId};
use nearfar_model::EmulatedTier;
use nearfar_model::simulation::{Machine, MachineError};

use super::simulated::{DevicePages, Window};
use crate::access::prefetchers::PrefetcherError;
use crate::access::spec::{RunSpec, SpecError, SpecErrorKind};

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
    /// The profile's machine cannot be simulated.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Prefetchers are to be off, and cannot be.
    #[error(transparent)]
    Prefetchers(#[from] PrefetcherError),
    /// The kernel does not tell which processors may be used.
    #[error("the kernel does not tell the processors of this process")]
    Cpus(#[from] nearfar_memory::sys::SysError),
}

impl PlanError {
    /// Whether the specification asks for a tier that this machine has not.
    pub fn is_missing_tier(&self) -> bool {
        matches!(self, Self::Spec(error) if error.kind == SpecErrorKind::UnknownTier)
    }
}

/// A region with everything decided.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedRegion {
    /// Bytes of it.
    pub bytes: usize,
    /// Size of its pages.
    pub page_size: PageSize,
    /// Where they lie.
    pub placement: PlannedPlacement,
    /// Whether some lie on a modelled tier.
    pub is_modelled: bool,
}

/// Where the pages of a region lie.
#[derive(Debug, Clone, PartialEq)]
pub enum PlannedPlacement {
    /// In memory of this machine.
    Memory(Placement),
    /// On devices of the simulated one, part after part.
    Simulated(Vec<DevicePages>),
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
    /// What of it is simulated; none where it runs in memory.
    pub window: Option<Window>,
}

/// Where a plan runs.
#[derive(Debug)]
pub enum PlanTarget {
    /// In the memory of this machine, in wall-clock time.
    Memory {
        /// The tiers.
        system: Arc<MemorySystem>,
        /// The models of those that are modelled.
        models: Vec<(TierId, Arc<EmulatedTier>)>,
    },
    /// In the model, in virtual time.
    Simulated(Box<Machine>),
}

/// All points, checked.
#[derive(Debug)]
pub struct Plan {
    /// The points, in order.
    pub runs: Vec<PlannedRun>,
    /// Where they run.
    pub target: PlanTarget,
    /// Settings as they were written, for results.
    pub settings: BTreeMap<String, String>,
}

impl PlannedRun {
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
