//! Lookup of many keys together.

use std::borrow::Borrow;

use nearfar_model::Probe;

use super::geometry::{GROUP_KEYS, WORD_BYTES};
use super::node::{Node, Restart};
use super::tree::BPlusTree;
use crate::context::Context;
use crate::lock::Version;
use crate::value::TreeValue;

/// Lookups that go down the tree side by side. All leaves are as deep, so they keep pace: at each
/// level, every lookup asks for its next lines before the first of them needs one.
const LANES: usize = 16;

/// One lookup on its way.
#[derive(Clone, Copy)]
struct Lane<'g> {
    node: Node<'g>,
    version: Version,
    /// The group of keys to search, once known.
    group: usize,
    /// The child to go to, once known.
    child: Node<'g>,
}

/// Lookups side by side; one that met a writer is none.
type Lanes<'g> = [Option<Lane<'g>>; LANES];

impl<V: TreeValue> BPlusTree<V> {
    pub(super) fn get_batch_in<P: Probe, K: Borrow<u64>>(
        &self,
        context: &Context<'_, '_, P>,
        keys: &[K],
        values: &mut Vec<Option<V>>,
    ) {
        values.reserve(keys.len());
        for borrowed in keys.chunks(LANES) {
            let mut keys = [0; LANES];
            for (key, borrowed) in keys.iter_mut().zip(borrowed) {
                *key = *borrowed.borrow();
            }
            let keys = &keys[..borrowed.len()];
            let mut words = [None; LANES];
            self.words_side_by_side(context, keys, &mut words);
            for (key, word) in keys.iter().zip(words) {
                values.push(match word {
                    // SAFETY: the word was the key's when its leaf was validated, under this guard.
                    Some(word) => word.map(|word| unsafe { V::from_word(word, context) }),
                    None => self.get_in(context, *key),
                });
            }
        }
    }

    /// Looks for the words of at most [`LANES`] keys; `None` where a writer came in between.
    fn words_side_by_side<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        keys: &[u64],
        words: &mut [Option<Option<u64>>; LANES],
    ) {
        let Ok((root, version, _)) = self.root(context) else {
            return;
        };
        let mut lanes: Lanes<'_> = [None; LANES];
        for lane in lanes.iter_mut().take(keys.len()) {
            *lane = Some(Lane {
                node: root,
                version,
                group: 0,
                child: root,
            });
        }
        for _ in 0..root.height() {
            choose_groups(context, keys, &mut lanes);
            choose_children(context, keys, &mut lanes);
            for lane in &mut lanes {
                *lane = lane.and_then(|lane| step_down(context, lane).ok());
            }
        }
        choose_groups(context, keys, &mut lanes);
        for ((key, lane), word) in keys.iter().zip(lanes).zip(words) {
            *word = lane.and_then(|lane| self.word_in_leaf(context, *key, lane).ok());
        }
    }

    fn word_in_leaf<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
        lane: Lane<'_>,
    ) -> Result<Option<u64>, Restart> {
        let leaf = lane.node;
        let rank = leaf.rank_in_group(lane.group, key, context);
        let mut word = None;
        if leaf.has_key_before(rank, key) {
            leaf.read_slot(rank - 1, context);
            word = Some(leaf.load_value(rank - 1));
        }
        leaf.validate(lane.version, context)?;
        self.frontend.use_leaf(leaf.counter(), context.probe);
        Ok(word)
    }
}

/// Finds each lookup's group of keys in its node, and asks for it and what the group leads to.
fn choose_groups<P: Probe>(context: &Context<'_, '_, P>, keys: &[u64], lanes: &mut Lanes<'_>) {
    for (key, lane) in keys.iter().zip(lanes) {
        if let Some(lane) = lane {
            let geometry = lane.node.geometry();
            lane.group = lane.node.group_of(*key);
            let word = geometry.first_key_word() + geometry.group_start(lane.group);
            context.prefetch(lane.node.word_address(word), GROUP_KEYS * WORD_BYTES);
            lane.node.prefetch_slots(lane.group, context);
        }
    }
}

/// Finds each lookup's child, and asks for the child's first lines.
fn choose_children<'g, P: Probe>(
    context: &'g Context<'_, '_, P>,
    keys: &[u64],
    lanes: &mut Lanes<'g>,
) {
    for (key, slot) in keys.iter().zip(lanes) {
        let Some(lane) = slot else { continue };
        let rank = lane.node.rank_in_group(lane.group, *key, context);
        lane.node.read_slot(rank, context);
        match lane.node.child(rank, lane.version, context) {
            Ok(child) => {
                child.prefetch_first(context);
                lane.child = child;
            }
            Err(Restart) => *slot = None,
        }
    }
}

/// Goes on with the child, whose lines are there by now.
fn step_down<'g, P: Probe>(
    context: &Context<'_, '_, P>,
    lane: Lane<'g>,
) -> Result<Lane<'g>, Restart> {
    let version = lane.child.read(context)?;
    lane.node.validate(lane.version, context)?;
    Ok(Lane {
        node: lane.child,
        version,
        ..lane
    })
}
