//! The trees, as maps of numbers to numbers.

use std::ops::{ControlFlow, Range};

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{Allocation, Frontend, Placed, PlacedTree, Tracking};
use nearfar_index::{
    Art, BPlusTree, BPlusTreeError, BPlusTreeOptions, BlockValue, Masstree, TreeError, TreeValue,
};
use nearfar_memory::TierId;

use super::memory::{Watch, watched};
use super::mix;

/// Far more than any test takes.
pub const PLENTY: u64 = 1 << 30;

pub fn tier(index: usize) -> TierId {
    TierId::from_index(index).unwrap()
}

/// A map of numbers in order.
pub trait Map: Send + Sync {
    fn get(&self, number: u64) -> Option<u64>;
    fn insert(&self, number: u64, value: u64) -> Result<Option<u64>, TreeError>;
    fn get_or_insert(&self, number: u64, value: u64) -> Result<Option<u64>, TreeError>;
    /// Makes `old` into [`changed`] of it.
    fn update(&self, number: u64, by: u64) -> Result<Option<u64>, TreeError>;
    fn remove(&self, number: u64) -> Option<u64>;
    fn get_batch(&self, numbers: &[u64]) -> Vec<Option<u64>>;
    /// What a scan finds of a range, forwards or backwards.
    fn scan(&self, numbers: Range<u64>, is_back: bool) -> Vec<(u64, u64)>;
}

/// What an update makes of a value.
pub fn changed(old: u64, by: u64) -> u64 {
    mix(old ^ by)
}

/// A value that carries a number.
pub trait Tagged: TreeValue {
    fn tagged(tag: u64) -> Self;
    fn tag(&self) -> u64;
}

impl Tagged for u64 {
    fn tagged(tag: u64) -> Self {
        tag
    }

    fn tag(&self) -> u64 {
        *self
    }
}

/// As often as its own bits say, so that a value that is torn shows.
impl Tagged for BlockValue {
    fn tagged(tag: u64) -> Self {
        Self::new(tag.to_le_bytes().repeat(1 + tag as usize % 5)).unwrap()
    }

    fn tag(&self) -> u64 {
        let first = self.as_slice()[..8].try_into().unwrap();
        let tag = u64::from_le_bytes(first);
        assert_eq!(*self, Self::tagged(tag), "a value of two");
        tag
    }
}

/// A tree under test.
pub trait Subject: Map + PlacedTree<Node = Placed<Self::Key>> + Sized + 'static {
    type Key: Clone + Send;

    /// # Errors
    /// No room for what an empty tree needs.
    fn make(memory: NodeMemory, frontend: Frontend) -> Result<Self, BPlusTreeError>;
    fn key(number: u64) -> Self::Key;
    fn len(&self) -> usize;
    /// Bytes that a tree without keys may keep.
    fn empty_bytes() -> u64;

    /// A tree over watched memory.
    fn watched(budgets_bytes: &[u64]) -> (Self, Watch) {
        let (memory, watch) = watched(budgets_bytes);
        let frontend = Frontend::new(Allocation::Layered, Tracking::Leaf, memory.farthest());
        frontend.set_boundary(TierId::NEAR, 2);
        (Self::make(memory, frontend).unwrap(), watch)
    }

    fn name(number: u64, level: u32) -> Placed<Self::Key> {
        Placed {
            key: Self::key(number),
            level,
        }
    }

    /// All nodes on the way to a number, from the root.
    fn way(&self, number: u64) -> Vec<Placed<Self::Key>> {
        let names = (0..).map(|level| Self::name(number, level));
        names.take_while(|node| self.view(node).is_some()).collect()
    }

    /// The names of all leaves.
    fn leaves(&self) -> Vec<Placed<Self::Key>> {
        let mut names = Vec::new();
        let ended = self.visit_leaves(&mut |leaf| {
            names.push(leaf.node.clone());
            ControlFlow::Continue(())
        });
        assert!(ended.is_continue());
        names
    }

    /// Moves all nodes to one tier.
    fn move_all(&self, to: TierId) {
        for leaf in self.leaves() {
            let way = std::iter::successors(Some(leaf), |node| self.parent(node));
            for node in way {
                self.migrate(&node, to, false).unwrap();
            }
        }
    }

    /// Bytes of nodes and values on a tier.
    fn live_bytes(&self, tier: TierId) -> u64 {
        let ledger = self.memory().ledger(tier);
        ledger.node_bytes + ledger.value_bytes
    }

    /// Bytes of nodes and values on all tiers.
    fn all_bytes(&self) -> u64 {
        let tiers = 0..self.memory().tiers();
        tiers.map(|index| self.live_bytes(tier(index))).sum()
    }

    /// Whether the tree holds exactly these numbers below `count`, read in every way.
    fn assert_holds(&self, count: u64, value: impl Fn(u64) -> Option<u64>) {
        let numbers: Vec<u64> = (0..count).collect();
        let expected: Vec<_> = numbers.iter().map(|number| value(*number)).collect();
        assert_eq!(self.get_batch(&numbers), expected);
        for number in &numbers {
            assert_eq!(self.get(*number), value(*number), "{number}");
        }
        let pairs = || numbers.iter().filter_map(|n| Some((*n, value(*n)?)));
        assert!(self.scan(0..count, false).into_iter().eq(pairs()));
        assert!(self.scan(0..count, true).into_iter().rev().eq(pairs()));
        assert_eq!(self.len(), pairs().count());
    }
}

