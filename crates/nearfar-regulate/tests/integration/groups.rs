//! Candidates: what is seen of each on captured trees, and which of them is slowed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nearfar_regulate::attribution::Attribution;
use nearfar_regulate::control::{Goal, TierAware};
use nearfar_regulate::error::RegulateError;
use nearfar_regulate::journal::Journal;
use nearfar_regulate::knob::Quota;
use nearfar_regulate::machine::MachineFiles;
use nearfar_regulate::observe::{
    CxlTraffic, GroupObserver, GroupSamples, GroupServer, GroupTraffic, Observer, Residence,
    SlowTiers, Sureness, cxl_events,
};
use nearfar_regulate::regulator::{Candidate, Decision, Regulator};
use nearfar_regulate::report::Report;
use nearfar_regulate::virtual_time::{Recording, Trace, read_trace};
use tempfile::TempDir;

use crate::machines::{captured, put};

const MB: u64 = 1_000_000;

/// Files beside those of the captured tree: a node without processors, and two groups that are monitored.
const TREE: [(&str, &str); 13] = [
    ("sys/devices/system/node/node0/cpulist", "0-15\n"),
    ("sys/devices/system/node/node0/distance", "10 20\n"),
    (
        "sys/devices/system/node/node0/meminfo",
        "Node 0 MemTotal: 8388608 kB\nNode 0 MemFree: 4194304 kB\n",
    ),
    ("sys/devices/system/node/node2/cpulist", "\n"),
    ("sys/devices/system/node/node2/distance", "20 10\n"),
    (
        "sys/devices/system/node/node2/meminfo",
        "Node 2 MemTotal: 8388608 kB\nNode 2 MemFree: 4194304 kB\n",
    ),
    ("sys/fs/cgroup/tidy/cgroup.controllers", "cpu memory\n"),
    ("sys/fs/cgroup/tidy/cpu.max", "max 100000\n"),
    ("sys/fs/cgroup/tidy/cpu.stat", "usage_usec 0\nuser_usec 0\n"),
    (
        "sys/fs/cgroup/tidy/memory.numa_stat",
        "anon N0=8192 N2=0\nfile N0=4096 N2=4096\nslab N0=0 N2=99999\n",
    ),
    (
        "sys/fs/cgroup/batch/cpu.stat",
        "usage_usec 0\nuser_usec 0\n",
    ),
    (
        "sys/fs/cgroup/batch/memory.numa_stat",
        "anon N0=0 N2=8192\nfile N0=0 N2=0\n",
    ),
    (
        "sys/fs/resctrl/info/L3_MON/mon_features",
        "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n",
    ),
];

fn tree() -> (TempDir, MachineFiles) {
    let (folder, machine) = captured();
    for (file, content) in TREE {
        put(folder.path(), file, content);
    }
    monitor(folder.path(), "batch", 0, 0);
    monitor(folder.path(), "mon_groups/tidy", 0, 0);
    (folder, machine)
}

/// Counters of a group of resctrl, in two domains.
fn monitor(root: &Path, group: &str, all: u64, local: u64) {
    for domain in ["mon_L3_00", "mon_L3_01"] {
        let folder = format!("sys/fs/resctrl/{group}/mon_data/{domain}");
        for (name, value) in [
            ("mbm_total_bytes", all / 2),
            ("mbm_local_bytes", local / 2),
            ("llc_occupancy", 1 << 20),
        ] {
            put(root, &format!("{folder}/{name}"), &format!("{value}\n"));
        }
    }
}

fn names(groups: &[&str]) -> Vec<String> {
    groups.iter().map(|group| (*group).to_owned()).collect()
}

