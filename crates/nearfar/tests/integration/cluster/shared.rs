//! Replicated tables of which one node has a copy in a pool, and the others none.

use std::path::Path;
use std::thread;
use std::time::Duration;

use nearfar_bench::cluster::LocalCluster;

use super::{check_answers, filled, joined, rows, wait_until};

const SHARED: &str = "nearfar_cluster_shared_bytes";
const ROWS: u32 = 300_000;

/// A cluster whose first node has its tables in a pool, in which the others read.
struct Sharing {
    cluster: LocalCluster,
    pool: String,
}

impl Sharing {
    fn start(folder: &Path, nodes: usize) -> Self {
        let pool = folder.join("tables.pool");
        let mut sharing = Self {
            cluster: filled(folder, nodes),
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
    let mut sharing = Sharing::start(folder.path(), 3);
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
    let sharing = Sharing::start(folder.path(), 2);
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
