//! What disturbed a run.
//!
//! A run on a shared machine is never alone. What can be seen of the others is read before and
//! after it; a run that was disturbed is marked with the reasons, and never left out silently.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use nearfar_topology::Known;

/// A thread that waited for a processor for more than this share of a run was disturbed.
const WAITED_SHARE: f64 = 0.02;
/// Share of the processors' time that the hypervisor gave to others.
const STEAL_SHARE: f64 = 0.01;
/// Share of the processors' time that other processes took.
const OTHERS_SHARE: f64 = 0.10;
/// Page faults per second: regions are populated, so there is no reason for many.
const FAULTS_PER_S: f64 = 1_000.0;
/// Change of the processor's speed over a run.
const CLOCK_CHANGE: f64 = 0.05;

/// What one thread can tell of itself, between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ThreadNoise {
    waited_ns: Option<u64>,
    involuntary_switches: Option<u64>,
    minor_faults: Option<u64>,
    major_faults: Option<u64>,
}

impl ThreadNoise {
    /// Of the calling thread, since its start.
    pub(crate) fn now() -> Self {
        let own = Path::new("/proc/thread-self");
        let stat = fs::read_to_string(own.join("stat")).unwrap_or_default();
        // Behind the name, which may hold anything, in parentheses.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let field = |index: usize| fields.split_whitespace().nth(index)?.parse().ok();
        Self {
            waited_ns: word(&own.join("schedstat"), 1),
            involuntary_switches: line(&own.join("status"), "nonvoluntary_ctxt_switches:"),
            minor_faults: field(7),
            major_faults: field(9),
        }
    }

    /// What has come since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let less = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        Self {
            waited_ns: less(self.waited_ns, before.waited_ns),
            involuntary_switches: less(self.involuntary_switches, before.involuntary_switches),
            minor_faults: less(self.minor_faults, before.minor_faults),
            major_faults: less(self.major_faults, before.major_faults),
        }
    }
}

fn word(file: &Path, index: usize) -> Option<u64> {
    fs::read_to_string(file)
        .ok()?
        .split_whitespace()
        .nth(index)?
        .parse()
        .ok()
}

fn line(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().parse().ok()
}

/// What the machine tells, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Noise {
    at: Instant,
    /// Of all processors, in ticks of the kernel: busy, stolen, and all.
    busy: Option<u64>,
    stolen: Option<u64>,
    all: Option<u64>,
    /// Of this process, in the same ticks.
    own: Option<u64>,
    migrated_pages: Option<u64>,
    speed_hz: f64,
}

impl Noise {
    /// Reads what the machine tells, which takes about a millisecond.
    pub fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cpu: Vec<u64> = stat
            .lines()
            .find_map(|line| line.strip_prefix("cpu "))
            .map(|line| line.split_whitespace().flat_map(str::parse).collect())
            .unwrap_or_default();
        // user nice system idle iowait irq softirq steal: proc_stat(5).
        let sum = |indices: &[usize]| {
            indices
                .iter()
                .map(|index| cpu.get(*index).copied())
                .sum::<Option<u64>>()
        };
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let own = own.rsplit_once(')').map_or("", |(_, rest)| rest);
        let own: Vec<u64> = own
            .split_whitespace()
            .skip(11)
            .take(2)
            .flat_map(str::parse)
            .collect();
        Self {
            at: Instant::now(),
            busy: sum(&[0, 1, 2, 5, 6]),
            stolen: sum(&[7]),
            all: sum(&[0, 1, 2, 3, 4, 5, 6, 7]),
            own: (own.len() == 2).then(|| own.iter().sum()),
            migrated_pages: line(Path::new("/proc/vmstat"), "pgmigrate_success"),
            speed_hz: speed_hz(),
        }
    }
}

/// Dependent multiplications per second, best of several tries: as many as cycles over a fixed
/// latency, so it follows the frequency that the processor really has, also where a virtual machine
/// does not tell it.
fn speed_hz() -> f64 {
    const STEPS: u32 = 20_000;
    let once = || {
        let began = Instant::now();
        let mut state = std::hint::black_box(1_u64);
        for _ in 0..STEPS {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D) ^ 1;
        }
        std::hint::black_box(state);
        f64::from(STEPS) / began.elapsed().as_secs_f64()
    };
    (0..12).map(|_| once()).fold(0.0, f64::max)
}

/// What disturbed one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseReport {
    /// Share of the run that the thread which waited longest for a processor spent so.
    pub waited_share: Known<f64>,
    /// Times that a thread was taken off its processor.
    pub involuntary_switches: Known<u64>,
    /// Faults of the threads that needed no storage.
    pub minor_faults: Known<u64>,
    /// Faults of the threads that needed storage.
    pub major_faults: Known<u64>,
    /// Share of all processors' time that the hypervisor gave to others.
    pub steal_share: Known<f64>,
    /// Share of all processors' time that other processes took.
    pub others_share: Known<f64>,
    /// Pages of the whole machine that the kernel moved.
    pub migrated_pages: Known<u64>,
    /// Speed of the processor after the run over that before it, less one.
    pub clock_change: f64,
    /// What the kernel says of pages that are not where they should be.
    pub misplaced: Option<String>,
}

