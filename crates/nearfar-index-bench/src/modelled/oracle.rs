//! What an oracle knows: which leaves will be used most.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use nearfar_index::placement::{PlacedTree, Placer, Tracking};
use nearfar_memory::TierId;
use nearfar_model::Native;

use crate::map::{MapError, PlacedMap, Session};
use crate::workload::{Action, KeySpace, Requests, Trace};

/// The share of near memory that leaves may take; the rest is for what is above them.
const LEAF_SHARE: f64 = 0.8;
/// Requests that are tried to learn what is hot.
const REQUESTS: usize = 2_000_000;
const DRAWN: usize = 4096;

/// Lets a copy of the requests run, so that leaves count their uses.
pub(super) fn learn<S: KeySpace, M: PlacedMap<S::Key>>(
    map: &M,
    keys: &S,
    mut requests: Requests,
) -> Result<(), MapError> {
    map.tree().frontend().set_tracking(Tracking::Leaf);
    let mut trace = Trace::default();
    for _ in 0..REQUESTS / DRAWN {
        trace.clear();
        requests.draw(keys, DRAWN, &mut trace);
        let mut session = map.session(&Native);
        for request in &trace.requests {
            let key = S::resolve(&request.token, &trace.arena);
            match request.action {
                Action::Insert => {}
                Action::Scan(count) => drop(session.scan(key, usize::from(count))),
                _ => drop(session.get(key)),
            }
        }
    }
    map.tree().frontend().set_tracking(Tracking::Off);
    Ok(())
}

/// Places the leaves that were used most near, as many as fit, with their ways.
pub(super) fn place<T: PlacedTree>(placer: &Placer<Arc<T>>) {
    let tree = placer.tree();
    let budget = tree.memory().ledger(TierId::NEAR).budget_bytes as f64 * LEAF_SHARE;
    let mut leaves = Vec::new();
    let _ = tree.visit_leaves(&mut |leaf| {
        let uses = leaf.counter.uses();
        if uses > 0 {
            leaves.push((
                f64::from(uses) / leaf.bytes as f64,
                leaf.bytes,
                leaf.node.clone(),
            ));
        }
        ControlFlow::Continue(())
    });
    leaves.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut bytes = 0.0;
    let hot: HashSet<T::Node> = leaves
        .into_iter()
        .take_while(|(_, leaf_bytes, _)| {
            bytes += *leaf_bytes as f64;
            bytes <= budget
        })
        .map(|(_, _, node)| node)
        .collect();
    placer.place_beforehand(|node| hot.contains(node));
}
