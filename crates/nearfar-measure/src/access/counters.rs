//! Hardware counters, through `perf stat`.
//!
//! `perf` counts this process for as long as the repetitions of a run take, and beside it the units that all processes
//! share, which cannot be counted by process. Rates are over the time that `perf` says it has counted. Which events a
//! machine has is for `perf` to say; what it does not count is unavailable, with the reason.

use std::io;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nearfar_memory::sys::Ending;
use nearfar_topology::perf::{
    Count, check_sapphire_rapids_events, intel_model, is_intel, is_zen_4_or_later, parse,
    parse_separated, prints_json,
};
use nearfar_topology::{Known, TierKind, Topology};

use super::kernels::LINE_BYTES;
use super::outcome::TIER_TRAFFIC;
use crate::process::{Ended, Place, Process};
use crate::results::{Gap, Kind, Metric};

/// Events that most processors have.
const EVENTS: &str = "cycles,instructions,cache-misses,dTLB-load-misses";

/// Metrics of the top-down method: the four categories of all slots, then level by level down to external memory
/// (weisgut-2025, section 5.1).
const TOP_DOWN: &str = "tma_retiring,tma_bad_speculation,tma_frontend_bound,tma_backend_bound,\
                        tma_memory_bound,tma_l1_bound,tma_l2_bound,tma_l3_bound,tma_dram_bound,\
                        tma_store_bound,tma_mem_bandwidth,tma_mem_latency";

/// Its counterpart on AMD's Zen 4 and later: use of the dispatch slots.
const AMD_TOP_DOWN: &str = "retiring,bad_speculation,frontend_bound,backend_bound,\
                            backend_bound_by_memory,backend_bound_by_cpu,smt_contention";

/// What a processor's memory controllers and its ports to CXL devices count: transfers of a line.
#[derive(Debug, PartialEq, Eq)]
struct TrafficEvents {
    near_read: &'static [&'static str],
    near_written: &'static [&'static str],
    cxl_read: &'static [&'static str],
    cxl_written: &'static [&'static str],
}

/// Sapphire and Emerald Rapids.
const SAPPHIRE_RAPIDS: TrafficEvents = TrafficEvents {
    near_read: &["unc_m_cas_count.rd"],
    near_written: &["unc_m_cas_count.wr"],
    cxl_read: &["unc_cxlcm_rxc_pack_buf_inserts.mem_data"],
    cxl_written: &["unc_cxldp_txc_agf_inserts.m2s_data"],
};

/// Granite Rapids, whose memory controllers have two halves.
const GRANITE_RAPIDS: TrafficEvents = TrafficEvents {
    near_read: &["unc_m_cas_count_sch0.rd", "unc_m_cas_count_sch1.rd"],
    near_written: &["unc_m_cas_count_sch0.wr", "unc_m_cas_count_sch1.wr"],
    ..SAPPHIRE_RAPIDS
};

/// Zen 4 and later, of whose ports to CXL devices no event is known here.
const ZEN_4: TrafficEvents = TrafficEvents {
    near_read: &["umc_cas_cmd.rd"],
    near_written: &["umc_cas_cmd.wr"],
    cxl_read: &[],
    cxl_written: &[],
};

/// Events of the request table for loads from CXL memory.
const REQUEST_TABLE: &str =
    "unc_cha_tor_inserts.ia_miss_drd_cxl_acc,unc_cha_tor_occupancy.ia_miss_drd_cxl_acc";

/// The model of Granite Rapids in CPUID.
const GRANITE_RAPIDS_MODEL: u32 = 173;

/// The event of `perf` that is the time for which it counts, in ns.
const COUNTED_TIME: &str = "duration_time";

/// For how many seconds a group of events is tried.
const TRIAL_S: &str = "0.010";

impl TrafficEvents {
    fn of_this_processor() -> Option<&'static Self> {
        match (check_sapphire_rapids_events(), intel_model()) {
            (Ok(()), Some(GRANITE_RAPIDS_MODEL)) => Some(&GRANITE_RAPIDS),
            (Ok(()), _) => Some(&SAPPHIRE_RAPIDS),
            (Err(_), _) => is_zen_4_or_later().then_some(&ZEN_4),
        }
    }

    fn all(&self) -> impl Iterator<Item = &'static str> {
        let near = self.near_read.iter().chain(self.near_written);
        let cxl = self.cxl_read.iter().chain(self.cxl_written);
        near.chain(cxl).copied()
    }
}

