//! Where things lie in a node.
//!
//! ```text
//! word 0      2           2 + samples                  words - capacity            words
//! | header    | samples   | slots: values or children  | keys                      |
//! ```
//!
//! Keys are searched in two steps: keys are cut into groups of a cache line, and the first key of
//! every group but the first is repeated beside the header, as a *sample*. So a search touches the
//! first line or two of the node and the line of one group, whatever the node's size. Keys come
//! last so that groups begin where lines do; the first group takes what is left over.

/// Keys of a group: as many as fit a cache line.
pub(super) const GROUP_KEYS: usize = 8;

/// Words of the header.
pub(super) const HEADER_WORDS: usize = 2;

/// Bytes of a word, be it a key, a sample, a value or a child.
pub(super) const WORD_BYTES: usize = 8;

/// The smallest and the largest node, in bytes.
pub(super) const NODE_BYTES_MIN: usize = 256;
pub(super) const NODE_BYTES_MAX: usize = 4096;

/// The layout that all nodes of a tree share. What every step of a descent asks for is worked out
/// once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry {
    words: usize,
    samples: usize,
    capacity: usize,
    inner_capacity: usize,
    first_key_word: usize,
    /// Keys that the first group lacks to be whole.
    lacking_keys: usize,
}

impl Geometry {
    /// The layout of nodes of so many bytes, which is a power of two from [`NODE_BYTES_MIN`] to
    /// [`NODE_BYTES_MAX`].
    pub(super) const fn new(bytes: usize) -> Self {
        let words = bytes / WORD_BYTES;
        let mut samples = 0;
        loop {
            let capacity = (words - HEADER_WORDS - samples) / 2;
            if capacity.div_ceil(GROUP_KEYS) <= samples + 1 {
                return Self::with(words, samples, capacity);
            }
            samples += 1;
        }
    }

    const fn with(words: usize, samples: usize, capacity: usize) -> Self {
        let first_key_word = words - capacity;
        // An inner node has one child more than keys.
        let slots = first_key_word - HEADER_WORDS - samples;
        Self {
            words,
            samples,
            capacity,
            inner_capacity: if slots > capacity {
                capacity
            } else {
                slots - 1
            },
            first_key_word,
            // Groups end with the node, so the last `samples` of them are whole.
            lacking_keys: (samples + 1) * GROUP_KEYS - capacity,
        }
    }

    /// Bytes of a node.
    #[inline(always)]
    pub(super) const fn bytes(&self) -> usize {
        self.words * WORD_BYTES
    }

    /// Samples of a node.
    #[inline(always)]
    pub(super) const fn samples(&self) -> usize {
        self.samples
    }

    /// Keys that a leaf takes.
    #[inline(always)]
    pub(super) const fn leaf_capacity(&self) -> usize {
        self.capacity
    }

    /// Keys that an inner node takes: it has one child more than keys.
    #[inline(always)]
    pub(super) const fn inner_capacity(&self) -> usize {
        self.inner_capacity
    }

    /// Keys that a node of this height takes.
    #[inline(always)]
    pub(super) const fn capacity(&self, height: u8) -> usize {
        if height == 0 {
            self.leaf_capacity()
        } else {
            self.inner_capacity()
        }
    }

    /// The word of the first value or child.
    #[inline(always)]
    pub(super) const fn first_slot_word(&self) -> usize {
        HEADER_WORDS + self.samples
    }

    /// The word of the first key.
    #[inline(always)]
    pub(super) const fn first_key_word(&self) -> usize {
        self.first_key_word
    }

    /// The index of a group's first key.
    #[inline(always)]
    pub(super) const fn group_start(&self, group: usize) -> usize {
        (group * GROUP_KEYS).saturating_sub(self.lacking_keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_hold_what_fits_them_and_groups_begin_with_lines() {
        for (bytes, capacity) in [(256, 14), (512, 29), (1024, 59), (2048, 120), (4096, 240)] {
            let geometry = Geometry::new(bytes);
            assert_eq!(geometry.bytes(), bytes);
            assert_eq!(geometry.leaf_capacity(), capacity);
            let slots = geometry.first_key_word() - geometry.first_slot_word();
            assert!(slots >= capacity && slots > geometry.inner_capacity());
            assert_eq!(geometry.group_start(0), 0);
            for group in 1..=geometry.samples() {
                let start = geometry.group_start(group);
                assert!((geometry.first_key_word() + start).is_multiple_of(8));
                assert_eq!(start + (geometry.samples() + 1 - group) * 8, capacity);
            }
        }
    }
}
