//! Which nodes of an index go where, as it was declared.

use nearfar_index::placement::{Allocation, PlacementOptions};
use nearfar_memory::TierId;

/// How the tier of a node is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexPolicy {
    /// All nodes near.
    #[default]
    Near,
    /// All nodes on the index's tablespace.
    Far,
    /// Nodes in turn near and there, whatever they are.
    Interleave,
    /// Inner nodes near, leaves there.
    InnerNear,
    /// By level and by use, with the paper's numbers (zhao-2026, sections 3 to 5).
    Sidle,
    /// The same with what goes beyond the paper ([`PlacementOptions::fitted`]).
    Fitted,
}

impl IndexPolicy {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Near,
        Self::Far,
        Self::Interleave,
        Self::InnerNear,
        Self::Sidle,
        Self::Fitted,
    ];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::Interleave => "interleave",
            Self::InnerNear => "inner-near",
            Self::Sidle => "sidle",
            Self::Fitted => "fitted",
        }
    }

    /// Whether nodes are on two tiers.
    pub fn is_split(self) -> bool {
        !matches!(self, Self::Near | Self::Far)
    }

    /// Whether a share of the nodes that are near is chosen with it.
    pub fn has_share(self) -> bool {
        matches!(self, Self::Interleave | Self::Sidle | Self::Fitted)
    }

    /// What workers are to do, where nodes are moved.
    pub(super) fn options(self) -> Option<PlacementOptions> {
        match self {
            Self::Sidle => Some(PlacementOptions::default()),
            Self::Fitted => Some(PlacementOptions::fitted()),
            Self::Near | Self::Far | Self::Interleave | Self::InnerNear => None,
        }
    }
}

/// Where the nodes of an index go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPlacement {
    /// How the tier of a node is chosen.
    pub policy: IndexPolicy,
    /// The percentage of the index's bytes that may be near, from 1 to 99, where the policy has one.
    pub near_percent: u8,
    /// The name of the tier that is not near, where the policy has one.
    pub tier: Option<String>,
}

impl Default for IndexPlacement {
    fn default() -> Self {
        Self {
            policy: IndexPolicy::default(),
            near_percent: Self::NEAR_PERCENT,
            tier: None,
        }
    }
}

impl IndexPlacement {
    /// The percentage that is near by default, as in zhao-2026, section 6.1.
    pub const NEAR_PERCENT: u8 = 20;

    /// How the tree chooses tiers of new nodes, where its first tier is the first of its memory's.
    pub(super) fn allocation(&self) -> Allocation {
        let percent = u32::from(self.near_percent);
        match self.policy {
            IndexPolicy::Near | IndexPolicy::Far => Allocation::Bound(TierId::NEAR),
            IndexPolicy::Interleave => Allocation::Interleaved(vec![percent, 100 - percent]),
            IndexPolicy::InnerNear => Allocation::InnerNear,
            IndexPolicy::Sidle | IndexPolicy::Fitted => Allocation::Layered,
        }
    }
}
