//! Bytes of regions as integers.
#![allow(unsafe_code)]

/// Bytes that are no whole number of aligned words of 4 or 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{bytes} bytes, {misaligned_bytes} bytes past a multiple of {word_bytes}, are no column of {word_bytes}-byte \
     integers: begin at a multiple of {word_bytes} and take a multiple of {word_bytes}"
)]
pub struct NotWords {
    /// Length of the slice.
    pub bytes: usize,
    /// Its address modulo the bytes of a word.
    pub misaligned_bytes: usize,
    /// Bytes of a word.
    pub word_bytes: usize,
}

/// `bytes` as unsigned 4-byte integers in the machine's byte order.
///
/// # Errors
/// [`NotWords`] where the address or the length is no multiple of 4.
///
/// ```
/// let region = vec![0_u32; 4];
/// let bytes: Vec<u8> = vec![0; 16];
/// if let Ok(column) = nearfar_kernels::words(&bytes) {
///     assert_eq!(column, region);
/// }
/// ```
pub fn words(bytes: &[u8]) -> Result<&[u32], NotWords> {
    // SAFETY: every bit pattern is a `u32`, and `align_to` upholds alignment and bounds.
    let (before, words, after) = unsafe { bytes.align_to::<u32>() };
    if before.is_empty() && after.is_empty() {
        Ok(words)
    } else {
        Err(not_words::<u32>(bytes))
    }
}

/// `bytes` as unsigned 4-byte integers in the machine's byte order, to be written.
///
/// # Errors
/// [`NotWords`] where the address or the length is no multiple of 4.
pub fn words_mut(bytes: &mut [u8]) -> Result<&mut [u32], NotWords> {
    let error = not_words::<u32>(bytes);
    // SAFETY: every bit pattern is a `u32` and every `u32` is four bytes; `align_to_mut` upholds
    // alignment and bounds.
    let (before, words, after) = unsafe { bytes.align_to_mut::<u32>() };
    if before.is_empty() && after.is_empty() {
        Ok(words)
    } else {
        Err(error)
    }
}

/// `bytes` as signed 4-byte integers in the machine's byte order.
///
/// # Errors
/// [`NotWords`] where the address or the length is no multiple of 4.
pub fn signed_words(bytes: &[u8]) -> Result<&[i32], NotWords> {
    // SAFETY: every bit pattern is an `i32`, and `align_to` upholds alignment and bounds.
    let (before, words, after) = unsafe { bytes.align_to::<i32>() };
    if before.is_empty() && after.is_empty() {
        Ok(words)
    } else {
        Err(not_words::<u32>(bytes))
    }
}

/// `bytes` as signed 8-byte integers in the machine's byte order.
///
/// # Errors
/// [`NotWords`] where the address or the length is no multiple of 8.
pub fn signed_longs(bytes: &[u8]) -> Result<&[i64], NotWords> {
    // SAFETY: every bit pattern is an `i64`, and `align_to` upholds alignment and bounds.
    let (before, longs, after) = unsafe { bytes.align_to::<i64>() };
    if before.is_empty() && after.is_empty() {
        Ok(longs)
    } else {
        Err(not_words::<i64>(bytes))
    }
}

fn not_words<T>(bytes: &[u8]) -> NotWords {
    NotWords {
        bytes: bytes.len(),
        misaligned_bytes: bytes.as_ptr().addr() % size_of::<T>(),
        word_bytes: size_of::<T>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_aligned_words_pass() {
        let mut integers = [1_u32, 2, 3];
        // SAFETY: the bytes of initialised integers.
        let bytes = unsafe { integers.align_to_mut::<u8>().1 };
        assert_eq!(words(bytes), Ok(&[1, 2, 3][..]));
        assert_eq!(words(&bytes[..8]), Ok(&[1, 2][..]));
        assert_eq!(signed_words(bytes), Ok(&[1, 2, 3][..]));
        words_mut(bytes).unwrap()[1] = 9;
        assert!(signed_longs(bytes).is_err());
        let error = words(&bytes[1..5]).unwrap_err();
        assert_eq!((error.bytes, error.misaligned_bytes), (4, 1));
        assert!(signed_words(&bytes[..6]).is_err());
        assert!(words_mut(&mut bytes[..7]).is_err());
        assert_eq!(integers, [1, 9, 3]);
        let longs = [1_i64, -2];
        // SAFETY: the bytes of initialised integers.
        let bytes = unsafe { longs.align_to::<u8>().1 };
        assert_eq!(signed_longs(bytes), Ok(&longs[..]));
        let error = signed_longs(&bytes[4..12]).unwrap_err();
        assert_eq!((error.misaligned_bytes, error.word_bytes), (4, 8));
        assert!(error.to_string().contains("8-byte"), "{error}");
    }
}
