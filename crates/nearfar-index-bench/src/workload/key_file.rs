//! Keys from a file.

use std::io::BufRead;
use std::sync::Arc;

use super::keys::{Bytes, KeySpace, NUMBER_BYTES_MAX, Pick, put, resolve_bytes, write_number};
use super::lines::{LinesError, read_lines};
use crate::random::Random;

/// Why there are no keys of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// A line is no key, or the file cannot be read.
    #[error(transparent)]
    Lines(#[from] LinesError),
    /// There are too few or too many keys.
    #[error("{file}: {keys} distinct keys: give {} to {}", KEYS_MIN, KEYS_MAX)]
    Count {
        /// The file.
        file: String,
        /// Distinct keys.
        keys: usize,
    },
}

/// As few keys as other spaces have.
const KEYS_MIN: usize = 100;
/// Keys have numbers of 32 bits.
const KEYS_MAX: usize = u32::MAX as usize;
/// Lines that are read before any that are there twice are given up.
const LINES_KEPT_MIN: usize = 1 << 20;
/// Begins the random order in which keys are loaded.
const ORDER_SEED: u64 = 0x4B45_5953;

/// Keys that were read: lines of a file, each once, which are loaded in a random order. What is inserted is
/// a key of the file with a line feed and a number behind it, which no line has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileKeys(Arc<Lines>);

#[derive(Debug, PartialEq, Eq)]
struct Lines {
    bytes: Vec<u8>,
    /// Where each key ends, in their order.
    ends: Vec<usize>,
    /// Bytes of the longest one.
    longest: usize,
    /// Positions of the keys in the order in which they are loaded.
    order: Vec<u32>,
}

impl FileKeys {
    /// The longest key: a number that is put behind it leaves it short enough for all trees.
    pub const LENGTH_MAX: usize = Bytes::LENGTH_MAX - SUFFIX_BYTES_MAX;

    /// Reads keys, one a line, whose line feeds are no part of them; `file` is its name in errors. Lines that are
    /// there twice are one key.
    ///
    /// ```
    /// use nearfar_index_bench::workload::{FileKeys, KeySpace};
    ///
    /// let lines: String = (0..150).map(|line| format!("key {}\n", line % 120)).collect();
    /// let keys = FileKeys::read("keys.txt", lines.as_bytes())?;
    /// assert_eq!(keys.count(), 120);
    /// let error = FileKeys::read("keys.txt", &b"one\n\n"[..]).unwrap_err();
    /// assert!(error.to_string().starts_with("keys.txt, line 2: "));
    /// # Ok::<(), nearfar_index_bench::workload::KeyFileError>(())
    /// ```
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn read(file: &str, input: impl BufRead) -> Result<Self, KeyFileError> {
        let mut distinct = Distinct::new(KEYS_MAX, LINES_KEPT_MIN);
        let a_key = ("a key", Self::LENGTH_MAX);
        read_lines(file, input, a_key, |line| distinct.add(line))?;
        let lines = distinct.sorted();
        if !(KEYS_MIN..=KEYS_MAX).contains(&lines.len()) {
            let (file, keys) = (file.to_owned(), lines.len());
            return Err(KeyFileError::Count { file, keys });
        }
        let mut end = 0;
        let ends = lines.iter().map(|line| {
            end += line.len();
            end
        });
        let ends = ends.collect();
        Ok(Self(Arc::new(Lines {
            ends,
            longest: lines.iter().map(|line| line.len()).max().unwrap_or(0),
            order: random_order(lines.len() as u32),
            bytes: lines.concat(),
        })))
    }
}

/// A line feed and a number.
const SUFFIX_BYTES_MAX: usize = 1 + NUMBER_BYTES_MAX;

/// Lines that are read. No more are kept than twice those that differ, and some.
struct Distinct {
    lines: Vec<Box<[u8]>>,
    count_max: usize,
    kept_min: usize,
    /// So many are kept before those that are there twice are given up.
    kept_max: usize,
}

impl Distinct {
    /// None yet, of which at most so many may differ, and so many are kept in any case.
    fn new(count_max: usize, kept_min: usize) -> Self {
        Self {
            lines: Vec::new(),
            count_max,
            kept_min,
            kept_max: kept_min,
        }
    }

    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        if line.is_empty() {
            return Err("an empty key: remove the line".to_owned());
        }
        if self.lines.len() == self.kept_max {
            self.settle();
            if self.lines.len() > self.count_max {
                return Err(format!("more than {} distinct keys", self.count_max));
            }
            self.kept_max = self.kept_min.max(2 * self.lines.len());
        }
        self.lines.push(line.into());
        Ok(())
    }

    fn settle(&mut self) {
        self.lines.sort_unstable();
        self.lines.dedup();
    }

    /// Those that differ, in their order.
    fn sorted(mut self) -> Vec<Box<[u8]>> {
        self.settle();
        self.lines
    }
}

