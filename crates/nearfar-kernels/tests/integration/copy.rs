//! Copies between tiers: every byte once, in order, and nobody waits for ever.

mod outgoing;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nearfar_kernels::copy::{
    Chunks, Copier, Copiers, CopyCancel, CopyError, CopyMethod, CopyOptions, Fetch, FetchError,
    MethodCopier, StagePart, staged, staged_from, streamed, streamed_from,
};
use proptest::prelude::*;

type Buffer = Vec<u8>;

fn options(chunk_bytes: usize, copiers: usize) -> CopyOptions {
    CopyOptions {
        chunk_bytes,
        copiers: Copiers::Fixed(NonZeroUsize::new(copiers).unwrap()),
    }
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length)
        .map(|byte| (byte * 31) as u8 ^ (byte >> 5) as u8)
        .collect()
}

fn native(_: usize) -> MethodCopier {
    let has_streams = CopyMethod::NonTemporal.check().is_ok();
    let method = [CopyMethod::Cached, CopyMethod::NonTemporal][usize::from(has_streams)];
    MethodCopier::new(method).unwrap()
}

/// Counts what it copies.
struct Counting<'a>(&'a AtomicUsize);

impl Copier for Counting<'_> {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        self.0.fetch_add(from.len(), Ordering::Relaxed);
        to.copy_from_slice(from);
    }
}

/// Panics at its first piece, or takes long for each, or no time.
enum Bad {
    Dies,
    TakesLong,
    TakesNone,
}

impl Copier for Bad {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        match self {
            Self::Dies => panic!("a copier that dies"),
            Self::TakesLong => thread::sleep(Duration::from_millis(5)),
            Self::TakesNone => {}
        }
        to.copy_from_slice(from);
    }
}

/// Cancels in its third piece, and counts the pieces that are begun after somebody has.
struct Cancels<'a> {
    cancel: &'a CopyCancel,
    begun: usize,
    late: &'a AtomicUsize,
}

impl Copier for Cancels<'_> {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        let is_late = self.cancel.is_cancelled();
        self.late.fetch_add(usize::from(is_late), Ordering::Relaxed);
        self.begun += 1;
        if self.begun == 3 {
            self.cancel.cancel();
        }
        to.copy_from_slice(from);
    }
}

fn collect(chunks: &mut Chunks<'_, Buffer>) -> Result<Vec<u8>, CopyError> {
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next_chunk()? {
        all.extend_from_slice(&chunk);
    }
    Ok(all)
}

fn assert_streamed(length: usize, options: CopyOptions, depth: usize, consumers: usize) {
    let far = bytes(length);
    let copied = AtomicUsize::new(0);
    let buffers = vec![vec![0; options.chunk_bytes]; depth];
    let cancel = CopyCancel::default();
    let found = streamed(
        &far,
        buffers,
        options,
        &cancel,
        |_| Counting(&copied),
        vec![collect; consumers],
    );
    for found in found.unwrap() {
        assert!(found.unwrap() == far);
    }
    assert_eq!(copied.into_inner(), length, "shared chunks are copied once");
}

#[test]
fn chunks_that_do_not_divide_and_one_slot() {
    for length in [0, 1, 63, 64, 65, 1000, 4096] {
        for (copiers, depth, consumers) in [(1, 1, 1), (3, 1, 2), (1, 4, 3), (5, 2, 4)] {
            assert_streamed(length, options(64, copiers), depth, consumers);
        }
    }
}

