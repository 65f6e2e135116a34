//! Keys that maps under test take.

use std::borrow::Borrow;

use nearfar_index::Key;

use super::contestant::{Contestant, EntryBytes, Rival};
use super::memory::MemorySource;
use super::open::{self, OpenError, Opened, PlacedVisitor, Visitor};
use super::rivals;
use super::value::OwnValue;

/// A key as maps borrow it, and as maps that own their keys keep it.
pub trait TestKey: Key + Ord + Send + Sync + 'static {
    /// The kept form.
    type Owned: Ord + Clone + Borrow<Self> + Send + Sync + 'static;

    /// Whether keys are integers of 8 bytes, which some maps need.
    const IS_INTEGER: bool;

    /// A copy to be kept.
    fn own(&self) -> Self::Owned;

    /// Hands an empty B+tree over these keys, with nodes and values `O` of so many bytes, to the
    /// visitor.
    ///
    /// # Errors
    /// [`OpenError`]: it takes no such keys, or gets no memory.
    #[doc(hidden)]
    fn open_btree<O: OwnValue, V: PlacedVisitor<Self>>(
        bytes: (usize, usize),
        source: &dyn MemorySource,
        visitor: V,
    ) -> Opened<V::Output>;

    /// Hands an empty map of another crate over these keys to the visitor.
    ///
    /// # Errors
    /// [`OpenError`]: it is not part of this build, or takes no such keys or values.
    #[doc(hidden)]
    fn open_rival<V: Visitor<Self>>(
        rival: Rival,
        value_bytes: usize,
        visitor: V,
    ) -> Opened<V::Output>;

    /// Hands an empty map of a contestant over these keys, with keys and values of so many bytes, to the visitor.
    ///
    /// # Errors
    /// [`OpenError`]: it is not part of this build, takes no such keys or values, or gets no memory.
    fn open<V: Visitor<Self>>(
        contestant: Contestant,
        bytes: EntryBytes,
        source: &dyn MemorySource,
        visitor: V,
    ) -> Opened<V::Output> {
        open::any(contestant, bytes, source, visitor)
    }

    /// As [`TestKey::open`], for contestants whose nodes can be moved.
    ///
    /// # Errors
    /// [`OpenError`].
    fn open_placed<V: PlacedVisitor<Self>>(
        contestant: Contestant,
        value_bytes: usize,
        source: &dyn MemorySource,
        visitor: V,
    ) -> Opened<V::Output> {
        open::ours(contestant, value_bytes, source, visitor)
    }
}

impl TestKey for u64 {
    type Owned = Self;
    const IS_INTEGER: bool = true;

    #[inline]
    fn own(&self) -> Self {
        *self
    }

    fn open_btree<O: OwnValue, V: PlacedVisitor<Self>>(
        bytes: (usize, usize),
        source: &dyn MemorySource,
        visitor: V,
    ) -> Opened<V::Output> {
        open::btree::<O, V>(bytes, source, visitor)
    }

    fn open_rival<V: Visitor<Self>>(
        rival: Rival,
        value_bytes: usize,
        visitor: V,
    ) -> Opened<V::Output> {
        rivals::open_integers(rival, value_bytes, visitor)
    }
}

impl TestKey for [u8] {
    type Owned = Box<Self>;
    const IS_INTEGER: bool = false;

    fn own(&self) -> Box<Self> {
        self.into()
    }

    fn open_btree<O: OwnValue, V: PlacedVisitor<Self>>(
        (node_bytes, _): (usize, usize),
        _source: &dyn MemorySource,
        _visitor: V,
    ) -> Opened<V::Output> {
        let contestant = Contestant::BPlusTree { node_bytes };
        Err(OpenError::KeysNotTaken { contestant })
    }

    fn open_rival<V: Visitor<Self>>(
        rival: Rival,
        value_bytes: usize,
        visitor: V,
    ) -> Opened<V::Output> {
        rivals::open_bytes(rival, value_bytes, visitor)
    }
}
