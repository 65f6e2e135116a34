//! What a tree offers for its nodes to be moved between tiers.

use std::hash::Hash;
use std::ops::ControlFlow;

use nearfar_memory::TierId;

use super::{Frontend, LeafCounter};
use crate::memory::NodeMemory;

/// What a tree says of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeView {
    /// Nodes above it, counted on the way down: zero for the root.
    pub level: u32,
    /// Where it lies.
    pub tier: TierId,
    /// Its size, with the values that move with it.
    pub bytes: usize,
    /// Whether it is a leaf.
    pub is_leaf: bool,
    /// The nearest tier of its children; `None` for a leaf.
    pub nearest_child: Option<TierId>,
}

/// What a tree says of a leaf that it visits.
#[derive(Debug)]
pub struct LeafView<'l, N> {
    /// The leaf's name.
    pub node: &'l N,
    /// Nodes above it.
    pub level: u32,
    /// Where it lies.
    pub tier: TierId,
    /// Its size, with the values that move with it.
    pub bytes: usize,
    /// Its uses.
    pub counter: &'l LeafCounter,
}

/// How a migration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// The node is now on the tier; so many bytes were taken there and retired where it was.
    Moved {
        /// Where it was.
        from: TierId,
        /// Bytes of the node, with the values that moved with it.
        bytes: usize,
    },
    /// The node was there already.
    AlreadyThere,
}

/// Why a node was not moved. The tree is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MigrateError {
    /// The node is gone, or its name means another one now.
    #[error("the node is no longer part of the tree")]
    Gone,
    /// The tier has no room.
    #[error("{tier} has no room for a node of {bytes} bytes")]
    NoRoom {
        /// The tier that is full.
        tier: TierId,
        /// The node's bytes.
        bytes: usize,
    },
    /// The node would lie nearer than its parent, or farther than a child: along a path, tiers
    /// may only get farther (single boundary: zhao-2026, section 3.1).
    #[error("a parent lies farther, or a child nearer")]
    CrossesBoundary,
    /// Writers held the node for longer than the mover wanted to wait.
    #[error("the node is in use by writers")]
    Busy,
}

/// A tree whose nodes can be moved: what background workers need of it.
///
/// A node is named by a [`PlacedTree::Node`], which is a hint: it survives everything that others
/// do to the tree, and may come to mean another node, or none. So each call looks anew, under the
/// tree's own protocol, and pins an epoch for no longer than it takes. For trees of keys,
/// the name is a key and a level on the way to it ([`Placed`]); the parent is one level higher.
pub trait PlacedTree: Sync {
    /// The name of a node.
    type Node: Clone + Eq + Hash + Send;

    /// The memory of the nodes.
    fn memory(&self) -> &NodeMemory;

    /// What the tree asks when it allocates.
    fn frontend(&self) -> &Frontend;

    /// Levels of the longest path, at least one.
    fn height(&self) -> u32;

    /// Visits all leaves in order of their keys, those that stay through the visit once each. Must
    /// not pin one epoch for all of it: the memory of what others retire would pile up.
    fn visit_leaves(
        &self,
        visitor: &mut dyn FnMut(LeafView<'_, Self::Node>) -> ControlFlow<()>,
    ) -> ControlFlow<()>;

    /// As [`Self::visit_leaves`], from the leaf on that `from` means now. Returns `None` without
    /// visiting any where the tree cannot begin in the middle; then leaves are always looked at all
    /// together.
    fn visit_leaves_from(
        &self,
        from: &Self::Node,
        visitor: &mut dyn FnMut(LeafView<'_, Self::Node>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let _ = (from, visitor);
        None
    }

    /// A number that tells the node apart from others at this moment, such as its address, where
    /// one node has many names: with it, an ancestor is tried once for all of its leaves. `None`
    /// where the node is gone or names are unique.
    fn identity(&self, node: &Self::Node) -> Option<usize> {
        let _ = node;
        None
    }

    /// The node above, or `None` for the root.
    fn parent(&self, node: &Self::Node) -> Option<Self::Node>;

    /// What the node is like now; `None` when it is gone.
    fn view(&self, node: &Self::Node) -> Option<NodeView>;

    /// Moves one node, with the values that belong to it, keeping the single boundary where
    /// `keep_boundary` says so. Readers and writers go on meanwhile, and see the tree as if nothing
    /// had happened.
    ///
    /// # Errors
    /// [`MigrateError`]; the tree is as it was.
    fn migrate(
        &self,
        node: &Self::Node,
        to: TierId,
        keep_boundary: bool,
    ) -> Result<Migration, MigrateError>;
}

/// A node as the one at `level` on the way to `key`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Placed<K> {
    /// A key that the node is responsible for.
    pub key: K,
    /// Nodes above it.
    pub level: u32,
}

impl<K: Clone> Placed<K> {
    /// The node above; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        Some(Self {
            key: self.key.clone(),
            level: self.level.checked_sub(1)?,
        })
    }
}
