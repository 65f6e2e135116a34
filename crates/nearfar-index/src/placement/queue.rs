//! Nodes that wait to be moved.

use std::collections::{BTreeMap, HashSet, VecDeque};

use nearfar_memory::{MAX_TIERS, TierId};

use super::histogram::{BINS, bin_of};

/// A leaf that is to go nearer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Promotion<N> {
    pub(super) leaf: N,
    pub(super) rank: u16,
    pub(super) bytes: usize,
    pub(super) from: TierId,
    /// Where it is to go, if there is room.
    pub(super) to: TierId,
    /// Only while the tier is below its low watermark.
    pub(super) is_warm: bool,
}

/// Leaves to be promoted, the most used first.
#[derive(Debug)]
pub(super) struct PromotionQueue<N> {
    bins: Vec<VecDeque<Promotion<N>>>,
    /// Bytes of leaves that are to go to each tier.
    bytes: [u64; MAX_TIERS],
    length: usize,
    length_max: usize,
}

impl<N> PromotionQueue<N> {
    pub(super) fn new(length_max: usize) -> Self {
        Self {
            bins: (0..BINS).map(|_| VecDeque::new()).collect(),
            bytes: [0; MAX_TIERS],
            length: 0,
            length_max,
        }
    }

    /// Queues a leaf. A full queue gives up the least used one for it.
    pub(super) fn push(&mut self, promotion: Promotion<N>) {
        let bin = bin_of(promotion.rank);
        if self.length == self.length_max {
            let least = self.bins.iter().position(|queued| !queued.is_empty());
            let Some(least) = least.filter(|least| *least < bin) else {
                return;
            };
            let given_up = self.bins[least].pop_back();
            self.left(given_up.as_ref());
        }
        self.bytes[promotion.to.index()] += promotion.bytes as u64;
        self.bins[bin].push_back(promotion);
        self.length += 1;
    }

    fn left(&mut self, promotion: Option<&Promotion<N>>) {
        if let Some(promotion) = promotion {
            self.bytes[promotion.to.index()] -= promotion.bytes as u64;
            self.length -= 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<Promotion<N>> {
        let queued = self.bins.iter_mut().rev().find(|bin| !bin.is_empty())?;
        let popped = queued.pop_front();
        self.left(popped.as_ref());
        popped
    }

    /// Bytes of the leaves that are to go to a tier.
    pub(super) fn bytes_to(&self, tier: TierId) -> u64 {
        self.bytes[tier.index()]
    }

    pub(super) fn clear(&mut self) {
        self.bins.iter_mut().for_each(VecDeque::clear);
        self.bytes = [0; MAX_TIERS];
        self.length = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Bytes of the room that it has.
    pub(super) fn heap_bytes(&self) -> usize {
        let room: usize = self.bins.iter().map(VecDeque::capacity).sum();
        room * size_of::<Promotion<N>>()
            + self.bins.capacity() * size_of::<VecDeque<Promotion<N>>>()
    }
}

/// A node that is to go farther.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Demotion<N> {
    pub(super) node: N,
    pub(super) level: u32,
    /// For a leaf, its rank.
    pub(super) rank: Option<u16>,
}

/// Nodes to be demoted from one tier, the deepest first, so that all queued children of a node
/// have been handled when its turn comes (zhao-2026, algorithm 1).
#[derive(Debug)]
pub(super) struct DemotionQueue<N> {
    levels: BTreeMap<u32, VecDeque<Demotion<N>>>,
    /// Inner nodes that were queued, by what the tree says tells them apart.
    parents: HashSet<usize>,
    length: usize,
    length_max: usize,
}

impl<N> DemotionQueue<N> {
    pub(super) fn new(length_max: usize) -> Self {
        Self {
            levels: BTreeMap::new(),
            parents: HashSet::new(),
            length: 0,
            length_max,
        }
    }

    /// Queues a node, unless the queue is full.
    pub(super) fn push(&mut self, demotion: Demotion<N>) {
        if self.length < self.length_max {
            let level = self.levels.entry(demotion.level).or_default();
            level.push_back(demotion);
            self.length += 1;
        }
    }

    /// Queues an inner node, unless it was queued since the queue was last empty.
    pub(super) fn push_parent(&mut self, demotion: Demotion<N>, identity: Option<usize>) {
        if identity.is_none_or(|identity| self.parents.insert(identity)) {
            self.push(demotion);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Demotion<N>> {
        let Some(mut deepest) = self.levels.last_entry() else {
            self.parents.clear();
            return None;
        };
        let popped = deepest.get_mut().pop_front();
        if deepest.get().is_empty() {
            deepest.remove();
        }
        self.length -= usize::from(popped.is_some());
        popped
    }

    pub(super) fn clear(&mut self) {
        self.levels.clear();
        self.parents.clear();
        self.length = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Bytes of the room that it has.
    pub(super) fn heap_bytes(&self) -> usize {
        let room: usize = self.levels.values().map(VecDeque::capacity).sum();
        let levels = self.levels.len() * size_of::<(u32, VecDeque<Demotion<N>>)>();
        room * size_of::<Demotion<N>>() + levels + self.parents.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promotion(leaf: u32, rank: u16) -> Promotion<u32> {
        Promotion {
            leaf,
            rank,
            bytes: 100,
            from: TierId::from_index(1).unwrap(),
            to: TierId::NEAR,
            is_warm: false,
        }
    }

    #[test]
    fn the_most_used_leaves_go_first_and_stay_when_the_queue_is_full() {
        let mut queue = PromotionQueue::new(3);
        for (leaf, rank) in [(1, 5), (2, 500), (3, 50), (4, 5000), (5, 1)] {
            queue.push(promotion(leaf, rank));
        }
        assert_eq!((queue.len(), queue.bytes_to(TierId::NEAR)), (3, 300));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let leaves: Vec<_> = order.iter().map(|promotion| promotion.leaf).collect();
        assert_eq!(leaves, [4, 2, 3]);
        assert_eq!((queue.len(), queue.bytes_to(TierId::NEAR)), (0, 0));
    }

    #[test]
    fn the_deepest_nodes_go_first_and_parents_once() {
        let mut queue = DemotionQueue::new(10);
        let at = |node, level| Demotion {
            node,
            level,
            rank: None,
        };
        for demotion in [at(1, 2), at(2, 4), at(3, 3), at(4, 4)] {
            queue.push(demotion);
        }
        queue.push_parent(at(5, 3), Some(7));
        queue.push_parent(at(6, 3), Some(7));
        queue.push_parent(at(8, 3), None);
        assert_eq!(queue.len(), 6);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let nodes: Vec<_> = order.iter().map(|demotion| demotion.node).collect();
        assert_eq!(nodes, [2, 4, 3, 5, 8, 1]);
        queue.push_parent(at(9, 3), Some(7));
        assert_eq!(queue.len(), 1, "a new round");
    }
}
