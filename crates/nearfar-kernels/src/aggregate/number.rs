//! The integers that are aggregated.

/// An integer of 4 or 8 bytes: what can be aggregated.
pub trait Number: Copy + Ord + sealed::Loops {}

pub(super) mod sealed {
    /// The loops of one integer's vectors.
    pub trait Loops: Copy + Ord {
        /// The value in 128 bits.
        fn wide(self) -> i128;

        /// The sum of a block.
        fn sum(block: &[Self]) -> i128;

        /// The smallest and the largest of a block; `None` of an empty one.
        fn extremes(block: &[Self]) -> Option<(Self, Self)>;
    }
}

macro_rules! numbers {
    ($($number:ident: $sum:ident),*) => {$(
        impl Number for $number {}

        impl sealed::Loops for $number {
            #[inline(always)]
            fn wide(self) -> i128 {
                i128::from(self)
            }

            #[inline(always)]
            fn sum(block: &[Self]) -> i128 {
                $sum(block)
            }

            #[inline(always)]
            fn extremes(block: &[Self]) -> Option<(Self, Self)> {
                let first = *block.first()?;
                // Two loops: the compiler makes vectors of one reduction sooner than of two.
                let min = block.iter().copied().fold(first, Self::min);
                let max = block.iter().copied().fold(first, Self::max);
                Some((min, max))
            }
        }
    )*};
}
numbers!(i32: sum_i32, i64: sum_i64);

/// Sums in 64 bits, which no block overflows.
#[inline(always)]
fn sum_i32(block: &[i32]) -> i128 {
    let add = |sum: i64, value: &i32| sum.wrapping_add(i64::from(*value));
    i128::from(block.iter().fold(0, add))
}

/// Sums both halves of the values apart, moved up so that none is negative: vectors have no 128 bits.
#[inline(always)]
fn sum_i64(block: &[i64]) -> i128 {
    const TOP: u64 = 1 << 63;
    let (mut lows, mut highs) = (0_u64, 0_u64);
    for value in block {
        let moved = value.cast_unsigned() ^ TOP;
        lows = lows.wrapping_add(moved & 0xffff_ffff);
        highs = highs.wrapping_add(moved >> 32);
    }
    let moved_by = (block.len() as i128) << 63;
    (i128::from(highs) << 32) + i128::from(lows) - moved_by
}
