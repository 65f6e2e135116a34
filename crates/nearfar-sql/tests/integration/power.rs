//! Loss of power while tables are published: in memory that has of a pool's lines only what was written
//! back, and of the others what its cache happened to. A later engine finds one of the states that were
//! committed, the last acknowledged publication or a later one; and where a write-back was forgotten,
//! it notices.

use nearfar_durable::checkpoint::pooled::{TablePoolOptions, Verify};
use nearfar_durable::log::DataOptions;
use nearfar_memory::pool::{Claim, Pool, PoolMemory, TakeOver};
use nearfar_sql::engine::{Engine, EngineOptions, Session};
use nearfar_sql::error::EngineError;
use std::path::Path;
use std::time::Duration;

use crate::support::{options, run, try_run};

const POOL_BYTES: usize = 8 << 20;

/// What is done to the tables, each of them followed by a publication.
const STEPS: [&str; 8] = [
    "CREATE TABLE t AS SELECT value AS k, value % 7 AS v, 'row ' || value AS s \
     FROM generate_series(1, 3000)",
    "CREATE TABLE u AS SELECT k, s FROM t WHERE v = 1",
    "UPDATE t SET v = v + 10, s = 'new ' || k WHERE k % 3 = 0",
    "DELETE FROM t WHERE k % 5 = 0",
    "CALL nearfar.merge('t')",
    "INSERT INTO u SELECT value, 'late ' || value FROM generate_series(5000, 5400)",
    "CREATE OR REPLACE TABLE u AS SELECT k, s FROM t WHERE v > 12",
    "DROP TABLE t",
];

fn options_on(pool: &Pool, verify: Verify) -> EngineOptions {
    let pool = TablePoolOptions {
        attached: Some(pool.clone()),
        verify,
        claim: Claim {
            // No renewals: what is written back is the same in every run.
            lease: Duration::from_secs(3600),
            take_over: TakeOver::Now,
            ..Claim::of_this_process()
        },
        ..TablePoolOptions::new("simulated")
    };
    EngineOptions {
        pool: Some(pool),
        ..options()
    }
}

fn new_pool() -> Pool {
    let memory = PoolMemory::simulated(POOL_BYTES);
    Pool::create_in(memory, Path::new("simulated")).expect("a pool")
}

/// All rows of all tables.
async fn contents(session: &Session) -> Result<String, EngineError> {
    let mut all = String::new();
    for (table, columns) in [("t", "k, v, s"), ("u", "k, s")] {
        let names = format!(
            "SELECT table_name FROM information_schema.tables WHERE table_name = '{table}'"
        );
        let is_there = run(session, &names).await.contains(&format!("| {table} "));
        if is_there {
            let rows = format!("SELECT {columns} FROM {table} ORDER BY k");
            all += &format!("{table}\n{}\n", try_run(session, &rows).await?);
        }
    }
    Ok(all)
}

/// The contents before and after each step, and the write-backs that each publication had taken.
struct Whole {
    states: Vec<String>,
    write_backs: Vec<u64>,
}

async fn without_a_failure() -> Whole {
    let pool = new_pool();
    let engine = Engine::new(options_on(&pool, Verify::All)).expect("an engine");
    let session = engine.session();
    let mut whole = Whole {
        states: vec![contents(&session).await.expect("rows")],
        write_backs: vec![pool.memory().write_backs_done()],
    };
    for step in STEPS {
        run(&session, step).await;
        engine.publish().expect("published");
        whole.states.push(contents(&session).await.expect("rows"));
        whole.write_backs.push(pool.memory().write_backs_done());
    }
    whole
}

/// Carries out all steps on a pool of which something fails, as `fails` says.
async fn run_with(fails: impl FnOnce(&PoolMemory), data: Option<&Path>) -> Pool {
    let pool = new_pool();
    fails(pool.memory());
    let engine = Engine::new(EngineOptions {
        data: data.map(|directory| DataOptions {
            checkpoint_at_end: false,
            ..DataOptions::new(directory)
        }),
        ..options_on(&pool, Verify::All)
    });
    let engine = engine.expect("an engine");
    let session = engine.session();
    for step in STEPS {
        run(&session, step).await;
        engine.publish().expect("published");
    }
    pool
}

/// The pool after the loss of power, which wrote back by itself the lines that `evicted` says.
fn after(pool: &Pool, evicted: impl FnMut(usize) -> bool) -> Pool {
    let memory = pool.memory().power_loss(evicted).expect("simulated");
    Pool::attach_in(memory, Path::new("simulated")).expect("a pool")
}

