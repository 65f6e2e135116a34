//! Probe results as lines of the results schema.

use serde_json::json;

use super::ProbeResult;
use super::verdict::{Check, Verdict};
use crate::results::{Kind, Metric};
use crate::statistics::Summary;

impl ProbeResult {
    /// The figures of the tier named `tier`: three metrics, and for an emulated tier the machine's own
    /// (measured) beside each, told apart by their kind.
    ///
    /// An emulated tier also has what each figure is to be: for the latency the profile's (published),
    /// for the bandwidths what the threads in use are to get of the profile's, a metric of its own
    /// (`read_bandwidth_target_bytes_per_s`, modelled).
    ///
    /// The modelled figures of runs carry the dimension `verdict`. All carry `tier`, `threads`,
    /// `region_bytes`, `huge_page_bytes`, `kernel` and `waited_share`.
    pub fn metrics(&self, tier: &str) -> Vec<Metric> {
        let figures = [
            ("idle_latency_ns", "ns", &self.idle_latency_ns),
            (
                "read_bandwidth_bytes_per_s",
                "B/s",
                &self.read_bandwidth_bytes_per_s,
            ),
            (
                "write_bandwidth_bytes_per_s",
                "B/s",
                &self.write_bandwidth_bytes_per_s,
            ),
        ];
        let checks = self.checks.iter().flat_map(|checks| checks.iter());
        let mut checks: Vec<(&str, &Check)> = checks.collect();
        let mut metrics = Vec::new();
        for (name, unit, found) in figures {
            match checks.iter().position(|(checked, _)| *checked == name) {
                Some(index) => {
                    let (_, check) = checks.swap_remove(index);
                    metrics.extend(check_metrics(name, unit, found, check));
                }
                None => metrics.push(Metric::of_runs(name, found, unit, self.kind)),
            }
        }
        metrics
            .into_iter()
            .map(|metric| self.with_dimensions(metric, tier))
            .collect()
    }

    fn with_dimensions(&self, metric: Metric, tier: &str) -> Metric {
        metric
            .with("tier", tier)
            .with("threads", self.threads)
            .with("region_bytes", self.region_bytes)
            .with("huge_page_bytes", json!(self.huge_page_bytes))
            .with("kernel", self.kernel)
            .with("waited_share", json!(self.waited_share))
    }
}

fn check_metrics(name: &str, unit: &str, found: &Summary, check: &Check) -> [Metric; 3] {
    let verdict = match check.verdict {
        Verdict::Within { .. } => "within",
        Verdict::MachineSlower { .. } => "machine-slower",
        Verdict::Disturbed { .. } => "disturbed",
        Verdict::Off { .. } => "off",
    };
    let target = match name.split_once("_bytes_per_s") {
        Some((figure, _)) => {
            let name = format!("{figure}_target_bytes_per_s");
            Metric::new(&name, check.profile, unit, Kind::Modelled)
        }
        None => Metric::new(name, check.profile, unit, Kind::Published),
    };
    [
        Metric::of_runs(name, found, unit, Kind::Modelled).with("verdict", verdict),
        Metric::of_runs(name, &check.machine, unit, Kind::Measured),
        target,
    ]
}
