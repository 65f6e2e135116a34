//! What rows are joined and grouped by.

/// A key of joins and groups: 64 bits that are equal where keys are.
///
/// Floating-point keys are equal as SQL has it: zeros of both signs are one key, and so are all NaNs.
/// A key of several columns is one of their hash, which the caller checks, or of their codes in one
/// number.
pub trait Key: Copy {
    /// The bits.
    fn bits(self) -> u64;
}

macro_rules! keys {
    ($($integer:ident),*) => {$(
        impl Key for $integer {
            #[inline(always)]
            fn bits(self) -> u64 {
                self as u64
            }
        }
    )*};
}
keys!(u32, u64, i32, i64);

impl Key for f64 {
    #[inline(always)]
    fn bits(self) -> u64 {
        if self.is_nan() {
            Self::NAN.to_bits()
        } else {
            // The sum of -0 and 0 is 0.
            (self + 0.0).to_bits()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_one_key_and_so_are_nans() {
        assert_eq!((-0.0_f64).bits(), 0.0_f64.bits());
        assert_eq!((-f64::NAN).bits(), f64::NAN.bits());
        assert_eq!(
            f64::from_bits(0x7ff0_0000_0000_0001).bits(),
            f64::NAN.bits()
        );
        assert_ne!(1.0_f64.bits(), (-1.0_f64).bits());
        assert_eq!((-1_i32).bits(), (-1_i64).bits());
    }
}
