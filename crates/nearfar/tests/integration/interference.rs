//! `nearfar measure interference`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nearfar_measure::results::{Metric, read};
use nearfar_memory::sys::allowed_cpus;

use crate::support::{Ran, program, run, run_in, temp};

const PATIENCE: Duration = Duration::from_secs(120);
const GLANCE: Duration = Duration::from_millis(20);

/// What of the matrix is over soon.
const SHORT: [&str; 12] = [
    "measure",
    "interference",
    "--time",
    "0.01",
    "--settle",
    "0.01",
    "--repetitions",
    "2",
    "--region-size",
    "4MiB",
    "--threads=1",
    "--background-threads=1",
];

/// Behaves as fio as far as it is used here: it runs for as long as it is asked to, or until it is
/// interrupted, and reports.
const FAKE_FIO: &str = "#!/bin/sh\n\
    echo \"$@\" >> \"$(dirname \"$0\")/calls\"\n\
    report() { echo '{\"jobs\":[{\"error\":0,\"read\":{\"bw_bytes\":5000000},\"write\":{\"bw_bytes\":7000000}}]}'; exit 0; }\n\
    trap report INT\n\
    for argument in \"$@\"; do case $argument in --runtime=*) time=${argument#--runtime=};; esac; done\n\
    left=${time%ms}\n\
    while [ \"$left\" -gt 0 ]; do sleep 0.01; left=$((left - 10)); done\n\
    report\n";

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SHORT[..], more].concat()
}

/// Nothing can run beside anything on one processor.
fn has_two_processors() -> bool {
    allowed_cpus().expect("processors").len() >= 2
}

/// The program with a folder of its own first in `PATH`.
fn with_path(folder: &Path, others: bool) -> Command {
    let path = std::env::var("PATH").expect("a path");
    let path = match others {
        true => format!("{}:{path}", folder.display()),
        false => folder.display().to_string(),
    };
    let mut command = program();
    command.env("PATH", path);
    command
}

fn write_fake(folder: &Path, script: &str) {
    let fio = folder.join("fio");
    fs::write(&fio, script).expect("written");
    fs::set_permissions(&fio, fs::Permissions::from_mode(0o755)).expect("changed");
}

fn metrics(path: &Path) -> Vec<Metric> {
    let text = fs::read(path).expect("results");
    read(&text[..]).expect("the documented schema").1
}

fn points(metrics: &[Metric]) -> usize {
    let is_end = |metric: &&Metric| metric.metric == "run_seconds";
    metrics.iter().filter(is_end).count()
}

#[test]
fn a_dry_run_tells_what_would_run_and_what_cannot() {
    if !has_two_processors() {
        run(["measure", "interference", "--dry-run"]).failed(9, &["two processors"]);
        return;
    }
    let text = run(["measure", "interference", "--dry-run"]).succeeded();
    for told in [
        "near ntst",
        "nothing was run",
        "no file or device was named",
    ] {
        assert!(text.contains(told), "{told} is missing in {text}");
    }
    let json = ["measure", "interference", "--dry-run", "--format", "json"];
    let text = run(json).succeeded();
    let (_, metrics) = read(text.as_bytes()).expect("the schema");
    let points = metrics.iter().find(|metric| metric.metric == "plan_points");
    assert!(points.expect("points").value.get() > Some(1.0));
}

#[test]
fn a_matrix_is_measured_reported_and_gone_on_with() {
    if !has_two_processors() {
        return;
    }
    let folder = temp();
    let part = ["--under-test=near ld", "--beside=near st", "-o", "m.jsonl"];
    run_in(folder.path(), arguments(&part)).succeeded();
    let more = [
        "--under-test=near ld",
        "--beside=near st,near ntst",
        "-o",
        "m.jsonl",
    ];
    run_in(folder.path(), arguments(&more)).failed(7, &["--resume"]);
    let resumed = [&more[..], &["--resume", "--report", "m.html"]].concat();
    let text = run_in(folder.path(), arguments(&resumed)).succeeded_telling("m.html");
    assert!(
        text.contains("near ntst") && text.contains("measured"),
        "{text}"
    );
    let found = metrics(&folder.path().join("m.jsonl"));
    assert_eq!(points(&found), 3, "two were kept");
    let changes = found
        .iter()
        .filter(|metric| metric.metric == "change_percent");
    assert_eq!(changes.count(), 2);
    let html = fs::read_to_string(folder.path().join("m.html")).expect("a page");
    for told in [
        "class=\"heat\"",
        "near-ld-beside-near-st",
        "frequency governor",
        "cpu quota",
    ] {
        assert!(html.contains(told), "{told} is missing");
    }
    let other = [&resumed[..], &["--time", "0.02"]].concat();
    let other: Vec<&str> = arguments(&other).into_iter().skip(4).collect();
    let other = [&["measure", "interference"], &other[..]].concat();
    run_in(folder.path(), other).failed(4, &["other settings", "time"]);
    let page = run_in(
        folder.path(),
        ["measure", "report", "m.jsonl", "-o", "again.html"],
    );
    page.succeeded();
    let again = fs::read_to_string(folder.path().join("again.html")).expect("a page");
    assert_eq!(again, html);
}

