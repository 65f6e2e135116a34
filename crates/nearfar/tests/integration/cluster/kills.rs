//! Nodes that are killed at random moments, while clients read and change tables of which each row is on two nodes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nearfar_bench::cluster::{LocalCluster, query_rows};

use super::{cluster, joined, rows, wait_until};
use crate::commits::{Random, number_of, seed};

/// How many nodes are killed.
pub const KILLS: &str = "NEARFAR_KILLS";

const NODES: usize = 4;
/// Rows of a batch, which are added by one statement.
const BATCH_ROWS: u32 = 20;

/// What clients know of the batches that they have added.
#[derive(Debug, Default)]
struct Batches {
    /// Which were acknowledged: they stay.
    added: Vec<u32>,
    /// Which were not, and may be there or not.
    unknown: Vec<u32>,
}

/// Where clients find nodes, which change their ports when they are started again.
type Places = Mutex<Vec<SocketAddr>>;

fn write(places: &Places, batches: &Mutex<Batches>, is_over: &AtomicBool, mut chance: Random) {
    for batch in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let place = places.lock().expect("places")[chance.below(NODES as u64) as usize];
        let sql =
            format!("INSERT INTO k SELECT value, {batch} FROM generate_series(1, {BATCH_ROWS})");
        match query_rows(place, &sql) {
            Ok(_) => batches.lock().expect("batches").added.push(batch),
            Err(_) => {
                batches.lock().expect("batches").unknown.push(batch);
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// The rows of each batch, by one query.
const BATCHES: &str = "SELECT batch, count(*), count(DISTINCT a) FROM k GROUP BY batch";

/// Checks an answer to [`BATCHES`]: whole batches, all that were `added` before, and none that nobody sent.
fn check(answer: &[Vec<Option<String>>], added: &[u32], batches: &Mutex<Batches>, seed: u64) {
    let number =
        |text: &Option<String>| text.as_ref().expect("a number").parse::<u32>().expect("it");
    let found: BTreeMap<u32, (u32, u32)> = answer
        .iter()
        .map(|row| (number(&row[0]), (number(&row[1]), number(&row[2]))))
        .collect();
    let whole = (BATCH_ROWS, BATCH_ROWS);
    let half = found.iter().find(|(_, rows)| **rows != whole);
    assert_eq!(half, None, "half a batch, or one twice; seed {seed}");
    let lost = added.iter().find(|batch| !found.contains_key(batch));
    assert_eq!(lost, None, "an acknowledged batch is lost; seed {seed}");
    let known = batches.lock().expect("batches");
    let last = known.added.iter().chain(&known.unknown).max().copied();
    // The writer may have one on its way.
    let sent = last.map_or(0, |last| last + 1);
    assert!(
        found.keys().all(|batch| *batch <= sent),
        "an invented batch; seed {seed}"
    );
}

/// Queries nodes until it is over; how many queries were answered, and how many failed.
fn read(
    places: &Places,
    batches: &Mutex<Batches>,
    is_over: &AtomicBool,
    (mut chance, seed): (Random, u64),
) -> (usize, usize) {
    let (mut answered, mut failed) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let place = places.lock().expect("places")[chance.below(NODES as u64) as usize];
        let added = batches.lock().expect("batches").added.clone();
        match query_rows(place, BATCHES) {
            Ok(answer) => {
                check(&answer, &added, batches, seed);
                answered += 1;
            }
            Err(_) => {
                failed += 1;
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
    (answered, failed)
}

/// Ends clients where it is dropped, also by a panic.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Kills and starts nodes, one at a time, each at a random moment.
fn kill(
    cluster: &mut LocalCluster,
    places: &Places,
    batches: &Mutex<Batches>,
    (chance, kills): (&mut Random, u64),
) {
    for _ in 0..kills {
        thread::sleep(Duration::from_millis(300 + chance.below(1500)));
        let node = chance.below(NODES as u64) as usize;
        cluster.kill(node);
        thread::sleep(Duration::from_millis(chance.below(1500)));
        cluster.restart(node).expect("it starts again");
        places.lock().expect("places")[node] = cluster.address(node);
        wait_until("all nodes are in one state again", || {
            let states = (0..NODES).map(|node| {
                let sql = "SELECT version, step FROM nearfar_cluster_state";
                query_rows(cluster.address(node), sql).map(|rows| rows[0].clone())
            });
            let states: Vec<_> = states.collect();
            states.windows(2).all(|pair| match (&pair[0], &pair[1]) {
                (Ok(one), Ok(other)) => one == other,
                _ => false,
            })
        });
        let added = || batches.lock().expect("batches").added.len();
        let before = added();
        wait_until("changes go on", || added() > before);
    }
}

#[test]
fn nodes_that_are_killed_at_random_lose_and_repeat_nothing() {
    let (seed, kills) = (seed(), number_of(KILLS).unwrap_or(6));
    let folder = tempfile::tempdir().expect("a folder");
    let mut cluster = cluster(folder.path(), NODES, true);
    rows(
        &cluster,
        0,
        "CREATE TABLE k (a INT, batch INT) DISTRIBUTED BY (a) COPIES 2",
    );
    let places: Places = Mutex::new((0..NODES).map(|node| cluster.address(node)).collect());
    let (batches, is_over) = (Mutex::new(Batches::default()), AtomicBool::new(false));
    let counts = thread::scope(|scope| {
        scope.spawn(|| write(&places, &batches, &is_over, Random(seed ^ 0x9e37)));
        let readers = [1, 2].map(|reader| {
            let chance = (Random(seed ^ (reader << 32)), seed);
            scope.spawn(|| read(&places, &batches, &is_over, chance))
        });
        let mut chance = Random(seed);
        let ending = Ending(&is_over);
        kill(&mut cluster, &places, &batches, (&mut chance, kills));
        drop(ending);
        readers.map(|reader| reader.join().expect("right answers"))
    });
    let known = batches.lock().expect("batches").added.clone();
    assert!(
        counts.iter().all(|(answered, _)| *answered > 0),
        "seed {seed}: queries answered and failed: {counts:?}"
    );
    // Shares and their copies are the same.
    let expected = joined(&rows(
        &cluster,
        0,
        "SELECT count(*), sum(a), sum(batch) FROM k",
    ));
    for node in 0..NODES {
        check(
            &query_rows(cluster.address(node), BATCHES).expect("rows"),
            &known,
            &batches,
            seed,
        );
        cluster.kill(node);
        let other = (node + 1) % NODES;
        let found = joined(&rows(
            &cluster,
            other,
            "SELECT count(*), sum(a), sum(batch) FROM k",
        ));
        assert_eq!(found, expected, "without node {node}; seed {seed}");
        cluster.restart(node).expect("it starts again");
    }
}
