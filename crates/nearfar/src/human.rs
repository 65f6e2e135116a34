//! Sizes, rates and times, read from and written for people.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use nearfar_table::traffic::TierTraffic;
use nearfar_topology::units::{ThreeDigits, parse_bytes, parse_bytes_per_s};

/// A number of bytes as written on the command line: `4096`, `512MB`, `2GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_bytes(text).map(Self).ok_or_else(|| {
            "give bytes as a number with or without a unit, such as 512MB or 2GiB".to_owned()
        })
    }
}

/// Bytes per second as written on the command line: `500MB/s`, `2GiB/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bandwidth(pub u64);

impl FromStr for Bandwidth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes_per_s = parse_bytes_per_s(text).filter(|limit| *limit >= TierTraffic::LIMIT_MIN);
        let bad = || "give 1MiB/s or more, with its unit, such as 2GB/s".to_owned();
        bytes_per_s.map(Self).ok_or_else(bad)
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

/// The address of a host, and the name of the tablespace that its memory is: `b=10.0.0.1:7475`, or without the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedAddress {
    pub name: String,
    pub address: SocketAddr,
}

/// The tablespace of a host that is given no name.
const REMOTE: &str = "remote";

impl FromStr for NamedAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, address) = text.split_once('=').unwrap_or((REMOTE, text));
        let is_first = |first: char| first.is_ascii_lowercase();
        let is_word = |rest: &str| {
            let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            rest.chars().all(allowed)
        };
        if !name.starts_with(is_first) || !is_word(name) {
            let rule = "is made of lower-case letters, digits and underscores, a letter first";
            return Err(format!("{name:?} is no name: it {rule}"));
        }
        let address = address
            .parse()
            .map_err(|_| format!("{address:?} is no address and port, such as 10.0.0.1:7475"))?;
        let name = name.to_owned();
        Ok(Self { name, address })
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
        f.pad(&format!("{} {}", ThreeDigits(value), UNITS[unit]))
    }
}

/// Nanoseconds of a memory access.
#[derive(Debug, Clone, Copy)]
pub struct Nanoseconds(pub f64);

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} ns", ThreeDigits(self.0)))
    }
}

/// How long something took.
#[derive(Debug, Clone, Copy)]
pub struct Elapsed(pub Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        if seconds < 1e-3 {
            f.pad(&format!("{} µs", ThreeDigits(seconds * 1e6)))
        } else if seconds < 1.0 {
            f.pad(&format!("{} ms", ThreeDigits(seconds * 1e3)))
        } else {
            f.pad(&format!("{} s", ThreeDigits(seconds)))
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
    fn figures_are_written_with_three_digits() {
        assert_eq!(BytesPerSecond(38e9).to_string(), "38.0 GB/s");
        assert_eq!(Nanoseconds(507.3).to_string(), "507 ns");
        assert_eq!(Elapsed(Duration::from_micros(1500)).to_string(), "1.50 ms");
        assert_eq!(Count(1_234_567).to_string(), "1,234,567");
        assert_eq!(Count(123).to_string(), "123");
    }
}
