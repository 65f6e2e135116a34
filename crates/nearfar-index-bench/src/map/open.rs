//! Empty maps of contestants.

use nearfar_index::{Art, BPlusTree, BPlusTreeError, BlockValue, Masstree};
use nearfar_memory::HeapError;

use super::contestant::{Contestant, EntryBytes};
use super::key::TestKey;
use super::memory::MemorySource;
use super::ours::TreeMap;
use super::std_map::LockedMap;
use super::value::{OwnValue, WORD_BYTES};
use super::{OrderedMap, PlacedMap};

/// Something done with a map of any type: what a closure cannot be generic over.
pub trait Visitor<K: ?Sized> {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<M: OrderedMap<K> + 'static>(self, map: M) -> Self::Output;
}

/// As [`Visitor`], for maps whose nodes can be moved.
pub trait PlacedVisitor<K: ?Sized> {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<M: PlacedMap<K>>(self, map: M) -> Self::Output;
}

/// Why there is no map.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A map of another crate, which this build leaves out.
    #[error("{contestant} is not part of this build: build with --features rivals")]
    NotBuilt {
        /// Whose.
        contestant: Contestant,
    },
    /// A map that takes integers only.
    #[error("{contestant} takes keys of 8 bytes only: leave it out, or ask for integer keys")]
    KeysNotTaken {
        /// Whose.
        contestant: Contestant,
    },
    /// A map of another crate, some of whose keys would be longer than it takes.
    #[error(
        "{contestant} takes keys of up to {bytes_max} bytes, and the longest may have {bytes}: leave it out, or ask for \
         shorter keys"
    )]
    KeysTooLong {
        /// Whose.
        contestant: Contestant,
        /// Of the longest key.
        bytes: usize,
        /// Of the longest key that it takes.
        bytes_max: usize,
    },
    /// A map whose values are words.
    #[error(
        "{contestant} takes values of 8 bytes only: leave it out, or ask for values of 8 bytes"
    )]
    ValuesNotTaken {
        /// Whose.
        contestant: Contestant,
    },
    /// A map of another crate, whose nodes cannot be moved and which tells no model of its accesses.
    #[error("{contestant} is another crate's: it cannot be placed or modelled, only run natively")]
    NotOurs {
        /// Whose.
        contestant: Contestant,
    },
    /// No memory for a tree.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// A B+tree that cannot be.
    #[error(transparent)]
    BPlusTree(#[from] BPlusTreeError),
}

/// What a visitor gave, or why it was not called.
pub type Opened<T> = Result<T, OpenError>;

/// Hands an empty map of a contestant to the visitor.
pub(super) fn any<K: TestKey + ?Sized, V: Visitor<K>>(
    contestant: Contestant,
    bytes: EntryBytes,
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    if let Some(error) = contestant.refusal(K::IS_INTEGER, bytes) {
        return Err(error);
    }
    let value_bytes = bytes.value;
    match contestant {
        Contestant::Art | Contestant::BPlusTree { .. } | Contestant::Masstree => {
            ours(contestant, value_bytes, source, Unplaced(visitor))
        }
        Contestant::StdMap if value_bytes == WORD_BYTES => {
            Ok(visitor.visit(LockedMap::<K, u64>::new(value_bytes)))
        }
        Contestant::StdMap => Ok(visitor.visit(LockedMap::<K, Box<[u8]>>::new(value_bytes))),
        Contestant::Rival(rival) => K::open_rival(rival, value_bytes, visitor),
    }
}

/// A visitor of any map, as one of maps whose nodes can be moved.
struct Unplaced<V>(V);

impl<K: ?Sized, V: Visitor<K>> PlacedVisitor<K> for Unplaced<V> {
    type Output = V::Output;

    fn visit<M: PlacedMap<K>>(self, map: M) -> V::Output {
        self.0.visit(map)
    }
}

/// Hands an empty map over one of our trees to the visitor.
pub(super) fn ours<K: TestKey + ?Sized, V: PlacedVisitor<K>>(
    contestant: Contestant,
    value_bytes: usize,
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    match value_bytes {
        WORD_BYTES => ours_of::<K, u64, V>(contestant, value_bytes, source, visitor),
        _ => ours_of::<K, BlockValue, V>(contestant, value_bytes, source, visitor),
    }
}

/// As [`ours`], with values kept as `O`.
fn ours_of<K: TestKey + ?Sized, O: OwnValue, V: PlacedVisitor<K>>(
    contestant: Contestant,
    bytes: usize,
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    match contestant {
        Contestant::Art => Ok(visitor.visit(TreeMap::<Art<O>>::art(source, bytes)?)),
        Contestant::Masstree => Ok(visitor.visit(TreeMap::<Masstree<O>>::masstree(source, bytes)?)),
        Contestant::BPlusTree { node_bytes } => {
            K::open_btree::<O, V>((node_bytes, bytes), source, visitor)
        }
        Contestant::StdMap | Contestant::Rival(_) => Err(OpenError::NotOurs { contestant }),
    }
}

/// Hands an empty B+tree to the visitor, which has integers as keys.
pub(super) fn btree<O: OwnValue, V: PlacedVisitor<u64>>(
    (node_bytes, value_bytes): (usize, usize),
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    let map = TreeMap::<BPlusTree<O>>::btree(source, node_bytes, value_bytes)?;
    Ok(visitor.visit(map))
}
