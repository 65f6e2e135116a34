//! Tables of which each row is on two nodes: one node may be gone.

use std::thread;
use std::time::{Duration, Instant};

use nearfar_bench::cluster::{LocalCluster, query_rows};
use nearfar_bench::server_process::Signal;

use crate::support::SmallDisk;

use super::{ANSWERS, check_answers, cluster, error, joined, rows, wait_until};

/// The tables of [`super::TABLES`], two copies of each share.
fn copied(folder: &std::path::Path, nodes: usize) -> LocalCluster {
    let cluster = cluster(folder, nodes, true);
    for statement in super::TABLES.split(';') {
        let statement = statement.replace("DISTRIBUTED BY (a)", "DISTRIBUTED BY (a) COPIES 2");
        rows(&cluster, 0, &statement);
    }
    cluster
}

/// A query that takes seconds where rows are.
const LONG: &str = "SELECT count(*) FROM t x, t y WHERE x.a * y.a % 7 = 3";

#[test]
fn any_one_node_may_be_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = copied(folder.path(), 3);
    for node in 0..3 {
        check_answers(&cluster, node);
    }
    for gone in 0..3 {
        cluster.kill(gone);
        let (one, other) = ((gone + 1) % 3, (gone + 2) % 3);
        check_answers(&cluster, one);
        check_answers(&cluster, other);
        let refused = error(&cluster, one, "INSERT INTO t VALUES (6000, 'y')");
        assert!(
            refused.contains(&format!("`w{}`", gone + 1)),
            "changes need all nodes: {refused}"
        );
        cluster.restart(gone).expect("it starts again");
        check_answers(&cluster, gone);
    }
    rows(&cluster, 1, "INSERT INTO t VALUES (6000, 'y')");
    rows(&cluster, 2, "TRUNCATE u");
    cluster.kill(0);
    let counted = "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)";
    assert_eq!(joined(&rows(&cluster, 1, counted)), "5001|0");
    cluster.kill(1);
    let told = error(&cluster, 2, "SELECT count(*) FROM t");
    assert!(
        told.contains("`w1`") && told.contains("one other, which is missing too"),
        "{told}"
    );
    assert_eq!(joined(&rows(&cluster, 2, "SELECT count(*) FROM r")), "3");
}

#[test]
fn a_query_that_loses_a_node_is_run_again_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = copied(folder.path(), 3);
    let expected = rows(&cluster, 0, LONG);
    for lost in [1, 2] {
        let address = cluster.address(0);
        let asking = thread::spawn(move || query_rows(address, LONG).expect("an answer"));
        let pins = |cluster: &LocalCluster| cluster.metric(lost, "nearfar_cluster_pins");
        wait_until("a query is pinned", || pins(&cluster).expect("pins") == 1);
        thread::sleep(Duration::from_millis(300));
        cluster.kill(lost);
        // As soon as it is there again, it knows nothing of the query.
        cluster.restart(lost).expect("it starts again");
        let answer = asking.join().expect("an answer");
        assert_eq!(answer[0][0].as_deref(), Some(expected[0][0].as_str()));
    }
    let retries = cluster.metric(0, "nearfar_cluster_retries_total");
    assert_eq!(retries.expect("retries"), 2);
    let failures = cluster.metric(0, "nearfar_cluster_failures_total");
    assert_eq!(failures.expect("failures"), 0);
    check_answers(&cluster, 0);
}

#[test]
fn a_node_that_is_cut_off_or_stops_is_done_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = copied(folder.path(), 3);
    cluster.signal(2, Signal::Stop).expect("sent");
    // Until it is missed.
    check_answers(&cluster, 0);
    let begun = Instant::now();
    for (sql, expected) in &ANSWERS[..3] {
        assert_eq!(joined(&rows(&cluster, 0, sql)), *expected, "{sql}");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "a node of which nothing is heard is waited for: {:?}",
        begun.elapsed()
    );
    cluster.signal(2, Signal::Continue).expect("sent");
    let up = "nearfar_cluster_up{node=\"w3\"}";
    wait_until("it is back", || cluster.metric(0, up).expect("up") == 1);
    check_answers(&cluster, 2);
    cluster.signal(1, Signal::Terminate).expect("sent");
    check_answers(&cluster, 0);
    assert_eq!(cluster.wait(1).expect("it ends"), Some(0));
    check_answers(&cluster, 2);
}

/// The number of the last step that a node has taken.
fn state(cluster: &LocalCluster, node: usize) -> String {
    joined(&rows(
        cluster,
        node,
        "SELECT version, step FROM nearfar_cluster_state",
    ))
}

