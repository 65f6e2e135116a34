//! Far bytes through a ring to any number of consumers.

use std::ops::Deref;
use std::panic::resume_unwind;
use std::thread;

use super::error::CopyError;
use super::fetch::{Fetch, Slices, fetch_pieces};
use super::options::{Copier, CopyOptions};
use super::ring::{Dies, Ring};
use super::sync::Arc;
use super::threads::start;
use crate::cancel::Cancel;

/// A consumer's way through the chunks, in order.
pub struct Chunks<'a, B> {
    ring: &'a Ring<B>,
    far: usize,
    chunk_bytes: usize,
    next: usize,
    cancel: &'a Cancel,
}

/// A chunk that a consumer reads; it goes back to the ring when it is dropped.
pub struct Chunk<'a, B> {
    ring: &'a Ring<B>,
    buffer: Option<Arc<B>>,
    chunk: usize,
    bytes: usize,
}

impl<B> Chunks<'_, B> {
    /// The next chunk, once it was copied; `None` behind the last.
    ///
    /// # Errors
    /// [`CopyError`], within 100 ms of what it tells of.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk<'_, B>>, CopyError> {
        let chunk = self.next;
        let buffer = self.ring.read(chunk, || self.cancel.is_cancelled())?;
        self.next += usize::from(buffer.is_some());
        Ok(buffer.map(|buffer| Chunk {
            ring: self.ring,
            buffer: Some(buffer),
            chunk,
            bytes: self.chunk_bytes.min(self.far - chunk * self.chunk_bytes),
        }))
    }

    /// Copiers that work now.
    pub fn active_copiers(&self) -> usize {
        self.ring.active()
    }
}

impl<B> Drop for Chunks<'_, B> {
    fn drop(&mut self) {
        self.ring.leave(self.next);
    }
}

impl<B: AsRef<[u8]>> Deref for Chunk<'_, B> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let buffer = self.buffer.as_ref().expect("until it is dropped");
        &(**buffer).as_ref()[..self.bytes]
    }
}

impl<B> Drop for Chunk<'_, B> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.ring.release(self.chunk, buffer);
        }
    }
}

