//! Values that maps under test keep.

use std::hint::black_box;

use nearfar_index::{BlockValue, TreeValue};

/// Bytes of a value that is a word.
pub const WORD_BYTES: usize = 8;

/// A value as a map keeps it, made of the word that requests carry and answers are compared by.
pub trait TestValue: Clone + Send + Sync + 'static {
    /// A value of so many bytes, at least a word's.
    fn of(word: u64, bytes: usize) -> Self;

    /// The word again, after all of the value is read.
    fn word(&self) -> u64;
}

/// A value that our trees keep.
pub trait OwnValue: TestValue + TreeValue {}

impl<V: TestValue + TreeValue> OwnValue for V {}

impl TestValue for u64 {
    #[inline(always)]
    fn of(word: u64, _bytes: usize) -> Self {
        word
    }

    #[inline(always)]
    fn word(&self) -> u64 {
        *self
    }
}

/// The word and what follows from it.
fn fill(word: u64, bytes: usize) -> Vec<u8> {
    let mut filled = Vec::with_capacity(bytes.next_multiple_of(WORD_BYTES));
    while filled.len() < bytes {
        filled.extend_from_slice(&word.to_le_bytes());
    }
    filled.truncate(bytes);
    filled
}

fn read(value: &[u8]) -> u64 {
    let (words, _) = value.as_chunks::<WORD_BYTES>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    black_box(words.fold(0_u64, u64::wrapping_add));
    let first = value.first_chunk::<WORD_BYTES>();
    first.map_or(0, |word| u64::from_le_bytes(*word))
}

impl TestValue for Box<[u8]> {
    fn of(word: u64, bytes: usize) -> Self {
        fill(word, bytes).into()
    }

    fn word(&self) -> u64 {
        read(self)
    }
}

impl TestValue for BlockValue {
    /// Of more bytes than a block can have, an empty value, which no map under test is asked for.
    fn of(word: u64, bytes: usize) -> Self {
        Self::new(fill(word, bytes)).unwrap_or_default()
    }

    fn word(&self) -> u64 {
        read(self.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_its_bytes_and_gives_its_word_back() {
        for bytes in [8, 9, 100, 1000] {
            let value = <Box<[u8]>>::of(0x0123_4567_89AB_CDEF, bytes);
            assert_eq!((value.len(), value.word()), (bytes, 0x0123_4567_89AB_CDEF));
            let value = BlockValue::of(7, bytes);
            assert_eq!((value.as_slice().len(), value.word()), (bytes, 7));
        }
    }
}
