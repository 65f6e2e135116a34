//! Workloads by name.

use std::sync::Arc;

use super::block_trace::BlockTrace;
use super::distribution::{Distribution, HotRegion};

/// Requests of each kind, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mix {
    /// Look a key up.
    pub read: u8,
    /// Overwrite the value of a key.
    pub update: u8,
    /// Store a new key.
    pub insert: u8,
    /// Read a key and those after it.
    pub scan: u8,
    /// Look a key up and overwrite its value.
    pub read_modify_write: u8,
}

impl Mix {
    /// The sum, which is 100 for a workload.
    #[must_use]
    pub fn total(&self) -> u32 {
        let parts = [
            self.read,
            self.update,
            self.insert,
            self.scan,
            self.read_modify_write,
        ];
        parts.into_iter().map(u32::from).sum()
    }
}

/// A workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// What is done.
    pub mix: Mix,
    /// With which keys.
    pub distribution: Distribution,
    /// Keys of a scan: 1 to so many, all alike.
    pub scan_keys_max: u16,
    /// Requests that are taken from a trace, from its beginning again and again, instead of all
    /// the above.
    pub replay: Option<Arc<BlockTrace>>,
}

/// A name that no workload has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no workload is named {name:?}; there are: {}", Workload::NAMES.join(", "))]
pub struct UnknownWorkload {
    /// The name asked for.
    pub name: String,
}

/// The exponent of YCSB's Zipfian distribution.
pub const ZIPF_YCSB: f64 = 0.99;

/// The longest scan of YCSB E.
const SCAN_KEYS_MAX: u16 = 100;

impl Workload {
    /// All names. `read-latest` and `short-ranges` are zhao-2026's for YCSB D and E; `read-heavy`
    /// and `write-heavy` are those of weisgut-2025, section 5.4.
    pub const NAMES: [&'static str; 15] = [
        "ycsb-a",
        "ycsb-b",
        "ycsb-c",
        "ycsb-d",
        "ycsb-e",
        "ycsb-f",
        "read-latest",
        "short-ranges",
        "hotspot-update-heavy",
        "hotspot-read-mostly",
        "hotspot-read-only",
        "hotspot-insert",
        "read-heavy",
        "write-heavy",
        "load",
    ];

    /// A workload by name (zhao-2026, table 1; Cooper et al., SoCC 2010).
    ///
    /// # Errors
    /// [`UnknownWorkload`].
    ///
    /// ```
    /// use nearfar_index_bench::workload::Workload;
    ///
    /// let workload = Workload::named("ycsb-e")?;
    /// assert_eq!((workload.mix.scan, workload.mix.insert), (95, 5));
    /// # Ok::<(), nearfar_index_bench::workload::UnknownWorkload>(())
    /// ```
    pub fn named(name: &str) -> Result<Self, UnknownWorkload> {
        let unknown = || UnknownWorkload {
            name: name.to_owned(),
        };
        let known = Self::NAMES.iter().find(|known| **known == name);
        let name = *known.ok_or_else(unknown)?;
        let (read, update, insert, scan, read_modify_write) = match name {
            "ycsb-a" | "hotspot-update-heavy" => (50, 50, 0, 0, 0),
            "ycsb-b" | "hotspot-read-mostly" => (95, 5, 0, 0, 0),
            "ycsb-c" | "hotspot-read-only" => (100, 0, 0, 0, 0),
            "ycsb-d" | "read-latest" | "hotspot-insert" => (95, 0, 5, 0, 0),
            "read-heavy" => (95, 0, 5, 0, 0),
            "write-heavy" => (5, 0, 95, 0, 0),
            "ycsb-e" | "short-ranges" => (0, 0, 5, 95, 0),
            "ycsb-f" => (50, 0, 0, 0, 50),
            "load" => (0, 0, 100, 0, 0),
            _ => return Err(unknown()),
        };
        let coefficient = ZIPF_YCSB;
        let distribution = match name {
            "ycsb-d" | "read-latest" => Distribution::Latest { coefficient },
            "load" => Distribution::Uniform,
            _ if name.starts_with("hotspot") => Distribution::HotRegion(HotRegion::ZHAO_2026),
            _ => Distribution::Zipf { coefficient },
        };
        Ok(Self {
            name,
            mix: Mix {
                read,
                update,
                insert,
                scan,
                read_modify_write,
            },
            distribution,
            scan_keys_max: SCAN_KEYS_MAX,
            replay: None,
        })
    }

    /// The replay of a trace, whose keys are [`TraceKeys`](super::TraceKeys). Threads take its
    /// requests in turn.
    #[must_use]
    pub fn replay(trace: Arc<BlockTrace>) -> Self {
        Self {
            name: "block-trace",
            mix: Mix::default(),
            distribution: Distribution::Uniform,
            scan_keys_max: SCAN_KEYS_MAX,
            replay: Some(trace),
        }
    }

    /// What is asked for, in a word for results.
    #[must_use]
    pub fn distribution_name(&self) -> String {
        if self.replay.is_some() {
            return "trace".to_owned();
        }
        match self.distribution {
            Distribution::Uniform => "uniform".to_owned(),
            Distribution::Zipf { coefficient: 0.0 } => "uniform".to_owned(),
            Distribution::Zipf { coefficient } => format!("zipf-{coefficient}"),
            Distribution::Latest { coefficient } => format!("latest-{coefficient}"),
            Distribution::HotRegion(_) => "hot-region".to_owned(),
        }
    }

    /// The same with another Zipf exponent, where it has one; 0 asks for all keys alike.
    #[must_use]
    pub fn with_zipf(mut self, exponent: f64) -> Self {
        match &mut self.distribution {
            Distribution::Zipf { coefficient } | Distribution::Latest { coefficient } => {
                *coefficient = exponent;
            }
            Distribution::Uniform | Distribution::HotRegion(_) => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_workload_of_one_hundred_percent() {
        for name in Workload::NAMES {
            assert_eq!(Workload::named(name).unwrap().mix.total(), 100, "{name}");
        }
        let error = Workload::named("ycsb-g").unwrap_err().to_string();
        assert!(
            error.contains("ycsb-g") && error.contains("ycsb-f"),
            "{error}"
        );
    }
}
