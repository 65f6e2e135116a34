//! Whole buffers copied in a given order while the caller works.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::thread;

use super::error::CopyError;
use super::options::{Copier, CopyCancel, CopyOptions, copy_pieces};
use super::sync::{Condvar, Mutex, lock, wait};

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
    from: &'a [u8],
    to: *mut u8,
    of: PhantomData<&'a mut [u8]>,
}

/// Parts that are being copied.
pub struct Staged<'a> {
    parts: Vec<Part<'a>>,
    progress: Mutex<Progress>,
    changed: Condvar,
    chunk_bytes: usize,
    cancel: &'a CopyCancel,
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
                return Ok(unsafe { std::slice::from_raw_parts(part.to, part.from.len()) });
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
            while part < self.parts.len() && chunk * self.chunk_bytes >= self.parts[part].from.len()
            {
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

    fn copy(&self, index: usize, copier: &mut impl Copier) {
        while let Some((part, chunk)) = self.claim(index) {
            let Part { from, to, .. } = &self.parts[part];
            let begin = chunk * self.chunk_bytes;
            let from = &from[begin..from.len().min(begin + self.chunk_bytes)];
            // SAFETY: within the destination, which is as long as the source, and `claim` gives every chunk
            // once, so that nobody else has these bytes before they are counted as copied.
            let to = unsafe { std::slice::from_raw_parts_mut(to.add(begin), from.len()) };
            if !copy_pieces(copier, from, to, self.cancel) {
                return self.stop(CopyError::Cancelled);
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
    cancel: &CopyCancel,
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
    let chunk_bytes = options.chunk_bytes;
    let left = parts
        .iter()
        .map(|part| part.from.len().div_ceil(chunk_bytes))
        .collect();
    let parts = parts.into_iter().map(|part| Part {
        from: part.from,
        to: part.to.as_mut_ptr(),
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
    let (staged, copier) = (&staged, &copier);
    Ok(thread::scope(|scope| {
        let copiers: Vec<_> = (0..options.copiers.threads())
            .map(|index| {
                scope.spawn(move || {
                    let stops = Stops {
                        staged,
                        died: Some(index),
                    };
                    staged.copy(index, &mut copier(index));
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