#[test]
fn a_node_without_its_tables_gets_them_from_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = copied(folder.path(), 3);
    for lost in [1, 0] {
        let (one, other) = ((lost + 1) % 3, (lost + 2) % 3);
        cluster.kill(lost);
        std::fs::remove_dir_all(folder.path().join(format!("data-{lost}"))).expect("removed");
        cluster.restart(lost).expect("it starts again");
        check_answers(&cluster, one);
        let reached = state(&cluster, one);
        wait_until("it has caught up", || state(&cluster, lost) == reached);
        check_answers(&cluster, lost);
        rows(&cluster, lost, "INSERT INTO t VALUES (6000, 'y')");
        // Its rows and its copies are those of the others.
        cluster.kill(one);
        let count = "SELECT count(*) FROM t WHERE b <> 'y'";
        assert_eq!(joined(&rows(&cluster, lost, count)), "5000");
        cluster.restart(one).expect("it starts again");
        cluster.kill(other);
        assert_eq!(joined(&rows(&cluster, lost, count)), "5000");
        cluster.restart(other).expect("it starts again");
        rows(&cluster, other, "TRUNCATE t");
        let filled = super::TABLES.split(';').nth(3).expect("a statement");
        rows(&cluster, other, filled);
    }
}

#[test]
fn a_node_that_can_not_catch_up_says_why_and_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = super::filled(folder.path(), 2);
    cluster.kill(1);
    std::fs::remove_dir_all(folder.path().join("data-1")).expect("removed");
    cluster.restart(1).expect("it starts again");
    let told = error(&cluster, 0, "SELECT count(*) FROM t");
    assert!(
        told.contains("`w2` at 0 ") && told.contains("missed a change"),
        "{told}"
    );
    // All nodes have this one.
    assert_eq!(joined(&rows(&cluster, 0, "SELECT count(*) FROM r")), "3");
    let told = error(&cluster, 0, "INSERT INTO r VALUES (8, 'y')");
    assert!(told.contains("missed a change"), "{told}");
}

#[test]
fn copies_are_no_tables_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = copied(folder.path(), 2);
    for (sql, part) in [
        (
            "CREATE TABLE x (a INT) DISTRIBUTED BY (a) COPIES 3",
            "the cluster has 2 nodes",
        ),
        (
            "CREATE TABLE x (a INT) DISTRIBUTED BY (b) COPIES 2",
            "no column `b`",
        ),
        (
            "INSERT INTO nearfar_copy_1_of_t VALUES (1, 'x')",
            "the table itself",
        ),
        ("DROP TABLE nearfar_copy_1_of_t", "the table itself"),
        ("TRUNCATE nearfar_copy_1_of_t", "the table itself"),
        (
            "CREATE TABLE nearfar_copy_1_of_x (a INT) REPLICATED",
            "the table itself",
        ),
    ] {
        let error = error(&cluster, 0, sql);
        assert!(error.contains(part), "{sql}: {error}");
    }
    // Nothing of what failed is there.
    let made = "CREATE TABLE x (a INT) DISTRIBUTED BY (a) COPIES 2";
    rows(&cluster, 1, made);
    rows(&cluster, 0, "DROP TABLE x");
    rows(&cluster, 0, made);
    check_answers(&cluster, 1);
}

#[test]
fn a_node_that_starts_does_not_wait_for_one_that_others_stand_in_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = copied(folder.path(), 3);
    cluster.kill(0);
    cluster.kill(1);
    cluster.restart(1).expect("it starts without the first one");
    check_answers(&cluster, 1);
}

#[test]
fn a_node_whose_disk_is_full_is_done_without_until_it_has_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data-1");
    std::fs::create_dir(&data).expect("made");
    let Some(_disk) = SmallDisk::mount_at(&data, 32 << 10) else {
        return;
    };
    let cluster = copied(folder.path(), 3);
    let filler = data.join("filler");
    let mut fills = std::fs::File::create(&filler).expect("made");
    while std::io::Write::write_all(&mut fills, &[0; 4096]).is_ok() {}
    let mut told = String::new();
    wait_until("there is no room for a change", || {
        let sql = "INSERT INTO t SELECT value, repeat('y', 1000) FROM generate_series(1, 3000)";
        told = query_rows(cluster.address(0), sql)
            .err()
            .map_or_else(String::new, |error| error.to_string());
        !told.is_empty()
    });
    assert!(
        told.contains("`w2`") && told.contains("No space left"),
        "{told}"
    );
    // The first node has taken the change, or none has.
    let count = "SELECT count(*) % 3000, count(*) FROM t";
    let found = joined(&rows(&cluster, 0, count));
    assert!(found.starts_with("2000|"), "{found}");
    assert_eq!(joined(&rows(&cluster, 2, count)), found);
    drop(fills);
    std::fs::remove_file(&filler).expect("removed");
    wait_until("it has caught up", || {
        query_rows(cluster.address(1), "INSERT INTO u VALUES (6000, 1)").is_ok()
    });
    for node in 0..3 {
        assert_eq!(joined(&rows(&cluster, node, count)), found);
    }
}
