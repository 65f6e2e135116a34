//! What the threads of the specification share, and where each of them is.
//!
//! A root holder (slot 0) points to one inner node, which points to leaves. Each node has the
//! version, the lock and the mark *obsolete* of `OptimisticLock`.

use super::{KEYS, Op, SLOTS};

/// Nobody holds a lock.
pub const NOBODY: u8 = u8::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Free,
    Live,
    /// Out of the tree; freed when none of these threads is in its operation any more.
    Retired {
        seen_by: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Content {
    /// The slot of the child for each key.
    Inner([u8; KEYS]),
    /// The value of each key; zero for none.
    Leaf([u8; KEYS]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Node {
    pub version: u8,
    pub holder: u8,
    pub is_obsolete: bool,
    pub tier: u8,
    pub phase: Phase,
    pub content: Content,
}

/// Where a thread is in its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    Begin,
    LoadInner,
    ReadInner,
    LoadLeaf,
    ReadLeaf,
    LoadValue,
    ValidateValue,
    Decide,
    LockLeaf,
    StoreLeaf,
    UnlockLeaf,
    LockUpper,
    LockLower,
    Copy,
    StoreUpper,
    StoreLower,
    EndLower,
    UnlockUpper,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The operation of its list.
    pub op: u8,
    pub next: Next,
    /// Root holder, inner node and leaf on the way, and their versions.
    pub slots: [u8; 3],
    pub versions: [u8; 3],
    pub value: u8,
    /// The node that it has made and not yet published.
    pub made: u8,
    /// For a reader, the values that its key has had since it began.
    pub possible: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub nodes: [Node; SLOTS],
    pub threads: Vec<Thread>,
    /// What the map holds, as of the operations that have taken effect.
    pub truth: [u8; KEYS],
    /// A reader returned what its key had not been.
    pub has_misread: bool,
    /// Somebody touched a node that was free.
    pub has_touched_freed: bool,
}

impl State {
    /// An inner node (slot 1, near) over two leaves: one far with keys 0 and 1, one near with key 3.
    pub fn new(threads: usize) -> Self {
        let node = |tier, phase, content| Node {
            version: 0,
            holder: NOBODY,
            is_obsolete: false,
            tier,
            phase,
            content,
        };
        let leaf = Content::Leaf;
        let mut nodes = [node(0, Phase::Free, leaf([0; KEYS])); SLOTS];
        nodes[0] = node(0, Phase::Live, Content::Inner([1; KEYS]));
        nodes[1] = node(0, Phase::Live, Content::Inner([2, 2, 2, 3, 3]));
        nodes[2] = node(1, Phase::Live, leaf([1, 1, 0, 0, 0]));
        nodes[3] = node(0, Phase::Live, leaf([0, 0, 0, 1, 0]));
        let thread = Thread {
            op: 0,
            next: Next::Begin,
            slots: [0; 3],
            versions: [0; 3],
            value: 0,
            made: 0,
            possible: 0,
        };
        Self {
            nodes,
            threads: vec![thread; threads],
            truth: [1, 1, 0, 1, 0],
            has_misread: false,
            has_touched_freed: false,
        }
    }

    pub fn is_done(&self, ops: &[Vec<Op>]) -> bool {
        let mut threads = self.threads.iter().zip(ops);
        threads.all(|(thread, ops)| usize::from(thread.op) == ops.len())
    }

    /// Children of an inner node, each at least once.
    pub fn children(&self, slot: u8) -> Vec<u8> {
        match self.nodes[usize::from(slot)].content {
            Content::Inner(children) => children.to_vec(),
            Content::Leaf(_) => Vec::new(),
        }
    }

    /// What a walk from the root finds.
    pub fn walk(&self) -> [u8; KEYS] {
        std::array::from_fn(|key| {
            let inner = self.child(0, key);
            self.value_in(self.child(inner, key), key)
        })
    }

    pub fn child(&self, slot: u8, key: usize) -> u8 {
        match self.nodes[usize::from(slot)].content {
            Content::Inner(children) => children[key],
            Content::Leaf(_) => 0,
        }
    }

    pub fn value_in(&self, slot: u8, key: usize) -> u8 {
        match self.nodes[usize::from(slot)].content {
            Content::Leaf(values) => values[key],
            Content::Inner(_) => 0,
        }
    }
}
