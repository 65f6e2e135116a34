//! The variant for AVX-512.
#![allow(unsafe_code)]

use std::arch::x86_64::{__mmask16, _mm512_add_epi32, _mm512_set1_epi32, _mm512_setr_epi32};

use crate::scan::avx512::{LANES, store};
use crate::selection::WORD_BITS;

macro_rules! lane {
    ($lane:ident, $splat:ident, $sub:ident, $at_most:ident) => {
        pub(super) mod $lane {
            use std::arch::x86_64::{_mm512_loadu_si512, $at_most, $splat, $sub};

            use super::super::portable;
            use crate::selection::WORD_BITS;
            use crate::vectors::in_streams;

            /// Values of a vector.
            const LANES: usize = 64 / size_of::<$lane>();

            /// As [`portable::mark`].
            #[target_feature(enable = "avx512f,avx512bw")]
            pub fn mark(
                column: &[$lane],
                low: $lane,
                span: $lane,
                words: &mut [u64],
                apply: impl Fn(u64, u64) -> u64,
            ) {
                let lows = $splat(low.cast_signed());
                let spans = $splat(span.cast_signed());
                let (blocks, rest) = column.as_chunks::<WORD_BITS>();
                in_streams(blocks, |index, block| {
                    let mut found = 0;
                    for (place, vector) in block.as_chunks::<LANES>().0.iter().enumerate() {
                        // SAFETY: `vector` is 64 readable bytes; the load needs no alignment.
                        let values = unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) };
                        let mask = $at_most($sub(values, lows), spans);
                        found |= u64::from(mask) << (place * LANES);
                    }
                    words[index] = apply(words[index], found);
                });
                portable::mark_rest(rest, low, span, words, apply);
            }
        }
    };
}
lane!(
    u8,
    _mm512_set1_epi8,
    _mm512_sub_epi8,
    _mm512_cmple_epu8_mask
);
lane!(
    u16,
    _mm512_set1_epi16,
    _mm512_sub_epi16,
    _mm512_cmple_epu16_mask
);
lane!(
    u32,
    _mm512_set1_epi32,
    _mm512_sub_epi32,
    _mm512_cmple_epu32_mask
);
lane!(
    u64,
    _mm512_set1_epi64,
    _mm512_sub_epi64,
    _mm512_cmple_epu64_mask
);

/// As [`portable::positions`](super::portable::positions); `out` has room for as many positions as
/// there are bits.
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
pub(super) fn positions(words: &[u64], first: u32, out: &mut [u32]) -> usize {
    assert!(out.len() >= words.len() * WORD_BITS);
    let step = _mm512_set1_epi32(LANES as i32);
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let mut count = 0;
    let mut position = first;
    for word in words {
        if *word != 0 {
            let mut of_vector = _mm512_add_epi32(_mm512_set1_epi32(position.cast_signed()), lanes);
            for bits in word.to_le_bytes().as_chunks::<2>().0 {
                let mask: __mmask16 = u16::from_le_bytes(*bits);
                // SAFETY: at most as many bits were set as came before these 16, so a whole vector
                // from `count` on ends where these 16 end, and `out` is as long as there are bits.
                unsafe { store(out.as_mut_ptr().add(count), mask, of_vector) };
                count += mask.count_ones() as usize;
                of_vector = _mm512_add_epi32(of_vector, step);
            }
        }
        position = position.wrapping_add(WORD_BITS as u32);
    }
    count
}
