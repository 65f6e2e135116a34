//! Memory of this machine that stands in for modelled tiers.

use std::sync::Arc;

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{Frontend, Tracking};
use nearfar_memory::{
    Budgets, HeapError, HeapOptions, MemorySystem, SystemError, TierHeap, TierId, TierKind,
    TierSpec,
};

use super::policy::Policy;
use crate::map::MemorySource;

/// Two heaps on this machine's memory, which stand for the model's tiers.
pub(crate) struct PolicyMemory {
    pub(crate) system: Arc<MemorySystem>,
    pub(crate) policy: Policy,
    pub(crate) near_percent: u8,
    /// The most bytes of the tree that may be near; none for as many as there are.
    pub(crate) near_bytes: Option<u64>,
    pub(crate) huge_pages: bool,
    /// Address space of each heap.
    pub(crate) reserve_bytes: usize,
}

/// Address space of each heap, where it is not known how large the tree gets.
const RESERVE_BYTES: usize = 8 << 30;
/// Address space of each heap over the bytes of a tree of known size: all of it may come to lie on either tier,
/// and inserts and moves take more.
const RESERVE_RATIO: u64 = 2;

impl PolicyMemory {
    /// Heaps of any size under a policy, on pages of the usual size.
    pub(crate) fn new(system: &Arc<MemorySystem>, policy: Policy, near_percent: u8) -> Self {
        Self {
            system: Arc::clone(system),
            policy,
            near_percent,
            near_bytes: None,
            huge_pages: false,
            reserve_bytes: RESERVE_BYTES,
        }
    }

    /// Heaps with room for a tree of about so many bytes, on huge pages.
    pub(crate) fn with_room_for(self, tree_bytes: u64) -> Self {
        let reserve_bytes = (tree_bytes * RESERVE_RATIO).next_multiple_of(1 << 30) as usize;
        Self {
            huge_pages: true,
            reserve_bytes: reserve_bytes.max(RESERVE_BYTES),
            ..self
        }
    }

    /// For a tree that lies on one modelled tier.
    pub(crate) fn near(system: &Arc<MemorySystem>) -> Self {
        Self::new(system, Policy::AllNear, 100)
    }
}

/// A system of two tiers, which stand for modelled ones and share this machine's first node.
pub(crate) fn stand_in_system() -> Result<Arc<MemorySystem>, SystemError> {
    // Address space is what limits heaps, not the size of a tier that stands for a modelled one.
    let capacity_bytes = u64::MAX >> 1;
    let tier = |name, kind| TierSpec::new(name, kind, [0], capacity_bytes);
    let near = tier("near", TierKind::LocalDram);
    let tiers = vec![near, tier("far", TierKind::Modelled)];
    MemorySystem::from_specs(tiers, &Budgets::new())
}

impl MemorySource for PolicyMemory {
    fn make(&self) -> Result<(NodeMemory, Frontend), HeapError> {
        let options = HeapOptions {
            reserve_bytes: Some(self.reserve_bytes),
            huge_pages: self.huge_pages,
            ..HeapOptions::default()
        };
        let unlimited = u64::MAX >> 1;
        let near = TierHeap::new(&self.system, TierId::NEAR, options)?;
        let far_tier = TierId::from_index(1).unwrap_or(TierId::NEAR);
        let far = TierHeap::new(&self.system, far_tier, options)?;
        let near_bytes = match self.policy {
            Policy::AllNear | Policy::Weighted { .. } | Policy::Pages { .. } => unlimited,
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
        let memory = NodeMemory::on_heaps(vec![(near, near_bytes), (far, unlimited)]);
        let allocation = self.policy.allocation(self.near_percent);
        let frontend = Frontend::new(allocation, Tracking::Off, far_tier);
        Ok((memory, frontend))
    }
}