/// What counts a tier's traffic.
#[derive(Debug)]
struct TierEvents {
    tier: String,
    /// Events of reads and of writes, or why there are none.
    events: Result<[&'static [&'static str]; 2], String>,
}

/// Of every tier but those that are modelled.
fn tier_events(topology: &Topology, events: Option<&'static TrafficEvents>) -> Vec<TierEvents> {
    let sockets = topology.sockets.len();
    let real = topology
        .tiers
        .iter()
        .filter(|tier| tier.kind != TierKind::Modelled);
    let of_cxl = real.clone().filter(|tier| tier.kind == TierKind::Cxl);
    let cxl_tiers = of_cxl.count();
    let of = |kind: TierKind| {
        let Some(events) = events else {
            return Err("no counters of this processor's memory traffic are known".to_owned());
        };
        match kind {
            TierKind::LocalDram | TierKind::Cxl if sockets > 1 => {
                Err(format!("memory of {sockets} sockets is counted together"))
            }
            TierKind::LocalDram => Ok([events.near_read, events.near_written]),
            TierKind::Cxl if events.cxl_read.is_empty() => {
                Err("no events of this processor's CXL ports are known".to_owned())
            }
            TierKind::Cxl if cxl_tiers > 1 => Err(format!(
                "{cxl_tiers} tiers of CXL memory are counted together"
            )),
            TierKind::Cxl => Ok([events.cxl_read, events.cxl_written]),
            _ => Err(format!("no counters of a tier of kind {kind} are known")),
        }
    };
    let tiers = real.map(|tier| TierEvents {
        tier: tier.name.clone(),
        events: of(tier.kind),
    });
    tiers.collect()
}

/// What can be counted on this machine.
#[derive(Debug)]
pub struct Counters {
    prints_json: bool,
    /// Arguments for events of this process, and for those of the machine.
    own: Vec<String>,
    shared: Vec<String>,
    tiers: Vec<TierEvents>,
    /// What cannot be counted.
    pub missing: Vec<Gap>,
}