#[test]
fn storage_is_load_and_under_test_on_the_one_file_that_is_named() {
    if !has_two_processors() {
        return;
    }
    let folder = temp();
    write_fake(folder.path(), FAKE_FIO);
    let run = |more: &[&str]| -> Ran {
        let mut command = with_path(folder.path(), true);
        command.current_dir(folder.path()).args(arguments(more));
        command.output().expect("started").into()
    };
    let storage = [
        "--storage",
        "load",
        "--storage-size",
        "1MiB",
        "--format",
        "json",
    ];
    let text = run(&[
        &storage[..],
        &[
            "--under-test=near ld,ssd randwrite",
            "--beside=near st,ssd read",
        ],
    ]
    .concat());
    let text = text.succeeded();
    let (_, found) = read(text.as_bytes()).expect("the schema");
    let rate = |role: &str, word: &str| {
        let is_it = |metric: &&Metric| {
            let of = |name: &str| metric.dimensions.get(name).and_then(|text| text.as_str());
            of("role") == Some(role) && (of("tested") == Some(word) || of("beside") == Some(word))
        };
        found
            .iter()
            .find(is_it)
            .and_then(|metric| metric.value.get())
    };
    assert_eq!(rate("tested", "ssd randwrite"), Some(7e6));
    assert_eq!(rate("background", "ssd read"), Some(5e6));
    assert!(
        !folder.path().join("load").exists(),
        "what was made is removed"
    );
    let calls = fs::read_to_string(folder.path().join("calls")).expect("calls");
    assert!(
        calls.lines().all(|call| call.contains("--filename=load ")),
        "{calls}"
    );
    fs::write(folder.path().join("load"), "somebody's").expect("written");
    run(&["--storage", "load", "--beside=ssd write"]).failed(4, &["load", "--storage-overwrite"]);
    let kept = fs::read_to_string(folder.path().join("load")).expect("it is there");
    assert_eq!(kept, "somebody's");
}

#[test]
fn what_storage_lacks_is_one_clear_message() {
    if !has_two_processors() {
        return;
    }
    let folder = temp();
    let run = |others: bool, more: &[&str]| -> Ran {
        let mut command = with_path(folder.path(), others);
        command.current_dir(folder.path()).args(arguments(more));
        command.output().expect("started").into()
    };
    let beside = [
        "--storage",
        "load",
        "--under-test=near ld",
        "--beside=ssd read",
    ];
    run(false, &beside).failed(9, &["fio is not among"]);
    write_fake(
        folder.path(),
        "#!/bin/sh\necho 'engine libaio not loadable' >&2\nexit 1\n",
    );
    let small = [&beside[..], &["--storage-size", "1MiB"]].concat();
    run(true, &small).failed(1, &["load", "engine libaio not loadable"]);
    assert!(
        !folder.path().join("load").exists(),
        "what was made is removed"
    );
    let large = [&beside[..], &["--storage-size", "1000000TiB"]].concat();
    run(true, &large).failed(7, &["does not fit", "bytes left"]);
    let here = [
        "--storage",
        ".",
        "--under-test=near ld",
        "--beside=ssd read",
    ];
    run(true, &here).failed(4, &["neither a file nor a block device"]);
}

#[test]
fn programs_have_their_own_metric_and_bad_ones_are_told() {
    if !has_two_processors() {
        return;
    }
    let beside = "--beside=near ntst";
    let measured = [
        "--application",
        "echo rate: 12",
        "--metric-pattern",
        "rate: ([0-9]+)",
    ];
    let text = run(arguments(
        &[&measured[..], &[beside, "--on", "near"]].concat(),
    ))
    .succeeded();
    assert!(
        text.contains("application") && text.contains("+0.0 %"),
        "{text}"
    );
    run(arguments(&["--application", "exit 3", beside])).failed(1, &["exit status: 3"]);
    let pattern = ["--application", "true", "--metric-pattern", "(", beside];
    run(arguments(&pattern)).failed(2, &["no regular expression"]);
    run(arguments(&["--application-preset", "x", beside])).failed(3, &["redis, valkey"]);
    run(arguments(&["--application", "true", "--on", "x", beside])).failed(3, &["\"x\""]);
    run(arguments(&["--beside=nothing"])).failed(2, &["\"nothing\" selects nothing"]);
}

