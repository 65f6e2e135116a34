//! `nearfar regulate` and its benchmark.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::support::run;

const QUOTA: &str = "sys/fs/cgroup/batch/cpu.max";

/// A tree with one group that may be slowed.
fn tree() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), "sys/fs/cgroup/cgroup.controllers", "cpu\n");
    add_group(folder.path(), "batch");
    folder
}

fn put(root: &Path, file: &str, content: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, content).expect("written");
}

fn add_group(root: &Path, group: &str) {
    let folder = format!("sys/fs/cgroup/{group}");
    put(root, &format!("{folder}/cgroup.controllers"), "cpu\n");
    put(root, &format!("{folder}/cpu.max"), "max 100000\n");
}

/// Counters of a group that moves nothing.
fn monitor(root: &Path, group: &str) {
    let folder = format!("sys/fs/resctrl/{group}/mon_data/mon_L3_00");
    put(root, &format!("{folder}/mbm_total_bytes"), "0\n");
    put(root, &format!("{folder}/mbm_local_bytes"), "0\n");
}

fn quota(root: &Path) -> String {
    fs::read_to_string(root.join(QUOTA)).expect("the quota")
}

#[test]
fn a_machine_without_knobs_is_told_so() {
    let empty = tempfile::tempdir().expect("a folder");
    let root = empty.path().to_str().expect("a path");
    let journal = empty.path().join("journal");
    let journal = journal.to_str().expect("a path");
    let of = |arguments: &[&str]| {
        let common = ["regulate", "--root", root, "--journal", journal];
        run([&common, arguments].concat())
    };
    of(&["--group", "batch"]).failed(9, &["cgroup v1 or not mounted"]);
    of(&["--group", "batch", "--knob", "bandwidth"]).failed(9, &["resctrl is not mounted"]);
    let frequency = ["--group", "batch", "--knob", "frequency"];
    of(&frequency).failed(2, &["--processors"]);
    of(&[&frequency[..], &["--processors", "3"]].concat()).failed(9, &["cpu3/cpufreq"]);
    of(&["--group", "batch", "--knob", "pin"]).failed(2, &["--victim-processors"]);
    let pin = ["--group", "batch", "--knob", "pin", "--victim-processors"];
    of(&[&pin[..], &["3-1"]].concat()).failed(2, &["a list of processors"]);
    of(&[&pin[..], &["0-1"]].concat()).failed(9, &["cgroup v1 or not mounted"]);
    of(&["--group", "../batch"]).failed(3, &["is no group"]);
    of(&["--group", "batch", "--goal", "120"]).failed(2, &["a goal of 1.2"]);
    let latency = ["--group", "batch", "--near-latency-max"];
    of(&[&latency[..], &["1"]].concat()).failed(2, &["a number from 1.01 to 100"]);
    of(&[&latency[..], &["1.2", "--goal", "90"]].concat()).failed(2, &["--goal"]);
    let pressure = ["1.2", "--watch", "pressure", "--victim", "service"];
    of(&[&latency[..], &pressure].concat()).failed(2, &["a goal for --watch latency"]);
    of(&[&latency[..], &["1.2"]].concat()).failed(9, &["cgroup v1 or not mounted"]);
}

#[test]
fn where_limits_are_absolute_it_has_to_be_said_what_is_moved() {
    let folder = tree();
    let limits = "MB:0=2048;1=2048\n";
    put(folder.path(), "sys/fs/resctrl/batch/schemata", limits);
    put(folder.path(), "sys/fs/resctrl/info/MB/min_bandwidth", "0\n");
    put(folder.path(), "sys/fs/resctrl/info/MB/bandwidth_gran", "1\n");
    let root = folder.path().to_str().expect("a path");
    let of = |more: &[&str]| {
        let common = ["regulate", "--root", root, "--group", "batch", "--dry-run"];
        run([&common[..], &["--seconds", "0.1", "--knob", "bandwidth"], more].concat())
    };
    of(&[]).failed(2, &["limits of MB are absolute", "with --bandwidth"]);
    of(&["--bandwidth", "0"]).failed(2, &["a number of GB/s"]);
    of(&["--bandwidth", "20"]).succeeded_telling("watching: ");
}

