//! The settings of DataFusion that sessions may change, and within which bounds. All others are the
//! engine's alone: what runs beside the session, where files are written, how deep plans may be.

use arrow::array::TimestampSecondArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::value::Given;
use crate::error::SqlError;

/// The namespace of DataFusion's settings.
pub const PREFIX: &str = "datafusion.";
/// The namespace of the settings of DataFusion's runtime, which no list of its settings has.
const RUNTIME: &str = "datafusion.runtime.";

/// Partitions of a query per thread, at most: each has buffers and channels of its own.
const PARTITIONS_PER_THREAD: u64 = 4;
/// So many partitions are allowed however few threads there are.
const PARTITIONS: u64 = 16;

/// A setting of DataFusion that sessions may change.
#[derive(Debug)]
pub struct LibrarySetting {
    /// Its name, with its namespace.
    pub name: &'static str,
    /// What it can be.
    pub allowed: Allowed,
}

/// What a setting can be.
#[derive(Debug)]
pub enum Allowed {
    /// On or off.
    Flag,
    /// A number.
    Number(RangeInclusive<u64>),
    /// A number from 1, whose largest follows from the number of threads.
    Partitions,
    /// A share, from 0 to 1.
    Share,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A zone of time, as an offset or by its name.
    Zone,
}

const MIB: u64 = 1 << 20;

const fn flag(name: &'static str) -> LibrarySetting {
    let allowed = Allowed::Flag;
    LibrarySetting { name, allowed }
}

const fn number(name: &'static str, range: RangeInclusive<u64>) -> LibrarySetting {
    let allowed = Allowed::Number(range);
    LibrarySetting { name, allowed }
}

