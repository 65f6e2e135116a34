//! Sources that copiers read by calls, such as the memory of another host.

use super::error::CopyError;
use super::options::Copier;
use crate::cancel::Cancel;

/// Far bytes that are no slice: what a copier fetches by a call that can fail, such as a read of another host's
/// memory. It is made on its copier's thread and used by that alone, so that it may own a connection.
///
/// A source is one part, with the number 0, or several, whose numbers are their places in the list that the copy
/// was given.
pub trait Fetch {
    /// Fills all of `to` with the bytes of a part from `offset_bytes` on. Whoever gives the lengths of the parts
    /// sees to it that there are so many.
    ///
    /// # Errors
    /// [`FetchError`], which ends the whole copy; what is in `to` then is not used.
    fn fetch(&mut self, part: usize, offset_bytes: usize, to: &mut [u8]) -> Result<(), FetchError>;
}

/// Why bytes could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FetchError {
    /// What was lost, by its name, and why.
    pub reason: String,
}

impl FetchError {
    /// An error that says this.
    pub fn new(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { reason }
    }
}

/// Slices as a source, which a copier reads.
pub(super) struct Slices<'a, C> {
    pub(super) parts: &'a [&'a [u8]],
    pub(super) copier: C,
}

impl<C: Copier> Fetch for Slices<'_, C> {
    fn fetch(&mut self, part: usize, offset_bytes: usize, to: &mut [u8]) -> Result<(), FetchError> {
        let from = &self.parts[part][offset_bytes..][..to.len()];
        self.copier.copy(from, to);
        Ok(())
    }
}

/// Bytes that are copied between two looks at whether to go on: below a millisecond in memory of this host.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// Fetches piece by piece, as long as nobody has cancelled.
pub(super) fn fetch_pieces(
    fetch: &mut impl Fetch,
    part: usize,
    offset_bytes: usize,
    to: &mut [u8],
    cancel: &Cancel,
) -> Result<(), CopyError> {
    for (index, to) in to.chunks_mut(PIECE_BYTES).enumerate() {
        if cancel.is_cancelled() {
            return Err(CopyError::Cancelled);
        }
        let fetched = fetch.fetch(part, offset_bytes + index * PIECE_BYTES, to);
        // A source that heard of it has no other reason.
        fetched.map_err(|error| match cancel.is_cancelled() {
            true => CopyError::Cancelled,
            false => error.into(),
        })?;
    }
    Ok(())
}
