//! The ring of chunks between copiers and consumers, or between a producer and copiers.
//!
//! ```text
//!   chunk       0        1         2         3         4      ...
//!   slot        0        1         2         0         1           of three
//!               Free -> Claimed -> Filled -> Free -> ...
//!                copier takes    copier puts   last consumer of it gives
//!                the buffer out  it back       the buffer back
//! ```
//!
//! Chunks are claimed in order, and a chunk's slot is that of its number. A slot is filled for all consumers
//! that there are then, and free again when the last of them has released it: that is the back-pressure.
//! Every change is made under one lock, whole.
//!
//! In the other direction the only producer reserves and fills, and copiers are one consumer together: each chunk
//! is taken by one of them, in order, and released when it was written out.

use super::active::Active;
use super::error::CopyError;
use super::options::Copiers;
use super::sync::{Arc, Condvar, Mutex, MutexGuard, into_inner, lock, wait};

pub(super) struct Ring<B> {
    state: Mutex<State<B>>,
    changed: Condvar,
}

struct State<B> {
    slots: Vec<Slot<B>>,
    /// The next chunk to be claimed.
    next: usize,
    /// The next chunk that a copier takes of a producer.
    taken: usize,
    chunks: usize,
    consumers: usize,
    active: Active,
    /// Why nobody goes on.
    stopped: Option<CopyError>,
}

enum Slot<B> {
    Free(B),
    Claimed,
    Filled {
        chunk: usize,
        buffer: Arc<B>,
        readers: usize,
    },
}

impl<B> State<B> {
    /// The next chunk and its buffer, if that is free.
    fn claim_next(&mut self) -> Option<(usize, B)> {
        let at = self.next % self.slots.len();
        match std::mem::replace(&mut self.slots[at], Slot::Claimed) {
            Slot::Free(buffer) => {
                self.next += 1;
                Some((self.next - 1, buffer))
            }
            other => {
                self.slots[at] = other;
                None
            }
        }
    }

    /// The buffer of a chunk, if that is there.
    fn filled(&self, chunk: usize) -> Option<Arc<B>> {
        match &self.slots[chunk % self.slots.len()] {
            Slot::Filled {
                chunk: filled,
                buffer,
                ..
            } if *filled == chunk => Some(Arc::clone(buffer)),
            _ => None,
        }
    }

    /// Whether all chunks were claimed, filled and released.
    fn is_through(&self) -> bool {
        let mut slots = self.slots.iter();
        self.next == self.chunks && slots.all(|slot| matches!(slot, Slot::Free(_)))
    }
}