const fn words(name: &'static str, words: &'static [&'static str]) -> LibrarySetting {
    let allowed = Allowed::Words(words);
    LibrarySetting { name, allowed }
}

/// All of them.
pub const LIBRARY: &[LibrarySetting] = &[
    number("datafusion.execution.batch_size", 1..=65_536),
    LibrarySetting {
        name: "datafusion.execution.target_partitions",
        allowed: Allowed::Partitions,
    },
    LibrarySetting {
        name: "datafusion.execution.time_zone",
        allowed: Allowed::Zone,
    },
    flag("datafusion.execution.coalesce_batches"),
    flag("datafusion.execution.collect_statistics"),
    flag("datafusion.execution.enable_recursive_ctes"),
    flag("datafusion.execution.parquet.bloom_filter_on_read"),
    flag("datafusion.execution.parquet.enable_page_index"),
    flag("datafusion.execution.parquet.pruning"),
    flag("datafusion.execution.parquet.pushdown_filters"),
    flag("datafusion.execution.parquet.reorder_filters"),
    LibrarySetting {
        name: "datafusion.execution.skip_partial_aggregation_probe_ratio_threshold",
        allowed: Allowed::Share,
    },
    number(
        "datafusion.execution.skip_partial_aggregation_probe_rows_threshold",
        0..=1_000_000_000,
    ),
    number(
        "datafusion.execution.sort_in_place_threshold_bytes",
        0..=64 * MIB,
    ),
    number(
        "datafusion.execution.sort_spill_reservation_bytes",
        0..=1024 * MIB,
    ),
    number("datafusion.optimizer.default_filter_selectivity", 0..=100),
    flag("datafusion.optimizer.allow_symmetric_joins_without_pruning"),
    flag("datafusion.optimizer.enable_distinct_aggregation_soft_limit"),
    flag("datafusion.optimizer.enable_dynamic_filter_pushdown"),
    flag("datafusion.optimizer.enable_round_robin_repartition"),
    flag("datafusion.optimizer.enable_sort_pushdown"),
    flag("datafusion.optimizer.enable_topk_aggregation"),
    flag("datafusion.optimizer.enable_window_limits"),
    flag("datafusion.optimizer.filter_null_join_keys"),
    number(
        "datafusion.optimizer.hash_join_single_partition_threshold",
        0..=1024 * MIB,
    ),
    number(
        "datafusion.optimizer.hash_join_single_partition_threshold_rows",
        0..=16 * MIB,
    ),
    flag("datafusion.optimizer.join_reordering"),
    number("datafusion.optimizer.max_passes", 1..=16),
    flag("datafusion.optimizer.prefer_existing_sort"),
    flag("datafusion.optimizer.prefer_existing_union"),
    flag("datafusion.optimizer.prefer_hash_join"),
    flag("datafusion.optimizer.repartition_aggregations"),
    number(
        "datafusion.optimizer.repartition_file_min_size",
        1..=1024 * MIB,
    ),
    flag("datafusion.optimizer.repartition_file_scans"),
    flag("datafusion.optimizer.repartition_joins"),
    flag("datafusion.optimizer.repartition_sorts"),
    flag("datafusion.optimizer.repartition_windows"),
    flag("datafusion.optimizer.top_down_join_key_reordering"),
    words(
        "datafusion.explain.format",
        &["indent", "tree", "pgjson", "graphviz"],
    ),
    flag("datafusion.explain.logical_plan_only"),
    flag("datafusion.explain.physical_plan_only"),
    flag("datafusion.explain.show_schema"),
    flag("datafusion.explain.show_sizes"),
    flag("datafusion.explain.show_statistics"),
    number("datafusion.explain.tree_maximum_render_width", 1..=4096),
    words(
        "datafusion.sql_parser.default_null_ordering",
        &["nulls_max", "nulls_min", "nulls_first", "nulls_last"],
    ),
    flag("datafusion.sql_parser.parse_float_as_decimal"),
];

impl Allowed {
    /// `given` as DataFusion reads it, for queries read by `threads` threads.
    ///
    /// # Errors
    /// A value that the setting can't have.
    pub fn check(&self, given: &Given<'_>, threads: usize) -> Result<String, SqlError> {
        match self {
            Self::Flag => Ok(given.boolean()?.to_string()),
            Self::Number(range) => within(given, range.clone()),
            Self::Partitions => {
                let most = (threads as u64).saturating_mul(PARTITIONS_PER_THREAD);
                within(given, 1..=most.max(PARTITIONS))
            }
            Self::Share => {
                let share = given.text.parse::<f64>();
                let share = share.ok().filter(|share| (0.0..=1.0).contains(share));
                let share = share.ok_or_else(|| given.refused("use a number from 0 to 1"))?;
                Ok(share.to_string())
            }
            Self::Words(words) => {
                let word = given.text.to_ascii_lowercase();
                match words.contains(&word.as_str()) {
                    true => Ok(word),
                    false => Err(given.refused(format!("use {}", words.join(", ")))),
                }
            }
            Self::Zone => {
                let zone = given.text.to_owned();
                match is_zone(given.text) {
                    true => Ok(zone),
                    false => Err(given.refused("use UTC or an offset such as +02:00")),
                }
            }
        }
    }

    /// What the setting can be, in words.
    pub fn describe(&self) -> String {
        match self {
            Self::Flag => "on or off".to_owned(),
            Self::Number(range) => format!("{} to {}", range.start(), range.end()),
            Self::Partitions => format!(
                "1 to {PARTITIONS_PER_THREAD} for each thread, or {PARTITIONS} where that is more"
            ),
            Self::Share => "0 to 1".to_owned(),
            Self::Words(words) => words.join(", "),
            Self::Zone => "UTC or an offset".to_owned(),
        }
    }
}

/// Whether times can be brought to this zone.
fn is_zone(zone: &str) -> bool {
    let time = TimestampSecondArray::from(vec![0]);
    let zoned = DataType::Timestamp(TimeUnit::Second, Some(zone.into()));
    cast(&time, &zoned).is_ok()
}

fn within(given: &Given<'_>, range: RangeInclusive<u64>) -> Result<String, SqlError> {
    let number = given.text.parse::<u64>().ok();
    match number.filter(|number| range.contains(number)) {
        Some(number) => Ok(number.to_string()),
        None => Err(given.refused(format!(
            "use a number from {} to {}",
            range.start(),
            range.end()
        ))),
    }
}

/// The values of all of them, where they have one.
pub fn values(options: &ConfigOptions) -> BTreeMap<&'static str, Option<String>> {
    let entries = options.entries();
    let values = entries.into_iter().filter_map(|entry| {
        let setting = LIBRARY.iter().find(|setting| setting.name == entry.key)?;
        Some((setting.name, entry.value))
    });
    values.collect()
}

