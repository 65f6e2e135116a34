//! Scans of far data that run concurrently, and read it once.

use super::support::{
    eventually_left, far_scans, options, region_bytes, run, same_beside_moves, two_tiers, value,
};
use arrow::util::pretty::pretty_format_batches;
use futures::StreamExt;
use nearfar_memory::{Budgets, Placement, Region, RegionOptions};
use nearfar_sql::engine::{Engine, EngineOptions, RowStream, Session, StatementResult};
use nearfar_table::traffic::Moved;
use nearfar_topology::Profile;
use std::sync::Arc;

/// Parts of the table, each of which is worth a copy.
const PARTS: u64 = 5;
const PART_ROWS: u64 = 70_000;
const ROWS: u64 = PARTS * PART_ROWS;

/// An engine of one thread, so that who reads what follows from who is asked for rows.
fn one_thread(budgets: Budgets) -> Arc<Engine> {
    let options = EngineOptions {
        profile: Some(Profile::builtin("cxl-blades-4").expect("a built-in profile")),
        whole_device: true,
        threads: 1,
        budgets,
        ..options()
    };
    Engine::new(options).expect("an engine")
}

/// Makes a far table `t` of several parts: `k` ascends, `v` does not, `n` has nulls, `d` few texts and `s` many.
async fn fill(session: &Session) {
    run(session, "SET merge_rows = never").await;
    // Two scans share what they read where bandwidth is limited, however much there is.
    run(session, "SET far_bandwidth = '64GB/s'").await;
    let columns = "value AS k, value * 7919 % 100003 AS v, nullif(value % 11, 3) AS n, \
                   'kind ' || (value % 9) AS d, 'text ' || (value * 31 % 1000003) AS s";
    for part in 0..PARTS {
        let (first, last) = (part * PART_ROWS + 1, (part + 1) * PART_ROWS);
        let rows = format!("SELECT {columns} FROM generate_series({first}, {last})");
        let statement = match part {
            0 => format!("CREATE TABLE t TABLESPACE far AS {rows}"),
            _ => format!("INSERT INTO t {rows}"),
        };
        run(session, &statement).await;
    }
    let parts = "SELECT count(DISTINCT segment) FROM nearfar.segments WHERE table_name = 't'";
    let parts: u64 = value(session, parts).await.parse().expect("a number");
    assert!(parts >= PARTS, "{parts} parts");
}

/// What is read and saved by what follows.
fn since(engine: &Engine, before: Moved) -> (u64, u64) {
    let now = far_scans(engine);
    (
        now.read_bytes - before.read_bytes,
        now.saved_bytes - before.saved_bytes,
    )
}

async fn rows_of(session: &Session, sql: &str) -> RowStream {
    match session.execute(sql).await.expect(sql).pop() {
        Some(StatementResult::Rows(rows)) => rows,
        _ => panic!("{sql} gives no rows"),
    }
}

/// The next rows of a stream, and whether there are more.
async fn next_rows(rows: &mut RowStream) -> Option<u64> {
    let batch = rows.next().await?.expect("rows");
    Some(batch.num_rows() as u64)
}

/// Reads both streams to their ends, batch by batch in turn, so that neither is idle; the rows of each.
async fn alternate(first: &mut RowStream, second: &mut RowStream) -> [u64; 2] {
    let mut rows = [0, 0];
    loop {
        let [from_first, from_second] = [next_rows(first).await, next_rows(second).await];
        rows[0] += from_first.unwrap_or(0);
        rows[1] += from_second.unwrap_or(0);
        if from_first.is_none() && from_second.is_none() {
            return rows;
        }
    }
}

/// It is in order, since it has the column that the table is sorted by.
const IN_ORDER: &str = "SELECT k, v, n, d, s FROM t";
const IN_ANY_ORDER: &str = "SELECT v, n, d, s FROM t";

