//! One node: quotas and cpusets of cgroup v2.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use nearfar_regulate::control::{Goal, TierAware};
use nearfar_regulate::error::RegulateError;
use nearfar_regulate::journal::Journal;
use nearfar_regulate::knob::{Knob, Pin, Quota};
use nearfar_regulate::machine::MachineFiles;
use nearfar_regulate::regulator::{Candidate, Regulator};
use nearfar_topology::IdList;

use super::Constant;
use crate::kills::killed_while_it_changes_a_quota;

const ROOT: &str = "/sys/fs/cgroup";
const GROUP: &str = "nearfar-batch";
/// What the kernel says of a group without a quota.
const UNLIMITED: &str = "max 100000\n";

fn file(name: &str) -> String {
    format!("{ROOT}/{GROUP}/{name}")
}

fn quota() -> String {
    fs::read_to_string(file("cpu.max")).unwrap()
}

/// A group with a process that keeps one processor busy, until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        fs::write(format!("{ROOT}/cgroup.subtree_control"), "+cpu +cpuset").unwrap();
        fs::create_dir_all(Path::new(ROOT).join(GROUP)).unwrap();
        assert_eq!(quota(), UNLIMITED);
        let mut shell = Command::new("sh");
        let child = shell.args(["-c", "while :; do :; done"]).spawn().unwrap();
        fs::write(file("cgroup.procs"), child.id().to_string()).unwrap();
        Self(child)
    }

    /// The share of a processor that the group had for a while.
    fn share() -> f64 {
        let used_us = || {
            let text = fs::read_to_string(file("cpu.stat")).unwrap();
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("usage_usec "));
            line.unwrap().parse::<f64>().unwrap()
        };
        let (began, before_us) = (Instant::now(), used_us());
        thread::sleep(Duration::from_secs(3));
        (used_us() - before_us) * 1e-6 / began.elapsed().as_secs_f64()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn a_quota_slows_its_group_until_the_regulator_ends() {
    let _busy = Busy::start();
    let before = Busy::share();
    assert!(before > 0.5, "{before}");
    let machine = MachineFiles::below(Path::new("/"));
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::recover(&folder.path().join("journal"), &machine).unwrap();
    let knob = Quota::find(&machine, GROUP, 1).unwrap();
    let goal = Goal {
        floor: 0.2,
        ..Goal::default()
    };
    let mut regulator = Regulator::new(
        machine,
        Box::new(Constant(0.1)),
        Box::new(TierAware::new(goal)),
        vec![Candidate::new(GROUP, Box::new(knob))],
        Some(journal),
    );
    // A victim that never recovers has the group cut to its floor.
    for step in 0..5 {
        regulator.step(f64::from(step) * 50.0).unwrap();
    }
    assert_eq!(quota(), "20000 100000\n");
    let slowed = Busy::share();
    assert!(slowed < 0.3, "{slowed} of {before}");
    let events = fs::read_to_string(file("cpu.stat")).unwrap();
    assert!(!events.contains("nr_throttled 0\n"), "{events}");
    let restored = regulator.end().unwrap();
    assert_eq!(restored.files.len(), 1);
    assert_eq!(quota(), UNLIMITED);
    let after = Busy::share();
    assert!(after > 2.0 * slowed, "{after} after {slowed}");
}

/// A regulator of the group, whose victim never recovers, and its journal.
fn regulator(machine: MachineFiles, knob: impl Knob + 'static, place: &Path) -> Regulator<'static> {
    let (journal, _) = Journal::recover(&place.join("journal"), &machine).unwrap();
    Regulator::new(
        machine,
        Box::new(Constant(0.1)),
        Box::new(TierAware::new(Goal::default())),
        vec![Candidate::new(GROUP, Box::new(knob))],
        Some(journal),
    )
}

/// The processors that the kernel lets a process run on.
fn processors_of(process: &Child) -> IdList {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    IdList::parse(list.unwrap()).unwrap()
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn a_group_is_moved_off_the_victims_core_and_back() {
    let busy = Busy::start();
    let all = processors_of(&busy.0);
    assert!(all.len() > 1, "{all}");
    let machine = MachineFiles::below(Path::new("/"));
    let folder = tempfile::tempdir().unwrap();
    let knob = Pin::find(&machine, GROUP, &IdList::from_ids([0])).unwrap();
    let mut regulator = regulator(machine, knob, folder.path());
    for step in 0..3 {
        regulator.step(f64::from(step) * 50.0).unwrap();
    }
    let moved = processors_of(&busy.0);
    assert!(!moved.contains(0) && !moved.is_empty(), "{moved} of {all}");
    regulator.end().unwrap();
    assert_eq!(processors_of(&busy.0), all);
    // It had none of its own, which the kernel takes from no group with tasks: it has all of those above.
    let own = fs::read_to_string(file("cpuset.cpus")).unwrap();
    assert_eq!(IdList::parse(&own).unwrap(), all);
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn a_controller_that_goes_away_ends_the_regulator_and_leaves_no_quota() {
    let _busy = Busy::start();
    let machine = MachineFiles::below(Path::new("/"));
    let folder = tempfile::tempdir().unwrap();
    let knob = Quota::find(&machine, GROUP, 1).unwrap();
    let mut regulator = regulator(machine, knob, folder.path());
    regulator.step(0.0).unwrap();
    assert_ne!(quota(), UNLIMITED);
    fs::write(format!("{ROOT}/cgroup.subtree_control"), "-cpu").unwrap();
    let ended = regulator.step(50.0).unwrap_err();
    assert!(matches!(ended, RegulateError::Vanished { .. }), "{ended}");
    assert_eq!(regulator.end().unwrap().vanished.len(), 1);
    fs::write(format!("{ROOT}/cgroup.subtree_control"), "+cpu").unwrap();
    assert_eq!(quota(), UNLIMITED);
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn a_regulator_that_is_killed_leaves_no_quota() {
    let _busy = Busy::start();
    let machine = MachineFiles::below(Path::new("/"));
    let folder = tempfile::tempdir().unwrap();
    let mut left = 0;
    for kill in 0..60 {
        let pause = Duration::from_millis(40 + 3 * kill);
        // Half of them surely in the midst of changes, however slow the machine is.
        let is_begun = kill % 2 == 0;
        killed_while_it_changes_a_quota(GROUP, folder.path(), is_begun, pause);
        left += usize::from(quota() != UNLIMITED);
        let (journal, _) = Journal::recover(&folder.path().join("journal"), &machine).unwrap();
        assert_eq!(quota(), UNLIMITED, "kill {kill}");
        drop(journal);
    }
    assert!(left > 0, "it was never killed in the midst of its changes");
}
