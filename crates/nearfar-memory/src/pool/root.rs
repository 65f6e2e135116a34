//! Roots: what was published, in two slots of each owner, of which one is always whole.

use super::checksum;
use super::memory::PoolMemory;
use super::ownership::{OWNERS, OwnerRecord};
use crate::sys::SysError;

/// Words of a root, its mark included.
const WORDS: usize = 7;

/// Slots of roots, two of each owner.
const SLOTS: usize = 2 * OWNERS as usize;
/// The first word of the first slot, and words of a slot, which is a page.
pub(super) const FIRST_WORD: usize = 4 * PAGE_WORDS;
const PAGE_WORDS: usize = 512;
/// The first word behind the slots.
pub(super) const END_WORD: usize = FIRST_WORD + SLOTS * PAGE_WORDS;

/// A publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Root {
    /// Counts publications, from one.
    pub(super) generation: u64,
    /// The epoch of the owner that published.
    pub(super) epoch: u64,
    /// Where the catalog lies.
    pub(super) catalog_offset: u64,
    /// Bytes of the catalog.
    pub(super) catalog_bytes: u64,
    /// Checksum of the catalog.
    pub(super) catalog_checksum: u64,
}

impl Root {
    fn words(self) -> [u64; WORDS - 2] {
        [
            self.generation,
            self.epoch,
            self.catalog_offset,
            self.catalog_bytes,
            self.catalog_checksum,
        ]
    }

    fn slot(self) -> usize {
        (self.epoch % OWNERS * 2 + self.generation % 2) as usize
    }

    /// The newest publication that counts: not what a fenced owner published behind the back of the
    /// one after it.
    pub(super) fn newest(pool_id: u128, memory: &PoolMemory) -> Option<Self> {
        let record = OwnerRecord::last(pool_id, memory);
        let counts = |root: &Self| {
            record.as_ref().is_none_or(|record| {
                root.epoch == record.epoch || root.generation <= record.accepted_generation
            })
        };
        let roots = (0..SLOTS).filter_map(|slot| Self::read(slot, pool_id, memory));
        // Of one generation, the later owner's is that which the owners since went on from.
        roots
            .filter(counts)
            .max_by_key(|root| (root.generation, root.epoch))
    }

    /// Writes the root into its slot: the mark is taken away first and set last, and each step is
    /// in memory for good before the next begins.
    pub(super) fn write(self, pool_id: u128, memory: &PoolMemory) -> Result<(), SysError> {
        let first = FIRST_WORD + self.slot() * PAGE_WORDS;
        memory.store(first, &[0]);
        memory.write_back_words(first, 1)?;
        let words = self.words();
        let sum = checksum::of_words(pool_id, &words);
        memory.store(first + 1, &words);
        memory.store(first + WORDS - 1, &[sum]);
        memory.write_back_words(first, WORDS)?;
        memory.store(first, &[mark(sum)]);
        memory.write_back_words(first, 1)
    }

    /// The root in a slot, if there is a whole one.
    fn read(slot: usize, pool_id: u128, memory: &PoolMemory) -> Option<Self> {
        let first = FIRST_WORD + slot * PAGE_WORDS;
        let mut words = [0; WORDS - 2];
        for (index, word) in words.iter_mut().enumerate() {
            *word = memory.load(first + 1 + index);
        }
        let sum = memory.load(first + WORDS - 1);
        let root = Self {
            generation: words[0],
            epoch: words[1],
            catalog_offset: words[2],
            catalog_bytes: words[3],
            catalog_checksum: words[4],
        };
        let is_whole = memory.load(first) == mark(sum)
            && sum == checksum::of_words(pool_id, &words)
            && root.slot() == slot
            && root.generation > 0;
        is_whole.then_some(root)
    }
}

/// The word that makes a root valid. It is never zero, as memory that was never written is.
fn mark(sum: u64) -> u64 {
    sum | 1
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::pool::memory::TEST_BYTES;
    use crate::pool::{Claim, Pool, TakeOver};

    /// The first owner publishes once, is stopped when it is about to publish a second time, and goes
    /// on after `publications` of later owners, given by number for each of them.
    fn wake_up_after(publications: &[usize]) {
        let memory = PoolMemory::simulated(TEST_BYTES);
        let pool = Pool::create_in(memory, Path::new("simulated")).expect("a pool");
        let (id, memory) = (pool.id(), &pool.memory);
        let claim = Claim {
            take_over: TakeOver::Now,
            ..Claim::of_this_process()
        };
        let first = pool.claim(&claim).expect("the first owner");
        first.publish(&[], b"0").expect("published");
        let known = Root::newest(id, memory).expect("a root");
        let late = Root {
            generation: known.generation + 1,
            ..known
        };
        let (mut wanted, mut owners) = (b"0".to_vec(), vec![first]);
        let mut generation = known.generation;
        for count in publications {
            let owner = pool.claim(&claim).expect("a later owner");
            for _ in 0..*count {
                wanted = format!("{} of {}", wanted.len(), owners.len()).into_bytes();
                generation = owner.publish(&[], &wanted).expect("published");
            }
            owners.push(owner);
        }
        late.write(id, memory).expect("written");
        for _ in 0..3 {
            let owner = pool.claim(&claim).expect("the last owner");
            let published = owner.published().expect("something");
            let found = (published.generation, published.catalog.clone());
            assert_eq!(found, (generation, wanted.clone()), "{publications:?}");
            owners.push(owner);
        }
    }

    #[test]
    fn an_owner_that_wakes_up_late_takes_nothing_back() {
        // Under Miri each pool takes seconds.
        let (firsts, seconds) = if cfg!(miri) { (2, 1) } else { (4, 3) };
        for first in 0..firsts {
            wake_up_after(&[first]);
            for second in 0..seconds {
                wake_up_after(&[first, second]);
                wake_up_after(&[first, second, 1, 0, 1]);
            }
        }
    }
}
