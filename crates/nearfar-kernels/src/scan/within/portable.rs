//! The variant without intrinsics.

use super::Lane;
use crate::selection::{WORD_BITS, packed};
use crate::vectors::in_streams;

/// Puts what `apply` makes of each word and the rows found for it in its place. The last word may
/// stand for fewer than 64 values.
#[inline(always)]
pub(super) fn mark<L: Lane>(
    column: &[L],
    low: L,
    span: L,
    words: &mut [u64],
    apply: impl Fn(u64, u64) -> u64,
) {
    let (blocks, rest) = column.as_chunks::<WORD_BITS>();
    in_streams(blocks, |index, block| {
        words[index] = apply(words[index], found(block, low, span));
    });
    mark_rest(rest, low, span, words, apply);
}

/// The last word, where fewer than 64 values are left for it.
#[inline(always)]
pub(super) fn mark_rest<L: Lane>(
    rest: &[L],
    low: L,
    span: L,
    words: &mut [u64],
    apply: impl Fn(u64, u64) -> u64,
) {
    if let (false, Some(word)) = (rest.is_empty(), words.last_mut()) {
        let mut block = [low; WORD_BITS];
        block[..rest.len()].copy_from_slice(rest);
        let lanes = u64::MAX >> (WORD_BITS - rest.len());
        *word = apply(*word, found(&block, low, span) & lanes);
    }
}

/// A bit for each value that is at most `span` above `low`.
#[inline(always)]
fn found<L: Lane>(block: &[L; WORD_BITS], low: L, span: L) -> u64 {
    packed(&block.map(|value| u8::from(value.minus(low) <= span)))
}

/// Number of bits that are set.
#[inline(always)]
pub(super) fn count(words: &[u64]) -> usize {
    let ones = words.iter().map(|word| u64::from(word.count_ones()));
    ones.sum::<u64>() as usize
}

/// Writes the position of each bit that is set to the front of `out`, which has room for all; returns
/// their number. The first bit has position `first`.
pub(super) fn positions(words: &[u64], first: u32, out: &mut [u32]) -> usize {
    let mut count = 0;
    let mut position = first;
    for word in words {
        let mut left = *word;
        while left != 0 {
            out[count] = position.wrapping_add(left.trailing_zeros());
            count += 1;
            left &= left - 1;
        }
        position = position.wrapping_add(WORD_BITS as u32);
    }
    count
}
