//! The example's tree with everything checked that a placer does to it.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use nearfar_index::memory::{NodeMemory, Purpose};
use nearfar_index::placement::{
    Allocation, Frontend, Histogram, LeafView, MigrateError, Migration, NodeView, Placed,
    PlacedTree, Placer, Tracking,
};
use nearfar_memory::TierId;

use super::bucket_trie::BucketTrie;

pub const MIB: u64 = 1 << 20;

pub fn tier(index: usize) -> TierId {
    TierId::from_index(index).unwrap()
}

/// A tree that checks the single boundary and the budgets after each migration, retires as many
/// bytes as it moves, and fails when told to.
pub struct Watched {
    pub tree: BucketTrie,
    pub panics: AtomicBool,
    pub migrations: AtomicU64,
    pub keys: u32,
}

impl Watched {
    /// A tree with `keys` keys over the whole range, on tiers with these budgets.
    pub fn new(budgets_bytes: &[u64], keys: u32) -> Self {
        let memory = NodeMemory::platform_with_budgets(budgets_bytes);
        let frontend = Frontend::new(Allocation::Layered, Tracking::Off, memory.farthest());
        // As a placer would find it: the first two levels near, the others far.
        for near in 0..budgets_bytes.len() - 1 {
            frontend.set_boundary(tier(near), 2);
        }
        let watched = Self {
            tree: BucketTrie::new(memory, frontend).unwrap(),
            panics: AtomicBool::new(false),
            migrations: AtomicU64::new(0),
            keys,
        };
        for index in 0..keys {
            watched
                .tree
                .insert(watched.key(index), index.into())
                .unwrap();
        }
        watched
    }

    pub fn key(&self, index: u32) -> u32 {
        index * (u32::MAX / self.keys)
    }

    /// Reads each key of a range so many times, and checks what comes back.
    pub fn read(&self, indices: Range<u32>, times: u32) {
        for index in indices {
            for _ in 0..times {
                assert_eq!(self.tree.get(self.key(index)), Some(index.into()));
            }
        }
    }

    /// The share of leaves with keys of a range that lie on a tier.
    pub fn share_on(&self, on: TierId, indices: Range<u32>) -> f64 {
        let keys = self.key(indices.start)..self.key(indices.end);
        let (mut there, mut all) = (0_u32, 0_u32);
        let _ = self.visit_leaves(&mut |leaf| {
            if keys.contains(&leaf.node.key) {
                all += 1;
                there += u32::from(leaf.tier == on);
            }
            ControlFlow::Continue(())
        });
        f64::from(there) / f64::from(all)
    }

    /// The share of leaves whose parents are near.
    pub fn share_with_near_parents(&self) -> f64 {
        let (mut near, mut all) = (0_u64, 0_u64);
        let _ = self.tree.visit_leaves(&mut |leaf| {
            let parent = self.tree.parent(leaf.node);
            let view = parent.and_then(|parent| self.tree.view(&parent));
            near += u64::from(view.is_none_or(|view| view.tier == TierId::NEAR));
            all += 1;
            ControlFlow::Continue(())
        });
        near as f64 / all as f64
    }

    pub fn leaves(&self) -> u64 {
        let mut leaves = 0;
        let _ = self.visit_leaves(&mut |_| {
            leaves += 1;
            ControlFlow::Continue(())
        });
        leaves
    }

    /// Walks over the whole tree: no node is nearer than its parent, and the bytes on each tier are
    /// what the ledger says.
    pub fn check(&self) {
        let mut names = Vec::new();
        let _ = self.visit_leaves(&mut |leaf| {
            names.push(leaf.node.clone());
            ControlFlow::Continue(())
        });
        let mut nodes: HashMap<(u32, u32), NodeView> = HashMap::new();
        for leaf in names {
            let (mut below, mut node) = (tier(15), Some(leaf));
            while let Some(name) = node {
                let view = self.view(&name).expect("nobody else is here");
                assert!(view.tier <= below, "{name:?} is farther than its child");
                below = view.tier;
                let digits = u32::MAX.checked_shl(32 - 4 * name.level).unwrap_or(0);
                nodes.insert((name.level, name.key & digits), view);
                node = self.parent(&name);
            }
        }
        let memory = self.memory();
        for index in 0..memory.tiers() {
            let there = nodes.values().filter(|view| view.tier == tier(index));
            let bytes: usize = there.map(|view| view.bytes).sum();
            let ledger = memory.ledger(tier(index));
            assert_eq!(ledger.node_bytes, bytes as u64, "{}", tier(index));
            assert!(ledger.used_bytes() <= ledger.budget_bytes);
        }
    }

