//! What memory to buy, as mathematics: [`PriceList`]s of processors, memory modules and CXL devices, each
//! number with its source and all with a date, and the cheapest [`Configuration`] that is large enough.
//!
//! The price model is that of weisgut-2025, section 7. Every slot of a processor holds a module, all of one
//! size, and so does every slot of a device:
//!
//! ```text
//! price    = c · (processor + slots · module) + d · (device + slots · module)
//! capacity = c · slots · size + d · slots · size
//! ```
//!
//! This crate touches no memory, reads no file and measures nothing.
//!
//! ```
//! use nearfar_plan::{DeviceRange, PriceList};
//!
//! let prices = PriceList::published();
//! let alone = prices.cheapest(5 << 40, DeviceRange::exactly(0))?;
//! let with_devices = prices.cheapest(5 << 40, DeviceRange { min: 1, max: 4 })?;
//! assert_eq!((alone.price, with_devices.price), (110_400.0, 30_336.0));
//! assert_eq!(with_devices.devices, 4);
//! # Ok::<(), nearfar_plan::CostError>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod cost;
mod devices;
mod error;
mod prices;

pub use self::cost::{Configuration, Fitted};
pub use self::devices::DeviceRange;
pub use self::error::{CostError, PriceProblem, PricesError};
pub use self::prices::{Module, Part, PriceList, Sourced};
