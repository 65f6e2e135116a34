//! Checksums of what lies in a pool.

use twox_hash::XxHash3_64;

/// The checksum of some bytes (XXH3, 64 bits).
pub(super) fn of_bytes(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The checksum of a few words, of this pool's only.
pub(super) fn of_words(pool_id: u128, words: &[u64]) -> u64 {
    let mut bytes = Vec::with_capacity(16 + words.len() * 8);
    bytes.extend_from_slice(&pool_id.to_le_bytes());
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    of_bytes(&bytes)
}
