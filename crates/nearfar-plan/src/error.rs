//! What can be wrong with prices, and with what is asked of them.

use thiserror::Error;

use crate::devices::DeviceRange;

/// A list of prices cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PricesError {
    /// The text is not TOML, or has keys or types that no list of prices has.
    #[error("prices {file}: {source}")]
    Syntax {
        /// The file.
        file: String,
        /// Where and why.
        #[source]
        source: toml::de::Error,
    },
    /// A value is impossible.
    #[error("prices {file}: {key}: {problem}")]
    Invalid {
        /// The file.
        file: String,
        /// The key, such as `cpu.module.16.price`.
        key: String,
        /// What is wrong with it.
        problem: PriceProblem,
    },
}

/// What is wrong with one key of a list of prices.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PriceProblem {
    /// The number lies outside of what is possible.
    #[error("{value} is not possible, allowed is {min} to {max}")]
    OutOfRange {
        /// The value given.
        value: f64,
        /// The least value.
        min: f64,
        /// The largest value.
        max: f64,
    },
    /// A text that must say something is empty.
    #[error("is empty")]
    Empty,
    /// No date.
    #[error("{text:?} is no date; write YYYY-MM or YYYY-MM-DD")]
    NoDate {
        /// The text given.
        text: String,
    },
    /// No currency.
    #[error("{text:?} is no currency; write the three letters of ISO 4217, such as USD")]
    NoCurrency {
        /// The text given.
        text: String,
    },
    /// A part without modules, or with too many sizes of them.
    #[error("has {count} sizes of modules; 1 to {max} are possible")]
    Modules {
        /// Sizes given.
        count: usize,
        /// Most that are read.
        max: usize,
    },
    /// Two modules of one size.
    #[error("occurs twice")]
    Repeated,
}

/// Nothing that can be bought is what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CostError {
    /// More devices than can be attached, or than there are prices for.
    #[error("{asked} devices: prices {prices} have at most {devices_max}")]
    Devices {
        /// Numbers of devices that were asked for.
        asked: DeviceRange,
        /// Name of the prices.
        prices: String,
        /// Most devices of a configuration.
        devices_max: u32,
    },
    /// No configuration is as large.
    #[error(
        "prices {prices} have no configuration of {demand_gib} GiB with {asked} devices; the largest has {largest_gib} GiB"
    )]
    TooLarge {
        /// What was asked for, in GiB, rounded up.
        demand_gib: u64,
        /// Numbers of devices that were asked for.
        asked: DeviceRange,
        /// Name of the prices.
        prices: String,
        /// The largest configuration with so many devices, in GiB.
        largest_gib: u64,
    },
}
