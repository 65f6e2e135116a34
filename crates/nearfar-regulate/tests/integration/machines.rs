//! Knobs, observers and controllers on trees of files.

use std::fs;
use std::path::Path;

use nearfar_regulate::control::{Controller, Goal, TierAware};
use nearfar_regulate::error::RegulateError;
use nearfar_regulate::journal::Journal;
use nearfar_regulate::knob::{Bandwidth, Frequency, Knob, Pin, Quota};
use nearfar_regulate::machine::MachineFiles;
use nearfar_regulate::observe::{Observer, Pressure, Sureness, Traffic};
use nearfar_regulate::regulator::{Candidate, Regulator};
use nearfar_topology::IdList;
use tempfile::TempDir;

/// Files of a machine with everything, as the kernel writes them.
pub const TREE: [(&str, &str); 24] = [
    ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n"),
    (
        "sys/fs/cgroup/batch/cgroup.controllers",
        "cpuset cpu memory\n",
    ),
    ("sys/fs/cgroup/batch/cpuset.cpus", "\n"),
    ("sys/fs/cgroup/batch/cpuset.cpus.effective", "0-7\n"),
    ("sys/fs/cgroup/service/cpuset.cpus.effective", "0-1\n"),
    (
        "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
        "0,4\n",
    ),
    (
        "sys/devices/system/cpu/cpu1/topology/core_cpus_list",
        "1,5\n",
    ),
    (
        "sys/devices/system/cpu/cpu2/topology/core_cpus_list",
        "2,6\n",
    ),
    (
        "sys/devices/system/cpu/cpu3/topology/thread_siblings_list",
        "3,7\n",
    ),
    (
        "sys/devices/system/cpu/cpu4/topology/core_cpus_list",
        "0,4\n",
    ),
    (
        "sys/devices/system/cpu/cpu5/topology/core_cpus_list",
        "1,5\n",
    ),
    (
        "sys/devices/system/cpu/cpu6/topology/core_cpus_list",
        "2,6\n",
    ),
    (
        "sys/devices/system/cpu/cpu7/topology/thread_siblings_list",
        "3,7\n",
    ),
    ("sys/fs/cgroup/batch/cpu.max", "max 100000\n"),
    ("sys/fs/cgroup/plain/cgroup.controllers", "memory\n"),
    (
        "sys/fs/cgroup/service/memory.pressure",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ),
    (
        "sys/devices/system/cpu/cpu3/cpufreq/cpuinfo_min_freq",
        "800000\n",
    ),
    (
        "sys/devices/system/cpu/cpu3/cpufreq/scaling_max_freq",
        "3900000\n",
    ),
    ("sys/fs/resctrl/info/MB/min_bandwidth", "10\n"),
    ("sys/fs/resctrl/info/MB/bandwidth_gran", "10\n"),
    (
        "sys/fs/resctrl/batch/schemata",
        "    MB:0=100;1=100\n    L3:0=7fff;1=7fff\n",
    ),
    (
        "sys/fs/resctrl/service/mon_data/mon_L3_00/mbm_total_bytes",
        "1000\n",
    ),
    (
        "sys/fs/resctrl/service/mon_data/mon_L3_01/mbm_total_bytes",
        "500\n",
    ),
    (
        "sys/fs/resctrl/mute/mon_data/mon_L3_00/mbm_total_bytes",
        "Unavailable\n",
    ),
];

/// The quota of the group that is regulated.
pub const QUOTA: &str = "sys/fs/cgroup/batch/cpu.max";

/// The tree in a folder of its own.
pub fn captured() -> (TempDir, MachineFiles) {
    let folder = tempfile::tempdir().unwrap();
    for (file, content) in TREE {
        put(folder.path(), file, content);
    }
    let machine = MachineFiles::below(folder.path());
    (folder, machine)
}