#[test]
fn a_consumer_that_leaves_early_holds_nobody_up() {
    let far = bytes(10_000);
    let buffers = vec![vec![0; 64]; 2];
    let leaves = |chunks: &mut Chunks<'_, Buffer>, after: usize| {
        let mut read = 0;
        while read < after
            && let Some(_chunk) = chunks.next_chunk().unwrap()
        {
            read += 1;
        }
        read
    };
    let consumers: Vec<_> = [3, usize::MAX, 0]
        .into_iter()
        .map(|after| move |chunks: &mut Chunks<'_, Buffer>| leaves(chunks, after))
        .collect();
    let cancel = CopyCancel::default();
    let read = streamed(
        &far,
        buffers.clone(),
        options(64, 2),
        &cancel,
        native,
        consumers,
    )
    .unwrap();
    assert_eq!(read, [3, 157, 0]);
    let all_leave = vec![|chunks: &mut Chunks<'_, Buffer>| leaves(chunks, 2)];
    let read = streamed(&far, buffers, options(64, 2), &cancel, native, all_leave);
    assert_eq!(read, Ok(vec![2]));
}

#[test]
fn copiers_that_die_are_told_of_and_nobody_hangs() {
    let far = bytes(10_000);
    let began = Instant::now();
    let buffers = vec![vec![0; 64]; 2];
    let cancel = CopyCancel::default();
    let dies = |index| {
        if index == 1 {
            Bad::Dies
        } else {
            Bad::TakesLong
        }
    };
    let found = streamed(
        &far,
        buffers,
        options(64, 2),
        &cancel,
        dies,
        vec![collect; 2],
    );
    let died = Err(CopyError::CopierDied { copier: 1 });
    assert_eq!(found, Ok(vec![died.clone(), died]));
    let mut near = vec![0; 10_000];
    let parts = vec![StagePart {
        from: &far,
        to: &mut near,
    }];
    let found = staged(parts, options(64, 2), &cancel, dies, |staged| {
        staged.wait(0).map(<[u8]>::len)
    });
    assert_eq!(found, Ok(Err(CopyError::CopierDied { copier: 1 })));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn cancelling_ends_waits_and_copies() {
    // 4 MiB in one chunk take 80 ms here, piece by piece, and all of it would take minutes.
    let far = vec![0; 64 << 20];
    let cancel = CopyCancel::default();
    let cancels = cancel.clone();
    let canceller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(30));
        let cancelled = Instant::now();
        cancels.cancel();
        cancelled
    });
    let buffers = vec![vec![0; 4 << 20]; 2];
    let slow = |_| Bad::TakesLong;
    let found = streamed(
        &far,
        buffers,
        options(4 << 20, 1),
        &cancel,
        slow,
        vec![collect],
    );
    let cancelled = canceller.join().unwrap();
    assert_eq!(found, Ok(vec![Err(CopyError::Cancelled)]));
    assert!(
        cancelled.elapsed() < Duration::from_secs(2),
        "it took {:?}",
        cancelled.elapsed()
    );
    let mut near = vec![0; far.len()];
    let parts = vec![StagePart {
        from: &far,
        to: &mut near,
    }];
    let found = staged(parts, options(64, 1), &cancel, slow, |staged| {
        staged.wait(0).map(<[u8]>::len)
    });
    assert_eq!(found, Ok(Err(CopyError::Cancelled)));
}

#[test]
fn a_copier_begins_no_more_than_the_piece_that_it_had_when_it_was_cancelled() {
    // Chunks of one piece, and of four, which take minutes under Miri.
    let sizes = [(64, 64 * 200), (1 << 20, 12 << 20)];
    for (chunk_bytes, length) in sizes.into_iter().take(if cfg!(miri) { 1 } else { 2 }) {
        for copiers in [1, 3] {
            let far = bytes(length);
            let late = AtomicUsize::new(0);
            let cancel = CopyCancel::default();
            let cancels = |_| Cancels {
                cancel: &cancel,
                begun: 0,
                late: &late,
            };
            let buffers = vec![vec![0; chunk_bytes]; 4];
            let options = options(chunk_bytes, copiers);
            let found = streamed(&far, buffers, options, &cancel, cancels, vec![collect; 2]);
            assert_eq!(found.unwrap(), [const { Err(CopyError::Cancelled) }; 2]);
            assert!(late.load(Ordering::Relaxed) < copiers, "{late:?}");

            let (late, cancel) = (AtomicUsize::new(0), CopyCancel::default());
            let cancels = |_| Cancels {
                cancel: &cancel,
                begun: 0,
                late: &late,
            };
            let mut near = vec![0; length];
            let parts = vec![StagePart {
                from: &far,
                to: &mut near,
            }];
            let found = staged(parts, options, &cancel, cancels, |staged| {
                staged.wait(0).map(<[u8]>::len)
            });
            assert_eq!(found, Ok(Err(CopyError::Cancelled)));
            assert!(late.load(Ordering::Relaxed) < copiers, "{late:?}");
        }
    }
}

/// The bound of the module's documentation.
const CANCELLED_IN: Duration = Duration::from_millis(100);

/// How long `copy` goes on after it was cancelled from outside, at least of five times: other programs that run make
/// single ones longer, and no copy that waits for more than it may is ever fast.
fn ends_after_cancel(copy: impl Fn(&CopyCancel)) -> Duration {
    let once = || {
        let cancel = CopyCancel::default();
        let cancels = cancel.clone();
        let canceller = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            let cancelled = Instant::now();
            cancels.cancel();
            cancelled
        });
        copy(&cancel);
        canceller.join().unwrap().elapsed()
    };
    (0..5).map(|_| once()).min().unwrap()
}

