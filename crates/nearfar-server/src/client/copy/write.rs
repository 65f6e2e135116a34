//! Rows as the text that a client is sent.

use bytes::{Buf, Bytes, BytesMut};
use nearfar_sql::sql::{CopyFormat, CopyOptions};
use pgwire::messages::data::DataRow;

/// Writes rows of a `COPY … TO STDOUT` as text.
#[derive(Debug, Clone)]
pub struct TextEncoder {
    options: CopyOptions,
}

impl TextEncoder {
    /// A writer of rows in the form of `options`.
    pub fn new(options: CopyOptions) -> Self {
        Self { options }
    }

    /// The row of the columns' names, if there is one.
    pub fn header<'a>(&self, names: impl Iterator<Item = &'a str>) -> Option<Bytes> {
        self.options
            .header
            .then(|| self.line(names.map(|name| Some(name.as_bytes()))))
    }

    /// A row, of values in text form.
    pub fn row(&self, row: &DataRow) -> Bytes {
        let mut data = &row.data[..];
        let values = std::iter::from_fn(|| {
            if data.remaining() < 4 {
                return None;
            }
            // Less than none is null.
            Some(usize::try_from(data.get_i32()).ok().map(|length| {
                let (value, rest) = data.split_at(length.min(data.len()));
                data = rest;
                value
            }))
        });
        self.line(values)
    }

    fn line<'a>(&self, values: impl Iterator<Item = Option<&'a [u8]>>) -> Bytes {
        let mut line = BytesMut::new();
        for (at, value) in values.enumerate() {
            if at > 0 {
                line.extend_from_slice(&[self.options.delimiter]);
            }
            match (value, self.options.format) {
                (None, _) => line.extend_from_slice(self.options.null.as_bytes()),
                (Some(value), CopyFormat::Csv) => self.quote(value, &mut line),
                (Some(value), CopyFormat::Text | CopyFormat::Binary) => {
                    self.escape(value, &mut line);
                }
            }
        }
        line.extend_from_slice(b"\n");
        line.freeze()
    }

    fn escape(&self, value: &[u8], line: &mut BytesMut) {
        for byte in value {
            let letter = match byte {
                0x08 => b'b',
                0x0c => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                0x0b => b'v',
                b'\\' => b'\\',
                other if *other == self.options.delimiter => *other,
                other => {
                    line.extend_from_slice(&[*other]);
                    continue;
                }
            };
            line.extend_from_slice(&[b'\\', letter]);
        }
    }

    fn quote(&self, value: &[u8], line: &mut BytesMut) {
        let CopyOptions {
            delimiter,
            quote,
            escape,
            ..
        } = self.options;
        let is_special = |byte: &u8| [delimiter, quote, b'\n', b'\r'].contains(byte);
        // Without quotes it would be the null, or the end of all rows.
        let is_taken = value == self.options.null.as_bytes() || value == b"\\.";
        if !is_taken && !value.iter().any(is_special) {
            line.extend_from_slice(value);
            return;
        }
        line.extend_from_slice(&[quote]);
        for byte in value {
            if *byte == quote || *byte == escape {
                line.extend_from_slice(&[escape]);
            }
            line.extend_from_slice(&[*byte]);
        }
        line.extend_from_slice(&[quote]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::split::tests::{csv, text};
    use super::super::split::{Scanner, values};
    use super::*;
    use proptest::prelude::*;

    fn line(options: CopyOptions, values: &[Option<&str>]) -> Bytes {
        TextEncoder::new(options).line(values.iter().map(|value| value.map(str::as_bytes)))
    }

    #[test]
    fn values_are_written_as_postgresql_does() {
        let values = [Some("a\tb\\"), None, Some(""), Some("x,\"y\"")];
        assert_eq!(line(text(), &values), "a\\tb\\\\\t\\N\t\tx,\"y\"\n");
        assert_eq!(line(csv(), &values), "a\tb\\,,\"\",\"x,\"\"y\"\"\"\n");
    }

    proptest! {
        /// What is written is read as the same values.
        #[test]
        fn what_is_written_is_read(
            given in prop::collection::vec(prop::option::of("[a\\\\N.\",;'\t\n\r\u{8}é]{0,8}"), 1..5),
            is_csv: bool,
            is_other: bool,
        ) {
            let options = match (is_csv, is_other) {
                (false, false) => text(),
                (false, true) => CopyOptions { delimiter: b';', ..text() },
                (true, false) => csv(),
                (true, true) => CopyOptions { quote: b'\'', escape: b'\\', null: "a".to_owned(), ..csv() },
            };
            let written: Vec<Option<&str>> = given.iter().map(Option::as_deref).collect();
            let line = line(options.clone(), &written);
            prop_assert_eq!(Scanner::default().end(&line, &options), Some(line.len()));
            let mut read = Vec::new();
            let cut: Result<(), ()> = values(&line[..line.len() - 1], &options, |value| {
                read.push(value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
                Ok(())
            });
            prop_assert!(cut.is_ok());
            prop_assert_eq!(read, given);
        }
    }
}
