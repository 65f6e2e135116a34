//! `masstree`: a trie of B+trees over byte strings.

use std::convert::identity;

use masstree::{LeafPolicy, MassTree, MassTree15, MassTreeGeneric, RangeBound, TreeAllocator};
use nearfar_model::Probe;
use seize::LocalGuard;

use crate::map::{MapError, OrderedMap, Session, TestValue};

/// The tree of the crate `masstree`: words lie in it, larger values in boxes.
pub struct MasstreeCrate<T> {
    tree: T,
    value_bytes: usize,
}

impl MasstreeCrate<MassTree<u64>> {
    /// An empty one of words.
    pub fn of_words() -> Self {
        Self {
            tree: MassTree::new(),
            value_bytes: size_of::<u64>(),
        }
    }
}

impl MasstreeCrate<MassTree15<Box<[u8]>>> {
    /// An empty one with values of this size.
    pub fn of_bytes(value_bytes: usize) -> Self {
        Self {
            tree: MassTree15::new(),
            value_bytes,
        }
    }
}

struct MasstreeSession<'s, T> {
    tree: &'s T,
    value_bytes: usize,
    guard: LocalGuard<'s>,
}

/// Sessions over a tree with values and keys of these types. `$bytes` gives a key's bytes, and `$scan`
/// scans from them.
macro_rules! sessions {
    ($tree:ty, $value:ty, $key:ty, $bytes:path, $scan:path) => {
        impl OrderedMap<$key> for MasstreeCrate<$tree> {
            fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<$key> + 's {
                MasstreeSession {
                    tree: &self.tree,
                    value_bytes: self.value_bytes,
                    guard: self.tree.guard(),
                }
            }
        }

        impl Session<$key> for MasstreeSession<'_, $tree> {
            #[inline]
            fn insert(&mut self, key: &$key, value: u64) -> Result<(), MapError> {
                let value = <$value>::of(value, self.value_bytes);
                self.tree
                    .insert_with_guard($bytes(key).as_ref(), value, &self.guard);
                Ok(())
            }

            #[inline]
            fn get(&mut self, key: &$key) -> Option<u64> {
                let found = self.tree.get_with_guard($bytes(key).as_ref(), &self.guard);
                found.map(|value| value.word())
            }

            #[inline]
            fn update(&mut self, key: &$key, value: u64) -> Result<bool, MapError> {
                let (bytes, value) = ($bytes(key), <$value>::of(value, self.value_bytes));
                let old = self
                    .tree
                    .insert_with_guard(bytes.as_ref(), value, &self.guard);
                Ok(old.is_some())
            }

            fn scan(&mut self, from: &$key, count: usize) -> (usize, u64) {
                let bytes = $bytes(from);
                let (mut seen, mut sum) = (0, 0_u64);
                $scan(self.tree, bytes.as_ref(), &self.guard, |value| {
                    seen += 1;
                    sum = sum.wrapping_add(value.word());
                    seen < count
                });
                (seen, sum)
            }

            #[inline]
            fn remove(&mut self, key: &$key) -> bool {
                let removed = self
                    .tree
                    .remove_with_guard($bytes(key).as_ref(), &self.guard);
                removed.is_ok_and(|old| old.is_some())
            }
        }
    };
}

/// The bytes of an integer, in whose order it is.
fn big_endian(key: &u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// Values only, which is the fastest and exact for keys of one word.
fn scan_words<P: LeafPolicy, A: TreeAllocator<P>>(
    tree: &MassTreeGeneric<P, A>,
    from: &[u8],
    guard: &LocalGuard<'_>,
    add: impl FnMut(P::Output) -> bool,
) {
    let from = RangeBound::Included(from);
    tree.scan_values(from, RangeBound::Unbounded, add, guard);
}

/// With keys, which the crate needs to begin at a long one exactly.
fn scan_strings<P: LeafPolicy, A: TreeAllocator<P>>(
    tree: &MassTreeGeneric<P, A>,
    from: &[u8],
    guard: &LocalGuard<'_>,
    mut add: impl FnMut(P::Output) -> bool,
) {
    let from = RangeBound::Included(from);
    tree.scan_intra_leaf_batch(from, RangeBound::Unbounded, |_, value| add(value), guard);
}

type Words = MassTree<u64>;
type Boxes = MassTree15<Box<[u8]>>;

sessions!(Words, u64, u64, big_endian, scan_words);
sessions!(Words, u64, [u8], identity::<&[u8]>, scan_strings);
sessions!(Boxes, Box<[u8]>, u64, big_endian, scan_words);
sessions!(Boxes, Box<[u8]>, [u8], identity::<&[u8]>, scan_strings);
