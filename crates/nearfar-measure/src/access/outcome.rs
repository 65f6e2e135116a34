//! What runs gave.

use std::time::Duration;

use nearfar_topology::units::Bytes;
use serde_json::{Value, json};

use super::kernels::{LINE_BYTES, unit_bytes};
use super::noise::NoiseReport;
use super::plan::PlannedRun;
use super::run::Worked;
use super::spec::TaskSpec;
use crate::results::{Kind, Metric};
use crate::statistics::{Summary, confidence_95};

/// Names of what a tier moved: read and written.
pub(super) const TIER_TRAFFIC: [&str; 2] = ["tier_read_bytes_per_s", "tier_write_bytes_per_s"];

/// What a repetition left.
pub(crate) struct Repetition {
    /// By task and thread.
    pub tasks: Vec<Vec<Worked>>,
    /// What disturbed it; nothing disturbs a simulation.
    pub noise: Option<NoiseReport>,
    /// In wall-clock time.
    pub elapsed: Duration,
    pub simulated: Option<Simulated>,
}

/// What was followed of one repetition in virtual time.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// Virtual time, without the warm-up.
    pub elapsed_ns: f64,
    /// Lines that threads touched, warm-up included.
    pub lines: u64,
    /// What every tier moved, without the warm-up, near to far.
    pub traffic: Vec<TierLines>,
}

/// Lines that the devices of a tier moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierLines {
    /// The tier's name.
    pub tier: &'static str,
    /// Lines read from it, those of prefetchers and those fetched for stores included.
    pub read: u64,
    /// Lines written to it, those that caches write back included.
    pub written: u64,
}

/// What is known of a region.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionFacts {
    /// Whether the kernel said where its pages are.
    pub verification: String,
    /// Bytes of it in huge pages, where the kernel tells.
    pub huge_page_bytes: Option<usize>,
}

/// Percentiles of the times of single accesses, over all threads and repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latencies {
    /// Accesses that were timed.
    pub samples: usize,
    /// Their mean, in ns.
    pub mean_ns: f64,
    /// The times that so many per cent of them stay below, in ns.
    pub percentiles_ns: [(f64, f64); 8],
}

impl Latencies {
    /// Percentiles of results, as in weisgut-2025, figure 5.
    const PERCENTS: [f64; 8] = [25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

    /// Of these times, in ns; `None` of none.
    pub(crate) fn of(mut samples_ns: Vec<f32>) -> Option<Self> {
        if samples_ns.is_empty() {
            return None;
        }
        samples_ns.sort_unstable_by(f32::total_cmp);
        let samples = samples_ns.len();
        let at = |percent: f64| {
            // A share that rounding lifts above a whole rank still means that rank.
            let rank = (percent / 100.0 * samples as f64 - 1e-6).ceil() as usize;
            f64::from(samples_ns[rank.clamp(1, samples) - 1])
        };
        let sum: f64 = samples_ns.iter().map(|ns| f64::from(*ns)).sum();
        Some(Self {
            samples,
            mean_ns: sum / samples as f64,
            percentiles_ns: Self::PERCENTS.map(|percent| (percent, at(percent))),
        })
    }
}

/// What one task did.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskOutcome {
    /// Bytes per second of all its threads together, by repetition.
    pub bandwidth_bytes_per_s: Vec<f64>,
    /// Accesses per second of all its threads together, by repetition.
    pub accesses_per_s: Vec<f64>,
    /// Times of single accesses, where some were timed.
    pub latencies: Option<Latencies>,
}

/// What a run gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// By task.
    pub tasks: Vec<TaskOutcome>,
    /// By repetition.
    pub noise: Vec<NoiseReport>,
    /// Why it is noisy: by repetition, those that were.
    pub noise_reasons: Vec<String>,
    /// By region.
    pub regions: Vec<RegionFacts>,
    /// By repetition, of runs in virtual time.
    pub simulated: Vec<Simulated>,
    /// How long all repetitions took.
    pub elapsed: Duration,
}

impl TaskOutcome {
    fn new(task: usize, repetitions: &mut [Repetition]) -> Self {
        let mut outcome = Self {
            bandwidth_bytes_per_s: Vec::new(),
            accesses_per_s: Vec::new(),
            latencies: None,
        };
        let mut samples = Vec::new();
        for repetition in repetitions {
            let threads = &mut repetition.tasks[task];
            let rate = |of: fn(&Worked) -> u64| {
                let rates = threads
                    .iter()
                    .map(|one| of(one) as f64 / one.elapsed.as_secs_f64());
                rates.sum::<f64>()
            };
            outcome.bandwidth_bytes_per_s.push(rate(|one| one.bytes));
            outcome.accesses_per_s.push(rate(|one| one.accesses));
            for thread in threads {
                samples.append(&mut thread.samples_ns);
            }
        }
        outcome.latencies = Latencies::of(samples);
        outcome
    }
}

