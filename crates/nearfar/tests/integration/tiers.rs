//! `nearfar tiers` and `nearfar profiles`.

use crate::support::{Ran, expect_file, program, run, sysfs};

fn tiers(fixture: &str, arguments: &[&str]) -> String {
    let root = sysfs(fixture);
    let mut all = vec!["tiers", "--sysfs", root.path().to_str().expect("UTF-8")];
    all.extend(arguments);
    run(all).succeeded()
}

#[test]
fn tables_of_captured_machines() {
    for fixture in [
        "two-sockets-four-cxl",
        "hmat-present",
        "dax-not-onlined",
        "node-without-memory",
    ] {
        expect_file(&format!("tiers-{fixture}.txt"), &tiers(fixture, &[]));
    }
    let modelled = tiers("one-node", &["--profile", "cxl-blades-4"]);
    expect_file("tiers-one-node-cxl-blades-4.txt", &modelled);
}

#[test]
fn json_has_a_header_and_a_line_per_figure() {
    let text = tiers(
        "hmat-present",
        &["--format", "json", "--profile", "cxl-commercial"],
    );
    let (header, metrics) = text.split_once('\n').expect("several lines");
    let header: serde_json::Value = serde_json::from_str(header).expect("JSON");
    assert_eq!(header["schema"], "nearfar-results/1");
    assert_eq!(header["configuration"]["profile"]["name"], "cxl-commercial");
    assert!(header["configuration"]["topology"]["tiers"].is_array());
    assert!(header["machine"]["kernel"].is_string());
    expect_file("tiers-hmat-present.jsonl", metrics);
    nearfar_measure::results::read(text.as_bytes()).expect("the documented schema");
}

#[test]
fn a_folder_without_nodes_is_no_machine() {
    let root = sysfs("no-nodes");
    let ran = run(["tiers", "--sysfs", root.path().to_str().expect("UTF-8")]);
    ran.failed(4, &["no memory nodes under"]);
}

/// Whether the figures are right is for the tests of the probe; here they only have to be there.
#[test]
fn a_probe_measures_every_tier() {
    let ran = run([
        "tiers",
        "--probe",
        "--profile",
        "cxl-fpga",
        "--format",
        "json",
    ]);
    let text = ran.succeeded();
    let (_, metrics) = nearfar_measure::results::read(text.as_bytes()).expect("results");
    let found = |tier: &str, kind: nearfar_measure::Kind| {
        metrics.iter().any(|metric| {
            metric.metric == "idle_latency_ns"
                && metric.kind == kind
                && metric.dimensions["tier"] == tier
                && metric.value.get().is_some_and(|value| value > 1.0)
        })
    };
    assert!(found("near", nearfar_measure::Kind::Measured), "{text}");
    assert!(found("far", nearfar_measure::Kind::Modelled), "{text}");
}

#[test]
fn profiles_are_listed_and_shown() {
    let list = run(["profiles"]).succeeded();
    for name in nearfar_topology::Profile::builtin_names() {
        assert!(list.contains(name), "{name}");
    }
    let shown = run(["profiles", "cxl-blades-1"]).succeeded();
    assert!(shown.contains("weisgut-2025, figure 5"), "{shown}");
    let json = run(["profiles", "cxl-blades-1", "--format", "json"]).succeeded();
    let profile: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(profile["far"]["idle_latency_ns"], 507.0);
}

/// With stacks so large that the address space has room for one at most.
#[test]
fn a_probe_without_threads_says_so() {
    let mut command = program();
    command.args(["tiers", "--probe", "--threads", "8"]);
    command.env("RUST_MIN_STACK", (1_u64 << 46).to_string());
    let ran: Ran = command.output().expect("started").into();
    let text = ran.succeeded();
    assert!(text.contains("probe: cannot start 8 threads"), "{text}");
}