impl<B> Ring<B> {
    /// A ring of these buffers, of which there is one, for so many chunks and consumers.
    pub(super) fn new(
        buffers: impl IntoIterator<Item = B>,
        chunks: usize,
        consumers: usize,
        copiers: Copiers,
    ) -> Self {
        let state = State {
            slots: buffers.into_iter().map(Slot::Free).collect(),
            next: 0,
            taken: 0,
            chunks,
            consumers,
            active: Active::new(copiers),
            stopped: None,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// The next chunk and a buffer for it; `None` when there is none left, or all have stopped.
    pub(super) fn claim(
        &self,
        copier: usize,
        is_cancelled: impl Fn() -> bool,
    ) -> Option<(usize, B)> {
        let mut state = lock(&self.state);
        loop {
            self.check(&mut state, &is_cancelled).ok()?;
            if state.next == state.chunks {
                return None;
            }
            if state.active.has(copier) {
                if let Some(claimed) = state.claim_next() {
                    if state.next == state.chunks {
                        self.changed.notify_all();
                    }
                    return Some(claimed);
                }
                state.active.spared();
            }
            state = wait(&self.changed, state);
        }
    }

    /// As [`Self::claim`], for the only producer.
    pub(super) fn reserve(
        &self,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<Option<(usize, B)>, CopyError> {
        let mut state = lock(&self.state);
        let mut is_first_turn = true;
        loop {
            if state.next == state.chunks {
                return Ok(None);
            }
            self.check(&mut state, &is_cancelled)?;
            if let Some(claimed) = state.claim_next() {
                return Ok(Some(claimed));
            }
            if std::mem::take(&mut is_first_turn) && state.active.waited_for() {
                self.changed.notify_all();
            }
            state = wait(&self.changed, state);
        }
    }

    /// A claimed chunk is in its buffer.
    pub(super) fn fill(&self, chunk: usize, buffer: B) {
        let mut state = lock(&self.state);
        let (at, readers) = (chunk % state.slots.len(), state.consumers);
        state.slots[at] = match readers {
            0 => Slot::Free(buffer),
            _ => Slot::Filled {
                chunk,
                buffer: Arc::new(buffer),
                readers,
            },
        };
        self.changed.notify_all();
    }

    /// Why nobody goes on, if that is so; whoever was cancelled stops all.
    fn check(
        &self,
        state: &mut MutexGuard<'_, State<B>>,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<(), CopyError> {
        if is_cancelled() {
            self.stop_locked(state, CopyError::Cancelled);
        }
        state.stopped.clone().map_or(Ok(()), Err)
    }

    /// Nobody goes on; the first reason counts.
    pub(super) fn stop(&self, reason: CopyError) {
        self.stop_locked(&mut lock(&self.state), reason);
    }

    fn stop_locked(&self, state: &mut MutexGuard<'_, State<B>>, reason: CopyError) {
        state.stopped.get_or_insert(reason);
        self.changed.notify_all();
    }

    /// The buffer of a chunk, once it is there. `None` behind the last chunk.
    pub(super) fn read(
        &self,
        chunk: usize,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<Option<Arc<B>>, CopyError> {
        let mut state = lock(&self.state);
        let mut is_first_turn = true;
        loop {
            if chunk == state.chunks {
                return Ok(None);
            }
            self.check(&mut state, &is_cancelled)?;
            if let Some(buffer) = state.filled(chunk) {
                return Ok(Some(buffer));
            }
            if std::mem::take(&mut is_first_turn) && state.active.waited_for() {
                self.changed.notify_all();
            }
            state = wait(&self.changed, state);
        }
    }

    /// The next chunk that the producer has filled, for this copier alone, which releases it when it has written it
    /// out; `None` when there is none left, or all have stopped.
    pub(super) fn take(
        &self,
        copier: usize,
        is_cancelled: impl Fn() -> bool,
    ) -> Option<(usize, Arc<B>)> {
        let mut state = lock(&self.state);
        loop {
            self.check(&mut state, &is_cancelled).ok()?;
            if state.taken == state.chunks {
                return None;
            }
            if state.active.has(copier) {
                if let Some(buffer) = state.filled(state.taken) {
                    state.taken += 1;
                    // Others learn of the last one when it is released.
                    return Some((state.taken - 1, buffer));
                }
                state.active.spared();
            }
            state = wait(&self.changed, state);
        }
    }

    /// Waits until all chunks were written out, of which the producer has filled the last.
    pub(super) fn finish(&self, is_cancelled: impl Fn() -> bool) -> Result<(), CopyError> {
        let mut state = lock(&self.state);
        loop {
            if state.is_through() {
                return Ok(());
            }
            self.check(&mut state, &is_cancelled)?;
            state = wait(&self.changed, state);
        }
    }

    /// A consumer does not need a chunk any more that it has read.
    pub(super) fn release(&self, chunk: usize, buffer: Arc<B>) {
        // The last one to release it is its only owner then.
        drop(buffer);
        self.released(&mut lock(&self.state), chunk);
    }

    /// A consumer has read all chunks before `chunk` and reads no other.
    pub(super) fn leave(&self, chunk: usize) {
        let mut state = lock(&self.state);
        state.consumers -= 1;
        let unread: Vec<usize> = state
            .slots
            .iter()
            .filter_map(|slot| match slot {
                Slot::Filled { chunk: filled, .. } if *filled >= chunk => Some(*filled),
                _ => None,
            })
            .collect();
        for chunk in unread {
            self.released(&mut state, chunk);
        }
        if state.consumers == 0 && state.next < state.chunks {
            self.stop_locked(&mut state, CopyError::Abandoned);
        }
    }

    fn released(&self, state: &mut MutexGuard<'_, State<B>>, chunk: usize) {
        let at = chunk % state.slots.len();
        let Slot::Filled { readers, .. } = &mut state.slots[at] else {
            return;
        };
        *readers -= 1;
        if *readers == 0
            && let Slot::Filled { buffer, .. } =
                std::mem::replace(&mut state.slots[at], Slot::Claimed)
        {
            let buffer = into_inner(buffer).expect("all readers have released it");
            state.slots[at] = Slot::Free(buffer);
            self.changed.notify_all();
        }
    }

    /// Copiers that work now.
    pub(super) fn active(&self) -> usize {
        lock(&self.state).active.count()
    }
}

/// Stops the ring if the copier dies.
pub(super) struct Dies<'a, B> {
    pub(super) ring: &'a Ring<B>,
    pub(super) copier: usize,
}

impl<B> Drop for Dies<'_, B> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let copier = self.copier;
            self.ring.stop(CopyError::CopierDied { copier });
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use std::num::NonZeroUsize;

    fn copiers(count: usize) -> Copiers {
        Copiers::Fixed(NonZeroUsize::new(count).unwrap())
    }

    fn copy_all(ring: &Ring<usize>, copier: usize) {
        while let Some((chunk, _)) = ring.claim(copier, || false) {
            ring.fill(chunk, chunk + 100);
        }
    }

    fn read_all(ring: &Ring<usize>) -> usize {
        let mut chunk = 0;
        while let Some(buffer) = ring.read(chunk, || false).unwrap() {
            assert_eq!(*buffer, chunk + 100);
            ring.release(chunk, buffer);
            chunk += 1;
        }
        ring.leave(chunk);
        chunk
    }

    fn check(model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(model);
    }

    #[test]
    fn two_copiers_one_consumer_one_slot() {
        check(|| {
            let ring = Arc::new(Ring::new([0], 2, 1, copiers(2)));
            let threads = [0, 1].map(|copier| {
                let ring = Arc::clone(&ring);
                loom::thread::spawn(move || copy_all(&ring, copier))
            });
            assert_eq!(read_all(&ring), 2);
            threads.map(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn copiers_that_rest_again_keep_no_consumer_waiting() {
        check(|| {
            let adaptive = Copiers::Adaptive(NonZeroUsize::new(2).unwrap());
            let ring = Arc::new(Ring::new([0], 2, 1, adaptive));
            let threads = [0, 1].map(|copier| {
                let ring = Arc::clone(&ring);
                loom::thread::spawn(move || copy_all(&ring, copier))
            });
            assert_eq!(read_all(&ring), 2);
            threads.map(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn one_copier_two_consumers_share_every_chunk() {
        check(|| {
            let ring = Arc::new(Ring::new([0], 2, 2, copiers(1)));
            let copier = {
                let ring = Arc::clone(&ring);
                loom::thread::spawn(move || copy_all(&ring, 0))
            };
            let other = {
                let ring = Arc::clone(&ring);
                loom::thread::spawn(move || read_all(&ring))
            };
            assert_eq!(read_all(&ring), 2);
            assert_eq!(other.join().unwrap(), 2);
            copier.join().unwrap();
        });
    }

    #[test]
    fn a_copier_that_stops_the_ring_leaves_nobody_waiting() {
        check(|| {
            let ring = Arc::new(Ring::new([0], 2, 1, copiers(1)));
            let copier = {
                let ring = Arc::clone(&ring);
                loom::thread::spawn(move || {
                    if ring.claim(0, || false).is_some() {
                        ring.stop(CopyError::CopierDied { copier: 0 });
                    }
                })
            };
            let read = ring.read(0, || false);
            assert_eq!(read.err(), Some(CopyError::CopierDied { copier: 0 }));
            copier.join().unwrap();
        });
    }

    #[test]
    fn a_consumer_that_leaves_early_keeps_no_slot() {
        check(|| {
            let ring = Arc::new(Ring::new([0], 2, 2, copiers(1)));
            let copier = {
                let ring = Arc::clone(&ring);
                loom::thread::spawn(move || copy_all(&ring, 0))
            };
            let other = {
                let ring = Arc::clone(&ring);
                loom::thread::spawn(move || ring.leave(0))
            };
            assert_eq!(read_all(&ring), 2);
            other.join().unwrap();
            copier.join().unwrap();
        });
    }

    /// How often the copiers of a producer have written each chunk out.
    type Written = Arc<Mutex<Vec<usize>>>;

    /// Runs a producer before so many copiers.
    fn written(
        ring: Ring<usize>,
        copiers: usize,
        chunks: usize,
        produce: impl FnOnce(&Ring<usize>, &Written),
    ) -> Vec<usize> {
        let (ring, written) = (Arc::new(ring), Arc::new(Mutex::new(vec![0; chunks])));
        let threads: Vec<_> = (0..copiers)
            .map(|copier| {
                let (ring, written) = (Arc::clone(&ring), Arc::clone(&written));
                loom::thread::spawn(move || {
                    while let Some((chunk, buffer)) = ring.take(copier, || false) {
                        assert_eq!(*buffer, chunk + 100);
                        lock(&written)[chunk] += 1;
                        ring.release(chunk, buffer);
                    }
                })
            })
            .collect();
        produce(&ring, &written);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        lock(&written).clone()
    }

    fn produce_all(ring: &Ring<usize>, written: &Written) {
        while let Some((chunk, _)) = ring.reserve(|| false).unwrap() {
            ring.fill(chunk, chunk + 100);
        }
        assert_eq!(ring.finish(|| false), Ok(()));
        assert!(lock(written).iter().all(|times| *times == 1));
    }

    #[test]
    fn two_copiers_write_the_chunks_of_one_slot_once() {
        check(|| {
            let ring = Ring::new([0], 2, 1, copiers(2));
            assert_eq!(written(ring, 2, 2, produce_all), [1, 1]);
        });
    }

    #[test]
    fn one_copier_writes_behind_a_producer_with_two_slots() {
        check(|| {
            let ring = Ring::new([0, 0], 3, 1, copiers(1));
            assert_eq!(written(ring, 1, 3, produce_all), [1, 1, 1]);
        });
    }

    #[test]
    fn copiers_that_rest_again_keep_no_producer_waiting() {
        check(|| {
            let adaptive = Copiers::Adaptive(NonZeroUsize::new(2).unwrap());
            let ring = Ring::new([0], 2, 1, adaptive);
            assert_eq!(written(ring, 2, 2, produce_all), [1, 1]);
        });
    }

    #[test]
    fn a_copier_that_stops_the_ring_leaves_no_producer_waiting() {
        check(|| {
            let ring = Arc::new(Ring::new([0], 2, 1, copiers(1)));
            let copier = {
                let ring = Arc::clone(&ring);
                loom::thread::spawn(move || {
                    if ring.take(0, || false).is_some() {
                        ring.stop(CopyError::CopierDied { copier: 0 });
                    }
                })
            };
            let (chunk, _) = ring.reserve(|| false).unwrap().unwrap();
            ring.fill(chunk, 100);
            let died = CopyError::CopierDied { copier: 0 };
            assert_eq!(ring.reserve(|| false), Err(died.clone()));
            assert_eq!(ring.finish(|| false), Err(died));
            copier.join().unwrap();
        });
    }

    #[test]
    fn a_producer_that_leaves_early_keeps_no_copier() {
        check(|| {
            let ring = Ring::new([0], 3, 1, copiers(2));
            let times = written(ring, 2, 3, |ring, _| {
                let (chunk, _) = ring.reserve(|| false).unwrap().unwrap();
                ring.fill(chunk, 100);
                ring.stop(CopyError::Abandoned);
            });
            assert!(times[0] <= 1 && times[1..] == [0, 0], "{times:?}");
        });
    }
}
