//! Sizes, times, rates and shares as they are written in specifications.

use std::time::Duration;

/// Splits a number from its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim()))
}

fn byte_factor(unit: &str) -> Option<f64> {
    let power = |base: f64, exponent: i32| Some(base.powi(exponent));
    match unit {
        "" | "B" => Some(1.0),
        "KB" | "kB" => power(1000.0, 1),
        "MB" => power(1000.0, 2),
        "GB" => power(1000.0, 3),
        "TB" => power(1000.0, 4),
        "KiB" => power(1024.0, 1),
        "MiB" => power(1024.0, 2),
        "GiB" => power(1024.0, 3),
        "TiB" => power(1024.0, 4),
        _ => None,
    }
}

/// Bytes: `4096`, `64MiB`, `7 GB`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let parsed = split(text).and_then(|(number, unit)| Some(number * byte_factor(unit)?));
    match parsed {
        Some(bytes) if bytes < u64::MAX as f64 => Ok(bytes.round() as u64),
        _ => Err(format!(
            "{text:?} is no size: write bytes, such as 4096, 64MiB or 7GB"
        )),
    }
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
    match split(amount).and_then(|(number, unit)| Some(number * byte_factor(unit)?)) {
        Some(rate) if rate > 0.0 => Ok(rate),
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

/// Bytes in the largest binary unit that keeps them whole.
pub(crate) fn bytes_text(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
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

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for size in [1, 64, 4096, 3 << 20, (7 << 30) + 1] {
            assert_eq!(bytes(&bytes_text(size)), Ok(size));
        }
        assert_eq!(bytes_text(7 << 30), "7GiB");
    }
}
