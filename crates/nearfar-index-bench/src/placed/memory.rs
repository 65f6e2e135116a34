//! Memory of this machine for trees under placement policies.

use std::sync::Arc;

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{Frontend, Tracking};
use nearfar_memory::{
    Budgets, HeapError, HeapOptions, MachineRoots, MemorySystem, SystemError, TierHeap, TierId,
    TierKind, TierSpec,
};

use super::policy::Policy;
use crate::map::MemorySource;

/// Two heaps, near and far: on tiers of this machine, or on its near memory, which stands for the model's tiers.
pub(crate) struct PolicyMemory {
    pub(crate) system: Arc<MemorySystem>,
    /// The system's tier that is far.
    pub(crate) far: TierId,
    pub(crate) policy: Policy,
    pub(crate) near_percent: u8,
    /// The most bytes of the tree that may be near; none for as many as there are.
    pub(crate) near_bytes: Option<u64>,
    pub(crate) huge_pages: bool,
    /// Address space of each heap; the tier's capacity by default.
    pub(crate) reserve_bytes: Option<usize>,
}

/// Address space of each heap in virtual time, over the bytes of the tree: all of it may come to lie on either tier,
/// and inserts and moves take more. The tables of policies of pages are as long as it is.
const RESERVE_RATIO: u64 = 2;
/// The least of it: small trees grow by more than their size.
const RESERVE_BYTES_MIN: usize = 8 << 30;

impl PolicyMemory {
    /// Heaps as large as their tiers under a policy, on pages of the usual size.
    pub(crate) fn new(
        (system, far): (&Arc<MemorySystem>, TierId),
        policy: Policy,
        near_percent: u8,
    ) -> Self {
        Self {
            system: Arc::clone(system),
            far,
            policy,
            near_percent,
            near_bytes: None,
            huge_pages: false,
            reserve_bytes: None,
        }
    }

    /// Heaps with room for a tree of about so many bytes.
    pub(crate) fn with_room_for(self, tree_bytes: u64) -> Self {
        let reserve_bytes = (tree_bytes * RESERVE_RATIO).next_multiple_of(1 << 30) as usize;
        Self {
            reserve_bytes: Some(reserve_bytes.max(RESERVE_BYTES_MIN)),
            ..self
        }
    }
}

/// A system of two tiers, which stand for modelled ones and share this machine's first node, and the far one of them.
pub(crate) fn stand_in_system() -> Result<(Arc<MemorySystem>, TierId), SystemError> {
    // Each may hold all that this machine can, whatever the tier has that it stands for.
    let total_bytes = MachineRoots::default().total_bytes();
    let capacity_bytes = total_bytes.unwrap_or(u64::MAX >> 1);
    let tier = |name, kind| TierSpec::new(name, kind, [0], capacity_bytes);
    let near = tier("near", TierKind::LocalDram);
    let tiers = vec![near, tier("far", TierKind::Modelled)];
    let system = MemorySystem::from_specs(tiers, &Budgets::new())?;
    Ok((system, TierId::from_index(1).unwrap_or(TierId::NEAR)))
}

impl MemorySource for PolicyMemory {
    fn make(&self) -> Result<(NodeMemory, Frontend), HeapError> {
        let options = HeapOptions {
            reserve_bytes: self.reserve_bytes,
            huge_pages: self.huge_pages,
            kernel_moves: self.policy.kernel().is_some(),
            ..HeapOptions::default()
        };
        let unlimited = u64::MAX >> 1;
        let near = TierHeap::new(&self.system, TierId::NEAR, options)?;
        let far = TierHeap::new(&self.system, self.far, options)?;
        let near_bytes = match self.policy {
            // What of it is near is not for the ledger to say.
            Policy::Pages { .. } | Policy::NumaBalancing { .. } | Policy::Damon => unlimited,
            Policy::AllNear | Policy::Weighted { .. } => unlimited,
            Policy::AllFar
            | Policy::Interleave
            | Policy::InnerNear
            | Policy::Sidle
            | Policy::Fitted
            | Policy::Layered
            | Policy::Tracked
            | Policy::TrackedPaths
            | Policy::Migrating
            | Policy::Histogram
            | Policy::Random
            | Policy::Oracle => self.near_bytes.unwrap_or(unlimited),
        };
        // The second of the memory's tiers, whichever that is of the system's.
        let far_tier = TierId::from_index(1).unwrap_or(TierId::NEAR);
        let memory = NodeMemory::on_heaps(vec![(near, near_bytes), (far, unlimited)]);
        let allocation = self.policy.allocation(self.near_percent);
        let frontend = Frontend::new(allocation, Tracking::Off, far_tier);
        Ok((memory, frontend))
    }
}
