//! Memory for tables of tests.

use nearfar_memory::{
    Budgets, MemorySystem, OverBudget, PageSize, Placement, RegionOptions, TierId, TierKind,
    TierSpec,
};
use nearfar_table::placement::{ColumnPlacements, Storage};
use nearfar_table::tier_models::TierModels;
use std::sync::Arc;

/// Two tiers in this machine's memory.
pub fn storage() -> Storage {
    let tier = |name: &str, kind| TierSpec::new(name, kind, vec![0], 1 << 30);
    let tiers = vec![
        tier("near", TierKind::LocalDram),
        tier("far", TierKind::Modelled),
    ];
    Storage {
        system: MemorySystem::from_specs(tiers, &Budgets::new()).expect("two tiers"),
        options: RegionOptions {
            page_size: PageSize::Base,
            over_budget: OverBudget::Refuse,
        },
        temporary: None,
        pool: None,
        shelf: Arc::default(),
        models: TierModels::default(),
        index_workers: Arc::default(),
        traffic: Arc::default(),
    }
}

/// All columns on one of the tiers.
pub fn on(tier: usize) -> ColumnPlacements {
    let tier = TierId::from_index(tier).expect("a tier");
    ColumnPlacements::all(Placement::Bind(tier))
}
