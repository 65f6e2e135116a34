//! Memory that may not be had.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed};

use crate::line::Line;

/// Memory that the system does not give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoMemory {
    pub(crate) bytes: usize,
}

/// What is valid where all of its bytes are zeros.
///
/// # Safety
/// All types of this trait are integers, or made of integers without padding.
pub(crate) unsafe trait Zeros {}

// SAFETY: an integer.
unsafe impl Zeros for u32 {}
// SAFETY: an integer.
unsafe impl Zeros for u64 {}
// SAFETY: integers without padding.
unsafe impl Zeros for Line {}

/// So many zeros, such as lines without keys. Where an allocator has fresh pages of the system for them, which are zeros
/// already, none is written.
pub(crate) fn zeros<T: Zeros>(count: usize) -> Result<Vec<T>, NoMemory> {
    let refused = NoMemory {
        bytes: count.saturating_mul(size_of::<T>()),
    };
    let layout = Layout::array::<T>(count).map_err(|_| refused)?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout has a size.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(refused);
    }
    // SAFETY: the global allocator gave it for so many values, of which zeros are valid ones.
    Ok(unsafe { Vec::from_raw_parts(memory.cast(), count, count) })
}

/// Makes room for so many values more.
pub(crate) fn reserve<T>(values: &mut Vec<T>, more: usize) -> Result<(), NoMemory> {
    let reserved = values.try_reserve(more);
    reserved.map_err(|_| NoMemory {
        bytes: more.saturating_mul(size_of::<T>()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_are_default_ones() {
        for count in [0, 1, 5, 10_000] {
            assert_eq!(zeros(count), Ok(vec![Line::default(); count]));
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let bytes = usize::MAX / 8;
        assert_eq!(
            zeros::<u64>(bytes / 8),
            Err(NoMemory {
                bytes: bytes / 8 * 8
            })
        );
        assert_eq!(
            zeros::<Line>(usize::MAX),
            Err(NoMemory { bytes: usize::MAX })
        );
        let mut values = vec![1_u32];
        assert!(reserve(&mut values, usize::MAX / 8).is_err());
        assert_eq!(reserve(&mut values, 100), Ok(()));
        assert!(values.capacity() > 100);
    }
}
