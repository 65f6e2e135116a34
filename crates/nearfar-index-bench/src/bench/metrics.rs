//! Comparisons as lines of the results schema.
//!
//! | metric | unit | what |
//! |---|---|---|
//! | `throughput_mops` | Mop/s | operations, by `tree` |
//! | `ratio_to_best_rival` | ratio | throughput of one of our trees over that of the best other crate's, run by run; `rival` says which |
//! | `bytes_per_key` | B | memory of the loaded map, as it asked for it, over its keys |
//! | `load_mops` | Mop/s | keys stored in the empty map |
//! | `latency_p50_ns`, `latency_p90_ns`, `latency_p99_ns` | ns | single operations, one in many timed; emulated with the far latency that they were charged, in virtual time the sum of their dependent accesses; without `operation` of all, and where a workload has several of each `operation`: `read`, `update`, `insert`, `scan`, `read-modify-write` |
//! | `lost_keys` | count | keys that were asked for, are in the map, and were not found |
//! | `ratio_to_interleave` | ratio | throughput under a policy over that under weighted interleave |
//! | `ratio_to_all_near` | ratio | the same over everything near |
//! | `near_bytes_share` | ratio | of the tree's bytes, at the end of a run |
//! | `near_accesses_share` | ratio | of accesses before any cache, at the end of a run |
//! | `memory_bandwidth` | GB/s | what the memory of each `tier` served, behind all caches |
//! | `memory_read_bandwidth`, `memory_write_bandwidth` | GB/s | the part of it that was read, and that was written |
//! | `memory_busy_share` | ratio | of the measured time, in which the `tier` transferred |
//! | `far_lines_per_operation` | count | emulated: lines of 64 bytes fetched from far memory |
//! | `charged_latency_per_operation` | ns | emulated: latency of far memory over that of near memory |
//! | `waited_share` | ratio | natively under policies and emulated: of the threads' time, in which they waited for a processor |
//! | `throughput_error_percent` | % | where windows were simulated only: half of the 95 % confidence interval of the throughput, over it; `windows`, `slices` and `wanted_percent` say of what it is and what was asked for |
//! | `ratio_to_interleave_error_percent`, `ratio_to_all_near_error_percent` | % | the same of those ratios |
//! | `followed_share` | ratio | there, of the operations of the modelled cores, that were carried out |
//! | `hot_set_bytes` | B | in virtual time, the leaves that 90 % of the requests go to, with their part of the nodes above |
//! | `hot_set_over_last_level` | ratio | their bytes over those of the modelled last-level cache |
//! | `moved_bytes` | B | what placement moved in the measured time |
//! | `background_cpu_share` | ratio | processor time of placement over that of all cores; natively and emulated the time from beginning to end of its work |
//! | `worker_cpu_share` | ratio | the same of each `worker` of the framework: `trigger`, `promoter`, `demoter`, `cooler`, `maintainer` |
//! | `metadata_bytes` | B | what placement keeps beside the tree at the end of a run: its state, histograms, queues, samples of the used shares and the frontend's words |
//! | `counter_bytes_share` | ratio | bytes that count uses over those of the tree |
//! | `throughput_mops_at`, `near_bytes_share_at`, `near_accesses_share_at` | | the same slice by slice, at the time `at_ms` |
//!
//! All carry `tree`, `workload`, `distribution`, `threads`, `keys`, `key_form`, `batch` and `value_bytes`; where maps are
//! compared `runs` and `undisturbed_runs`, under policies `policy` and `near_share_percent`, emulated and in virtual time
//! `profile` and `scale_factor`. What runs natively is measured, all else modelled.

use nearfar_measure::Kind;
use nearfar_measure::compare::belongs_to;
use nearfar_measure::results::Metric;
use serde_json::{Value, json};

use super::outcome::{IndexBenchOutcome, PlacedRun, percentile, throughput_mops};
use crate::latencies::Latencies;
use crate::modelled::INSTRUCTIONS_PER_NS;
use crate::native::Compared;
use crate::placed::{PlacedOutcome, Policy, SampledFigures};

/// Percentiles of latency.
const PERCENTILES: [(usize, &str); 3] = [
    (50, "latency_p50_ns"),
    (90, "latency_p90_ns"),
    (99, "latency_p99_ns"),
];

