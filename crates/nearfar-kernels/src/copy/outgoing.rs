//! Near bytes of one producer through a ring to far memory.

use std::thread;

use super::bytes::through_caches;
use super::error::CopyError;
use super::fetch::PIECE_BYTES;
use super::options::{Copier, CopyOptions};
use super::ring::{Dies, Ring};
use super::store::{SliceChunks, Store, store_pieces};
use super::stream::check;
use super::sync::Mutex;
use super::threads::start;
use crate::cancel::Cancel;

/// A producer's way through the chunks, in order: it fills what [`Self::room`] gives, or writes bytes that it has
/// elsewhere. Copiers write every chunk out when it is full, and the last one when all bytes are there.
pub struct Outgoing<'a, B> {
    ring: &'a Ring<B>,
    far_bytes: usize,
    chunk_bytes: usize,
    /// The chunk that is being filled, and its number.
    current: Option<(usize, B)>,
    produced_bytes: usize,
    cancel: &'a Cancel,
}

impl<B> Outgoing<'_, B> {
    /// Bytes that the producer has given.
    pub fn produced_bytes(&self) -> usize {
        self.produced_bytes
    }

    /// Copiers that work now.
    pub fn active_copiers(&self) -> usize {
        self.ring.active()
    }

    /// Waits until copiers have written out all bytes. Whoever does not call it has it called when it ends.
    ///
    /// # Errors
    /// [`CopyError::Produced`] where some bytes were not given; otherwise as [`Self::room`].
    pub fn finish(&mut self) -> Result<(), CopyError> {
        if self.produced_bytes < self.far_bytes {
            return Err(self.told(self.produced_bytes));
        }
        self.ring.finish(|| self.cancel.is_cancelled())
    }

    fn told(&self, produced_bytes: usize) -> CopyError {
        CopyError::Produced {
            produced_bytes,
            bytes: self.far_bytes,
        }
    }

    /// Where the next byte is in its chunk, and where that chunk ends.
    fn place(&self) -> (usize, usize) {
        let filled = self.produced_bytes % self.chunk_bytes;
        let begin = self.produced_bytes - filled;
        (filled, self.chunk_bytes.min(self.far_bytes - begin))
    }
}

impl<B: AsMut<[u8]>> Outgoing<'_, B> {
    /// Near memory for the next bytes, once there is some: what is left of a chunk. What is in it before means
    /// nothing. It is empty when all bytes were given.
    ///
    /// # Errors
    /// [`CopyError`], within 100 ms of what it tells of.
    pub fn room(&mut self) -> Result<&mut [u8], CopyError> {
        if self.current.is_none() {
            self.current = self.ring.reserve(|| self.cancel.is_cancelled())?;
        } else if self.cancel.is_cancelled() {
            return Err(CopyError::Cancelled);
        }
        let (begin, end) = self.place();
        Ok(match &mut self.current {
            Some((_, buffer)) => &mut buffer.as_mut()[begin..end],
            None => &mut [],
        })
    }

    /// So many bytes of [`Self::room`] were filled, from its first on.
    ///
    /// # Panics
    /// Where it has fewer.
    pub fn advance(&mut self, bytes: usize) {
        let (begin, end) = self.place();
        let room = self.current.as_ref().map_or(0, |_| end - begin);
        assert!(bytes <= room, "{bytes} bytes of a chunk with {room}");
        self.produced_bytes += bytes;
        if bytes == room
            && let Some((chunk, buffer)) = self.current.take()
        {
            self.ring.fill(chunk, buffer);
        }
    }

    /// Copies all of `bytes` into chunks, as these are free.
    ///
    /// # Errors
    /// [`CopyError::Produced`] where these are more than what is left, and none is copied then; otherwise as
    /// [`Self::room`].
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), CopyError> {
        if bytes.len() > self.far_bytes - self.produced_bytes {
            return Err(self.told(self.produced_bytes.saturating_add(bytes.len())));
        }
        while !bytes.is_empty() {
            let room = self.room()?;
            let piece_bytes = bytes.len().min(room.len()).min(PIECE_BYTES);
            let (now, later) = bytes.split_at(piece_bytes);
            through_caches(now, &mut room[..now.len()]);
            self.advance(now.len());
            bytes = later;
        }
        Ok(())
    }
}

/// Stops copiers when the producer has ended, also by a panic.
struct Leaves<'a, B>(&'a Ring<B>);

impl<B> Drop for Leaves<'_, B> {
    fn drop(&mut self) {
        self.0.stop(CopyError::Abandoned);
    }
}

