//! `nearfar measure`, `nearfar bench scan` and, in a file of its own, `nearfar reproduce`.

mod reproduce;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nearfar_measure::Kind;
use nearfar_measure::results::{Header, Metric, read};

use crate::support::{Ran, files_in, program, run, run_in, temp};

/// A specification that is over immediately.
const SMALL: &str = "time = \"5ms\"\nrepetitions = 2\nbatch = \"64KiB\"\n\n[region.data]\nsize = \"1MiB\"\n\n\
                     [task.one]\n\n[matrix]\naccess = [64, 4096]\nthreads = [1]\n";

fn results(path: &Path) -> (Header, Vec<Metric>) {
    let text = fs::read(path).expect("results");
    read(&text[..]).expect("the documented schema")
}

fn complete_runs(metrics: &[Metric]) -> usize {
    metrics
        .iter()
        .filter(|metric| metric.metric == "run_seconds")
        .count()
}

#[test]
fn a_specification_is_measured_reported_and_compared() {
    let folder = temp();
    fs::write(folder.path().join("spec.toml"), SMALL).expect("written");
    for name in ["a.jsonl", "b.parquet"] {
        let text = run_in(folder.path(), ["measure", "spec.toml", "-o", name]).succeeded();
        assert!(
            text.contains("bandwidth_bytes_per_s") && text.contains("measured"),
            "{text}"
        );
    }
    let (header, metrics) = results(&folder.path().join("a.jsonl"));
    assert_eq!(header.configuration["settings"]["region.data.size"], "1MiB");
    assert_eq!(complete_runs(&metrics), 2);
    let page = run_in(folder.path(), ["measure", "report", "b.parquet"]).succeeded();
    assert_eq!(page, "b.html\n");
    let html = fs::read_to_string(folder.path().join("b.html")).expect("a page");
    assert!(
        html.contains("class=\"heat\"") && !html.contains("<script"),
        "a heat map"
    );
    let several = [
        "measure",
        "report",
        "a.jsonl",
        "b.parquet",
        "-o",
        "all.html",
    ];
    run_in(folder.path(), several).succeeded();
    let html = fs::read_to_string(folder.path().join("all.html")).expect("a page");
    assert!(
        html.contains("a.jsonl: access=64") && html.contains("b.parquet: access=64"),
        "runs are named by their results"
    );
    let compared = [
        "measure",
        "compare",
        "a.jsonl",
        "b.parquet",
        "--html",
        "both.html",
    ];
    let text = run_in(folder.path(), compared).succeeded();
    assert!(text.contains("access=4096 threads=1, one"), "{text}");
    let compared = [
        "measure",
        "compare",
        "a.jsonl",
        "b.parquet",
        "--format",
        "json",
    ];
    let text = run_in(folder.path(), compared).succeeded();
    let (_, ratios) = read(text.as_bytes()).expect("results");
    assert!(ratios.len() >= 4, "{text}");
    let expected = [
        "a.jsonl",
        "all.html",
        "b.html",
        "b.parquet",
        "both.html",
        "spec.toml",
    ];
    assert_eq!(files_in(folder.path()), expected);
}