#[test]
fn resctrl_tells_what_leaves_the_processors_own_nodes() {
    let (folder, machine) = tree();
    let mut traffic = GroupTraffic::find(&machine, &names(&["batch", "tidy"])).unwrap();
    assert!(traffic.look(0.0).unwrap().slow[0].is_nan());
    monitor(folder.path(), "batch", 1_000 * MB, 100 * MB);
    monitor(folder.path(), "mon_groups/tidy", 500 * MB, 500 * MB);
    let seen = traffic.look(100.0).unwrap();
    assert_eq!(seen.slow, [9e9, 0.0]);
    assert_eq!(seen.occupancy_bytes, [2_097_152.0, 2_097_152.0]);
    // A counter that goes back, one that is not there for now, a clock that goes back, and a group that is gone.
    monitor(folder.path(), "batch", 900 * MB, 200 * MB);
    assert!(traffic.look(200.0).unwrap().slow[0].is_nan());
    let file = "sys/fs/resctrl/batch/mon_data/mon_L3_00/mbm_total_bytes";
    put(folder.path(), file, "Unavailable\n");
    assert!(traffic.look(300.0).unwrap().slow[0].is_nan());
    monitor(folder.path(), "batch", 900 * MB, 200 * MB);
    assert!(traffic.look(400.0).unwrap().slow[0].is_nan());
    monitor(folder.path(), "batch", 1_000 * MB, 200 * MB);
    assert!(traffic.look(350.0).unwrap().slow[0].is_nan());
    monitor(folder.path(), "batch", 1_100 * MB, 200 * MB);
    assert_eq!(traffic.look(450.0).unwrap().slow[0], 1e9);
    fs::remove_dir_all(folder.path().join("sys/fs/resctrl/mon_groups/tidy")).unwrap();
    assert!(traffic.look(550.0).unwrap().slow[1].is_nan());
    let missing = GroupTraffic::find(&machine, &names(&["service"])).unwrap_err();
    let message = missing.to_string();
    assert!(message.contains("no mbm_local_bytes"), "{message}");
}

#[test]
fn cgroups_tell_who_computes_on_slow_tiers() {
    let (folder, machine) = tree();
    let tiers = SlowTiers::find(&machine).unwrap();
    assert_eq!(tiers.name(), "cpuless");
    let groups = names(&["batch", "tidy"]);
    let mut residence = Residence::find(&machine, &groups, &tiers).unwrap();
    assert!(residence.look(0.0).unwrap().slow[0].is_nan());
    for group in ["batch", "tidy"] {
        let file = format!("sys/fs/cgroup/{group}/cpu.stat");
        put(folder.path(), &file, "usage_usec 2000000\n");
    }
    // Two processors for a second; all memory of one group is there, and a quarter of the other's.
    assert_eq!(residence.look(1_000.0).unwrap().slow, [2.0, 0.5]);
    put(
        folder.path(),
        "sys/fs/cgroup/batch/cpu.stat",
        "usage_usec 10\n",
    );
    assert!(residence.look(2_000.0).unwrap().slow[0].is_nan());
    let none = Residence::find(&machine, &names(&["plain"]), &tiers).unwrap_err();
    assert!(
        none.to_string()
            .contains("no /sys/fs/cgroup/plain/memory.numa_stat"),
        "{none}"
    );
    put(
        folder.path(),
        "sys/devices/system/node/node2/cpulist",
        "16-31\n",
    );
    let none = SlowTiers::find(&machine).unwrap_err().to_string();
    assert!(
        none.contains("every node with memory has processors"),
        "{none}"
    );
}

/// A line of `perf stat -j -I --for-each-cgroup`.
fn line(until_s: f64, group: &str, event: &str, value: &str, percent: f64) -> String {
    format!(
        "{{\"interval\" : {until_s:.9}, \"counter-value\" : \"{value}\", \"unit\" : \"\", \
         \"event\" : \"{event}\", \"cgroup\" : \"{group}\", \"event-runtime\" : 5, \
         \"pcnt-running\" : {percent:.2}, \"metric-value\" : 0.000000, \"metric-unit\" : \"\"}}\n"
    )
}

/// A command that prints a captured text as `perf` does, and goes on.
fn perf(folder: &Path, text: &str) -> Command {
    let file = folder.join("perf.txt");
    fs::write(&file, text).unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "cat \"$0\" >&2; exec sleep 60"])
        .arg(file);
    shell
}

