//! Traces of block devices.
//!
//! Two formats are read. Lines of one are those of Alibaba's public traces, without a header:
//!
//! ```text
//! device_id,opcode,offset,length,timestamp
//! 419,W,4325769216,4096,1577808000000046
//! ```
//!
//! The other is that of the replay of zhao-2026's artefact: a first line with a number, the step of
//! the addresses, and then `op,key` with further fields that do not matter, where op 1 is a write and
//! every other number a read. A file begins with either, and keeps to it.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;

use super::keys::{KeySpace, Pick};
use super::lines::{LinesError, read_lines};
use super::zipf::Zipf;
use crate::random::Random;

/// Bytes of a block, which is what a key stands for.
const BLOCK_BYTES: u64 = 4096;
/// Bits of a key that say the block; those above say the device.
const BLOCK_BITS: u32 = 44;

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is not what the format says, or the file cannot be read.
    #[error(transparent)]
    Lines(#[from] LinesError),
    /// There is no request in it.
    #[error("{file}: no request in it")]
    Empty {
        /// The file.
        file: String,
    },
}

/// Requests of a trace: each the number of its key, and whether it writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockTrace {
    /// Distinct keys, in the order in which they come first.
    pub keys: Vec<u64>,
    /// Requests in their order, each with the index of its key.
    pub requests: Vec<(u32, bool)>,
}

/// The longest line.
const LINE_BYTES_MAX: usize = 4096;

impl BlockTrace {
    /// Reads a trace; `file` is its name in errors.
    ///
    /// ```
    /// use nearfar_index_bench::workload::BlockTrace;
    ///
    /// let trace = BlockTrace::read("a.csv", &b"3,R,8192,4096,17\n3,W,8192,512,18\n"[..])?;
    /// assert_eq!((trace.keys.len(), trace.requests.len()), (1, 2));
    /// let error = BlockTrace::read("a.csv", &b"3,R,8192,4096,17\n3,X,0,1,2\n"[..]).unwrap_err();
    /// assert!(error.to_string().starts_with("a.csv, line 2: opcode"));
    /// # Ok::<(), nearfar_index_bench::workload::TraceError>(())
    /// ```
    ///
    /// # Errors
    /// [`TraceError`], for the first line that is wrong.
    pub fn read(file: &str, input: impl BufRead) -> Result<Self, TraceError> {
        let mut reader = Reader::default();
        let a_line = ("a line", LINE_BYTES_MAX);
        read_lines(file, input, a_line, |line| reader.line(line))?;
        if reader.trace.requests.is_empty() {
            return Err(TraceError::Empty {
                file: file.to_owned(),
            });
        }
        Ok(reader.trace)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Format {
    Public,
    Stepped,
}

#[derive(Debug, Default)]
struct Reader {
    format: Option<Format>,
    index: HashMap<u64, u32>,
    trace: BlockTrace,
}

impl Reader {
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let line = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        match (self.format, &fields[..]) {
            (None, [step]) => {
                number("step", step)?;
                self.format = Some(Format::Stepped);
                Ok(())
            }
            (Some(Format::Stepped), [op, key, ..]) => {
                let is_write = number("op", op)? == 1;
                let key = number("key", key)?;
                self.add(key, is_write)
            }
            (None | Some(Format::Public), [device, opcode, offset, length, timestamp]) => {
                self.format = Some(Format::Public);
                let device = number("device_id", device)?;
                let is_write = match *opcode {
                    "R" | "r" => false,
                    "W" | "w" => true,
                    other => return Err(format!("opcode is {other:?}: R or W is expected")),
                };
                let block = number("offset", offset)? / BLOCK_BYTES;
                number("length", length)?;
                number("timestamp", timestamp)?;
                if device >> (u64::BITS - BLOCK_BITS) != 0 || block >> BLOCK_BITS != 0 {
                    return Err(format!("device {device}, block {block}: too large"));
                }
                self.add((device << BLOCK_BITS) | block, is_write)
            }
            (Some(Format::Stepped), _) => Err("op,key is expected".to_owned()),
            _ => Err(format!(
                "{} field(s): device_id,opcode,offset,length,timestamp is expected",
                fields.len()
            )),
        }
    }

    fn add(&mut self, key: u64, is_write: bool) -> Result<(), String> {
        let next = u32::try_from(self.trace.keys.len()).map_err(|_| "too many keys".to_owned())?;
        let index = *self.index.entry(key).or_insert(next);
        if index == next {
            self.trace.keys.push(key);
        }
        self.trace.requests.push((index, is_write));
        Ok(())
    }
}

fn number(field: &str, text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{field} is {text:?}: a whole number is expected"))
}

/// The keys of a trace; those beyond them are of a device of their own.
#[derive(Debug)]
pub struct TraceKeys(pub Arc<BlockTrace>);

impl KeySpace for TraceKeys {
    type Key = u64;

    fn count(&self) -> u64 {
        self.0.keys.len() as u64
    }

    fn key_bytes_max(&self) -> usize {
        size_of::<u64>()
    }