impl Counters {
    /// Tries what this processor should have, group by group, for some milliseconds each.
    ///
    /// # Errors
    /// Why nothing can be counted at all.
    pub fn of_this_machine(topology: &Topology) -> Result<Self, String> {
        let version = Command::new("perf").arg("--version").output();
        let version = version.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "perf is not installed".to_owned(),
            _ => format!("perf: {error}"),
        })?;
        let mut counters = Self {
            prints_json: prints_json(&String::from_utf8_lossy(&version.stdout)),
            own: Vec::new(),
            shared: Vec::new(),
            tiers: Vec::new(),
            missing: Vec::new(),
        };
        let basic = words(&["-e", EVENTS]);
        counters.tried(&basic, Scope::Process)?;
        counters.own = basic;
        if is_intel() {
            counters.add("top-down metrics", &["-M", TOP_DOWN], Scope::Process);
        } else if is_zen_4_or_later() {
            counters.add("top-down metrics", &["-M", AMD_TOP_DOWN], Scope::Process);
        }
        if check_sapphire_rapids_events().is_ok() {
            counters.add("the request table", &["-e", REQUEST_TABLE], Scope::Machine);
        }
        let events = TrafficEvents::of_this_processor();
        counters.tiers = tier_events(topology, events);
        for event in events.into_iter().flat_map(TrafficEvents::all) {
            counters.add(event, &["-e", event], Scope::Machine);
        }
        let time = words(&["-e", COUNTED_TIME]);
        if !counters.shared.is_empty() && counters.tried(&time, Scope::Machine).is_ok() {
            counters.shared.extend(time);
        }
        Ok(counters)
    }

    /// Takes a group of events along if `perf` counts one of them.
    fn add(&mut self, what: &str, arguments: &[&str], scope: Scope) {
        let arguments = words(arguments);
        match self.tried(&arguments, scope) {
            Ok(()) if scope == Scope::Process => self.own.extend(arguments),
            Ok(()) => self.shared.extend(arguments),
            Err(reason) => self.missing.push(Gap {
                what: format!("counters: {what}"),
                reason,
            }),
        }
    }

    fn tried(&self, arguments: &[String], scope: Scope) -> Result<(), String> {
        let mut command = self.command(arguments, scope);
        command.args(["--", "sleep", TRIAL_S]);
        let ended = started(command)?.wait(&AtomicBool::new(false));
        let ended = ended.map_err(|error| format!("perf: {error}"))?;
        let ended = ended.ok_or_else(|| "perf was stopped".to_owned())?;
        let counts = self.counts(&ended)?;
        match counts.iter().any(|count| count.value.is_known()) {
            true => Ok(()),
            false => Err("perf counts no event of it on this machine".to_owned()),
        }
    }

    /// Counts this process, all threads, and what the machine shares, until [`Self::finish`].
    pub fn start(&self) -> Counting {
        let start = |arguments: &[String], scope| started(self.command(arguments, scope));
        Counting {
            own: start(&self.own, Scope::Process),
            shared: (!self.shared.is_empty()).then(|| start(&self.shared, Scope::Machine)),
        }
    }

    /// Ends the counting; what was counted, as lines of the results schema. What was not is unavailable, with the
    /// reason.
    pub fn finish(&self, counting: Counting) -> Vec<Metric> {
        let end = |process: Result<Process, String>| {
            let ended = process?.end(Ending::Interrupt);
            let ended = ended.map_err(|error| format!("perf: {error}"))?;
            Ok(Counted::new(self.counts(&ended)?, ended.elapsed))
        };
        let shared = counting.shared.map(end);
        let shared = shared.unwrap_or_else(|| Ok(Counted::default()));
        let own = end(counting.own);
        let traffic = traffic(&self.tiers, &shared);
        let mut counts = Vec::new();
        let mut found = Vec::new();
        for (of, counted) in [("this process", own), ("the machine", shared)] {
            match counted {
                Ok(counted) => counts.extend(counted.counts),
                Err(reason) => {
                    let metric = Metric::unavailable("counter", &reason, "count", Kind::Measured);
                    found.push(metric.with("event", format!("all of {of}")));
                }
            }
        }
        found.extend(metrics(&counts));
        found.extend(traffic);
        found
    }

    /// A `perf stat` of these events.
    fn command(&self, arguments: &[String], scope: Scope) -> Command {
        let mut command = Command::new("perf");
        command.arg("stat");
        match self.prints_json {
            true => command.arg("-j"),
            false => command.args(["-x", ","]),
        };
        command.args(arguments);
        match scope {
            Scope::Process => command.args(["-p", &std::process::id().to_string()]),
            Scope::Machine => command.arg("-a"),
        };
        // Numbers have a point in them wherever it runs.
        command.env("LC_ALL", "C");
        command
    }

    /// What a `perf stat` has printed.
    fn counts(&self, ended: &Ended) -> Result<Vec<Count>, String> {
        let counts = match self.prints_json {
            true => parse(&ended.errors),
            false => parse_separated(&ended.errors),
        };
        match counts.is_empty() {
            true => Err(format!("perf: {}", ended.words())),
            false => Ok(counts),
        }
    }
}

fn started(command: Command) -> Result<Process, String> {
    Process::start(command, Place::default()).map_err(|error| format!("perf: {error}"))
}

fn words(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|one| (*one).to_owned()).collect()
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// This process.
    Process,
    /// All processors: what units count that belong to no process.
    Machine,
}

/// Counting that goes on.
#[derive(Debug)]
pub struct Counting {
    own: Result<Process, String>,
    /// None where nothing of the machine can be counted.
    shared: Option<Result<Process, String>>,
}

/// What a `perf stat` has counted.
#[derive(Debug, Default)]
struct Counted {
    counts: Vec<Count>,
    /// For how long, by its own clock where it tells; else as long as it ran.
    time: Duration,
}

