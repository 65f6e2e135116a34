//! Reading back a [`Known`] as `nearfar-topology` writes it.

use nearfar_topology::Known;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum Either<T> {
    Gap(Gap),
    Value(T),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gap {
    unavailable: String,
}

/// A bare value, or `{"unavailable": reason}`.
pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Known<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(match Either::deserialize(deserializer)? {
        Either::Gap(gap) => Known::unavailable(gap.unavailable),
        Either::Value(value) => Known::Value(value),
    })
}
