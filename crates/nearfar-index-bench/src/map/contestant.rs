//! Who takes part, by name.

use std::fmt;
use std::str::FromStr;

use nearfar_index::{BPlusTreeError, BPlusTreeOptions, BlockValue};
use nearfar_memory::HeapError;

use super::ours::{ArtMap, BPlusTreeMap, MasstreeMap};
use super::rivals::{
    BPlusTreeCrate, CongeeCrate, FerntreeCrate, LockedMap, MasstreeCrate, SccCrate, SkiplistCrate,
};
use super::value::{OwnValue, TestValue, WORD_BYTES};
use super::{MemorySource, OrderedMap, PlacedMap};

/// A map that can be tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Contestant {
    /// Our adaptive radix tree.
    Art,
    /// Our B+tree.
    BPlusTree {
        /// Bytes of its nodes.
        node_bytes: usize,
    },
    /// Our Masstree.
    Masstree,
    /// The standard library's B-tree behind a lock.
    StdMap,
    /// `congee`.
    Congee,
    /// The crate `masstree`.
    MasstreeCrate,
    /// `ferntree`.
    Ferntree,
    /// `bplustree`.
    BPlusTreeCrate,
    /// `scc::TreeIndex`.
    Scc,
    /// `crossbeam-skiplist`.
    Skiplist,
}

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

/// Node sizes of our B+tree, with their names.
const NODE_SIZES: [(usize, &str); 5] = [
    (256, "btree-256"),
    (512, "btree-512"),
    (1024, "btree-1024"),
    (BPlusTreeOptions::NODE_BYTES_DEFAULT, "btree"),
    (4096, "btree-4096"),
];

/// A name that nobody has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no map is named {name:?}; there are: {}", Contestant::names())]
pub struct UnknownContestant {
    /// The name asked for.
    pub name: String,
}

/// Why there is no map.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A map that takes integers only.
    #[error("{contestant} takes keys of 8 bytes only: leave it out, or ask for integer keys")]
    KeysNotTaken {
        /// Whose.
        contestant: Contestant,
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

impl Contestant {
    /// Everybody, the B+tree with nodes of the usual size.
    pub const ALL: [Self; 10] = [
        Self::Art,
        Self::BPlusTree {
            node_bytes: BPlusTreeOptions::NODE_BYTES_DEFAULT,
        },
        Self::Masstree,
        Self::StdMap,
        Self::Congee,
        Self::MasstreeCrate,
        Self::Ferntree,
        Self::BPlusTreeCrate,
        Self::Scc,
        Self::Skiplist,
    ];

    /// The word in arguments and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Art => "art",
            Self::BPlusTree { node_bytes } => {
                let found = NODE_SIZES.iter().find(|(bytes, _)| *bytes == node_bytes);
                found.map_or("btree of another size", |(_, name)| name)
            }
            Self::Masstree => "masstree",
            Self::StdMap => "std-btreemap",
            Self::Congee => "congee",
            Self::MasstreeCrate => "masstree-crate",
            Self::Ferntree => "ferntree",
            Self::BPlusTreeCrate => "bplustree-crate",
            Self::Scc => "scc",
            Self::Skiplist => "skiplist",
        }
    }

    /// Whether it is one of ours.
    #[must_use]
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Art | Self::BPlusTree { .. } | Self::Masstree)
    }

    /// Why it has no map of such keys and values, if it has none.
    #[must_use]
    pub fn refusal(self, has_integer_keys: bool, value_bytes: usize) -> Option<OpenError> {
        let takes_words_only = matches!(self, Self::Congee | Self::Ferntree);
        let takes_integers_only = takes_words_only || matches!(self, Self::BPlusTree { .. });
        let contestant = self;
        if takes_integers_only && !has_integer_keys {
            return Some(OpenError::KeysNotTaken { contestant });
        }
        let is_taken = !takes_words_only || value_bytes == WORD_BYTES;
        (!is_taken).then_some(OpenError::ValuesNotTaken { contestant })
    }

    /// All names, for messages.
    fn names() -> String {
        let sizes = NODE_SIZES.map(|(_, name)| name).join(", ");
        format!("{}, {sizes}", Self::ALL.map(Self::name).join(", "))
    }
}

/// Hands an empty map over 8-byte integers to the visitor.
pub(super) fn open_integers<V: Visitor<u64>>(
    contestant: Contestant,
    value_bytes: usize,
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    if value_bytes != WORD_BYTES {
        return open_integers_of::<BlockValue, Box<[u8]>, V>(
            contestant,
            value_bytes,
            source,
            visitor,
        );
    }
    Ok(match contestant {
        Contestant::Congee => visitor.visit(CongeeCrate::default()),
        Contestant::MasstreeCrate => visitor.visit(MasstreeCrate::of_words()),
        Contestant::Ferntree => visitor.visit(FerntreeCrate::default()),
        _ => return open_integers_of::<u64, u64, V>(contestant, value_bytes, source, visitor),
    })
}

