//! Bytes into records, and records into values.

use nearfar_sql::sql::{CopyFormat, CopyOptions};

/// Finds where records end, in bytes that come in pieces.
#[derive(Debug, Default)]
pub struct Scanner {
    /// Bytes of the record that were looked at.
    at: usize,
    is_quoted: bool,
    /// Whether the byte before takes this one's meaning away.
    is_escaped: bool,
    /// Line breaks among these bytes.
    pub lines: u64,
}

impl Scanner {
    /// The length of the first record in `bytes` with its line break; none if it is not whole yet.
    /// `bytes` begin where the record does, as they did when this was asked before.
    pub fn end(&mut self, bytes: &[u8], options: &CopyOptions) -> Option<usize> {
        let is_csv = options.format == CopyFormat::Csv;
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            let is_break = *byte == b'\n';
            self.lines += u64::from(is_break);
            if std::mem::take(&mut self.is_escaped) {
                continue;
            }
            if is_csv {
                // A quote that follows itself ends quotes and begins them again.
                if self.is_quoted && *byte == options.escape && options.escape != options.quote {
                    self.is_escaped = true;
                } else if *byte == options.quote {
                    self.is_quoted = !self.is_quoted;
                }
            } else {
                self.is_escaped = *byte == b'\\';
            }
            if is_break && !self.is_quoted {
                return Some(self.at);
            }
        }
        None
    }

    /// Whether the bytes so far end within quotes.
    pub fn is_quoted(&self) -> bool {
        self.is_quoted
    }
}

/// Cuts a record without its line break into values: `next` gets the bytes of each as they are meant,
/// or nothing for null.
pub fn values<E>(
    record: &[u8],
    options: &CopyOptions,
    mut next: impl FnMut(Option<&[u8]>) -> Result<(), E>,
) -> Result<(), E> {
    match options.format {
        // Binary rows are not cut here.
        CopyFormat::Text | CopyFormat::Binary => text_values(record, options, &mut next),
        CopyFormat::Csv => csv_values(record, options, &mut next),
    }
}

fn text_values<E>(
    record: &[u8],
    options: &CopyOptions,
    next: &mut impl FnMut(Option<&[u8]>) -> Result<(), E>,
) -> Result<(), E> {
    let mut plain = Vec::new();
    let mut rest = Some(record);
    while let Some(from) = rest {
        let mut is_escaped = false;
        let end = from.iter().position(|byte| {
            let ends = !is_escaped && *byte == options.delimiter;
            is_escaped = !is_escaped && *byte == b'\\';
            ends
        });
        let raw = &from[..end.unwrap_or(from.len())];
        rest = end.map(|end| &from[end + 1..]);
        if raw == options.null.as_bytes() {
            next(None)?;
        } else if raw.contains(&b'\\') {
            plain.clear();
            unescape(raw, &mut plain);
            next(Some(&plain))?;
        } else {
            next(Some(raw))?;
        }
    }
    Ok(())
}

/// Puts what backslashes mean in their place (PostgreSQL, `COPY`, "Text Format").
fn unescape(raw: &[u8], plain: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            plain.push(*byte);
            continue;
        }
        let Some((meant, after)) = rest.split_first() else {
            plain.push(b'\\');
            break;
        };
        rest = after;
        plain.push(match meant {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'0'..=b'7' => {
                let more;
                (more, rest) = digits(rest, 8, 2);
                (u32::from(meant - b'0') * 8_u32.pow(more.1) + more.0) as u8
            }
            b'x' => match digits(rest, 16, 2) {
                ((_, 0), _) => b'x',
                ((value, _), after) => {
                    rest = after;
                    value as u8
                }
            },
            other => *other,
        });
    }
}

/// The number that up to `count` digits are, how many they were, and what follows them.
fn digits(bytes: &[u8], radix: u32, count: usize) -> ((u32, u32), &[u8]) {
    let values = bytes.iter().take(count);
    let values = values.map_while(|byte| char::from(*byte).to_digit(radix));
    let (value, length) = values.fold((0, 0), |(value, n), digit| (value * radix + digit, n + 1));
    ((value, length), &bytes[length as usize..])
}