    /// What the placer should have seen if it looked at all leaves now.
    pub fn recount(&self, ranks: impl Fn(u16, usize) -> u16) -> HashMap<usize, u64> {
        let mut bins = HashMap::new();
        let _ = self.visit_leaves(&mut |leaf| {
            let rank = u32::from(ranks(leaf.counter.uses(), leaf.bytes));
            let bin = (0..nearfar_index::placement::BINS)
                .find(|bin| (Histogram::ranks(*bin).0..Histogram::ranks(*bin).1).contains(&rank));
            *bins.entry(bin.unwrap()).or_default() += 1;
            ControlFlow::Continue(())
        });
        bins
    }

    /// Takes the room of a retired block on a tier until somebody frees it.
    pub fn retire(&self, bytes: usize, on: TierId) {
        let guard = self.memory().enter();
        if let Some(block) = self.memory().allocate_on(bytes, on, Purpose::Node) {
            // SAFETY: nobody knows of the block, and it is described as it was allocated.
            unsafe { guard.retire(block, bytes, on, Purpose::Node) };
        }
    }
}

/// The bins of a histogram that hold leaves.
pub fn bins(histogram: &Histogram) -> HashMap<usize, u64> {
    let bins = histogram.leaves().iter().copied().enumerate();
    bins.filter(|(_, leaves)| *leaves > 0).collect()
}

/// Steps a placer through a span of time, with `work` before each wake-up.
pub fn run(placer: &Placer<&Watched>, until: Duration, mut work: impl FnMut()) {
    while placer.next_wakeup() <= until {
        work();
        placer.step(placer.next_wakeup());
    }
}

impl PlacedTree for Watched {
    type Node = Placed<u32>;

    fn memory(&self) -> &NodeMemory {
        self.tree.memory()
    }

    fn frontend(&self) -> &Frontend {
        self.tree.frontend()
    }

    fn height(&self) -> u32 {
        self.tree.height()
    }

    fn visit_leaves(
        &self,
        visitor: &mut dyn FnMut(LeafView<'_, Self::Node>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.tree.visit_leaves(visitor)
    }

    fn visit_leaves_from(
        &self,
        from: &Self::Node,
        visitor: &mut dyn FnMut(LeafView<'_, Self::Node>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        self.tree.visit_leaves_from(from, visitor)
    }

    fn identity(&self, node: &Self::Node) -> Option<usize> {
        self.tree.identity(node)
    }

    fn parent(&self, node: &Self::Node) -> Option<Self::Node> {
        self.tree.parent(node)
    }

    fn view(&self, node: &Self::Node) -> Option<NodeView> {
        self.tree.view(node)
    }

    fn migrate(
        &self,
        node: &Self::Node,
        to: TierId,
        keep_boundary: bool,
    ) -> Result<Migration, MigrateError> {
        assert!(!self.panics.load(Relaxed), "told to panic");
        let used_before = self.memory().ledger(to).used_bytes();
        let result = self.tree.migrate(node, to, keep_boundary);
        if let Ok(Migration::Moved { from, bytes }) = result {
            self.migrations.fetch_add(1, Relaxed);
            self.retire(bytes, from);
        }
        if let (Some(view), Some(parent)) = (self.view(node), self.parent(node)) {
            let parent = self.view(&parent).expect("parents stay");
            assert!(parent.tier <= view.tier, "nearer than its parent");
            assert!(view.nearest_child.is_none_or(|child| view.tier <= child));
        }
        let ledger = self.memory().ledger(to);
        let most = ledger.budget_bytes.max(used_before);
        assert!(ledger.used_bytes() <= most, "over the budget");
        result
    }
}