#[test]
#[cfg_attr(miri, ignore = "times are Miri's own there")]
fn copies_and_waits_end_within_the_bound() {
    // A chunk of 64 MiB is 256 pieces of 5 ms.
    let far = vec![0; 64 << 20];
    let slow = |_| Bad::TakesLong;
    let streams = ends_after_cancel(|cancel| {
        let buffers = vec![vec![0; far.len()]];
        let options = options(far.len(), 1);
        let found = streamed(&far, buffers, options, cancel, slow, vec![collect]);
        assert_eq!(found, Ok(vec![Err(CopyError::Cancelled)]));
    });
    assert!(streams < CANCELLED_IN, "{streams:?}");
    let stages = ends_after_cancel(|cancel| {
        let mut near = vec![0; far.len()];
        let parts = vec![StagePart {
            from: &far,
            to: &mut near,
        }];
        let found = staged(parts, options(far.len(), 1), cancel, slow, |staged| {
            staged.wait(0).map(<[u8]>::len)
        });
        assert_eq!(found, Ok(Err(CopyError::Cancelled)));
    });
    assert!(stages < CANCELLED_IN, "{stages:?}");
}

#[test]
fn more_copiers_than_cores_copy_every_byte_once() {
    let cores = thread::available_parallelism().unwrap().get();
    let copiers = 4 * cores + 3;
    let long = if cfg!(miri) { 2_000 } else { 100_000 };
    for (length, consumers) in [(0, 1), (64, 2), (long, 3)] {
        assert_streamed(length, options(64, copiers), 2 * copiers, consumers);
        assert_streamed(length, options(64, copiers), 1, consumers);
        let far = bytes(length);
        let copied = AtomicUsize::new(0);
        let mut near = vec![0; length];
        let parts = vec![StagePart {
            from: &far,
            to: &mut near,
        }];
        let (options, cancel) = (options(64, copiers), CopyCancel::default());
        let found = staged(
            parts,
            options,
            &cancel,
            |_| Counting(&copied),
            |staged| staged.wait(0).map(<[u8]>::to_vec),
        );
        assert_eq!(found, Ok(Ok(far)));
        assert_eq!(copied.into_inner(), length);
    }
}

#[test]
fn adaptive_copiers_work_as_many_as_are_waited_for() {
    let far = bytes(100_000);
    let adaptive = CopyOptions {
        chunk_bytes: 64,
        copiers: Copiers::Adaptive(NonZeroUsize::new(4).unwrap()),
    };
    let run = |pause: Duration, copier: fn(usize) -> Bad| {
        let consumer = move |chunks: &mut Chunks<'_, Buffer>| {
            let (mut active_max, mut read) = (0, 0);
            while read < 40 && chunks.next_chunk().unwrap().is_some() {
                read += 1;
                thread::sleep(pause);
                active_max = active_max.max(chunks.active_copiers());
            }
            (active_max, chunks.active_copiers())
        };
        let buffers = vec![vec![0; 64]; 8];
        let cancel = CopyCancel::default();
        streamed(&far, buffers, adaptive, &cancel, copier, vec![consumer]).unwrap()[0]
    };
    let (waited_for, _) = run(Duration::ZERO, |_| Bad::TakesLong);
    assert!(waited_for > 1, "{waited_for}");
    // Copiers take no time, and wait for chunks that are free.
    let (_, at_last) = run(Duration::from_millis(5), |_| Bad::TakesNone);
    assert_eq!(at_last, 1);
    assert_streamed(if cfg!(miri) { 2_000 } else { 50_000 }, adaptive, 3, 2);
}

/// Takes long for parts that begin with a 1, and counts the bytes of all.
struct SlowParts<'a>(&'a [Vec<u8>], &'a AtomicUsize);

