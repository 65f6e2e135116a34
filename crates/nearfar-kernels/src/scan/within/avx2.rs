//! The variant for AVX2.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, _mm256_castsi256_pd, _mm256_castsi256_ps, _mm256_cmpeq_epi8, _mm256_cmpeq_epi16,
    _mm256_cmpeq_epi32, _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_min_epu8, _mm256_min_epu16,
    _mm256_min_epu32, _mm256_movemask_epi8, _mm256_movemask_pd, _mm256_movemask_ps,
    _mm256_packs_epi16, _mm256_permute4x64_epi64, _mm256_set1_epi64x, _mm256_sub_epi8,
    _mm256_sub_epi16, _mm256_sub_epi32, _mm256_sub_epi64, _mm256_xor_si256,
};

use super::portable;
use crate::scan::avx2::{LANES, store};
use crate::selection::WORD_BITS;

macro_rules! lane {
    ($lane:ident, $splat:ident, $found:ident) => {
        pub(super) mod $lane {
            use std::arch::x86_64::$splat;

            use super::{super::portable, $found};
            use crate::selection::WORD_BITS;
            use crate::vectors::in_streams;

            /// As [`portable::mark`].
            #[target_feature(enable = "avx2")]
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
                    words[index] = apply(words[index], $found(block, lows, spans));
                });
                portable::mark_rest(rest, low, span, words, apply);
            }
        }
    };
}
lane!(u8, _mm256_set1_epi8, found_u8);
lane!(u16, _mm256_set1_epi16, found_u16);
lane!(u32, _mm256_set1_epi32, found_u32);
lane!(u64, _mm256_set1_epi64x, found_u64);

#[inline]
#[target_feature(enable = "avx2")]
fn load<T, const N: usize>(vector: &[T; N]) -> __m256i {
    const { assert!(size_of::<[T; N]>() == size_of::<__m256i>()) };
    // SAFETY: `vector` is 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn found_u8(block: &[u8; WORD_BITS], lows: __m256i, spans: __m256i) -> u64 {
    let mut found = 0;
    for (index, vector) in block.as_chunks::<32>().0.iter().enumerate() {
        let above = _mm256_sub_epi8(load(vector), lows);
        let within = _mm256_cmpeq_epi8(_mm256_min_epu8(above, spans), above);
        let bits = _mm256_movemask_epi8(within).cast_unsigned();
        found |= u64::from(bits) << (index * 32);
    }
    found
}

#[inline]
#[target_feature(enable = "avx2")]
fn found_u16(block: &[u16; WORD_BITS], lows: __m256i, spans: __m256i) -> u64 {
    let within = |vector: &[u16; 16]| {
        let above = _mm256_sub_epi16(load(vector), lows);
        _mm256_cmpeq_epi16(_mm256_min_epu16(above, spans), above)
    };
    let mut found = 0;
    for (index, pair) in block.as_chunks::<32>().0.iter().enumerate() {
        let [first, second] = pair.as_chunks::<16>().0 else {
            unreachable!("32 values are twice 16")
        };
        // Packing takes turns between the halves of both: the middle quarters change places.
        let packed = _mm256_packs_epi16(within(first), within(second));
        let in_order = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
        let bits = _mm256_movemask_epi8(in_order).cast_unsigned();
        found |= u64::from(bits) << (index * 32);
    }
    found
}

#[inline]
#[target_feature(enable = "avx2")]
fn found_u32(block: &[u32; WORD_BITS], lows: __m256i, spans: __m256i) -> u64 {
    let mut found = 0;
    for (index, vector) in block.as_chunks::<8>().0.iter().enumerate() {
        let above = _mm256_sub_epi32(load(vector), lows);
        let within = _mm256_cmpeq_epi32(_mm256_min_epu32(above, spans), above);
        let bits = _mm256_movemask_ps(_mm256_castsi256_ps(within)).cast_unsigned();
        found |= u64::from(bits) << (index * 8);
    }
    found
}

#[inline]
#[target_feature(enable = "avx2")]
fn found_u64(block: &[u64; WORD_BITS], lows: __m256i, spans: __m256i) -> u64 {
    // Signed comparison orders unsigned values once their top bits are flipped.
    let flip = _mm256_set1_epi64x(i64::MIN);
    let spans = _mm256_xor_si256(spans, flip);
    let mut beyond = 0;
    for (index, vector) in block.as_chunks::<4>().0.iter().enumerate() {
        let above = _mm256_xor_si256(_mm256_sub_epi64(load(vector), lows), flip);
        let beyond_span = _mm256_cmpgt_epi64(above, spans);
        let bits = _mm256_movemask_pd(_mm256_castsi256_pd(beyond_span)).cast_unsigned();
        beyond |= u64::from(bits) << (index * 4);
    }
    !beyond
}

/// As [`portable::count`].
#[target_feature(enable = "avx2")]
pub(super) fn count(words: &[u64]) -> usize {
    portable::count(words)
}

/// As [`portable::positions`]; `out` has room for as many positions as there are bits.
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn positions(words: &[u64], first: u32, out: &mut [u32]) -> usize {
    assert!(out.len() >= words.len() * WORD_BITS);
    let mut count = 0;
    let mut position = first;
    for word in words {
        if *word != 0 {
            for (index, bits) in word.to_le_bytes().into_iter().enumerate() {
                let base = position.wrapping_add((index * LANES) as u32);
                // SAFETY: at most as many bits were set as came before these 8, so a whole vector
                // from `count` on ends where these 8 end, and `out` is as long as there are bits.
                unsafe { store(out.as_mut_ptr().add(count), bits, base) };
                count += bits.count_ones() as usize;
            }
        }
        position = position.wrapping_add(WORD_BITS as u32);
    }
    count
}
