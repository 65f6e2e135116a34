//! `nearfar regulate` and its benchmark.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{program, run};

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
    put(
        folder.path(),
        "sys/fs/resctrl/info/MB/bandwidth_gran",
        "1\n",
    );
    let root = folder.path().to_str().expect("a path");
    let of = |more: &[&str]| {
        let common = ["regulate", "--root", root, "--group", "batch", "--dry-run"];
        run([
            &common[..],
            &["--seconds", "0.1", "--knob", "bandwidth"],
            more,
        ]
        .concat())
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

/// Kills of all workers together, and how many of them there are: they sleep most of the time.
const KILLS: u64 = 200;
const WORKERS: u64 = 8;

/// What each knob writes to, and what the kernel has there.
const KNOBS: [(&str, &str, &str); 4] = [
    ("quota", QUOTA, "max 100000\n"),
    (
        "bandwidth",
        "sys/fs/resctrl/batch/schemata",
        "    MB:0=100;1=80\n    L3:0=7fff;1=7fff\n",
    ),
    ("pin", "sys/fs/cgroup/batch/cpuset.cpus", "0-3\n"),
    (
        "frequency",
        "sys/devices/system/cpu/cpu3/cpufreq/scaling_max_freq",
        "3900000\n",
    ),
];

/// A tree where every knob is, and a service that waits.
fn tree_of_knobs() -> TempDir {
    let folder = tree();
    let root = folder.path();
    for (_, file, content) in KNOBS {
        put(root, file, content);
    }
    let batch = "sys/fs/cgroup/batch";
    put(root, &format!("{batch}/cgroup.controllers"), "cpuset cpu\n");
    put(root, &format!("{batch}/cpuset.cpus.effective"), "0-3\n");
    put(root, "sys/fs/resctrl/info/MB/min_bandwidth", "10\n");
    put(root, "sys/fs/resctrl/info/MB/bandwidth_gran", "10\n");
    let lowest = "sys/devices/system/cpu/cpu3/cpufreq/cpuinfo_min_freq";
    put(root, lowest, "800000\n");
    wait_for(root, 0);
    folder
}

/// Has the service waited for memory so long. Whoever reads sees the file of before or this one.
fn wait_for(root: &Path, total_us: u128) {
    let file = "sys/fs/cgroup/service/memory.pressure";
    put(
        root,
        "new",
        &format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\n"),
    );
    fs::create_dir_all(root.join("sys/fs/cgroup/service")).expect("made");
    fs::rename(root.join("new"), root.join(file)).expect("renamed");
}

fn contents(root: &Path) -> Vec<String> {
    let read = |(_, file, _)| fs::read_to_string(root.join(file)).expect("there");
    KNOBS.map(read).into()
}

/// Regulates a victim that never recovers, until it is killed after `after`.
fn killed_after(root: &Path, knob: &str, after: Duration) {
    let (place, journal) = (root.to_str().expect("a path"), root.join("journal"));
    let mut child = program()
        .args(["regulate", "--root", place, "--journal"])
        .arg(&journal)
        .args(["--group", "batch", "--knob", knob, "--threads", "16"])
        .args(["--processors", "3", "--victim-processors", "0-1"])
        .args(["--watch", "pressure", "--victim", "service"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let began = Instant::now();
    while began.elapsed() < after {
        wait_for(root, began.elapsed().as_micros());
        thread::sleep(Duration::from_millis(5));
    }
    assert!(child.try_wait().expect("a child").is_none(), "it has ended");
    child.kill().expect("killed");
    child.wait().expect("ended");
}

/// Some of the kills, each undone by the next start or by `restore`; how many of them had left something.
fn kills(worker: u64) -> usize {
    let folder = tree_of_knobs();
    let root = folder.path();
    let before = contents(root);
    let place = root.to_str().expect("a path");
    let journal = root.join("journal");
    let journal = journal.to_str().expect("a path");
    let mut random = 0x1234_5678_9abc_def0_u64 ^ worker;
    let mut left = 0;
    for kill in 0..KILLS / WORKERS {
        random = random
            .wrapping_mul(0xd134_2543_de82_ef95)
            .wrapping_add(kill | 1);
        let after = Duration::from_micros(20_000 + (random >> 33) % 400_000);
        let (knob, ..) = KNOBS[(worker + kill) as usize % KNOBS.len()];
        killed_after(root, knob, after);
        left += usize::from(contents(root) != before);
        match kill % 2 {
            0 => run(["regulate", "restore", "--journal", journal]).succeeded_telling("restore"),
            _ => {
                let start = ["regulate", "--root", place, "--journal", journal];
                let ends = ["--group", "batch", "--seconds", "0"];
                let watch = ["--watch", "pressure", "--victim", "service"];
                run([&start[..], &ends, &watch].concat()).succeeded_telling("watching: ")
            }
        };
        assert_eq!(
            contents(root),
            before,
            "{knob}, kill {kill} of worker {worker}"
        );
    }
    left
}

#[test]
fn two_hundred_kills_leave_the_machine_as_it_was() {
    let left: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| scope.spawn(move || kills(worker)))
            .collect();
        let left = workers
            .into_iter()
            .map(|worker| worker.join().expect("no kill failed"));
        left.sum()
    });
    // Many must have met it with something changed.
    assert!(left > 20, "{left} of {KILLS}");
}

