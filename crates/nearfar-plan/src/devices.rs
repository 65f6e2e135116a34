//! How many devices a machine may have.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Numbers of devices that a configuration may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DeviceRange {
    /// The least.
    pub min: u32,
    /// The most.
    pub max: u32,
}

impl DeviceRange {
    /// So many and no others.
    pub const fn exactly(devices: u32) -> Self {
        Self {
            min: devices,
            max: devices,
        }
    }
}

impl fmt::Display for DeviceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.min == self.max {
            true => write!(f, "{}", self.min),
            false => write!(f, "{}-{}", self.min, self.max),
        }
    }
}

impl FromStr for DeviceRange {
    type Err = String;

    /// Reads `2` or `1-4`.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u32>().ok();
        let range = match text.split_once('-') {
            Some((min, max)) => number(min).zip(number(max)),
            None => number(text).map(|devices| (devices, devices)),
        };
        range
            .filter(|(min, max)| min <= max)
            .map(|(min, max)| Self { min, max })
            .ok_or_else(|| "give a number of devices, or a range such as 1-4".to_owned())
    }
}
