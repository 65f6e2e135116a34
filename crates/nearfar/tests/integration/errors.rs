//! What is wrong with arguments: one message, and the documented exit code.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nearfar_topology::{FAR, Topology};

use crate::support::{run, run_in, temp};

#[test]
fn arguments_that_cannot_be_read() {
    for arguments in [
        &["tiers", "--nonsense"][..],
        &["sql", "--budget", "near"],
        &["sql", "--format", "xml"],
        &["tpch", "--runs", "0"],
        &["tpch", "--queries", "5-3"],
        &["tiers", "--probe", "--sysfs", "/sys"],
        &["bench", "tpch", "--rival", "nobody"],
        &["sql", "--threads", "4294967296", "-c", "SELECT 1"],
        &["tiers", "--probe", "--threads", "0"],
        &["sql", "--memory-host", "127.0.0.1:7475", "-c", "SELECT 1"],
        &["sql", "--memory-secret-file", "secret", "-c", "SELECT 1"],
        &[
            "sql",
            "--memory-host",
            "b",
            "--memory-secret-file",
            "secret",
        ],
        &[
            "sql",
            "--memory-host",
            "B=127.0.0.1:7475",
            "--memory-secret-file",
            "secret",
        ],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: "), "{ran:?}");
    }
    run(["tpch", "--sf", "0", "--no-report"]).failed(2, &["scale factor 0", "above 0"]);
    run(["tpch", "--queries", "23", "--no-report"]).failed(2, &["no query 23"]);
    run(["sql", "--tpch", "-1"]).failed(2, &["scale factor -1"]);
    let ran = run(["bench", "index", "--mode", "native", "--scale", "bytes"]);
    ran.failed(2, &["scale", "leave it out"]);
    let compared = ["bench", "index", "--compare-model"];
    run(compared).failed(2, &["--profile"]);
    let with = |further: &[&'static str]| {
        run([&compared[..], &["--profile", "cxl-card"], further].concat())
    };
    with(&[]).failed(2, &["compare-model", "give policies"]);
    with(&["--policy", "damon-4k"]).failed(2, &["policy", "only mode native"]);
    with(&["--policy", "sidle", "--shift", "500"]).failed(2, &["--shift"]);
    with(&["--policy", "sidle", "--measured", "900"]).failed(2, &["measured", "at least 1000 ms"]);
    for command in [
        &["tpch"][..],
        &["tpcds"],
        &["bench", "heap"],
        &["bench", "scan"],
    ] {
        let compared = [command, &["--compare-model"]].concat();
        run(compared.clone()).failed(2, &["--profile"]);
    }
    for command in [&["tpch"][..], &["bench", "heap"]] {
        let with_none = [command, &["--compare-model", "--profile", "none"]].concat();
        run(with_none).failed(2, &["--compare-model", "--profile"]);
    }
}

#[test]
fn hosts_whose_memory_cannot_be_used() {
    let folder = temp();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let run = |host: &str, secret: &str| {
        let arguments = ["sql", "--memory-host", host, "--memory-secret-file", secret];
        run([&arguments[..], &["-c", "SELECT 1"]].concat())
    };
    let secret = path("secret");
    run("127.0.0.1:1", &secret).failed(4, &["secret"]);
    fs::write(&secret, "a secret of two hosts").expect("written");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("protected");
    // Without a device, or without a server.
    let ran = run("127.0.0.1:1", &secret);
    ran.failed(9, &[]);
}

#[test]
fn operators_refuse_what_means_nothing_where_they_run() {
    let refused = |arguments: &str, told: &[&str]| {
        let arguments = arguments.split(' ');
        run(["bench", "operators"].into_iter().chain(arguments)).failed(2, told);
    };
    refused(
        "--virtual --copy-method cached",
        &["--copy-method", "--virtual"],
    );
    refused(
        "--copy-method fast",
        &["cached, non-temporal, movdir64b, idxd"],
    );
    refused("--pipeline-work sort", &["sum, filter, probe, mixed"]);
    refused("--rdma-threads 2", &["--virtual"]);
    refused(
        "--virtual --rdma-threads 2",
        &["rdma-threads", "--profile geyer-rdma"],
    );
    refused(
        "--virtual --profile geyer-rdma --rdma-threads 2000",
        &["rdma-threads", "1024"],
    );
    refused("--pipelines 1,2000", &["pipelines", "2000", "1024"]);
    refused("--integer-bytes 3", &["integer-bytes", "4 or 8"]);
    refused(
        "--virtual --integer-bytes 8",
        &["--integer-bytes", "--virtual"],
    );
    refused("--ring-depth 5000", &["ring-depth", "5000", "4096"]);
    refused("--virtual --table 9MB", &["table", "9000000", "8000000"]);
    refused(
        "--threads 5 --copiers 5 --copiers-in-share",
        &["copiers-in-share", "5 copiers"],
    );
}

