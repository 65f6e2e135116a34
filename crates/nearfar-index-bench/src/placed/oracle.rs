//! What an oracle knows: which nodes will be used most.

use std::collections::{BinaryHeap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use nearfar_index::placement::{Migration, PlacedTree, Placer, Tracking};
use nearfar_memory::TierId;
use nearfar_model::Native;

use crate::map::{MapError, PlacedMap, Session};
use crate::workload::{Action, KeySpace, Requests, Trace};

/// The fewest requests that are tried to learn what is hot.
pub(crate) const REQUESTS_MIN: u64 = 2_000_000;
const DRAWN: usize = 4096;
/// Keys that are looked up together.
const BATCH: usize = 64;

/// Lets a copy of so many of the requests run, so that leaves count their uses.
pub(crate) fn learn<S: KeySpace, M: PlacedMap<S::Key>>(
    map: &M,
    keys: &S,
    (mut requests, count): (Requests, u64),
) -> Result<(), MapError> {
    map.tree().frontend().set_tracking(Tracking::Leaf);
    let mut trace = Trace::default();
    let mut found = Vec::new();
    for _ in 0..count / DRAWN as u64 {
        trace.clear();
        requests.draw(keys, DRAWN, &mut trace);
        let mut session = map.session(&Native);
        let mut looked_up = Vec::with_capacity(DRAWN);
        for request in &trace.requests {
            let key = S::resolve(&request.token, &trace.arena);
            match request.action {
                Action::Insert => {}
                Action::Scan(count) => drop(session.scan(key, usize::from(count))),
                Action::Read | Action::Update | Action::ReadModifyWrite => looked_up.push(key),
            }
        }
        for keys in looked_up.chunks(BATCH) {
            session.get_batch(keys, &mut found);
        }
    }
    map.tree().frontend().set_tracking(Tracking::Off);
    Ok(())
}

/// A node with what is used below it.
struct Known<N> {
    node: N,
    bytes: usize,
    uses: u64,
    children: Vec<usize>,
}

/// The tree's nodes; the root is the last one whose parent nobody named.
fn nodes<T: PlacedTree>(tree: &T) -> (Vec<Known<T::Node>>, Option<usize>) {
    let mut leaves = Vec::new();
    let _ = tree.visit_leaves(&mut |leaf| {
        leaves.push((
            leaf.node.clone(),
            leaf.bytes,
            u64::from(leaf.counter.uses()),
        ));
        ControlFlow::Continue(())
    });
    let (mut known, mut found, mut root) = (Vec::new(), HashMap::new(), None);
    for (node, bytes, uses) in leaves {
        let mut below = known.len();
        let mut above = tree.parent(&node);
        known.push(Known {
            node,
            bytes,
            uses,
            children: Vec::new(),
        });
        // A new node is told of to its parent; uses, to all above.
        let mut is_new = true;
        while let Some(node) = above {
            let (Some(view), Some(identity)) = (tree.view(&node), tree.identity(&node)) else {
                break;
            };
            above = tree.parent(&node);
            let next = known.len();
            let place = *found.entry(identity).or_insert(next);
            if place == next {
                known.push(Known {
                    node,
                    bytes: view.bytes,
                    uses: 0,
                    children: Vec::new(),
                });
            }
            known[place].uses += uses;
            if is_new {
                known[place].children.push(below);
            }
            is_new = place == next;
            below = place;
        }
        root = Some(below);
    }
    (known, root)
}

/// Places nodes near from the root down, as many as fit: of those whose parent is near, always the one
/// that is used most per byte, alone or with what is used most below it.
pub(crate) fn place<T: PlacedTree>(placer: &Placer<Arc<T>>) {
    let tree = placer.tree();
    let (known, root) = nodes(tree);
    let worth = worths(&known, root);
    let budget = tree.memory().ledger(TierId::NEAR).budget_bytes;
    let mut candidates = BinaryHeap::new();
    candidates.extend(root.map(|root| (worth[root], root)));
    let mut used = 0;
    while let Some((_, place)) = candidates.pop() {
        let one = &known[place];
        if used + one.bytes as u64 > budget {
            continue;
        }
        let Ok(Migration::Moved { bytes, .. }) = tree.migrate(&one.node, TierId::NEAR, true) else {
            continue;
        };
        used += bytes as u64;
        candidates.extend(one.children.iter().map(|child| (worth[*child], *child)));
    }
    tree.memory().quiesce();
}

/// What each node is worth: uses per MiB of it, or of it with its child that is worth most where that is
/// more.
fn worths<N>(known: &[Known<N>], root: Option<usize>) -> Vec<u64> {
    let mut order: Vec<usize> = root.into_iter().collect();
    let mut next = 0;
    while let Some(place) = order.get(next) {
        order.extend(&known[*place].children);
        next += 1;
    }
    let mut worth = vec![0; known.len()];
    for place in order.into_iter().rev() {
        let one = &known[place];
        let per_mib = |uses: u64, bytes: usize| (uses << 20) / (bytes as u64).max(1);
        let best = one.children.iter().max_by_key(|child| worth[**child]);
        let with_child = best.map_or(0, |child| {
            per_mib(
                one.uses + known[*child].uses,
                one.bytes + known[*child].bytes,
            )
        });
        worth[place] = per_mib(one.uses, one.bytes).max(with_child);
    }
    worth
}
