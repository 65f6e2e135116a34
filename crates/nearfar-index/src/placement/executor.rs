//! Moving what is queued.

use std::ops::Deref;
use std::time::Duration;

use nearfar_memory::TierId;

use super::placer::{NodeOf, Placer};
use super::queue::{Demotion, Promotion};
use super::{MigrateError, Migration, Parameters, PlacedTree, Thresholds};

/// Moves after which a worker hands over what it retired, so that it is freed.
const FREED_AT_ONCE: usize = 256;

/// A node on the way to a hot leaf.
struct Step<N> {
    node: N,
    from: TierId,
    bytes: usize,
}

impl<H: Deref<Target: PlacedTree>> Placer<H> {
    /// Promotes queued leaves with their ways, the most used first.
    pub(super) fn promote(&self, now: Duration) {
        let mut moved = 0;
        while self.allowance().allows(now) {
            let Some(promotion) = self.promotions().pop() else {
                break;
            };
            let bytes = self.promote_path(&promotion);
            self.allowance().spend(bytes);
            moved += 1;
            if moved % FREED_AT_ONCE == 0 {
                self.tree.memory().quiesce();
            }
        }
        if moved > 0 {
            self.tree.memory().quiesce();
        }
    }

    /// Moves a leaf and those of its ancestors that lie farther than `to`: from the top down, so
    /// that no node is ever nearer than its parent. Where a tier is full, the rest of the way goes
    /// to the next one. Returns the bytes moved.
    pub(super) fn promote_path(&self, promotion: &Promotion<NodeOf<H>>) -> usize {
        let Some(path) = self.path_to(promotion) else {
            self.tally().refusals.gone += 1;
            return 0;
        };
        let (mut to, mut bytes) = (promotion.to, 0);
        for step in path.iter().rev() {
            while to < step.from {
                if !self.has_room(to, step.bytes, promotion.is_warm) {
                    to = self.farther(to);
                    continue;
                }
                match self.migrate(&step.node, to) {
                    Ok(moved) => {
                        bytes += moved;
                        break;
                    }
                    Err(MigrateError::NoRoom { .. }) => to = self.farther(to),
                    // Something has changed on the way: the next pass finds it as it is then.
                    Err(_) => return bytes,
                }
            }
        }
        bytes
    }

    /// The leaf and its ancestors that lie farther than where it is to go, from the leaf up.
    fn path_to(&self, promotion: &Promotion<NodeOf<H>>) -> Option<Vec<Step<NodeOf<H>>>> {
        let leaf = Step {
            node: promotion.leaf.clone(),
            from: promotion.from,
            bytes: promotion.bytes,
        };
        let mut path = vec![leaf];
        while let Some(node) = self.tree.parent(&path[path.len() - 1].node) {
            let view = self.tree.view(&node)?;
            if view.tier <= promotion.to {
                break;
            }
            path.push(Step {
                node,
                from: view.tier,
                bytes: view.bytes,
            });
        }
        Some(path)
    }

    /// Whether a tier takes so many bytes of promoted nodes.
    fn has_room(&self, tier: TierId, bytes: usize, is_warm: bool) -> bool {
        if self.is_halted(tier) {
            return false;
        }
        let watermarks = self.options.watermarks_of(tier);
        let share_max = if is_warm {
            watermarks.low
        } else if self.options.mechanisms.keeps_headroom {
            watermarks.high
        } else {
            return true;
        };
        let ledger = self.tree.memory().ledger(tier);
        (ledger.used_bytes() + bytes as u64) as f64 <= share_max * ledger.budget_bytes as f64
    }

    /// Demotes what is queued, from the farthest tier on, so that those before it find room.
    pub(super) fn demote(&self, now: Duration) {
        for tier in self.near_tiers().rev() {
            let share_min = self.demotes_down_to(tier);
            self.demote_from(tier, share_min, Some(now));
        }
    }

    /// The used share at which demotion has done enough. As in the paper, all cold nodes go;
    /// where promotion keeps headroom, only as many as make room for what waits.
    fn demotes_down_to(&self, tier: TierId) -> f64 {
        if !self.options.mechanisms.keeps_headroom {
            return 0.0;
        }
        let watermarks = self.options.watermarks_of(tier);
        let mut waiting_bytes = self.promotions().bytes_to(tier);
        if self.is_fitted() {
            let worth_bytes = self.control().tiers[tier.index()].exchange.bytes;
            waiting_bytes = waiting_bytes.min(worth_bytes);
        }
        let budget_bytes = self.tree.memory().ledger(tier).budget_bytes as f64;
        (watermarks.high - waiting_bytes as f64 / budget_bytes).clamp(0.0, watermarks.high)
    }

    /// Demotes queued nodes of one tier, and then their parents where nothing nearer is below them
    /// (zhao-2026, algorithm 1), until the tier's used share is at most `share_min`. Heeds the
    /// rate if told the time. Returns whether anything was moved.
    pub(super) fn demote_from(&self, tier: TierId, share_min: f64, now: Option<Duration>) -> bool {
        let mut moved = 0;
        while now.is_none_or(|now| self.allowance().allows(now)) {
            if self.live_share(tier) <= share_min {
                self.demotions(tier).clear();
                break;
            }
            let Some(demotion) = self.demotions(tier).pop() else {
                break;
            };
            let parameters = self.control().tiers[tier.index()].parameters;
            if !goes(&demotion, &parameters, self.is_fitted()) {
                continue;
            }
            let bytes = self.demote_node(tier, &demotion);
            self.allowance().spend(bytes);
            moved += usize::from(bytes > 0);
            if moved % FREED_AT_ONCE == FREED_AT_ONCE - 1 {
                self.tree.memory().quiesce();
            }
        }
        if moved > 0 {
            self.tree.memory().quiesce();
        }
        moved > 0
    }

