//! The trees over byte strings, which have the same interface.

use std::ops::ControlFlow;
use std::sync::Arc;

use nearfar_index::{Art, Key, Masstree, ProbedArt, ProbedMasstree};
use nearfar_memory::HeapError;
use nearfar_model::Probe;

use super::words_of;
use crate::map::{
    MapError, MemorySource, OrderedMap, OwnValue, PlacedMap, Session, TestKey, own_bytes,
};

/// A map over a tree, whose view with a probe for the time `$s` is `$probed`.
macro_rules! byte_tree {
    ($doc:literal, $map:ident, $session:ident, $tree:ident, $s:lifetime, $probed:ty) => {
        #[doc = $doc]
        pub struct $map<V: OwnValue> {
            tree: Arc<$tree<V>>,
            value_bytes: usize,
        }

        impl<V: OwnValue> $map<V> {
            /// An empty one with values of this size.
            pub fn new(source: &dyn MemorySource, value_bytes: usize) -> Result<Self, HeapError> {
                let (memory, frontend) = source.make()?;
                Ok(Self {
                    tree: Arc::new($tree::with_memory(memory, frontend)),
                    value_bytes,
                })
            }
        }

        struct $session<$s, V: OwnValue, P: Probe> {
            view: $probed,
            value_bytes: usize,
            values: Vec<Option<V>>,
        }

        impl<V: OwnValue, K: TestKey + Key + ?Sized> OrderedMap<K> for $map<V> {
            fn session<'s, P: Probe>(&'s self, probe: &'s P) -> impl Session<K> + 's {
                $session {
                    view: self.tree.probed(probe),
                    value_bytes: self.value_bytes,
                    values: Vec::new(),
                }
            }

            fn own_bytes(&self) -> Option<u64> {
                Some(own_bytes(self.tree.memory()))
            }
        }

        impl<V: OwnValue, K: TestKey + Key + ?Sized> PlacedMap<K> for $map<V> {
            type Tree = $tree<V>;

            fn tree(&self) -> &Arc<Self::Tree> {
                &self.tree
            }
        }

        impl<V: OwnValue, K: Key + ?Sized, P: Probe> Session<K> for $session<'_, V, P> {
            #[inline]
            fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError> {
                self.view.insert(key, V::of(value, self.value_bytes))?;
                Ok(())
            }

            #[inline]
            fn get(&mut self, key: &K) -> Option<u64> {
                self.view.get(key).map(|value| value.word())
            }

            #[inline]
            fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError> {
                let value = |_| V::of(value, self.value_bytes);
                Ok(self.view.update(key, value)?.is_some())
            }

            fn scan(&mut self, from: &K, count: usize) -> (usize, u64) {
                let (mut seen, mut sum) = (0, 0_u64);
                self.view.scan(from, |_, value| {
                    seen += 1;
                    sum = sum.wrapping_add(value.word());
                    if seen < count {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                });
                (seen, sum)
            }

            #[inline]
            fn remove(&mut self, key: &K) -> bool {
                self.view.remove(key).is_some()
            }

            fn get_batch(&mut self, keys: &[&K], values: &mut Vec<Option<u64>>) {
                self.values.clear();
                self.view.get_batch(keys, &mut self.values);
                words_of(&self.values, values);
            }
        }
    };
}

byte_tree!("Our radix tree.", ArtMap, ArtSession, Art, 's, ProbedArt<'s, V, P>);
byte_tree!("Our Masstree.", MasstreeMap, MasstreeSession, Masstree, 's, ProbedMasstree<'s, 's, V, P>);
