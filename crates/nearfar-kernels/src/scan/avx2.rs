//! The variant for AVX2.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, _mm_loadl_epi64, _mm256_add_epi32, _mm256_castsi256_ps, _mm256_cmpgt_epi32,
    _mm256_cvtepu8_epi32, _mm256_loadu_si256, _mm256_movemask_ps, _mm256_set1_epi32,
    _mm256_storeu_si256, _mm256_xor_si256,
};

use super::portable;

/// Values of a vector.
pub(super) const LANES: usize = 8;

/// Vectors that are compared before the first match is looked for.
const GROUP: usize = 8;

/// For each mask of eight lanes, the indices of its set lanes, without gaps, then zeros.
static LANES_OF_MASK: [[u8; LANES]; 1 << LANES] = lanes_of_mask();

const fn lanes_of_mask() -> [[u8; LANES]; 1 << LANES] {
    let mut table = [[0; LANES]; 1 << LANES];
    let mut mask = 0;
    while mask < table.len() {
        let (mut lane, mut count) = (0, 0);
        while lane < LANES {
            if mask >> lane & 1 == 1 {
                table[mask][count] = lane as u8;
                count += 1;
            }
            lane += 1;
        }
        mask += 1;
    }
    table
}

/// Writes the positions of the values of `block` below `bound` to the front of `out`, which is as
/// long as `block` at least; returns their number. The first value has position `first`.
#[target_feature(enable = "avx2")]
pub(super) fn filter(block: &[u32], bound: u32, first: u32, out: &mut [u32]) -> usize {
    assert!(out.len() >= block.len());
    // Signed comparison orders unsigned values once their top bits are flipped.
    let flip = _mm256_set1_epi32(i32::MIN);
    let bounds = _mm256_xor_si256(_mm256_set1_epi32(bound.cast_signed()), flip);
    let (groups, rest) = block.as_chunks::<{ LANES * GROUP }>();
    let mut count = 0;
    let mut position = first;
    for group in groups {
        let mut mask = 0_u64;
        for (index, vector) in group.as_chunks::<LANES>().0.iter().enumerate() {
            // SAFETY: `vector` is 32 readable bytes; the load needs no alignment.
            let values = unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) };
            let below = _mm256_cmpgt_epi32(bounds, _mm256_xor_si256(values, flip));
            let bits = _mm256_movemask_ps(_mm256_castsi256_ps(below)).cast_unsigned();
            mask |= u64::from(bits) << (index * LANES);
        }
        if mask != 0 {
            for (index, bits) in mask.to_le_bytes().into_iter().enumerate() {
                let base = position.wrapping_add((index * LANES) as u32);
                // SAFETY: at most as many matches as values came before this vector, so a whole
                // vector from `count` on ends where this vector ends in `block`, and `out` is as
                // long as `block`.
                unsafe { store(out.as_mut_ptr().add(count), bits, base) };
                count += bits.count_ones() as usize;
            }
        }
        position = position.wrapping_add((LANES * GROUP) as u32);
    }
    count + portable::filter(rest, bound, position, &mut out[count..])
}

/// Stores the positions of the lanes in `bits`, without gaps, and unspecified lanes behind them.
///
/// # Safety
/// `out` is valid for writes of 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store(out: *mut u32, bits: u8, first: u32) {
    let lanes: &[u8; LANES] = &LANES_OF_MASK[usize::from(bits)];
    // SAFETY: `lanes` is the 8 bytes that are read.
    let lanes: __m256i = _mm256_cvtepu8_epi32(unsafe { _mm_loadl_epi64(lanes.as_ptr().cast()) });
    let positions = _mm256_add_epi32(lanes, _mm256_set1_epi32(first.cast_signed()));
    // SAFETY: the caller's.
    unsafe { _mm256_storeu_si256(out.cast(), positions) };
}
