//! Replicated tables of which one node has a copy in a pool, and the others none.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nearfar_bench::cluster::{LocalCluster, query_rows};

use super::kills::KILLS;
use super::{check_answers, cluster, filled, joined, rows, wait_until};
use crate::commits::{Random, number_of, seed};

const SHARED: &str = "nearfar_cluster_shared_bytes";
const ROWS: u32 = 300_000;

/// A cluster whose first node has its tables in a pool, in which the others read.
struct Sharing {
    cluster: LocalCluster,
    pool: String,
}

impl Sharing {
    /// Has the nodes of `cluster` share, of which there are so many.
    fn start(folder: &Path, cluster: LocalCluster, nodes: usize) -> Self {
        let pool = folder.join("tables.pool");
        let mut sharing = Self {
            cluster,
            pool: pool.to_str().expect("UTF-8").to_owned(),
        };
        for node in 0..nodes {
            sharing.cluster.kill(node);
            sharing.restart(node);
        }
        sharing
    }

    fn restart(&mut self, node: usize) {
        let own = ["--pool", &self.pool, "--pool-bytes", "64MiB"];
        let others = ["--shared-pool", &self.pool];
        let arguments = match node {
            0 => &own[..],
            _ => &others[..],
        };
        let started = self.cluster.restart_with(node, arguments);
        started.expect("it starts again");
    }

    fn run(&self, node: usize, sql: &str) -> String {
        joined(&rows(&self.cluster, node, sql))
    }

    fn shared_bytes(&self, node: usize) -> u64 {
        self.cluster.metric(node, SHARED).expect(SHARED)
    }
}

#[test]
fn one_copy_is_read_by_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut sharing = Sharing::start(folder.path(), filled(folder.path(), 3), 3);
    sharing.run(1, "CREATE TABLE big (a INT, b TEXT) REPLICATED");
    let fill = format!(
        "INSERT INTO big SELECT value, 'x' || value % 1000 FROM generate_series(1, {ROWS})"
    );
    sharing.run(2, &fill);
    let sum = "SELECT count(*), sum(CAST(a AS BIGINT)), count(DISTINCT b) FROM big";
    let expected = format!("{ROWS}|45000150000|1000");
    for node in [1, 2] {
        wait_until("the table is shared", || {
            assert_eq!(sharing.run(node, sum), expected);
            sharing.shared_bytes(node) > 4 * u64::from(ROWS) / 2
        });
        check_answers(&sharing.cluster, node);
        assert_eq!(sharing.run(node, sum), expected);
    }
    assert_eq!(sharing.shared_bytes(0), 0);
    assert_eq!(sharing.shared_bytes(1), sharing.shared_bytes(2));
    // Rows that are added are this node's own until they are published.
    sharing.run(1, "INSERT INTO big VALUES (1, 'new')");
    for node in 0..3 {
        assert_eq!(
            sharing.run(node, "SELECT count(*) FROM big WHERE a = 1"),
            "2"
        );
    }
    // Without the owner, and when it is there again.
    sharing.cluster.kill(0);
    assert_eq!(
        sharing.run(1, "SELECT count(*) FROM big"),
        format!("{}", ROWS + 1)
    );
    sharing.restart(0);
    // A reader that is killed reads there again.
    sharing.cluster.kill(2);
    sharing.restart(2);
    sharing.run(0, "CALL nearfar.merge('big')");
    wait_until("the table is shared", || {
        sharing.shared_bytes(2) > 4 * u64::from(ROWS) / 2
    });
    for node in 0..3 {
        assert_eq!(
            sharing.run(node, "SELECT count(*), count(DISTINCT b) FROM big"),
            format!("{}|1001", ROWS + 1)
        );
        check_answers(&sharing.cluster, node);
    }
}

