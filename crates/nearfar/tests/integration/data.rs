//! `nearfar sql --data`: tables that outlive the program, and `nearfar bench insert`: what that costs.

use std::fs;

use nearfar_measure::results::{self, Metric};

use crate::support::{files_in, run, temp};

#[test]
fn tables_outlive_the_program() {
    let folder = temp();
    let data = folder.path().join("data");
    let data = data.to_str().expect("a name");
    let sql = |sql: &str| run(["sql", "--data", data, "--format", "csv", "-c", sql]);
    sql("CREATE TABLE t AS SELECT 1 AS a; INSERT INTO t VALUES (2)").succeeded();
    assert_eq!(sql("SELECT sum(a) AS s FROM t").succeeded(), "s\n3\n");
    sql("UPDATE t SET a = a * 10; CHECKPOINT; DELETE FROM t WHERE a = 10").succeeded();
    assert_eq!(sql("SELECT a FROM t").succeeded(), "a\n20\n");
    let synced = ["--log-sync", "off", "-c", "SHOW nearfar.log_sync"];
    let shown = run([&["sql", "--data", data, "--format", "csv"], &synced[..]].concat());
    assert!(shown.succeeded().contains("off"));
}

#[test]
fn what_can_not_be_a_data_directory_is_refused() {
    let folder = temp();
    fs::write(folder.path().join("letter.txt"), "mine").expect("written");
    let data = folder.path().to_str().expect("a name");
    run(["sql", "--data", data, "-c", "SELECT 1"]).failed(4, &["not a data directory"]);
    run(["sql", "-c", "CHECKPOINT"]).failed(5, &["--data DIR"]);
    run(["sql", "--log-sync", "off", "-c", "SELECT 1"]).failed(2, &["--data"]);
}

#[test]
fn inserts_with_a_data_directory_are_compared_with_those_in_memory() {
    let folder = temp();
    let path = folder.path().to_str().expect("UTF-8");
    let arguments = ["bench", "insert", "--directory", path, "--rounds", "1"];
    let with = |more: &[&str]| run([&arguments[..], more].concat());
    let json = with(&["--seconds", "0.01", "--format", "json"]).succeeded();
    let (header, metrics) = results::read(json.as_bytes()).expect("results");
    assert_eq!(header.configuration["rounds"], 1);
    for (sync, sessions, rows) in [("off", 1, 1), ("on", 1, 1), ("on", 16, 1), ("on", 1, 1000)] {
        let is_it = |metric: &&Metric| {
            metric.metric == "insert_ratio_to_memory"
                && metric.dimensions["sync"] == sync
                && metric.dimensions["sessions"] == sessions
                && metric.dimensions["rows_per_statement"] == rows
        };
        let ratio = metrics.iter().find(is_it).expect(sync);
        assert!(ratio.value.get() > Some(0.0), "{ratio:?}");
    }
    with(&["--seconds", "0"]).failed(2, &["seconds"]);
    assert_eq!(files_in(folder.path()), [""; 0]);
    let nowhere = folder.path().join("nowhere");
    let nowhere = nowhere.to_str().expect("UTF-8");
    run(["bench", "insert", "--directory", nowhere]).failed(7, &["nowhere"]);
}
