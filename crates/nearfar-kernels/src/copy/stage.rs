//! Whole buffers copied in a given order while the caller works.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::thread;

use super::active::Active;
use super::error::CopyError;
use super::fetch::{Fetch, Slices, fetch_pieces};
use super::options::{Copier, Copiers, CopyOptions};
use super::sync::{Condvar, Mutex, lock, wait};
use super::threads::start;
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
    /// Parts that somebody has waited for.
    asked: Vec<bool>,
    /// Parts from this one on are not begun, but for those that are needed.
    limit: usize,
    /// The part behind the last one that somebody has waited for.
    needed: usize,
    stopped: Option<CopyError>,
    active: Active,
}

impl Progress {
    /// Of parts with so many chunks each.
    fn new(chunks: Vec<usize>, copiers: Copiers) -> Self {
        Self {
            next: (0, 0),
            asked: vec![false; chunks.len()],
            limit: chunks.len(),
            needed: 0,
            left: chunks,
            stopped: None,
            active: Active::new(copiers),
        }
    }

    /// Somebody needs a part. Whether copiers go on that have rested.
    fn ask(&mut self, part: usize) -> bool {
        let is_first = !std::mem::replace(&mut self.asked[part], true);
        if self.left[part] == 0 {
            // Who asks again says nothing of how far ahead copies are.
            if is_first {
                self.active.spared();
            }
            return false;
        }
        let was_held = !self.is_due(part);
        self.needed = self.needed.max(part + 1);
        self.active.waited_for() | was_held
    }

    /// Whether a part may be begun.
    fn is_due(&self, part: usize) -> bool {
        part < self.limit.max(self.needed)
    }
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
        if progress.ask(part) {
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

    /// Parts from this one on are not begun until somebody sets a higher limit, or waits for them or for one behind
    /// them. Without a limit copiers go through all parts, as far ahead of those who wait as they are fast.
    pub fn limit(&self, part: usize) {
        lock(&self.progress).limit = part;
        self.changed.notify_all();
    }

    /// Copiers that work now.
    pub fn active_copiers(&self) -> usize {
        lock(&self.progress).active.count()
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
            if progress.active.has(copier) && progress.is_due(part) {
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
/// [`CopyError`] about options and parts, before anything is copied, and where a copier gets no thread: `work` is not
/// called then. What goes wrong later is told to those who wait.
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
/// [`CopyError`] about options, before anything is fetched, and where a copier gets no thread: `work` is not called
/// then. What goes wrong later, sources that are lost included, is told to those who wait.
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
    let progress = Progress::new(left, options.copiers);
    let parts = to.into_iter().map(|to| Part {
        bytes: to.len(),
        to: to.as_mut_ptr(),
        of: PhantomData,
    });
    let staged = Staged {
        parts: parts.collect(),
        progress: Mutex::new(progress),
        changed: Condvar::new(),
        chunk_bytes,
        cancel,
    };
    let (staged, fetch) = (&staged, &fetch);
    let copy = move |index| {
        let stops = Stops {
            staged,
            died: Some(index),
        };
        staged.copy(index, &mut fetch(index));
        drop(stops);
    };
    thread::scope(|scope| {
        let copies = (0..options.copiers.threads()).map(|index| move || copy(index));
        let (copiers, started) = start(scope, "copier", copies);
        let stops = Stops { staged, died: None };
        let result = started.map(|()| work(staged));
        drop(stops);
        for copier in copiers {
            // Those who waited were told of one that died.
            let _ = copier.join();
        }
        result
    })
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::fetch::FetchError;
    use super::super::sync::Arc;
    use super::*;
    use std::num::NonZeroUsize;

    const CHUNK_BYTES: usize = 2;

    fn fixed(count: usize) -> Copiers {
        Copiers::Fixed(NonZeroUsize::new(count).unwrap())
    }

    fn adaptive(count: usize) -> Copiers {
        Copiers::Adaptive(NonZeroUsize::new(count).unwrap())
    }

    /// Parts of so many bytes, in memory that outlives the model's threads.
    fn parts(lengths: &[usize], copiers: Copiers) -> Arc<Staged<'static>> {
        let part = |bytes: &usize| Part {
            to: vec![0_u8; *bytes].leak().as_mut_ptr(),
            bytes: *bytes,
            of: PhantomData,
        };
        let chunks = lengths.iter().map(|bytes| bytes.div_ceil(CHUNK_BYTES));
        Arc::new(Staged {
            parts: lengths.iter().map(part).collect(),
            progress: Mutex::new(Progress::new(chunks.collect(), copiers)),
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
            let staged = parts(&[3, 2], fixed(2));
            let copiers = [0, 1].map(|copier| copies(&staged, copier, None));
            assert_eq!(staged.wait(1), Ok(&[2, 2][..]));
            assert_eq!(staged.wait(0), Ok(&[1, 1, 1][..]));
            copiers.map(|copier| copier.join().unwrap());
        });
    }

    #[test]
    fn who_waits_wakes_copiers_that_rest() {
        check(|| {
            let staged = parts(&[2, 2], adaptive(2));
            // Only the second one, which rests at first.
            let copier = copies(&staged, 1, None);
            assert_eq!(staged.wait(0), Ok(&[1, 1][..]));
            end(&staged, copier);
        });
    }

    /// Ends a copier that may rest, as work that has ended does.
    fn end(staged: &Staged<'_>, copier: loom::thread::JoinHandle<()>) {
        staged.stop(CopyError::Abandoned);
        copier.join().unwrap();
    }

    #[test]
    fn copiers_that_rest_again_keep_nobody_waiting() {
        check(|| {
            let staged = parts(&[2, 2, 2], adaptive(2));
            let copiers = [0, 1].map(|copier| copies(&staged, copier, None));
            for part in 0..3 {
                assert_eq!(staged.wait(part), Ok(&[part as u8 + 1; 2][..]));
            }
            assert!((1..=2).contains(&staged.active_copiers()));
            copiers.map(|copier| copier.join().unwrap());
        });
    }

    #[test]
    fn parts_behind_the_limit_are_copied_for_who_waits_or_when_it_is_raised() {
        check(|| {
            let staged = parts(&[2, 2, 2], fixed(1));
            staged.limit(0);
            let copier = copies(&staged, 0, None);
            assert_eq!(staged.wait(0), Ok(&[1, 1][..]));
            staged.limit(3);
            assert_eq!(staged.wait(2), Ok(&[3, 3][..]));
            copier.join().unwrap();
        });
    }

    #[test]
    fn a_copier_whose_source_is_lost_leaves_nobody_waiting() {
        check(|| {
            let staged = parts(&[2, 2], fixed(2));
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
            let staged = parts(&[2, 2], adaptive(2));
            // It rests, and nobody will wake it by waiting.
            let copier = copies(&staged, 1, None);
            end(&staged, copier);
        });
    }
}
