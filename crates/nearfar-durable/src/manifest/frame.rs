//! The frame around encoded bytes, by which damage is found before they are read.
//!
//! ```text
//! magic number (8) | version (4) | byte order (4) | bytes of the whole frame (8) | body | checksum (8)
//! ```

use twox_hash::XxHash3_64;

use super::codec::{Decoder, Encoder};
use super::error::ManifestError;

/// The version of everything that is framed.
const VERSION: u32 = 8;
/// Written in the machine's byte order.
const BYTE_ORDER: u32 = 0x0102_0304;
const HEAD_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 8;

/// The checksum of some bytes (XXH3, 64 bits).
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// A frame around what `body` writes.
pub fn seal(magic: &[u8; 8], body: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.raw(magic);
    encoder.u32(VERSION);
    encoder.raw(&BYTE_ORDER.to_ne_bytes());
    encoder.u64(0);
    body(&mut encoder);
    let mut bytes = encoder.finish();
    let length = (bytes.len() + CHECKSUM_BYTES) as u64;
    bytes[HEAD_BYTES - 8..HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// The body of a frame that is all of `bytes`.
///
/// # Errors
/// [`ManifestError`]: another kind, version or byte order; torn or damaged bytes.
pub fn open<'a>(
    magic: &[u8; 8],
    what: &'static str,
    bytes: &'a [u8],
) -> Result<Decoder<'a>, ManifestError> {
    let mut head = Decoder::new(bytes);
    if head.raw(8, what).ok() != Some(magic) {
        return Err(ManifestError::Magic { what });
    }
    let version = head.u32(what)?;
    let order = head.raw(4, what)?;
    if order != BYTE_ORDER.to_ne_bytes() {
        let is_swapped = order == BYTE_ORDER.swap_bytes().to_ne_bytes();
        return Err(match is_swapped {
            true => ManifestError::ByteOrder,
            false => ManifestError::Invalid { what },
        });
    }
    if version != VERSION {
        return Err(ManifestError::Version {
            found: version,
            known: VERSION,
        });
    }
    let expected = head.u64(what)?;
    let found = bytes.len() as u64;
    if expected != found || bytes.len() < HEAD_BYTES + CHECKSUM_BYTES {
        return Err(ManifestError::Length { found, expected });
    }
    let (framed, sum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    let expected = Decoder::new(sum).u64(what)?;
    let found = checksum(framed);
    if found != expected {
        return Err(ManifestError::Checksum { found, expected });
    }
    Ok(Decoder::new(&framed[HEAD_BYTES..]))
}
