//! Sizes, times, rates and shares as they are written in specifications.

use std::time::Duration;

use nearfar_topology::units::{parse_bytes, split_number};

/// A number and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let (number, unit) = split_number(text)?;
    Some((number.replace('_', "").parse().ok()?, unit))
}

/// Bytes: `4096`, `64MiB`, `7 GB`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text)
        .ok_or_else(|| format!("{text:?} is no size: write bytes, such as 4096, 64MiB or 7GB"))
}

/// A time: `10s`, `200ms`, `1.5s`; without a unit, seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let factor = |unit: &str| match unit {
        "" | "s" => Some(1.0),
        "ms" => Some(1e-3),
        "us" | "µs" => Some(1e-6),
        "min" => Some(60.0),
        _ => None,
    };
    let seconds = split(text).and_then(|(number, unit)| Some(number * factor(unit)?));
    match seconds {
        Some(seconds) if seconds < 1e9 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "{text:?} is no time: write seconds, such as 10s, 200ms or 1.5s"
        )),
    }
}

/// Bytes per second: `5GB/s`.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let amount = text.trim().strip_suffix("/s").unwrap_or(text);
    match parse_bytes(amount) {
        Some(bytes) if bytes > 0 => Ok(bytes as f64),
        _ => Err(format!(
            "{text:?} is no rate: write bytes per second, such as 5GB/s"
        )),
    }
}

/// A share: `25%` or `0.25`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = match split(text) {
        Some((number, "%")) => Some(number / 100.0),
        Some((number, "")) => Some(number),
        _ => None,
    };
    match share {
        Some(share) if share <= 1.0 => Ok(share),
        _ => Err(format!(
            "{text:?} is no share: write 25% or 0.25, at most 100%"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64 MiB"), Ok(64 << 20));
        assert_eq!(bytes("1.5GB"), Ok(1_500_000_000));
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(rate("5GB/s"), Ok(5e9));
        assert_eq!(share("25%"), Ok(0.25));
        assert_eq!(share("0.5"), Ok(0.5));
        for wrong in ["", "x", "-1", "1 apple", "1e999GB"] {
            assert!(bytes(wrong).is_err() && duration(wrong).is_err(), "{wrong}");
            assert!(rate(wrong).is_err() && share(wrong).is_err(), "{wrong}");
        }
        assert!(share("101%").is_err() && rate("0").is_err());
    }
}
