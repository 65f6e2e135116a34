//! What a producer fills near chunks with, and copiers write to far memory behind it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use nearfar_kernels::copy::{Outgoing, Store, StoreError, streamed_out, streamed_to};

use super::*;

/// Gives all bytes of `from`: in turn copies so many, and fills so many of a chunk.
fn produce(
    outgoing: &mut Outgoing<'_, Buffer>,
    from: &[u8],
    piece_bytes: usize,
) -> Result<(), CopyError> {
    for (index, piece) in from.chunks(piece_bytes).enumerate() {
        if index % 2 == 0 {
            outgoing.write(piece)?;
            continue;
        }
        let mut piece = piece;
        while !piece.is_empty() {
            let room = outgoing.room()?;
            let (now, later) = piece.split_at(piece.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            outgoing.advance(now.len());
            piece = later;
        }
    }
    Ok(())
}

fn assert_sent(length: usize, options: CopyOptions, depth: usize, piece_bytes: usize) {
    let near = bytes(length);
    let mut far = vec![0xEE; length];
    let copied = AtomicUsize::new(0);
    let buffers = vec![vec![0xDD; options.chunk_bytes]; depth];
    let cancel = CopyCancel::default();
    let copier = |_| Counting(&copied);
    let given = streamed_out(&mut far, buffers, options, &cancel, copier, |outgoing| {
        produce(outgoing, &near, piece_bytes)?;
        assert!(outgoing.room()?.is_empty(), "all were given");
        Ok::<usize, CopyError>(outgoing.produced_bytes())
    });
    assert_eq!(given, Ok(length));
    assert!(far == near);
    assert_eq!(copied.into_inner(), length, "every byte is copied once");
}

#[test]
fn chunks_that_do_not_divide_and_one_slot() {
    for length in [0, 1, 63, 64, 65, 1000, 4096] {
        for (copiers, depth, piece) in [(1, 1, 64), (3, 1, 100), (1, 4, 7), (5, 2, 5000)] {
            assert_sent(length, options(64, copiers), depth, piece);
        }
    }
}

#[test]
fn more_copiers_than_cores_copy_every_byte_once() {
    let cores = thread::available_parallelism().unwrap().get();
    let copiers = 4 * cores + 3;
    let long = if cfg!(miri) { 2_000 } else { 100_000 };
    for length in [0, 64, long] {
        assert_sent(length, options(64, copiers), 2 * copiers, 333);
        assert_sent(length, options(64, copiers), 1, 64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 32 }))]

    #[test]
    fn every_byte_is_copied_once_to_its_place(
        length in 0..20_000_usize,
        lines in 1..40_usize,
        (copiers, depth, piece) in (1..6_usize, 1..6_usize, 1..5_000_usize),
    ) {
        assert_sent(length, options(lines * 64, copiers), depth, piece);
    }
}

/// A destination that notes each of its bytes, which are written once, and is lost from an offset on.
struct Noted<'a> {
    bytes: &'a Mutex<Vec<Option<u8>>>,
    lost_at: usize,
}

impl Store for Noted<'_> {
    fn store(&mut self, offset: usize, from: &[u8]) -> Result<(), StoreError> {
        if offset + from.len() > self.lost_at {
            return Err(StoreError::new("host b, region 1: lost"));
        }
        let mut bytes = self.bytes.lock().unwrap();
        for (to, byte) in bytes[offset..][..from.len()].iter_mut().zip(from) {
            assert_eq!(to.replace(*byte), None);
        }
        Ok(())
    }
}

#[test]
fn destinations_that_are_no_slices_have_every_byte_once() {
    for length in [0, 1, 64, 65, 1000] {
        let near = bytes(length);
        let noted = Mutex::new(vec![None; length]);
        let store = |_| Noted {
            bytes: &noted,
            lost_at: usize::MAX,
        };
        let (buffers, cancel) = (vec![vec![0; 64]; 3], CopyCancel::default());
        let given = streamed_to(
            length,
            buffers,
            options(64, 2),
            &cancel,
            store,
            |outgoing| produce(outgoing, &near, 100),
        );
        assert_eq!(given, Ok(()));
        let noted: Option<Vec<u8>> = noted.into_inner().unwrap().into_iter().collect();
        assert_eq!(noted, Some(near));
    }
}

