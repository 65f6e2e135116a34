//! Clusters of real processes on this machine: answers are right, or errors clear.

use std::path::Path;

use nearfar_bench::cluster::{LocalCluster, query_rows};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nearfar");

fn cluster(folder: &Path, nodes: usize, is_kept: bool) -> LocalCluster {
    LocalCluster::start(Path::new(PROGRAM), folder, nodes, 1, is_kept).expect("a cluster")
}

fn rows(cluster: &LocalCluster, node: usize, sql: &str) -> Vec<Vec<String>> {
    let rows = query_rows(cluster.address(node), sql).expect(sql);
    let text = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
    rows.into_iter()
        .map(|row| row.into_iter().map(text).collect())
        .collect()
}

fn error(cluster: &LocalCluster, node: usize, sql: &str) -> String {
    query_rows(cluster.address(node), sql)
        .expect_err(sql)
        .to_string()
}

const TABLES: &str = "
    CREATE TABLE t (a INT, b TEXT) DISTRIBUTED BY (a);
    CREATE TABLE u (a BIGINT, v NUMERIC(10,2)) DISTRIBUTED BY (a);
    CREATE TABLE r (a INT, c TEXT) REPLICATED;
    INSERT INTO t SELECT value, 'x' || value % 10 FROM generate_series(1, 5000);
    INSERT INTO u SELECT value, value / 4.0 FROM generate_series(1, 5000, 2);
    INSERT INTO r VALUES (1, 'one'), (2, 'two'), (7000, 'many')";

/// Queries of all shapes that are cut into stages, with answers that follow from the rows.
const ANSWERS: &[(&str, &str)] = &[
    (
        "SELECT count(*), sum(a), min(b), max(b) FROM t",
        "5000|12502500|x0|x9",
    ),
    ("SELECT count(*) FROM r", "3"),
    (
        "SELECT a, b FROM t WHERE a < 4 ORDER BY a",
        "1|x1;2|x2;3|x3",
    ),
    (
        "SELECT b, count(*) FROM t GROUP BY b ORDER BY b LIMIT 2",
        "x0|500;x1|500",
    ),
    (
        "SELECT count(*), sum(u.v) FROM t JOIN u ON t.a = u.a",
        "2500|1562500.00",
    ),
    (
        "SELECT t.a, c FROM t JOIN r ON t.a = r.a ORDER BY 1",
        "1|one;2|two",
    ),
    (
        "SELECT r.c, t.b FROM r LEFT JOIN t ON t.a = r.a ORDER BY r.a",
        "one|x1;two|x2;many|NULL",
    ),
    (
        "SELECT count(*) FROM t FULL JOIN u ON t.a = u.a + 4999",
        "7499",
    ),
    (
        "SELECT count(*) FROM t WHERE a NOT IN (SELECT a FROM u)",
        "2500",
    ),
    (
        "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM r WHERE r.a = t.a)",
        "2",
    ),
    ("SELECT count(*) FROM t, r", "15000"),
    (
        "SELECT max(a) FROM (SELECT a FROM t UNION ALL SELECT 9999) AS x",
        "9999",
    ),
    (
        "SELECT count(*) FROM (SELECT a FROM t INTERSECT SELECT a FROM u) AS x",
        "2500",
    ),
    (
        "SELECT c, (SELECT count(*) FROM t WHERE t.a > r.a) FROM r ORDER BY r.a",
        "one|4999;two|4998;many|0",
    ),
    (
        "SELECT a, rank() OVER (ORDER BY a DESC) FROM t ORDER BY a DESC LIMIT 2",
        "5000|1;4999|2",
    ),
    (
        "SELECT count(DISTINCT b), sum(CAST(a AS BIGINT) * 2) FROM t",
        "10|25005000",
    ),
    ("SELECT count(*) FROM t WHERE a = 17 AND b = 'x7'", "1"),
    ("SELECT count(*) FROM t WHERE false", "0"),
    ("SELECT 1 + 1", "2"),
];

fn joined(rows: &[Vec<String>]) -> String {
    let rows = rows.iter().map(|row| row.join("|"));
    rows.collect::<Vec<_>>().join(";")
}

#[test]
fn any_node_answers_as_one_machine_would() {
    for nodes in [1, 3] {
        let folder = tempfile::tempdir().expect("a folder");
        let cluster = cluster(folder.path(), nodes, false);
        for statement in TABLES.split(';') {
            rows(&cluster, nodes - 1, statement);
        }
        for (sql, expected) in ANSWERS {
            for node in [0, nodes - 1] {
                let found = joined(&rows(&cluster, node, sql));
                assert_eq!(found, *expected, "{sql} on node {node} of {nodes}");
            }
        }
        let bytes = cluster.exchanged_bytes().expect("metrics");
        assert!(bytes > 0, "nodes have talked");
    }
}