    fn token(&self, pick: Pick, _arena: &mut Vec<u8>) -> u64 {
        let (Pick::Id(id) | Pick::Position(id)) = pick;
        let known = self.0.keys.get(id as usize).copied();
        known.unwrap_or(u64::MAX - id)
    }

    #[inline]
    fn resolve<'t>(token: &'t u64, _arena: &'t [u8]) -> &'t u64 {
        token
    }
}

/// Share of a generated trace's requests that write, that go on where the one before ended, and the
/// exponent by which blocks are popular: the order of what is published of such traces (Li et al.,
/// An In-Depth Analysis of Cloud Block Storage Workloads, IISWC 2020), not fitted to any of them.
const WRITE_SHARE: f64 = 0.7;
const SEQUENTIAL_SHARE: f64 = 0.3;
const POPULARITY: f64 = 0.9;
/// Devices of a generated trace.
const DEVICES: u64 = 16;

/// Writes a trace in the public format over so many blocks: skewed, in part sequential, mostly
/// writes.
///
/// # Errors
/// Those of the output.
pub fn generate_block_trace(
    mut output: impl Write,
    blocks: u64,
    requests: u64,
    seed: u64,
) -> std::io::Result<()> {
    let blocks = blocks.max(1);
    let zipf = Zipf::new(blocks, POPULARITY);
    let mut random = Random::new(seed);
    let (mut block, mut time_us) = (0, 1_577_808_000_000_000_u64);
    for _ in 0..requests {
        block = if random.share() < SEQUENTIAL_SHARE {
            (block + 1) % blocks
        } else {
            // Popular blocks lie together in extents of 64.
            let extents = blocks.div_ceil(64);
            let rank = zipf.draw(&mut random);
            (rank / 64 * 2_654_435_761 % extents * 64 + rank % 64) % blocks
        };
        let opcode = if random.share() < WRITE_SHARE {
            'W'
        } else {
            'R'
        };
        let device = block % DEVICES;
        let offset = block / DEVICES * BLOCK_BYTES;
        let length = BLOCK_BYTES << random.below(4);
        time_us += random.below(200);
        writeln!(output, "{device},{opcode},{offset},{length},{time_us}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::workload::lines::tests::OneLine;

    #[test]
    fn a_file_without_line_feeds_is_refused_before_it_is_read() {
        let (input, read) = OneLine::new(1 << 26);
        let error = BlockTrace::read("t", input).unwrap_err().to_string();
        assert_eq!(error, "t, line 1: a line of more than 4096 bytes");
        assert!(read.get() <= 1 << 16, "{} bytes were read", read.get());
    }

    #[test]
    fn a_generated_trace_is_read_back() {
        let mut text = Vec::new();
        generate_block_trace(&mut text, 10_000, 5_000, 3).unwrap();
        let trace = BlockTrace::read("generated", &text[..]).unwrap();
        assert_eq!(trace.requests.len(), 5_000);
        assert!(trace.keys.len() > 500 && trace.keys.len() < 5_000);
        let writes = trace.requests.iter().filter(|(_, writes)| *writes).count();
        assert!((3_000..4_000).contains(&writes), "{writes}");
        let mut keys = trace.keys.clone();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), trace.keys.len());
    }

    #[test]
    fn the_stepped_format_is_read() {
        let trace = BlockTrace::read("s", &b"4096\n1,77,x\n\n0,77\n2,5,a,b\n"[..]).unwrap();
        assert_eq!(trace.keys, [77, 5]);
        assert_eq!(trace.requests, [(0, true), (0, false), (1, false)]);
    }

    #[test]
    fn bad_lines_are_named() {
        let cases: [(&[u8], &str); 6] = [
            (
                b"1,R,0,1,2\n1,R,zero,1,2\n",
                "t, line 2: offset is \"zero\"",
            ),
            (b"1,R,0,1\n", "t, line 1: 4 field(s)"),
            (b"8\n1\n", "t, line 2: op,key"),
            (b"1,R,0,1,2\n\xff\n", "t, line 2: not UTF-8"),
            (b"9999999999,R,0,1,2\n", "t, line 1: device 9999999999"),
            (b"\n\n", "t: no request"),
        ];
        for (text, expected) in cases {
            let error = BlockTrace::read("t", text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    proptest! {
        /// Nothing makes the reader panic, and what it takes is consistent.
        #[test]
        fn any_bytes_are_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(trace) = BlockTrace::read("any", &text[..]) {
                let keys = trace.keys.len() as u32;
                prop_assert!(trace.requests.iter().all(|(index, _)| *index < keys));
            }
        }

        #[test]
        fn lines_that_almost_fit_are_read_or_refused(
            lines in prop::collection::vec("[0-9RWx-]{0,3},?[RW1]?,?[0-9]{0,22},?[0-9]{0,4},?[0-9]{0,4}", 0..20)
        ) {
            let text = lines.join("\n");
            if let Err(error) = BlockTrace::read("any", text.as_bytes()) {
                prop_assert!(error.to_string().starts_with("any"));
            }
        }
    }
}