    fn demote_node(&self, tier: TierId, demotion: &Demotion<NodeOf<H>>) -> usize {
        // With two tiers, a node that lies elsewhere by now lies where it is to go.
        if self.farther(tier) < self.farthest
            && self.tree.view(&demotion.node).map(|view| view.tier) != Some(tier)
        {
            return 0;
        }
        let mut to = self.farther(tier);
        let bytes = loop {
            match self.migrate(&demotion.node, to) {
                Ok(bytes) => break bytes,
                Err(MigrateError::NoRoom { .. }) if to < self.farthest => to = self.farther(to),
                Err(_) => return 0,
            }
        };
        if bytes > 0 && demotion.level > 0 {
            self.queue_parent(tier, demotion, bytes);
        }
        bytes
    }

    pub(super) fn is_fitted(&self) -> bool {
        self.options.mechanisms.thresholds == Thresholds::Fitted
    }

    /// Queues the parent of a node of so many bytes that was demoted. Where thresholds are fitted, a
    /// parent stays that is used as much as what is hot.
    fn queue_parent(&self, tier: TierId, demotion: &Demotion<NodeOf<H>>, bytes: usize) {
        if let Some(node) = self.tree.parent(&demotion.node) {
            if self.is_fitted()
                && let (Some(rank), Some(view)) = (demotion.rank, self.tree.view(&node))
            {
                let hot_rank = self.control().tiers[tier.index()].parameters.hot_rank;
                if u32::from(self.rank_above(rank, bytes, view.bytes)) >= hot_rank.max(1) {
                    return;
                }
            }
            let identity = self.tree.identity(&node);
            let level = demotion.level - 1;
            self.demotions(tier).push_parent(
                Demotion {
                    node,
                    level,
                    rank: None,
                },
                identity,
            );
        }
    }

    /// Moves one node and counts it. Returns its bytes, zero if it was there already.
    fn migrate(&self, node: &NodeOf<H>, to: TierId) -> Result<usize, MigrateError> {
        let result = self.tree.migrate(node, to, true);
        let mut tally = self.tally();
        match result {
            Ok(Migration::Moved { from, bytes }) => {
                tally.moved(from, to, bytes);
                return Ok(bytes);
            }
            Ok(Migration::AlreadyThere) => return Ok(0),
            Err(MigrateError::Gone) => tally.refusals.gone += 1,
            Err(MigrateError::NoRoom { .. }) => tally.refusals.no_room += 1,
            Err(MigrateError::CrossesBoundary) => tally.refusals.crosses_boundary += 1,
            Err(MigrateError::Busy) => tally.refusals.busy += 1,
        }
        result.map(|_| 0)
    }

    /// The tier behind one, the farthest at last.
    fn farther(&self, tier: TierId) -> TierId {
        TierId::from_index(tier.index() + 1).map_or(self.farthest, |next| next.min(self.farthest))
    }

    /// Places hot leaves and their ways near and all else far, once, as an oracle would that knows
    /// what will be used (SIDLE-Prophet: zhao-2026, section 6.2). `is_hot` is asked of each leaf.
    pub fn place_beforehand(&self, mut is_hot: impl FnMut(&NodeOf<H>) -> bool) {
        let (mut hot, mut cold) = (Vec::new(), Vec::new());
        let _ = self.tree.visit_leaves(&mut |leaf| {
            if is_hot(leaf.node) {
                hot.push((leaf.node.clone(), leaf.tier, leaf.bytes));
            } else if leaf.tier < self.farthest {
                cold.push((leaf.node.clone(), leaf.tier, leaf.level));
            }
            std::ops::ControlFlow::Continue(())
        });
        for tier in self.near_tiers() {
            self.demotions(tier).clear();
            for (node, _, level) in cold.iter().filter(|(_, on, _)| *on == tier).cloned() {
                self.demotions(tier).push(Demotion {
                    node,
                    level,
                    rank: Some(0),
                });
            }
            self.demote_from(tier, 0.0, None);
        }
        for (leaf, from, bytes) in hot {
            self.promote_path(&Promotion {
                leaf,
                rank: u16::MAX,
                bytes,
                from,
                to: TierId::NEAR,
                is_warm: false,
            });
        }
        self.tree.memory().quiesce();
    }
}

/// Whether a queued node is demoted, as things are by now. Inner nodes go from a level on
/// (algorithm 1, line 4). So do leaves, but with fitted thresholds: there what is hot has earned its
/// room, whatever the level is, and where promotion never causes strain nothing would lower a level
/// that abundance has raised.
fn goes<N>(demotion: &Demotion<N>, parameters: &Parameters, is_fitted: bool) -> bool {
    match demotion.rank {
        Some(rank) if is_fitted => u32::from(rank) < parameters.cold_rank.max(1),
        _ => demotion.level >= u32::from(parameters.demote_level),
    }
}