#[test]
fn a_destination_that_is_lost_is_told_by_its_name() {
    let lost = CopyError::Store(StoreError::new("host b, region 1: lost"));
    assert_eq!(lost.to_string(), "host b, region 1: lost");
    // In the middle, and with the last byte, when the producer has given all.
    for (lost_at, depth) in [(300, 2), (999, 2), (999, 20)] {
        let near = bytes(1000);
        let noted = Mutex::new(vec![None; 1000]);
        let store = |_| Noted {
            bytes: &noted,
            lost_at,
        };
        let cancel = CopyCancel::default();
        let given = streamed_to(
            1000,
            vec![vec![0; 64]; depth],
            options(64, 2),
            &cancel,
            store,
            |outgoing| produce(outgoing, &near, 100),
        );
        assert_eq!(given, Err(lost.clone()));
    }
}

/// Begins when so many chunks were sent, and counts what it has written.
struct Gated<'a> {
    sent: &'a AtomicUsize,
    begins_at: usize,
    stored: &'a AtomicUsize,
}

impl Store for Gated<'_> {
    fn store(&mut self, _: usize, _: &[u8]) -> Result<(), StoreError> {
        while self.sent.load(Ordering::Relaxed) < self.begins_at {
            thread::yield_now();
        }
        self.stored.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_producer_is_as_far_ahead_as_there_are_chunks_and_no_further() {
    for (depth, copiers) in [(1, 1), (4, 1), (4, 3)] {
        let (sent, stored) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let store = |_| Gated {
            sent: &sent,
            begins_at: depth,
            stored: &stored,
        };
        let cancel = CopyCancel::default();
        let given = streamed_to(
            64 * 100,
            vec![vec![0; 64]; depth],
            options(64, copiers),
            &cancel,
            store,
            |outgoing: &mut Outgoing<'_, Buffer>| {
                for chunk in 1..=100 {
                    let room = outgoing.room()?.len();
                    let ahead = chunk - stored.load(Ordering::Relaxed);
                    assert!(ahead <= depth, "{ahead} of {depth}");
                    outgoing.advance(room);
                    sent.store(chunk, Ordering::Relaxed);
                }
                outgoing.finish()?;
                assert_eq!(stored.load(Ordering::Relaxed), 100, "all is written");
                Ok::<(), CopyError>(())
            },
        );
        assert_eq!(given, Ok(()));
    }
}

