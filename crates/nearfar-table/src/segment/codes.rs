//! Unsigned codes of 1, 2, 4 or 8 bytes, and ranges of them.

use arrow::buffer::{Buffer, ScalarBuffer};

/// An unsigned integer that a column's values can be stored as.
pub trait Code: arrow::datatypes::ArrowNativeType + nearfar_kernels::Lane {
    /// The code as the widest type.
    fn widen(self) -> u64;
    /// The low bits of `wide`, which its caller has checked to fit.
    fn truncate(wide: u64) -> Self;
}

macro_rules! impl_code {
    ($($t:ty),*) => {$(
        impl Code for $t {
            #[inline(always)]
            fn widen(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn truncate(wide: u64) -> Self {
                wide as Self
            }
        }
    )*};
}
impl_code!(u8, u16, u32, u64);

/// One code per row, in a region.
#[derive(Debug, Clone)]
pub enum Codes {
    /// Codes below 2^8.
    U8(ScalarBuffer<u8>),
    /// Codes below 2^16.
    U16(ScalarBuffer<u16>),
    /// Codes below 2^32.
    U32(ScalarBuffer<u32>),
    /// All other codes.
    U64(ScalarBuffer<u64>),
}

/// Runs `$body` with `$codes` bound to the typed codes.
#[macro_export]
macro_rules! with_codes {
    ($value:expr, $codes:ident => $body:expr) => {
        match $value {
            $crate::segment::Codes::U8($codes) => $body,
            $crate::segment::Codes::U16($codes) => $body,
            $crate::segment::Codes::U32($codes) => $body,
            $crate::segment::Codes::U64($codes) => $body,
        }
    };
}
pub use with_codes;

impl Codes {
    /// Bytes of the narrowest code that holds `largest`.
    pub fn width_bytes(largest: u64) -> usize {
        match largest {
            0..=0xFF => 1,
            0x100..=0xFFFF => 2,
            0x1_0000..=0xFFFF_FFFF => 4,
            _ => 8,
        }
    }

    /// Codes of `width_bytes` over `buffer`, whose length is a multiple of it.
    pub fn from_buffer(buffer: Buffer, width_bytes: usize) -> Self {
        match width_bytes {
            1 => Self::U8(buffer.into()),
            2 => Self::U16(buffer.into()),
            4 => Self::U32(buffer.into()),
            _ => Self::U64(buffer.into()),
        }
    }

    /// Bytes per code.
    pub fn code_bytes(&self) -> usize {
        match self {
            Self::U8(_) => 1,
            Self::U16(_) => 2,
            Self::U32(_) => 4,
            Self::U64(_) => 8,
        }
    }

    /// Number of codes.
    pub fn len(&self) -> usize {
        with_codes!(self, codes => codes.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The code of `row`.
    pub fn get(&self, row: usize) -> u64 {
        with_codes!(self, codes => codes[row].widen())
    }

    /// The bytes the codes lie in.
    pub fn buffer(&self) -> &Buffer {
        with_codes!(self, codes => codes.inner())
    }
}

/// A range of codes, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeRange {
    /// The smallest code in it.
    pub low: u64,
    /// The largest code in it.
    pub high: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_the_narrowest() {
        for (largest, width) in [
            (0, 1),
            (255, 1),
            (256, 2),
            (65_535, 2),
            (65_536, 4),
            (1 << 32, 8),
        ] {
            assert_eq!(Codes::width_bytes(largest), width);
        }
    }
}
