//! What must hold of every tree that nobody changes.

use nearfar_memory::TierId;

use crate::art::Art;
use crate::art::child::{Child, Target};
use crate::art::leaf::Leaf;
use crate::art::node::{Kind, Node};
use crate::memory::TierLedger;
use crate::value::TreeValue;

/// What a walk over a tree found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) leaves: usize,
    pub(super) nodes_by_kind: [usize; 4],
    pub(super) node_bytes: Vec<u64>,
}

impl Found {
    pub(super) fn nodes(&self) -> usize {
        self.nodes_by_kind.iter().sum()
    }
}

/// Walks over a tree and checks that it is whole: keys in order, counts right, no node without
/// need, nothing locked, and ledgers that say what is there.
pub(super) fn check<V: TreeValue>(tree: &Art<V>) -> Found {
    let mut found = Found {
        node_bytes: vec![0; tree.memory().tiers()],
        ..Found::default()
    };
    let root = Child::load_alone(&tree.root);
    visit(root, &mut Vec::new(), &mut found);
    assert!(
        found.keys.is_sorted_by(|a, b| a < b),
        "keys in order, none twice"
    );
    assert_eq!(found.keys.len(), tree.len());
    for (index, bytes) in found.node_bytes.iter().enumerate() {
        let tier = TierId::from_index(index).unwrap();
        assert_eq!(tree.memory().ledger(tier).node_bytes, *bytes, "{tier}");
    }
    found
}

fn visit(child: Child, path: &mut Vec<u8>, found: &mut Found) {
    // SAFETY: nobody else uses the tree.
    match unsafe { child.target() } {
        Target::Nothing => {}
        Target::Leaf(leaf) => visit_leaf(leaf, path, found),
        Target::Plain(node) | Target::Prefixed(node) => visit_node(node, path, found),
    }
}

fn visit_leaf(leaf: Leaf<'_>, path: &[u8], found: &mut Found) {
    found.leaves += 1;
    found.node_bytes[leaf.tier().index()] += leaf.bytes() as u64;
    assert!(leaf.live() != 0, "a leaf without keys is no longer there");
    for index in 0..leaf.count() {
        if leaf.is_live(index) {
            found.keys.push([path, leaf.suffix(index)].concat());
        }
    }
    assert!(
        leaf.can_be_locked(),
        "a leaf of the tree is locked or obsolete"
    );
}

fn visit_node(node: Node<'_>, path: &mut Vec<u8>, found: &mut Found) {
    found.nodes_by_kind[match node.kind() {
        Kind::Small5 => 0,
        Kind::Small16 => 1,
        Kind::Indexed => 2,
        Kind::Direct => 3,
    }] += 1;
    found.node_bytes[node.tier().index()] += node.bytes() as u64;
    assert!(
        node.header()
            .lock
            .read(|| panic!("a node is locked"))
            .is_ok()
    );
    let before = path.len();
    path.extend_from_slice(node.prefix());
    let children: Vec<_> = node.children_alone().collect();
    let bytes = children.iter().filter(|(byte, _)| byte.is_some()).count();
    assert_eq!(bytes, node.count());
    for (byte, child) in children {
        assert!(!child.is_nothing());
        path.extend(byte);
        visit(child, path, found);
        path.truncate(before + node.prefix_bytes());
    }
    path.truncate(before);
}

/// Bytes that are out of the tree and not free yet, and those of values, on all tiers.
pub(super) fn totals<V: TreeValue>(tree: &Art<V>) -> TierLedger {
    let mut all = TierLedger::default();
    for index in 0..tree.memory().tiers() {
        let ledger = tree.memory().ledger(TierId::from_index(index).unwrap());
        all.node_bytes += ledger.node_bytes;
        all.value_bytes += ledger.value_bytes;
        all.retired_bytes += ledger.retired_bytes;
    }
    all
}