impl IndexBenchOutcome {
    /// What was compared, for the header of results.
    #[must_use]
    pub fn configuration(&self) -> Value {
        let options = &self.options;
        let names = |names: Vec<&str>| Value::from(names);
        json!({
            "mode": options.mode.name(),
            "trees": names(options.contestants.iter().map(|one| one.name()).collect()),
            "workloads": options.workloads,
            "trace": options.trace,
            "zipf": options.zipf,
            "keys": self.keys,
            "key_form": options.key_form_name(),
            "key_file": options.key_file,
            "value_bytes": options.value_bytes,
            "threads": options.threads.iter().map(|threads| threads.get()).collect::<Vec<_>>(),
            "runs": options.runs.get(),
            "operations": options.operations.get(),
            "batch": options.batch.get(),
            "policies": options.policies.iter().map(|policy| policy.name()).collect::<Vec<_>>(),
            "near_share_percent": options.near_percent,
            "profile": options.profile,
            "scale": options.scale.name(),
            "sampling": options.sampled().map(|sampling| json!({
                "error_share_max": sampling.error_share_max,
                "window_s": sampling.window.as_secs_f64(),
                "lead_in_s": sampling.lead_in.as_secs_f64(),
                "windows_per_slice": sampling.windows_per_slice,
                "followed_per_slice_max": sampling.followed_per_slice_max,
            })),
            "warm_up_s": options.warm_up.as_secs_f64(),
            "measured_s": options.measured.as_secs_f64(),
            "slice_s": options.slice.as_secs_f64(),
            "shift_s": options.shift.map(|every| every.as_secs_f64()),
            "watermarks": options.tuning.watermarks.map(|both| json!([both.low, both.high])),
            "trigger_s": options.tuning.trigger.map(|every| every.as_secs_f64()),
            "cooler_s": options.tuning.cooler.map(|every| every.as_secs_f64()),
            "maintainer_s": options.tuning.maintainer.map(|every| every.as_secs_f64()),
            "instructions_per_ns": INSTRUCTIONS_PER_NS,
            "seed": options.seed,
        })
    }

