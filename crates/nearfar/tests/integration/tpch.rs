//! `nearfar tpch`, `nearfar tpcds`, `nearfar bench tpch`, `nearfar bench tpcds` and `nearfar bench restart`.

use nearfar_measure::results::{self, Metric};

use crate::support::{files_in, run, run_in, temp};

#[test]
fn placements_are_compared_and_reported() {
    let folder = temp();
    let arguments = [
        "tpch",
        "--sf",
        "0.01",
        "--runs",
        "1",
        "--queries",
        "1,3,6,18",
        "--profile",
        "cxl-blades-1",
    ];
    let ran = run_in(folder.path(), arguments);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("nearfar-tpch.html"), "{ran:?}");
    assert!(
        ran.stdout.contains("4 of 4 equal those of DataFusion"),
        "{ran:?}"
    );
    for placement in [
        "near",
        "far",
        "interleave:1:1",
        "interleave:2:1",
        "columns:25%",
    ] {
        let row = ran
            .stdout
            .lines()
            .find(|line| line.starts_with(&format!(" {placement} ")));
        let row = row.unwrap_or_else(|| panic!("{placement} is missing: {ran:?}"));
        let kind = if placement == "near" {
            "measured"
        } else {
            "modelled"
        };
        assert!(row.contains(kind) && row.contains("iB"), "{row}");
    }
    assert!(
        ran.stdout.contains("0.71-0.73"),
        "published figures: {ran:?}"
    );
    assert_eq!(files_in(folder.path()), ["nearfar-tpch.html"]);
    let page = std::fs::read_to_string(folder.path().join("nearfar-tpch.html")).expect("read");
    assert!(
        page.ends_with("</html>\n") && page.contains("<svg"),
        "{} bytes",
        page.len()
    );
    assert!(
        !page.contains("<script") && !page.contains("http"),
        "{page}"
    );
}

#[test]
fn json_is_for_programs() {
    let arguments = [
        "tpch",
        "--sf",
        "0.001",
        "--runs",
        "2",
        "--queries",
        "6",
        "--no-check",
    ];
    let more = [
        "--placement",
        "columns",
        "--near-budget",
        "4",
        "--format",
        "json",
        "--no-report",
    ];
    let text = run([&arguments[..], &more].concat()).succeeded();
    let (header, metrics) = results::read(text.as_bytes()).expect("the documented schema");
    assert_eq!(
        header.configuration["placements"],
        serde_json::json!(["near", "columns:4"])
    );
    let throughput = metrics.iter().find(|metric| {
        metric.metric == "tpch_relative_throughput"
            && metric
                .dimensions
                .get("placement")
                .is_some_and(|name| name == "columns:4")
    });
    assert!(throughput.is_some_and(|metric| metric.value.get().is_some_and(|ratio| ratio > 0.0)));
}

#[test]
fn tpcds_runs_under_placements_and_against_others() {
    let folder = temp();
    let queries = ["--sf", "0.01", "--runs", "1", "--queries", "3,52,96"];
    let arguments = [
        &["tpcds", "--placement", "far", "--format", "json"],
        &queries[..],
    ]
    .concat();
    let ran = run_in(folder.path(), arguments);
    assert_eq!(ran.code, 0, "{ran:?}");
    let (header, metrics) = results::read(ran.stdout.as_bytes()).expect("results");
    assert_eq!(header.configuration["benchmark"], "TPC-DS");
    let value = |metrics: &[Metric], name: &str| {
        let found = metrics.iter().find(|metric| metric.metric == name);
        found.and_then(|metric| metric.value.get())
    };
    assert_eq!(value(&metrics, "tpcds_checked_queries"), Some(3.0));
    assert!(value(&metrics, "throughput_ratio_to_near").is_some_and(|ratio| ratio > 0.0));
    assert!(
        metrics
            .iter()
            .all(|metric| !metric.metric.starts_with("tpch"))
    );
    assert_eq!(files_in(folder.path()), ["nearfar-tpcds.html"]);

    let path = folder.path().to_str().expect("UTF-8");
    let arguments = ["bench", "tpcds", "--load-runs", "1", "--directory", path];
    let json = run([&arguments[..], &queries, &["--format", "json"]].concat()).succeeded();
    let (_, metrics) = results::read(json.as_bytes()).expect("results");
    assert_eq!(value(&metrics, "tpcds_queries_right"), Some(3.0));
    assert!(value(&metrics, "tpcds_geomean_ratio_memtable").is_some_and(|ratio| ratio > 0.0));
}

#[test]
fn engines_are_compared() {
    let folder = temp();
    let path = folder.path().to_str().expect("UTF-8");
    let arguments = [
        "bench",
        "tpch",
        "--sf",
        "0.001",
        "--runs",
        "1",
        "--load-runs",
        "1",
    ];
    let more = ["--queries", "6", "--directory", path];
    let table = run([&arguments[..], &more].concat()).succeeded();
    assert!(
        table.contains("geomean") && table.contains("MemTable"),
        "{table}"
    );
    let rival = [
        "--rival",
        "duckdb",
        "--python",
        "no-such-python",
        "--format",
        "json",
    ];
    let ran = run([&arguments[..], &more, &rival].concat());
    ran.failed(9, &["DuckDB", "no-such-python"]);
    let (_, metrics) = results::read(ran.stdout.as_bytes()).expect("results");
    let ratio = |name: &str| metrics.iter().find(|metric| metric.metric == name);
    assert!(ratio("tpch_geomean_ratio_memtable").is_some_and(|ratio| ratio.value.is_known()));
    assert!(ratio("tpch_geomean_ratio_duckdb").is_some_and(|ratio| !ratio.value.is_known()));
    assert_eq!(files_in(folder.path()), [""; 0]);
}

#[test]
fn restarts_are_compared() {
    let folder = temp();
    let path = folder.path().to_str().expect("UTF-8");
    let arguments = ["bench", "restart", "--sf", "0.01", "--runs", "1"];
    let folders = ["--pool-dir", path, "--directory", path];
    let more = ["--python", "no-such-python", "--format", "json"];
    let json = run([&arguments[..], &folders, &more].concat()).succeeded();
    let (header, metrics) = results::read(json.as_bytes()).expect("results");
    assert!(
        header.unavailable.iter().any(|gap| gap.what == "duckdb"),
        "{header:?}"
    );
    for (name, dimension) in [
        ("attach_ratio_to_reload", "reload"),
        ("verify_ratio_to_reload", "reload"),
        ("first_query_ms", "start"),
    ] {
        for of in ["parquet", "data-directory-loaded"] {
            let is_of = |of| {
                move |metric: &&Metric| {
                    metric.metric == name
                        && metric.dimensions[dimension] == of
                        && metric.dimensions["scale_factor"] == 0.01
                }
            };
            let value = metrics
                .iter()
                .find(is_of(of))
                .and_then(|metric| metric.value.get());
            assert!(
                value.is_some_and(|value| value > 0.0),
                "{name} of {of}: {value:?}"
            );
            let duckdb = metrics.iter().find(is_of("duckdb-warmed"));
            assert!(
                duckdb.is_some_and(|metric| !metric.value.is_known()),
                "{duckdb:?}"
            );
        }
    }
    assert_eq!(files_in(folder.path()), [""; 0]);
    let wrong = ["bench", "restart", "--sf", "0"];
    run([&wrong[..], &folders].concat()).failed(2, &["scale factor"]);
}
