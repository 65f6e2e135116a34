//! Hardware counters, through `perf stat`.
//!
//! `perf` counts this process for as long as a run takes and prints JSON. Which events a machine
//! has is for `perf` to say; what it does not count is unavailable, with the reason.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nearfar_topology::Known;
use nearfar_topology::perf::{Count, intel_model, is_intel, parse};

use crate::results::{Kind, Metric};

/// Events that most processors have.
const EVENTS: &str = "cycles,instructions,cache-misses,dTLB-load-misses";

/// Metrics of the top-down method, level by level down to external memory (weisgut-2025,
/// section 5.1).
const TOP_DOWN: &str = "tma_memory_bound,tma_l1_bound,tma_l2_bound,tma_l3_bound,tma_dram_bound,\
                        tma_store_bound,tma_mem_bandwidth,tma_mem_latency";

/// Uncore events of CXL and of the shared request table, by the processor's model in CPUID.
const UNCORE: [(u32, &str); 3] = [
    (
        143,
        "unc_cha_tor_inserts.ia_miss_drd_cxl_acc,unc_cha_tor_occupancy.ia_miss_drd_cxl_acc",
    ),
    (
        207,
        "unc_cha_tor_inserts.ia_miss_drd_cxl_acc,unc_cha_tor_occupancy.ia_miss_drd_cxl_acc",
    ),
    (
        173,
        "unc_cxlcm_rxc_pack_buf_inserts.mem_data,unc_cha_tor_inserts.ia_miss_drd_cxl_acc",
    ),
];

/// A `perf stat` that is counting.
#[derive(Debug)]
pub struct Counting {
    child: Child,
}

impl Counting {
    /// Counts this process, all threads, for `time`.
    ///
    /// # Errors
    /// Why `perf` cannot be started.
    pub fn start(time: Duration) -> io::Result<Self> {
        let mut command = Command::new("perf");
        command.args(["stat", "-j", "-e", EVENTS]);
        if let Some(events) = uncore_events() {
            command.args(["-e", events]);
        }
        if is_intel() {
            command.args(["-M", TOP_DOWN]);
        }
        let process = std::process::id().to_string();
        let seconds = format!("{:.3}", time.as_secs_f64());
        command.args(["-p", &process, "--", "sleep", &seconds]);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self { child })
    }

    /// Waits for the end; what was counted.
    ///
    /// # Errors
    /// Where `perf` cannot be read.
    pub fn finish(self) -> io::Result<Vec<Count>> {
        let output = self.child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let counts = parse(&text);
        if counts.is_empty() {
            let reason = text.lines().next().unwrap_or("perf printed nothing");
            return Err(io::Error::other(reason.to_owned()));
        }
        Ok(counts)
    }
}

/// Why this machine has no counters; `None` if it has some.
pub fn unavailable() -> Option<String> {
    let tried = Counting::start(Duration::from_millis(10)).and_then(Counting::finish);
    match tried {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some("perf is not installed".to_owned())
        }
        Err(error) => Some(format!("perf: {error}")),
        Ok(counts) => {
            let none = counts.iter().all(|count| !count.value.is_known());
            none.then(|| "perf counts no event on this machine".to_owned())
        }
    }
}

/// The bandwidth-bound and latency-bound shares of the pipeline slots, in per cent, normalised to
/// their parents (weisgut-2025, section 5.1):
///
/// ```text
/// dram'  = dram x memory bound / (l1 + l2 + l3 + dram + store)
/// share' = share x dram' / (bandwidth + latency)
/// ```
pub fn bound_shares(counts: &[Count]) -> Option<(f64, f64)> {
    let metric = |name: &str| {
        let found = counts.iter().find(|count| count.event == name)?;
        found.value.get()
    };
    let names = [
        "tma_l1_bound",
        "tma_l2_bound",
        "tma_l3_bound",
        "tma_dram_bound",
        "tma_store_bound",
    ];
    let parts: f64 = names.into_iter().map(metric).sum::<Option<f64>>()?;
    let dram = metric("tma_dram_bound")? * metric("tma_memory_bound")? / parts;
    let (bandwidth, latency) = (metric("tma_mem_bandwidth")?, metric("tma_mem_latency")?);
    let share = |of: f64| of * dram / (bandwidth + latency);
    let shares = (share(bandwidth), share(latency));
    (shares.0.is_finite() && shares.1.is_finite()).then_some(shares)
}

/// Counts as lines of the results schema.
pub fn metrics(counts: &[Count]) -> Vec<Metric> {
    let count = |count: &Count| {
        let unit = if count.unit.is_empty() {
            "count"
        } else {
            count.unit.as_str()
        };
        let metric = match &count.value {
            Known::Value(value) => Metric::new("counter", *value, unit, Kind::Measured),
            Known::Unavailable(reason) => {
                Metric::unavailable("counter", reason, unit, Kind::Measured)
            }
        };
        metric.with("event", count.event.as_str())
    };
    let mut metrics: Vec<Metric> = counts.iter().map(count).collect();
    if let Some((bandwidth, latency)) = bound_shares(counts) {
        let share = |name, value| Metric::new(name, value, "percent", Kind::Measured);
        metrics.push(share("bandwidth_bound_percent", bandwidth));
        metrics.push(share("latency_bound_percent", latency));
    }
    metrics
}

fn uncore_events() -> Option<&'static str> {
    let model = intel_model()?;
    let found = UNCORE.iter().find(|(known, _)| *known == model);
    found.map(|(_, events)| *events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_normalised_to_their_parents() {
        let value = |event: &str, value: f64| Count::new(event, Known::Value(value), "%");
        let mut counts = vec![
            value("tma_memory_bound", 80.0),
            value("tma_l1_bound", 10.0),
            value("tma_l2_bound", 5.0),
            value("tma_l3_bound", 15.0),
            value("tma_dram_bound", 60.0),
            value("tma_store_bound", 10.0),
            value("tma_mem_bandwidth", 30.0),
        ];
        assert_eq!(bound_shares(&counts), None);
        counts.push(value("tma_mem_latency", 10.0));
        let (bandwidth, latency) = bound_shares(&counts).unwrap();
        // 60 of 100 parts of 80 per cent, of which three quarters are bandwidth.
        assert!((bandwidth - 36.0).abs() < 1e-9 && (latency - 12.0).abs() < 1e-9);
    }
}