impl NoiseReport {
    /// What came between `before` and now, for threads that ran for `elapsed_s`.
    pub(crate) fn since(
        before: &Noise,
        threads: &[ThreadNoise],
        misplaced: Option<String>,
    ) -> Self {
        let after = Noise::now();
        let elapsed_s = after.at.duration_since(before.at).as_secs_f64().max(1e-9);
        let less = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        let all = less(after.all, before.all).filter(|all| *all > 0);
        let share = |part: Option<u64>| Some(part? as f64 / all? as f64);
        let others = less(after.busy, before.busy)
            .zip(less(after.own, before.own))
            .map(|(busy, own)| busy.saturating_sub(own));
        let sum = |of: fn(&ThreadNoise) -> Option<u64>| threads.iter().map(of).sum::<Option<u64>>();
        let waited = threads.iter().map(|thread| thread.waited_ns);
        let waited = waited.reduce(|a, b| Some(a?.max(b?))).flatten();
        Self {
            waited_share: known(waited.map(|ns| ns as f64 * 1e-9 / elapsed_s), "schedstat"),
            involuntary_switches: known(sum(|one| one.involuntary_switches), "status"),
            minor_faults: known(sum(|one| one.minor_faults), "stat"),
            major_faults: known(sum(|one| one.major_faults), "stat"),
            steal_share: known(share(less(after.stolen, before.stolen)), "/proc/stat"),
            others_share: known(share(others), "/proc/stat"),
            migrated_pages: known(
                less(after.migrated_pages, before.migrated_pages),
                "/proc/vmstat",
            ),
            clock_change: after.speed_hz / before.speed_hz - 1.0,
            misplaced,
        }
    }

    /// Why the run is noisy; empty for a quiet one. `elapsed_s` is its length.
    pub fn reasons(&self, elapsed_s: f64) -> Vec<String> {
        let mut reasons = Vec::new();
        let mut share = |found: &Known<f64>, limit: f64, what: &str| {
            if let Some(share) = found.get().filter(|share| *share > limit) {
                reasons.push(format!("{what} {:.1} %", share * 100.0));
            }
        };
        share(
            &self.waited_share,
            WAITED_SHARE,
            "a thread waited for a processor for",
        );
        share(&self.steal_share, STEAL_SHARE, "the hypervisor gave others");
        share(&self.others_share, OTHERS_SHARE, "other processes took");
        let faults = self.minor_faults.get().map_or(0.0, |faults| faults as f64);
        if faults > FAULTS_PER_S * elapsed_s.max(0.1) {
            reasons.push(format!("{faults} page faults"));
        }
        if let Some(faults) = self.major_faults.get().filter(|faults| *faults > 0) {
            reasons.push(format!("{faults} page faults that needed storage"));
        }
        if self.clock_change.abs() > CLOCK_CHANGE {
            let percent = self.clock_change * 100.0;
            reasons.push(format!("the processor's speed changed by {percent:+.0} %"));
        }
        reasons.extend(self.misplaced.clone());
        reasons
    }
}

fn known<T>(value: Option<T>, file: &str) -> Known<T> {
    match value {
        Some(value) => Known::Value(value),
        None => Known::unavailable(format!("the kernel does not tell ({file})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells_something() {
        let before = Noise::now();
        let thread = ThreadNoise::now();
        let report = NoiseReport::since(&before, &[ThreadNoise::now().since(&thread)], None);
        assert!(report.clock_change > -1.0, "{report:?}");
        assert!(report.minor_faults.is_known(), "{report:?}");
    }

    #[test]
    fn every_disturbance_is_a_reason() {
        let quiet = NoiseReport {
            waited_share: Known::Value(0.0),
            involuntary_switches: Known::Value(1),
            minor_faults: Known::Value(2),
            major_faults: Known::Value(0),
            steal_share: Known::unavailable("not told"),
            others_share: Known::Value(0.05),
            migrated_pages: Known::Value(5),
            clock_change: 0.01,
            misplaced: None,
        };
        assert_eq!(quiet.reasons(1.0), Vec::<String>::new());
        let noisy = NoiseReport {
            waited_share: Known::Value(0.5),
            major_faults: Known::Value(3),
            minor_faults: Known::Value(5_000),
            steal_share: Known::Value(0.2),
            others_share: Known::Value(0.3),
            clock_change: -0.2,
            misplaced: Some("pages moved".to_owned()),
            ..quiet
        };
        let reasons = noisy.reasons(1.0);
        assert_eq!(reasons.len(), 7, "{reasons:?}");
        assert!(
            reasons[0].contains("50.0 %") && reasons[5].contains("-20 %"),
            "{reasons:?}"
        );
    }
}