#[test]
fn copiers_that_die_are_told_of_and_nobody_hangs() {
    let near = bytes(10_000);
    let began = Instant::now();
    let dies = |index| match index {
        1 => Bad::Dies,
        _ => Bad::TakesLong,
    };
    // A producer that waits for a chunk, and one that has given all.
    for depth in [2, 200] {
        let mut far = vec![0; near.len()];
        let cancel = CopyCancel::default();
        let given = streamed_out(
            &mut far,
            vec![vec![0; 64]; depth],
            options(64, 2),
            &cancel,
            dies,
            |outgoing| produce(outgoing, &near, 64),
        );
        assert_eq!(given, Err(CopyError::CopierDied { copier: 1 }));
    }
    // One that dies before it has a chunk.
    let cancel = CopyCancel::default();
    let dies_early = |_| -> Noted<'_> { panic!("no connection") };
    let given = streamed_to(
        10_000,
        vec![vec![0; 64]; 2],
        options(64, 1),
        &cancel,
        dies_early,
        |outgoing| produce(outgoing, &near, 64),
    );
    assert_eq!(given, Err(CopyError::CopierDied { copier: 0 }));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[derive(Debug, PartialEq)]
enum OwnError {
    Copy(CopyError),
    Own,
}

impl From<CopyError> for OwnError {
    fn from(error: CopyError) -> Self {
        Self::Copy(error)
    }
}

#[test]
fn a_producer_that_leaves_early_has_its_error_or_that_of_what_is_missing() {
    let leaves = |copiers: Copiers, own: bool| {
        let mut far = vec![0; 10_000];
        let cancel = CopyCancel::default();
        let options = CopyOptions {
            chunk_bytes: 64,
            copiers,
        };
        let buffers = vec![vec![0; 64]; 2];
        streamed_out(&mut far, buffers, options, &cancel, native, |outgoing| {
            outgoing.write(&[1; 1000])?;
            if own { Err(OwnError::Own) } else { Ok(()) }
        })
    };
    let count = NonZeroUsize::new(3).unwrap();
    for copiers in [Copiers::Fixed(count), Copiers::Adaptive(count)] {
        assert_eq!(leaves(copiers, true), Err(OwnError::Own));
        let error = leaves(copiers, false).unwrap_err();
        let OwnError::Copy(error) = error else {
            panic!("{error:?}");
        };
        assert_eq!(
            error.to_string(),
            "a producer gave 1000 bytes, but had told that it gives 10000 bytes"
        );
    }
    // One that gives more is told before any of it is copied.
    let mut far = vec![0; 100];
    let (cancel, buffers) = (CopyCancel::default(), vec![vec![0; 64]; 2]);
    let sent = |outgoing: &mut Outgoing<'_, Buffer>| {
        outgoing.write(&[1; 60])?;
        let error = outgoing.write(&[2; 41]).unwrap_err();
        let expected = CopyError::Produced {
            produced_bytes: 101,
            bytes: 100,
        };
        assert_eq!(error, expected);
        outgoing.write(&[3; 40])
    };
    let given = streamed_out(&mut far, buffers, options(64, 2), &cancel, native, sent);
    assert_eq!(given, Ok(()));
    assert_eq!((&far[..60], &far[60..]), (&[1; 60][..], &[3; 40][..]));
}

#[test]
fn a_producer_that_panics_ends_its_copiers() {
    let mut far = vec![0; 10_000];
    let (cancel, buffers) = (CopyCancel::default(), vec![vec![0; 64]; 2]);
    let run = || {
        streamed_out(
            &mut far,
            buffers,
            options(64, 2),
            &cancel,
            native,
            |outgoing| {
                outgoing.write(&[1; 1000])?;
                panic!("a producer that panics");
                #[expect(unreachable_code)]
                Ok::<(), CopyError>(())
            },
        )
    };
    let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(
        panic.downcast_ref(),
        Some(&"a producer that panics"),
        "the producer's"
    );
}

