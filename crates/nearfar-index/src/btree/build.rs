//! Bulk load.

use std::sync::atomic::Ordering::Release;

use nearfar_memory::TierId;

use super::node::Node;
use super::options::{BPlusTreeError, BPlusTreeOptions};
use super::tree::BPlusTree;
use crate::context::Context;
use crate::memory::{NodeMemory, OutOfMemory};
use crate::placement::Frontend;
use crate::value::TreeValue;

impl<V: TreeValue> BPlusTree<V> {
    /// A tree of pairs in ascending order of their keys, whose nodes are filled as `options` say.
    ///
    /// ```
    /// use nearfar_index::memory::NodeMemory;
    /// use nearfar_index::placement::Frontend;
    /// use nearfar_index::{BPlusTree, BPlusTreeOptions};
    ///
    /// let options = BPlusTreeOptions { fill_factor: 0.8, ..Default::default() };
    /// let (memory, frontend) = (NodeMemory::platform(), Frontend::all_near());
    /// let pairs = (0..10_000).map(|key| (key, key + 1));
    /// let tree = BPlusTree::<u64>::bulk_load(memory, frontend, options, pairs)?;
    /// assert_eq!(tree.len(), 10_000);
    /// assert_eq!(tree.get(5000), Some(5001));
    /// # Ok::<(), nearfar_index::BPlusTreeError>(())
    /// ```
    ///
    /// # Errors
    /// [`BPlusTreeError`]: the options are wrong, a key does not come after the one before, or
    /// memory runs out.
    pub fn bulk_load(
        memory: NodeMemory,
        frontend: Frontend,
        options: BPlusTreeOptions,
        pairs: impl IntoIterator<Item = (u64, V)>,
    ) -> Result<Self, BPlusTreeError> {
        let fill_factor = options.fill_factor()?;
        let tree = Self::with_options(memory, frontend, options)?;
        tree.append_all(fill_factor, pairs)?;
        Ok(tree)
    }

    /// Fills the empty tree, which nobody else has yet.
    fn append_all(
        &self,
        fill_factor: f64,
        pairs: impl IntoIterator<Item = (u64, V)>,
    ) -> Result<(), BPlusTreeError> {
        let context = Context::native(&self.memory);
        let mut spine = Spine {
            tree: self,
            context: &context,
            nodes: vec![self.seek(&context, 0).leaf],
            fill_factor,
        };
        let mut previous = None;
        for (key, value) in pairs {
            if let Some(previous) = previous.filter(|previous| *previous >= key) {
                return Err(BPlusTreeError::NotAscending { key, previous });
            }
            previous = Some(key);
            if !spine.has_room(spine.nodes[0]) {
                spine.grow(key)?;
            }
            let leaf = spine.nodes[0];
            let word = value.into_word(&context, leaf.tier())?;
            leaf.insert_pair(leaf.count(), key, word, &context);
            self.keys.add_one();
        }
        Ok(())
    }
}

/// The last node of every height, where the next keys go.
struct Spine<'g, V: TreeValue> {
    tree: &'g BPlusTree<V>,
    context: &'g Context<'g, 'static>,
    /// From the leaf to the root.
    nodes: Vec<Node<'g>>,
    fill_factor: f64,
}

impl<'g, V: TreeValue> Spine<'g, V> {
    /// Whether a node may take another key.
    fn has_room(&self, node: Node<'_>) -> bool {
        let capacity = node.capacity();
        node.count() < ((capacity as f64 * self.fill_factor) as usize).clamp(1, capacity)
    }

    /// Begins a new leaf for keys from `key` on, and new nodes above it where those are full.
    fn grow(&mut self, key: u64) -> Result<(), OutOfMemory> {
        let with_room = (1..self.nodes.len()).find(|height| self.has_room(self.nodes[*height]));
        let top = with_room.unwrap_or(self.nodes.len());
        if top == self.nodes.len() {
            self.add_root()?;
        }
        let new = self.new_below(top)?;
        for (height, node) in new.into_iter().enumerate() {
            if height > 0 {
                node.fill_inner(&[], &[self.nodes[height - 1].as_ptr()], self.context);
            }
            self.nodes[height] = node;
        }
        let parent = self.nodes[top];
        parent.insert_child(parent.count(), key, self.nodes[top - 1], self.context);
        Ok(())
    }

    fn add_root(&mut self) -> Result<(), OutOfMemory> {
        let height = self.nodes.len() as u8;
        let new = self.tree.node_at(0, height, TierId::NEAR);
        let root = self.tree.new_node(self.context, new, height, 0)?;
        let old = self.nodes[self.nodes.len() - 1];
        root.fill_inner(&[], &[old.as_ptr()], self.context);
        self.tree.root.store(root.as_ptr(), Release);
        self.nodes.push(root);
        Ok(())
    }

    /// Empty nodes for all heights below `top`, from the leaf up.
    fn new_below(&self, top: usize) -> Result<Vec<Node<'g>>, OutOfMemory> {
        let mut new = Vec::with_capacity(top);
        let mut parent = self.nodes[top].tier();
        for height in (0..top).rev() {
            let level = (self.nodes.len() - 1 - height) as u32;
            let node = self.tree.node_at(level, height as u8, parent);
            match self.tree.new_node(self.context, node, height as u8, 0) {
                Ok(node) => {
                    parent = node.tier();
                    new.push(node);
                }
                Err(error) => {
                    for node in new {
                        // SAFETY: nobody else has seen the node.
                        unsafe { self.tree.free_node(node) };
                    }
                    return Err(error);
                }
            }
        }
        new.reverse();
        Ok(new)
    }
}