impl Counted {
    /// Takes the time from the counts, where it is among them.
    fn new(mut counts: Vec<Count>, ran: Duration) -> Self {
        let is_time = |count: &Count| count.event == COUNTED_TIME;
        let ns = counts.iter().find(|count| is_time(count));
        let ns = ns
            .and_then(|count| count.value.get())
            .filter(|ns| *ns > 0.0);
        counts.retain(|count| !is_time(count));
        Self {
            counts,
            time: ns.map_or(ran, |ns| Duration::from_secs_f64(ns * 1e-9)),
        }
    }
}

/// Bytes per second to and from every tier, whoever moves them.
fn traffic(tiers: &[TierEvents], counted: &Result<Counted, String>) -> Vec<Metric> {
    let rate = |events: &[&str]| -> Result<f64, String> {
        let counted = counted.as_ref().map_err(Clone::clone)?;
        let mut lines = 0.0;
        for event in events {
            let found = counted.counts.iter().find(|count| count.event == *event);
            let found = found.ok_or_else(|| format!("perf does not count {event}"))?;
            lines += match &found.value {
                Known::Value(value) => *value,
                Known::Unavailable(reason) => return Err(format!("{event}: {reason}")),
            };
        }
        Ok(lines * LINE_BYTES as f64 / counted.time.as_secs_f64())
    };
    let of_tier = |tier: &TierEvents| {
        let tier_name = tier.tier.clone();
        let metrics = TIER_TRAFFIC.into_iter().enumerate().map(|(index, name)| {
            let found = tier.events.clone().and_then(|events| rate(events[index]));
            match found {
                Ok(rate) => Metric::new(name, rate, "B/s", Kind::Measured),
                Err(reason) => Metric::unavailable(name, &reason, "B/s", Kind::Measured),
            }
        });
        let named = metrics.map(|metric| metric.with("tier", tier_name.as_str()));
        named.collect::<Vec<_>>()
    };
    tiers.iter().flat_map(of_tier).collect()
}

