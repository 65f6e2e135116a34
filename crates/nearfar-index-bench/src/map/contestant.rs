//! Who takes part, by name.

use std::fmt;
use std::str::FromStr;

use nearfar_memory::HeapError;

use super::rivals::{
    BPlusTreeCrate, CongeeCrate, FerntreeCrate, LockedMap, MasstreeCrate, SccCrate, SkiplistCrate,
};
use super::{Ground, OrderedMap};

/// A map that can be tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Contestant {
    /// The standard library's B-tree behind a lock.
    StdMap,
    /// `congee`.
    Congee,
    /// `masstree`.
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
    /// No memory for a tree.
    #[error(transparent)]
    Heap(#[from] HeapError),
}

/// What a visitor gave, or why it was not called.
pub type Opened<T> = Result<T, OpenError>;

impl Contestant {
    /// Everybody.
    pub const ALL: [Self; 7] = [
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
    pub const fn name(self) -> &'static str {
        match self {
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
        false
    }

    /// All names, for messages.
    fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

/// Hands an empty map over 8-byte integers to the visitor.
pub(super) fn open_integers<V: Visitor<u64>>(
    contestant: Contestant,
    _ground: &dyn Ground,
    visitor: V,
) -> Opened<V::Output> {
    Ok(match contestant {
        Contestant::StdMap => visitor.visit(LockedMap::<u64>::default()),
        Contestant::Congee => visitor.visit(CongeeCrate::default()),
        Contestant::MasstreeCrate => visitor.visit(MasstreeCrate::default()),
        Contestant::Ferntree => visitor.visit(FerntreeCrate::default()),
        Contestant::BPlusTreeCrate => visitor.visit(BPlusTreeCrate::<u64>::default()),
        Contestant::Scc => visitor.visit(SccCrate::<u64>::default()),
        Contestant::Skiplist => visitor.visit(SkiplistCrate::<u64>::default()),
    })
}

/// Hands an empty map over byte strings to the visitor.
pub(super) fn open_bytes<V: Visitor<[u8]>>(
    contestant: Contestant,
    _ground: &dyn Ground,
    visitor: V,
) -> Opened<V::Output> {
    Ok(match contestant {
        Contestant::StdMap => visitor.visit(LockedMap::<[u8]>::default()),
        Contestant::MasstreeCrate => visitor.visit(MasstreeCrate::default()),
        Contestant::BPlusTreeCrate => visitor.visit(BPlusTreeCrate::<[u8]>::default()),
        Contestant::Scc => visitor.visit(SccCrate::<[u8]>::default()),
        Contestant::Skiplist => visitor.visit(SkiplistCrate::<[u8]>::default()),
        Contestant::Congee | Contestant::Ferntree => {
            return Err(OpenError::KeysNotTaken { contestant });
        }
    })
}

impl fmt::Display for Contestant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Contestant {
    type Err = UnknownContestant;

    fn from_str(name: &str) -> Result<Self, UnknownContestant> {
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| UnknownContestant {
            name: name.to_owned(),
        })
    }
}
