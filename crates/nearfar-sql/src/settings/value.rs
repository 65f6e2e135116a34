//! Values of settings, read from text.

use nearfar_memory::{Placement, TierId};

use std::time::Duration;

use super::isolation::isolation_of;
use super::plan_cache::PlanCacheMode;
use super::read_ahead::ReadAheadBy;
use super::tablespaces::{Place, Tablespaces};
use crate::error::SqlError;
use nearfar_durable::log::LogSync;
use nearfar_table::traffic::TierTraffic;
use nearfar_table::transaction::Isolation;
use nearfar_topology::units::{parse_bytes_per_s, parse_bytes_with_unit};

/// A time in milliseconds, which it is where no unit is written behind it: ms, s, min or h. None for what is no
/// such number.
pub fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// A value that a statement gives a setting.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// The setting.
    pub name: &'a str,
    /// The value.
    pub text: &'a str,
}

impl Given<'_> {
    /// The error of a value that the setting can't have.
    pub fn refused(&self, allowed: impl Into<String>) -> SqlError {
        SqlError::SettingValue {
            name: self.name.to_owned(),
            value: self.text.to_owned(),
            allowed: allowed.into(),
        }
    }

    /// What `word` stands for, or what else `read` reads.
    pub fn word_or<T>(
        &self,
        word: &str,
        meaning: T,
        read: impl FnOnce(&Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        if self.text.eq_ignore_ascii_case(word) {
            return Ok(meaning);
        }
        read(self).map_err(|mut error| {
            if let SqlError::SettingValue { allowed, .. } = &mut error {
                *allowed = format!("{allowed}, or {word}");
            }
            error
        })
    }

    /// A tablespace, or a placement over several.
    pub fn placement(&self, tablespaces: &Tablespaces) -> Result<Placement, SqlError> {
        tablespaces.placement(&Place::Tablespace(self.text.to_lowercase()))
    }

    /// A tablespace.
    pub fn tier(&self, tablespaces: &Tablespaces) -> Result<TierId, SqlError> {
        tablespaces.tier(&self.text.to_lowercase())
    }

    /// A tablespace for what threads allocate.
    pub fn heap_tier(&self, tablespaces: &Tablespaces) -> Result<TierId, SqlError> {
        tablespaces.heap_tier(&self.text.to_lowercase())
    }

    /// Bytes, not more than `given_bytes`.
    pub fn at_most(&self, given_bytes: u64) -> Result<u64, SqlError> {
        let limit_bytes = self.bytes()?;
        match limit_bytes <= given_bytes {
            true => Ok(limit_bytes),
            false => Err(self.refused(format!("the engine allows {given_bytes}B"))),
        }
    }

    /// Bytes with their unit.
    pub fn bytes(&self) -> Result<u64, SqlError> {
        parse_bytes_with_unit(self.text)
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| {
                self.refused("use a number of bytes with its unit, such as 512MiB or 2GiB")
            })
    }

    /// Bytes with their unit, in a second.
    pub fn bandwidth(&self) -> Result<u64, SqlError> {
        parse_bytes_per_s(self.text)
            .filter(|bytes| *bytes >= TierTraffic::LIMIT_MIN)
            .ok_or_else(|| self.refused("use 1MiB/s or more, with its unit, such as 2GB/s"))
    }

    /// A number of rows.
    pub fn rows(&self) -> Result<u64, SqlError> {
        let rows = self.text.parse().ok().filter(|rows| *rows > 0);
        rows.ok_or_else(|| self.refused("use a number of rows above 0"))
    }

    /// A number from `least` to `most`.
    pub fn count(&self, least: u64, most: u64) -> Result<u64, SqlError> {
        let count = self.text.parse().ok();
        let count = count.filter(|count| (least..=most).contains(count));
        count.ok_or_else(|| self.refused(format!("use a number from {least} to {most}")))
    }

    /// When commits are on disk.
    pub fn log_sync(&self) -> Result<LogSync, SqlError> {
        let sync = self.text.parse();
        sync.map_err(|_| self.refused("use on, off, or a time such as 200ms or 5s"))
    }

    /// What transactions read.
    pub fn isolation(&self) -> Result<Isolation, SqlError> {
        isolation_of(self.text).ok_or_else(|| {
            self.refused("use 'read committed', 'repeatable read' or 'serializable'")
        })
    }

    /// Which queries have generic plans.
    pub fn plan_cache_mode(&self) -> Result<PlanCacheMode, SqlError> {
        PlanCacheMode::of_name(self.text)
            .ok_or_else(|| self.refused("use auto, force_custom_plan or force_generic_plan"))
    }

    /// What reads ahead, if this machine has it.
    pub fn read_ahead(&self) -> Result<ReadAheadBy, SqlError> {
        let given = match self.boolean() {
            Ok(true) => Some(ReadAheadBy::Auto),
            Ok(false) => Some(ReadAheadBy::Off),
            Err(_) => ReadAheadBy::of_name(self.text),
        };
        let given = given.ok_or_else(|| {
            let names: Vec<&str> = ReadAheadBy::all().map(ReadAheadBy::name).collect();
            self.refused(format!("use one of {}", names.join(", ")))
        })?;
        match given {
            ReadAheadBy::Threads(method) => method
                .check()
                .map(|()| given)
                .map_err(|error| self.refused(error.to_string())),
            ReadAheadBy::Off | ReadAheadBy::Auto => Ok(given),
        }
    }

    /// A time, in milliseconds where it has no unit.
    pub fn time(&self) -> Result<Duration, SqlError> {
        let time = milliseconds(self.text).map(Duration::from_millis);
        time.ok_or_else(|| {
            self.refused("use a number of milliseconds, or one with ms, s, min or h")
        })
    }

    /// A truth value, by the words that PostgreSQL takes.
    pub fn boolean(&self) -> Result<bool, SqlError> {
        match self.text.to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" | "1" => Ok(true),
            "off" | "false" | "no" | "0" => Ok(false),
            _ => Err(self.refused("use on or off")),
        }
    }
}
