//! The integers that are aggregated.
//!
//! Columns are read in parts of 256 bytes, whose loops are plain reductions: the compiler makes vectors of those for
//! every instruction set.

use crate::vectors::in_streams;

/// An integer of 4 or 8 bytes: what can be aggregated.
pub trait Number: Copy + Ord + sealed::Loops {}

/// Bytes of a part.
const PART_BYTES: usize = 256;

pub(super) mod sealed {
    /// The loops of one integer's vectors.
    pub trait Loops: Copy + Ord {
        /// The value in 128 bits.
        fn wide(self) -> i128;

        /// The sum of a column.
        fn sum(column: &[Self]) -> i128;

        /// The sum, the smallest and the largest of a column; `None` of an empty one.
        fn sum_and_extremes(column: &[Self]) -> Option<(i128, Self, Self)>;
    }
}

/// Sums of parts.
trait PartSum<T> {
    /// The sum of no values.
    const ZERO: Self;

    /// Takes a value in.
    fn add(&mut self, value: T);

    /// The sum in 128 bits.
    fn total(self) -> i128;
}

/// A sum of 64 bits, which no part overflows.
#[derive(Clone, Copy)]
struct PartSum32(i64);

impl PartSum<i32> for PartSum32 {
    const ZERO: Self = Self(0);

    #[inline(always)]
    fn add(&mut self, value: i32) {
        self.0 = self.0.wrapping_add(i64::from(value));
    }

    #[inline(always)]
    fn total(self) -> i128 {
        i128::from(self.0)
    }
}

/// A sum of 128 bits in two parts, since vectors have no integers of so many: of the values modulo 2^64, and of their
/// upper halves. The difference is what the lower halves add up to, which 64 bits hold.
#[derive(Clone, Copy)]
struct PartSum64 {
    values: u64,
    highs: i64,
}

impl PartSum<i64> for PartSum64 {
    const ZERO: Self = Self {
        values: 0,
        highs: 0,
    };

    #[inline(always)]
    fn add(&mut self, value: i64) {
        self.values = self.values.wrapping_add(value.cast_unsigned());
        self.highs = self.highs.wrapping_add(value >> 32);
    }

    #[inline(always)]
    fn total(self) -> i128 {
        let lows = self.values.wrapping_sub(self.highs.cast_unsigned() << 32);
        (i128::from(self.highs) << 32) + i128::from(lows)
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
            fn sum(column: &[Self]) -> i128 {
                let of_part = |part: &[Self]| {
                    let mut sum = $sum::ZERO;
                    for value in part {
                        sum.add(*value);
                    }
                    sum.total()
                };
                let (parts, rest) = column.as_chunks::<{ PART_BYTES / size_of::<Self>() }>();
                let mut sum = of_part(rest);
                in_streams(parts, |_, part| sum += of_part(part));
                sum
            }

            #[inline(always)]
            fn sum_and_extremes(column: &[Self]) -> Option<(i128, Self, Self)> {
                let first = *column.first()?;
                let of_part = |part: &[Self]| {
                    let (mut sum, mut min, mut max) = ($sum::ZERO, first, first);
                    for value in part {
                        sum.add(*value);
                        min = min.min(*value);
                        max = max.max(*value);
                    }
                    (sum.total(), min, max)
                };
                let (parts, rest) = column.as_chunks::<{ PART_BYTES / size_of::<Self>() }>();
                let mut all = of_part(rest);
                in_streams(parts, |_, part| {
                    let (sum, min, max) = of_part(part);
                    all = (all.0 + sum, all.1.min(min), all.2.max(max));
                });
                Some(all)
            }
        }
    )*};
}
numbers!(i32: PartSum32, i64: PartSum64);
