//! Numbers of bytes as people write and read them.

use std::fmt;

/// Units by their names in lower case, with the bytes of one.
const UNITS: [(&str, u64); 13] = [
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// Reads a number of bytes with or without a unit: `4096`, `64MiB`, `1.5 GB`, `1_000`.
///
/// Units are read in upper and lower case: B, KB, MB, GB and TB are powers of 1000; K, M, G, T, KiB, MiB,
/// GiB and TiB are powers of 1024. Fractions are rounded to whole bytes. `None` for what is no such
/// number, and for more than a `u64` holds.
pub fn parse_bytes(text: &str) -> Option<u64> {
    match split_number(text)? {
        (number, "") => scale(number, 1),
        (number, unit) => scale(number, bytes_of(unit)?),
    }
}

/// The same where the unit must be written, so that nobody takes bytes for something else.
pub fn parse_bytes_with_unit(text: &str) -> Option<u64> {
    let (number, unit) = split_number(text)?;
    scale(number, bytes_of(unit)?)
}

/// Bytes per second: bytes with their unit, and `/s` behind it, such as `2GB/s`.
pub fn parse_bytes_per_s(text: &str) -> Option<u64> {
    parse_bytes_with_unit(text.trim().strip_suffix("/s")?)
}

/// Splits a number from the unit behind it, both without blanks around them. The number consists of
/// digits, points and underscores; whether it is one is not checked.
pub fn split_number(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    let end = text.find(|c| !is_of_number(c)).unwrap_or(text.len());
    (end > 0).then(|| (&text[..end], text[end..].trim()))
}

fn bytes_of(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let found = UNITS.iter().find(|(name, _)| *name == unit);
    found.map(|(_, bytes)| *bytes)
}

/// Whole numbers exactly, others as floats are.
fn scale(number: &str, factor: u64) -> Option<u64> {
    let number = number.replace('_', "");
    if !number.contains('.') {
        return number.parse::<u64>().ok()?.checked_mul(factor);
    }
    let bytes = (number.parse::<f64>().ok()? * factor as f64).round();
    (bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// Bytes for people: in powers of 1024, with three digits (`1.50 KiB`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Bytes {
    /// In the largest unit that keeps them whole (`64MiB`, `4097B`), which [`parse_bytes`] reads as the
    /// same number.
    pub fn exact(self) -> String {
        for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            if self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift) {
                return format!("{}{unit}", self.0 >> shift);
            }
        }
        format!("{}B", self.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 999.5 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        f.pad(&format!("{} {}", ThreeDigits(value), UNITS[unit]))
    }
}

/// A number with three significant digits at least, and no more decimal places than that takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThreeDigits(pub f64);

impl fmt::Display for ThreeDigits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = match self.0.abs() {
            value if value >= 99.95 => 0,
            value if value >= 9.995 => 1,
            _ => 2,
        };
        write!(f, "{:.places$}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_people_write_is_read() {
        assert_eq!(parse_bytes("4096"), Some(4096));
        assert_eq!(parse_bytes(" 64 MiB "), Some(64 << 20));
        assert_eq!(parse_bytes("2g"), Some(2 << 30));
        assert_eq!(parse_bytes("512MB"), Some(512_000_000));
        assert_eq!(parse_bytes("1.5GB"), Some(1_500_000_000));
        assert_eq!(parse_bytes("1_000 kB"), Some(1_000_000));
        assert_eq!(parse_bytes("18446744073709551615"), Some(u64::MAX));
        let wrong = [
            "",
            "x",
            "-1",
            "+1",
            "1 apple",
            "1e9",
            "_",
            ".",
            "1.2.3",
            "25%",
            "GiB",
            "NaN",
            "inf",
            "18446744073709551616",
            "16777216TiB",
            "99999999999.9TiB",
        ];
        for text in wrong {
            assert_eq!(parse_bytes(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_unit_can_be_asked_for() {
        assert_eq!(parse_bytes_with_unit("4096B"), Some(4096));
        assert_eq!(parse_bytes_with_unit("4096"), None);
        assert_eq!(parse_bytes_with_unit(""), None);
    }

    #[test]
    fn sizes_are_written_with_three_digits() {
        let text = |bytes| Bytes(bytes).to_string();
        assert_eq!(text(1023), "1023 B");
        assert_eq!(text(1536), "1.50 KiB");
        assert_eq!(text(1023 << 10), "1.00 MiB");
        assert_eq!(text(24 << 30), "24.0 GiB");
        assert_eq!(text(u64::MAX), "16.0 EiB");
        assert_eq!(format!("{:>8}", Bytes(1)), "     1 B");
        assert_eq!(Bytes(7 << 30).exact(), "7GiB");
    }

    proptest! {
        #[test]
        fn exact_sizes_are_read_as_they_were(bytes: u64, shift in 0_u32..64) {
            let bytes = bytes >> shift;
            prop_assert_eq!(parse_bytes_with_unit(&Bytes(bytes).exact()), Some(bytes));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9._]{0,24}[ a-zA-Zµ%]{0,5}") {
            if let Some(bytes) = parse_bytes_with_unit(&text) {
                prop_assert_eq!(parse_bytes(&text), Some(bytes));
            }
        }
    }
}
