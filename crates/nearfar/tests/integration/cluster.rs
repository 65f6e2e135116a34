//! Clusters of real processes on this machine: answers are right, or errors clear.

mod copies;
mod kills;
mod shared;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nearfar_bench::cluster::{LocalCluster, query_rows};
use nearfar_bench::server_process::Signal;

use crate::support::{program, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nearfar");

fn cluster(folder: &Path, nodes: usize, is_kept: bool) -> LocalCluster {
    LocalCluster::start(Path::new(PROGRAM), folder, nodes, 1, is_kept).expect("a cluster")
}

fn rows(cluster: &LocalCluster, node: usize, sql: &str) -> Vec<Vec<String>> {
    texts(query_rows(cluster.address(node), sql).expect(sql))
}

/// Rows with a text for every value.
pub fn texts(rows: Vec<Vec<Option<String>>>) -> Vec<Vec<String>> {
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

/// A cluster with the tables of [`TABLES`].
fn filled(folder: &Path, nodes: usize) -> LocalCluster {
    let cluster = cluster(folder, nodes, true);
    for statement in TABLES.split(';') {
        rows(&cluster, 0, statement);
    }
    cluster
}

/// Checks that a node answers all of [`ANSWERS`] as one machine would.
fn check_answers(cluster: &LocalCluster, node: usize) {
    for (sql, expected) in ANSWERS {
        let found = joined(&rows(cluster, node, sql));
        assert_eq!(found, *expected, "{sql} on node {node}");
    }
}

/// Waits until `is_so`, for a minute at most.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Runs a script on the tables that an ended node has kept.
fn change_kept(folder: &Path, node: usize, sql: &str) {
    let data = folder.join(format!("data-{node}"));
    let data = data.to_str().expect("UTF-8");
    let ran = run(["sql", "--data", data, "-c", sql]);
    assert_eq!(ran.code, 0, "{ran:?}");
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
    // A filter makes a column constant by which a window is partitioned.
    (
        "SELECT count(*), max(s), sum(k) FROM (SELECT b, c, n, avg(sum(a)) OVER (PARTITION BY b, c, n) AS s, \
         rank() OVER (PARTITION BY b ORDER BY c, n) AS k FROM (SELECT a, b, a % 3 AS c, a % 7 AS n FROM t) AS y \
         WHERE c = 1 GROUP BY b, c, n) AS x WHERE c = 1",
        "70|62016.0000000000000000|280",
    ),
    ("SELECT count(*) FROM t WHERE a = 17 AND b = 'x7'", "1"),
    ("SELECT count(*) FROM t WHERE false", "0"),
    ("SELECT 1 + 1", "2"),
];

pub fn joined(rows: &[Vec<String>]) -> String {
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
fn replicated_tables_that_are_joined_are_not_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = filled(folder.path(), 3);
    let sent = |sql: &str| {
        let plan = joined(&rows(&cluster, 1, &format!("EXPLAIN ANALYZE {sql}")));
        plan.contains("NetworkBroadcastExec")
    };
    for (sql, expected) in [
        (
            "SELECT count(*) FROM t JOIN r ON t.a = r.a WHERE c > 'o'",
            "2",
        ),
        (
            "SELECT count(*) FROM t JOIN (SELECT x.a FROM r x JOIN r y ON x.a = y.a) z ON t.a = z.a",
            "2",
        ),
    ] {
        assert!(!sent(sql), "{sql}");
        assert_eq!(joined(&rows(&cluster, 0, sql)), expected, "{sql}");
    }
    // Each node might keep other rows, or draw other numbers.
    for sql in [
        "SELECT count(*) FROM t JOIN (SELECT a FROM r LIMIT 1) z ON t.a = z.a",
        "SELECT count(*) FROM t JOIN (SELECT a FROM r WHERE random() < 0.5) z ON t.a = z.a",
    ] {
        assert!(sent(sql), "{sql}");
    }
    // All tasks have the same rows of a limit, those of divided tables too.
    for _ in 0..4 {
        rows(&cluster, 0, "INSERT INTO r SELECT a, c FROM r");
    }
    for table in ["r", "t"] {
        let sql = format!("SELECT count(*) FROM t, (SELECT a FROM {table} LIMIT 1) z");
        assert_eq!(joined(&rows(&cluster, 2, &sql)), "5000", "{table}");
        let sql = format!(
            "SELECT count(DISTINCT z) FROM (SELECT z.a AS z FROM t, (SELECT a FROM {table} LIMIT 1) z) x"
        );
        assert_eq!(joined(&rows(&cluster, 2, &sql)), "1", "{table}");
    }
    let analyzed = joined(&rows(
        &cluster,
        1,
        "EXPLAIN ANALYZE SELECT count(*) FROM t, r",
    ));
    assert!(analyzed.contains("CrossJoinExec"), "{analyzed}");
    // Nothing of it is on another node.
    let alone = "EXPLAIN SELECT count(*) FROM r x JOIN r y ON x.a = y.a";
    let plan = joined(&rows(&cluster, 0, alone));
    assert!(!plan.contains("CoordinatedExec"), "{plan}");
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
        ("CALL nearfar.load('t')", "not known in a cluster"),
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
    let mut cluster = filled(folder.path(), 3);
    // In the middle of queries: each of them is right or fails.
    let (address, begun) = (cluster.address(0), Instant::now());
    let asking = thread::spawn(move || {
        let sql = "SELECT count(*), sum(u.v) FROM t JOIN u ON t.a = u.a";
        let mut failures = Vec::new();
        while begun.elapsed() < Duration::from_secs(8) {
            match query_rows(address, sql) {
                Ok(rows) => assert_eq!(rows[0][0].as_deref(), Some("2500"), "a wrong answer"),
                Err(error) => failures.push(error.to_string()),
            }
        }
        failures
    });
    thread::sleep(Duration::from_secs(3));
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
    check_answers(&cluster, 2);
    rows(&cluster, 2, "INSERT INTO t VALUES (6000, 'y')");
    assert_eq!(joined(&rows(&cluster, 1, "SELECT count(*) FROM t")), "5001");
}

#[test]
fn only_nodes_with_certificates_are_heard() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = cluster(folder.path(), 1, false);
    let file = fs::read_to_string(cluster.file()).expect("the file");
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

#[test]
fn a_cluster_of_one_plans_as_without_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let alone = cluster(folder.path(), 1, true);
    for statement in TABLES.split(';') {
        rows(&alone, 0, statement);
    }
    let sql = "EXPLAIN SELECT count(DISTINCT b) FROM t JOIN u ON t.a = u.a";
    let plan = joined(&rows(&alone, 0, sql));
    for part in ["ClusterScan", "CoordinatedExec", "Network"] {
        assert!(!plan.contains(part), "{part} in {plan}");
    }
    for (sql, part) in [
        ("CREATE TABLE x (a INT)", "DISTRIBUTED BY"),
        (
            "BEGIN; INSERT INTO t VALUES (1, 'x')",
            "end the transaction",
        ),
        ("UPDATE t SET a = 1", "not known in a cluster"),
    ] {
        let error = error(&alone, 0, sql);
        assert!(error.contains(part), "{sql}: {error}");
    }
    assert_eq!(joined(&rows(&alone, 0, "SELECT count(*) FROM t")), "5000");
}

#[test]
fn a_node_joins_by_the_address_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = filled(folder.path(), 2);
    cluster.kill(1);
    cluster.rejoin(1, 0).expect("it joins");
    check_answers(&cluster, 1);
}

