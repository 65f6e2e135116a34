//! Whole buffers copied in a given order while the caller works.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::thread;

use super::error::CopyError;
use super::fetch::{Fetch, Slices, fetch_pieces};
use super::options::{Copier, CopyOptions};
use super::sync::{Condvar, Mutex, lock, wait};
use crate::cancel::Cancel;

/// What is copied, and to where: as many bytes.
#[derive(Debug)]
pub struct StagePart<'a> {
    /// The source.
    pub from: &'a [u8],
    /// The destination, on another tier.
    pub to: &'a mut [u8],
}

/// A part whose destination is handed out in pieces.
struct Part<'a> {
    to: *mut u8,
    bytes: usize,
    of: PhantomData<&'a mut [u8]>,
}

/// Parts that are being copied.
pub struct Staged<'a> {
    parts: Vec<Part<'a>>,
    progress: Mutex<Progress>,
    changed: Condvar,
    chunk_bytes: usize,
    cancel: &'a Cancel,
}

// SAFETY: destinations are exclusive to `Staged`, which hands out each chunk of them once to be written, and
// whole ones to be read only after all of their chunks were written.
unsafe impl Sync for Staged<'_> {}

struct Progress {
    /// The next chunk to be copied: its part, and its number there.
    next: (usize, usize),
    /// Chunks of each part that were not copied yet.
    left: Vec<usize>,
    stopped: Option<CopyError>,
    active: usize,
    copiers: usize,
}

impl Staged<'_> {
    /// The destination of a part, once all of it was copied.
    ///
    /// # Errors
    /// [`CopyError`], within 100 ms of what it tells of.
    ///
    /// # Panics
    /// Where there is no such part.
    pub fn wait(&self, part: usize) -> Result<&[u8], CopyError> {
        let mut progress = lock(&self.progress);
        if progress.left[part] > 0 && progress.active < progress.copiers {
            progress.active += 1;
            self.changed.notify_all();
        }
        loop {
            if progress.left[part] == 0 {
                let part = &self.parts[part];
                // SAFETY: all chunks of the part were written, by threads that have locked `progress` after
                // that, and none is handed out again.
                return Ok(unsafe { std::slice::from_raw_parts(part.to, part.bytes) });
            }
            if self.cancel.is_cancelled() {
                progress.stopped.get_or_insert(CopyError::Cancelled);
                self.changed.notify_all();
            }
            if let Some(reason) = &progress.stopped {
                return Err(reason.clone());
            }
            progress = wait(&self.changed, progress);
        }
    }

    /// Copiers that work now.
    pub fn active_copiers(&self) -> usize {
        lock(&self.progress).active
    }

    fn stop(&self, reason: CopyError) {
        lock(&self.progress).stopped.get_or_insert(reason);
        self.changed.notify_all();
    }

    /// The next chunk that nobody copies yet.
    fn claim(&self, copier: usize) -> Option<(usize, usize)> {
        let mut progress = lock(&self.progress);
        loop {
            if self.cancel.is_cancelled() {
                progress.stopped.get_or_insert(CopyError::Cancelled);
                self.changed.notify_all();
            }
            let (mut part, mut chunk) = progress.next;
            while part < self.parts.len() && chunk * self.chunk_bytes >= self.parts[part].bytes {
                (part, chunk) = (part + 1, 0);
            }
            if progress.stopped.is_some() || part == self.parts.len() {
                return None;
            }
            if copier < progress.active {
                progress.next = (part, chunk + 1);
                return Some((part, chunk));
            }
            progress = wait(&self.changed, progress);
        }
    }

    fn copy(&self, index: usize, fetch: &mut impl Fetch) {
        while let Some((part, chunk)) = self.claim(index) {
            let Part { to, bytes, .. } = &self.parts[part];
            let begin = chunk * self.chunk_bytes;
            let length = self.chunk_bytes.min(bytes - begin);
            // SAFETY: within the destination, since `claim` gives no chunk behind its end, and it gives every
            // chunk once, so that nobody else has these bytes before they are counted as copied.
            let to = unsafe { std::slice::from_raw_parts_mut(to.add(begin), length) };
            if let Err(reason) = fetch_pieces(fetch, part, begin, to, self.cancel) {
                return self.stop(reason);
            }
            let mut progress = lock(&self.progress);
            progress.left[part] -= 1;
            if progress.left[part] == 0 {
                self.changed.notify_all();
            }
        }
    }
}

