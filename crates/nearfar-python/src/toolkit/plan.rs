//! What to buy.

use nearfar_plan::{DeviceRange, PriceList};
use pyo3::prelude::*;
use serde_json::json;

use super::{json, wrong};
use crate::failure::Failure;
use crate::python::raised;

/// The cheapest machine of so many bytes with that many devices, as JSON: `configuration`, `currency`,
/// `capacity_bytes`, and the list of prices.
#[pyfunction]
#[pyo3(signature = (capacity_bytes, devices_min=0, devices_max=None, prices=None))]
pub fn cheapest(
    capacity_bytes: u64,
    devices_min: u32,
    devices_max: Option<u32>,
    prices: Option<&str>,
) -> PyResult<String> {
    let find = || -> Result<String, Failure> {
        let prices = match prices {
            Some(text) => PriceList::parse("the prices", text).map_err(wrong)?,
            None => PriceList::published(),
        };
        let devices = DeviceRange {
            min: devices_min,
            max: devices_max.unwrap_or_else(|| prices.devices_max()),
        };
        let found = prices.cheapest(capacity_bytes, devices).map_err(wrong)?;
        json(&json!({
            "configuration": found,
            "capacity_bytes": found.capacity_bytes(),
            "currency": prices.currency,
            "prices": prices.name,
            "date": prices.date,
        }))
    };
    find().map_err(raised)
}
