//! The cache lines that hash tables are made of, and bytes of regions as such.
#![allow(unsafe_code)]

/// Keys of a line.
pub(crate) const LINE_KEYS: usize = 5;

/// Keys of a line on average: with more, lookups often go on to the next line.
const LINE_KEYS_MEAN: usize = 3;

/// A mark of [`Line::state`]: keys that belong here are in the lines behind it.
pub(crate) const OVERFLOWS: u32 = 1 << 8;

/// A cache line of a hash table: up to five keys and what each stands for.
///
/// ```text
///   0        8       16       24       32       40   44   48   52   56   60
///   | key 0  | key 1  | key 2  | key 3  | key 4  |row0|row1|row2|row3|row4|state|
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line {
    pub(crate) keys: [u64; LINE_KEYS],
    pub(crate) rows: [u32; LINE_KEYS],
    /// A bit for each key that is taken, the lowest ones first, and [`OVERFLOWS`].
    pub(crate) state: u32,
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    /// Lines that a table of so many different keys needs.
    pub const fn count_for(keys: usize) -> usize {
        keys.div_ceil(LINE_KEYS_MEAN) + 1
    }

    #[inline(always)]
    pub(crate) fn taken(&self) -> usize {
        self.state.trailing_ones() as usize
    }

    /// The row of the first key in `mask`, which is not empty.
    #[inline(always)]
    pub(crate) fn row_of(&self, mask: u32) -> u32 {
        self.rows[(mask.trailing_zeros() as usize).min(LINE_KEYS - 1)]
    }

    #[inline(always)]
    pub(crate) fn overflows(&self) -> bool {
        self.state & OVERFLOWS != 0
    }
}

/// Bytes that are no whole number of aligned cache lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{bytes} bytes, {misaligned_bytes} bytes past a multiple of 64, are no cache lines: begin at a \
     multiple of 64 and take a multiple of 64"
)]
pub struct NotLines {
    /// Length of the slice.
    pub bytes: usize,
    /// Its address modulo 64.
    pub misaligned_bytes: usize,
}

/// The bytes of a region as lines of a hash table.
///
/// # Errors
/// [`NotLines`] where the address or the length is no multiple of 64.
pub fn lines_mut(bytes: &mut [u8]) -> Result<&mut [Line], NotLines> {
    let error = NotLines {
        bytes: bytes.len(),
        misaligned_bytes: bytes.as_ptr().addr() % size_of::<Line>(),
    };
    // SAFETY: a line is 64 bytes of integers without padding, for which every bit pattern is valid;
    // `align_to_mut` upholds alignment and bounds.
    let (before, lines, after) = unsafe { bytes.align_to_mut::<Line>() };
    if before.is_empty() && after.is_empty() {
        Ok(lines)
    } else {
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_pass() {
        let mut lines = [Line::default(); 2];
        // SAFETY: the bytes of initialised integers.
        let bytes = unsafe { lines.align_to_mut::<u8>().1 };
        assert_eq!(lines_mut(bytes).unwrap().len(), 2);
        assert_eq!(lines_mut(&mut bytes[..64]).unwrap().len(), 1);
        let error = lines_mut(&mut bytes[4..68]).unwrap_err();
        assert_eq!((error.bytes, error.misaligned_bytes), (64, 4));
        assert!(lines_mut(&mut bytes[..63]).is_err());
    }
}