    /// All figures.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let compared = self.compared.iter();
        let compared = compared.flat_map(|one| self.native_metrics(one));
        let left_out = self.left_out.iter().map(|(contestant, reason)| {
            let name = "throughput_mops";
            let metric = Metric::unavailable(name, reason, "Mop/s", self.kind());
            metric.with("tree", contestant.name())
        });
        let placed = self.placed.iter();
        let placed = placed.flat_map(|one| self.placed_metrics(one));
        compared.chain(left_out).chain(placed).collect()
    }

    fn native_metrics(&self, one: &Compared) -> Vec<Metric> {
        let tag = |metric: Metric| {
            metric
                .with("tree", one.contestant.name())
                .with("workload", one.workload.name)
                .with("distribution", one.workload.distribution_name())
                .with("threads", one.threads)
                .with("keys", self.keys)
                .with("key_form", self.options.key_form_name())
                .with("batch", self.options.batch.get())
                .with("value_bytes", self.options.value_bytes)
        };
        let mut metrics = Vec::new();
        if let Some((summary, quiet)) = throughput_mops(one) {
            let metric = Metric::of_runs("throughput_mops", &summary, "Mop/s", Kind::Measured);
            metrics.push(tag(metric).with("undisturbed_runs", quiet));
        }
        if let Some((rival, summary, quiet)) = self.ratio_to_best_rival(one) {
            let metric = Metric::of_runs("ratio_to_best_rival", &summary, "ratio", Kind::Measured);
            let metric = tag(metric).with("rival", rival.name());
            metrics.push(metric.with("undisturbed_runs", quiet));
        }
        metrics.push(tag(match one.loading.bytes {
            Some(bytes) => {
                let per_key = bytes as f64 / self.keys.max(1) as f64;
                Metric::new("bytes_per_key", per_key, "B", Kind::Measured)
            }
            None => {
                let reason = "the program's allocator does not count";
                Metric::unavailable("bytes_per_key", reason, "B", Kind::Measured)
            }
        }));
        let load = one.loading.keys_per_s / 1e6;
        metrics.push(tag(Metric::new("load_mops", load, "Mop/s", Kind::Measured)));
        let mut latencies = Latencies::default();
        one.rounds
            .iter()
            .for_each(|round| latencies.append(&round.latencies));
        latencies.sort();
        metrics.extend(
            latency_metrics(&latencies, Kind::Measured)
                .into_iter()
                .map(tag),
        );
        let lost: u64 = one.rounds.iter().map(|round| round.lost).sum();
        metrics.push(tag(Metric::new(
            "lost_keys",
            lost as f64,
            "count",
            Kind::Measured,
        )));
        metrics
    }

    /// What a figure belongs to, where results are compared
    /// ([`compare_by`](nearfar_measure::compare::compare_by)); nothing for those of single moments.
    #[must_use]
    pub fn belongs_to(metric: &Metric) -> Option<String> {
        const RUN: [&str; 8] = [
            "tree",
            "workload",
            "distribution",
            "threads",
            "policy",
            "operation",
            "worker",
            "tier",
        ];
        let is_timeless = !metric.dimensions.contains_key("at_ms");
        is_timeless.then(|| belongs_to(metric, &RUN))
    }

    fn placed_metrics(&self, one: &PlacedRun) -> Vec<Metric> {
        let outcome = &one.outcome;
        let new = |name: &str, value, unit: &str| {
            self.under_policy(one, Metric::new(name, value, unit, self.kind()))
        };
        let rate = outcome.operations_per_s / 1e6;
        let mut metrics = vec![new("throughput_mops", rate, "Mop/s")];
        if let Some(sampled) = outcome.sampled {
            metrics.extend([
                new("throughput_error_percent", sampled.error_share * 100.0, "%")
                    .with("confidence_percent", SampledFigures::CONFIDENCE_PERCENT)
                    .with("windows", sampled.windows)
                    .with("slices", sampled.slices)
                    .with("wanted_percent", sampled.error_share_max * 100.0),
                new("followed_share", sampled.followed_share, "ratio"),
            ]);
        }
        for (policy, name) in [
            (Policy::Interleave, "ratio_to_interleave"),
            (Policy::AllNear, "ratio_to_all_near"),
        ] {
            if let Some(other) = self.under(policy, one).filter(|_| policy != one.policy) {
                let ratio = outcome.operations_per_s / other.outcome.operations_per_s;
                metrics.push(new(name, ratio, "ratio"));
                if let Some(error) = ratio_error_share(outcome, &other.outcome) {
                    let name = format!("{name}_error_percent");
                    metrics.push(new(&name, error * 100.0, "%"));
                }
            }
        }
        if let Some(hot_set) = outcome.hot_set {
            let over = hot_set.over_last_level();
            metrics.extend([
                new("hot_set_bytes", hot_set.bytes as f64, "B"),
                new("hot_set_over_last_level", over, "ratio"),
            ]);
        }
        let bytes = outcome.tree_bytes as f64;
        metrics.push(new("bytes_per_key", bytes / self.keys.max(1) as f64, "B"));
        let latencies = latency_metrics(&outcome.latencies, self.kind()).into_iter();
        metrics.extend(latencies.map(|metric| self.under_policy(one, metric)));
        metrics.push(new("lost_keys", outcome.lost as f64, "count"));
        metrics.push(new("moved_bytes", outcome.moved_bytes as f64, "B"));
        let workers = self.worker_metrics(one).into_iter();
        metrics.extend(workers.map(|metric| self.under_policy(one, metric)));
        let counters = outcome.counter_bytes_share;
        metrics.push(new("counter_bytes_share", counters, "ratio"));
        if let Some(emulated) = outcome.emulated {
            let per_operation = |sum: u64| sum as f64 / emulated.operations.max(1) as f64;
            let lines = per_operation(emulated.charged.lines_read);
            let latency_ns = per_operation(emulated.charged.latency_ns);
            metrics.extend([
                new("far_lines_per_operation", lines, "count"),
                new("charged_latency_per_operation", latency_ns, "ns"),
            ]);
        }
        if let Some(waited) = outcome.waited_share {
            metrics.push(new("waited_share", waited, "ratio"));
        }
        let memory = self.memory_metrics(outcome).into_iter();
        let all = memory.chain(series_metrics(outcome, self.kind()));
        metrics.extend(all.map(|metric| self.under_policy(one, metric)));
        metrics
    }

    /// What placement took: of the kernel's nobody tells.
    fn worker_metrics(&self, one: &PlacedRun) -> Vec<Metric> {
        let outcome = &one.outcome;
        let new = |name: &str, value, unit: &str| Metric::new(name, value, unit, self.kind());
        let mut metrics = Vec::new();
        if one.policy.kernel().is_none() {
            let background = outcome.background_share;
            metrics.push(new("background_cpu_share", background, "ratio"));
        }
        let workers = outcome.worker_shares.into_iter().flatten();
        metrics.extend(workers.map(|(worker, share)| {
            let metric = new("worker_cpu_share", share, "ratio");
            metric.with("worker", worker.to_string())
        }));
        if let Some(bytes) = outcome.metadata_bytes {
            metrics.push(new("metadata_bytes", bytes as f64, "B"));
        }
        metrics
    }

    /// Says of a metric which run under a policy it is of.
    fn under_policy(&self, one: &PlacedRun, metric: Metric) -> Metric {
        let metric = match &self.options.profile {
            Some(profile) => metric
                .with("profile", profile.name.as_str())
                .with("scale_factor", one.outcome.scale.factor),
            None => metric,
        };
        metric
            .with("tree", one.planned.contestant.name())
            .with("workload", one.planned.workload.name)
            .with("distribution", one.planned.workload.distribution_name())
            .with("threads", one.planned.threads)
            .with("keys", self.keys)
            .with("key_form", self.options.key_form_name())
            .with("batch", self.options.batch.get())
            .with("value_bytes", self.options.value_bytes)
            .with("policy", one.policy.name())
            .with("near_share_percent", self.options.near_percent)
    }

    /// What the memory of both tiers served.
    fn memory_metrics(&self, outcome: &PlacedOutcome) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for (tier, traffic) in ["near", "far"].into_iter().zip(outcome.traffic) {
            let figure = |name: &str, value: Option<f64>, unit: &str| {
                let metric = match value {
                    Some(value) => Metric::new(name, value, unit, self.kind()),
                    None => {
                        let reason =
                            "it is this machine's own memory, whose traffic is not counted";
                        Metric::unavailable(name, reason, unit, self.kind())
                    }
                };
                metric.with("tier", tier)
            };
            let gb_per_s = |lines: u64| lines as f64 * 64.0 / (outcome.counted.as_secs_f64() * 1e9);
            let read = traffic.map(|traffic| gb_per_s(traffic.lines_read));
            let written = traffic.map(|traffic| gb_per_s(traffic.lines_written));
            let both = traffic.map(|traffic| gb_per_s(traffic.lines_read + traffic.lines_written));
            metrics.extend([
                figure("memory_bandwidth", both, "GB/s"),
                figure("memory_read_bandwidth", read, "GB/s"),
                figure("memory_write_bandwidth", written, "GB/s"),
            ]);
            let busy = traffic.map(|traffic| traffic.busy_share);
            metrics.push(figure("memory_busy_share", busy, "ratio"));
        }
        metrics
    }
}