#[test]
fn a_node_that_is_asked_to_end_waits_for_queries_of_others_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = filled(folder.path(), 2);
    let address = cluster.address(0);
    let asking = thread::spawn(move || {
        query_rows(address, "SELECT count(*), pg_sleep(15) FROM t").expect("rows")[0][0].clone()
    });
    let pins = |cluster: &LocalCluster| cluster.metric(1, "nearfar_cluster_pins").expect("pins");
    wait_until("a query is pinned", || pins(&cluster) == 1);
    cluster.signal(1, Signal::Terminate).expect("sent");
    let mut told = String::new();
    wait_until("a query is refused", || {
        let refused = query_rows(address, "SELECT count(*) FROM t");
        told = refused
            .err()
            .map_or_else(String::new, |error| error.to_string());
        !told.is_empty()
    });
    assert!(told.contains("node `w2` is being stopped"), "{told}");
    assert!(!told.contains("does not answer"), "{told}");
    let answer = asking.join().expect("the query that ran has its answer");
    assert_eq!(answer.as_deref(), Some("5000"));
    assert_eq!(cluster.wait(1).expect("it ends"), Some(0));
    cluster.restart(1).expect("it starts again");
    check_answers(&cluster, 0);
}

#[test]
fn nothing_stays_of_queries_and_loads_that_have_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = filled(folder.path(), 2);
    for node in 0..2 {
        check_answers(&cluster, node);
        for rows in [1, 3000, 200_000] {
            let sql = format!(
                "INSERT INTO t SELECT 1 / (value - {rows}), 'y' FROM generate_series(1, {rows}) t(value)"
            );
            assert!(error(&cluster, node, &sql).contains("zero"), "{sql}");
        }
    }
    for node in 0..2 {
        for metric in ["nearfar_cluster_pins", "nearfar_cluster_loads"] {
            let left = || cluster.metric(node, metric).expect(metric);
            wait_until(metric, || left() == 0);
        }
        check_answers(&cluster, node);
    }
}