/// Why a setting of DataFusion's that is not in the list can't be set; none for one that it has not.
pub fn refusal(name: &str) -> Option<SqlError> {
    let is_known = name.starts_with(RUNTIME)
        || ConfigOptions::new()
            .entries()
            .iter()
            .any(|entry| entry.key == name);
    let instead = match name {
        "datafusion.runtime.memory_limit" => "use memory_limit",
        "datafusion.runtime.temp_directory" => "spill_tablespace says where queries spill",
        _ => "it is the engine's; docs/settings.md lists those of DataFusion that can be",
    };
    is_known.then(|| SqlError::FixedSetting {
        name: name.to_owned(),
        instead: instead.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values at the ends of what is allowed.
    fn ends(allowed: &Allowed) -> Vec<String> {
        match allowed {
            Allowed::Flag => vec!["on".to_owned(), "off".to_owned()],
            Allowed::Number(range) => vec![range.start().to_string(), range.end().to_string()],
            Allowed::Partitions => vec!["1".to_owned(), PARTITIONS.to_string()],
            Allowed::Share => vec!["0".to_owned(), "1".to_owned()],
            Allowed::Words(words) => words.iter().map(|word| (*word).to_owned()).collect(),
            Allowed::Zone => vec!["UTC".to_owned(), "+02:00".to_owned()],
        }
    }

    /// Values beyond them.
    fn beyond(allowed: &Allowed) -> Vec<String> {
        let wrong = match allowed {
            Allowed::Flag => vec!["2"],
            Allowed::Number(range) => {
                let above = range.end() + 1;
                return vec![above.to_string(), "-1".to_owned(), "1e3".to_owned()];
            }
            Allowed::Partitions => vec!["0", "17", "5000", "-1"],
            Allowed::Share => vec!["-0.1", "1.1", "NaN", "inf"],
            Allowed::Words(_) => vec!["", "other"],
            Allowed::Zone => vec!["nowhere", "+99:00"],
        };
        wrong.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn the_library_takes_what_is_allowed_and_nothing_else_reaches_it() {
        for setting in LIBRARY {
            let name = setting.name;
            assert!(refusal(name).is_some(), "{name} is none of the library's");
            for text in ends(&setting.allowed) {
                let given = Given { name, text: &text };
                let value = setting.allowed.check(&given, 1).expect(name);
                let mut options = ConfigOptions::new();
                options.set(name, &value).expect(name);
            }
            for text in beyond(&setting.allowed) {
                let given = Given { name, text: &text };
                assert!(setting.allowed.check(&given, 1).is_err(), "{name} {text}");
            }
        }
    }

    #[test]
    fn what_the_engine_lives_on_is_not_in_the_list() {
        for prefix in [
            RUNTIME,
            "datafusion.catalog.",
            "datafusion.sql_parser.recursion_limit",
            "datafusion.sql_parser.dialect",
            "datafusion.sql_parser.collect_spans",
            "datafusion.execution.perfect_hash_join",
        ] {
            assert!(
                !LIBRARY.iter().any(|one| one.name.starts_with(prefix)),
                "{prefix}"
            );
        }
        assert!(refusal("datafusion.execution.nothing").is_none());
    }
}