/// A byte string for a number, in the order of numbers: with a common beginning, ends at every
/// place of a slice, keys that others begin with, and very long ones.
pub fn bytes_of(number: u64) -> Vec<u8> {
    let mut key = vec![b'k'; 9];
    key.extend_from_slice(&((number / 8) as u32).to_be_bytes()[1..]);
    match number % 8 {
        0 => {}
        1 => key.push(0),
        2 => key.extend_from_slice(b"\x01and a rest of its own"),
        3 => key.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0, 0]),
        4 => key.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        5 => key.extend_from_slice(&[3; 1000]),
        6 => key.push(4),
        _ => key.extend_from_slice(&[255; 20]),
    }
    key
}

/// The number that [`bytes_of`] makes the key of.
fn number_of(key: &[u8]) -> u64 {
    let group = u32::from_be_bytes([0, key[9], key[10], key[11]]);
    let kind = match &key[12..] {
        [] => 0,
        [0] => 1,
        [1, ..] => 2,
        [2, rest @ ..] => 3 + u64::from(rest.len() > 8),
        [3, ..] => 5,
        [4] => 6,
        _ => 7,
    };
    u64::from(group) * 8 + kind
}

macro_rules! subject_of_bytes {
    ($tree:ident) => {
        impl<V: Tagged> Map for $tree<V> {
            fn get(&self, number: u64) -> Option<u64> {
                let value = $tree::get(self, &bytes_of(number));
                value.map(|value| value.tag())
            }

            fn insert(&self, number: u64, value: u64) -> Result<Option<u64>, TreeError> {
                let old = $tree::insert(self, &bytes_of(number), V::tagged(value))?;
                Ok(old.map(|value| value.tag()))
            }

            fn get_or_insert(&self, number: u64, value: u64) -> Result<Option<u64>, TreeError> {
                let there = $tree::get_or_insert(self, &bytes_of(number), V::tagged(value))?;
                Ok(there.map(|value| value.tag()))
            }

            fn update(&self, number: u64, by: u64) -> Result<Option<u64>, TreeError> {
                let change = |old: V| V::tagged(changed(old.tag(), by));
                let new = $tree::update(self, &bytes_of(number), change)?;
                Ok(new.map(|value| value.tag()))
            }

            fn remove(&self, number: u64) -> Option<u64> {
                $tree::remove(self, &bytes_of(number)).map(|value| value.tag())
            }

            fn get_batch(&self, numbers: &[u64]) -> Vec<Option<u64>> {
                let keys: Vec<_> = numbers.iter().map(|number| bytes_of(*number)).collect();
                let mut values = Vec::new();
                $tree::get_batch(self, &keys, &mut values);
                let tags = values.into_iter().map(|value| Some(value?.tag()));
                tags.collect()
            }

            fn scan(&self, numbers: Range<u64>, is_back: bool) -> Vec<(u64, u64)> {
                let mut pairs = Vec::new();
                let visit = |key: &[u8], value: V| {
                    let number = number_of(key);
                    assert_eq!(bytes_of(number), key, "a key that nobody put there");
                    if !numbers.contains(&number) {
                        return ControlFlow::Break(());
                    }
                    pairs.push((number, value.tag()));
                    ControlFlow::Continue(())
                };
                match is_back {
                    false => $tree::scan(self, &bytes_of(numbers.start), visit),
                    true => $tree::scan_back(self, &bytes_of(numbers.end - 1), visit),
                }
                pairs
            }
        }

        impl<V: Tagged> Subject for $tree<V> {
            type Key = Box<[u8]>;

            fn make(memory: NodeMemory, frontend: Frontend) -> Result<Self, BPlusTreeError> {
                Ok($tree::with_memory(memory, frontend))
            }

            fn key(number: u64) -> Box<[u8]> {
                bytes_of(number).into_boxed_slice()
            }

            fn len(&self) -> usize {
                $tree::len(self)
            }

            fn empty_bytes() -> u64 {
                256
            }
        }
    };
}

