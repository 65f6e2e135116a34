//! Trees loaded, and what they then take.

use std::ops::ControlFlow;

use nearfar_index::placement::{LeafCounter, PlacedTree};
use nearfar_model::Native;

use super::error::PlacedError;
use crate::map::{
    Contestant, MapError, MemorySource, OrderedMap, PlacedMap, PlacedVisitor, PlatformMemory,
    SESSION_OPERATIONS, Session, TestKey,
};
use crate::workload::{KeySpace, Pick};

/// Stores all keys.
pub(crate) fn store_all<S: KeySpace, M: OrderedMap<S::Key>>(
    map: &M,
    keys: &S,
    between: impl FnMut(u64),
) -> Result<(), MapError> {
    store_first::<S, M>(map, (keys, keys.count()), between)
}

/// Stores the first so many keys.
fn store_first<S: KeySpace, M: OrderedMap<S::Key>>(
    map: &M,
    (keys, count): (&S, u64),
    mut between: impl FnMut(u64),
) -> Result<(), MapError> {
    let mut arena = Vec::new();
    for first in (0..count).step_by(SESSION_OPERATIONS) {
        let mut session = map.session(&Native);
        for id in first..count.min(first + SESSION_OPERATIONS as u64) {
            arena.clear();
            let token = keys.token(Pick::Id(id), &mut arena);
            session.insert(S::resolve(&token, &arena), id)?;
        }
        drop(session);
        between(first);
    }
    Ok(())
}

/// Most keys that are stored together in their order: many to a leaf's neighbourhood, so that a processor's caches
/// serve most of the way to it.
const SORTED_KEYS_MAX: u64 = 1 << 21;
/// Times that keys are stored together at least: a tree that is filled in order has other leaves than one that is not.
const SORTED_TIMES_MIN: u64 = 80;

/// Stores all keys as [`store_all`] does, each so many of them in the order of keys: the tree gets the shape that
/// random inserts give it in a fraction of the time. `between` is told how many are stored.
pub(crate) fn store_all_sorted<S: KeySpace, M: OrderedMap<S::Key>>(
    map: &M,
    keys: &S,
    mut between: impl FnMut(u64),
) -> Result<(), MapError> {
    let (mut arena, mut tokens) = (Vec::new(), Vec::new());
    let together = (keys.count() / SORTED_TIMES_MIN).clamp(1, SORTED_KEYS_MAX);
    for first in (0..keys.count()).step_by(together as usize) {
        arena.clear();
        tokens.clear();
        let last = keys.count().min(first + together);
        tokens.extend((first..last).map(|id| (keys.token(Pick::Id(id), &mut arena), id)));
        tokens.sort_unstable_by(|(one, _), (other, _)| {
            S::resolve(one, &arena).cmp(S::resolve(other, &arena))
        });
        for tokens in tokens.chunks(SESSION_OPERATIONS) {
            let mut session = map.session(&Native);
            for (token, id) in tokens {
                session.insert(S::resolve(token, &arena), *id)?;
            }
        }
        between(last);
    }
    Ok(())
}

/// The keys of which one is loaded to estimate the bytes of a tree: a radix tree of a 256th of the keys has the
/// same nodes one level higher, and the leaves of other trees are as full.
const ESTIMATED_BY_ONE_IN: u64 = 256;

/// About the bytes of a tree with all keys, from a tree with a part of them.
pub(crate) fn estimated_tree_bytes<S: KeySpace>(
    (contestant, value_bytes): (Contestant, usize),
    keys: &S,
) -> Result<u64, PlacedError> {
    let part = (keys.count() / ESTIMATED_BY_ONE_IN).max(keys.count().min(ESTIMATED_KEYS_MIN));
    let sizing = Sizing {
        keys,
        contestant,
        count: part,
    };
    let bytes: Result<u64, PlacedError> =
        S::Key::open_placed(contestant, value_bytes, &PlatformMemory, sizing)?;
    Ok((bytes? as f64 * keys.count() as f64 / part as f64) as u64)
}

/// The fewest keys of an estimate.
const ESTIMATED_KEYS_MIN: u64 = 10_000;

/// Bytes of a tree with all keys, and values of so many bytes, which is made in `source` and dropped.
pub(crate) fn tree_bytes<S: KeySpace>(
    (contestant, value_bytes): (Contestant, usize),
    keys: &S,
    source: &dyn MemorySource,
) -> Result<u64, PlacedError> {
    let sizing = Sizing {
        keys,
        contestant,
        count: keys.count(),
    };
    S::Key::open_placed(contestant, value_bytes, source, sizing)?
}

/// Finds the bytes of the loaded tree.
struct Sizing<'r, S> {
    keys: &'r S,
    contestant: Contestant,
    /// The first so many of the keys are loaded.
    count: u64,
}

impl<S: KeySpace> PlacedVisitor<S::Key> for Sizing<'_, S> {
    type Output = Result<u64, PlacedError>;

    fn visit<M: PlacedMap<S::Key>>(self, map: M) -> Self::Output {
        let contestant = self.contestant;
        store_first::<S, M>(&map, (self.keys, self.count), |_| ())
            .map_err(|error| PlacedError::Map { contestant, error })?;
        let memory = map.tree().memory();
        memory.quiesce();
        Ok(memory.used_bytes())
    }
}

/// Leaves of a tree.
pub(crate) fn leaves<T: PlacedTree>(tree: &T) -> u64 {
    let mut leaves = 0;
    let _ = tree.visit_leaves(&mut |_| {
        leaves += 1;
        ControlFlow::Continue(())
    });
    leaves
}

/// Bytes of the counters of uses of so many leaves.
pub(crate) fn counter_bytes(leaves: u64) -> u64 {
    leaves * size_of::<LeafCounter>() as u64
}
