//! The integers that columns are of.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// An unsigned integer of 1, 2, 4 or 8 bytes: what a column can be of.
pub trait Lane: Copy + Ord + sealed::Vectors {}

/// A signed integer of 4 or 8 bytes, seen as an unsigned one with the same bits.
pub trait SignedLane: Copy + Ord + sealed::Unsigned {}

pub(super) mod sealed {
    /// The unsigned integer of the same size.
    pub trait Unsigned: Copy {
        /// Its type.
        type Lane: super::Lane;

        /// The same bits.
        fn unsigned(self) -> Self::Lane;

        /// The same bits, value by value.
        fn all_unsigned(column: &[Self]) -> &[Self::Lane];
    }

    /// The loops of one lane's vectors.
    pub trait Vectors: Copy + Ord {
        /// The difference, which wraps around.
        fn minus(self, other: Self) -> Self;

        /// As [`mark`](super::super::portable::mark).
        ///
        /// # Safety
        /// The machine has AVX2.
        #[cfg(target_arch = "x86_64")]
        unsafe fn mark_avx2(
            column: &[Self],
            low: Self,
            span: Self,
            words: &mut [u64],
            apply: impl Fn(u64, u64) -> u64,
        );

        /// As [`mark`](super::super::portable::mark).
        ///
        /// # Safety
        /// The machine has AVX-512 F and BW.
        #[cfg(target_arch = "x86_64")]
        unsafe fn mark_avx512(
            column: &[Self],
            low: Self,
            span: Self,
            words: &mut [u64],
            apply: impl Fn(u64, u64) -> u64,
        );
    }
}

macro_rules! lanes {
    ($($lane:ident),*) => {$(
        impl Lane for $lane {}

        impl sealed::Vectors for $lane {
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn mark_avx2(
                column: &[Self],
                low: Self,
                span: Self,
                words: &mut [u64],
                apply: impl Fn(u64, u64) -> u64,
            ) {
                // SAFETY: the caller's.
                unsafe { avx2::$lane::mark(column, low, span, words, apply) }
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn mark_avx512(
                column: &[Self],
                low: Self,
                span: Self,
                words: &mut [u64],
                apply: impl Fn(u64, u64) -> u64,
            ) {
                // SAFETY: the caller's.
                unsafe { avx512::$lane::mark(column, low, span, words, apply) }
            }
        }
    )*};
}
lanes!(u8, u16, u32, u64);

macro_rules! signed_lanes {
    ($($signed:ident as $lane:ident),*) => {$(
        impl SignedLane for $signed {}

        impl sealed::Unsigned for $signed {
            type Lane = $lane;

            #[inline(always)]
            fn unsigned(self) -> $lane {
                self.cast_unsigned()
            }

            #[inline(always)]
            fn all_unsigned(column: &[Self]) -> &[$lane] {
                // SAFETY: both types have the same size and alignment, and every bit pattern is valid
                // in both.
                unsafe { std::slice::from_raw_parts(column.as_ptr().cast(), column.len()) }
            }
        }
    )*};
}
signed_lanes!(i32 as u32, i64 as u64);