/// Maps that take values of any type: ours keep them as `O`, others as `R`.
fn open_integers_of<O: OwnValue, R: TestValue, V: Visitor<u64>>(
    contestant: Contestant,
    bytes: usize,
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    Ok(match contestant {
        Contestant::Art => visitor.visit(ArtMap::<O>::new(source, bytes)?),
        Contestant::Masstree => visitor.visit(MasstreeMap::<O>::new(source, bytes)?),
        Contestant::BPlusTree { node_bytes } => {
            visitor.visit(BPlusTreeMap::<O>::new(source, node_bytes, bytes)?)
        }
        Contestant::StdMap => visitor.visit(LockedMap::<u64, R>::new(bytes)),
        Contestant::MasstreeCrate => visitor.visit(MasstreeCrate::of_bytes(bytes)),
        Contestant::BPlusTreeCrate => visitor.visit(BPlusTreeCrate::<u64, R>::new(bytes)),
        Contestant::Scc => visitor.visit(SccCrate::<u64, R>::new(bytes)),
        Contestant::Skiplist => visitor.visit(SkiplistCrate::<u64, R>::new(bytes)),
        Contestant::Congee | Contestant::Ferntree => {
            return Err(OpenError::ValuesNotTaken { contestant });
        }
    })
}

/// Hands an empty map over byte strings to the visitor.
pub(super) fn open_bytes<V: Visitor<[u8]>>(
    contestant: Contestant,
    value_bytes: usize,
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    if value_bytes != WORD_BYTES {
        return open_bytes_of::<BlockValue, Box<[u8]>, V>(contestant, value_bytes, source, visitor);
    }
    if contestant == Contestant::MasstreeCrate {
        return Ok(visitor.visit(MasstreeCrate::of_words()));
    }
    open_bytes_of::<u64, u64, V>(contestant, value_bytes, source, visitor)
}

/// As [`open_integers_of`], over byte strings.
fn open_bytes_of<O: OwnValue, R: TestValue, V: Visitor<[u8]>>(
    contestant: Contestant,
    bytes: usize,
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    Ok(match contestant {
        Contestant::Art => visitor.visit(ArtMap::<O>::new(source, bytes)?),
        Contestant::Masstree => visitor.visit(MasstreeMap::<O>::new(source, bytes)?),
        Contestant::StdMap => visitor.visit(LockedMap::<[u8], R>::new(bytes)),
        Contestant::MasstreeCrate => visitor.visit(MasstreeCrate::of_bytes(bytes)),
        Contestant::BPlusTreeCrate => visitor.visit(BPlusTreeCrate::<[u8], R>::new(bytes)),
        Contestant::Scc => visitor.visit(SccCrate::<[u8], R>::new(bytes)),
        Contestant::Skiplist => visitor.visit(SkiplistCrate::<[u8], R>::new(bytes)),
        Contestant::BPlusTree { .. } | Contestant::Congee | Contestant::Ferntree => {
            return Err(OpenError::KeysNotTaken { contestant });
        }
    })
}

/// Hands an empty map over 8-byte integers to the visitor, if its nodes can be moved.
pub(super) fn open_placed_integers<V: PlacedVisitor<u64>>(
    contestant: Contestant,
    value_bytes: usize,
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    match value_bytes {
        WORD_BYTES => placed_integers_of::<u64, V>(contestant, value_bytes, source, visitor),
        _ => placed_integers_of::<BlockValue, V>(contestant, value_bytes, source, visitor),
    }
}

fn placed_integers_of<O: OwnValue, V: PlacedVisitor<u64>>(
    contestant: Contestant,
    bytes: usize,
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    match contestant {
        Contestant::Art => Ok(visitor.visit(ArtMap::<O>::new(source, bytes)?)),
        Contestant::Masstree => Ok(visitor.visit(MasstreeMap::<O>::new(source, bytes)?)),
        Contestant::BPlusTree { node_bytes } => {
            Ok(visitor.visit(BPlusTreeMap::<O>::new(source, node_bytes, bytes)?))
        }
        _ => Err(OpenError::NotOurs { contestant }),
    }
}

/// Hands an empty map over byte strings to the visitor, if its nodes can be moved.
pub(super) fn open_placed_bytes<V: PlacedVisitor<[u8]>>(
    contestant: Contestant,
    value_bytes: usize,
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    match value_bytes {
        WORD_BYTES => placed_bytes_of::<u64, V>(contestant, value_bytes, source, visitor),
        _ => placed_bytes_of::<BlockValue, V>(contestant, value_bytes, source, visitor),
    }
}

fn placed_bytes_of<O: OwnValue, V: PlacedVisitor<[u8]>>(
    contestant: Contestant,
    bytes: usize,
    source: &dyn MemorySource,
    visitor: V,
) -> Opened<V::Output> {
    match contestant {
        Contestant::Art => Ok(visitor.visit(ArtMap::<O>::new(source, bytes)?)),
        Contestant::Masstree => Ok(visitor.visit(MasstreeMap::<O>::new(source, bytes)?)),
        Contestant::BPlusTree { .. } => Err(OpenError::KeysNotTaken { contestant }),
        _ => Err(OpenError::NotOurs { contestant }),
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Contestant {
    type Err = UnknownContestant;

    fn from_str(name: &str) -> Result<Self, UnknownContestant> {
        let sizes = NODE_SIZES
            .into_iter()
            .map(|(node_bytes, _)| Self::BPlusTree { node_bytes });
        let found = Self::ALL
            .into_iter()
            .chain(sizes)
            .find(|one| one.name() == name);
        found.ok_or_else(|| UnknownContestant {
            name: name.to_owned(),
        })
    }
}