#[test]
fn what_a_cluster_does_not_know_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = cluster(folder.path(), 2, false);
    for statement in TABLES.split(';') {
        rows(&cluster, 0, statement);
    }
    for (sql, part) in [
        ("CREATE TABLE x (a INT)", "DISTRIBUTED BY"),
        ("CREATE TABLE x (a INT PRIMARY KEY) REPLICATED", "PRIMARY"),
        ("CREATE TABLE x (a INT) DISTRIBUTED BY (b)", "no column `b`"),
        ("CREATE TABLE t (a INT) REPLICATED", "exists already"),
        ("UPDATE t SET a = 1", "not known in a cluster"),
        ("DELETE FROM t", "not known in a cluster"),
        ("TRUNCATE ONLY t", "one by one"),
        ("/* all */ TRUNCATE t, u", "one by one"),
        ("DROP TABLE public.t, u", "one by one"),
        (
            "BEGIN; INSERT INTO t VALUES (1, 'x')",
            "end the transaction",
        ),
        ("INSERT INTO t SELECT a / 0, b FROM t", "zero"),
    ] {
        let error = error(&cluster, 0, sql);
        assert!(error.contains(part), "{sql}: {error}");
    }
    // Nothing of what failed is there.
    assert_eq!(joined(&rows(&cluster, 1, "SELECT count(*) FROM t")), "5000");
    rows(&cluster, 0, "/* all */ TRUNCATE /* rows */ public.t");
    assert_eq!(joined(&rows(&cluster, 1, "SELECT count(*) FROM t")), "0");
    rows(&cluster, 1, "DROP TABLE u");
    assert!(error(&cluster, 0, "SELECT * FROM u").contains("u"));
}

#[test]
fn a_node_that_is_killed_is_named_and_comes_back_with_its_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = cluster(folder.path(), 3, true);
    for statement in TABLES.split(';') {
        rows(&cluster, 0, statement);
    }
    // In the middle of queries: each of them is right or fails.
    let (address, begun) = (cluster.address(0), std::time::Instant::now());
    let asking = std::thread::spawn(move || {
        let sql = "SELECT count(*), sum(u.v) FROM t JOIN u ON t.a = u.a";
        let mut failures = Vec::new();
        while begun.elapsed() < std::time::Duration::from_secs(8) {
            match query_rows(address, sql) {
                Ok(rows) => assert_eq!(rows[0][0].as_deref(), Some("2500"), "a wrong answer"),
                Err(error) => failures.push(error.to_string()),
            }
        }
        failures
    });
    std::thread::sleep(std::time::Duration::from_secs(3));
    cluster.kill(2);
    let failures = asking.join().expect("no wrong answer");
    assert!(!failures.is_empty(), "a node is gone");
    let unnamed = failures.iter().find(|error| !error.contains("`w3`"));
    assert_eq!(unnamed, None, "the node is named");
    // All rows of this table are on the others too.
    assert_eq!(joined(&rows(&cluster, 1, "SELECT count(*) FROM r")), "3");
    let refused = error(&cluster, 1, "INSERT INTO t VALUES (6000, 'y')");
    assert!(refused.contains("`w3`"), "{refused}");
    cluster.restart(2).expect("it starts again");
    for (sql, expected) in ANSWERS {
        assert_eq!(
            joined(&rows(&cluster, 2, sql)),
            *expected,
            "{sql} after the restart"
        );
    }
    rows(&cluster, 2, "INSERT INTO t VALUES (6000, 'y')");
    assert_eq!(joined(&rows(&cluster, 1, "SELECT count(*) FROM t")), "5001");
}

#[test]
fn only_nodes_with_certificates_are_heard() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = cluster(folder.path(), 1, false);
    let file = std::fs::read_to_string(cluster.file()).expect("the file");
    // Another authority's certificates.
    let other = tempfile::tempdir().expect("a folder");
    let _other =
        LocalCluster::start(Path::new(PROGRAM), other.path(), 1, 1, false).expect("a cluster");
    let address = file
        .lines()
        .find_map(|line| line.strip_prefix("address = "))
        .expect("an address");
    let joining = std::process::Command::new(PROGRAM)
        .args([
            "serve",
            "--port",
            "0",
            "--no-http",
            "--node",
            "w1",
            "--join",
        ])
        .arg(address.trim_matches('"'))
        .arg("--certificates")
        .arg(other.path())
        .output()
        .expect("it runs");
    assert!(!joining.status.success());
    let said = String::from_utf8_lossy(&joining.stderr);
    assert!(said.contains("does not answer"), "{said}");
}
