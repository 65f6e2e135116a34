//! Sizes, rates and times, read from and written for people.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use nearfar_table::placement::NearBudget;

/// A number of bytes as written on the command line: `4096`, `512MB`, `2GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(bytes) = text.parse() {
            return Ok(Self(bytes));
        }
        match text.parse() {
            Ok(NearBudget::Bytes(bytes)) => Ok(Self(bytes)),
            _ => Err("give bytes as a number with or without a unit, such as 512MB or 2GiB".into()),
        }
    }
}

/// The budget of one tier as written on the command line: `far=2GiB`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierBudget {
    pub tier: String,
    pub bytes: u64,
}

impl FromStr for TierBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tier, bytes) = text
            .split_once('=')
            .ok_or("give a tier and bytes, such as near=512MB")?;
        let ByteSize(bytes) = bytes.parse()?;
        let tier = tier.to_owned();
        Ok(Self { tier, bytes })
    }
}

/// Bytes in powers of 1024, with three digits.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub u64);

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
        f.pad(&format!("{} {}", Digits(value), UNITS[unit]))
    }
}

/// Bytes per second in powers of 1000, as memory bandwidths are given.
#[derive(Debug, Clone, Copy)]
pub struct BytesPerSecond(pub f64);

impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B/s", "KB/s", "MB/s", "GB/s", "TB/s"];
        let mut value = self.0;
        let mut unit = 0;
        while value >= 999.5 && unit + 1 < UNITS.len() {
            value /= 1000.0;
            unit += 1;
        }
        f.pad(&format!("{} {}", Digits(value), UNITS[unit]))
    }
}

/// Nanoseconds of a memory access.
#[derive(Debug, Clone, Copy)]
pub struct Nanoseconds(pub f64);

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} ns", Digits(self.0)))
    }
}

/// How long something took.
#[derive(Debug, Clone, Copy)]
pub struct Elapsed(pub Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        if seconds < 1e-3 {
            f.pad(&format!("{} µs", Digits(seconds * 1e6)))
        } else if seconds < 1.0 {
            f.pad(&format!("{} ms", Digits(seconds * 1e3)))
        } else {
            f.pad(&format!("{} s", Digits(seconds)))
        }
    }
}

/// A count with its thousands apart: `1,234,567`.
#[derive(Debug, Clone, Copy)]
pub struct Count(pub u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (position, digit) in digits.chars().enumerate() {
            if position > 0 && (digits.len() - position).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// At least three significant digits, and no more places than that takes.
struct Digits(f64);

impl fmt::Display for Digits {
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

    #[test]
    fn sizes_are_read() {
        assert_eq!("4096".parse(), Ok(ByteSize(4096)));
        assert_eq!("2GiB".parse(), Ok(ByteSize(2 << 30)));
        assert_eq!("1.5 MB".parse(), Ok(ByteSize(1_500_000)));
        for wrong in ["", "25%", "-1", "2 apples"] {
            assert!(wrong.parse::<ByteSize>().is_err(), "{wrong}");
        }
        let budget: TierBudget = "far=1KiB".parse().expect("a budget");
        assert_eq!((budget.tier.as_str(), budget.bytes), ("far", 1024));
        assert!("far".parse::<TierBudget>().is_err());
    }

    #[test]
    fn sizes_are_written_with_three_digits() {
        let bytes = |bytes| Bytes(bytes).to_string();
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(1023 << 10), "1.00 MiB");
        assert_eq!(bytes(24 << 30), "24.0 GiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(BytesPerSecond(38e9).to_string(), "38.0 GB/s");
        assert_eq!(Nanoseconds(507.3).to_string(), "507 ns");
        assert_eq!(Elapsed(Duration::from_micros(1500)).to_string(), "1.50 ms");
        assert_eq!(Count(1_234_567).to_string(), "1,234,567");
        assert_eq!(Count(123).to_string(), "123");
    }
}