impl Outcome {
    pub(crate) fn new(
        run: &PlannedRun,
        mut repetitions: Vec<Repetition>,
        regions: Vec<RegionFacts>,
        elapsed: Duration,
    ) -> Self {
        let tasks = (0..run.spec.tasks.len()).map(|task| TaskOutcome::new(task, &mut repetitions));
        let tasks = tasks.collect();
        let mut noise_reasons = Vec::new();
        let mut noise = Vec::new();
        let simulated = repetitions
            .iter_mut()
            .filter_map(|one| one.simulated.take());
        let simulated = simulated.collect();
        for (index, repetition) in repetitions.into_iter().enumerate() {
            let Some(report) = repetition.noise else {
                continue;
            };
            let reasons = report.reasons(repetition.elapsed.as_secs_f64());
            if !reasons.is_empty() {
                noise_reasons.push(format!("repetition {}: {}", index + 1, reasons.join("; ")));
            }
            noise.push(report);
        }
        Self {
            tasks,
            noise,
            noise_reasons,
            regions,
            simulated,
            elapsed,
        }
    }

    /// Whether anything disturbed it.
    pub fn is_noisy(&self) -> bool {
        !self.noise_reasons.is_empty()
    }

    /// The run as lines of the results schema; the last one is `run_seconds`.
    pub fn metrics(&self, run: &PlannedRun) -> Vec<Metric> {
        let kind = if run.is_modelled() {
            Kind::Modelled
        } else {
            Kind::Measured
        };
        let mut metrics = Vec::new();
        for (task, outcome) in run.spec.tasks.iter().zip(&self.tasks) {
            let of_task = task_metrics(task, outcome, kind);
            let dimensions = task_dimensions(run, task);
            metrics.extend(of_task.into_iter().map(|mut metric| {
                metric.dimensions.extend(dimensions.clone());
                metric
            }));
        }
        metrics.extend(self.traffic());
        let mut seconds = Metric::new(
            "run_seconds",
            self.elapsed.as_secs_f64(),
            "s",
            Kind::Measured,
        )
        .with("disturbances", json!(self.noise))
        .with("noise", json!(self.noise_reasons))
        .with("regions", self.region_values(run));
        if !self.simulated.is_empty() {
            let all = self.simulated.iter();
            let seconds_of_all: f64 = all.clone().map(|one| one.elapsed_ns * 1e-9).sum();
            let lines: u64 = all.map(|one| one.lines).sum();
            seconds = seconds
                .with("simulated_seconds", seconds_of_all)
                .with("simulated_lines", lines);
        }
        metrics.push(seconds);
        let parameters = run.spec.parameters.iter();
        let parameters: Value = parameters
            .map(|(path, value)| (path.clone(), Value::from(value.as_str())))
            .collect::<serde_json::Map<_, _>>()
            .into();
        for metric in &mut metrics {
            let dimensions = &mut metric.dimensions;
            dimensions.insert("run".to_owned(), run.id().into());
            dimensions.insert("parameters".to_owned(), parameters.clone());
            dimensions.insert("noisy".to_owned(), self.is_noisy().into());
        }
        metrics
    }

    /// Bytes per second that each tier of the simulated machine moved, whoever asked for them.
    fn traffic(&self) -> Vec<Metric> {
        let tiers = self.simulated.first().map_or(0, |one| one.traffic.len());
        let metric = |name: &str, tier: usize, lines: fn(&TierLines) -> u64| {
            let rates = self.simulated.iter().map(|one| {
                let bytes = lines(&one.traffic[tier]) as f64 * LINE_BYTES as f64;
                bytes / (one.elapsed_ns * 1e-9)
            });
            let metric = repeated(name, &rates.collect::<Vec<_>>(), "B/s", Kind::Modelled);
            metric.with("tier", self.simulated[0].traffic[tier].tier)
        };
        let of_tier = |tier| {
            [
                metric(TIER_TRAFFIC[0], tier, |lines| lines.read),
                metric(TIER_TRAFFIC[1], tier, |lines| lines.written),
            ]
        };
        (0..tiers).flat_map(of_tier).collect()
    }

