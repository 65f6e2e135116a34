//! One node: quotas of cgroup v2.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use nearfar_regulate::control::{Goal, TierAware};
use nearfar_regulate::journal::Journal;
use nearfar_regulate::knob::Quota;
use nearfar_regulate::machine::MachineFiles;
use nearfar_regulate::regulator::{Candidate, Regulator};

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
        fs::write(format!("{ROOT}/cgroup.subtree_control"), "+cpu").unwrap();
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
    let (journal, _) = Journal::recover(&folder.path().join("journal")).unwrap();
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

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn a_regulator_that_is_killed_leaves_no_quota() {
    let _busy = Busy::start();
    let folder = tempfile::tempdir().unwrap();
    let mut left = 0;
    for kill in 0..20 {
        let pause = Duration::from_millis(40 + 7 * kill);
        killed_while_it_changes_a_quota(GROUP, folder.path(), pause);
        left += usize::from(quota() != UNLIMITED);
        let (journal, _) = Journal::recover(&folder.path().join("journal")).unwrap();
        assert_eq!(quota(), UNLIMITED, "kill {kill}");
        drop(journal);
    }
    assert!(left > 0, "it was never killed in the midst of its changes");
}
