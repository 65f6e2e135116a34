//! Far nodes that vanish while an operator consumes what is copied from them: the operator ends with their name, and
//! gives back all that it had.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use nearfar_kernels::copy::{
    Chunks, Copiers, CopyCancel, CopyError, CopyOptions, Fetch, FetchError, staged_from,
    streamed_from,
};
use nearfar_kernels::{
    Aggregate, HashGroups, JoinKind, JoinTable, Matched, Matches, ProbeCursor, Probing, Scan,
    Selection,
};
use nearfar_model::Native;

const CHUNK_BYTES: usize = 4096;
const FAR_BYTES: usize = 100 * CHUNK_BYTES + 52;
const GONE: &str = "host b, region 1: the node has left";

/// What is alive of sources and buffers, and how many fetches were begun.
#[derive(Default)]
struct Alive {
    sources: AtomicUsize,
    buffers: AtomicUsize,
    fetches: AtomicUsize,
}

/// Integers from 0 on, until its node vanishes.
struct Node<'a> {
    alive: &'a Alive,
    /// Fetches of all copiers together that succeed.
    lasts: usize,
}

impl<'a> Node<'a> {
    fn new(alive: &'a Alive, lasts: usize) -> Self {
        alive.sources.fetch_add(1, Ordering::Relaxed);
        Self { alive, lasts }
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        self.alive.sources.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Fetch for Node<'_> {
    fn fetch(&mut self, _: usize, offset: usize, to: &mut [u8]) -> Result<(), FetchError> {
        if self.alive.fetches.fetch_add(1, Ordering::Relaxed) >= self.lasts {
            return Err(FetchError::new(GONE));
        }
        for (index, word) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *word = ((offset / 4 + index) as u32).to_ne_bytes();
        }
        Ok(())
    }
}

/// Near memory of a chunk, which tells when it is gone.
struct Buffer<'a> {
    bytes: Vec<u8>,
    alive: &'a Alive,
}