/// Copies what `produce` gives to all of `far`, chunk by chunk through `buffers`, each as long as a chunk at least:
/// it runs here, fills chunks, and waits where all of them are on their way. `copier` makes the copier with this
/// number on its thread. Returns when all bytes are there.
///
/// ```
/// use nearfar_kernels::copy::{CopyCancel, CopyError, CopyMethod, CopyOptions, MethodCopier, streamed_out};
///
/// let mut far = vec![0_u8; 1_000_000];
/// let options = CopyOptions { chunk_bytes: 64 << 10, ..CopyOptions::default() };
/// let copier = MethodCopier::new(CopyMethod::NonTemporal)?;
/// let buffers = vec![vec![0; 64 << 10]; 4];
/// streamed_out(&mut far, buffers, options, &CopyCancel::default(), |_| copier, |outgoing| {
///     for line in 0..10_000_u64 {
///         outgoing.write(format!("{line:>99}\n").as_bytes())?;
///     }
///     Ok::<(), CopyError>(())
/// })?;
/// assert!(far.ends_with(b" 9999\n"));
/// # Ok::<(), CopyError>(())
/// ```
///
/// # Errors
/// That of `produce`, which is told what goes wrong with copies. Also [`CopyError`] about options and buffers, before
/// anything is copied, where a copier gets no thread, and where not all bytes were given or copied when `produce` had
/// ended. What is in `far` then is not to be used.
///
/// # Panics
/// With the panic of `produce`.
pub fn streamed_out<B, C, R, E>(
    far: &mut [u8],
    buffers: Vec<B>,
    options: CopyOptions,
    cancel: &Cancel,
    copier: impl Fn(usize) -> C + Sync,
    produce: impl FnOnce(&mut Outgoing<'_, B>) -> Result<R, E>,
) -> Result<R, E>
where
    B: AsRef<[u8]> + AsMut<[u8]> + Send + Sync,
    C: Copier,
    E: From<CopyError>,
{
    check(&buffers, &options)?;
    let (far_bytes, chunk_bytes) = (far.len(), options.chunk_bytes);
    let chunks: Vec<_> = far.chunks_mut(chunk_bytes).map(Mutex::new).collect();
    let slices = |index| SliceChunks {
        chunks: &chunks,
        chunk_bytes,
        copier: copier(index),
    };
    streamed_to(far_bytes, buffers, options, cancel, slices, produce)
}

/// As [`streamed_out`], to a destination of `far_bytes` bytes that is no slice: `store` makes what the copier with this
/// number writes it by, on its thread. There are no more copiers than chunks.
///
/// # Errors
/// As [`streamed_out`]; destinations that are lost are told to `produce` by their names, or behind it.
///
/// # Panics
/// With the panic of `produce`.
pub fn streamed_to<B, S, R, E>(
    far_bytes: usize,
    buffers: Vec<B>,
    options: CopyOptions,
    cancel: &Cancel,
    store: impl Fn(usize) -> S + Sync,
    produce: impl FnOnce(&mut Outgoing<'_, B>) -> Result<R, E>,
) -> Result<R, E>
where
    B: AsRef<[u8]> + AsMut<[u8]> + Send + Sync,
    S: Store,
    E: From<CopyError>,
{
    check(&buffers, &options)?;
    let chunk_bytes = options.chunk_bytes;
    let chunks = far_bytes.div_ceil(chunk_bytes);
    // Copiers are one consumer together.
    let ring = Ring::new(buffers, chunks, 1, options.copiers);
    let (ring, store) = (&ring, &store);
    let copy = move |copier: usize| {
        let dies = Dies { ring, copier };
        let mut store = store(copier);
        while let Some((chunk, buffer)) = ring.take(copier, || cancel.is_cancelled()) {
            let begin = chunk * chunk_bytes;
            let from = &(*buffer).as_ref()[..chunk_bytes.min(far_bytes - begin)];
            match store_pieces(&mut store, begin, from, cancel) {
                Ok(()) => ring.release(chunk, buffer),
                // It stays in its slot, so that nobody takes it for written.
                Err(reason) => ring.stop(reason),
            }
        }
        drop(dies);
    };
    thread::scope(|scope| {
        let copies = (0..options.copiers.threads().min(chunks)).map(|index| move || copy(index));
        let (copiers, started) = start(scope, "copier", copies);
        let leaves = Leaves(ring);
        let result = started.map_err(E::from).and_then(|()| {
            let mut outgoing = Outgoing {
                ring,
                far_bytes,
                chunk_bytes,
                current: None,
                produced_bytes: 0,
                cancel,
            };
            let produced = produce(&mut outgoing)?;
            outgoing.finish()?;
            Ok(produced)
        });
        drop(leaves);
        for copier in copiers {
            // The producer was told of one that died.
            let _ = copier.join();
        }
        result
    })
}