/// Half of the confidence interval of a ratio of throughputs, over it, where both have one: errors of a quotient add
/// up by their squares.
pub(super) fn ratio_error_share(one: &PlacedOutcome, other: &PlacedOutcome) -> Option<f64> {
    let (one, other) = (one.sampled?, other.sampled?);
    Some(one.error_share.hypot(other.error_share))
}

/// The state at the end, and slice by slice.
fn series_metrics(outcome: &PlacedOutcome, kind: Kind) -> Vec<Metric> {
    let new =
        |name: &str, value: Option<f64>, unit: &str| Some(Metric::new(name, value?, unit, kind));
    let mut metrics = Vec::new();
    if let Some(last) = outcome.series.last() {
        let bytes = Some(last.near_bytes_share);
        metrics.extend(new("near_bytes_share", bytes, "ratio"));
        let accesses = last.near_accesses_share;
        metrics.push(
            new("near_accesses_share", accesses, "ratio").unwrap_or_else(|| {
                let reason = "on this machine's own tiers nobody counts accesses";
                Metric::unavailable("near_accesses_share", reason, "ratio", kind)
            }),
        );
    }
    for moment in &outcome.series {
        let at_ms = moment.at.as_secs_f64() * 1e3;
        let rate = Some(moment.operations_per_s / 1e6);
        let bytes = Some(moment.near_bytes_share);
        let figures = [
            ("throughput_mops_at", rate, "Mop/s"),
            ("near_bytes_share_at", bytes, "ratio"),
            (
                "near_accesses_share_at",
                moment.near_accesses_share,
                "ratio",
            ),
        ];
        let figures = figures.map(|(name, value, unit)| new(name, value, unit));
        let figures = figures.into_iter().flatten();
        metrics.extend(figures.map(|metric| metric.with("at_ms", at_ms)));
    }
    metrics
}

/// Percentiles of all operations together and, where there are several kinds, of each.
fn latency_metrics(latencies: &Latencies, kind: Kind) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = percentiles(&latencies.all(), kind).collect();
    if latencies.kinds().count() > 1 {
        for asked in latencies.kinds() {
            let percentiles = percentiles(latencies.of(asked), kind);
            metrics.extend(percentiles.map(|metric| metric.with("operation", asked.name())));
        }
    }
    metrics
}

fn percentiles(ascending: &[f64], kind: Kind) -> impl Iterator<Item = Metric> {
    let figures = PERCENTILES.map(|(percent, name)| {
        let value = percentile(ascending, percent)?;
        Some(Metric::new(name, value, "ns", kind))
    });
    figures.into_iter().flatten()
}