/// Copies `far` chunk by chunk through `buffers`, each as long as a chunk at least, to all `consumers`, which
/// run concurrently, each on a thread of its own. `copier` makes the copier with this number on its thread.
/// What the consumers give, in their order.
///
/// ```
/// use nearfar_kernels::copy::{CopyCancel, CopyMethod, CopyOptions, MethodCopier, streamed};
///
/// let far = vec![1_u8; 1_000_000];
/// let options = CopyOptions { chunk_bytes: 64 << 10, ..CopyOptions::default() };
/// let copier = MethodCopier::new(CopyMethod::NonTemporal)?;
/// let buffers = vec![vec![0; 64 << 10]; 4];
/// let sums = streamed(&far, buffers, options, &CopyCancel::default(), |_| copier, vec![
///     |chunks: &mut nearfar_kernels::copy::Chunks<'_, Vec<u8>>| {
///         let mut sum = 0;
///         while let Some(chunk) = chunks.next_chunk()? {
///             sum += chunk.iter().map(|byte| u64::from(*byte)).sum::<u64>();
///         }
///         Ok::<u64, nearfar_kernels::copy::CopyError>(sum)
///     };
///     2
/// ])?;
/// assert_eq!(sums, [Ok(1_000_000), Ok(1_000_000)]);
/// # Ok::<(), nearfar_kernels::copy::CopyError>(())
/// ```
///
/// # Errors
/// [`CopyError`] about options and buffers, before anything is copied, and where a thread cannot be started. What goes
/// wrong later is told to the consumers.
///
/// # Panics
/// With the panic of a consumer.
pub fn streamed<B, C, F, R>(
    far: &[u8],
    buffers: Vec<B>,
    options: CopyOptions,
    cancel: &Cancel,
    copier: impl Fn(usize) -> C + Sync,
    consumers: Vec<F>,
) -> Result<Vec<R>, CopyError>
where
    B: AsRef<[u8]> + AsMut<[u8]> + Send + Sync,
    C: Copier,
    F: FnOnce(&mut Chunks<'_, B>) -> R + Send,
    R: Send,
{
    let far_bytes = far.len();
    let parts = [far];
    let slices = |index| Slices {
        parts: &parts,
        copier: copier(index),
    };
    streamed_from(far_bytes, buffers, options, cancel, slices, consumers)
}

/// As [`streamed`], of a source of `far_bytes` bytes that is no slice: `fetch` makes what the copier with this
/// number reads it by, on its thread.
///
/// # Errors
/// [`CopyError`] about options and buffers, before anything is fetched, and where a thread cannot be started. What
/// goes wrong later, sources that are lost included, is told to the consumers.
///
/// # Panics
/// With the panic of a consumer.
pub fn streamed_from<B, S, F, R>(
    far_bytes: usize,
    buffers: Vec<B>,
    options: CopyOptions,
    cancel: &Cancel,
    fetch: impl Fn(usize) -> S + Sync,
    consumers: Vec<F>,
) -> Result<Vec<R>, CopyError>
where
    B: AsRef<[u8]> + AsMut<[u8]> + Send + Sync,
    S: Fetch,
    F: FnOnce(&mut Chunks<'_, B>) -> R + Send,
    R: Send,
{
    check(&buffers, &options)?;
    if consumers.is_empty() {
        return Err(CopyError::NoConsumer);
    }
    let chunk_bytes = options.chunk_bytes;
    let chunks = far_bytes.div_ceil(chunk_bytes);
    let ring = Ring::new(buffers, chunks, consumers.len(), options.copiers);
    let (ring, fetch) = (&ring, &fetch);
    let copy = move |index: usize| {
        let dies = Dies {
            ring,
            copier: index,
        };
        let mut fetch = fetch(index);
        while let Some((chunk, mut buffer)) = ring.claim(index, || cancel.is_cancelled()) {
            let begin = chunk * chunk_bytes;
            let to = &mut buffer.as_mut()[..chunk_bytes.min(far_bytes - begin)];
            if let Err(reason) = fetch_pieces(&mut fetch, 0, begin, to, cancel) {
                ring.stop(reason);
            }
            ring.fill(chunk, buffer);
        }
        drop(dies);
    };
    thread::scope(|scope| {
        let copies = (0..options.copiers.threads()).map(|index| move || copy(index));
        let (copiers, started) = start(scope, "copier", copies);
        let consume = move |consumer: F| {
            let mut chunks = Chunks {
                ring,
                far: far_bytes,
                chunk_bytes,
                next: 0,
                cancel,
            };
            consumer(&mut chunks)
        };
        let consumers = consumers
            .into_iter()
            .map(|consumer| move || consume(consumer));
        let (consumers, started) = match started {
            Ok(()) => start(scope, "consumer", consumers),
            refused => (Vec::new(), refused),
        };
        if let Err(refused) = &started {
            ring.stop(refused.clone());
        }
        let results = consumers.into_iter().map(thread::ScopedJoinHandle::join);
        let results: Vec<_> = results.collect();
        for copier in copiers {
            // Consumers were told of one that died.
            let _ = copier.join();
        }
        started?;
        let results = results.into_iter();
        Ok(results
            .map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect())
    })
}

/// Refuses options, and buffers that are no ring of chunks.
pub(super) fn check<B: AsRef<[u8]>>(buffers: &[B], options: &CopyOptions) -> Result<(), CopyError> {
    options.check()?;
    let chunk_bytes = options.chunk_bytes;
    let lengths = buffers.iter().map(|buffer| buffer.as_ref().len());
    let short = lengths.enumerate().find(|(_, bytes)| *bytes < chunk_bytes);
    match short.or(buffers.is_empty().then_some((0, 0))) {
        Some((buffer, bytes)) => Err(CopyError::Buffer {
            buffer,
            buffers: buffers.len(),
            bytes,
            chunk_bytes,
        }),
        None => Ok(()),
    }
}