#[test]
fn tables_of_as_many_other_rows_are_not_taken_for_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let sharing = Sharing::start(folder.path(), filled(folder.path(), 2), 2);
    sharing.run(0, "CREATE TABLE x (a INT) REPLICATED");
    for round in 0..12 {
        let coordinator = round % 2;
        match round % 3 {
            0 => sharing.run(coordinator, "TRUNCATE x"),
            _ => {
                sharing.run(coordinator, "DROP TABLE x");
                sharing.run(coordinator, "CREATE TABLE x (a INT) REPLICATED")
            }
        };
        let fill = format!("INSERT INTO x SELECT {round} FROM generate_series(1, 1000)");
        sharing.run(coordinator, &fill);
        if round % 4 == 0 {
            sharing.run(0, "CALL nearfar.merge('x')");
        }
        for _ in 0..8 {
            for node in [0, 1] {
                let found = sharing.run(node, "SELECT count(*), min(a), max(a) FROM x");
                assert_eq!(found, format!("1000|{round}|{round}"), "node {node}");
            }
            thread::sleep(Duration::from_millis(200));
        }
    }
    sharing.run(0, "CALL nearfar.merge('x')");
    wait_until("tables are shared", || sharing.shared_bytes(1) > 0);
    check_answers(&sharing.cluster, 1);
}

const BATCH_ROWS: u32 = 50;

/// Adds batches at random nodes and has the first one publish them, until it is told to end. Which were acknowledged.
fn add(places: &[SocketAddr], first: u32, is_over: &AtomicBool, mut chance: Random) -> Vec<u32> {
    let mut added = Vec::new();
    for batch in first.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let place = places[chance.below(places.len() as u64) as usize];
        let sql = format!(
            "INSERT INTO k SELECT value, {batch}, 'b{batch}' FROM generate_series(1, {BATCH_ROWS})"
        );
        added.extend(query_rows(place, &sql).is_ok().then_some(batch));
        if chance.below(3) == 0 {
            let _owner_may_be_gone = query_rows(places[0], "CALL nearfar.merge('k')");
            // The others have a moment to see it.
            thread::sleep(Duration::from_millis(chance.below(1500)));
        }
    }
    added
}

/// Checks that a node has whole batches, and all those that were acknowledged.
fn check_batches(cluster: &LocalCluster, node: usize, added: &[u32], seed: u64) {
    let sql = "SELECT batch, count(*), count(DISTINCT a), min(c), max(c) FROM k GROUP BY batch";
    let found: BTreeMap<u32, String> = rows(cluster, node, sql)
        .iter()
        .map(|row| (row[0].parse().expect("a number"), row[1..].join("|")))
        .collect();
    for (batch, found) in &found {
        let whole = format!("{BATCH_ROWS}|{BATCH_ROWS}|b{batch}|b{batch}");
        assert_eq!(*found, whole, "batch {batch} on node {node}; seed {seed}");
    }
    let lost = added.iter().find(|batch| !found.contains_key(batch));
    assert_eq!(lost, None, "lost on node {node}; seed {seed}");
}

#[test]
fn kills_leave_whole_batches_to_all_that_share_them() {
    let (folder, seed) = (tempfile::tempdir().expect("a folder"), seed());
    // A node that is killed in a step catches up only where others have copies of all of its rows.
    let nodes = cluster(folder.path(), 3, true);
    let mut sharing = Sharing::start(folder.path(), nodes, 3);
    sharing.run(0, "CREATE TABLE k (a INT, batch INT, c TEXT) REPLICATED");
    let (mut chance, mut added, mut next) = (Random(seed), Vec::new(), 0);
    for _ in 0..number_of(KILLS).unwrap_or(4) {
        let places = [0, 1, 2].map(|node| sharing.cluster.address(node));
        let (victim, is_over) = (chance.below(3) as usize, AtomicBool::new(false));
        let of_writer = Random(chance.below(u64::MAX));
        added.extend(thread::scope(|scope| {
            let adding = scope.spawn(|| add(&places, next, &is_over, of_writer));
            thread::sleep(Duration::from_millis(500 + chance.below(4000)));
            sharing.cluster.kill(victim);
            is_over.store(true, Ordering::Relaxed);
            adding.join().expect("batches")
        }));
        next += 10_000;
        for node in (0..3).filter(|node| *node != victim) {
            check_batches(&sharing.cluster, node, &added, seed);
        }
        sharing.restart(victim);
        for node in 0..3 {
            check_batches(&sharing.cluster, node, &added, seed);
        }
    }
    // Nothing is changed any more, so that all is the same.
    sharing.run(0, "CALL nearfar.merge('k')");
    let batches = 4 * u64::from(BATCH_ROWS) * added.len() as u64;
    for node in 1..3 {
        wait_until("the batches are shared", || {
            sharing.shared_bytes(node) >= batches
        });
        check_batches(&sharing.cluster, node, &added, seed);
    }
}
