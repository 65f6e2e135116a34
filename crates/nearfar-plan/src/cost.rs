//! Configurations and their prices (weisgut-2025, section 7).

use serde::Serialize;

use crate::devices::DeviceRange;
use crate::error::CostError;
use crate::prices::{Module, Part, PriceList};

const GIB: u64 = 1 << 30;

/// Modules of one part of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Fitted {
    /// Modules in all.
    pub modules: u32,
    /// Size of each, in GiB.
    pub module_gib: u64,
}

impl Fitted {
    /// Their memory, in bytes.
    pub const fn bytes(self) -> u64 {
        self.modules as u64 * self.module_gib * GIB
    }
}

/// A machine that can be bought.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Configuration {
    /// Processors.
    pub cpus: u32,
    /// Modules of the processors.
    pub near: Fitted,
    /// Devices.
    pub devices: u32,
    /// Modules of the devices, where there are any.
    pub far: Option<Fitted>,
    /// Price of all of it, in the currency of the list.
    pub price: f64,
}

impl Configuration {
    /// Its memory, in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.near.bytes() + self.far.map_or(0, Fitted::bytes)
    }

    /// Whether it is to be preferred to another one: cheaper, at the same price larger, then with fewer
    /// devices.
    fn is_better_than(&self, other: &Self) -> bool {
        let by_price = self.price.total_cmp(&other.price);
        let by_capacity = other.capacity_bytes().cmp(&self.capacity_bytes());
        let by_devices = self.devices.cmp(&other.devices);
        by_price.then(by_capacity).then(by_devices).is_lt()
    }
}

impl PriceList {
    /// Most devices of a configuration.
    pub fn devices_max(&self) -> u32 {
        self.device
            .as_ref()
            .map_or(0, |device| device.count_max.value)
    }

    /// All configurations with a number of devices from the range, in the order of the list.
    pub fn configurations(&self, devices: DeviceRange) -> Vec<Configuration> {
        let near = fitted(&self.cpu, 1, self.cpu.count_max.value);
        let far = self.device.as_ref().map_or_else(Vec::new, |device| {
            fitted(
                device,
                devices.min.max(1),
                devices.max.min(self.devices_max()),
            )
        });
        let without = (devices.min == 0).then_some((0, None, 0.0));
        let far = far
            .into_iter()
            .map(|(count, far, price)| (count, Some(far), price));
        let far: Vec<_> = without.into_iter().chain(far).collect();
        let with = |&(cpus, near, near_price): &(u32, Fitted, f64)| {
            far.iter()
                .map(move |&(devices, far, far_price)| Configuration {
                    cpus,
                    near,
                    devices,
                    far,
                    price: near_price + far_price,
                })
                .collect::<Vec<_>>()
        };
        near.iter().flat_map(with).collect()
    }

    /// The cheapest configuration of at least `capacity_bytes`.
    ///
    /// # Errors
    /// [`CostError::Devices`] for more devices than the list has, and [`CostError::TooLarge`] where no
    /// configuration is large enough.
    pub fn cheapest(
        &self,
        capacity_bytes: u64,
        devices: DeviceRange,
    ) -> Result<Configuration, CostError> {
        if devices.max > self.devices_max() {
            return Err(CostError::Devices {
                asked: devices,
                prices: self.name.clone(),
                devices_max: self.devices_max(),
            });
        }
        let all = self.configurations(devices);
        let enough = all
            .iter()
            .filter(|one| one.capacity_bytes() >= capacity_bytes);
        let cheapest = enough
            .copied()
            .reduce(|best, one| match one.is_better_than(&best) {
                true => one,
                false => best,
            });
        cheapest.ok_or_else(|| CostError::TooLarge {
            demand_gib: capacity_bytes.div_ceil(GIB),
            asked: devices,
            prices: self.name.clone(),
            largest_gib: all
                .iter()
                .map(|one| one.capacity_bytes() / GIB)
                .max()
                .unwrap_or(0),
        })
    }
}

/// So many parts with every size of module: how many, their modules, and the price of both.
fn fitted(part: &Part, count_min: u32, count_max: u32) -> Vec<(u32, Fitted, f64)> {
    let of = |count: u32| {
        part.modules.iter().map(move |module: &Module| {
            let slots = part.slots.value;
            let of_modules = f64::from(slots) * module.price.value;
            let fitted = Fitted {
                modules: count * slots,
                module_gib: module.gib,
            };
            (
                count,
                fitted,
                f64::from(count) * (part.price.value + of_modules),
            )
        })
    };
    (count_min..=count_max).flat_map(of).collect()
}
