//! Ordered maps under test: ours and other crates', behind one pair of traits.
//!
//! A map gives out a [`Session`] per thread, which holds whatever a thread needs for several
//! operations in a row, such as a guard, and is renewed after [`SESSION_OPERATIONS`]: crates whose
//! interface lets a caller pin an epoch once for many operations are used that way.

mod bisected;
mod contestant;
mod error;
mod key;
mod memory;
mod open;
mod ours;
mod rivals;
mod std_map;
mod value;

pub(crate) use bisected::Bisected;
pub use contestant::{Contestant, EntryBytes, Rival, UnknownContestant};
pub use error::MapError;
pub use key::TestKey;
pub use memory::{MemorySource, NearMemory, PlatformMemory};
pub use open::{OpenError, Opened, PlacedVisitor, Visitor};
pub(crate) use ours::TreeMap;
pub use value::{OwnValue, TestValue, WORD_BYTES};

use std::sync::Arc;

use nearfar_index::placement::PlacedTree;
use nearfar_model::Probe;

/// Operations after which a thread's session is renewed, so that memory can be reclaimed.
pub const SESSION_OPERATIONS: usize = 256;

/// A concurrent ordered map, whose values are made of words ([`TestValue`]).
pub trait OrderedMap<K: ?Sized>: Send + Sync {
    /// What a thread works through. Maps of other crates report nothing to `probe`.
    fn session<'s, P: Probe>(&'s self, probe: &'s P) -> impl Session<K> + 's;

    /// Bytes that the map's own memory has taken, where it keeps account of that.
    fn own_bytes(&self) -> Option<u64> {
        None
    }
}

/// One of our trees, whose nodes can be moved.
pub trait PlacedMap<K: ?Sized>: OrderedMap<K> + 'static {
    /// The tree.
    type Tree: PlacedTree + Send + 'static;

    /// A handle to it.
    fn tree(&self) -> &Arc<Self::Tree>;
}

/// One thread's use of a map.
pub trait Session<K: ?Sized> {
    /// Stores a value under a key, which may be new.
    ///
    /// # Errors
    /// [`MapError`]: the map has no memory for it.
    fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError>;

    /// The value of a key.
    fn get(&mut self, key: &K) -> Option<u64>;

    /// Overwrites the value of a key that is there; whether it was.
    ///
    /// # Errors
    /// [`MapError`]: the map has no memory for it.
    fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError>;

    /// Adds up the values of up to `count` keys from `from` on; how many there were, and their sum.
    fn scan(&mut self, from: &K, count: usize) -> (usize, u64);

    /// Removes a key; whether it was there.
    fn remove(&mut self, key: &K) -> bool;

    /// The values of many keys, in place of what `values` held: for maps that can look them up at
    /// once.
    fn get_batch(&mut self, keys: &[&K], values: &mut Vec<Option<u64>>) {
        values.clear();
        values.extend(keys.iter().map(|key| self.get(key)));
    }
}