    fn region_values(&self, run: &PlannedRun) -> Value {
        let regions = run.spec.regions.iter().zip(&run.regions).zip(&self.regions);
        let value = |((spec, planned), facts): (
            (&super::spec::RegionSpec, &super::plan::PlannedRegion),
            &RegionFacts,
        )| {
            json!({
                "name": spec.name,
                "bytes": planned.bytes,
                "placement": spec.placement_text,
                "pages": if spec.huge_pages { "huge" } else { "base" },
                "huge_page_bytes": facts.huge_page_bytes,
                "pages_verified": facts.verification,
            })
        };
        regions.map(value).collect()
    }
}

fn task_dimensions(run: &PlannedRun, task: &TaskSpec) -> Vec<(String, Value)> {
    let first = &task.steps[0];
    let operation = if task.is_chain() {
        let names = task.steps.iter().map(|step| step.operation.name());
        names.collect::<Vec<_>>().join("+")
    } else if task.writes_share.is_some() {
        "mix".to_owned()
    } else {
        first.operation.name().to_owned()
    };
    let placements = first
        .regions
        .iter()
        .map(|region| run.spec.regions[*region].placement_text.as_str());
    let bytes: u64 = first
        .regions
        .iter()
        .map(|region| run.regions[*region].bytes as u64)
        .sum();
    let mut dimensions = vec![
        ("task".to_owned(), task.name.as_str().into()),
        ("operation".to_owned(), operation.into()),
        ("pattern".to_owned(), first.pattern.name().into()),
        ("access_bytes".to_owned(), first.access_bytes.into()),
        ("threads".to_owned(), task.threads.into()),
        (
            "placement".to_owned(),
            placements.collect::<Vec<_>>().join(" + ").into(),
        ),
        ("region_bytes".to_owned(), bytes.into()),
        ("region_size".to_owned(), Bytes(bytes).exact().into()),
    ];
    if run.window.is_none() {
        let bytes = unit_bytes(first.operation, first.access_bytes);
        dimensions.push(("instruction_bytes".to_owned(), bytes.into()));
    }
    if let Some(source) = first.source {
        let source = run.spec.regions[source].placement_text.as_str();
        dimensions.push(("source".to_owned(), source.into()));
    }
    if let Some(share) = task.writes_share {
        dimensions.push(("writes_percent".to_owned(), (share * 100.0).into()));
    }
    if let Some(limit) = task.limit_bytes_per_s {
        dimensions.push(("limit_bytes_per_s".to_owned(), limit.into()));
    }
    dimensions
}

fn task_metrics(task: &TaskSpec, outcome: &TaskOutcome, kind: Kind) -> Vec<Metric> {
    let mut metrics = vec![
        repeated(
            "bandwidth_bytes_per_s",
            &outcome.bandwidth_bytes_per_s,
            "B/s",
            kind,
        ),
        repeated("accesses_per_s", &outcome.accesses_per_s, "1/s", kind),
    ];
    if task.steps[0].operation == super::Operation::Chase {
        let rates = outcome.accesses_per_s.iter().filter(|rate| **rate > 0.0);
        let latencies: Vec<f64> = rates.map(|rate| task.threads as f64 * 1e9 / rate).collect();
        metrics.push(repeated("latency_ns", &latencies, "ns", kind));
    }
    if let Some(latencies) = &outcome.latencies {
        let metric = |name: &str, value: f64| {
            Metric::new(name, value, "ns", kind).with("samples", latencies.samples)
        };
        metrics.push(metric("sampled_latency_mean_ns", latencies.mean_ns));
        metrics.extend(
            latencies.percentiles_ns.iter().map(|(percent, ns)| {
                metric("sampled_latency_ns", *ns).with("percentile", *percent)
            }),
        );
    }
    metrics
}

/// The median over repetitions, with the confidence interval of their mean.
fn repeated(name: &str, values: &[f64], unit: &str, kind: Kind) -> Metric {
    let Some(summary) = Summary::of(values.iter().copied()) else {
        return Metric::unavailable(name, "no access was complete", unit, kind);
    };
    let metric = Metric::of_runs(name, &summary, unit, kind);
    match confidence_95(values) {
        // No rate and no time is below zero, however wide the interval is.
        Some((low, high)) => metric
            .with("ci95_low", low.max(0.0))
            .with("ci95_high", high),
        None => metric,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        assert_eq!(Latencies::of(Vec::new()), None);
        let latencies = Latencies::of((1..=1000).rev().map(|ns| ns as f32).collect()).unwrap();
        assert_eq!((latencies.samples, latencies.mean_ns), (1000, 500.5));
        let found: Vec<f64> = latencies.percentiles_ns.iter().map(|(_, ns)| *ns).collect();
        assert_eq!(
            found,
            [250.0, 500.0, 750.0, 900.0, 950.0, 990.0, 999.0, 1000.0]
        );
    }
}