subject_of_bytes!(Art);
subject_of_bytes!(Masstree);

/// Bytes of a B+tree's nodes: the smallest, so that there are many.
const NODE_BYTES: usize = 256;

/// A key for a number, in the order of numbers.
fn word_of(number: u64) -> u64 {
    number * (u64::MAX >> 24)
}

impl<V: Tagged> Map for BPlusTree<V> {
    fn get(&self, number: u64) -> Option<u64> {
        Self::get(self, word_of(number)).map(|value| value.tag())
    }

    fn insert(&self, number: u64, value: u64) -> Result<Option<u64>, TreeError> {
        let old = Self::insert(self, word_of(number), V::tagged(value))?;
        Ok(old.map(|value| value.tag()))
    }

    fn get_or_insert(&self, number: u64, value: u64) -> Result<Option<u64>, TreeError> {
        let there = Self::get_or_insert(self, word_of(number), V::tagged(value))?;
        Ok(there.map(|value| value.tag()))
    }

    fn update(&self, number: u64, by: u64) -> Result<Option<u64>, TreeError> {
        let change = |old: V| V::tagged(changed(old.tag(), by));
        let new = Self::update(self, word_of(number), change)?;
        Ok(new.map(|value| value.tag()))
    }

    fn remove(&self, number: u64) -> Option<u64> {
        Self::remove(self, word_of(number)).map(|value| value.tag())
    }

    fn get_batch(&self, numbers: &[u64]) -> Vec<Option<u64>> {
        let keys: Vec<_> = numbers.iter().map(|number| word_of(*number)).collect();
        let mut values = Vec::new();
        Self::get_batch(self, &keys, &mut values);
        let tags = values.into_iter().map(|value| Some(value?.tag()));
        tags.collect()
    }

    fn scan(&self, numbers: Range<u64>, is_back: bool) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        let visit = |key: u64, value: V| {
            let number = key / word_of(1);
            assert_eq!(word_of(number), key, "a key that nobody put there");
            if !numbers.contains(&number) {
                return ControlFlow::Break(());
            }
            pairs.push((number, value.tag()));
            ControlFlow::Continue(())
        };
        match is_back {
            false => Self::scan(self, word_of(numbers.start), visit),
            true => Self::scan_back(self, word_of(numbers.end - 1), visit),
        }
        pairs
    }
}

impl<V: Tagged> Subject for BPlusTree<V> {
    type Key = u64;

    fn make(memory: NodeMemory, frontend: Frontend) -> Result<Self, BPlusTreeError> {
        let options = BPlusTreeOptions {
            node_bytes: NODE_BYTES,
            ..BPlusTreeOptions::default()
        };
        Self::with_options(memory, frontend, options)
    }

    fn key(number: u64) -> u64 {
        word_of(number)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn empty_bytes() -> u64 {
        NODE_BYTES as u64
    }
}
