//! The entries of an index.

use nearfar_index::placement::PlacedTree;
use nearfar_index::{Art, Masstree, TreeError};
use parking_lot::{Mutex, RwLock};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::definition::{IndexDefinition, IndexKind};
use super::placed::{IndexHome, IndexStatistics, MovedTree, Nodes};
use super::versions::Versions;
use crate::table::row_ids::RowId;

/// Calls the same method of whichever tree it is.
macro_rules! with_tree {
    ($tree:expr, $name:ident => $call:expr) => {
        match $tree {
            MovedTree::Art($name) => $call,
            MovedTree::Masstree($name) => $call,
        }
    };
}

/// The rows of an index by their keys.
///
/// A key leads to the row that had it last. Rows that had the same key earlier, which older snapshots
/// still have, follow from row to row. Entries are changed by who holds the database's lock for commits,
/// and read without a lock: which of the rows is there is for the reader's snapshot to say.
#[derive(Debug)]
pub struct Entries {
    tree: MovedTree,
    nodes: Nodes,
    /// The levels of the tree, when it had so many keys: to count them is to visit all leaves.
    levels: Mutex<Option<(usize, u32)>>,
    versions: RwLock<Versions>,
}

impl Entries {
    /// None, whose nodes will be at `home` where the definition says; in the process's own memory for a table
    /// without one.
    pub fn new(definition: &IndexDefinition, home: Option<&IndexHome>) -> Self {
        let (nodes, memory, frontend) = Nodes::new(home, &definition.placement);
        let tree = match definition.kind {
            IndexKind::Art => MovedTree::Art(Arc::new(Art::with_memory(memory, frontend))),
            IndexKind::Masstree => {
                MovedTree::Masstree(Arc::new(Masstree::with_memory(memory, frontend)))
            }
        };
        Self {
            tree,
            nodes,
            levels: Mutex::default(),
            versions: RwLock::default(),
        }
    }

    /// Has workers move its nodes, where they are to be moved.
    pub fn begin(&self, home: &IndexHome) {
        self.nodes.begin(&self.tree, home);
    }

    /// Has `key` lead to `row`, and from there to the row that it led to before, which is returned.
    ///
    /// # Errors
    /// Memory that is refused, and nothing has changed.
    pub fn insert(&self, key: &[u8], row: RowId) -> Result<Option<RowId>, TreeError> {
        let before = with_tree!(&self.tree, tree => tree.get(key));
        // First, since a reader that finds the row goes on from there.
        if let Some(before) = before {
            self.versions.write().add(row, before);
        }
        let inserted = with_tree!(&self.tree, tree => tree.insert(key, row));
        self.nodes.note_insert(&self.tree);
        inserted.inspect_err(|_| self.versions.write().undo(row))
    }

    /// Takes back an insertion that nobody's snapshot has.
    pub fn undo(&self, key: &[u8], row: RowId, before: Option<RowId>) {
        match before {
            // There is a slot for the value already, so that no memory is needed.
            Some(before) => drop(with_tree!(&self.tree, tree => tree.insert(key, before))),
            None => drop(with_tree!(&self.tree, tree => tree.remove(key))),
        }
        self.versions.write().undo(row);
    }

    /// Takes out a row that no snapshot has any more, nor those before it.
    pub fn remove(&self, key: &[u8], row: RowId) {
        let mut versions = self.versions.write();
        match versions.after(row) {
            Some(newer) => return versions.cut(newer),
            None => versions.cut(row),
        }
        drop(versions);
        if with_tree!(&self.tree, tree => tree.get(key)) == Some(row) {
            with_tree!(&self.tree, tree => tree.remove(key));
        }
    }

    /// `last` and the rows before it, each looked for when it is asked for: mostly the first is enough.
    fn versions(&self, last: RowId) -> impl Iterator<Item = RowId> + '_ {
        let mut known = None;
        std::iter::from_fn(move || {
            known = match known {
                None => Some(last),
                Some(row) => Some(self.versions.read().before(row)?),
            };
            known
        })
    }

    /// The rows that have had `key`, the last one first.
    pub fn get(&self, key: &[u8]) -> impl Iterator<Item = RowId> + '_ {
        self.nodes.note_use();
        let last = with_tree!(&self.tree, tree => tree.get(key));
        last.into_iter().flat_map(|last| self.versions(last))
    }

    /// Visits keys from `from` on in their order, each with the rows that have had it, the last one first.
    pub fn scan(
        &self,
        from: &[u8],
        mut visit: impl FnMut(&[u8], &mut dyn Iterator<Item = RowId>) -> ControlFlow<()>,
    ) {
        let each = |key: &[u8], last: RowId| visit(key, &mut self.versions(last));
        self.nodes.note_use();
        with_tree!(&self.tree, tree => tree.scan(from, each));
    }

    /// Number of keys, those of rows that are gone and not taken out yet included.
    pub fn len(&self) -> usize {
        with_tree!(&self.tree, tree => tree.len())
    }

    /// Bytes of nodes.
    pub fn bytes(&self) -> u64 {
        with_tree!(&self.tree, tree => tree.memory().used_bytes())
    }

    /// Levels of its longest path.
    pub fn levels(&self) -> u32 {
        let (mut known, keys) = (self.levels.lock(), self.len());
        match *known {
            Some((then, levels)) if then == keys => levels,
            _ => {
                let levels = with_tree!(&self.tree, tree => tree.height());
                known.insert((keys, levels)).1
            }
        }
    }

    /// Where its nodes are.
    pub fn statistics(&self) -> IndexStatistics {
        self.nodes.statistics()
    }
}