#[test]
fn an_interrupted_run_leaves_nothing_behind_and_is_gone_on_with() {
    if !has_two_processors() {
        return;
    }
    for signal in ["INT", "TERM"] {
        let folder = temp();
        write_fake(folder.path(), FAKE_FIO);
        let mut command = with_path(folder.path(), true);
        // The second of its runs is beside the load, and does not end by itself.
        let script = "test -e again && { echo $$ > process.part; mv process.part process; exec sleep 1000; }; touch again";
        let part = [
            "--application",
            script,
            "--beside=ssd read",
            "--storage=load",
            "--storage-size=1MiB",
            "--repetitions=1",
            "-o",
            "m.jsonl",
        ];
        let mut all = arguments(&part);
        all.drain(6..8);
        command.current_dir(folder.path()).args(all);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let process = folder.path().join("process");
        wait_until(|| process.exists());
        assert!(folder.path().join("load").exists());
        let ended = interrupted(child, signal);
        ended.failed(130, &["interrupted after 1 of 2 points"]);
        assert!(!folder.path().join("load").exists(), "the file is removed");
        let process = fs::read_to_string(&process).expect("its number");
        assert!(!is_alive(process.trim()), "{process} is left");
        assert_eq!(points(&metrics(&folder.path().join("m.jsonl"))), 1);
    }
}

#[test]
fn the_model_runs_the_same_matrix() {
    let text = run([
        "measure",
        "interference",
        "--profile=cxl-asic",
        "--virtual",
        "--under-test=near ld",
        "--beside=far ntst,ssd randread",
        "--threads=2",
        "--background-threads=40",
    ])
    .succeeded();
    assert!(text.contains("deep") && text.contains("modelled"), "{text}");
    assert!(text.contains("none"), "{text}");
}

fn wait_until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "it did not come");
        std::thread::sleep(GLANCE);
    }
}

fn interrupted(child: Child, signal: &str) -> Ran {
    let sent = Command::new("kill")
        .args([format!("-{signal}"), child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(sent.success());
    child.wait_with_output().expect("ended").into()
}

fn is_alive(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_graph_is_ranked_where_it_is_placed_and_beside_memory() {
    let graph = [
        "measure",
        "pagerank",
        "--scale",
        "8",
        "--trials",
        "2",
        "--threads",
        "2",
    ];
    let text = run(graph).succeeded();
    assert!(
        text.contains("trial_seconds") && text.contains("M/s"),
        "{text}"
    );
    let json = run([&graph[..], &["--format", "json"]].concat()).succeeded();
    let (header, found) = read(json.as_bytes()).expect("the schema");
    assert_eq!(header.configuration["placement"], "near");
    let trial = found
        .iter()
        .find(|metric| metric.metric == "trial_seconds")
        .expect("a time");
    assert_eq!(trial.spread.expect("of two").runs, 2);
    run([&graph[..], &["--placement", "moon"]].concat()).failed(3, &["moon"]);
    let weights = ["measure", "inference", "--weights=16MiB", "--tokens=2"];
    let text = run(weights).succeeded();
    assert!(
        text.contains("token_seconds") && text.contains("B/s"),
        "{text}"
    );
    run(["measure", "pagerank", "--scale", "27"]).failed(2, &["27"]);
    if !has_two_processors() {
        return;
    }
    let beside = [
        "--application-preset=pagerank",
        "--beside=near ntst",
        "--on=near",
        "--dry-run",
    ];
    let text = run(arguments(&beside)).succeeded();
    assert!(text.contains("application"), "{text}");
    let elsewhere = [
        "--application-preset=pagerank",
        "--beside=near ntst",
        "--on=moon",
    ];
    run(arguments(&elsewhere)).failed(3, &["moon"]);
}

#[test]
fn a_type_of_the_paper_stands_for_tier_and_backgrounds() {
    if !has_two_processors() {
        return;
    }
    let of = |more: &[&str]| run(arguments(more));
    let command = "--application=true";
    of(&["--application-type=a"]).failed(2, &["give --application"]);
    of(&[command, "--application-type=e"]).failed(2, &["--application-type"]);
    let both = [command, "--application-type=c", "--on=near"];
    of(&both).failed(2, &["--on"]);
    // Of type B, whose memory is far: this machine has none, or no storage was named.
    let b = of(&[command, "--application-type=b", "--dry-run"]);
    assert!(
        b.code == 3 || b.stdout.contains("ssd") || b.stdout.contains("unavailable"),
        "{b:?}"
    );
}

#[test]
fn causes_are_told_or_why_they_are_not() {
    let virtual_run = [
        "measure",
        "interference",
        "--profile=cxl-asic",
        "--virtual",
        "--under-test=near ld",
        "--beside=far ntst",
        "--threads=4",
        "--background-threads=16",
        "--causes",
    ];
    let text = run(virtual_run).succeeded();
    for told in [
        "request table, tested",
        "entries of the request table, background",
    ] {
        assert!(text.contains(told), "{told} is missing in {text}");
    }
    if !has_two_processors() {
        return;
    }
    let part = ["--under-test=near ld", "--beside=near ntst", "--causes"];
    let text = run(arguments(&part)).succeeded();
    // Few machines of tests have all of it, and none has nothing to say.
    let is_told = |what: &str| text.contains(what);
    assert!(
        is_told("last-level occupancy") && is_told("load L2 miss latency"),
        "{text}"
    );
}
