//! Keys from a file.

use std::io::BufRead;
use std::sync::Arc;

use super::keys::{Bytes, KeySpace, Pick, put, resolve_bytes, write_number};
use crate::random::Random;

/// Why there are no keys of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// A line is no key.
    #[error("{file}, line {line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// There are too few or too many keys.
    #[error("{file}: {keys} distinct keys: give {} to {}", KEYS_MIN, KEYS_MAX)]
    Count {
        /// The file.
        file: String,
        /// Distinct keys.
        keys: usize,
    },
    /// It cannot be read.
    #[error("{file} cannot be read")]
    Read {
        /// The file.
        file: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// As few keys as other spaces have.
const KEYS_MIN: usize = 100;
/// Keys have numbers of 32 bits.
const KEYS_MAX: usize = u32::MAX as usize;
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
    /// Positions of the keys in the order in which they are loaded.
    order: Vec<u32>,
}

impl FileKeys {
    /// The longest key: a number that is put behind it leaves it short enough for all trees.
    pub const LENGTH_MAX: usize = Bytes::LENGTH_MAX - NUMBER_BYTES_MAX;

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
        let mut lines = Vec::new();
        for (index, line) in input.split(b'\n').enumerate() {
            let line = line.map_err(|source| KeyFileError::Read {
                file: file.to_owned(),
                source,
            })?;
            check(&line).map_err(|reason| KeyFileError::Line {
                file: file.to_owned(),
                line: index + 1,
                reason,
            })?;
            lines.push(line);
        }
        lines.sort_unstable();
        lines.dedup();
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
            order: random_order(lines.len() as u32),
            bytes: lines.concat(),
        })))
    }
}

/// A line feed and a number in base 36.
const NUMBER_BYTES_MAX: usize = 1 + 13;

fn check(line: &[u8]) -> Result<(), String> {
    match line.len() {
        0 => Err("an empty key: remove the line".to_owned()),
        length if length > FileKeys::LENGTH_MAX => {
            let max = FileKeys::LENGTH_MAX;
            Err(format!("a key of {length} bytes: {max} are the most"))
        }
        _ => Ok(()),
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
}
