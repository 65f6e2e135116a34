//! The trees over byte strings, which have the same interface.

use std::ops::ControlFlow;
use std::sync::Arc;

use nearfar_index::{Art, Key, Masstree, ProbedArt, ProbedMasstree};
use nearfar_memory::HeapError;
use nearfar_model::Probe;

use crate::map::{Ground, MapError, OrderedMap, PlacedMap, Session, TestKey, own_bytes};

/// A map over a tree, whose view with a probe for the time `$s` is `$probed`.
macro_rules! byte_tree {
    ($doc:literal, $map:ident, $session:ident, $tree:ident, $s:lifetime, $probed:ty) => {
        #[doc = $doc]
        pub struct $map(Arc<$tree<u64>>);

        impl $map {
            /// An empty one.
            pub fn new(ground: &dyn Ground) -> Result<Self, HeapError> {
                let (memory, frontend) = ground.make()?;
                Ok(Self(Arc::new($tree::with_memory(memory, frontend))))
            }
        }

        struct $session<$s, P: Probe>($probed);

        impl<K: TestKey + Key + ?Sized> OrderedMap<K> for $map {
            fn session<'s, P: Probe>(&'s self, probe: &'s P) -> impl Session<K> + 's {
                $session(self.0.probed(probe))
            }

            fn own_bytes(&self) -> Option<u64> {
                Some(own_bytes(self.0.memory()))
            }
        }

        impl<K: TestKey + Key + ?Sized> PlacedMap<K> for $map {
            type Tree = $tree<u64>;

            fn tree(&self) -> &Arc<Self::Tree> {
                &self.0
            }
        }

        impl<K: Key + ?Sized, P: Probe> Session<K> for $session<'_, P> {
            #[inline]
            fn insert(&mut self, key: &K, value: u64) -> Result<(), MapError> {
                self.0.insert(key, value)?;
                Ok(())
            }

            #[inline]
            fn get(&mut self, key: &K) -> Option<u64> {
                self.0.get(key)
            }

            #[inline]
            fn update(&mut self, key: &K, value: u64) -> Result<bool, MapError> {
                Ok(self.0.update(key, |_| value)?.is_some())
            }

            fn scan(&mut self, from: &K, count: usize) -> (usize, u64) {
                let (mut seen, mut sum) = (0, 0_u64);
                self.0.scan(from, |_, value| {
                    seen += 1;
                    sum = sum.wrapping_add(value);
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
                self.0.remove(key).is_some()
            }

            fn get_batch(&mut self, keys: &[&K], values: &mut Vec<Option<u64>>) {
                values.clear();
                self.0.get_batch(keys, values);
            }
        }
    };
}

byte_tree!("Our radix tree.", ArtMap, ArtSession, Art, 's, ProbedArt<'s, u64, P>);
byte_tree!("Our Masstree.", MasstreeMap, MasstreeSession, Masstree, 's, ProbedMasstree<'s, 's, u64, P>);
