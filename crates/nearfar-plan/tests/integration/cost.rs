//! Cheapest configurations: those of the paper, and an oracle that counts on its fingers.

use nearfar_plan::{CostError, DeviceRange, PriceList};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;
const ALONE: DeviceRange = DeviceRange::exactly(0);
const ONE: DeviceRange = DeviceRange::exactly(1);
const UP_TO_FOUR: DeviceRange = DeviceRange { min: 1, max: 4 };

fn price(gib: u64, devices: DeviceRange) -> f64 {
    let found = PriceList::published().cheapest(gib * GIB, devices);
    found.expect("large enough").price
}

#[test]
fn published_prices_are_met() {
    assert_eq!(price(1024, ALONE), 9_536.0);
    assert_eq!(price(1024, ONE), 10_560.0);
    let of = |gib| [ALONE, ONE, UP_TO_FOUR].map(|devices| price(gib, devices));
    assert_eq!(of(4096), [38_336.0, 43_536.0, 25_136.0]);
    assert_eq!(of(4352), [110_400.0, 43_536.0, 26_160.0]);
    assert_eq!(of(8192), [110_400.0, 115_600.0, 59_136.0]);
}

#[test]
fn the_step_is_behind_the_capacity() {
    let prices = PriceList::published();
    let at = |bytes| prices.cheapest(bytes, ALONE).expect("large enough");
    assert_eq!(at(1024 * GIB).cpus, 1);
    assert_eq!(at(1024 * GIB).capacity_bytes(), 1024 * GIB);
    assert!(at(1024 * GIB + 1).price > at(1024 * GIB).price);
    assert_eq!(at(0).price, 5_360.0);
}

#[test]
fn what_is_not_to_be_had_is_refused() {
    let prices = PriceList::published();
    let error = prices.cheapest(8193 * GIB, ALONE).unwrap_err();
    assert!(
        matches!(
            error,
            CostError::TooLarge {
                largest_gib: 8192,
                ..
            }
        ),
        "{error}"
    );
    assert!(prices.cheapest(u64::MAX, UP_TO_FOUR).is_err());
    let error = prices
        .cheapest(GIB, DeviceRange { min: 1, max: 5 })
        .unwrap_err();
    assert!(
        matches!(error, CostError::Devices { devices_max: 4, .. }),
        "{error}"
    );
}

#[test]
fn ranges_of_devices_are_read_as_they_are_written() {
    for text in ["0", "1", "1-4", "0-16"] {
        let range: DeviceRange = text.parse().expect("a range");
        assert_eq!(range.to_string(), text);
    }
    for text in ["", "-", "4-1", "1-", "-1", "1-2-3", "x", "4294967296"] {
        assert!(text.parse::<DeviceRange>().is_err(), "{text:?}");
    }
}

/// The formula as the paper has it, over all that it allows.
fn by_hand(gib: u64, min: u64, max: u64) -> Option<u64> {
    let modules = [(16, 85), (32, 137), (64, 346), (128, 948), (256, 3200)];
    let mut cheapest = None;
    for cpus in 1..=2_u64 {
        for (size, price) in modules {
            for devices in min..=max {
                let capacity = cpus * 16 * size + devices * 1024;
                let price = cpus * 4000 + cpus * 16 * price + devices * 8 * 650;
                if capacity >= gib && cheapest.is_none_or(|found| price < found) {
                    cheapest = Some(price);
                }
            }
        }
    }
    cheapest
}

proptest! {
    #[test]
    fn the_cheapest_is_found(gib in 0_u64..14_000, min in 0_u32..=4, more in 0_u32..=4) {
        let devices = DeviceRange { min, max: (min + more).min(4) };
        let found = PriceList::published().cheapest(gib * GIB, devices);
        let expected = by_hand(gib, u64::from(devices.min), u64::from(devices.max));
        prop_assert_eq!(found.as_ref().ok().map(|one| one.price as u64), expected);
        if let Ok(found) = found {
            prop_assert!(found.capacity_bytes() >= gib * GIB);
            prop_assert!((devices.min..=devices.max).contains(&found.devices));
            prop_assert_eq!(found.far.is_some(), found.devices > 0);
        }
    }

    #[test]
    fn more_memory_is_never_cheaper(gib in 1_u64..8_192, devices in 0_u32..=4) {
        let prices = PriceList::published();
        let at = |gib: u64| prices.cheapest(gib * GIB, DeviceRange { min: 0, max: devices });
        prop_assert!(at(gib - 1).expect("smaller").price <= at(gib).expect("large enough").price);
    }
}
