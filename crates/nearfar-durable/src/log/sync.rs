//! When what is committed must be on disk.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// When the log is written to disk: the setting `log_sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogSync {
    /// Before a commit is acknowledged. Commits that wait concurrently share one write.
    #[default]
    On,
    /// So often, in the background: a loss of power loses what was committed since. Ending or
    /// killing the program loses nothing.
    Every(Duration),
    /// When the kernel sees fit, and with checkpoints.
    Off,
}

impl LogSync {
    /// Whether commits wait.
    pub fn is_on(self) -> bool {
        self == Self::On
    }
}

/// A text that is no [`LogSync`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no setting of log_sync: use on, off, or a time such as 200ms or 5s")]
pub struct LogSyncError {
    /// The text.
    pub text: String,
}

impl FromStr for LogSync {
    type Err = LogSyncError;

    fn from_str(text: &str) -> Result<Self, LogSyncError> {
        let lower = text.trim().to_ascii_lowercase();
        match lower.as_str() {
            "on" | "true" => return Ok(Self::On),
            "off" | "false" => return Ok(Self::Off),
            _ => {}
        }
        duration(&lower)
            .filter(|every| !every.is_zero())
            .map(Self::Every)
            .ok_or_else(|| LogSyncError {
                text: text.to_owned(),
            })
    }
}

impl fmt::Display for LogSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On => f.write_str("on"),
            Self::Off => f.write_str("off"),
            Self::Every(every) => write!(f, "{}ms", every.as_millis()),
        }
    }
}

/// A number with `ms`, `s` or `min`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let milliseconds = match unit.trim() {
        "ms" => number,
        "s" => number.checked_mul(1000)?,
        "min" => number.checked_mul(60_000)?,
        _ => return None,
    };
    Some(Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_written() {
        for (text, expected) in [
            ("on", LogSync::On),
            ("OFF", LogSync::Off),
            ("200ms", LogSync::Every(Duration::from_millis(200))),
            ("5 s", LogSync::Every(Duration::from_secs(5))),
            ("1min", LogSync::Every(Duration::from_secs(60))),
        ] {
            let read: LogSync = text.parse().expect(text);
            assert_eq!(read, expected);
            assert_eq!(read.to_string().parse(), Ok(expected));
        }
        for wrong in ["", "5", "0s", "-1s", "fast", "5h", "99999999999999999999s"] {
            assert!(wrong.parse::<LogSync>().is_err(), "{wrong}");
        }
    }
}