#[test]
fn the_machine_is_as_it_was_and_a_dry_run_opens_no_journal() {
    let folder = tree();
    let root = folder.path().to_str().expect("a path");
    let journal = folder.path().join("journal");
    let place = journal.to_str().expect("a path");
    let arguments = [
        "regulate",
        "--group",
        "batch",
        "--seconds",
        "0.2",
        "--root",
        root,
    ];
    let regulate = |more: &[&str]| {
        let ran = run([&arguments[..], &["--journal", place], more].concat());
        ran.succeeded_telling("watching: ");
    };
    regulate(&["--dry-run"]);
    assert!(!journal.exists());
    regulate(&[]);
    assert_eq!(quota(folder.path()), "max 100000\n");
    let changes = journal.join("changes");
    let file = folder.path().join(QUOTA);
    let left = format!("{{\"file\":{file:?},\"content\":\"200000 100000\\n\"}}\n");
    fs::write(&changes, left).expect("written");
    run(["regulate", "restore", "--journal", place]).succeeded_telling("restored ");
    assert_eq!(quota(folder.path()), "200000 100000\n");
    assert!(!changes.exists());
}

#[test]
fn damaged_traces_and_missing_arguments_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.csv");
    let path = trace.to_str().expect("a path");
    let arguments = ["regulate", "--replay", path, "--profile", "cxl-agilex"];
    run(arguments).failed(4, &["cannot read trace"]);
    fs::write(&trace, "0,2\n").expect("written");
    run(arguments).failed(4, &["trace, line 1: a share is from 0 to 1"]);
    run(["regulate", "--replay", path]).failed(2, &["--profile"]);
    run(["regulate"]).failed(2, &["--group"]);
}

#[test]
fn of_several_groups_only_causes_are_slowed() {
    let folder = tree();
    let root = folder.path().to_str().expect("a path");
    let arguments = ["regulate", "--root", root, "--dry-run", "--seconds", "0.3"];
    let of = |more: &[&str]| run([&arguments[..], more].concat());
    let two = ["--group", "batch", "--group", "tidy"];
    of(&two).failed(3, &["tidy"]);
    add_group(folder.path(), "tidy");
    of(&two).failed(9, &["nothing tells which group is the cause"]);
    let frequency = ["--knob", "frequency", "--processors", "3"];
    of(&[&two[..], &frequency].concat()).failed(2, &["give one --group"]);
    let server = |named: &[&str]| of(&[&two[..], named].concat());
    server(&["--nearfar", "batch=9187"]).failed(2, &["write GROUP=HOST:PORT"]);
    // What one server counts tells nothing of the other group.
    let nobody = ["--nearfar", "batch=127.0.0.1:1"];
    server(&nobody).failed(9, &["nothing tells which group is the cause"]);
    of(&[&two[..2], &nobody].concat()).failed(2, &["leave out --nearfar"]);
    monitor(folder.path(), "batch");
    monitor(folder.path(), "tidy");
    server(&["--nearfar", "other=127.0.0.1:1"]).failed(2, &["no such group"]);
    let told = server(&nobody).succeeded_telling("Nearfar servers of batch at 127.0.0.1:1");
    assert!(!told.contains("cpu.max"), "{told}");
    // Neither moves anything, so that nothing would be written, whatever the victim has.
    let told = of(&two).succeeded_telling("telling causes by: bytes of each group by resctrl");
    assert!(!told.contains("cpu.max"), "{told}");
    let json = of(&[&two[..], &["--format", "json"]].concat());
    assert!(!json.succeeded_telling("watching: ").contains("\"file\""));
}
