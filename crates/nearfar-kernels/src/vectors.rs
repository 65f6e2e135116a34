//! One body of code for every instruction set.
//!
//! A [`Kernel`]'s body is inlined into a function for each instruction set, where the compiler makes
//! vectors of its loops; what it would not find is in [`Vectors`].
#![allow(unsafe_code)]

use crate::isa::Isa;
use crate::line::{LINE_KEYS, Line};

/// What bodies ask of an instruction set.
pub(crate) trait Vectors {
    /// A bit for each key of `line` that is `key`, whether its place is taken or not.
    fn equal_keys(line: &Line, key: u64) -> u32;
}

/// A body that is compiled for every instruction set. `run` has to be inlined always.
pub(crate) trait Kernel {
    /// What it gives.
    type Output;

    /// The body.
    fn run<V: Vectors>(self) -> Self::Output;
}

/// Runs the body with the instructions of `isa`, which the machine has.
#[inline]
pub(crate) fn run<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    match isa {
        // SAFETY: an `Isa` of a kernel was found on this machine.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { run_avx512(kernel) },
        // SAFETY: an `Isa` of a kernel was found on this machine.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { run_avx2(kernel) },
        _ => kernel.run::<Portable>(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2,popcnt")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<x86::Avx512>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<x86::Avx2>()
}

/// No vector intrinsics.
struct Portable;

impl Vectors for Portable {
    #[inline(always)]
    fn equal_keys(line: &Line, key: u64) -> u32 {
        let mut mask = 0;
        for index in 0..LINE_KEYS {
            mask |= u32::from(line.keys[index] == key) << index;
        }
        mask
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_loadu_si256, _mm256_movemask_pd,
        _mm256_set1_epi64x, _mm512_cmpeq_epi64_mask, _mm512_load_si512, _mm512_set1_epi64,
    };

    use super::Vectors;
    use crate::line::{LINE_KEYS, Line};

    /// Only made in functions that have AVX-512.
    pub(super) struct Avx512;

    impl Vectors for Avx512 {
        #[inline(always)]
        fn equal_keys(line: &Line, key: u64) -> u32 {
            // SAFETY: `run_avx512` alone names this type, on machines with AVX-512.
            unsafe { equal_avx512(line, key) }
        }
    }

    /// Only made in functions that have AVX2.
    pub(super) struct Avx2;

    impl Vectors for Avx2 {
        #[inline(always)]
        fn equal_keys(line: &Line, key: u64) -> u32 {
            // SAFETY: `run_avx2` alone names this type, on machines with AVX2.
            unsafe { equal_avx2(line, key) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn equal_avx512(line: &Line, key: u64) -> u32 {
        // SAFETY: a line is 64 readable bytes at a multiple of 64.
        let words = unsafe { _mm512_load_si512(std::ptr::from_ref(line).cast()) };
        let mask = _mm512_cmpeq_epi64_mask(words, _mm512_set1_epi64(key.cast_signed()));
        u32::from(mask) & ((1 << LINE_KEYS) - 1)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn equal_avx2(line: &Line, key: u64) -> u32 {
        // SAFETY: the first four keys are 32 readable bytes; the load needs no alignment.
        let keys = unsafe { _mm256_loadu_si256(line.keys.as_ptr().cast()) };
        let equal = _mm256_cmpeq_epi64(keys, _mm256_set1_epi64x(key.cast_signed()));
        let mask = _mm256_movemask_pd(_mm256_castsi256_pd(equal)).cast_unsigned();
        mask | u32::from(line.keys[4] == key) << 4
    }
}

/// Streams that a column is read in at the same time: a core's prefetchers follow each, and so many lines of one set of
/// the first-level cache and those asked for ahead fit in it.
const STREAMS: usize = 4;

/// Bytes of a stream: a page of 4 KiB, at whose end prefetchers stop.
const STREAM_BYTES: usize = 4 << 10;

/// Gives `take` every block of a column once, with its number. The blocks of four pages of 4 KiB take turns, and what
/// has the same place in the next four is asked for with each, so that a core has more lines under way than a loop in
/// order would have. What lies behind the end of a column is asked for too: mostly its next rows.
#[inline(always)]
pub(crate) fn in_streams<T, const N: usize>(
    blocks: &[[T; N]],
    mut take: impl FnMut(usize, &[T; N]),
) {
    const { assert!(STREAM_BYTES.is_multiple_of(size_of::<[T; N]>())) };
    let blocks_of_stream = STREAM_BYTES / size_of::<[T; N]>();
    let blocks_of_group = blocks_of_stream * STREAMS;
    let grouped = blocks.len() - blocks.len() % blocks_of_group;
    for group in (0..grouped).step_by(blocks_of_group) {
        for step in 0..blocks_of_stream {
            for stream in 0..STREAMS {
                let index = group + stream * blocks_of_stream + step;
                prefetch_ahead(&blocks[index]);
                take(index, &blocks[index]);
            }
        }
    }
    for (index, block) in blocks.iter().enumerate().skip(grouped) {
        prefetch_ahead(block);
        take(index, block);
    }
}

/// Asks for the lines as far behind `block` as all streams are long together.
#[inline(always)]
fn prefetch_ahead<T, const N: usize>(block: &[T; N]) {
    let ahead = block.as_ptr().cast::<u8>();
    let ahead = ahead.wrapping_add(STREAMS * STREAM_BYTES);
    for line in 0..size_of::<[T; N]>() / size_of::<Line>() {
        prefetch(ahead.wrapping_add(line * size_of::<Line>()));
    }
}

/// Asks for the line of `word` in the first-level cache. Any address is fine.
#[inline(always)]
pub(crate) fn prefetch<T>(word: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch of any address changes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(word.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        // SAFETY: a prefetch of any address changes nothing that Rust can see.
        unsafe {
            std::arch::asm!(
                "prfm pldl1keep, [{word}]",
                word = in(reg) word.cast::<u8>(),
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = word;
}