fn verify_of(number: u64) -> Verify {
    [Verify::All, Verify::Background][number as usize % 2]
}

/// A line in three, of each run others.
fn some_lines(run: u64) -> impl FnMut(usize) -> bool {
    move |line| {
        (line as u64)
            .wrapping_mul(0x9e37_79b9 + 2 * run)
            .rotate_left(29)
            .is_multiple_of(3)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_those_of_a_publication_whenever_the_power_fails() {
    let whole = without_a_failure().await;
    let total = *whole.write_backs.last().expect("some");
    for point in 0..20 {
        // Each publication is met, and each time another of its write-backs.
        let first = whole.write_backs[0];
        let write_backs = first + (total - first) * point / 19;
        let pool = run_with(|memory| memory.fail_after(write_backs), None).await;
        let pool = match point % 3 {
            0 => after(&pool, |_| false),
            1 => after(&pool, |_| true),
            _ => after(&pool, some_lines(point)),
        };
        let engine = Engine::new(options_on(&pool, verify_of(point)));
        let engine = engine.unwrap_or_else(|error| panic!("after {write_backs}: {error}"));
        let found = contents(&engine.session()).await.expect("whole tables");
        let acknowledged = whole
            .write_backs
            .iter()
            .filter(|done| **done <= write_backs);
        let last = acknowledged.count() - 1;
        let possible = &whole.states[last..whole.states.len().min(last + 2)];
        assert!(
            possible.contains(&found),
            "after {write_backs} of {total} write-backs, {last} publications:\n{found}"
        );
        // It goes on from there.
        let session = engine.session();
        run(&session, "CREATE TABLE w AS SELECT 1 AS a").await;
        engine.publish().expect("published");
        assert_eq!(contents(&session).await.expect("rows"), found);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_write_back_never_makes_a_torn_table() {
    let whole = without_a_failure().await;
    let (first, total) = (
        whole.write_backs[0],
        *whole.write_backs.last().expect("some"),
    );
    let (mut served, mut refused) = (0, 0);
    for run in 0..16 {
        // A write-back of the last two publications, since what is before them is of no account.
        let from = whole.write_backs[STEPS.len() - 2].max(first);
        let skipped = from + (total - from) * run / 16;
        let pool = run_with(|memory| memory.skip_write_backs(skipped..skipped + 1), None).await;
        let pool = after(&pool, |_| false);
        let found = match Engine::new(options_on(&pool, verify_of(run))) {
            Ok(engine) => contents(&engine.session()).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(found) => {
                assert!(whole.states.contains(&found), "without {skipped}:\n{found}");
                served += 1;
            }
            Err(error) => {
                let text = error.to_string();
                let is_known = text.contains("damaged") || text.contains("cannot be read");
                assert!(is_known, "without {skipped}: {text}");
                refused += 1;
            }
        }
    }
    assert!(
        served > 0 && refused > 0,
        "{served} served, {refused} refused"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_data_directory_nothing_is_lost_with_the_power() {
    let whole = without_a_failure().await;
    let total = *whole.write_backs.last().expect("some");
    for point in 0..10 {
        let folder = tempfile::tempdir().expect("a folder");
        let at = whole.write_backs[0] + (total - whole.write_backs[0]) * point / 9;
        let fails = |memory: &PoolMemory| match point % 2 {
            0 => memory.fail_after(at),
            _ => memory.skip_write_backs(at..at + 2),
        };
        // The engine's last publication is behind the failure too.
        let pool = run_with(fails, Some(folder.path())).await;
        let pool = after(&pool, some_lines(point));
        let open = |verify| {
            let engine = Engine::new(EngineOptions {
                data: Some(DataOptions::new(folder.path())),
                ..options_on(&pool, verify)
            });
            engine.unwrap_or_else(|error| panic!("at {at}: {error}"))
        };
        if point % 4 == 3 {
            // What is not verified before is found out when it is read.
            match contents(&open(Verify::Background).session()).await {
                Ok(found) => assert_eq!(Some(&found), whole.states.last(), "at {at}"),
                Err(error) => assert!(error.to_string().contains("damaged"), "at {at}: {error}"),
            }
        }
        let found = contents(&open(Verify::All).session()).await;
        let found = found.unwrap_or_else(|error| panic!("at {at}: {error}"));
        assert_eq!(Some(&found), whole.states.last(), "at {at}");
    }
}
