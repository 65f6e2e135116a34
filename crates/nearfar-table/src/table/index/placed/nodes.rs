//! The nodes of one index.

use nearfar_index::memory::{BlockAllocator, NodeMemory};
use nearfar_index::placement::{Frontend, Placer, Tracking};
use nearfar_index::{Art, Masstree};
use nearfar_memory::{SlabHeap, TierId};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::home::IndexHome;
use super::policy::IndexPlacement;
use crate::placement::{Call, IndexWorkers, Turns};
use crate::table::row_ids::RowId;

/// What may be near of an index however small it is.
const NEAR_BYTES_MIN: u64 = 64 << 10;
/// No limit: the tier's budget is what counts.
const UNLIMITED: u64 = u64::MAX >> 1;
/// Insertions after which the bytes that may be near follow the size of the index.
const INSERTS_PER_LOOK: u32 = 1024;
/// Turns that workers take after the last use of an index, so that what is queued is moved.
const TURNS_AFTER_USE: u8 = 8;
/// The most leaves that one turn looks at.
const LEAVES_PER_TURN: usize = 1 << 16;

/// What an index has on one tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexTier {
    /// The tier's name.
    pub name: String,
    /// Nodes, those that are retired and not freed yet included.
    pub nodes: u64,
    /// Their bytes.
    pub node_bytes: u64,
    /// What the tier is charged with.
    pub region_bytes: u64,
}

/// Where the nodes of an index are, and what was moved.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IndexStatistics {
    /// Each of its tiers, near to far; none where it has nodes in the process's own memory.
    pub tiers: Vec<IndexTier>,
    /// Nodes that were moved nearer.
    pub promoted: u64,
    /// Nodes that were moved farther.
    pub demoted: u64,
    /// The used share of the bytes that may be near, where there are such.
    pub near_used: Option<f64>,
    /// The shares of those bytes between which their use is kept, low and high, where nodes are moved.
    pub watermarks: Option<(f64, f64)>,
}

/// The memory of an index: where its nodes are, and who is told that they are used.
#[derive(Debug, Default)]
pub struct Nodes {
    /// With their tiers' names, near to far.
    heaps: Vec<(String, SlabHeap)>,
    moved: Option<Arc<MovedNodes>>,
}

/// A tree that workers move the nodes of.
#[derive(Debug, Clone)]
pub enum MovedTree {
    Art(Arc<Art<RowId>>),
    Masstree(Arc<Masstree<RowId>>),
}

#[derive(Debug)]
enum TreePlacer {
    Art(Placer<Arc<Art<RowId>>>),
    Masstree(Placer<Arc<Masstree<RowId>>>),
}

macro_rules! with_placer {
    ($placer:expr, $name:ident => $call:expr) => {
        match $placer {
            TreePlacer::Art($name) => $call,
            TreePlacer::Masstree($name) => $call,
        }
    };
}

/// The part of an index that workers know.
#[derive(Debug)]
pub struct MovedNodes {
    placement: IndexPlacement,
    tree: OnceLock<MovedTree>,
    /// Made with the first turn, which knows how large the index is.
    placer: OnceLock<TreePlacer>,
    began: Instant,
    is_used: AtomicBool,
    turns_left: AtomicU8,
    inserts: AtomicU32,
    /// Nodes moved by the end of the last turn.
    moves: Mutex<u64>,
    call: Call,
}

impl Nodes {
    /// Memory at `home` for an index that is placed so, and what its tree asks.
    pub fn new(
        home: Option<&IndexHome>,
        placement: &IndexPlacement,
    ) -> (Self, NodeMemory, Frontend) {
        let Some(home) = home else {
            let memory = NodeMemory::platform();
            return (Self::default(), memory, Frontend::all_near());
        };
        let heaps = home.heaps(placement);
        let is_moved = placement.policy.options().is_some() && heaps.len() > 1;
        let allocators = heaps.iter().enumerate().map(|(index, heap)| {
            let is_bounded = is_moved && index == 0;
            let allocator: BlockAllocator = Box::new(heap.clone());
            (
                allocator,
                if is_bounded {
                    NEAR_BYTES_MIN
                } else {
                    UNLIMITED
                },
            )
        });
        let memory = NodeMemory::on_allocators(allocators.collect());
        let frontend = Frontend::new(placement.allocation(), Tracking::Off, memory.farthest());
        let named = heaps.into_iter().map(|heap| (home.name(heap.tier()), heap));
        let moved = is_moved.then(|| Arc::new(MovedNodes::new(placement, home.workers())));
        let nodes = Self {
            heaps: named.collect(),
            moved,
        };
        (nodes, memory, frontend)
    }

    /// Has workers move the nodes of `tree`, where they are to be moved.
    pub fn begin(&self, tree: &MovedTree, home: &IndexHome) {
        if let Some(moved) = &self.moved {
            moved.follow_size(tree);
            moved.tree.get_or_init(|| tree.clone());
            let index = Arc::downgrade(moved);
            home.workers().add(index);
        }
    }

    /// Notes that the index is used.
    #[inline]
    pub fn note_use(&self) {
        if let Some(moved) = &self.moved
            && !moved.is_used.load(Relaxed)
        {
            moved.wake();
        }
    }