#[tokio::test]
async fn scans_that_run_side_by_side_read_far_columns_once() {
    let engine = one_thread(Budgets::new());
    let session = engine.session();
    fill(&session).await;
    let other = engine.session();
    let empty = region_bytes(&engine);
    let before = far_scans(&engine);
    run(&other, IN_ANY_ORDER).await;
    let (alone, saved) = since(&engine, before);
    assert_eq!(saved, 0);
    let before = far_scans(&engine);
    let mut first = rows_of(&session, IN_ORDER).await;
    assert!(next_rows(&mut first).await.is_some());
    let mut second = rows_of(&other, IN_ANY_ORDER).await;
    let rows = alternate(&mut first, &mut second).await;
    assert!(rows[0] < ROWS && rows[1] == ROWS, "{rows:?}");
    drop((first, second));
    let (read, saved) = since(&engine, before);
    // Two scans of all columns, of which each part but the first is read once.
    assert!(
        saved > alone / 2 && read < 2 * alone,
        "{read} read, {saved} saved of {alone}"
    );
    eventually_left(empty, || region_bytes(&engine)).await;
    let traffic = "SELECT sum(saved_bytes) FROM nearfar.traffic WHERE tier = 'far'";
    assert_eq!(value(&session, traffic).await, saved.to_string());
}

#[tokio::test]
async fn copies_have_the_same_rows() {
    let engine = one_thread(Budgets::new());
    let session = engine.session();
    fill(&session).await;
    run(&session, "DELETE FROM t WHERE v % 17 = 5").await;
    let other = engine.session();
    let rows = async |rows: &mut RowStream, kept: &mut Vec<String>| {
        let Some(batch) = rows.next().await else {
            return false;
        };
        let text = pretty_format_batches(&[batch.expect("rows")]);
        let text = text.expect("text").to_string();
        let lines = text.lines().filter(|line| line.contains("kind"));
        kept.extend(lines.map(|line| line.split_whitespace().collect()));
        true
    };
    let filtered = "SELECT v, n, d, s FROM t WHERE n IS DISTINCT FROM 5 AND s <> 'text 31'";
    let mut alone = Vec::new();
    let mut stream = rows_of(&session, filtered).await;
    while rows(&mut stream, &mut alone).await {}
    let mut both = [Vec::new(), Vec::new()];
    let [mut one, mut two] = [
        rows_of(&session, filtered).await,
        rows_of(&other, filtered).await,
    ];
    while rows(&mut one, &mut both[0]).await | rows(&mut two, &mut both[1]).await {}
    assert!(far_scans(&engine).saved_bytes > 0);
    alone.sort_unstable();
    for mut found in both {
        found.sort_unstable();
        assert!(
            found == alone,
            "{} rows, {} alone",
            found.len(),
            alone.len()
        );
    }
}

#[tokio::test]
async fn scans_that_are_alone_or_told_to_copy_nothing() {
    let engine = one_thread(Budgets::new());
    let session = engine.session();
    fill(&session).await;
    let (before, held) = (far_scans(&engine), region_bytes(&engine));
    let other = engine.session();
    run(&other, "SET cooperative_scans = off").await;
    let mut first = rows_of(&session, IN_ORDER).await;
    assert!(next_rows(&mut first).await.is_some());
    let mut second = rows_of(&other, IN_ANY_ORDER).await;
    assert!(next_rows(&mut second).await.is_some());
    assert_eq!(region_bytes(&engine), held);
    alternate(&mut first, &mut second).await;
    assert_eq!(since(&engine, before).1, 0);
}

#[tokio::test]
async fn copies_go_with_the_scans_that_are_given_up() {
    let engine = one_thread(Budgets::new());
    let session = engine.session();
    fill(&session).await;
    let other = engine.session();
    let empty = region_bytes(&engine);
    let mut first = rows_of(&session, IN_ORDER).await;
    assert!(next_rows(&mut first).await.is_some());
    let mut second = rows_of(&other, IN_ANY_ORDER).await;
    assert!(next_rows(&mut second).await.is_some());
    assert!(
        region_bytes(&engine) > empty,
        "it has copied its first part"
    );
    drop(second);
    drop(first);
    eventually_left(empty, || region_bytes(&engine)).await;
}