/// Shares of the issue or dispatch slots in per cent, by the vendors' names.
const SLOTS: [(&str, [&str; 2]); 4] = [
    ("retiring_percent", ["tma_retiring", "retiring"]),
    (
        "bad_speculation_percent",
        ["tma_bad_speculation", "bad_speculation"],
    ),
    (
        "front_end_bound_percent",
        ["tma_frontend_bound", "frontend_bound"],
    ),
    (
        "back_end_bound_percent",
        ["tma_backend_bound", "backend_bound"],
    ),
];

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
fn metrics(counts: &[Count]) -> Vec<Metric> {
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
    let share = |name, value| Metric::new(name, value, "percent", Kind::Measured);
    for (name, events) in SLOTS {
        let mut found = counts
            .iter()
            .filter(|count| events.contains(&&*count.event));
        if let Some(value) = found.find_map(|count| count.value.get()) {
            metrics.push(share(name, value));
        }
    }
    if let Some((bandwidth, latency)) = bound_shares(counts) {
        metrics.push(share("bandwidth_bound_percent", bandwidth));
        metrics.push(share("latency_bound_percent", latency));
    }
    metrics
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

    /// A machine of one socket with a tier of CXL memory, as far as counters look at it.
    fn topology() -> Topology {
        let mut topology = Topology::this_machine().unwrap();
        topology.sockets.truncate(1);
        topology.tiers.truncate(1);
        let mut far = topology.tiers[0].clone();
        far.name = "cxl".to_owned();
        far.kind = TierKind::Cxl;
        topology.tiers.push(far);
        topology
    }

    #[test]
    fn slots_have_one_name_for_both_vendors() {
        for names in [
            ["tma_retiring", "tma_backend_bound"],
            ["retiring", "backend_bound"],
        ] {
            let value = |event: &str, value: f64| Count::new(event, Known::Value(value), "%");
            let found = metrics(&[value(names[0], 20.0), value(names[1], 70.0)]);
            let of = |name: &str| {
                let metric = found.iter().find(|metric| metric.metric == name);
                metric.and_then(|metric| metric.value.get())
            };
            assert_eq!(of("retiring_percent"), Some(20.0));
            assert_eq!(of("back_end_bound_percent"), Some(70.0));
            assert_eq!(of("front_end_bound_percent"), None);
        }
    }

    #[test]
    fn traffic_is_told_by_tier_or_why_not() {
        let counts: Vec<Count> = GRANITE_RAPIDS
            .all()
            .map(|event| Count::new(event, Known::Value(1e6), ""))
            .collect();
        let rates = |topology: &Topology, events, counts: &[Count]| -> Vec<Known<f64>> {
            let tiers = tier_events(topology, events);
            let counted = Counted::new(counts.to_vec(), Duration::from_millis(500));
            let found = traffic(&tiers, &Ok(counted));
            found.into_iter().map(|metric| metric.value).collect()
        };
        let mut topology = topology();
        let found = rates(&topology, Some(&GRANITE_RAPIDS), &counts);
        let expected = [256e6, 256e6, 128e6, 128e6].map(Known::Value);
        assert_eq!(found, expected, "halves of controllers are summed");
        let reason = |found: &[Known<f64>], at: usize| found[at].reason().unwrap().to_owned();
        let without = rates(&topology, Some(&GRANITE_RAPIDS), &counts[1..]);
        assert!(reason(&without, 0).contains("unc_m_cas_count_sch0.rd"));
        assert!(reason(&rates(&topology, Some(&ZEN_4), &[]), 2).contains("CXL ports"));
        assert!(reason(&rates(&topology, None, &[]), 0).contains("no counters"));
        let second = nearfar_topology::Socket {
            id: 1,
            cpus: topology.cpus.clone(),
        };
        topology.sockets = vec![second.clone(), second];
        let found = rates(&topology, Some(&GRANITE_RAPIDS), &counts);
        assert!(reason(&found, 0).contains("2 sockets"));
    }

    #[test]
    fn rates_are_over_the_time_that_perf_has_counted() {
        let lines = Count::new("unc_m_cas_count.rd", Known::Value(1e6), "");
        let time = |ns: f64| Count::new(COUNTED_TIME, Known::Value(ns), "");
        let tiers = tier_events(&topology(), Some(&SAPPHIRE_RAPIDS));
        let ran = Duration::from_secs(4);
        for (counts, expected) in [
            (vec![lines.clone(), time(2e9)], 32e6),
            (vec![lines.clone()], 16e6),
            (vec![lines, time(0.0)], 16e6),
        ] {
            let counted = Counted::new(counts, ran);
            assert_eq!(counted.counts.len(), 1, "time is no counter");
            let found = traffic(&tiers, &Ok(counted));
            assert_eq!(found[0].value, Known::Value(expected));
        }
    }

    /// As if `perf` had been started, once it waits to be interrupted.
    fn perf(script: &str) -> Process {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let script = format!(
            "{script}; : > {}; while :; do sleep 0.01; done",
            ready.display()
        );
        // A shell does not trap what it was started to ignore, as jobs in the background are.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", "sh", "-c", &script]);
        let process = started(command).unwrap();
        while !ready.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        process
    }

    #[test]
    fn counting_ends_when_it_is_told_to_and_says_why_it_has_nothing() {
        let counters = Counters {
            prints_json: false,
            own: words(&["-e", EVENTS]),
            shared: words(&["-e", "unc_m_cas_count.rd", "-e", COUNTED_TIME]),
            tiers: tier_events(&topology(), Some(&SAPPHIRE_RAPIDS)),
            missing: Vec::new(),
        };
        let counts = "trap 'echo \"500,,unc_m_cas_count.rd,9,100.00,,\n\
                      500000000,ns,duration_time,9,100.00,,\" >&2; exit' INT";
        let found = counters.finish(Counting {
            own: Ok(perf("trap 'echo no such event >&2; exit 1' INT")),
            shared: Some(Ok(perf(counts))),
        });
        let of = |name: &str| {
            let mut named = found.iter().filter(|metric| metric.metric == name);
            named.next().map(|metric| metric.value.clone())
        };
        assert_eq!(of("tier_read_bytes_per_s"), Some(Known::Value(64_000.0)));
        let reason = of("counter").and_then(|value| value.reason().map(str::to_owned));
        assert_eq!(reason.as_deref(), Some("perf: no such event"));
        let counters = found.iter().filter(|metric| metric.metric == "counter");
        assert_eq!(counters.count(), 2, "{found:?}");
    }
}