    /// Notes that a key was inserted into `tree`.
    #[inline]
    pub fn note_insert(&self, tree: &MovedTree) {
        let Some(moved) = &self.moved else {
            return;
        };
        self.note_use();
        if moved
            .inserts
            .fetch_add(1, Relaxed)
            .is_multiple_of(INSERTS_PER_LOOK)
        {
            moved.follow_size(tree);
        }
    }

    /// Where its nodes are.
    pub fn statistics(&self) -> IndexStatistics {
        let tiers = self.heaps.iter().map(|(name, heap)| {
            let usage = heap.usage();
            IndexTier {
                name: name.clone(),
                nodes: usage.blocks,
                node_bytes: usage.block_bytes,
                region_bytes: usage.region_bytes,
            }
        });
        let mut statistics = IndexStatistics {
            tiers: tiers.collect(),
            ..IndexStatistics::default()
        };
        if let Some(moved) = &self.moved {
            let (promoted, demoted) = moved.moved();
            (statistics.promoted, statistics.demoted) = (promoted, demoted);
            statistics.near_used = moved.near_used();
            statistics.watermarks = moved.watermarks();
        }
        statistics
    }
}

impl MovedTree {
    fn memory(&self) -> &NodeMemory {
        match self {
            Self::Art(tree) => tree.memory(),
            Self::Masstree(tree) => tree.memory(),
        }
    }
}

impl MovedNodes {
    fn new(placement: &IndexPlacement, workers: &IndexWorkers) -> Self {
        Self {
            placement: placement.clone(),
            tree: OnceLock::new(),
            placer: OnceLock::new(),
            began: Instant::now(),
            is_used: AtomicBool::new(false),
            turns_left: AtomicU8::new(0),
            inserts: AtomicU32::new(0),
            moves: Mutex::default(),
            call: workers.call(),
        }
    }

    #[cold]
    fn wake(&self) {
        if !self.is_used.swap(true, Relaxed) {
            self.call.wake();
        }
    }

    /// Has the bytes that may be near follow the size of the tree.
    fn follow_size(&self, tree: &MovedTree) {
        let memory = tree.memory();
        let near_bytes = memory.used_bytes() / 100 * u64::from(self.placement.near_percent);
        memory.set_budget(TierId::NEAR, near_bytes.max(NEAR_BYTES_MIN));
    }

    fn placer(&self) -> Option<&TreePlacer> {
        if let Some(placer) = self.placer.get() {
            return Some(placer);
        }
        let mut options = self.placement.policy.options()?;
        options.leaves_per_wakeup_max = Some(LEAVES_PER_TURN);
        let made = match self.tree.get()? {
            MovedTree::Art(tree) => Placer::new(Arc::clone(tree), options).map(TreePlacer::Art),
            MovedTree::Masstree(tree) => {
                Placer::new(Arc::clone(tree), options).map(TreePlacer::Masstree)
            }
        };
        match made {
            Ok(placer) => Some(self.placer.get_or_init(|| placer)),
            Err(error) => {
                tracing::debug!(%error, "nodes of an index stay where they are");
                None
            }
        }
    }

    /// Nodes that were moved nearer, and farther.
    fn moved(&self) -> (u64, u64) {
        let Some(placer) = self.placer.get() else {
            return (0, 0);
        };
        let moves = with_placer!(placer, placer => placer.moves());
        moves.iter().fold((0, 0), |(promoted, demoted), moves| {
            (
                promoted + moves.promoted_nodes,
                demoted + moves.demoted_nodes,
            )
        })
    }

    fn near_used(&self) -> Option<f64> {
        let tree = self.tree.get()?;
        Some(tree.memory().ledger(TierId::NEAR).used_share())
    }

    fn watermarks(&self) -> Option<(f64, f64)> {
        let options = self.placement.policy.options()?;
        let watermarks = options.watermarks_of(TierId::NEAR);
        Some((watermarks.low, watermarks.high))
    }
}

impl Turns for MovedNodes {
    fn wants_turn(&self) -> bool {
        self.is_used.load(Relaxed) || self.turns_left.load(Relaxed) > 0
    }

    fn take_turn(&self) -> bool {
        match self.is_used.swap(false, Relaxed) {
            true => self.turns_left.store(TURNS_AFTER_USE, Relaxed),
            false => drop(self.turns_left.fetch_sub(1, Relaxed)),
        }
        if let Some(tree) = self.tree.get() {
            self.follow_size(tree);
        }
        let Some(placer) = self.placer() else {
            return false;
        };
        with_placer!(placer, placer => placer.step(self.began.elapsed()));
        let (promoted, demoted) = self.moved();
        let mut moves = self.moves.lock();
        let has_moved = promoted + demoted > *moves;
        *moves = promoted + demoted;
        has_moved
    }
}

#[cfg(test)]
mod tests {
    use super::super::IndexPolicy;

    #[test]
    fn only_policies_with_levels_and_uses_move_nodes() {
        let moved = IndexPolicy::ALL.map(|policy| policy.options().is_some());
        assert_eq!(moved, [false, false, false, false, true, true]);
    }
}
