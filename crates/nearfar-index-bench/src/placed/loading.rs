//! Trees loaded, and what they then take.

use std::ops::ControlFlow;
use std::sync::Arc;

use nearfar_index::placement::{LeafCounter, PlacedTree};
use nearfar_memory::MemorySystem;
use nearfar_model::Native;

use super::error::PlacedError;
use super::memory::PolicyMemory;
use crate::map::{
    Contestant, MapError, OrderedMap, PlacedMap, PlacedVisitor, SESSION_OPERATIONS, Session,
    TestKey,
};
use crate::workload::{KeySpace, Pick};

/// Stores all keys.
pub(crate) fn store_all<S: KeySpace, M: OrderedMap<S::Key>>(
    map: &M,
    keys: &S,
    mut between: impl FnMut(u64),
) -> Result<(), MapError> {
    let mut arena = Vec::new();
    for first in (0..keys.count()).step_by(SESSION_OPERATIONS) {
        let mut session = map.session(&Native);
        for id in first..keys.count().min(first + SESSION_OPERATIONS as u64) {
            arena.clear();
            let token = keys.token(Pick::Id(id), &mut arena);
            session.insert(S::resolve(&token, &arena), id)?;
        }
        drop(session);
        between(first);
    }
    Ok(())
}

/// Bytes of a tree with all keys, and values of so many bytes.
pub(crate) fn tree_bytes<S: KeySpace>(
    (contestant, value_bytes): (Contestant, usize),
    keys: &S,
    system: &Arc<MemorySystem>,
) -> Result<u64, PlacedError> {
    let sizing = Sizing { keys, contestant };
    S::Key::open_placed(contestant, value_bytes, &PolicyMemory::near(system), sizing)?
}

/// Finds the bytes of the loaded tree.
struct Sizing<'r, S> {
    keys: &'r S,
    contestant: Contestant,
}

impl<S: KeySpace> PlacedVisitor<S::Key> for Sizing<'_, S> {
    type Output = Result<u64, PlacedError>;

    fn visit<M: PlacedMap<S::Key>>(self, map: M) -> Self::Output {
        let contestant = self.contestant;
        store_all::<S, M>(&map, self.keys, |_| ())
            .map_err(|error| PlacedError::Map { contestant, error })?;
        let memory = map.tree().memory();
        memory.quiesce();
        Ok(memory.used_bytes())
    }
}

/// Bytes of all counters of uses.
pub(crate) fn counter_bytes<T: PlacedTree>(tree: &T) -> usize {
    let mut bytes = 0;
    let _ = tree.visit_leaves(&mut |_| {
        bytes += size_of::<LeafCounter>();
        ControlFlow::Continue(())
    });
    bytes
}