/// Looks until there is something to see: lines arrive when they do.
fn look(observer: &mut dyn GroupObserver) -> Vec<f64> {
    for _ in 0..200 {
        let seen = observer.look(0.0).unwrap();
        if seen.slow.iter().any(|slow| slow.is_finite()) {
            return seen.slow;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing was counted");
}

#[test]
fn perf_tells_what_each_group_reads_and_streams() {
    let (folder, machine) = tree();
    let of = |until_s: f64, group: &str, counts: [&str; 3]| -> String {
        let events = [
            "ocr.reads_to_core.l3_miss_local_socket",
            "ocr.reads_to_core.local_dram",
            "ocr.streaming_wr.any_response",
        ];
        let lines = events.iter().zip(counts);
        lines
            .map(|(event, count)| line(until_s, group, event, count, 66.7))
            .collect()
    };
    let not = ["<not counted>"; 3];
    let text = [
        "print interval < 100ms. The overhead percentage could be high in some cases.\n".to_owned(),
        of(0.1, "batch", ["3000000.0", "1000000.0", "8000000.0"]),
        of(0.1, "tidy", ["1000000.0", "1000100.0", "5000000.0"]),
        of(0.1, "idle", not),
        of(0.1, "odd", ["100.0", "<not counted>", "7.0"]),
        of(0.2, "batch", ["0.0", "0.0", "0.0"]),
    ]
    .concat();
    let groups = names(&["batch", "tidy", "idle", "odd"]);
    let mut samples = GroupSamples::counted_by(perf(folder.path(), &text), &groups, None).unwrap();
    let slow = look(&mut samples);
    assert_eq!(slow[..3], [6.4e9, 3.2e9, 0.0]);
    assert!(slow[3].is_nan());
    assert_eq!(samples.look(100.0).unwrap().counted_percent, 66.7);
    assert_eq!(samples.sureness(), Sureness::Sampled);
    // What is too old says nothing, as after a clock that jumped.
    assert!(samples.look(5_000.0).unwrap().slow[0].is_nan());
    assert!(samples.look(-10.0).unwrap().slow[0].is_nan());
    // Stores of a group without memory on slow tiers go elsewhere.
    let near = "anon N0=8192 N2=0\nfile N0=0 N2=0\n";
    put(folder.path(), "sys/fs/cgroup/tidy/memory.numa_stat", near);
    let groups = names(&["batch", "tidy"]);
    let tiers = SlowTiers::find(&machine).unwrap();
    let residence = Residence::find(&machine, &groups, &tiers).unwrap();
    let perf = perf(folder.path(), &text);
    let mut samples = GroupSamples::counted_by(perf, &groups, Some(residence)).unwrap();
    assert_eq!(look(&mut samples), [6.4e9, 0.0]);
    let captured = GroupSamples::start(&machine, &groups, None).unwrap_err();
    assert!(
        captured.to_string().contains("on this machine only"),
        "{captured}"
    );
}

#[test]
fn perf_that_ends_is_told_and_ends_the_regulation() {
    let (folder, _) = tree();
    let groups = names(&["batch"]);
    let file = folder.path().join("perf.txt");
    fs::write(&file, line(0.1, "batch", "e", "1.0", 100.0)).unwrap();
    let mut shell = Command::new("sh");
    let script = "cat \"$0\" >&2; echo 'batch is gone' >&2";
    shell.args(["-c", script]).arg(file);
    let mut samples = GroupSamples::counted_by(shell, &groups, None).unwrap();
    let error = loop {
        match samples.look(0.0) {
            Ok(_) => thread::sleep(Duration::from_millis(5)),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(
        error,
        "sampling of groups is unavailable: perf: batch is gone"
    );
}

#[test]
fn counters_of_cxl_are_those_that_the_machine_names() {
    let (folder, machine) = tree();
    let none = cxl_events(&machine).unwrap_err().to_string();
    assert!(
        none.contains("neither cxl_pmu_mem* nor uncore_cxlcm*"),
        "{none}"
    );
    let source = |name: &str, files: &[(&str, &str)]| {
        for (file, content) in files {
            let path = format!("sys/bus/event_source/devices/{name}/{file}");
            put(folder.path(), &path, content);
        }
    };
    let format = [
        ("type", "77\n"),
        ("cpumask", "0\n"),
        ("format/event", "config:0-7\n"),
        ("format/umask", "config:8-15\n"),
    ];
    source("uncore_cxlcm_1", &format);
    source("uncore_cxlcm_0", &format);
    source("uncore_cxldp_0", &format);
    // Without its format, an event cannot be written.
    source("uncore_cxldp_1", &format[..2]);
    source("uncore_imc_0", &format);
    let expected = [
        "uncore_cxlcm_0/event=0x41,umask=0x10/",
        "uncore_cxlcm_1/event=0x41,umask=0x10/",
        "uncore_cxldp_0/event=0x02,umask=0x20/",
    ];
    assert_eq!(cxl_events(&machine).unwrap(), expected);
    // The devices' own are better; of one that lacks an event, the others are counted.
    let reads = ("events/s2m_drs_memdata", "vid=0x1e98,gid=0x24,mask=0x1\n");
    let writes = ("events/m2s_rwd_memwr", "vid=0x1e98,gid=0x21,mask=0x2\n");
    source("cxl_pmu_mem0.0", &[reads, writes]);
    source("cxl_pmu_mem1.0", &[reads]);
    let expected = [
        "cxl_pmu_mem0.0/s2m_drs_memdata/",
        "cxl_pmu_mem0.0/m2s_rwd_memwr/",
        "cxl_pmu_mem1.0/s2m_drs_memdata/",
    ];
    assert_eq!(cxl_events(&machine).unwrap(), expected);
    let captured = CxlTraffic::start(&machine).unwrap_err().to_string();
    assert!(captured.contains("on this machine only"), "{captured}");
}

/// Counts of all CXL traffic, so many bytes in a second.
fn cxl(folder: &Path, bytes_per_s: u64, percent: f64) -> CxlTraffic {
    let lines = (bytes_per_s / 64 / 10).to_string();
    let text = [0.1, 0.2].map(|until_s| line(until_s, "", "uncore_cxlcm_0/x/", &lines, percent));
    CxlTraffic::counted_by(perf(folder, &text.concat())).unwrap()
}

#[test]
fn scaled_counts_of_cxl_are_told_as_such() {
    let (folder, _) = tree();
    let mut traffic = cxl(folder.path(), 6_400 * MB, 25.0);
    let seen = (0..200).find_map(|_| {
        thread::sleep(Duration::from_millis(10));
        let seen = traffic.look(0.0).unwrap();
        seen.bytes_per_s.is_finite().then_some(seen)
    });
    let seen = seen.unwrap();
    assert!((seen.bytes_per_s - 6.4e9).abs() < 1.0, "{seen:?}");
    assert_eq!(seen.counted_percent, 25.0);
    assert!(traffic.look(9_000.0).unwrap().bytes_per_s.is_nan());
}

/// A victim that always has the same share.
struct Always(f64);

impl Observer for Always {
    fn tells(&self) -> &'static str {
        "always the same"
    }

    fn sureness(&self) -> Sureness {
        Sureness::Counted
    }

    fn victim(&mut self, _now_ms: f64) -> Result<f64, RegulateError> {
        Ok(self.0)
    }
}

const GROUPS: [&str; 2] = ["batch", "tidy"];

fn regulator(machine: &MachineFiles, journal: Option<Journal>) -> Regulator<'static> {
    let candidate =
        |group: &str| Candidate::new(group, Box::new(Quota::find(machine, group, 16).unwrap()));
    Regulator::new(
        machine.clone(),
        Box::new(Always(0.2)),
        Box::new(TierAware::new(Goal::default())),
        GROUPS.map(candidate).into(),
        journal,
    )
}

fn quota(root: &Path, group: &str) -> String {
    fs::read_to_string(root.join(format!("sys/fs/cgroup/{group}/cpu.max"))).unwrap()
}

/// Steps of 50 ms from `from` on, in which the groups move so many MB in all.
fn steps(
    regulator: &mut Regulator<'_>,
    root: &Path,
    steps: std::ops::Range<u64>,
    mb_per_step: [u64; 2],
) -> Vec<Decision> {
    let step = |step: u64| {
        monitor(root, "batch", step * mb_per_step[0] * MB, 0);
        monitor(root, "mon_groups/tidy", step * mb_per_step[1] * MB, 0);
        regulator.step(step as f64 * 50.0).unwrap()
    };
    steps.map(step).collect()
}

#[test]
fn only_the_group_that_goes_to_the_slow_tier_is_slowed() {
    let (folder, machine) = tree();
    let root = folder.path();
    let (journal, _) = Journal::recover(&root.join("journal"), &machine).unwrap();
    let (attribution, missing) = Attribution::find(&machine, &names(&GROUPS), &[]).unwrap();
    assert_eq!(missing.len(), 1, "{missing:?}");
    let attribution = attribution.unwrap();
    assert_eq!(attribution.sureness(), Sureness::Counted);
    assert_eq!(attribution.tier(), "cpuless");
    let mut regulator = regulator(&machine, Some(journal)).attributed_by(attribution);
    let decisions = steps(&mut regulator, root, 0..20, [400, 10]);
    // The first look says nothing, and nobody is slowed for it.
    assert!(!decisions[0].groups[0].is_cause && decisions[0].changes.is_empty());
    assert!(decisions[1].is_news && !decisions[2].is_news);
    let last = &decisions[19];
    assert_eq!(
        last.groups
            .iter()
            .map(|one| one.is_cause)
            .collect::<Vec<_>>(),
        [true, false]
    );
    assert!(
        (last.groups[0].slow_percent - 97.56).abs() < 0.01,
        "{last:?}"
    );
    assert!(last.groups[0].granted < 0.1 && last.groups[1].granted == 1.0);
    assert_ne!(quota(root, "batch"), "max 100000\n");
    assert_eq!(quota(root, "tidy"), "max 100000\n");
    assert_eq!(regulator.end().unwrap().files.len(), 1);
    assert_eq!(quota(root, "batch"), "max 100000\n");
}

#[test]
fn nobody_is_slowed_for_what_counters_say_others_move() {
    let (folder, machine) = tree();
    let root = folder.path();
    let groups = GroupTraffic::find(&machine, &names(&GROUPS)).unwrap();
    // Ten times what the groups move.
    let cxl = cxl(root, 100_000 * MB, 100.0);
    thread::sleep(Duration::from_millis(200));
    let attribution = Attribution::new(Box::new(groups), Some(cxl), "cxl");
    let mut regulator = regulator(&machine, None).attributed_by(attribution);
    let decisions = steps(&mut regulator, root, 0..10, [200, 0]);
    let last = &decisions[9];
    assert!(
        (last.cxl.unwrap().bytes_per_s - 1e11).abs() < 1e3,
        "{last:?}"
    );
    assert!((last.groups[0].slow_percent - 4.0).abs() < 0.01, "{last:?}");
    assert!(decisions.iter().all(|one| one.changes.is_empty()));
}

#[test]
fn a_candidate_that_ends_leaves_the_others_regulated() {
    let (folder, machine) = tree();
    let root = folder.path();
    let (journal, _) = Journal::recover(&root.join("journal"), &machine).unwrap();
    let groups = GroupTraffic::find(&machine, &names(&GROUPS)).unwrap();
    let attribution = Attribution::new(Box::new(groups), None, "cxl");
    let mut regulator = regulator(&machine, Some(journal)).attributed_by(attribution);
    steps(&mut regulator, root, 0..5, [400, 400]);
    assert_ne!(quota(root, "tidy"), "max 100000\n");
    fs::remove_dir_all(root.join("sys/fs/cgroup/batch")).unwrap();
    let decisions = steps(&mut regulator, root, 5..60, [0, 400]);
    assert!(decisions[0].groups[0].is_gone && decisions[0].is_news);
    let last = &decisions[54];
    assert!(
        !last.groups[0].is_cause && last.groups[1].is_cause,
        "{last:?}"
    );
    fs::remove_dir_all(root.join("sys/fs/cgroup/tidy")).unwrap();
    let ended = regulator.step(3_000.0);
    assert!(
        matches!(ended, Err(RegulateError::Vanished { .. })),
        "{ended:?}"
    );
    assert_eq!(regulator.end().unwrap().vanished.len(), 2);
}

#[test]
fn a_single_group_is_the_cause_and_what_it_moves_is_told() {
    let (folder, machine) = tree();
    let root = folder.path();
    let name = [GROUPS[0].to_owned()];
    let groups = GroupTraffic::find(&machine, &name).unwrap();
    let attribution = Attribution::new(Box::new(groups), None, "cxl");
    let victim = Always(0.2);
    let report = Report::new(&victim, Some(&attribution));
    let quota = Quota::find(&machine, GROUPS[0], 4).unwrap();
    let mut regulator = Regulator::new(
        machine.clone(),
        Box::new(victim),
        Box::new(TierAware::new(Goal::default())),
        vec![Candidate::new(GROUPS[0], Box::new(quota))],
        None,
    )
    .attributed_by(attribution);
    // It is slowed before anything is known, and though it moves next to nothing: nobody else was named.
    let first = regulator.step(0.0).unwrap();
    assert!(first.groups[0].is_cause && first.granted < 1.0, "{first:?}");
    monitor(root, GROUPS[0], 50_000, 0);
    let second = regulator.step(50.0).unwrap();
    assert!(second.groups[0].is_cause && second.granted < first.granted);
    assert!((second.groups[0].slow - 1e6).abs() < 1.0, "{second:?}");
    let line: serde_json::Value = serde_json::from_str(&report.json(&second).unwrap()).unwrap();
    assert_eq!(line["groups"][0]["sureness"], "counted");
    assert_eq!(line["groups"][0]["slow"], second.groups[0].slow);
    assert_eq!(line["victim_sureness"], "counted");
}

/// A victim that has little, and at whose first look a group ends.
struct Ends(Option<std::path::PathBuf>);

impl Observer for Ends {
    fn tells(&self) -> &'static str {
        "little"
    }

    fn sureness(&self) -> Sureness {
        Sureness::Counted
    }

    fn victim(&mut self, _now_ms: f64) -> Result<f64, RegulateError> {
        if let Some(folder) = self.0.take() {
            fs::remove_dir_all(folder).unwrap();
        }
        Ok(0.1)
    }
}

#[test]
fn a_candidate_may_end_during_a_step_and_come_again() {
    let (folder, machine) = tree();
    let root = folder.path();
    let (journal, _) = Journal::recover(&root.join("journal"), &machine).unwrap();
    let candidate =
        |group| Candidate::new(group, Box::new(Quota::find(&machine, group, 4).unwrap()));
    let mut regulator = Regulator::new(
        machine.clone(),
        Box::new(Ends(Some(root.join("sys/fs/cgroup/batch")))),
        Box::new(TierAware::new(Goal::default())),
        GROUPS.map(candidate).into(),
        Some(journal),
    );
    let unlimited = "max 100000\n";
    let first = regulator.step(0.0).unwrap();
    assert!(
        first.groups[0].is_gone && first.groups[0].granted == 1.0,
        "{first:?}"
    );
    assert!(first.groups[1].granted < 1.0, "{first:?}");
    assert_ne!(quota(root, "tidy"), unlimited);
    // Another of its name is left alone.
    put(root, "sys/fs/cgroup/batch/cpu.max", unlimited);
    for step in 1..100 {
        let decision = regulator.step(f64::from(step) * 50.0).unwrap();
        assert!(decision.groups[0].is_gone, "{decision:?}");
        assert_eq!(quota(root, "batch"), unlimited);
    }
    regulator.end().unwrap();
    assert_eq!(quota(root, "tidy"), unlimited);
}

#[test]
fn another_group_of_a_name_is_never_taken_for_the_one_that_was_slowed() {
    let (folder, machine) = tree();
    let root = folder.path();
    let (journal, _) = Journal::recover(&root.join("journal"), &machine).unwrap();
    let mut regulator = regulator(&machine, Some(journal));
    let first = regulator.step(0.0).unwrap();
    assert!(first.groups.iter().all(|group| group.granted < 1.0));
    assert_ne!(quota(root, "batch"), "max 100000\n");
    // Between two looks it ends, and another comes with a quota of its own. What has ended is kept, so that its number is
    // not given to another file.
    let batch = root.join("sys/fs/cgroup/batch");
    fs::rename(&batch, root.join("ended")).unwrap();
    let own = "30000 100000\n";
    put(root, "sys/fs/cgroup/batch/cpu.max", own);
    for step in 1..50 {
        let decision = regulator.step(f64::from(step) * 50.0).unwrap();
        assert!(decision.groups[0].is_gone, "{decision:?}");
        assert!(decision.groups[1].granted < 1.0, "{decision:?}");
    }
    assert_eq!(quota(root, "batch"), own);
    let restored = regulator.end().unwrap();
    assert_eq!(restored.vanished, [batch.join("cpu.max")]);
    assert_eq!(quota(root, "batch"), own);
    assert_eq!(quota(root, "tidy"), "max 100000\n");
}

/// What both groups move in 0.4 s of steps, seen by a recording: 8 GB/s and 0.2 GB/s, or, where limits are real, what
/// their quotas leave of that.
fn recorded(journal: bool) -> (Trace, Decision) {
    let (folder, machine) = tree();
    let root = folder.path();
    let journal = journal.then(|| Journal::recover(&root.join("journal"), &machine).unwrap().0);
    let is_real = journal.is_some();
    let groups = GroupTraffic::find(&machine, &names(&GROUPS)).unwrap();
    let attribution = Attribution::new(Box::new(groups), None, "cxl");
    let mut regulator = regulator(&machine, journal).attributed_by(attribution);
    let mut recording = Recording::new(&names(&GROUPS)).unwrap();
    let (mut moved, mut last) = ([0.0, 0.0], None::<Decision>);
    for step in 0..9_u32 {
        monitor(root, "batch", moved[0] as u64, 0);
        monitor(root, "mon_groups/tidy", moved[1] as u64, 0);
        let decision = regulator.step(f64::from(step) * 50.0).unwrap();
        recording.see(&decision);
        for (moved, (asked, group)) in moved
            .iter_mut()
            .zip([4e8, 1e7].into_iter().zip(&decision.groups))
        {
            *moved += asked * if is_real { group.granted } else { 1.0 };
        }
        last = Some(decision);
    }
    let trace = read_trace(&recording.trace().unwrap()).unwrap();
    (trace, last.unwrap())
}

#[test]
fn a_recording_has_what_groups_asked_for_whether_or_not_they_were_slowed() {
    for journal in [true, false] {
        let (trace, last) = recorded(journal);
        // It was cut again and again.
        assert!(last.groups[0].granted < 0.2, "{last:?}");
        let shares: Vec<&[f64]> = trace
            .demands
            .iter()
            .map(|demand| demand.shares.as_slice())
            .collect();
        assert_eq!(shares, [[0.0, 0.0], [0.976, 0.024]], "{journal}");
    }
}

/// A server that answers for its metrics as `nearfar serve` does.
struct Server {
    address: SocketAddr,
    /// Since when it counts, and bytes per second; it ends where there is nothing.
    counts: Arc<Mutex<Option<(Instant, f64)>>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(bytes_per_s: f64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let counts = Arc::new(Mutex::new(Some((Instant::now(), bytes_per_s))));
        let told = Arc::clone(&counts);
        Self {
            address: listener.local_addr().unwrap(),
            counts,
            thread: Some(thread::spawn(move || {
                for stream in listener.incoming() {
                    let Some((since, bytes_per_s)) = *told.lock().unwrap() else {
                        return;
                    };
                    answer(stream.unwrap(), since.elapsed().as_secs_f64() * bytes_per_s);
                }
            })),
        }
    }

    fn named(&self, group: &str) -> GroupServer {
        format!("{group}={}", self.address).parse().unwrap()
    }

    /// Counts from nothing.
    fn restart(&self, bytes_per_s: f64) {
        *self.counts.lock().unwrap() = Some((Instant::now(), bytes_per_s));
    }

    fn end(&mut self) {
        *self.counts.lock().unwrap() = None;
        if let Some(thread) = self.thread.take() {
            // One more connection, so that it looks.
            drop(TcpStream::connect(self.address));
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Answers one question; two thirds of the bytes were read.
fn answer(mut stream: TcpStream, slow_bytes: f64) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let question = lines.next().unwrap_or_default();
    while lines.next().is_some_and(|line| !line.is_empty()) {}
    assert_eq!(question, "GET /metrics HTTP/1.0");
    let (read, written) = (slow_bytes / 3.0 * 2.0, slow_bytes / 3.0);
    let page = format!(
        "# HELP nearfar_traffic_read_bytes Bytes read from it\n\
         # TYPE nearfar_traffic_read_bytes counter\n\
         nearfar_traffic_read_bytes_total{{tier=\"near\",task=\"scan\"}} {:.1}\n\
         nearfar_traffic_read_bytes_total{{tier=\"cxl\",task=\"scan\"}} {read:.1}\n\
         # HELP nearfar_traffic_written_bytes Bytes written to it\n\
         # TYPE nearfar_traffic_written_bytes counter\n\
         nearfar_traffic_written_bytes_total{{tier=\"cxl\",task=\"load\"}} {written:.1}\n\
         # EOF\n",
        1e15 + 9.0 * slow_bytes
    );
    let head = format!("HTTP/1.0 200 OK\r\ncontent-length: {}\r\n\r\n", page.len());
    // A regulator that has ended does not read it.
    drop(stream.write_all((head + &page).as_bytes()));
}

/// Steps of 50 ms until something holds; notes of all of them, and the last decision.
fn step_until(
    regulator: &mut Regulator<'_>,
    at_ms: &mut f64,
    holds: impl Fn(&Decision) -> bool,
) -> (Vec<String>, Decision) {
    let mut notes = Vec::new();
    for _ in 0..500 {
        *at_ms += 50.0;
        let decision = regulator.step(*at_ms).unwrap();
        notes.extend(decision.notes.iter().cloned());
        if holds(&decision) {
            return (notes, decision);
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("it did not come: {notes:?}");
}

#[test]
fn a_server_is_named_as_the_cause_by_what_it_counts() {
    let (folder, machine) = tree();
    let root = folder.path();
    // Without resctrl, cgroups tell of the other group. Neither computes.
    fs::remove_dir_all(root.join("sys/fs/resctrl")).unwrap();
    let mut server = Server::start(5e9);
    let servers = [server.named("batch")];
    let (journal, _) = Journal::recover(&root.join("journal"), &machine).unwrap();
    let (attribution, _) = Attribution::find(&machine, &names(&GROUPS), &servers).unwrap();
    let attribution = attribution.unwrap();
    assert_eq!(attribution.sureness(), Sureness::Inferred);
    assert_eq!(attribution.unit(), "B/s");
    let told = attribution.tells();
    assert!(
        told.contains(&format!("of batch at {}", server.address)),
        "{told}"
    );
    let mut regulator = regulator(&machine, Some(journal)).attributed_by(attribution);
    let mut at_ms = 0.0;
    let (notes, named) = step_until(&mut regulator, &mut at_ms, |one| {
        one.groups[0].granted < 0.5
    });
    assert!(notes.is_empty(), "{notes:?}");
    let [batch, tidy] = &named.groups[..] else {
        panic!("{named:?}")
    };
    assert!(batch.is_cause && !tidy.is_cause, "{named:?}");
    assert!((4e9..6e9).contains(&batch.slow), "{named:?}");
    assert_eq!(batch.sureness, Some(Sureness::Counted));
    assert_eq!(tidy.sureness, Some(Sureness::Inferred));
    assert_ne!(quota(root, "batch"), "max 100000\n");
    assert_eq!(quota(root, "tidy"), "max 100000\n");
    // Counters that go back say nothing once.
    server.restart(0.0);
    let is_counted = |one: &Decision| one.groups[0].sureness == Some(Sureness::Counted);
    let (lost, _) = step_until(&mut regulator, &mut at_ms, |one| !is_counted(one));
    let (again, _) = step_until(&mut regulator, &mut at_ms, is_counted);
    assert!(
        lost.len() == 1 && lost[0].contains("its counters went back"),
        "{lost:?}"
    );
    assert!(
        again.len() == 1 && again[0].ends_with(" again"),
        "{again:?}"
    );
    server.restart(5e9);
    let is_slowed = |one: &Decision| one.groups[0].slow > 1e9 && one.groups[0].granted < 0.5;
    step_until(&mut regulator, &mut at_ms, is_slowed);
    // One that is gone leaves its group to the cgroups, which see that it does nothing.
    server.end();
    let is_free = |one: &Decision| !one.groups[0].is_cause && one.groups[0].granted == 1.0;
    let (lost, _) = step_until(&mut regulator, &mut at_ms, is_free);
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(
        lost[0].contains("batch is not counted by its server"),
        "{lost:?}"
    );
    assert!(lost[0].ends_with("; what it moves is inferred until then"));
    assert_eq!(quota(root, "batch"), "max 100000\n");
    regulator.end().unwrap();
    assert_eq!(quota(root, "batch"), "max 100000\n");
}

#[test]
fn servers_alone_tell_causes_and_one_that_is_gone_is_not_left_slowed() {
    let (folder, machine) = tree();
    let root = folder.path();
    fs::remove_dir_all(root.join("sys/fs/resctrl")).unwrap();
    for group in GROUPS {
        fs::remove_file(root.join(format!("sys/fs/cgroup/{group}/memory.numa_stat"))).unwrap();
    }
    let (mut heavy, light) = (Server::start(5e9), Server::start(2e8));
    let servers = [heavy.named("batch"), light.named("tidy")];
    let find = |servers: &[GroupServer]| {
        let (found, _) = Attribution::find(&machine, &names(&GROUPS), servers).unwrap();
        found
    };
    assert!(find(&servers[..1]).is_none());
    let attribution = find(&servers).unwrap();
    assert_eq!(attribution.sureness(), Sureness::Counted);
    let mut regulator = regulator(&machine, None).attributed_by(attribution);
    let mut at_ms = 0.0;
    let (_, named) = step_until(&mut regulator, &mut at_ms, |one| {
        one.groups[0].granted < 0.1
    });
    assert!(!named.groups[1].is_cause, "{named:?}");
    heavy.end();
    let is_free = |one: &Decision| one.groups[0].sureness.is_none() && one.groups[0].granted == 1.0;
    let (lost, last) = step_until(&mut regulator, &mut at_ms, is_free);
    assert!(
        lost[0].ends_with("; it is not slowed until then"),
        "{lost:?}"
    );
    assert!(last.groups[0].slow.is_nan(), "{last:?}");
    // Nor is the other one named instead.
    for _ in 0..50 {
        at_ms += 50.0;
        let groups = regulator.step(at_ms).unwrap().groups;
        let is_free = groups.iter().all(|one| !one.is_cause && one.granted == 1.0);
        assert!(is_free, "{groups:?}");
    }
}
