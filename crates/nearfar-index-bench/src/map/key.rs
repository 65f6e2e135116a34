//! Keys that maps under test take.

use std::borrow::Borrow;

use super::contestant::{self, Contestant, Opened, PlacedVisitor, Visitor};
use super::memory::MemorySource;

/// A key as maps borrow it, and as maps that own their keys keep it.
pub trait TestKey: Ord + Send + Sync + 'static {
    /// The kept form.
    type Owned: Ord + Clone + Borrow<Self> + Send + Sync + 'static;

    /// A copy to be kept.
    fn own(&self) -> Self::Owned;

    /// Hands an empty map of a contestant over these keys, with values of so many bytes, to the visitor.
    ///
    /// # Errors
    /// [`OpenError`](super::OpenError): it takes no such keys or values, or gets no memory.
    fn open<V: Visitor<Self>>(
        contestant: Contestant,
        value_bytes: usize,
        source: &dyn MemorySource,
        visitor: V,
    ) -> Opened<V::Output>;

    /// As [`TestKey::open`], for contestants whose nodes can be moved.
    ///
    /// # Errors
    /// [`OpenError`](super::OpenError).
    fn open_placed<V: PlacedVisitor<Self>>(
        contestant: Contestant,
        value_bytes: usize,
        source: &dyn MemorySource,
        visitor: V,
    ) -> Opened<V::Output>;
}

impl TestKey for u64 {
    type Owned = Self;

    #[inline]
    fn own(&self) -> Self {
        *self
    }

    fn open<V: Visitor<Self>>(
        contestant: Contestant,
        value_bytes: usize,
        source: &dyn MemorySource,
        visitor: V,
    ) -> Opened<V::Output> {
        contestant::open_integers(contestant, value_bytes, source, visitor)
    }

    fn open_placed<V: PlacedVisitor<Self>>(
        contestant: Contestant,
        value_bytes: usize,
        source: &dyn MemorySource,
        visitor: V,
    ) -> Opened<V::Output> {
        contestant::open_placed_integers(contestant, value_bytes, source, visitor)
    }
}

impl TestKey for [u8] {
    type Owned = Box<Self>;

    fn own(&self) -> Box<Self> {
        self.into()
    }

    fn open<V: Visitor<Self>>(
        contestant: Contestant,
        value_bytes: usize,
        source: &dyn MemorySource,
        visitor: V,
    ) -> Opened<V::Output> {
        contestant::open_bytes(contestant, value_bytes, source, visitor)
    }

    fn open_placed<V: PlacedVisitor<Self>>(
        contestant: Contestant,
        value_bytes: usize,
        source: &dyn MemorySource,
        visitor: V,
    ) -> Opened<V::Output> {
        contestant::open_placed_bytes(contestant, value_bytes, source, visitor)
    }
}
