//! Reading sysfs: small text files that may be absent, unreadable or garbled.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::error::DiscoverError;
use crate::known::Known;

/// Most bytes an attribute can have: the kernel gives one page, some files more.
const ATTRIBUTE_BYTES_MAX: u64 = 1 << 18;
/// Most characters of a garbled file that an error repeats.
const EXCERPT_CHARS_MAX: usize = 120;

/// A sysfs, at `/sys` or wherever a captured one lies. Paths are relative to it.
pub(crate) struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// The attribute as `parse` understands it; `None` where there is none.
    ///
    /// A file that vanishes, or whose device answers that it has no such value,
    /// counts as absent: sysfs changes while it is read.
    pub(crate) fn parse<T>(
        &self,
        relative: &str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, DiscoverError> {
        let path = self.path(relative);
        let bytes = match read_bytes(&path) {
            Ok(bytes) => bytes,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(source) => return Err(DiscoverError::Read { path, source }),
        };
        let short = bytes.len() as u64 <= ATTRIBUTE_BYTES_MAX;
        let text = std::str::from_utf8(&bytes).ok().filter(|_| short);
        match text.and_then(|text| parse(text.trim())) {
            Some(value) => Ok(Some(value)),
            None => Err(DiscoverError::Garbled {
                path,
                content: excerpt(&bytes),
                expected,
            }),
        }
    }

    /// As [`Sysfs::parse`], with the reason where there is no value, which may
    /// also be that only the superuser may read it.
    pub(crate) fn parse_known<T>(
        &self,
        relative: &str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Known<T>, DiscoverError> {
        match self.parse(relative, expected, parse) {
            Ok(Some(value)) => Ok(Known::Value(value)),
            Ok(None) => Ok(Known::unavailable(format!("no {relative}"))),
            Err(DiscoverError::Read { source, .. })
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                Ok(Known::unavailable(format!(
                    "only the superuser may read {relative}"
                )))
            }
            Err(error) => Err(error),
        }
    }

    /// Names in a folder, sorted; none where there is no such folder.
    pub(crate) fn names(&self, relative: &str) -> Result<Vec<String>, DiscoverError> {
        let path = self.path(relative);
        let fail = |source| DiscoverError::Read {
            path: path.clone(),
            source,
        };
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(source) => return Err(fail(source)),
        };
        let mut names = Vec::new();
        for entry in entries {
            // A name that is not UTF-8 is none of the kernel's.
            names.extend(entry.map_err(fail)?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    /// Numbers `N` of the entries named `<prefix><N>`, ascending.
    pub(crate) fn numbered(&self, relative: &str, prefix: &str) -> Result<Vec<u32>, DiscoverError> {
        let mut numbers: Vec<u32> = self
            .names(relative)?
            .iter()
            .filter_map(|name| parse_decimal(name.strip_prefix(prefix)?))
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Whether there is such a file or folder.
    pub(crate) fn exists(&self, relative: &str) -> bool {
        self.path(relative).exists()
    }

    /// Last part of a symbolic link's target, such as the name of a driver.
    pub(crate) fn link_name(&self, relative: &str) -> Option<String> {
        let target = fs::read_link(self.path(relative)).ok()?;
        target.file_name()?.to_str().map(str::to_owned)
    }

    /// The driver bound to the device in that folder.
    pub(crate) fn driver(&self, folder: &str) -> Known<String> {
        match self.link_name(&format!("{folder}/driver")) {
            Some(driver) => Known::Value(driver),
            None => Known::unavailable("no driver is bound to it"),
        }
    }

    /// Parts of the path with every symbolic link followed, such as the chain of
    /// a device's parents; none where the path leads nowhere.
    pub(crate) fn real_parts(&self, relative: &str) -> Vec<String> {
        let real = fs::canonicalize(self.path(relative)).unwrap_or_default();
        real.iter()
            .filter_map(|part| part.to_str().map(str::to_owned))
            .collect()
    }
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "is not a regular file",
        ));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(ATTRIBUTE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether an error says that there is no such value, rather than that it cannot
/// be read: ENOENT, ENOTDIR, and ENODEV, ENXIO, EOPNOTSUPP from a device's driver.
fn is_absent(error: &io::Error) -> bool {
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    const EOPNOTSUPP: i32 = 95;
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || matches!(error.raw_os_error(), Some(ENXIO | ENODEV | EOPNOTSUPP))
}

fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * EXCERPT_CHARS_MAX)]);
    let text = text.trim_end();
    if text.chars().count() <= EXCERPT_CHARS_MAX {
        return text.to_owned();
    }
    text.chars()
        .take(EXCERPT_CHARS_MAX)
        .chain("...".chars())
        .collect()
}

/// A decimal number of digits only.
pub(crate) fn parse_decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// A hexadecimal number with or without `0x`.
pub(crate) fn parse_hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// A number as the kernel writes it: hexadecimal with `0x`, else decimal.
pub(crate) fn parse_integer(text: &str) -> Option<u64> {
    if text.starts_with("0x") {
        parse_hex(text)
    } else {
        parse_decimal(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_nothing_else() {
        assert_eq!(parse_decimal::<u32>("10"), Some(10));
        for text in ["", "-1", "+1", "1 ", "4294967296", "1e3"] {
            assert_eq!(parse_decimal::<u32>(text), None, "{text:?}");
        }
        assert_eq!(parse_hex("8000000"), Some(0x800_0000));
        assert_eq!(parse_integer("0x10"), Some(16));
        assert_eq!(parse_integer("10"), Some(10));
        assert_eq!(parse_hex("0x"), None);
        assert_eq!(parse_hex("10000000000000000"), None);
    }

    #[test]
    fn an_excerpt_is_short_and_never_splits_badly() {
        assert_eq!(excerpt(b"abc\n"), "abc");
        assert_eq!(excerpt(&[0xff, b'a']), "\u{fffd}a");
        let long = excerpt("ä".repeat(10_000).as_bytes());
        assert_eq!(long.chars().count(), EXCERPT_CHARS_MAX + 3);
    }
}
