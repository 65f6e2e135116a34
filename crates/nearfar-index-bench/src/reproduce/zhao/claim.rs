//! What is published.

use std::fmt;
use std::time::Duration;

use crate::map::{Contestant, WORD_BYTES};
use crate::placed::{Policy, Tuning, Worker, watermarks};
use crate::workload::Workload;

/// The published values.
const CLAIMS: &str = include_str!("claims.csv");
/// Workloads of a line are separated by this.
const WORKLOAD_SEPARATOR: char = ' ';

/// A figure or table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Figure {
    /// Throughput in the hot spot, under policies.
    Fig14a,
    /// Throughput in YCSB.
    Fig15,
    /// Intervals of workers.
    Fig16b,
    /// The share that is near.
    Fig16c,
    /// Skew.
    Fig17a,
    /// Sizes of values.
    Fig17b,
    /// Mechanisms, one after the other.
    Fig19,
    /// Watermarks.
    Fig21,
    /// Time of each worker.
    Table3,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Fig14a,
        Self::Fig15,
        Self::Fig16b,
        Self::Fig16c,
        Self::Fig17a,
        Self::Fig17b,
        Self::Fig19,
        Self::Fig21,
        Self::Table3,
    ];

    /// The word in arguments and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fig14a => "zhao-fig14a",
            Self::Fig15 => "zhao-fig15",
            Self::Fig16b => "zhao-fig16b",
            Self::Fig16c => "zhao-fig16c",
            Self::Fig17a => "zhao-fig17a",
            Self::Fig17b => "zhao-fig17b",
            Self::Fig19 => "zhao-fig19",
            Self::Fig21 => "zhao-fig21",
            Self::Table3 => "zhao-table3",
        }
    }

    /// What it is of.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Fig14a => "Throughput in the hot spot",
            Self::Fig15 => "Throughput in YCSB",
            Self::Fig16b => "Intervals of workers",
            Self::Fig16c => "Everything near",
            Self::Fig17a => "Skew",
            Self::Fig17b => "Sizes of values",
            Self::Fig19 => "Mechanisms, one after the other",
            Self::Fig21 => "Watermarks",
            Self::Table3 => "Time of workers",
        }
    }

    /// What is published of it.
    #[must_use]
    pub fn claims(self) -> Vec<Claim> {
        let lines = CLAIMS.lines().skip(1);
        let mine = lines.filter(|line| line.split(',').next() == Some(self.name()));
        mine.flat_map(Claim::of_line).collect()
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Throughput over that under another policy, in percent more.
    GainOver(Policy),
    /// A worker's share of the processor time, in percent; of all of them without one.
    WorkerShare(Option<Worker>),
}

/// A published range, and the experiment that it is of.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The tree.
    pub tree: Contestant,
    /// What is asked.
    pub workload: Workload,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// Percent of the tree that may be near.
    pub near_percent: u8,
    /// Whose gain or time it is.
    pub policy: Policy,
    /// With which numbers of its framework; others than the policy's own in its own run only.
    pub tuning: Tuning,
    /// What is compared.
    pub quantity: Quantity,
    /// The least published percentage.
    pub low_percent: f64,
    /// The largest one.
    pub high_percent: f64,
    /// Where the paper says so.
    pub source: &'static str,
}

impl Claim {
    /// The claims of a line, one for each of its workloads; none of a line that is wrong, which a test sees to.
    fn of_line(line: &'static str) -> Vec<Self> {
        Self::parse(line).unwrap_or_default()
    }