#[test]
fn names_that_do_not_exist() {
    for command in ["tiers", "sql", "tpch"] {
        let ran = run([command, "--profile", "cxl-blade"]);
        ran.failed(3, &["\"cxl-blade\"", "cxl-blades-1", "./cxl-blade.toml"]);
    }
    run(["sql", "--budget", "fra=1GiB"]).failed(3, &["\"fra\"", "near"]);
    let ran = run(["sql", "--profile", "cxl-fpga", "--tablespace", "nowhere"]);
    ran.failed(3, &["\"nowhere\"", "near, far"]);
    let ran = run([
        "tpch",
        "--placement",
        "split:near=50%,nowhere",
        "--no-report",
    ]);
    ran.failed(3, &["\"nowhere\"", "near"]);
    let ran = run(["tpch", "--placement", "interleave:2", "--no-report"]);
    ran.failed(3, &["`interleave:2`", "interleave:N:F", "columns:BUDGET"]);
    let ran = run([
        "tpch",
        "--sf",
        "0.001",
        "--queries",
        "6",
        "--no-report",
        "--placement",
        "explicit:lineitem.l_quantiy",
    ]);
    ran.failed(3, &["`lineitem.l_quantiy`", "lineitem.l_quantity"]);
    let sql = "CREATE TABLE t AS SELECT 1 AS a; ALTER TABLE t ALTER COLUMN b SET TABLESPACE far";
    run(["sql", "--profile", "cxl-fpga", "-c", sql]).failed(3, &["`b`", "it has: a"]);
}

#[test]
fn profiles_with_missing_or_impossible_numbers() {
    let folder = temp();
    let builtin = include_str!("../../../nearfar-topology/profiles/cxl-blades-1.toml");
    let missing = builtin.replace("\n[far]\ndevices", "\n[far]\n# devices");
    let impossible = builtin.replace("value = 507", "value = -507");
    for (name, text, told) in [
        ("missing.toml", missing, "far.devices: is missing"),
        (
            "impossible.toml",
            impossible,
            "far.idle_latency_ns: -507 is not possible",
        ),
        ("other.toml", "name = ".to_owned(), "TOML parse error"),
    ] {
        fs::write(folder.path().join(name), text).expect("written");
        let ran = run_in(folder.path(), ["tiers", "--profile", name]);
        ran.failed(3, &[name, told]);
    }
    let ran = run_in(folder.path(), ["tiers", "--profile", "./none.toml"]);
    ran.failed(3, &["./none.toml", "No such file"]);
}

#[test]
fn budgets_that_do_not_fit() {
    run(["sql", "--near-budget", "999TiB"])
        .failed(6, &["\"near\"", "exceeds its capacity", "lower the budget"]);
    let ran = run(["sql", "--tpch", "0.01", "--near-budget", "1MiB"]);
    ran.failed(6, &["\"near\"", "raise the budget"]);
    let ran = run([
        "tpch",
        "--sf",
        "0.001",
        "--placement",
        "columns",
        "--near-budget",
        "999TiB",
    ]);
    ran.failed(6, &["columns:", "lower the near budget"]);
    let ran = run([
        "tpch",
        "--sf",
        "0.001",
        "--queries",
        "6",
        "--no-report",
        "--placement",
        "columns",
        "--near-budget",
        "1B",
    ]);
    ran.failed(6, &["1 bytes near", "raise the near budget"]);
}

/// A budget too small for what queries allocate is no reason not to run those that need none.
#[test]
fn a_budget_without_room_for_query_memory() {
    let ran = run([
        "sql",
        "--profile",
        "cxl-fpga",
        "--budget",
        "far=1MiB",
        "--format",
        "csv",
        "-c",
        "SELECT 1 AS a",
    ]);
    assert_eq!(ran.succeeded(), "a\n1\n");
}

#[test]
fn a_query_that_needs_more_than_its_limit_fails_alone() {
    let sql = "SELECT length(string_agg(repeat('x', 20), '')) FROM generate_series(1, 3000000)";
    let ran = run(["sql", "--memory-limit", "20MiB", "-c", sql]);
    ran.failed(6, &["out of memory", "20.0 MiB", "raise"]);
    let ran = run([
        "sql",
        "--memory-limit",
        "20MiB",
        "--format",
        "csv",
        "-c",
        "SELECT 1 AS a",
    ]);
    assert_eq!(ran.succeeded(), "a\n1\n");
}

#[test]
fn a_machine_without_a_far_tier_says_so() {
    let machine = Topology::this_machine().expect("a machine");
    if machine.tier(FAR).is_ok() {
        return;
    }
    let ran = run([
        "tpch",
        "--profile",
        "none",
        "--placement",
        "far",
        "--no-report",
    ]);
    ran.failed(9, &["far", "cxl-blades-1"]);
    let compared = ["--profile", "cxl-card", "--compare-model"];
    for command in [&["tpch", "--placement", "far"][..], &["bench", "heap"]] {
        let ran = run([command, &compared].concat());
        ran.failed(9, &["far", "profile"]);
    }
}

/// A report that cannot be written is found out before the run.
#[test]
fn a_report_without_a_folder() {
    let folder = temp();
    let ran = run_in(folder.path(), ["tpch", "--sf", "1000", "--report", "."]);
    ran.failed(7, &["cannot write .", "is a directory"]);
    let ran = run_in(folder.path(), ["sql", "-o", "/", "-c", "SELECT 1"]);
    ran.failed(7, &["cannot write /", "is a directory"]);
    let ran = run_in(
        folder.path(),
        ["tpch", "--sf", "1000", "--report", "no/where.html"],
    );
    ran.failed(7, &["no/where.html", "No such file"]);
}