#[tokio::test]
async fn without_near_memory_each_reads_for_itself() {
    let engine = one_thread(Budgets::new().with("near", 128 << 20));
    let session = engine.session();
    fill(&session).await;
    // All that is left of the near tier's budget, which is not taken for copies.
    let near = engine.tier("near").expect("a near tier");
    let system = engine.system();
    let usage = system.usage(near);
    let left = (usage.budget_bytes - usage.used_bytes()) as usize - (8 << 20);
    let place = Placement::Bind(near);
    let taken = Region::allocate(system, left, &place, RegionOptions::default());
    let _taken = taken.expect("what is left");
    let other = engine.session();
    let mut first = rows_of(&session, IN_ORDER).await;
    let mut second = rows_of(&other, IN_ANY_ORDER).await;
    let rows = alternate(&mut first, &mut second).await;
    assert_eq!(rows, [ROWS, ROWS]);
    assert_eq!(far_scans(&engine).saved_bytes, 0);
}

#[tokio::test]
async fn the_order_is_kept_where_somebody_relies_on_it() {
    let engine = one_thread(Budgets::new());
    let session = engine.session();
    fill(&session).await;
    run(&session, "CREATE TABLE near_t AS SELECT * FROM t").await;
    let explain = async |sql: &str| run(&session, &format!("EXPLAIN {sql}")).await;
    for sql in [
        "SELECT sum(v) FROM t",
        "SELECT d, count(*) FROM t GROUP BY d",
        "SELECT t.v FROM t JOIN near_t ON t.v = near_t.v ORDER BY t.v",
        "SELECT v FROM t ORDER BY v",
        "SELECT k, v FROM t ORDER BY k DESC LIMIT 5",
    ] {
        assert!(explain(sql).await.contains("order=any"), "{sql}");
    }
    for sql in [
        "SELECT k FROM t",
        "SELECT k, v FROM t ORDER BY k",
        "SELECT k, v FROM t ORDER BY k, v",
        "SELECT k, count(*) FROM t GROUP BY k",
        "SELECT k, row_number() OVER (ORDER BY k) FROM t",
        "SELECT v FROM t LIMIT 10",
        "SELECT first_value(v ORDER BY k) FROM t",
        "SELECT d, last_value(v ORDER BY k) FROM t GROUP BY d",
        "SELECT array_agg(v) FROM (SELECT v FROM t ORDER BY k) AS s",
        "SELECT sum(v) FROM (SELECT v FROM t ORDER BY k OFFSET 100) AS s",
        "SELECT sum(v) FROM near_t",
        "UPDATE t SET v = 0 WHERE n = 5",
        "DELETE FROM t WHERE n = 5",
    ] {
        assert!(!explain(sql).await.contains("order=any"), "{sql}");
    }
    run(&session, "SET cooperative_scans = off").await;
    assert!(!explain("SELECT sum(v) FROM t").await.contains("order=any"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_the_same_beside_others_and_moves() {
    const QUERIES: [&str; 7] = [
        "SELECT count(*), sum(v), sum(n), min(d), max(s) FROM t",
        "SELECT d, count(*), sum(v), count(n) FROM t GROUP BY d ORDER BY d",
        "SELECT k, v FROM t WHERE v BETWEEN 100 AND 140 ORDER BY k LIMIT 50",
        "SELECT count(*) FROM t WHERE s LIKE '%77%' AND n IS NULL",
        "SELECT count(*), sum(a.v) FROM t a JOIN t b ON a.k = b.v WHERE b.n = 7",
        "SELECT k FROM t ORDER BY k DESC LIMIT 3",
        "SELECT sum(r) FROM (SELECT row_number() OVER (PARTITION BY d ORDER BY k) AS r FROM t) AS w",
    ];
    let engine = two_tiers();
    let session = engine.session();
    fill(&session).await;
    run(&session, "DELETE FROM t WHERE v % 17 = 5").await;
    same_beside_moves(&engine, &session, (&QUERIES, 3), |turn, asker| {
        let is_on = turn / 4 % 2 == 1;
        (turn % 4 == asker).then(|| format!("SET cooperative_scans = {is_on}"))
    })
    .await;
}