#[test]
fn a_specification_runs_in_memory_and_in_the_model() {
    let folder = temp();
    fs::write(folder.path().join("spec.toml"), SMALL).expect("written");
    let both = [
        "measure",
        "spec.toml",
        "--profile",
        "cxl-blades-4",
        "--compare-model",
    ];
    let text = run_in(folder.path(), both).succeeded();
    for expected in [
        "this machine",
        "cxl-blades-4",
        "measured",
        "modelled",
        "ratio",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let json = [&both[..], &["--format", "json"]].concat();
    let text = run_in(folder.path(), json).succeeded();
    let (_, metrics) = read(text.as_bytes()).expect("results");
    let of = |name: &'static str| metrics.iter().filter(move |metric| metric.metric == name);
    assert_eq!(complete_runs(&metrics), 4, "two runs, twice");
    for ratio in of("ratio") {
        let value = |name: &str| ratio.dimensions[name].as_f64().expect("a number");
        let expected = value("second") / value("first");
        assert!((ratio.value.get().expect("a ratio") / expected - 1.0).abs() < 1e-9);
        assert_eq!(ratio.dimensions["first_kind"], "measured");
        assert_eq!(ratio.dimensions["second_kind"], "modelled");
    }
    assert_eq!(of("ratio").count(), 4, "bandwidth and accesses of two runs");
    run_in(folder.path(), ["measure", "spec.toml", "--compare-model"]).failed(2, &["--profile"]);
    // Memory has no lines that are followed.
    let lines = [&both[..], &["--lines", "1000"]].concat();
    run_in(folder.path(), lines).failed(2, &["--lines", "--compare-model"]);
}

#[test]
fn help_names_every_preset() {
    let help = run(["measure", "--help"]).succeeded();
    let words: Vec<&str> = help.split_whitespace().collect();
    let names = words.join(" ");
    for preset in nearfar_measure::access::Preset::ALL {
        let is_named = names.contains(&format!(" {}", preset.name));
        assert!(is_named, "{}: {help}", preset.name);
    }
}

#[test]
fn flags_alone_are_a_specification() {
    let arguments = [
        "measure",
        "--operation",
        "read,chase",
        "--time",
        "5ms",
        "--region-size",
        "1MiB",
        "--access",
        "8",
        "--repetitions",
        "2",
        "--set",
        "task.access.hops=64",
        "--format",
        "json",
    ];
    let text = run(arguments).succeeded();
    let (_, metrics) = read(text.as_bytes()).expect("results");
    assert_eq!(complete_runs(&metrics), 2);
    assert!(
        metrics.iter().any(|metric| metric.metric == "latency_ns"),
        "{text}"
    );
}

#[test]
fn a_dry_run_prints_the_plan_and_runs_nothing() {
    let began = Instant::now();
    let text = run([
        "measure",
        "--preset",
        "heatmap",
        "--time",
        "100s",
        "--region-size",
        "64MiB",
        "--dry-run",
    ])
    .succeeded();
    assert!(
        text.contains("nothing was run") && text.contains("64.0 MiB"),
        "{text}"
    );
    assert!(began.elapsed() < Duration::from_secs(20));
    let text = run(["measure", "--dry-run", "--format", "json"]).succeeded();
    let (_, metrics) = read(text.as_bytes()).expect("results");
    assert!(
        metrics.iter().any(|metric| metric.metric == "plan_seconds"),
        "{text}"
    );
}

#[test]
fn a_modelled_far_tier_stands_in_and_without_one_far_is_refused() {
    let arguments = [
        "measure",
        "--operation",
        "chase",
        "--placement",
        "far",
        "--region-size",
        "1MiB",
        "--time",
        "20ms",
        "--repetitions",
        "1",
        "--format",
        "json",
    ];
    let ran = run(arguments);
    if ran.code != 0 {
        ran.failed(
            3,
            &[
                "--placement: region.data.placement: this machine has no tier",
                "--profile",
            ],
        );
    }
    let text = run(arguments.iter().chain(&["--profile", "cxl-fpga"])).succeeded();
    let (_, metrics) = read(text.as_bytes()).expect("results");
    let latency = metrics
        .iter()
        .find(|metric| metric.metric == "latency_ns")
        .expect("a latency");
    assert_eq!(latency.kind, nearfar_measure::Kind::Modelled);
    assert!(
        latency.value.get().is_some_and(|ns| ns > 550.0),
        "{latency:?}"
    );
}

#[test]
fn impossible_specifications_are_refused_with_field_and_line() {
    let folder = temp();
    let refused = |text: &str, code: i32, told: &[&str]| {
        fs::write(folder.path().join("x.toml"), text).expect("written");
        run_in(folder.path(), ["measure", "x.toml"]).failed(code, told);
    };
    refused(
        "[task.a]\nthreads = 2\npin = \"0\"",
        2,
        &["x.toml, line 2: task.a.threads:"],
    );
    refused("[region.a]\nsize = \"1PiB\"", 2, &["no size", "line 2"]);
    refused(
        "[region.a]\nsize = \"999TiB\"",
        2,
        &["x.toml, line 2: region.a.size: tier near"],
    );
    refused(
        "[task.a]\naccess = 12",
        2,
        &["x.toml, line 2: task.a.access: no instruction"],
    );
    refused(
        "[region.a]\nplacement = \"node99\"",
        3,
        &["x.toml, line 2: region.a.placement:"],
    );
    refused(
        "[task.a]\n\nacces = 8",
        2,
        &["x.toml, line 3: task.a.acces:", "access"],
    );
    let many = format!("[matrix]\nseed = {:?}\nhops = {:?}", [1; 1000], [1; 1000]);
    refused(
        &many,
        2,
        &["line 3: matrix.hops: a matrix of 1000000 points"],
    );
    run(["measure", "missing.toml"]).failed(4, &["cannot read missing.toml"]);
    run(["measure", "--preset", "nothing"]).failed(3, &["heatmap"]);
    run(["measure", "report", "missing.jsonl"]).failed(4, &["missing.jsonl"]);
}

#[test]
fn results_are_not_overwritten_and_can_be_gone_on_with() {
    let folder = temp();
    fs::write(folder.path().join("spec.toml"), SMALL).expect("written");
    let measure = |more: &[&str]| {
        let arguments = ["measure", "spec.toml", "-o", "a.jsonl"];
        run_in(folder.path(), arguments.iter().chain(more))
    };
    measure(&[]).succeeded();
    measure(&[]).failed(7, &["a.jsonl exists", "--resume"]);
    // As a crash would leave it: the last run is not complete, the last line is cut off.
    let path = folder.path().join("a.jsonl");
    let text = fs::read_to_string(&path).expect("results");
    let lines: Vec<&str> = text.lines().collect();
    let cut = format!("{}\n{{\"metr", lines[..lines.len() - 1].join("\n"));
    fs::write(&path, cut).expect("written");
    measure(&["--resume", "--time", "6ms"]).failed(4, &["other settings (time)"]);
    measure(&["--resume"]).succeeded();
    let (_, metrics) = results(&path);
    assert_eq!(complete_runs(&metrics), 2);
    assert_eq!(metrics.len(), lines.len() - 1);
}

#[test]
fn ctrl_c_keeps_what_is_done() {
    let folder = temp();
    let long =
        "[region.data]\nsize = \"1MiB\"\n[task.one]\n[matrix]\ntime = [\"10ms\", \"500s\"]\n";
    fs::write(folder.path().join("spec.toml"), long).expect("written");
    let mut command = program();
    command
        .args(["measure", "spec.toml", "-o", "a.jsonl"])
        .current_dir(folder.path());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let path = folder.path().join("a.jsonl");
    let began = Instant::now();
    while !fs::read_to_string(&path).is_ok_and(|text| text.contains("run_seconds")) {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the first run is not done"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("kill is there").success());
    let ran: Ran = child.wait_with_output().expect("ended").into();
    ran.failed(130, &["interrupted after 1 of 2 runs"]);
    assert!(ran.stdout.contains("bandwidth_bytes_per_s"), "{ran:?}");
    assert_eq!(complete_runs(&results(&path).1), 1);
}

#[test]
fn presets_are_listed_and_printed() {
    let list = run(["measure", "presets"]).succeeded();
    for name in [
        "heatmap",
        "devices",
        "latency",
        "split",
        "loaded",
        "interference",
    ] {
        assert!(list.contains(name), "{name}");
        assert!(
            run(["measure", "presets", name])
                .succeeded()
                .contains("[matrix]"),
            "{name}"
        );
    }
}

#[test]
fn counters_are_there_or_unavailable_with_a_reason() {
    let text = run([
        "measure",
        "--counters",
        "--time",
        "20ms",
        "--region-size",
        "1MiB",
        "--format",
        "json",
    ])
    .succeeded();
    let (header, metrics) = read(text.as_bytes()).expect("results");
    let has = metrics.iter().any(|metric| metric.metric == "counter");
    let lacks = header
        .unavailable
        .iter()
        .any(|gap| gap.what == "hardware counters");
    assert!(has != lacks, "{text}");
}

#[test]
fn a_scan_is_compared_with_reads_copies_and_arrow() {
    let arguments = [
        "bench",
        "scan",
        "--column",
        "1MiB",
        "--rounds",
        "3",
        "--threads",
        "1",
        "--format",
        "json",
    ];
    let (header, metrics) = read(run(arguments).succeeded().as_bytes()).expect("results");
    assert_eq!(header.configuration["column_bytes"], 1 << 20);
    for name in [
        "scan_read_ratio",
        "scan_copy_ratio",
        "scan_arrow_ratio",
        "scan_arrow_written_ratio",
    ] {
        let found = metrics.iter().filter(|metric| metric.metric == name);
        let positive = found.filter(|metric| metric.value.get().is_some_and(|ratio| ratio > 0.0));
        assert_eq!(positive.count(), 2, "{name}");
    }
    run(["bench", "scan", "--selectivity", "101"]).failed(2, &["101"]);
    run(["bench", "scan", "--column", "5"]).failed(2, &["column", "4096"]);
}

#[test]
fn the_scan_runs_in_virtual_time_and_is_compared() {
    const SCAN: [&str; 8] = [
        "bench",
        "scan",
        "--profile",
        "cxl-blades-1",
        "--threads",
        "4",
        "--format",
        "json",
    ];
    let scan = |further: &[&'static str]| run([&SCAN, further].concat());
    let figures = |text: String| read(text.as_bytes()).expect("results").1;
    let virtual_scan = ["--virtual", "--column", "40MiB", "--placement"];
    let near = figures(scan(&[&virtual_scan[..], &["near"]].concat()).succeeded());
    let far = figures(scan(&[&virtual_scan[..], &["far"]].concat()).succeeded());
    assert!(near.iter().all(|metric| metric.kind == Kind::Modelled));
    let value = |metrics: &[Metric], name: &str, contestant: Option<&str>| {
        let found = metrics.iter().find(|metric| {
            let of = metric.dimensions.get("contestant");
            metric.metric == name && of.and_then(|of| of.as_str()) == contestant
        });
        found.and_then(|metric| metric.value.get()).expect(name)
    };
    let read_of = |metrics| value(metrics, "bandwidth_bytes_per_s", Some("read"));
    assert!(read_of(&far) < read_of(&near) * 0.7);
    assert!(value(&near, "scan_read_ratio", None) <= 1.05);
    let copies = near.iter().any(|one| one.metric == "scan_copy_ratio");
    assert!(!copies, "the model has no copies");

    let compared = ["--compare-model", "--column", "40MiB", "--rounds", "1"];
    let compared = figures(scan(&compared).succeeded());
    let ratios = compared.iter().filter(|metric| metric.metric == "ratio");
    let of: Vec<_> = ratios
        .map(|ratio| ratio.dimensions["figure"].as_str().unwrap_or_default())
        .collect();
    for figure in [
        "read",
        "scan, selectivity_percent 0.1",
        "scan, selectivity_percent 100.0",
    ] {
        assert!(of.contains(&figure), "{figure}: {of:?}");
    }

    scan(&[]).failed(2, &["--virtual", "--compare-model"]);
    for model in ["--virtual", "--compare-model"] {
        scan(&[model, "--isa", "portable"]).failed(2, &["--isa"]);
    }
    scan(&["--virtual", "--rounds", "3"]).failed(2, &["--rounds"]);
    scan(&["--virtual", "--placement", "node7"]).failed(3, &["placement", "node7", "near, far"]);
    scan(&["--virtual", "--column", "4KiB"]).failed(2, &["column", "caches", "MiB"]);
    run(["bench", "scan", "--virtual"]).failed(2, &["--profile"]);
    let unknown = ["bench", "scan", "--virtual", "--profile", "geyer-rdma"];
    run(unknown).failed(9, &["geyer-rdma", "simulation"]);
}

#[test]
fn prefetchers_are_switched_off_or_it_is_said_why_not() {
    let time = ["measure", "--time", "5ms", "--region-size", "1MiB"];
    // Elsewhere the whole machine would lose them while other tests run.
    if !Path::new("/dev/cpu/0/msr").exists() {
        let off = run([&time[..], &["--prefetchers", "off"]].concat());
        off.failed(9, &["prefetchers", "cannot be switched off"]);
    }
    run([&time[..], &["--prefetchers", "no"]].concat()).failed(2, &["\"no\"", "on or off"]);
    let both = [
        "measure",
        "--profile",
        "cxl-blades-1",
        "--virtual",
        "--prefetchers",
        "on,off",
        "--format",
        "json",
    ];
    let (_, metrics) = read(run(both).succeeded().as_bytes()).expect("results");
    let rates: Vec<f64> = metrics
        .iter()
        .filter(|one| one.metric == "bandwidth_bytes_per_s" && one.dimensions.contains_key("task"))
        .filter_map(|one| one.value.get())
        .collect();
    assert!(rates.len() == 2 && rates[1] < rates[0] * 0.9, "{rates:?}");
}

/// One point that this machine and the model can run.
const POINT: &str = "time = \"5ms\"\nrepetitions = 2\nbatch = \"64KiB\"\n\n[region.data]\n\
                     size = \"1MiB\"\n\n[task.one]\naccess = 4096\n";

#[test]
fn the_same_specification_runs_in_virtual_time_and_is_compared() {
    let folder = temp();
    fs::write(folder.path().join("spec.toml"), POINT).expect("written");
    run_in(folder.path(), ["measure", "spec.toml", "-o", "real.jsonl"]).succeeded();
    let on_profile = ["--profile", "cxl-blades-4", "--virtual"];
    let arguments = |output| {
        let first = ["measure", "spec.toml", "-o", output];
        first.into_iter().chain(on_profile).collect::<Vec<_>>()
    };
    let text = run_in(folder.path(), arguments("model.jsonl")).succeeded();
    assert!(
        text.contains("modelled") && !text.contains("measured"),
        "{text}"
    );
    run_in(folder.path(), arguments("again.jsonl")).succeeded();
    let (header, metrics) = results(&folder.path().join("model.jsonl"));
    assert_eq!(header.configuration["settings"]["clock"], "virtual");
    assert_eq!(header.configuration["settings"]["profile"], "cxl-blades-4");
    let (_, again) = results(&folder.path().join("again.jsonl"));
    let of = |metrics: &[Metric]| -> Vec<_> {
        let figures = metrics.iter().filter(|one| one.metric != "run_seconds");
        figures
            .map(|one| (one.metric.clone(), one.value.clone()))
            .collect()
    };
    assert_eq!(of(&metrics), of(&again), "deterministic");
    let compared = [
        "measure",
        "compare",
        "real.jsonl",
        "model.jsonl",
        "--html",
        "both.html",
    ];
    let text = run_in(folder.path(), compared).succeeded();
    assert!(
        text.contains("measured") && text.contains("modelled"),
        "{text}"
    );
    let html = fs::read_to_string(folder.path().join("both.html")).expect("a page");
    assert!(html.contains("figures of different kinds"));
    let mixed = ["measure", "spec.toml", "-o", "real.jsonl", "--resume"];
    let mixed = mixed.into_iter().chain(on_profile);
    run_in(folder.path(), mixed).failed(4, &["clock, profile"]);
}

#[test]
fn virtual_time_needs_a_profile_that_can_be_simulated() {
    run(["measure", "--virtual"]).failed(2, &["--profile"]);
    run(["measure", "--virtual", "--profile", "geyer-rdma"])
        .failed(9, &["cannot be simulated", "reached by posted copies"]);
    let dry = [
        "measure",
        "--profile",
        "cxl-blades-4",
        "--virtual",
        "--threads",
        "48",
        "--dry-run",
    ];
    let text = run(dry).succeeded();
    assert!(
        text.contains("in virtual time on the machine of cxl-blades-4"),
        "{text}"
    );
    let many = [
        "measure",
        "--profile",
        "cxl-blades-4",
        "--virtual",
        "--threads",
        "49",
    ];
    let told = "48 of the 48 processors of profile cxl-blades-4";
    run(many).failed(2, &[told]);
}
