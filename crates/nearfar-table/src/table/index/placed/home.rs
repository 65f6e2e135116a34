//! The memory of an engine, as indexes need it.

use nearfar_memory::{MemorySystem, OverBudget, RegionOptions, SlabHeap, TierId};
use std::sync::Arc;

use super::policy::{IndexPlacement, IndexPolicy};
use crate::placement::{IndexWorkers, Storage};

/// Where the nodes of an engine's indexes come from, and who moves them.
#[derive(Debug, Clone)]
pub struct IndexHome {
    system: Arc<MemorySystem>,
    options: RegionOptions,
    workers: Arc<IndexWorkers>,
}

impl IndexHome {
    /// The memory that segments are put into too.
    pub fn of(storage: &Storage) -> Self {
        Self {
            system: Arc::clone(&storage.system),
            options: storage.options,
            workers: Arc::clone(&storage.index_workers),
        }
    }

    /// Who moves nodes.
    pub(super) fn workers(&self) -> &Arc<IndexWorkers> {
        &self.workers
    }

    /// What a tier is called.
    pub(super) fn name(&self, tier: TierId) -> String {
        self.system.name(tier)
    }

    /// A heap on each tier of an index, near to far: the tiers of its placement, and behind them, where
    /// what exceeds a budget goes farther, all others that the kernel allocates on.
    pub(super) fn heaps(&self, placement: &IndexPlacement) -> Vec<SlabHeap> {
        let far = placement
            .tier
            .as_deref()
            .map(|name| self.tier_or_farthest(name));
        let mut tiers: Vec<TierId> = match (placement.policy, far) {
            (IndexPolicy::Far, Some(far)) => vec![far],
            (policy, Some(far)) if policy.is_split() => vec![TierId::NEAR, far],
            _ => vec![TierId::NEAR],
        };
        // A placer wants tiers that are meant to be used.
        if self.options.over_budget == OverBudget::Spill && !placement.policy.is_split() {
            let last = tiers[0];
            let behind = self
                .system
                .tiers()
                .filter(|(tier, info)| *tier > last && info.has_nodes());
            tiers.extend(behind.map(|(tier, _)| tier));
        }
        let heaps = tiers.into_iter();
        heaps
            .map(|tier| SlabHeap::new(&self.system, tier, self.options))
            .collect()
    }

    /// A tier by its name; the farthest that the kernel allocates on where a data directory has come to a
    /// machine without one of that name.
    fn tier_or_farthest(&self, name: &str) -> TierId {
        if let Ok(tier) = self.system.tier(name) {
            return tier;
        }
        let tiers = self.system.tiers().filter(|(_, info)| info.has_nodes());
        let farthest = tiers.map(|(tier, _)| tier).last().unwrap_or(TierId::NEAR);
        let instead = self.name(farthest);
        tracing::warn!(
            name,
            instead,
            "an index is of a tier that this machine has not"
        );
        farthest
    }
}