impl<'a> Buffer<'a> {
    fn new(alive: &'a Alive) -> Self {
        alive.buffers.fetch_add(1, Ordering::Relaxed);
        let bytes = vec![0; CHUNK_BYTES];
        Self { bytes, alive }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        self.alive.buffers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for Buffer<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Buffer<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

fn options(copiers: usize) -> CopyOptions {
    CopyOptions {
        chunk_bytes: CHUNK_BYTES,
        copiers: Copiers::Fixed(NonZeroUsize::new(copiers).unwrap()),
    }
}

fn integers(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| u32::from_ne_bytes(*word)).collect()
}

fn keys(bytes: &[u8]) -> Vec<i64> {
    integers(bytes).into_iter().map(i64::from).collect()
}

type Consumer<'a> = fn(&mut Chunks<'_, Buffer<'a>>) -> Result<i128, CopyError>;

/// The sum of all values, by way of groups.
fn aggregate(chunks: &mut Chunks<'_, Buffer<'_>>) -> Result<i128, CopyError> {
    let (mut sum, mut groups) = (0, HashGroups::new());
    while let Some(chunk) = chunks.next_chunk()? {
        let values = keys(&chunk);
        sum += Aggregate::new().sum(&values, &Native);
        let small: Vec<i64> = values.iter().map(|value| value % 7).collect();
        groups.add(&small, &values, &Native).unwrap();
    }
    assert_eq!(
        groups.groups().map(|(_, group)| group.sum).sum::<i128>(),
        sum
    );
    Ok(sum)
}

/// How many values are below 1000.
fn filter(chunks: &mut Chunks<'_, Buffer<'_>>) -> Result<i128, CopyError> {
    let (scan, mut count) = (Scan::new(), 0);
    while let Some(chunk) = chunks.next_chunk()? {
        let values = integers(&chunk);
        let mut selection = Selection::all(values.len());
        scan.within(&values, 0..=999, Matches::Keep, &mut selection, &Native);
        count += scan.count(&selection, &Native);
    }
    Ok(count as i128)
}

/// How many values are among the multiples of three below 3000.
fn join(chunks: &mut Chunks<'_, Buffer<'_>>) -> Result<i128, CopyError> {
    let build: Vec<i64> = (0..1000).map(|key| key * 3).collect();
    let table = JoinTable::build(&build, None, &Native).unwrap();
    let mut count = 0;
    while let Some(chunk) = chunks.next_chunk()? {
        count += found(&table, &keys(&chunk));
    }
    Ok(count as i128)
}

fn found(table: &JoinTable, keys: &[i64]) -> usize {
    let (mut cursor, mut matched) = (ProbeCursor::default(), Matched::default());
    let (kind, probing) = (JoinKind::Semi, Probing::default());
    let mut go_on = || {
        let probed = table.probe(
            kind,
            probing,
            keys,
            None,
            &mut cursor,
            &mut matched,
            &Native,
        );
        probed.unwrap()
    };
    while !go_on() {}
    matched.probe_rows.len()
}

/// What the three find of a node that lasts so long, and how many fetches were begun. Nothing is left of them.
fn stream(lasts: usize, copiers: usize) -> (Vec<Result<i128, CopyError>>, usize) {
    let alive = Alive::default();
    let buffers: Vec<_> = (0..4).map(|_| Buffer::new(&alive)).collect();
    let consumers = [
        aggregate as Consumer<'_>,
        filter as Consumer<'_>,
        join as Consumer<'_>,
    ];
    let results = streamed_from(
        FAR_BYTES,
        buffers,
        options(copiers),
        &CopyCancel::default(),
        |_| Node::new(&alive, lasts),
        consumers.into(),
    );
    assert_eq!(alive.sources.load(Ordering::Relaxed), 0);
    assert_eq!(alive.buffers.load(Ordering::Relaxed), 0);
    (results.unwrap(), alive.fetches.into_inner())
}

fn gone() -> CopyError {
    CopyError::Fetch(FetchError::new(GONE))
}

#[test]
fn operators_over_a_ring_end_with_the_name_of_a_node_that_vanishes() {
    for copiers in [1, 3] {
        for lasts in [0, 1, 37, FAR_BYTES / CHUNK_BYTES] {
            let (results, fetches) = stream(lasts, copiers);
            for result in results {
                assert_eq!(result, Err(gone()), "after {lasts} fetches");
            }
            // Every copier may have begun one when the first was refused.
            assert!(fetches <= lasts + copiers, "{fetches} after {lasts}");
        }
        let (results, fetches) = stream(usize::MAX, copiers);
        let rows = FAR_BYTES as i128 / 4;
        assert_eq!(results, [Ok(rows * (rows - 1) / 2), Ok(1000), Ok(1000)]);
        assert_eq!(fetches, FAR_BYTES.div_ceil(CHUNK_BYTES));
    }
}

#[test]
fn operators_over_whole_columns_end_with_the_name_of_a_node_that_vanishes() {
    // Of three columns, the node vanishes in the middle of the second.
    const COLUMN_BYTES: usize = 10 * CHUNK_BYTES;
    for copiers in [1, 3] {
        let alive = Alive::default();
        let mut near = vec![vec![0; COLUMN_BYTES]; 3];
        let to = near.iter_mut().map(|column| &mut column[..]).collect();
        let node = |_| Node::new(&alive, 15);
        let cancel = CopyCancel::default();
        let results = staged_from(to, options(copiers), &cancel, node, |staged| {
            let build = keys(staged.wait(0)?);
            let table = JoinTable::build(&build, None, &Native).unwrap();
            let in_first = found(&table, &build);
            assert_eq!(in_first, COLUMN_BYTES / 4);
            let second = keys(staged.wait(1)?);
            Ok((in_first, Aggregate::new().sum(&second, &Native)))
        });
        assert_eq!(results, Ok(Err(gone())));
        assert_eq!(alive.sources.into_inner(), 0);
        assert!(alive.fetches.into_inner() <= 15 + copiers);
    }
}
