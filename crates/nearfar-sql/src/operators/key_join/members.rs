//! Which keys a build side has, or may have.

use arrow::array::ArrayRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use nearfar_kernels::{BloomFilter, Key, Selection};
use nearfar_memory::{ThreadTier, TierId};
use nearfar_model::Native;
use std::ops::Range;

use super::build::STEP_ROWS;
use super::keys::{Keys, Packing, with_values};

/// Bits for each key of a build side that a bit for each number between the lowest and the highest may take.
const BITS_MAX_PER_KEY: u64 = 256;

/// Numbers between the lowest and the highest key that have a bit each, however few keys there are: 128 KiB.
const BITS_ALWAYS: u64 = 1 << 20;

/// More bits than this are not made: 32 MiB.
const BITS_MAX: u64 = 1 << 28;

/// Room in a Bloom filter for each key: with two, about one in 200 other keys passes.
const BLOOM_ROOM: usize = 2;

/// Numbers for each key where keys are sparse, at least.
const SPARSE: usize = 8;

/// The same at most, unless [all of them have bits](BITS_ALWAYS).
const SPARSE_MAX: usize = 32;

/// The keys of a build side.
#[derive(Debug)]
pub enum Members {
    /// A bit for each number from `low` on, where keys are close together.
    Bits { low: i64, words: Vec<u64> },
    /// Where they are not. Some keys pass that are not there.
    Bloom(BloomFilter),
}

impl Members {
    /// The keys of `sides`, as `packing` makes them; none where `memory` has no room for them.
    pub async fn of<'a>(
        packing: &Packing,
        sides: impl Iterator<Item = &'a [ArrayRef]>,
        memory: &MemoryReservation,
    ) -> Result<Option<Self>> {
        let keys = Gathered::of(packing, sides)?;
        let room = Room::of(keys.bounds, keys.rows);
        keys.put_into(room, memory).await
    }

    /// The same of a column that has a few numbers between the lowest and the highest for each row, so that most of other
    /// rows are told by it, and not that many that bits for them take more than keys; none of other columns.
    pub async fn of_sparse<'a>(
        sides: impl Iterator<Item = &'a [ArrayRef]>,
        memory: &MemoryReservation,
    ) -> Result<Option<Self>> {
        let keys = Gathered::of(&Packing::ONE, sides)?;
        match Room::of(keys.bounds, keys.rows) {
            room @ Room::Bits { words, .. } => {
                let most = (BITS_ALWAYS as usize).max(keys.rows.saturating_mul(SPARSE_MAX));
                let is_sparse = (keys.rows.saturating_mul(SPARSE)..=most).contains(&(words * 64));
                match is_sparse {
                    true => keys.put_into(room, memory).await,
                    false => Ok(None),
                }
            }
            Room::Bloom { .. } => Ok(None),
        }
    }

    /// Adds the keys of some rows.
    fn add<K: Key + Into<i64>>(
        &mut self,
        keys: &[K],
        valid: Option<&Selection>,
        rows: Range<usize>,
    ) {
        match self {
            Self::Bits { low, words } => {
                let has_key = |row: &usize| valid.is_none_or(|valid| valid.contains(*row));
                for row in rows.filter(has_key) {
                    let place = keys[row].into().abs_diff(*low);
                    words[(place / 64) as usize] |= 1 << (place % 64);
                }
            }
            Self::Bloom(filter) => filter.put(rows.start, &keys[rows], valid, &Native),
        }
    }

    /// Whether a key may be there; if not, it is sure not to be.
    #[inline]
    pub fn may_have<K: Key + Into<i64>>(&self, key: K) -> bool {
        match self {
            Self::Bits { low, words } => {
                // One below the lowest is far above the highest.
                let place = key.into().wrapping_sub(*low) as u64;
                let word = words.get((place / 64) as usize);
                word.is_some_and(|word| word >> (place % 64) & 1 != 0)
            }
            Self::Bloom(filter) => filter.may_have(key),
        }
    }

    /// Whether keys that are not there never pass.
    pub fn is_exact(&self) -> bool {
        matches!(self, Self::Bits { .. })
    }
}