    fn parse(line: &'static str) -> Option<Vec<Self>> {
        let fields: Vec<&'static str> = line.splitn(15, ',').collect();
        let [
            _,
            tree,
            workloads,
            zipf,
            value_bytes,
            near_percent,
            policy,
            over,
            rest @ ..,
        ] = &fields[..]
        else {
            return None;
        };
        let [
            both,
            trigger_ms,
            cooler_ms,
            quantity,
            low_percent,
            high_percent,
            source,
        ] = rest
        else {
            return None;
        };
        let optional = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let milliseconds = |text: &str| Some(Duration::from_millis(text.parse().ok()?));
        let worker = |name: &str| Worker::ALL.into_iter().find(|one| one.to_string() == name);
        let one = Self {
            tree: tree.parse().ok()?,
            workload: Workload::named("load").ok()?,
            value_bytes: value_bytes.parse().ok()?,
            near_percent: near_percent.parse().ok()?,
            policy: policy.parse().ok()?,
            tuning: Tuning {
                watermarks: optional(both).and_then(|both| watermarks(&both).ok()),
                trigger: milliseconds(trigger_ms),
                cooler: milliseconds(cooler_ms),
                maintainer: None,
            },
            quantity: match *quantity {
                "gain" => Quantity::GainOver(over.parse().ok()?),
                "workers" => Quantity::WorkerShare(None),
                name => Quantity::WorkerShare(Some(worker(name)?)),
            },
            low_percent: low_percent.parse().ok()?,
            high_percent: high_percent.parse().ok()?,
            source: *source,
        };
        let workloads = workloads.split(WORKLOAD_SEPARATOR).map(|name| {
            let workload = Workload::named(name).ok()?;
            let workload = match optional(zipf) {
                Some(zipf) => workload.with_zipf(zipf.parse().ok()?),
                None => workload,
            };
            Some(Self {
                workload,
                ..one.clone()
            })
        });
        workloads.collect()
    }

    /// How far a percentage is from the published range, in points of a hundred: above it positive, zero within.
    #[must_use]
    pub fn error_points(&self, percent: f64) -> f64 {
        (percent - self.high_percent).max(0.0) + (percent - self.low_percent).min(0.0)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tree,
            workload,
            policy,
            ..
        } = self;
        write!(formatter, "{tree} {}", workload.name)?;
        let usual = Workload::named(workload.name).ok();
        if usual.is_none_or(|usual| usual.distribution != workload.distribution) {
            write!(formatter, " {}", workload.distribution_name())?;
        }
        if self.value_bytes != WORD_BYTES {
            write!(formatter, " {} B", self.value_bytes)?;
        }
        if let Some(both) = self.tuning.watermarks {
            let percent = |share: f64| (share * 100.0).round();
            write!(formatter, " {}:{}", percent(both.low), percent(both.high))?;
        }
        if let Some(every) = self.tuning.trigger {
            write!(formatter, " trigger {} ms", every.as_millis())?;
        }
        match self.quantity {
            Quantity::GainOver(over) => write!(formatter, ": {policy} over {over}"),
            Quantity::WorkerShare(Some(worker)) => write!(formatter, ": {worker} of {policy}"),
            Quantity::WorkerShare(None) => write!(formatter, ": workers of {policy}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_of_a_figure_and_reads() {
        for line in CLAIMS.lines().skip(1) {
            let claims = Claim::parse(line).unwrap_or_else(|| panic!("{line}"));
            assert!(!claims.is_empty(), "{line}");
            for claim in claims {
                assert!(claim.low_percent <= claim.high_percent, "{line}");
                assert_eq!(claim.tuning.wrong(), None, "{line}");
                let has_workers = matches!(claim.quantity, Quantity::WorkerShare(_));
                assert!(!has_workers || claim.policy.has_workers(), "{line}");
            }
            let name = line.split(',').next();
            assert!(
                Figure::ALL.iter().any(|figure| Some(figure.name()) == name),
                "{line}"
            );
        }
        for figure in Figure::ALL {
            assert!(!figure.claims().is_empty(), "{}", figure.name());
        }
        let of_fig15 = Figure::Fig15.claims();
        assert_eq!(of_fig15.len(), 5 + 1 + 5);
        assert_eq!(
            of_fig15[0].to_string(),
            "masstree ycsb-a: sidle over interleave"
        );
        let uniform = &Figure::Fig17a.claims()[0];
        assert_eq!(
            uniform.to_string(),
            "masstree ycsb-a uniform: sidle over interleave"
        );
    }

    #[test]
    fn errors_are_zero_within_the_range_and_count_from_its_ends() {
        let claim = &Figure::Fig14a.claims()[0];
        let errors = [60.0, 50.4, 50.0, 90.2].map(|percent| claim.error_points(percent));
        assert_eq!(
            errors.map(|error| (error * 10.0).round()),
            [0.0, 0.0, -4.0, 80.0]
        );
    }
}
