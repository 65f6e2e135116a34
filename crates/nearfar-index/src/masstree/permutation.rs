//! The order of a leaf's entries in one word (mao-2012, section 4.6.2).

use super::leaf::LEAF_WIDTH;

/// Fourteen numbers of slots, the entries in order first and then the free slots, four bits each
/// from the lowest on; above them the number of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permutation(pub(super) u64);

const COUNT_SHIFT: u32 = 4 * LEAF_WIDTH as u32;

const _: () = assert!(COUNT_SHIFT + 4 <= u64::BITS && LEAF_WIDTH < 16);

/// The lowest `positions` positions.
#[inline]
const fn mask(positions: usize) -> u64 {
    (1 << (4 * positions)) - 1
}

impl Permutation {
    /// No entries.
    pub(super) const EMPTY: Self = {
        let mut word = 0;
        let mut slot = 0;
        while slot < LEAF_WIDTH {
            word |= (slot as u64) << (4 * slot);
            slot += 1;
        }
        Self(word)
    };

    /// The number of entries.
    #[inline]
    pub(super) fn count(self) -> usize {
        // A reader may have caught a word of another time, but each was written whole.
        (self.0 >> COUNT_SHIFT) as usize
    }

    /// The slot at a position.
    #[inline]
    pub(super) fn slot(self, position: usize) -> usize {
        ((self.0 >> (4 * position)) & 15) as usize
    }

    /// The slots of the entries, in order.
    #[inline]
    pub(super) fn slots(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.count()).map(move |position| self.slot(position))
    }

    /// Takes the first free slot for an entry at `position`.
    pub(super) fn insert(self, position: usize) -> (Self, usize) {
        let count = self.count();
        let slot = self.slot(count);
        let order = self.0 & mask(LEAF_WIDTH);
        let before = order & mask(position);
        let behind = order & mask(count) & !mask(position);
        let free = order & !mask(count + 1);
        let order = before | ((slot as u64) << (4 * position)) | (behind << 4) | free;
        (Self(order | ((count as u64 + 1) << COUNT_SHIFT)), slot)
    }

    /// Frees the slot at `position`.
    pub(super) fn remove(self, position: usize) -> Self {
        let count = self.count();
        let slot = self.slot(position) as u64;
        let order = self.0 & mask(LEAF_WIDTH);
        let before = order & mask(position);
        let behind = (order & mask(count) & !mask(position + 1)) >> 4;
        let free = order & !mask(count);
        let order = before | behind | (slot << (4 * (count - 1))) | free;
        Self(order | ((count as u64 - 1) << COUNT_SHIFT))
    }

    /// Frees all slots from position `count` on.
    pub(super) fn truncate(self, count: usize) -> Self {
        Self((self.0 & mask(LEAF_WIDTH)) | ((count as u64) << COUNT_SHIFT))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_are_dealt_out_once(steps in proptest::collection::vec((any::<bool>(), 0..14_usize), 0..200)) {
            let mut permutation = Permutation::EMPTY;
            let mut order: Vec<usize> = Vec::new();
            for (is_insert, position) in steps {
                if is_insert && order.len() < LEAF_WIDTH {
                    let position = position.min(order.len());
                    let (next, slot) = permutation.insert(position);
                    prop_assert!(!order.contains(&slot));
                    order.insert(position, slot);
                    permutation = next;
                } else if position < order.len() {
                    order.remove(position);
                    permutation = permutation.remove(position);
                }
                prop_assert_eq!(permutation.slots().collect::<Vec<_>>(), order.clone());
            }
            let half = order.len() / 2;
            prop_assert!(permutation.truncate(half).slots().eq(order[..half].iter().copied()));
        }
    }
}