impl Fetch for SlowParts<'_> {
    fn fetch(&mut self, part: usize, offset: usize, to: &mut [u8]) -> Result<(), FetchError> {
        let from = &self.0[part];
        if from[0] == 1 {
            thread::sleep(Duration::from_millis(10));
        }
        to.copy_from_slice(&from[offset..][..to.len()]);
        self.1.fetch_add(to.len(), Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn copiers_of_whole_buffers_become_more_and_fewer() {
    // Copies of the first parts take long, and those of the rest none.
    let sources: Vec<Vec<u8>> = (0..24).map(|part| vec![u8::from(part < 8); 256]).collect();
    let run = |copiers| {
        let mut copies = vec![vec![0; 256]; sources.len()];
        let to = copies.iter_mut().map(|copy| &mut copy[..]).collect();
        let options = CopyOptions {
            chunk_bytes: 64,
            copiers,
        };
        let cancel = CopyCancel::default();
        let copied = AtomicUsize::new(0);
        let fetch = |_| SlowParts(&sources, &copied);
        let counts = staged_from(to, options, &cancel, fetch, |staged| {
            let after = |part: usize| {
                assert_eq!(staged.wait(part), Ok(&sources[part][..]));
                staged.active_copiers()
            };
            let while_slow = (0..8).map(after).max().unwrap();
            // Copies run ahead.
            while copied.load(Ordering::Relaxed) < 24 * 256 {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(50));
            let at_last = (8..24).map(after).last().unwrap();
            // Who waits for parts again that are there tells nothing.
            (0..24).for_each(|part| assert_eq!(after(part), at_last));
            (while_slow, at_last)
        });
        assert_eq!(copies, sources);
        counts.unwrap()
    };
    let count = NonZeroUsize::new(3).unwrap();
    assert_eq!(run(Copiers::Adaptive(count)), (3, 1));
    assert_eq!(run(Copiers::Fixed(count)), (3, 3));
}

#[test]
fn parts_behind_a_limit_are_not_begun() {
    let sources: Vec<Vec<u8>> = (0..6).map(|part| bytes(1000 + part)).collect();
    let mut copies: Vec<Vec<u8>> = sources.iter().map(|from| vec![0; from.len()]).collect();
    let begun = AtomicUsize::new(0);
    struct Begins<'a>(&'a [Vec<u8>], &'a AtomicUsize);
    impl Fetch for Begins<'_> {
        fn fetch(&mut self, part: usize, offset: usize, to: &mut [u8]) -> Result<(), FetchError> {
            self.1.fetch_max(part + 1, Ordering::Relaxed);
            to.copy_from_slice(&self.0[part][offset..][..to.len()]);
            Ok(())
        }
    }
    // The copier is not made before the limit is set.
    let is_set = std::sync::Barrier::new(2);
    let fetch = |_| {
        is_set.wait();
        Begins(&sources, &begun)
    };
    let to = copies.iter_mut().map(|copy| &mut copy[..]).collect();
    let cancel = CopyCancel::default();
    staged_from(to, options(64, 1), &cancel, fetch, |staged| {
        staged.limit(2);
        is_set.wait();
        assert_eq!(staged.wait(1), Ok(&sources[1][..]));
        thread::sleep(Duration::from_millis(50));
        assert_eq!(begun.load(Ordering::Relaxed), 2);
        staged.limit(4);
        while begun.load(Ordering::Relaxed) < 4 {
            thread::yield_now();
        }
        // Who waits for a part behind the limit gets it.
        assert_eq!(staged.wait(4), Ok(&sources[4][..]));
        assert_eq!(begun.load(Ordering::Relaxed), 5);
    })
    .unwrap();
    assert_eq!(copies[..5], sources[..5]);
    assert_eq!(copies[5], [0; 1005]);
}

#[test]
fn parts_are_there_in_their_order_and_in_both_directions() {
    let sources: Vec<Vec<u8>> = [0, 1, 700, 64, 5000].map(bytes).into();
    for copiers in [1, 3] {
        let mut copies: Vec<Vec<u8>> = sources.iter().map(|from| vec![0; from.len()]).collect();
        let parts = sources.iter().zip(&mut copies);
        let parts = parts.map(|(from, to)| StagePart { from, to }).collect();
        let cancel = CopyCancel::default();
        let all = staged(parts, options(64, copiers), &cancel, native, |staged| {
            (0..sources.len()).all(|part| staged.wait(part) == Ok(&sources[part][..]))
        });
        assert_eq!(all, Ok(true));
        assert_eq!(copies, sources);
    }
}

#[test]
fn what_cannot_be_copied_is_refused_before_anything_is() {
    let cancel = CopyCancel::default();
    let refused = |chunk_bytes, buffers: Vec<Buffer>, consumers: usize| {
        let consumers = vec![collect; consumers];
        streamed(
            &[1; 100],
            buffers,
            options(chunk_bytes, 1),
            &cancel,
            native,
            consumers,
        )
        .unwrap_err()
    };
    let chunk = || vec![vec![0; 64]; 2];
    assert_eq!(
        refused(0, chunk(), 1),
        CopyError::ChunkBytes { chunk_bytes: 0 }
    );
    assert_eq!(
        refused(100, chunk(), 1),
        CopyError::ChunkBytes { chunk_bytes: 100 }
    );
    assert_eq!(refused(64, chunk(), 0), CopyError::NoConsumer);
    assert!(matches!(
        refused(64, vec![], 1),
        CopyError::Buffer { buffers: 0, .. }
    ));
    assert!(matches!(
        refused(128, chunk(), 1),
        CopyError::Buffer { bytes: 64, .. }
    ));
    let mut near = vec![0; 99];
    let parts = vec![StagePart {
        from: &[1; 100],
        to: &mut near,
    }];
    let refused = staged(parts, options(64, 1), &cancel, native, |_| ());
    assert!(matches!(
        refused,
        Err(CopyError::PartLength { part: 0, .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 32 }))]

    #[test]
    fn every_byte_is_copied_once_in_order(
        length in 0..20_000_usize,
        lines in 1..40_usize,
        (copiers, depth, consumers) in (1..6_usize, 1..6_usize, 1..4_usize),
    ) {
        assert_streamed(length, options(lines * 64, copiers), depth, consumers);
    }
}

/// A source whose bytes are computed, and which is lost from an offset on.
struct Computed {
    lost_at: usize,
}

fn computed(part: usize, offset: usize) -> u8 {
    (part * 31 + offset * 7) as u8
}

impl Fetch for Computed {
    fn fetch(&mut self, part: usize, offset: usize, to: &mut [u8]) -> Result<(), FetchError> {
        if offset + to.len() > self.lost_at {
            return Err(FetchError::new("host b, region 1: lost"));
        }
        for (index, byte) in to.iter_mut().enumerate() {
            *byte = computed(part, offset + index);
        }
        Ok(())
    }
}

fn whole(_: usize) -> Computed {
    let lost_at = usize::MAX;
    Computed { lost_at }
}

#[test]
fn sources_that_are_no_slices_are_streamed_and_staged() {
    let cancel = CopyCancel::default();
    let consume = |chunks: &mut Chunks<'_, Vec<u8>>| {
        let mut all = Vec::new();
        while let Some(chunk) = chunks.next_chunk().unwrap() {
            all.extend_from_slice(&chunk);
        }
        all
    };
    for length in [0, 1, 63, 64, 65, 1000] {
        let expected: Vec<u8> = (0..length).map(|at| computed(0, at)).collect();
        let buffers = vec![vec![0; 64]; 3];
        let found = streamed_from(
            length,
            buffers,
            options(64, 2),
            &cancel,
            whole,
            vec![consume; 2],
        );
        assert_eq!(found.unwrap(), [expected.clone(), expected]);
        let (mut one, mut two) = (vec![0; length], vec![0; 77]);
        let to = vec![&mut one[..], &mut two[..]];
        staged_from(to, options(64, 2), &cancel, whole, |staged| {
            let second = staged.wait(1).unwrap();
            assert!((0..77).all(|at| second[at] == computed(1, at)));
            let first = staged.wait(0).unwrap();
            assert!((0..length).all(|at| first[at] == computed(0, at)));
        })
        .unwrap();
    }
}

#[test]
fn a_source_that_is_lost_is_told_by_its_name() {
    let cancel = CopyCancel::default();
    let lost = |_| Computed { lost_at: 300 };
    let consume = |chunks: &mut Chunks<'_, Vec<u8>>| loop {
        match chunks.next_chunk() {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) => return Some(error.to_string()),
        }
    };
    let buffers = vec![vec![0; 64]; 3];
    let told = streamed_from(
        1000,
        buffers,
        options(64, 2),
        &cancel,
        lost,
        vec![consume; 2],
    );
    let expected = Some("host b, region 1: lost".to_owned());
    assert_eq!(told.unwrap(), [expected.clone(), expected]);
    let mut to = vec![0; 1000];
    let told = staged_from(vec![&mut to[..]], options(64, 2), &cancel, lost, |staged| {
        staged.wait(0).map(<[u8]>::len)
    });
    let error = told.unwrap().unwrap_err();
    assert_eq!(
        error,
        CopyError::Fetch(FetchError::new("host b, region 1: lost"))
    );
}
