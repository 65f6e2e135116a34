//! What copiers read columns of other hosts by.

use nearfar_kernels::copy::{CopyCancel, Fetch, FetchError};
use nearfar_memory::rdma::NearBuffer;

use super::buffer::RemoteBuffer;
use super::host::RemoteHost;
use crate::error::RemoteError;

/// Columns of other hosts as a source of copies: each is a part. Copiers take a connection for each piece, so that they
/// are the communication threads, and operators never wait for the network but for chunks that are not there yet.
///
/// `nearfar_kernels::copy::streamed_from` and `staged_from` take one for each copier:
///
/// ```no_run
/// # use nearfar_kernels::copy::{CopyCancel, CopyError, CopyOptions, Chunks, streamed_from};
/// # use nearfar_rdma::{NearRing, RemoteBuffer, RemoteFetch, RemoteHost};
/// # fn sum(host: &RemoteHost, column: &RemoteBuffer) -> Result<u64, Box<dyn std::error::Error>> {
/// let options = CopyOptions::default();
/// let ring = NearRing::new(host, 8, options.chunk_bytes)?;
/// let columns = [column];
/// let cancel = CopyCancel::default();
/// let sums = streamed_from(
///     column.len(),
///     ring.into_buffers(),
///     options,
///     &cancel,
///     |_| RemoteFetch::new(&columns, &cancel),
///     vec![|chunks: &mut Chunks<'_, _>| {
///         let mut sum = 0;
///         while let Some(chunk) = chunks.next_chunk()? {
///             sum += chunk.iter().map(|byte| u64::from(*byte)).sum::<u64>();
///         }
///         Ok::<u64, CopyError>(sum)
///     }],
/// )?;
/// # Ok(sums.into_iter().next().unwrap()?)
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RemoteFetch<'a> {
    columns: &'a [&'a RemoteBuffer],
    cancel: &'a CopyCancel,
}

impl<'a> RemoteFetch<'a> {
    /// A source of these columns. Cancelling ends transfers too, by giving their connections up where they take long.
    pub fn new(columns: &'a [&'a RemoteBuffer], cancel: &'a CopyCancel) -> Self {
        Self { columns, cancel }
    }
}

impl Fetch for RemoteFetch<'_> {
    fn fetch(&mut self, part: usize, offset_bytes: usize, to: &mut [u8]) -> Result<(), FetchError> {
        let column = self.columns.get(part);
        let column = column.ok_or_else(|| FetchError::new("there is no such column"))?;
        let is_cancelled = || self.cancel.is_cancelled();
        let read = column.read_unless(offset_bytes, to, &is_cancelled);
        read.map_err(|error| FetchError::new(error.to_string()))
    }
}

/// Near buffers of one length, which devices write to without a copy: a ring of chunks, or places for whole columns.
#[derive(Debug)]
pub struct NearRing(Vec<NearBuffer>);

impl NearRing {
    /// So many buffers.
    ///
    /// # Errors
    /// As [`RemoteHost::near_buffer`].
    pub fn new(host: &RemoteHost, buffers: usize, bytes: usize) -> Result<Self, RemoteError> {
        let buffers = (0..buffers).map(|_| host.near_buffer(bytes));
        buffers.collect::<Result<_, _>>().map(Self)
    }

    /// The buffers.
    pub fn into_buffers(self) -> Vec<NearBuffer> {
        self.0
    }
}