#[test]
fn nothing_stays_of_a_load_whose_coordinator_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = filled(folder.path(), 3);
    let file = folder.path().join("rows.csv");
    let lines = (0..4_000_000).map(|row| format!("{row},row\n"));
    fs::write(&file, lines.collect::<String>()).expect("written");
    let insert = "INSERT INTO t SELECT value, 'y' FROM generate_series(1, 100000000)";
    let copy = format!("COPY t FROM '{}' (FORMAT csv)", file.display());
    for load in [insert.to_owned(), copy] {
        let address = cluster.address(2);
        let loading = thread::spawn(move || query_rows(address, &load).expect_err("it is killed"));
        let loads = |cluster: &LocalCluster, node| {
            cluster
                .metric(node, "nearfar_cluster_loads")
                .expect("loads")
        };
        wait_until("rows arrive", || {
            loads(&cluster, 0) == 1 && loads(&cluster, 1) == 1
        });
        cluster.kill(2);
        loading.join().expect("it fails");
        wait_until("the load is given up", || {
            loads(&cluster, 0) == 0 && loads(&cluster, 1) == 0
        });
        cluster.restart(2).expect("it starts again");
        check_answers(&cluster, 1);
    }
    // Nor do other nodes wait for what is over.
    let begun = Instant::now();
    cluster.signal(1, Signal::Terminate).expect("sent");
    assert_eq!(cluster.wait(1).expect("it ends"), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10), "it has waited");
}

#[test]
fn a_node_that_is_cut_off_is_named_and_takes_part_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = filled(folder.path(), 3);
    let up = |node| {
        let name = format!("nearfar_cluster_up{{node=\"{node}\"}}");
        cluster.metric(0, &name).expect("up")
    };
    assert_eq!(["w1", "w2", "w3"].map(up), [1, 1, 1]);
    cluster.signal(2, Signal::Stop).expect("sent");
    for sql in ["SELECT count(*) FROM t", "INSERT INTO t VALUES (6000, 'y')"] {
        let begun = Instant::now();
        let told = error(&cluster, 0, sql);
        assert!(told.contains("`w3`"), "{sql}: {told}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{sql}");
    }
    assert_eq!(joined(&rows(&cluster, 0, "SELECT count(*) FROM r")), "3");
    wait_until("the metrics say so", || {
        ["w1", "w2", "w3"].map(up) == [1, 1, 0]
    });
    cluster.signal(2, Signal::Continue).expect("sent");
    wait_until("it is back", || ["w1", "w2", "w3"].map(up) == [1, 1, 1]);
    check_answers(&cluster, 0);
    check_answers(&cluster, 2);
}