fn csv_values<E>(
    record: &[u8],
    options: &CopyOptions,
    next: &mut impl FnMut(Option<&[u8]>) -> Result<(), E>,
) -> Result<(), E> {
    let mut value = Vec::new();
    let (mut is_quoted, mut was_quoted) = (false, false);
    let mut bytes = record.iter().copied().peekable();
    loop {
        match bytes.next() {
            Some(byte) if is_quoted => {
                let following = bytes.peek().copied();
                let is_special =
                    following == Some(options.quote) || following == Some(options.escape);
                if byte == options.escape && is_special {
                    value.extend(bytes.next());
                } else if byte == options.quote {
                    is_quoted = false;
                } else {
                    value.push(byte);
                }
            }
            Some(byte) if byte == options.quote => (is_quoted, was_quoted) = (true, true),
            Some(byte) if byte != options.delimiter => value.push(byte),
            end => {
                match !was_quoted && value == options.null.as_bytes() {
                    true => next(None)?,
                    false => next(Some(&value))?,
                }
                value.clear();
                was_quoted = false;
                if end.is_none() {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn text() -> CopyOptions {
        CopyOptions {
            format: CopyFormat::Text,
            header: false,
            delimiter: b'\t',
            null: "\\N".to_owned(),
            quote: b'"',
            escape: b'"',
        }
    }

    pub fn csv() -> CopyOptions {
        CopyOptions {
            format: CopyFormat::Csv,
            delimiter: b',',
            null: String::new(),
            ..text()
        }
    }

    fn cut(record: &str, options: &CopyOptions) -> Vec<Option<String>> {
        let mut all = Vec::new();
        let cut: Result<(), ()> = values(record.as_bytes(), options, |value| {
            all.push(value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
            Ok(())
        });
        cut.expect("no error");
        all
    }

    fn some(values: &[&str]) -> Vec<Option<String>> {
        values
            .iter()
            .map(|value| Some((*value).to_owned()))
            .collect()
    }

    #[test]
    fn backslashes_mean_what_they_do_in_postgresql() {
        assert_eq!(
            cut("a\\tb\t\\\\N\t\\101\\x4a\\x\t", &text()),
            some(&["a\tb", "\\N", "AJx", ""])
        );
        assert_eq!(cut("\\N\ta\\\tb", &text()), [None, Some("a\tb".to_owned())]);
        assert_eq!(
            cut("\\n\\r\\b\\f\\v\\q\\", &text()),
            some(&["\n\r\u{8}\u{c}\u{b}q\\"])
        );
    }

    #[test]
    fn quotes_tell_empty_from_null() {
        let expected = [None, Some(String::new()), Some("a,\"b\"\n".to_owned())];
        assert_eq!(cut(",\"\",\"a,\"\"b\"\"\n\"", &csv()), expected);
        assert_eq!(cut("a\" b\"c", &csv()), some(&["a bc"]));
        let other = CopyOptions {
            escape: b'\\',
            quote: b'\'',
            ..csv()
        };
        assert_eq!(
            cut("'it\\'s \\\\','\\n'", &other),
            some(&["it's \\", "\\n"])
        );
    }

    proptest! {
        /// Records end where they do, however the bytes come.
        #[test]
        fn records_are_found_in_pieces(
            bytes in prop::collection::vec(prop::sample::select(b"a\n\\\",\t".to_vec()), 0..60),
            pieces in prop::collection::vec(0_usize..7, 0..20),
            is_csv: bool,
        ) {
            let options = if is_csv { csv() } else { text() };
            let whole = Scanner::default().end(&bytes, &options);
            let mut scanner = Scanner::default();
            let (mut known, mut found) = (0, None);
            for piece in pieces.into_iter().chain([bytes.len()]) {
                known = (known + piece).min(bytes.len());
                found = found.or_else(|| scanner.end(&bytes[..known], &options));
            }
            prop_assert_eq!(found, whole);
            let _ = values::<()>(&bytes, &options, |_| Ok(()));
        }
    }
}
