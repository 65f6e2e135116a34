//! Lines of files of others.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Why lines of a file are not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinesError {
    /// A line is not what is expected.
    #[error("{file}, line {line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
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

/// Opens a file for [`read_lines`]; with its name in errors.
pub(crate) fn open_lines(path: &Path) -> Result<(String, BufReader<File>), LinesError> {
    let file = path.display().to_string();
    match File::open(path) {
        Ok(source) => Ok((file, BufReader::new(source))),
        Err(source) => Err(LinesError::Read { file, source }),
    }
}

/// Hands the lines of a file to `take`, which says what is wrong with one. What they are has up to `bytes_max` bytes
/// without the line feed; of a longer line no more is read than shows that it is.
///
/// # Errors
/// [`LinesError`], for the first line that is wrong.
pub(super) fn read_lines(
    file: &str,
    mut input: impl BufRead,
    (what, bytes_max): (&str, usize),
    mut take: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), LinesError> {
    let mut buffer = Vec::new();
    for line in 1.. {
        buffer.clear();
        let with_feed = bytes_max as u64 + 1;
        let read = (&mut input)
            .take(with_feed)
            .read_until(b'\n', &mut buffer)
            .map_err(|source| LinesError::Read {
                file: file.to_owned(),
                source,
            })?;
        if read == 0 {
            break;
        }
        let text = buffer.strip_suffix(b"\n").unwrap_or(&buffer);
        let taken = match text.len() > bytes_max {
            true => Err(format!("{what} of more than {bytes_max} bytes")),
            false => take(text),
        };
        taken.map_err(|reason| LinesError::Line {
            file: file.to_owned(),
            line,
            reason,
        })?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// A file of one long line, without a line feed, which tells how much of it was read.
    pub(in crate::workload) struct OneLine {
        left: usize,
        read: Rc<Cell<usize>>,
    }

    impl OneLine {
        /// So many bytes; with how many of them were read.
        pub(in crate::workload) fn new(bytes: usize) -> (BufReader<Self>, Rc<Cell<usize>>) {
            let read = Rc::new(Cell::new(0));
            let line = Self {
                left: bytes,
                read: Rc::clone(&read),
            };
            (BufReader::new(line), read)
        }
    }

    impl Read for OneLine {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = buffer.len().min(self.left);
            buffer[..count].fill(b'1');
            self.left -= count;
            self.read.set(self.read.get() + count);
            Ok(count)
        }
    }

    fn lines(text: &[u8], bytes_max: usize) -> Result<Vec<Vec<u8>>, LinesError> {
        let mut lines = Vec::new();
        read_lines("f", text, ("a line", bytes_max), |line| {
            lines.push(line.to_vec());
            Ok(())
        })?;
        Ok(lines)
    }

    #[test]
    fn lines_come_without_their_feeds_and_the_last_needs_none() {
        assert_eq!(lines(b"", 3).unwrap(), [b""; 0]);
        assert_eq!(lines(b"abc\n\nd", 3).unwrap(), [&b"abc"[..], b"", b"d"]);
        assert_eq!(lines(b"abc", 3).unwrap(), [b"abc"]);
        assert_eq!(lines(b"abc\n", 3).unwrap(), [b"abc"]);
    }

    #[test]
    fn a_longer_line_is_refused_by_its_number() {
        for text in [&b"a\nabcd\n"[..], b"a\nabcd", b"a\nabcdefgh\nb\n"] {
            let error = lines(text, 3).unwrap_err().to_string();
            assert_eq!(error, "f, line 2: a line of more than 3 bytes");
        }
        let (input, read) = OneLine::new(1 << 26);
        let error = read_lines("f", input, ("a line", 4096), |_| Ok(())).unwrap_err();
        assert!(matches!(error, LinesError::Line { line: 1, .. }), "{error}");
        assert!(read.get() <= 1 << 16, "{} bytes were read", read.get());
    }
}