#[test]
fn a_node_that_has_lost_its_tables_or_has_others_is_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = filled(folder.path(), 2);
    // The same number of steps, of which the last was another one.
    cluster.kill(1);
    change_kept(
        folder.path(),
        1,
        "UPDATE nearfar_cluster_state SET step = step - 1",
    );
    cluster.restart(1).expect("it starts again");
    for (sql, part) in [
        ("SELECT count(*) FROM t", "in different states"),
        ("INSERT INTO t VALUES (6000, 'y')", "missed a change"),
    ] {
        let told = error(&cluster, 0, sql);
        assert!(
            told.contains("`w2`") && told.contains(part),
            "{sql}: {told}"
        );
    }
    cluster.kill(1);
    change_kept(
        folder.path(),
        1,
        "UPDATE nearfar_cluster_state SET step = step + 1",
    );
    cluster.restart(1).expect("it starts again");
    check_answers(&cluster, 0);
    cluster.kill(1);
    fs::remove_dir_all(folder.path().join("data-1")).expect("removed");
    cluster.restart(1).expect("it starts again");
    let told = error(&cluster, 0, "SELECT count(*) FROM t");
    assert!(told.contains("`w2` at 0 "), "{told}");
}

#[test]
fn directories_whose_steps_have_no_numbers_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = filled(folder.path(), 2);
    cluster.kill(0);
    cluster.kill(1);
    for node in 0..2 {
        let sql = "ALTER TABLE nearfar_cluster_state DROP COLUMN step";
        change_kept(folder.path(), node, sql);
    }
    // None is ready before the other is.
    cluster.restart_all().expect("they start again");
    check_answers(&cluster, 0);
    rows(&cluster, 1, "INSERT INTO t VALUES (6000, 'y')");
    assert_eq!(joined(&rows(&cluster, 0, "SELECT count(*) FROM t")), "5001");
}

#[test]
fn a_node_with_another_list_of_nodes_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = filled(folder.path(), 2);
    cluster.kill(1);
    let text = fs::read_to_string(cluster.file()).expect("the file");
    let other = folder.path().join("other.toml");
    let third = "\n[[node]]\nname = \"w3\"\naddress = \"127.0.0.1:9\"\n";
    fs::write(&other, text + third).expect("written");
    let starting = program()
        .args([
            "serve",
            "--port",
            "0",
            "--no-http",
            "--node",
            "w2",
            "--cluster",
        ])
        .arg(&other)
        .output()
        .expect("it runs");
    assert!(!starting.status.success());
    let said = String::from_utf8_lossy(&starting.stderr);
    assert!(
        said.contains("has another cluster file: cluster `local` of w1, w2, w3"),
        "{said}"
    );
    cluster.restart(1).expect("it starts with the right one");
    check_answers(&cluster, 1);
}

#[test]
fn each_node_keeps_to_its_own_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = filled(folder.path(), 2);
    cluster.kill(1);
    cluster
        .restart_with(1, &["--budget", "near=256MiB"])
        .expect("it starts again");
    let told = error(
        &cluster,
        0,
        "INSERT INTO t SELECT value, repeat('x', 2000) || value FROM generate_series(1, 400000)",
    );
    assert!(
        told.contains("node `w2`") && told.contains("near"),
        "{told}"
    );
    check_answers(&cluster, 0);
    rows(&cluster, 0, "INSERT INTO t VALUES (6000, 'y')");
    assert_eq!(joined(&rows(&cluster, 1, "SELECT count(*) FROM t")), "5001");
}

#[test]
fn a_simulation_runs_nothing_and_says_that_it_is_modelled() {
    let told = run([
        "bench",
        "cluster",
        "--simulate",
        "1,100",
        "--format",
        "json",
    ])
    .succeeded();
    let figures: Vec<&str> = told.lines().skip(1).collect();
    assert_eq!(figures.len(), 24, "{told}");
    assert!(
        figures.iter().all(|line| line.contains("\"modelled\"")),
        "{told}"
    );
    run(["bench", "cluster", "--simulate", "1", "--workers", "2"]).failed(2, &["--workers"]);
}

/// `l` and `o` are divided by the key that they are joined by, and `p` by another one.
const JOINED_TABLES: &str = "
    CREATE TABLE l (k INT, q INT) DISTRIBUTED BY (k);
    CREATE TABLE o (k INT, c INT) DISTRIBUTED BY (k);
    CREATE TABLE p (c INT, k INT) DISTRIBUTED BY (c);
    INSERT INTO l SELECT value % 200000, value % 7 FROM generate_series(1, 400000);
    INSERT INTO o SELECT value, value % 1000 FROM generate_series(1, 300000);
    INSERT INTO p SELECT value % 1000, value * 3 FROM generate_series(1, 300000);
    INSERT INTO o VALUES (NULL, 1), (NULL, 2)";