#[test]
fn a_copier_begins_no_more_than_the_piece_that_it_had_when_it_was_cancelled() {
    // Chunks of one piece, and of four, which take minutes under Miri.
    let sizes = [(64, 64 * 200), (1 << 20, 12 << 20)];
    for (chunk_bytes, length) in sizes.into_iter().take(if cfg!(miri) { 1 } else { 2 }) {
        for copiers in [1, 3] {
            let (near, mut far) = (bytes(length), vec![0; length]);
            let (late, cancel) = (AtomicUsize::new(0), CopyCancel::default());
            let cancels = |_| Cancels {
                cancel: &cancel,
                begun: 0,
                late: &late,
            };
            let buffers = vec![vec![0; chunk_bytes]; 4];
            let options = options(chunk_bytes, copiers);
            let given = streamed_out(&mut far, buffers, options, &cancel, cancels, |outgoing| {
                produce(outgoing, &near, chunk_bytes)
            });
            assert_eq!(given, Err(CopyError::Cancelled));
            assert!(late.load(Ordering::Relaxed) < copiers, "{late:?}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "times are Miri's own there")]
fn copies_and_waits_end_within_the_bound() {
    // A chunk of 32 MiB is 128 pieces of 5 ms: the producer waits for the only chunk, or for the end.
    let near = vec![0; 64 << 20];
    let chunk_bytes = 32 << 20;
    for length in [near.len(), chunk_bytes] {
        let took = ends_after_cancel(|cancel| {
            let mut far = vec![0; length];
            let buffers = vec![vec![0; chunk_bytes]];
            let (options, slow) = (options(chunk_bytes, 1), |_| Bad::TakesLong);
            let given = streamed_out(&mut far, buffers, options, cancel, slow, |outgoing| {
                outgoing.write(&near[..length])
            });
            assert_eq!(given, Err(CopyError::Cancelled));
        });
        assert!(took < CANCELLED_IN, "{took:?}");
    }
}

#[test]
fn a_producer_is_told_in_the_middle_of_a_chunk() {
    let mut far = vec![0; 100];
    let (cancel, buffers) = (CopyCancel::default(), vec![vec![0; 128]]);
    let sent = |outgoing: &mut Outgoing<'_, Buffer>| {
        outgoing.write(&[1; 60])?;
        cancel.cancel();
        assert_eq!(outgoing.room(), Err(CopyError::Cancelled));
        outgoing.write(&[1; 40])
    };
    let given = streamed_out(&mut far, buffers, options(128, 1), &cancel, native, sent);
    assert_eq!(given, Err(CopyError::Cancelled));
    assert_eq!(far, [0; 100]);
}

/// Takes so long for each piece.
struct Takes(Duration);

impl Copier for Takes {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        thread::sleep(self.0);
        to.copy_from_slice(from);
    }
}

#[test]
fn adaptive_copiers_work_as_many_as_are_waited_for() {
    let adaptive = CopyOptions {
        chunk_bytes: 64,
        copiers: Copiers::Adaptive(NonZeroUsize::new(4).unwrap()),
    };
    let run = |pause: Duration, takes: Duration| {
        let mut far = vec![0; 64 * 40];
        let (cancel, buffers) = (CopyCancel::default(), vec![vec![0; 64]; 8]);
        let copier = |_| Takes(takes);
        streamed_out(&mut far, buffers, adaptive, &cancel, copier, |outgoing| {
            let mut active_max = 0;
            for _ in 0..40 {
                outgoing.write(&[1; 64])?;
                thread::sleep(pause);
                active_max = active_max.max(outgoing.active_copiers());
            }
            Ok::<_, CopyError>((active_max, outgoing.active_copiers()))
        })
        .unwrap()
    };
    // Longer than what nobody is to wait for takes.
    let long = Duration::from_millis(if cfg!(miri) { 100 } else { 5 });
    let (waited_for, _) = run(Duration::ZERO, long);
    assert!(waited_for > 1, "{waited_for}");
    // Copiers take no time, and wait for chunks.
    let (_, at_last) = run(long, Duration::ZERO);
    assert_eq!(at_last, 1);
    assert_sent(if cfg!(miri) { 2_000 } else { 50_000 }, adaptive, 3, 99);
}

#[test]
fn what_cannot_be_copied_is_refused_before_anything_is() {
    let refused = |chunk_bytes, buffers: Vec<Buffer>| {
        let (mut far, cancel) = (vec![0; 100], CopyCancel::default());
        let nothing = |_: &mut Outgoing<'_, Buffer>| -> Result<(), CopyError> { panic!("no work") };
        let options = options(chunk_bytes, 1);
        streamed_out(&mut far, buffers, options, &cancel, native, nothing).unwrap_err()
    };
    let chunks = || vec![vec![0; 64]; 2];
    for chunk_bytes in [0, 100] {
        assert_eq!(
            refused(chunk_bytes, chunks()),
            CopyError::ChunkBytes { chunk_bytes }
        );
    }
    assert!(matches!(
        refused(64, vec![]),
        CopyError::Buffer { buffers: 0, .. }
    ));
    assert!(matches!(
        refused(128, chunks()),
        CopyError::Buffer { bytes: 64, .. }
    ));
}

#[test]
#[should_panic(expected = "65 bytes of a chunk with 64")]
fn more_bytes_than_a_chunk_has_are_a_bug() {
    let mut far = vec![0; 100];
    let (cancel, buffers) = (CopyCancel::default(), vec![vec![0; 64]]);
    let sent = |outgoing: &mut Outgoing<'_, Buffer>| {
        outgoing.room()?;
        outgoing.advance(65);
        Ok::<(), CopyError>(())
    };
    let _ = streamed_out(&mut far, buffers, options(64, 1), &cancel, native, sent);
}
