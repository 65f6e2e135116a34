//! Looking at the inner nodes above leaves that stay where they are.

use std::collections::HashSet;
use std::ops::Deref;

use nearfar_memory::TierId;

use super::placer::{NodeOf, Placer, tiers_below};
use super::queue::{Demotion, Promotion};
use super::scan::Scan;
use super::{Parameters, PlacedTree};

impl<H: Deref<Target: PlacedTree>> Placer<H> {
    /// Queues parents of leaves that stay far, where the parent is used as much as what is hot: all
    /// of its leaves together may be, and none of them alone.
    pub(super) fn look_at_ways(
        &self,
        leaves: Vec<(NodeOf<H>, u16, usize)>,
        tiers: &[Parameters],
        scan: &mut Scan<NodeOf<H>>,
    ) {
        let mut known = HashSet::new();
        for (leaf, leaf_rank, leaf_bytes) in leaves {
            let Some(node) = self.tree.parent(&leaf) else {
                continue;
            };
            let Some(view) = self.tree.view(&node) else {
                continue;
            };
            let is_known = |identity| !known.insert(identity);
            if view.tier == TierId::NEAR || self.tree.identity(&node).is_some_and(is_known) {
                continue;
            }
            let rank = self.rank_above(leaf_rank, leaf_bytes, view.bytes);
            scan.ways[view.tier.index()].add(rank, view.bytes);
            let is_hot = |to: &TierId| u32::from(rank) >= tiers[to.index()].hot_rank;
            if let Some(to) = tiers_below(view.tier.index()).find(is_hot) {
                self.promotions().push(Promotion {
                    leaf: node,
                    rank,
                    bytes: view.bytes,
                    from: view.tier,
                    to,
                    is_warm: false,
                });
            }
        }
    }

    /// Queues the nearest ancestors of cold leaves that lie nearer than they do: nothing else would
    /// demote an ancestor whose leaves are all far.
    pub(super) fn look_above(&self, leaves: Vec<(NodeOf<H>, TierId, u32)>, tiers: &[Parameters]) {
        for (leaf, leaf_tier, leaf_level) in leaves {
            let (mut node, mut level) = (leaf, leaf_level);
            while let Some(parent) = self.tree.parent(&node) {
                level = level.saturating_sub(1);
                node = parent;
                let Some(view) = self.tree.view(&node) else {
                    break;
                };
                if view.tier < leaf_tier {
                    let may_go = tiers.get(view.tier.index());
                    if may_go.is_some_and(|tier| level >= u32::from(tier.demote_level)) {
                        let identity = self.tree.identity(&node);
                        let demotion = Demotion {
                            node,
                            level,
                            rank: None,
                        };
                        self.demotions(view.tier).push_parent(demotion, identity);
                    }
                    break;
                }
            }
        }
    }
}
