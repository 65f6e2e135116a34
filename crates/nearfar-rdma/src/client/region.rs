//! Memory of a host.

use std::fmt;
use std::sync::Arc;

use nearfar_memory::rdma::{RemoteCharge, RemoteSpan};

use super::host::Inner;
use crate::error::RemoteError;
use crate::protocol::Message;

/// A region in the memory of another host. It is staged: its bytes are copied into near memory to be used, and no
/// reference to them exists here. Dropping it gives it back to the host.
///
/// Threads may read and write it concurrently; what a read gives of bytes that are being written is one or the other
/// for each byte.
pub struct RemoteRegion {
    inner: Arc<Inner>,
    number: u64,
    span: RemoteSpan,
    bytes: u64,
    /// Given back to the tier after the region to the host.
    charges: Vec<RemoteCharge>,
}

impl RemoteRegion {
    pub(super) fn new(
        inner: Arc<Inner>,
        number: u64,
        span: RemoteSpan,
        bytes: u64,
        charge: RemoteCharge,
    ) -> Self {
        Self {
            inner,
            number,
            span,
            bytes,
            charges: vec![charge],
        }
    }

    /// The region, which takes so much more of its tier.
    pub(super) fn charged_too(mut self, charge: RemoteCharge) -> Self {
        self.charges.push(charge);
        self
    }

    /// The bytes asked for.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether no byte was asked for.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes that it takes of its tier, in whole pages.
    pub fn charged_bytes(&self) -> u64 {
        self.charges.iter().map(RemoteCharge::bytes).sum()
    }

    /// Its number at its host, as errors have it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The name of its host.
    pub fn host(&self) -> &str {
        self.inner.links.state.name()
    }

    /// Where these bytes lie at the host.
    fn span(&self, offset_bytes: u64, bytes: usize) -> Result<RemoteSpan, RemoteError> {
        let bytes = bytes as u64;
        let end = offset_bytes.checked_add(bytes);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(RemoteError::OutOfRange {
                host: self.host().to_owned(),
                region: self.number,
                offset_bytes,
                bytes,
                len_bytes: self.bytes,
            });
        }
        let address = self.span.address.wrapping_add(offset_bytes);
        Ok(RemoteSpan {
            address,
            ..self.span
        })
    }

    /// Reads the bytes from `offset_bytes` on into all of `to`, without a copy where that is in a near buffer of this
    /// host's. Returns when they are there.
    ///
    /// # Errors
    /// [`RemoteError::OutOfRange`]; [`RemoteError::Lost`] when the host is, and then what is in `to` means nothing.
    pub fn read(&self, offset_bytes: u64, to: &mut [u8]) -> Result<(), RemoteError> {
        self.read_unless(offset_bytes, to, &|| false)
    }

    /// As [`Self::read`], unless `is_cancelled`.
    pub(super) fn read_unless(
        &self,
        offset_bytes: u64,
        to: &mut [u8],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), RemoteError> {
        let span = self.span(offset_bytes, to.len())?;
        let links = &self.inner.links;
        links.run(self.number, is_cancelled, |link, limits| {
            link.read(span, to, limits)
        })
    }

    /// Writes all of `from` to the bytes from `offset_bytes` on. Returns when the host's memory has them.
    ///
    /// # Errors
    /// [`RemoteError::OutOfRange`]; [`RemoteError::Lost`] when the host is.
    pub fn write(&self, offset_bytes: u64, from: &[u8]) -> Result<(), RemoteError> {
        self.write_unless(offset_bytes, from, &|| false)
    }

    /// As [`Self::write`], unless `is_cancelled`: any of the bytes may have been written then.
    pub(super) fn write_unless(
        &self,
        offset_bytes: u64,
        from: &[u8],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), RemoteError> {
        let span = self.span(offset_bytes, from.len())?;
        let links = &self.inner.links;
        links.run(self.number, is_cancelled, |link, limits| {
            link.write(span, from, limits)
        })
    }

    /// The error of a caller that needs its bytes no more.
    pub(super) fn cancelled(&self) -> RemoteError {
        self.inner.links.state.cancelled()
    }
}

impl fmt::Debug for RemoteRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteRegion")
            .field("host", &self.host())
            .field("number", &self.number)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Drop for RemoteRegion {
    fn drop(&mut self) {
        let region = self.number;
        let control = &self.inner.links.control;
        if self.inner.links.state.lost().is_none()
            && let Err(error) = control.ask(&Message::Free { region })
        {
            tracing::warn!(%error, region, "a region was not given back: its lease ends it");
        }
    }
}
