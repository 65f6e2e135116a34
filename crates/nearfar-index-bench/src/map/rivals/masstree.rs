//! `masstree`: a trie of B+trees over byte strings, with values inline.

use masstree::{MassTree, RangeBound};
use nearfar_model::Probe;
use seize::LocalGuard;

use crate::map::{MapError, OrderedMap, Session};

/// The tree of the crate `masstree`.
pub struct MasstreeCrate(MassTree<u64>);

impl Default for MasstreeCrate {
    fn default() -> Self {
        Self(MassTree::new())
    }
}

struct MasstreeSession<'s> {
    tree: &'s MassTree<u64>,
    guard: LocalGuard<'s>,
}

/// Sessions over keys whose bytes `$bytes` gives, scanned by `$scan`.
macro_rules! sessions {
    ($key:ty, $bytes:path, $scan:path) => {
        impl OrderedMap<$key> for MasstreeCrate {
            fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<$key> + 's {
                MasstreeSession {
                    tree: &self.0,
                    guard: self.0.guard(),
                }
            }
        }

        impl Session<$key> for MasstreeSession<'_> {
            #[inline]
            fn insert(&mut self, key: &$key, value: u64) -> Result<(), MapError> {
                self.tree
                    .insert_with_guard($bytes(key).as_ref(), value, &self.guard);
                Ok(())
            }

            #[inline]
            fn get(&mut self, key: &$key) -> Option<u64> {
                self.tree.get_with_guard($bytes(key).as_ref(), &self.guard)
            }

            #[inline]
            fn update(&mut self, key: &$key, value: u64) -> Result<bool, MapError> {
                let bytes = $bytes(key);
                let old = self
                    .tree
                    .insert_with_guard(bytes.as_ref(), value, &self.guard);
                Ok(old.is_some())
            }

            fn scan(&mut self, from: &$key, count: usize) -> (usize, u64) {
                let bytes = $bytes(from);
                let (mut seen, mut sum) = (0, 0_u64);
                let add = |value| {
                    seen += 1;
                    sum = sum.wrapping_add(value);
                    seen < count
                };
                $scan(self.tree, bytes.as_ref(), &self.guard, add);
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
fn scan_words(
    tree: &MassTree<u64>,
    from: &[u8],
    guard: &LocalGuard<'_>,
    add: impl FnMut(u64) -> bool,
) {
    tree.scan_values(
        RangeBound::Included(from),
        RangeBound::Unbounded,
        add,
        guard,
    );
}

/// With keys, which the crate needs to begin at a long one exactly.
fn scan_strings(
    tree: &MassTree<u64>,
    from: &[u8],
    guard: &LocalGuard<'_>,
    mut add: impl FnMut(u64) -> bool,
) {
    let from = RangeBound::Included(from);
    tree.scan_intra_leaf_batch(from, RangeBound::Unbounded, |_, value| add(value), guard);
}

sessions!(u64, big_endian, scan_words);
sessions!([u8], std::convert::identity::<&[u8]>, scan_strings);
