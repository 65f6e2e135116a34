//! What placement needs of the tree: to visit its leaves, to look at a node, and to move one.
//!
//! A node is named by its level and a key below it, so no node needs to know its parent.

use std::ops::ControlFlow;

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{
    Frontend, LeafView, MigrateError, Migration, NodeView, Placed, PlacedTree,
};
use nearfar_memory::TierId;

use super::bucket_trie::{BucketTrie, Child, digit};

impl Child {
    fn tier(&self) -> TierId {
        match self {
            Self::Inner(inner) => inner.tier(),
            Self::Bucket(bucket) => bucket.tier(),
        }
    }

    fn children(&self) -> impl Iterator<Item = &Child> {
        let inner = if let Self::Inner(inner) = self {
            Some(inner)
        } else {
            None
        };
        inner.into_iter().flat_map(|inner| inner.iter().flatten())
    }

    fn find(&self, node: &Placed<u32>) -> Option<&Self> {
        let digits = (0..node.level).map(|level| digit(node.key, level));
        digits
            .into_iter()
            .try_fold(self, |child, digit| match child {
                Self::Inner(inner) => inner[digit].as_ref(),
                Self::Bucket(_) => None,
            })
    }

    fn height(&self) -> u32 {
        1 + self.children().map(Self::height).max().unwrap_or(0)
    }

    /// Visits the buckets of keys from `from` on; `prefix` are the digits so far.
    fn visit(
        &self,
        (prefix, level): (u32, u32),
        from: u32,
        visitor: &mut dyn FnMut(LeafView<'_, Placed<u32>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let below = (u32::MAX).checked_shr(4 * level).unwrap_or(0);
        match self {
            _ if (prefix | below) < from => ControlFlow::Continue(()),
            Self::Bucket(bucket) => visitor(LeafView {
                node: &Placed { key: prefix, level },
                level,
                tier: bucket.tier(),
                bytes: bucket.bytes(),
                counter: &bucket.counter,
            }),
            Self::Inner(inner) => (0..).zip(inner.iter()).try_for_each(|(digit, child)| {
                let prefix = prefix | (digit << (28 - 4 * level));
                let visit = |child: &Self| child.visit((prefix, level + 1), from, visitor);
                child.as_ref().map_or(ControlFlow::Continue(()), visit)
            }),
        }
    }
}

impl PlacedTree for BucketTrie {
    type Node = Placed<u32>;

    fn memory(&self) -> &NodeMemory {
        &self.memory
    }

    fn frontend(&self) -> &Frontend {
        &self.frontend
    }

    fn height(&self) -> u32 {
        self.read().height()
    }

    fn visit_leaves(
        &self,
        visitor: &mut dyn FnMut(LeafView<'_, Self::Node>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.read().visit((0, 0), 0, visitor)
    }

    fn visit_leaves_from(
        &self,
        from: &Self::Node,
        visitor: &mut dyn FnMut(LeafView<'_, Self::Node>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        Some(self.read().visit((0, 0), from.key, visitor))
    }

    fn identity(&self, node: &Self::Node) -> Option<usize> {
        self.read()
            .find(node)
            .map(|child| std::ptr::from_ref(child).addr())
    }

    fn parent(&self, node: &Self::Node) -> Option<Self::Node> {
        node.parent()
    }

    fn view(&self, node: &Self::Node) -> Option<NodeView> {
        let root = self.read();
        let child = root.find(node)?;
        Some(NodeView {
            level: node.level,
            tier: child.tier(),
            bytes: match child {
                Child::Inner(inner) => inner.bytes(),
                Child::Bucket(bucket) => bucket.bytes(),
            },
            is_leaf: matches!(child, Child::Bucket(_)),
            nearest_child: child.children().map(Child::tier).min(),
        })
    }

    fn migrate(
        &self,
        node: &Self::Node,
        to: TierId,
        keep_boundary: bool,
    ) -> Result<Migration, MigrateError> {
        let mut root = self.write();
        let (mut child, mut parent) = (&mut *root, TierId::NEAR);
        for level in 0..node.level {
            parent = child.tier();
            child = match child {
                Child::Inner(inner) => inner[digit(node.key, level)].as_mut(),
                Child::Bucket(_) => None,
            }
            .ok_or(MigrateError::Gone)?;
        }
        let from = child.tier();
        if from == to {
            return Ok(Migration::AlreadyThere);
        }
        if keep_boundary && (to < parent || child.children().any(|below| below.tier() < to)) {
            return Err(MigrateError::CrossesBoundary);
        }
        let (bytes, moved) = match child {
            Child::Inner(inner) => (inner.bytes(), inner.move_to(to)),
            Child::Bucket(bucket) => (bucket.bytes(), bucket.move_to(to)),
        };
        moved.map_err(|_| MigrateError::NoRoom { tier: to, bytes })?;
        Ok(Migration::Moved { from, bytes })
    }
}
