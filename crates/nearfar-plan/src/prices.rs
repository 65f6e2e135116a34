//! Lists of prices: TOML, dated, with a source for every number.

use serde::{Deserialize, Serialize};

use crate::error::{PriceProblem, PricesError};

/// The list that [`PriceList::published`] reads.
const PUBLISHED: &str = include_str!("../prices/weisgut-2025.toml");

/// Sizes of modules that one part can have.
const MODULES_MAX: usize = 16;
/// Processors, and devices, of one configuration.
const COUNT_MAX: f64 = 16.0;
const SLOTS_MAX: f64 = 1_024.0;
const PRICE_MAX: f64 = 1e9;
/// 1 PiB.
const MODULE_GIB_MAX: f64 = 1_048_576.0;

/// A number and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// The number.
    pub value: T,
    /// Who says so.
    pub source: String,
}

/// A memory module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// Its size, in GiB.
    pub gib: u64,
    /// Price of one.
    pub price: Sourced<f64>,
}

/// Something that holds modules: a processor, or a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What it is called.
    pub name: String,
    /// Price of one, without modules.
    pub price: Sourced<f64>,
    /// Modules of one; every slot is populated.
    pub slots: Sourced<u32>,
    /// Most of them in one machine.
    pub count_max: Sourced<u32>,
    /// The modules that it can hold, all of one size.
    #[serde(rename = "module")]
    pub modules: Vec<Module>,
}

/// What processors, modules and devices cost on one day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// Short name of the list.
    pub name: String,
    /// The day or the month of its prices: `2025-03-31` or `2025-03`.
    pub date: String,
    /// Currency of its prices: the three letters of ISO 4217.
    pub currency: String,
    /// The processor.
    pub cpu: Part,
    /// The CXL device, where there is one.
    pub device: Option<Part>,
}

impl PriceList {
    /// The prices of weisgut-2025, section 7.
    ///
    /// # Panics
    /// Never: the list is part of the product, and a test reads it.
    pub fn published() -> Self {
        Self::parse("weisgut-2025", PUBLISHED).expect("prices of the product are well-formed")
    }

    /// Reads a list from TOML; `file` names it in errors.
    ///
    /// # Errors
    /// [`PricesError`]: no TOML of this shape, and values that are impossible, each with its key.
    pub fn parse(file: &str, text: &str) -> Result<Self, PricesError> {
        let list: Self = toml::from_str(text).map_err(|source| PricesError::Syntax {
            file: file.to_owned(),
            source,
        })?;
        list.check()
            .map_err(|(key, problem)| PricesError::Invalid {
                file: file.to_owned(),
                key,
                problem,
            })?;
        Ok(list)
    }

    fn check(&self) -> Result<(), (String, PriceProblem)> {
        not_empty("name", &self.name)?;
        if !is_date(&self.date) {
            let text = self.date.clone();
            return Err(("date".to_owned(), PriceProblem::NoDate { text }));
        }
        let is_currency =
            self.currency.len() == 3 && self.currency.bytes().all(|c| c.is_ascii_uppercase());
        if !is_currency {
            let text = self.currency.clone();
            return Err(("currency".to_owned(), PriceProblem::NoCurrency { text }));
        }
        check_part("cpu", &self.cpu)?;
        self.device
            .as_ref()
            .map_or(Ok(()), |device| check_part("device", device))
    }
}

fn check_part(key: &str, part: &Part) -> Result<(), (String, PriceProblem)> {
    not_empty(&format!("{key}.name"), &part.name)?;
    check_sourced(&format!("{key}.price"), &part.price, 0.0, PRICE_MAX)?;
    check_sourced(&format!("{key}.slots"), &part.slots, 1.0, SLOTS_MAX)?;
    check_sourced(&format!("{key}.count_max"), &part.count_max, 1.0, COUNT_MAX)?;
    let count = part.modules.len();
    if !(1..=MODULES_MAX).contains(&count) {
        let max = MODULES_MAX;
        return Err((key.to_owned(), PriceProblem::Modules { count, max }));
    }
    for (index, module) in part.modules.iter().enumerate() {
        let key = format!("{key}.module.{}", module.gib);
        in_range(&key, module.gib as f64, 1.0, MODULE_GIB_MAX)?;
        check_sourced(&format!("{key}.price"), &module.price, 0.0, PRICE_MAX)?;
        if part.modules[..index]
            .iter()
            .any(|other| other.gib == module.gib)
        {
            return Err((key, PriceProblem::Repeated));
        }
    }
    Ok(())
}

fn check_sourced<T: Copy + Into<f64>>(
    key: &str,
    number: &Sourced<T>,
    min: f64,
    max: f64,
) -> Result<(), (String, PriceProblem)> {
    in_range(key, number.value.into(), min, max)?;
    not_empty(&format!("{key}.source"), &number.source)
}

fn in_range(key: &str, value: f64, min: f64, max: f64) -> Result<(), (String, PriceProblem)> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err((key.to_owned(), PriceProblem::OutOfRange { value, min, max })),
    }
}

fn not_empty(key: &str, text: &str) -> Result<(), (String, PriceProblem)> {
    match text.trim().is_empty() {
        true => Err((key.to_owned(), PriceProblem::Empty)),
        false => Ok(()),
    }
}

/// `YYYY-MM` or `YYYY-MM-DD`.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |index: usize, digits: usize, max: u32| {
        parts.get(index).is_none_or(|part: &&str| {
            let value = part
                .bytes()
                .all(|c| c.is_ascii_digit())
                .then(|| part.parse().ok());
            part.len() == digits && value.flatten().is_some_and(|n: u32| (1..=max).contains(&n))
        })
    };
    (2..=3).contains(&parts.len()) && number(0, 4, 9_999) && number(1, 2, 12) && number(2, 2, 31)
}