/// Stops all others if a copier dies, or if the work has ended.
struct Stops<'a, 'b> {
    staged: &'a Staged<'b>,
    died: Option<usize>,
}

impl Drop for Stops<'_, '_> {
    fn drop(&mut self) {
        match self.died {
            Some(copier) if thread::panicking() => {
                self.staged.stop(CopyError::CopierDied { copier });
            }
            Some(_) => {}
            None => self.staged.stop(CopyError::Abandoned),
        }
    }
}

/// Copies all `parts` in their order by the copiers that `copier` makes on their threads, while `work` runs,
/// which waits for the parts that it needs. What it has not waited for when it ends may not be copied.
///
/// ```
/// use nearfar_kernels::copy::{CopyCancel, CopyMethod, CopyOptions, MethodCopier, StagePart, staged};
///
/// let (far, mut near) = (vec![7_u8; 100_000], vec![0; 100_000]);
/// let copier = MethodCopier::new(CopyMethod::Cached)?;
/// let parts = vec![StagePart { from: &far, to: &mut near }];
/// let last = staged(parts, CopyOptions::default(), &CopyCancel::default(), |_| copier, |staged| {
///     staged.wait(0).map(|near| near[99_999])
/// })?;
/// assert_eq!(last, Ok(7));
/// # Ok::<(), nearfar_kernels::copy::CopyError>(())
/// ```
///
/// # Errors
/// [`CopyError`] about options and parts, before anything is copied. What goes wrong later is told to those
/// who wait.
///
/// # Panics
/// With the panic of `work`.
pub fn staged<C: Copier, R>(
    parts: Vec<StagePart<'_>>,
    options: CopyOptions,
    cancel: &Cancel,
    copier: impl Fn(usize) -> C + Sync,
    work: impl FnOnce(&Staged<'_>) -> R,
) -> Result<R, CopyError> {
    options.check()?;
    let lengths = parts.iter().map(|part| (part.from.len(), part.to.len()));
    if let Some((part, (from_bytes, to_bytes))) =
        lengths.enumerate().find(|(_, (from, to))| from != to)
    {
        return Err(CopyError::PartLength {
            part,
            from_bytes,
            to_bytes,
        });
    }
    let (from, to): (Vec<&[u8]>, Vec<&mut [u8]>) =
        parts.into_iter().map(|part| (part.from, part.to)).unzip();
    let slices = |index| Slices {
        parts: &from,
        copier: copier(index),
    };
    staged_from(to, options, cancel, slices, work)
}

/// As [`staged`], of a source that is no slice, with as many parts as there are destinations `to`, each as long as
/// its own: `fetch` makes what the copier with this number reads them by, on its thread.
///
/// # Errors
/// [`CopyError`] about options, before anything is fetched. What goes wrong later, sources that are lost included,
/// is told to those who wait.
///
/// # Panics
/// With the panic of `work`.
pub fn staged_from<S: Fetch, R>(
    to: Vec<&mut [u8]>,
    options: CopyOptions,
    cancel: &Cancel,
    fetch: impl Fn(usize) -> S + Sync,
    work: impl FnOnce(&Staged<'_>) -> R,
) -> Result<R, CopyError> {
    options.check()?;
    let chunk_bytes = options.chunk_bytes;
    let left = to.iter().map(|to| to.len().div_ceil(chunk_bytes)).collect();
    let parts = to.into_iter().map(|to| Part {
        bytes: to.len(),
        to: to.as_mut_ptr(),
        of: PhantomData,
    });
    let staged = Staged {
        parts: parts.collect(),
        progress: Mutex::new(Progress {
            next: (0, 0),
            left,
            stopped: None,
            active: options.copiers.active_at_first(),
            copiers: options.copiers.threads(),
        }),
        changed: Condvar::new(),
        chunk_bytes,
        cancel,
    };
    let (staged, fetch) = (&staged, &fetch);
    Ok(thread::scope(|scope| {
        let copiers: Vec<_> = (0..options.copiers.threads())
            .map(|index| {
                scope.spawn(move || {
                    let stops = Stops {
                        staged,
                        died: Some(index),
                    };
                    staged.copy(index, &mut fetch(index));
                    drop(stops);
                })
            })
            .collect();
        let stops = Stops { staged, died: None };
        let result = work(staged);
        drop(stops);
        for copier in copiers {
            // Those who waited were told of one that died.
            let _ = copier.join();
        }
        result
    }))
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::fetch::FetchError;
    use super::super::sync::Arc;
    use super::*;

    const CHUNK_BYTES: usize = 2;

    /// Parts of so many bytes, in memory that outlives the model's threads.
    fn parts(lengths: &[usize], copiers: usize) -> Arc<Staged<'static>> {
        let part = |bytes: &usize| Part {
            to: vec![0_u8; *bytes].leak().as_mut_ptr(),
            bytes: *bytes,
            of: PhantomData,
        };
        Arc::new(Staged {
            parts: lengths.iter().map(part).collect(),
            progress: Mutex::new(Progress {
                next: (0, 0),
                left: lengths
                    .iter()
                    .map(|bytes| bytes.div_ceil(CHUNK_BYTES))
                    .collect(),
                stopped: None,
                active: copiers,
                copiers,
            }),
            changed: Condvar::new(),
            chunk_bytes: CHUNK_BYTES,
            cancel: Box::leak(Box::default()),
        })
    }

    /// Gives the number of the part, or is lost.
    struct Numbers {
        lost_part: Option<usize>,
    }

    impl Fetch for Numbers {
        fn fetch(&mut self, part: usize, _: usize, to: &mut [u8]) -> Result<(), FetchError> {
            if self.lost_part == Some(part) {
                return Err(FetchError::new("lost"));
            }
            to.fill(part as u8 + 1);
            Ok(())
        }
    }

    fn copies(
        staged: &Arc<Staged<'static>>,
        copier: usize,
        lost_part: Option<usize>,
    ) -> loom::thread::JoinHandle<()> {
        let staged = Arc::clone(staged);
        loom::thread::spawn(move || staged.copy(copier, &mut Numbers { lost_part }))
    }

    fn check(model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(model);
    }

    #[test]
    fn two_copiers_and_who_waits_see_whole_parts() {
        check(|| {
            let staged = parts(&[3, 2], 2);
            let copiers = [0, 1].map(|copier| copies(&staged, copier, None));
            assert_eq!(staged.wait(1), Ok(&[2, 2][..]));
            assert_eq!(staged.wait(0), Ok(&[1, 1, 1][..]));
            copiers.map(|copier| copier.join().unwrap());
        });
    }

    #[test]
    fn who_waits_wakes_copiers_that_rest() {
        check(|| {
            let staged = parts(&[2, 2], 2);
            lock(&staged.progress).active = 0;
            let copier = copies(&staged, 0, None);
            assert_eq!(staged.wait(0), Ok(&[1, 1][..]));
            assert_eq!(staged.wait(1), Ok(&[2, 2][..]));
            copier.join().unwrap();
        });
    }

    #[test]
    fn a_copier_whose_source_is_lost_leaves_nobody_waiting() {
        check(|| {
            let staged = parts(&[2, 2], 2);
            let copiers = [0, 1].map(|copier| copies(&staged, copier, Some(1)));
            assert_eq!(
                staged.wait(1),
                Err(CopyError::Fetch(FetchError::new("lost")))
            );
            copiers.map(|copier| copier.join().unwrap());
        });
    }

    #[test]
    fn work_that_ends_early_ends_copiers() {
        check(|| {
            let staged = parts(&[2, 2], 1);
            // It rests, and nobody will wake it by waiting.
            lock(&staged.progress).active = 0;
            let copier = copies(&staged, 0, None);
            staged.stop(CopyError::Abandoned);
            copier.join().unwrap();
        });
    }
}
