//! A tree as one may have it: a trie of sorted buckets under one lock. For placement it makes two
//! calls: `Frontend::tier_for` where a node is made, `Frontend::use_leaf` where a leaf is used.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nearfar_index::memory::{NodeBox, NodeMemory, OutOfMemory};
use nearfar_index::placement::{Frontend, LeafCounter, NewNode};
use nearfar_memory::TierId;
use nearfar_model::Native;

/// Keys in a bucket.
const BUCKET_KEYS: usize = 16;

/// A map of numbers. Inner nodes have a child for each value of four bits of the key; buckets are
/// sorted, and split into 16 when they are full.
pub struct BucketTrie {
    root: RwLock<Child>,
    pub memory: Arc<NodeMemory>,
    pub frontend: Frontend,
}

pub type Inner = [Option<Child>; 16];

pub enum Child {
    Inner(NodeBox<Inner>),
    Bucket(NodeBox<Bucket>),
}

#[derive(Default)]
pub struct Bucket {
    entries: [(u32, u64); BUCKET_KEYS],
    length: usize,
    pub counter: LeafCounter,
}

pub fn digit(key: u32, level: u32) -> usize {
    (key >> (28 - 4 * level)) as usize & 15
}

impl BucketTrie {
    pub fn new(memory: NodeMemory, frontend: Frontend) -> Result<Self, OutOfMemory> {
        let memory = Arc::new(memory);
        let root = NodeBox::new(&memory, Bucket::default(), TierId::NEAR)?;
        let root = RwLock::new(Child::Bucket(root));
        Ok(Self {
            root,
            memory,
            frontend,
        })
    }

    pub fn get(&self, key: u32) -> Option<u64> {
        let root = self.read();
        let (mut child, mut level) = (&*root, 0);
        while let Child::Inner(inner) = child {
            child = inner[digit(key, level)].as_ref()?;
            level += 1;
        }
        let Child::Bucket(bucket) = child else {
            return None;
        };
        self.frontend.use_leaf(&bucket.counter, &Native);
        let found = bucket.entries[..bucket.length].binary_search_by_key(&key, |entry| entry.0);
        found.ok().map(|at| bucket.entries[at].1)
    }

    pub fn insert(&self, key: u32, value: u64) -> Result<Option<u64>, OutOfMemory> {
        let mut root = self.write();
        let (mut child, mut level, mut parent) = (&mut *root, 0, TierId::NEAR);
        loop {
            if let Child::Bucket(bucket) = child {
                if let Some(old) = bucket.insert(key, value) {
                    self.frontend.use_leaf(&bucket.counter, &Native);
                    return Ok(old);
                }
                *child = Child::Inner(self.split(bucket, level, parent)?);
            }
            let Child::Inner(inner) = child else {
                unreachable!("just split")
            };
            parent = inner.tier();
            let slot = &mut inner[digit(key, level)];
            level += 1;
            if slot.is_none() {
                *slot = Some(Child::Bucket(self.bucket(level, parent)?));
            }
            child = slot.as_mut().expect("just filled");
        }
    }

    fn tier_for<T>(&self, level: u32, is_leaf: bool, parent: TierId) -> TierId {
        let bytes = size_of::<T>();
        self.frontend.tier_for(NewNode {
            level,
            is_leaf,
            parent,
            bytes,
        })
    }

    fn bucket(&self, level: u32, parent: TierId) -> Result<NodeBox<Bucket>, OutOfMemory> {
        let tier = self.tier_for::<Bucket>(level, true, parent);
        NodeBox::new(&self.memory, Bucket::default(), tier)
    }

    /// An inner node with the keys of a bucket in buckets one level deeper.
    fn split(
        &self,
        full: &Bucket,
        level: u32,
        parent: TierId,
    ) -> Result<NodeBox<Inner>, OutOfMemory> {
        let tier = self.tier_for::<Inner>(level, false, parent);
        let mut inner = NodeBox::new(&self.memory, Inner::default(), tier)?;
        let parent = inner.tier();
        for (key, value) in full.entries {
            let slot = &mut inner[digit(key, level)];
            if slot.is_none() {
                *slot = Some(Child::Bucket(self.bucket(level + 1, parent)?));
            }
            if let Some(Child::Bucket(bucket)) = slot {
                bucket.insert(key, value);
            }
        }
        Ok(inner)
    }

    pub fn read(&self) -> RwLockReadGuard<'_, Child> {
        self.root.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, Child> {
        self.root.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket {
    /// Adds or overwrites; `None` where the bucket is full.
    fn insert(&mut self, key: u32, value: u64) -> Option<Option<u64>> {
        match self.entries[..self.length].binary_search_by_key(&key, |entry| entry.0) {
            Ok(at) => Some(Some(std::mem::replace(&mut self.entries[at].1, value))),
            Err(_) if self.length == BUCKET_KEYS => None,
            Err(at) => {
                self.entries[at..=self.length].rotate_right(1);
                self.entries[at] = (key, value);
                self.length += 1;
                Some(None)
            }
        }
    }
}
