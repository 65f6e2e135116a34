//! What can go wrong with copies.

use super::fetch::FetchError;
use super::method::MethodUnavailable;
use super::store::StoreError;

/// Errors of copies between tiers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// Chunks are whole cache lines.
    #[error("chunks of {chunk_bytes} bytes: give a multiple of 64 that is not 0")]
    ChunkBytes {
        /// What was asked for.
        chunk_bytes: usize,
    },
    /// A ring without chunks, or with one that is too short.
    #[error(
        "buffer {buffer} of {buffers} has {bytes} bytes, which is no chunk of {chunk_bytes} bytes: give \
         at least one, all as long as a chunk"
    )]
    Buffer {
        /// Which buffer, from 0 on.
        buffer: usize,
        /// Number of buffers.
        buffers: usize,
        /// Its bytes.
        bytes: usize,
        /// Bytes of a chunk.
        chunk_bytes: usize,
    },
    /// A copy of other length than its source.
    #[error(
        "part {part} is copied from {from_bytes} bytes to {to_bytes} bytes: give the same lengths"
    )]
    PartLength {
        /// Which part, from 0 on.
        part: usize,
        /// Bytes of the source.
        from_bytes: usize,
        /// Bytes of the destination.
        to_bytes: usize,
    },
    /// The system gives no further thread; those that were started have ended.
    #[error("only {started} of {threads} {what}s of a copy get a thread ({reason}): ask for fewer")]
    Thread {
        /// What they are: `copier` or `consumer`.
        what: &'static str,
        /// Threads that were started.
        started: usize,
        /// Threads that were wanted.
        threads: usize,
        /// What the system says.
        reason: String,
    },
    /// Nobody reads.
    #[error("no consumer: give at least one")]
    NoConsumer,
    /// The machine cannot copy in this way.
    #[error(transparent)]
    Method(#[from] MethodUnavailable),
    /// A source gave no bytes; what was fetched of it is not used.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A destination took no bytes; what was written to it is not used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A producer gave fewer bytes than it had told, or more.
    #[error("a producer gave {produced_bytes} bytes, but had told that it gives {bytes} bytes")]
    Produced {
        /// What it gave.
        produced_bytes: usize,
        /// What it had told.
        bytes: usize,
    },
    /// A copier ended in the middle of its work; what it copied is not used.
    #[error("copier {copier} died: what is not copied yet will not be")]
    CopierDied {
        /// Which copier, from 0 on.
        copier: usize,
    },
    /// The caller has cancelled.
    #[error("the copy was cancelled")]
    Cancelled,
    /// The work that the copy was for has ended.
    #[error("the copy was given up: nobody waits for it")]
    Abandoned,
}