#[test]
fn a_second_regulator_of_a_group_is_refused_whatever_its_journal() {
    let folder = tree_of_knobs();
    let root = folder.path();
    let place = root.to_str().expect("a path");
    let arguments = |journal: &str| {
        let journal = root.join(journal).to_str().expect("a path").to_owned();
        let all = ["regulate", "--root", place, "--group", "batch", "--journal"];
        let all = all.map(str::to_owned).into_iter().chain([journal]);
        let watch = ["--watch", "pressure", "--victim", "service"];
        all.chain(watch.map(str::to_owned)).collect::<Vec<_>>()
    };
    let mut first = program()
        .args(arguments("first"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    // It has locked the group before it tells what it watches by.
    let mut told = BufReader::new(first.stderr.take().expect("a pipe")).lines();
    let is_watching = |line: std::io::Result<String>| line.expect("text").starts_with("watching: ");
    assert!(told.any(is_watching));
    let refused = run([arguments("second"), vec!["--seconds".into(), "0".into()]].concat());
    first.kill().expect("killed");
    first.wait().expect("ended");
    refused.failed(1, &["another regulator holds", "cgroup/batch"]);
}

#[test]
fn a_service_is_watched_by_a_number_of_its_own() {
    let folder = tree();
    let root = folder.path().to_str().expect("a path");
    let rate = folder.path().join("rate");
    let file = ["--metric-file", rate.to_str().expect("a path")];
    let arguments = ["regulate", "--root", root, "--group", "batch", "--dry-run"];
    let of = |more: &[&str]| {
        let watch = ["--seconds", "1", "--watch", "metric", "--goal", "90"];
        run([&arguments[..], &watch, more].concat())
    };
    of(&[]).failed(2, &["--metric-file or --metric-command"]);
    run([&arguments[..], &file].concat()).failed(2, &["for --watch metric"]);
    // What it watches by is told before it looks.
    let ended = |more: &[&str], told: &str| {
        let ran = of(more);
        assert_eq!(ran.code, 4, "{ran:?}");
        assert!(
            ran.stderr.contains("nothing is known of the victim"),
            "{ran:?}"
        );
        assert!(ran.stderr.contains(told), "{ran:?}");
    };
    ended(&file, "rate: ");
    fs::write(&rate, "requests 40 per s\n").expect("written");
    ended(&file, "there is no number where it is looked for");
    let half = ["--metric-alone", "80", "--format", "json"];
    let pattern = ["--metric-pattern", "requests ([0-9]+)"];
    let told = of(&[&file[..], &pattern, &half].concat()).succeeded_telling("(counted)");
    let line: serde_json::Value = told
        .lines()
        .find_map(|line| serde_json::from_str(line).ok())
        .expect("a decision");
    assert_eq!(line["victim"], 0.5);
    assert_eq!(line["victim_sureness"], "counted");
    assert!(line["changes"][0]["content"].is_string(), "{told}");
    let command = [
        "--metric-command",
        "echo took 25 ms",
        "--metric-pattern",
        "[0-9]+",
    ];
    let latency = ["--lower-is-better", "--metric-alone", "5"];
    let told = of(&[&command[..], &latency].concat()).succeeded_telling("watching: ");
    assert!(told.contains("victim 20 %"), "{told}");
    ended(&["--metric-command", "exit 3"], "ended with exit status: 3");
    of(&["--metric-file", "x", "--metric-pattern", "("]).failed(2, &["no regular expression"]);
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
    fs::write(&trace, "ms,batch,tidy\n0,1,0.1\n").expect("written");
    let of = |more: &[&str]| run([&arguments[..], more].concat());
    of(&["--knob", "pin"]).failed(2, &["nobody shares a core"]);
    of(&["--knob", "frequency"]).failed(2, &["a trace of one group"]);
    of(&["--scenario", "far-ld"]).failed(2, &["near-ld, near-st"]);
    run(["regulate"]).failed(2, &["--group"]);
    let groups = "abcdefghi"
        .chars()
        .flat_map(|name| ["--group".to_owned(), name.into()]);
    let groups: Vec<String> = groups.collect();
    let recorded = ["regulate", "--dry-run", "--record", path].map(str::to_owned);
    run([&recorded[..], &groups].concat()).failed(2, &["8 groups at most"]);
}

#[test]
fn a_trace_of_several_groups_is_replayed_with_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.csv");
    fs::write(&trace, "ms,batch,tidy\n0,0,0.02\n500,1,0.02\n").expect("written");
    let path = trace.to_str().expect("a path");
    let arguments = [
        "regulate",
        "--replay",
        path,
        "--profile",
        "cxl-asic",
        "--knob",
        "bandwidth",
    ];
    let ran = run([&arguments[..], &["--format", "json"]].concat());
    let lines = ran.succeeded_telling("");
    let value = |metric: &str, group: Option<&str>| {
        let of = lines.lines().skip(1).find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let is_it = line["metric"] == metric && line["group"].as_str() == group;
            is_it.then(|| line["value"].as_f64().expect("a number"))
        });
        of.unwrap_or_else(|| panic!("no {metric} of {group:?} in {lines}"))
    };
    assert!(value("recovered_percent", None) > 90.0);
    assert!(value("unregulated_percent", None) < 50.0);
    assert!(value("aggressor_cost_percent", None) < 50.0);
    assert!(value("reaction_ms", None) < 500.0);
    assert!(value("group_granted_percent", Some("batch")) < 100.0);
    assert_eq!(value("group_granted_percent", Some("tidy")), 100.0);
    let text = run(arguments).succeeded_telling("");
    assert!(
        text.contains("tidy") && text.contains("reaction_ms"),
        "{text}"
    );
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
    // A single one is the cause, and what its server counts is told beside it.
    let single = of(&[&two[..2], &nobody].concat());
    single.succeeded_telling("Nearfar servers of batch at 127.0.0.1:1");
    let trace = folder.path().join("trace.csv");
    let record = ["--record", trace.to_str().expect("a path")];
    of(&[&two[..2], &record].concat()).failed(9, &["nothing to record"]);
    of(&["--group", "batch", "--group", "batch/inner"]).failed(2, &["or within it"]);
    monitor(folder.path(), "batch");
    monitor(folder.path(), "tidy");
    server(&["--nearfar", "other=127.0.0.1:1"]).failed(2, &["no such group"]);
    let told = server(&nobody).succeeded_telling("Nearfar servers of batch at 127.0.0.1:1");
    assert!(!told.contains("cpu.max"), "{told}");
    // Neither moves anything, so that nothing would be written, whatever the victim has.
    let told = of(&two).succeeded_telling("telling causes by: bytes of each group by resctrl");
    assert!(!told.contains("cpu.max"), "{told}");
    of(&[&two[..], &record].concat()).succeeded_telling("there is no trace");
    of(&[&two[..2], &record].concat()).succeeded_telling("there is no trace");
    let json = of(&[&two[..], &["--format", "json"]].concat());
    assert!(!json.succeeded_telling("watching: ").contains("\"file\""));
}