pub fn put(root: &Path, file: &str, content: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// All files of the tree with their content.
pub fn content(root: &Path) -> Vec<String> {
    TREE.map(|(file, _)| fs::read_to_string(root.join(file)).unwrap())
        .into()
}

#[test]
fn knobs_write_what_the_kernel_reads() {
    let (folder, machine) = captured();
    let quota = Quota::find(&machine, "batch", 16).unwrap();
    let frequency = Frequency::find(&machine, &[3]).unwrap();
    let bandwidth = Bandwidth::find(&machine, "batch", None).unwrap();
    let cases: [(&dyn Knob, f64, &str); 7] = [
        (&quota, 0.0625, "100000 100000\n"),
        (&quota, 1.0, "max 100000\n"),
        (&quota, 0.0, "1000 100000\n"),
        (&frequency, 0.5, "1950000\n"),
        (&frequency, 0.1, "800000\n"),
        (&bandwidth, 0.55, "MB:0=50;1=50\n"),
        (&bandwidth, 0.01, "MB:0=10;1=10\n"),
    ];
    for (knob, granted, expected) in cases {
        let changes = knob.changes(&machine, granted).unwrap();
        assert_eq!(changes[0].1, expected, "{} {granted}", knob.name());
    }
    // A quota that is there already is what the group has.
    put(
        folder.path(),
        "sys/fs/cgroup/batch/cpu.max",
        "200000 100000\n",
    );
    let quota = Quota::find(&machine, "batch", 16).unwrap();
    assert_eq!(
        quota.changes(&machine, 0.5).unwrap()[0].1,
        "100000 100000\n"
    );
}

/// What is written to a group's `schemata`.
fn limited(machine: &MachineFiles, gb_per_s: Option<f64>, granted: f64) -> String {
    let bytes_per_s = gb_per_s.map(|gb_per_s| gb_per_s * 1e9);
    let knob = Bandwidth::find(machine, "batch", bytes_per_s).unwrap();
    knob.changes(machine, granted).unwrap().remove(0).1
}

#[test]
fn what_others_change_in_schemata_meanwhile_stays() {
    let (folder, machine) = captured();
    let file = "sys/fs/resctrl/batch/schemata";
    let knob = Bandwidth::find(&machine, "batch", None).unwrap();
    let place = folder.path().join("journal");
    let (mut journal, _) = Journal::recover(&place, &machine).unwrap();
    let mut change = |granted| {
        for (path, content) in knob.changes(&machine, granted).unwrap() {
            journal.change(&path, &content).unwrap();
        }
    };
    let cache = |from: &str, to: &str| {
        let text = machine.read(file).unwrap();
        assert!(text.contains(from), "{text}");
        put(folder.path(), file, &text.replace(from, to));
    };
    // Somebody gives the group another part of the cache before it is slowed, while it is, and when it is no more.
    cache("L3:0=7fff", "L3:0=0fff");
    change(0.5);
    let text = machine.read(file).unwrap();
    assert!(
        text.contains("MB:0=50;1=50\n") && text.contains("L3:0=0fff;1=7fff\n"),
        "{text}"
    );
    cache("L3:0=0fff", "L3:0=00ff");
    change(1.0);
    cache("L3:0=00ff", "L3:0=000f");
    change(0.2);
    drop(journal);
    let expected = "    MB:0=100;1=100\n    L3:0=000f;1=7fff\n";
    assert_eq!(machine.read(file).unwrap(), expected);
}

#[test]
fn a_limit_that_a_group_had_is_lowered_and_never_raised() {
    let (folder, machine) = captured();
    let before = "    MB:0=50;1=100\n    L3:0=7fff;1=7fff\n";
    put(folder.path(), "sys/fs/resctrl/batch/schemata", before);
    assert_eq!(limited(&machine, None, 1.0), "    MB:0=50;1=100\n");
    let half = limited(&machine, None, 0.5);
    assert_eq!(half, "MB:0=20;1=50\n");
    // Where limits are shares, what the group moves is of no use.
    assert_eq!(limited(&machine, Some(3.0), 0.5), half);
}

#[test]
fn absolute_limits_are_lowered_from_what_the_group_moves() {
    let (folder, machine) = captured();
    // AMD's are in eighths of a GB/s, and 2048 is none.
    let schemata = "    MB:0=2048;1=2048;2=  16\n    L3:0=ffff;1=ffff;2=ffff\n";
    put(folder.path(), "sys/fs/resctrl/schemata", schemata);
    put(folder.path(), "sys/fs/resctrl/batch/schemata", schemata);
    put(folder.path(), "sys/fs/resctrl/info/MB/min_bandwidth", "0\n");
    put(
        folder.path(),
        "sys/fs/resctrl/info/MB/bandwidth_gran",
        "1\n",
    );
    let unknown = Bandwidth::find(&machine, "batch", None).unwrap_err();
    assert!(
        unknown.to_string().contains("limits of MB are absolute"),
        "{unknown}"
    );
    let at = |granted| {
        let text = limited(&machine, Some(20.0), granted);
        text.lines().next().unwrap().to_owned()
    };
    assert_eq!(at(1.0), "    MB:0=2048;1=2048;2=  16");
    assert_eq!(at(0.5), "MB:0=80;1=80;2=8");
    assert_eq!(at(0.001), "MB:0=1;1=1;2=1");
    // A group that was limited before anybody came, on a machine whose root tells that its limits are absolute.
    let low = "MB:0=16;1=16;2=16\n";
    put(folder.path(), "sys/fs/resctrl/batch/schemata", low);
    assert!(Bandwidth::find(&machine, "batch", None).is_err());
    assert_eq!(at(0.5), "MB:0=8;1=8;2=8");
    // Intel's controller in software: MiB/s, and the largest number is no limit.
    let software = "MB:0=4294967295\n";
    put(folder.path(), "sys/fs/resctrl/schemata", software);
    put(folder.path(), "sys/fs/resctrl/batch/schemata", software);
    let half = limited(&machine, Some(2.0 * 1.048_576), 0.5);
    assert_eq!(half, "MB:0=1000\n");
    put(folder.path(), "sys/fs/resctrl/batch/schemata", "MB:0\n");
    let garbled = Bandwidth::find(&machine, "batch", None).unwrap_err();
    assert!(
        garbled.to_string().contains("a domain with its limit"),
        "{garbled}"
    );
    put(folder.path(), "sys/fs/resctrl/batch/schemata", "L3:0=f\n");
    let none = Bandwidth::find(&machine, "batch", None).unwrap_err();
    assert!(none.to_string().contains("no MB in"), "{none}");
}

#[test]
fn where_slow_memory_has_limits_those_are_lowered() {
    let (folder, machine) = captured();
    let schemata = "  SMBA:0=2048;1=2048\n    MB:0=2048;1=2048\n    L3:0=ffff;1=ffff\n";
    put(folder.path(), "sys/fs/resctrl/batch/schemata", schemata);
    put(
        folder.path(),
        "sys/fs/resctrl/info/SMBA/min_bandwidth",
        "0\n",
    );
    put(
        folder.path(),
        "sys/fs/resctrl/info/SMBA/bandwidth_gran",
        "1\n",
    );
    assert_eq!(limited(&machine, Some(20.0), 0.5), "SMBA:0=80;1=80\n");
    assert_eq!(limited(&machine, Some(20.0), 1.0), "  SMBA:0=2048;1=2048\n");
}

fn cpus(text: &str) -> IdList {
    IdList::parse(text).unwrap()
}

#[test]
fn a_group_is_moved_away_from_the_victims_cores_and_back() {
    let (folder, machine) = captured();
    let before = content(folder.path());
    let victim = Pin::processors_of(&machine, "service").unwrap();
    assert_eq!(victim, cpus("0-1"));
    let pin = Pin::find(&machine, "batch", &victim).unwrap();
    assert_eq!(pin.changes(&machine, 0.3).unwrap()[0].1, "2-3,6-7\n");
    // The kernel takes no empty list for a group with tasks.
    assert_eq!(pin.changes(&machine, 1.0).unwrap()[0].1, "0-7\n");
    let older = Pin::find(&machine, "batch", &cpus("3")).unwrap();
    assert_eq!(older.changes(&machine, 0.3).unwrap()[0].1, "0-2,4-6\n");
    // It is moved once, however often less is granted, and has all of them in the end.
    let (journal, _) = Journal::recover(&folder.path().join("journal"), &machine).unwrap();
    let mut regulator = Regulator::new(
        machine.clone(),
        Box::new(Always(0.2)),
        Box::new(TierAware::new(Goal::default())),
        vec![Candidate::new("batch", Box::new(pin))],
        Some(journal),
    );
    let changes = (0..5).map(|step| {
        regulator
            .step(f64::from(step) * 50.0)
            .unwrap()
            .changes
            .len()
    });
    assert_eq!(changes.sum::<usize>(), 1);
    assert_eq!(
        machine.read("sys/fs/cgroup/batch/cpuset.cpus").unwrap(),
        "2-3,6-7\n"
    );
    assert_eq!(regulator.end().unwrap().files.len(), 1);
    assert_eq!(content(folder.path()), before);
}

#[test]
fn what_cannot_be_moved_away_is_told_with_the_reason() {
    let (folder, machine) = captured();
    put(folder.path(), "sys/fs/cgroup/plain/cpuset.cpus", "\n");
    put(
        folder.path(),
        "sys/fs/cgroup/garbled/cpuset.cpus.effective",
        "all\n",
    );
    let find = |group: &str, victim: &str| {
        Pin::find(&machine, group, &cpus(victim))
            .unwrap_err()
            .to_string()
    };
    let processors = |group: &str| Pin::processors_of(&machine, group).unwrap_err().to_string();
    let cases = [
        (
            find("plain", "0"),
            "the controller cpuset is not delegated to plain",
        ),
        (
            find("batch", "8-9"),
            "batch has the processors 0-7, and shares no core with 8-9",
        ),
        (find("batch", "0-3"), "shares every core with 0-3"),
        (find("../batch", "0"), "is no group"),
        (
            processors("plain"),
            "no /sys/fs/cgroup/plain/cpuset.cpus.effective",
        ),
        (processors("garbled"), "is not a list of processors"),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn what_a_machine_lacks_is_told_with_the_reason() {
    let (folder, machine) = captured();
    let message = |error: RegulateError| error.to_string();
    let cases = [
        (
            message(Quota::find(&machine, "plain", 1).unwrap_err()),
            "cpu is not delegated to plain",
        ),
        (
            message(Quota::find(&machine, "../etc", 1).unwrap_err()),
            "is no group",
        ),
        (
            message(Quota::find(&machine, "", 1).unwrap_err()),
            "is no group",
        ),
        (
            message(Quota::find(&machine, "gone", 1).unwrap_err()),
            "is not there",
        ),
        (
            message(Frequency::find(&machine, &[9]).unwrap_err()),
            "core frequency is unavailable",
        ),
        (
            message(Bandwidth::find(&machine, "gone", None).unwrap_err()),
            "is not there",
        ),
        (
            message(Pressure::find(&machine, "batch").unwrap_err()),
            "unavailable",
        ),
        (
            message(Traffic::find(&machine, "batch").unwrap_err()),
            "unavailable",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message}");
    }
    let mut mute = Traffic::find(&machine, "mute").unwrap();
    assert!(
        mute.victim(0.0)
            .unwrap_err()
            .to_string()
            .contains("the counter is not there")
    );
    // cgroup v1, and no resctrl.
    fs::remove_file(folder.path().join("sys/fs/cgroup/cgroup.controllers")).unwrap();
    fs::remove_dir_all(folder.path().join("sys/fs/resctrl")).unwrap();
    let v1 = Quota::find(&machine, "batch", 1).unwrap_err().to_string();
    assert!(v1.contains("cgroup v1 or not mounted"), "{v1}");
    let none = Bandwidth::find(&machine, "batch", None)
        .unwrap_err()
        .to_string();
    assert!(none.contains("resctrl is not mounted"), "{none}");
    put(folder.path(), "sys/fs/cgroup/cgroup.controllers", "cpu\n");
    put(folder.path(), "sys/fs/cgroup/batch/cpu.max", "lots\n");
    let garbled = Quota::find(&machine, "batch", 1).unwrap_err().to_string();
    assert!(garbled.contains("is not a quota or max"), "{garbled}");
}

#[test]
fn observers_say_nothing_when_clocks_or_counters_jump_back() {
    let (folder, machine) = captured();
    let mut traffic = Traffic::find(&machine, "service").unwrap();
    let counter = "sys/fs/resctrl/service/mon_data/mon_L3_00/mbm_total_bytes";
    assert!(traffic.victim(0.0).unwrap().is_nan());
    put(folder.path(), counter, "11000\n");
    assert_eq!(traffic.victim(100.0).unwrap(), 1.0);
    put(folder.path(), counter, "16000\n");
    assert_eq!(traffic.victim(200.0).unwrap(), 0.5);
    put(folder.path(), counter, "10\n");
    assert!(traffic.victim(300.0).unwrap().is_nan());
    assert!(traffic.victim(250.0).unwrap().is_nan());
    let mut pressure = Pressure::find(&machine, "service").unwrap();
    assert!(pressure.victim(0.0).unwrap().is_nan());
    let file = "sys/fs/cgroup/service/memory.pressure";
    put(
        folder.path(),
        file,
        "some avg10=1 avg60=0 avg300=0 total=26000\n",
    );
    assert_eq!(pressure.victim(100.0).unwrap(), 0.75);
    assert!(pressure.victim(50.0).unwrap().is_nan());
    put(folder.path(), file, "nothing\n");
    assert!(pressure.victim(200.0).is_err());
}

#[test]
fn pressure_tells_what_else_the_victim_waits_for() {
    let (folder, machine) = captured();
    let put = |kind: &str, total_us: u32| {
        let file = format!("sys/fs/cgroup/service/{kind}.pressure");
        put(
            folder.path(),
            &file,
            &format!("some avg10=0.00 total={total_us}\n"),
        );
    };
    let mut pressure = Pressure::find(&machine, "service").unwrap();
    assert_eq!(pressure.waits(), None);
    put("io", 0);
    pressure.victim(0.0).unwrap();
    put("memory", 21_000);
    put("io", 50_000);
    // Only memory counts, and what the kernel does not tell is no number.
    assert_eq!(pressure.victim(100.0).unwrap(), 0.8);
    let waits = pressure.waits().unwrap();
    assert!(
        (waits.memory - 0.2).abs() < 1e-9 && (waits.io - 0.5).abs() < 1e-9,
        "{waits:?}"
    );
    assert!(waits.cpu.is_nan(), "{waits:?}");
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

/// A regulator of a group's quota, whose victim never recovers.
pub fn regulator(machine: &MachineFiles, journal: Option<Journal>) -> Regulator<'static> {
    Regulator::new(
        machine.clone(),
        Box::new(Always(0.2)),
        Box::new(TierAware::new(Goal::default())),
        vec![Candidate::new(
            "batch",
            Box::new(Quota::find(machine, "batch", 16).unwrap()),
        )],
        journal,
    )
}

#[test]
fn a_dry_run_says_what_it_would_write_and_writes_nothing() {
    let (folder, machine) = captured();
    let before = content(folder.path());
    let decision = regulator(&machine, None).step(0.0).unwrap();
    assert!(decision.granted < 1.0);
    assert_eq!(decision.changes[0].1, "960000 100000\n");
    assert_eq!(content(folder.path()), before);
}

#[test]
fn everything_is_as_it_was_after_the_end_and_after_an_error() {
    let (folder, machine) = captured();
    let before = content(folder.path());
    let journal = || {
        Journal::recover(&folder.path().join("journal"), &machine)
            .unwrap()
            .0
    };
    let mut first = regulator(&machine, Some(journal()));
    for step in 0..5 {
        first.step(f64::from(step) * 50.0).unwrap();
    }
    assert_ne!(content(folder.path()), before);
    assert_eq!(first.end().unwrap().files.len(), 1);
    assert_eq!(content(folder.path()), before);
    let mut second = regulator(&machine, Some(journal()));
    second.step(0.0).unwrap();
    assert_ne!(content(folder.path()), before);
    drop(second);
    assert_eq!(content(folder.path()), before);
    // A group that ends while it is slowed leaves nothing to restore.
    let mut third = regulator(&machine, Some(journal()));
    third.step(0.0).unwrap();
    fs::remove_dir_all(folder.path().join("sys/fs/cgroup/batch")).unwrap();
    assert!(matches!(
        third.step(50.0),
        Err(RegulateError::Vanished { .. })
    ));
    assert_eq!(third.end().unwrap().vanished.len(), 1);
}

#[test]
fn controllers_keep_to_their_floor() {
    let mut controller = TierAware::new(Goal::default());
    for period in 0..100 {
        controller.decide(f64::from(period) * 50.0, 0.0);
    }
    assert_eq!(controller.decide(5_000.0, 0.0), Goal::default().floor);
    assert!(
        Goal {
            victim: 1.5,
            floor: 0.1
        }
        .check()
        .is_err()
    );
    assert!(
        Goal {
            victim: 0.9,
            floor: f64::NAN
        }
        .check()
        .is_err()
    );
}