/// Keys as numbers, of which members are made.
struct Gathered {
    keys: Vec<Keys>,
    rows: usize,
    bounds: Option<(i64, i64)>,
}

impl Gathered {
    fn of<'a>(packing: &Packing, sides: impl Iterator<Item = &'a [ArrayRef]>) -> Result<Self> {
        let keys: Vec<Keys> = sides
            .map(|columns| packing.keys(columns))
            .collect::<Result<_>>()?;
        let bounds = keys.iter().filter_map(Keys::bounds);
        Ok(Self {
            bounds: bounds.reduce(|(low, high), (a, b)| (low.min(a), high.max(b))),
            rows: keys.iter().map(Keys::len).sum(),
            keys,
        })
    }

    async fn put_into(self, room: Room, memory: &MemoryReservation) -> Result<Option<Members>> {
        if memory.try_grow(room.bytes()).is_err() {
            return Ok(None);
        }
        let mut members = room.empty();
        for keys in &self.keys {
            for first in (0..keys.len()).step_by(STEP_ROWS) {
                let step = first..keys.len().min(first + STEP_ROWS);
                with_values!(keys, |values, valid| members.add(values, valid, step));
                tokio::task::yield_now().await;
            }
        }
        Ok(Some(members))
    }
}

/// What members take.
enum Room {
    Bits { low: i64, words: usize },
    Bloom { keys: usize },
}

impl Room {
    fn of(bounds: Option<(i64, i64)>, rows: usize) -> Self {
        let (low, high) = bounds.unwrap_or((0, 0));
        let numbers = high.abs_diff(low).saturating_add(1);
        let bits_max = BITS_MAX_PER_KEY.saturating_mul(rows as u64);
        match numbers <= bits_max.clamp(BITS_ALWAYS, BITS_MAX) {
            true => Self::Bits {
                low,
                words: numbers.div_ceil(64) as usize,
            },
            false => Self::Bloom {
                keys: BLOOM_ROOM * rows,
            },
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Bits { words, .. } => words * size_of::<u64>(),
            Self::Bloom { keys } => *keys,
        }
    }

    fn empty(&self) -> Members {
        // Near, wherever the table is: scans ask for each row.
        let _near = ThreadTier::enter(TierId::NEAR);
        match *self {
            Self::Bits { low, words } => Members::Bits {
                low,
                words: vec![0; words],
            },
            Self::Bloom { keys } => Members::Bloom(BloomFilter::with_room(keys)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
    use std::sync::Arc;

    async fn of(keys: Vec<Option<i64>>) -> Members {
        let column: [ArrayRef; 1] = [Arc::new(Int64Array::from(keys))];
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let memory = MemoryConsumer::new("test").register(&pool);
        let members = Members::of(&Packing::ONE, [&column[..]].into_iter(), &memory).await;
        members.expect("keys").expect("room")
    }

    #[tokio::test]
    async fn keys_that_are_close_together_are_told_exactly() {
        let members = of(vec![Some(-3), None, Some(500), Some(64)]).await;
        assert!(members.is_exact());
        for key in -1000..1000_i64 {
            assert_eq!(members.may_have(key), [-3, 64, 500].contains(&key), "{key}");
        }
        for key in [i64::MIN, i64::MAX] {
            assert!(!members.may_have(key));
        }
        assert!(!of(vec![None]).await.may_have(1_i64));
    }

    #[tokio::test]
    async fn keys_that_are_far_apart_all_pass() {
        let keys = [i64::MIN, -1, 7, i64::MAX];
        let members = of(keys.map(Some).to_vec()).await;
        assert!(!members.is_exact());
        assert!(keys.iter().all(|key| members.may_have(*key)));
    }
}
