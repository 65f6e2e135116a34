//! Lists of prices as text.

use nearfar_plan::{CostError, DeviceRange, PriceList};
use proptest::prelude::*;

const PUBLISHED: &str = include_str!("../../prices/weisgut-2025.toml");

#[test]
fn every_published_number_has_its_source() {
    let list = PriceList::published();
    assert_eq!(
        (list.date.as_str(), list.currency.as_str()),
        ("2025-03", "USD")
    );
    let device = list.device.expect("a device");
    let modules = list.cpu.modules.iter().chain(&device.modules);
    let sources = modules.map(|module| &module.price.source);
    for source in sources.chain([&list.cpu.price.source, &device.price.source]) {
        assert!(source.contains("weisgut-2025"), "{source}");
    }
}

#[test]
fn bad_prices_are_refused_with_their_key() {
    let cases = [
        ("value = 4000,", "value = -1,", "cpu.price: -1"),
        ("value = 4000,", "value = nan,", "cpu.price: NaN"),
        ("value = 4000,", "value = inf,", "cpu.price: inf"),
        ("value = 16,", "value = 0,", "cpu.slots: 0"),
        ("value = 4,", "value = 17,", "device.count_max: 17"),
        ("gib = 32", "gib = 16", "cpu.module.16: occurs twice"),
        ("gib = 32", "gib = 0", "cpu.module.0: 0"),
        ("2025-03\"", "2025-13\"", "date: \"2025-13\" is no date"),
        ("2025-03\"", "March\"", "date: \"March\" is no date"),
        ("USD", "$", "currency: \"$\""),
        ("CXL 1.1 memory blade", " ", "device.name: is empty"),
        (
            "name = \"weisgut-2025\"",
            "nom = \"x\"",
            "unknown field `nom`",
        ),
        ("value = 2,", "value = 2.5,", "invalid type"),
    ];
    for (old, new, expected) in cases {
        let text = PUBLISHED.replacen(old, new, 1);
        assert_ne!(text, PUBLISHED, "{old:?} is there");
        let error = PriceList::parse("p.toml", &text).unwrap_err().to_string();
        assert!(error.starts_with("prices p.toml: "), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_number_without_source_is_refused() {
    let text = PUBLISHED.replacen(
        "weisgut-2025, section 7: about 4,000, the cheapest Platinum with two modules per channel",
        "",
        1,
    );
    let error = PriceList::parse("p.toml", &text).unwrap_err().to_string();
    assert!(error.contains("cpu.price.source: is empty"), "{error}");
}

#[test]
fn a_machine_may_have_no_device() {
    let (text, _) = PUBLISHED.split_once("[device]").expect("a device");
    let list = PriceList::parse("p.toml", text).expect("prices");
    assert_eq!(
        list.cheapest(1 << 30, DeviceRange::exactly(0))
            .expect("large enough")
            .price,
        5_360.0
    );
    let refused = list.cheapest(1 << 30, DeviceRange::exactly(1));
    assert!(matches!(
        refused,
        Err(CostError::Devices { devices_max: 0, .. })
    ));
}

proptest! {
    #[test]
    fn damaged_prices_are_read_or_refused(at in 0_usize..PUBLISHED.len(), with in "[ -~\n]{0,4}") {
        let mut text = PUBLISHED.to_owned();
        text.replace_range(at..at + 1, &with);
        if let Ok(list) = PriceList::parse("p.toml", &text) {
            let _ = list.cheapest(5 << 40, DeviceRange { min: 0, max: 4 });
        }
    }
}
