//! `nearfar sql --data`: tables that outlive the program.

use std::fs;

use crate::support::run;

#[test]
fn tables_outlive_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
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
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("letter.txt"), "mine").expect("written");
    let data = folder.path().to_str().expect("a name");
    run(["sql", "--data", data, "-c", "SELECT 1"]).failed(4, &["not a data directory"]);
    run(["sql", "-c", "CHECKPOINT"]).failed(5, &["--data DIR"]);
    run(["sql", "--log-sync", "off", "-c", "SELECT 1"]).failed(2, &["--data"]);
}