/// The numbers below `count`, shuffled.
fn random_order(count: u32) -> Vec<u32> {
    let mut random = Random::new(ORDER_SEED);
    let mut order: Vec<u32> = (0..count).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

impl Lines {
    fn at(&self, position: usize) -> &[u8] {
        let start = position
            .checked_sub(1)
            .map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[position]]
    }
}

impl KeySpace for FileKeys {
    type Key = [u8];

    fn count(&self) -> u64 {
        self.0.ends.len() as u64
    }

    fn key_bytes_max(&self) -> usize {
        self.0.longest + SUFFIX_BYTES_MAX
    }

    fn token(&self, pick: Pick, arena: &mut Vec<u8>) -> u64 {
        let count = self.count();
        let (position, fresh) = match pick {
            Pick::Position(position) => (position, None),
            Pick::Id(id) => {
                let of_file = self.0.order[(id % count) as usize];
                (u64::from(of_file), (id >= count).then_some(id))
            }
        };
        put(arena, |arena| {
            arena.extend_from_slice(self.0.at(position as usize));
            if let Some(id) = fresh {
                arena.push(b'\n');
                write_number(id, arena);
            }
        })
    }

    #[inline]
    fn resolve<'t>(token: &'t u64, arena: &'t [u8]) -> &'t [u8] {
        resolve_bytes(*token, arena)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::keys::tests::check_keys;
    use crate::workload::lines::tests::OneLine;

    /// Keys some of which begin others.
    fn lines() -> Vec<u8> {
        let numbers = (0..300_u32).rev();
        numbers
            .flat_map(|number| format!("{}/{number:b}\n", number % 7).into_bytes())
            .collect()
    }

    #[test]
    fn keys_of_a_file_are_distinct_and_positions_are_their_order() {
        let keys = FileKeys::read("keys", &lines()[..]).unwrap();
        assert_eq!(keys.count(), 300);
        check_keys(&keys);
        let twice = [lines(), lines()].concat();
        assert_eq!(FileKeys::read("keys", &twice[..]).unwrap(), keys);
    }

    #[test]
    fn the_last_line_needs_no_line_feed() {
        let all = lines();
        let keys = FileKeys::read("keys", &all[..all.len() - 1]).unwrap();
        assert_eq!(keys.count(), 300);
    }

    #[test]
    fn what_are_no_keys_is_said_with_the_line() {
        let error = |bytes: &[u8]| FileKeys::read("k.txt", bytes).unwrap_err().to_string();
        assert_eq!(
            error(b"a\nb\n"),
            "k.txt: 2 distinct keys: give 100 to 4294967295"
        );
        assert!(error(b"").starts_with("k.txt: 0 distinct keys"));
        assert!(error(b"a\n\nb\n").starts_with("k.txt, line 2: an empty key"));
        let long = vec![b'x'; FileKeys::LENGTH_MAX + 1];
        assert!(error(&long).starts_with("k.txt, line 1: a key of "));
    }

    #[test]
    fn a_file_without_line_feeds_is_refused_before_it_is_read() {
        let (input, read) = OneLine::new(1 << 26);
        let error = FileKeys::read("k.txt", input).unwrap_err().to_string();
        assert_eq!(error, "k.txt, line 1: a key of more than 4082 bytes");
        assert!(read.get() <= 1 << 16, "{} bytes were read", read.get());
    }

    #[test]
    fn lines_that_are_there_often_are_not_kept_and_too_many_are_refused() {
        let mut distinct = Distinct::new(10, 4);
        for number in 0..=255 {
            distinct.add(&[b'a' + number % 3]).unwrap();
            assert!(
                distinct.lines.len() <= 6,
                "{} are kept",
                distinct.lines.len()
            );
        }
        assert_eq!(distinct.sorted(), [&b"a"[..], b"b", b"c"].map(Box::from));
        let mut distinct = Distinct::new(10, 4);
        let refused = (0..50).find_map(|number| distinct.add(&[number + 1]).err());
        assert_eq!(refused.as_deref(), Some("more than 10 distinct keys"));
    }
}
