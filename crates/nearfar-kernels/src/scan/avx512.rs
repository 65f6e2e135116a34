//! The variant for AVX-512.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, __mmask16, _mm512_add_epi32, _mm512_cmplt_epu32_mask, _mm512_loadu_si512,
    _mm512_mask_cmplt_epu32_mask, _mm512_mask_storeu_epi32, _mm512_maskz_compress_epi32,
    _mm512_maskz_loadu_epi32, _mm512_set1_epi32, _mm512_setr_epi32, _mm512_storeu_si512,
};

/// Values of a vector.
pub(super) const LANES: usize = 16;

/// Vectors that are compared before the first match is looked for.
const GROUP: usize = 4;

/// Writes the positions of the values of `block` below `bound` to the front of `out`, which is as
/// long as `block` at least; returns their number. The first value has position `first`.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn filter(block: &[u32], bound: u32, first: u32, out: &mut [u32]) -> usize {
    assert!(out.len() >= block.len());
    let bounds = _mm512_set1_epi32(bound.cast_signed());
    let step = _mm512_set1_epi32(LANES as i32);
    let mut positions = _mm512_add_epi32(
        _mm512_set1_epi32(first.cast_signed()),
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    );
    let group_step = _mm512_set1_epi32((LANES * GROUP) as i32);
    let (groups, rest) = block.as_chunks::<{ LANES * GROUP }>();
    let mut count = 0;
    for group in groups {
        let mut masks: [__mmask16; GROUP] = [0; GROUP];
        for (mask, vector) in masks.iter_mut().zip(group.as_chunks::<LANES>().0) {
            // SAFETY: `vector` is 64 readable bytes; the load needs no alignment.
            let values = unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) };
            *mask = _mm512_cmplt_epu32_mask(values, bounds);
        }
        if masks != [0; GROUP] {
            let mut of_vector = positions;
            for mask in masks {
                // SAFETY: at most as many matches as values came before this vector, so a whole
                // vector from `count` on ends where this vector ends in `block`, and `out` is as
                // long as `block`.
                unsafe { store(out.as_mut_ptr().add(count), mask, of_vector) };
                count += mask.count_ones() as usize;
                of_vector = _mm512_add_epi32(of_vector, step);
            }
        }
        positions = _mm512_add_epi32(positions, group_step);
    }
    for values in rest.chunks(LANES) {
        let lanes = (u32::from(u16::MAX) >> (LANES - values.len())) as __mmask16;
        // SAFETY: only the lanes of `values` are read.
        let vector = unsafe { _mm512_maskz_loadu_epi32(lanes, values.as_ptr().cast()) };
        let mask = _mm512_mask_cmplt_epu32_mask(lanes, vector, bounds);
        let matching = _mm512_maskz_compress_epi32(mask, positions);
        // SAFETY: as above; of the vector, only as many lanes are written as there are values.
        unsafe { _mm512_mask_storeu_epi32(out.as_mut_ptr().add(count).cast(), lanes, matching) };
        count += mask.count_ones() as usize;
        positions = _mm512_add_epi32(positions, step);
    }
    count
}

/// Stores the lanes of `positions` in `mask`, without gaps, and unspecified lanes behind them. The
/// compression goes through a register: into memory it is microcode on some processors.
///
/// # Safety
/// `out` is valid for writes of 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn store(out: *mut u32, mask: __mmask16, positions: __m512i) {
    let matching = _mm512_maskz_compress_epi32(mask, positions);
    // SAFETY: the caller's.
    unsafe { _mm512_storeu_si512(out.cast(), matching) };
}