/// Joins that are made where rows are, alone and below and beside others.
const JOINS: &[&str] = &[
    "SELECT count(*), sum(q), sum(c) FROM l JOIN o ON l.k = o.k",
    "SELECT count(*), sum(q), sum(c) FROM l LEFT JOIN o ON l.k = o.k AND o.c < 500",
    "SELECT count(*), sum(q), sum(c) FROM l RIGHT JOIN o ON l.k = o.k",
    "SELECT count(*), sum(q), sum(c) FROM l FULL JOIN o ON l.k = o.k",
    "SELECT count(*), sum(c) FROM o WHERE EXISTS (SELECT 1 FROM l WHERE l.k = o.k AND q = 3)",
    "SELECT count(*), sum(c) FROM o WHERE NOT EXISTS (SELECT 1 FROM l WHERE l.k = o.k)",
    "SELECT count(*) FROM l WHERE k NOT IN (SELECT k FROM o WHERE k IS NOT NULL)",
    "SELECT count(*) FROM l WHERE k NOT IN (SELECT k FROM o)",
    "SELECT count(*), sum(n) FROM (SELECT o.k, count(*) AS n FROM l JOIN o ON l.k = o.k GROUP BY o.k) x",
    "SELECT count(*), sum(l.q + m.q) FROM l JOIN o ON l.k = o.k JOIN l m ON m.k = o.k",
    "SELECT count(*), sum(q) FROM l JOIN o ON l.k = o.k JOIN p ON p.k = l.k",
    "SELECT count(*), sum(q) FROM p JOIN o ON p.k = o.k LEFT JOIN l ON l.k = o.k",
    "SELECT count(*), sum(q) FROM l JOIN o ON l.k = o.k JOIN p ON p.c = o.c WHERE p.k < 9000",
    "SELECT count(*), sum(s) FROM o JOIN (SELECT k, sum(q) AS s FROM l GROUP BY k) x ON x.k = o.k",
    "SELECT count(*), sum(n) FROM (SELECT k, count(*) AS n FROM (SELECT o.k FROM l JOIN o ON l.k = o.k \
     UNION ALL SELECT k FROM p) x GROUP BY k) y",
    "SELECT max(r), sum(r) FROM (SELECT row_number() OVER (PARTITION BY l.k) AS r FROM l JOIN o ON l.k = o.k) x",
    "SELECT count(*), sum(q) FROM l JOIN o ON l.k = o.k AND l.q = o.c",
    "SELECT count(*), sum(q) FROM l JOIN o ON l.q = o.c WHERE o.k < 1000",
    "SELECT count(*), sum(q) FROM l JOIN o ON l.k + 1 = o.k",
];

#[test]
fn joins_by_the_key_that_divides_both_tables_send_no_rows() {
    let (folder, other) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    );
    let (cluster, alone) = (
        cluster(folder.path(), 3, false),
        cluster(other.path(), 1, false),
    );
    for statement in JOINED_TABLES.split(';') {
        rows(&cluster, 0, statement);
        rows(&alone, 0, statement);
    }
    let explain = |sql: &str| joined(&rows(&cluster, 0, &format!("EXPLAIN {sql}")));
    assert!(explain(JOINS[0]).contains("InPlaceExec"));
    let plan = explain(&format!("ANALYZE {}", JOINS[0]));
    for exchange in ["NetworkShuffleExec", "NetworkBroadcastExec"] {
        assert!(!plan.contains(exchange), "{plan}");
    }
    let by_another_key = explain("SELECT count(*) FROM o JOIN p ON o.k = p.k");
    assert!(!by_another_key.contains("InPlaceExec"), "{by_another_key}");
    for sql in JOINS {
        let expected = joined(&rows(&alone, 0, sql));
        assert_eq!(
            joined(&rows(&cluster, 1, sql)),
            expected,
            "{sql}\n{}",
            explain(sql)
        );
    }
}
