//! Queries that lock the rows that they read.

use super::support::{error, options, run, try_run, value};
use nearfar_sql::engine::{Engine, Session};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Longer than a statement takes that waits for nobody.
const PATIENCE: Duration = Duration::from_secs(20);

async fn with_jobs(count: usize) -> Arc<Engine> {
    let engine = Engine::new(options()).expect("an engine");
    let session = engine.session();
    let table = "CREATE TABLE jobs (id INT PRIMARY KEY, state VARCHAR, done INT);
                 CREATE TABLE owners (id INT, name VARCHAR)";
    run(&session, table).await;
    let rows =
        format!("INSERT INTO jobs SELECT v, 'new', 0 FROM generate_series(1, {count}) AS g (v)");
    run(&session, &rows).await;
    run(
        &session,
        "INSERT INTO owners VALUES (1, 'a'), (2, 'b'), (9, 'c')",
    )
    .await;
    engine
}

/// Forms of one question: the first is carried out without planning, the others are planned.
const FORMS: [&str; 3] = [
    "SELECT done FROM jobs WHERE id = 1 FOR UPDATE",
    "SELECT done FROM jobs WHERE abs(id) = 1 FOR NO KEY UPDATE",
    "SELECT j.done FROM jobs j JOIN owners o ON j.id = o.id WHERE name = 'a' FOR UPDATE OF j",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_locked_are_waited_for() {
    let engine = with_jobs(5).await;
    for form in FORMS {
        let (one, other) = (engine.session(), engine.session());
        run(&one, "BEGIN").await;
        let before: i64 = value(&one, form).await.parse().expect("a number");
        for (wait, expected) in [("NOWAIT", "could not obtain lock"), ("SKIP LOCKED", "")] {
            let sql = format!("{form} {wait}");
            match expected {
                "" => assert!(!run(&other, &sql).await.contains("| 0"), "{sql}"),
                expected => assert!(error(&other, &sql).await.contains(expected), "{sql}"),
            }
        }
        run(&other, "SET lock_timeout = '50ms'").await;
        let late = error(&other, form).await;
        assert!(late.contains("lock_timeout"), "{late}");
        run(&other, "SET lock_timeout = 0").await;
        assert_eq!(
            value(&other, "SELECT count(*) FROM jobs").await,
            "5",
            "reads don't wait"
        );
        let waiting = tokio::spawn(async move {
            let found = value(&other, form).await;
            run(&other, "UPDATE jobs SET done = done + 1 WHERE id = 1").await;
            found
        });
        sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished(), "{form}");
        run(&one, "UPDATE jobs SET done = done + 1 WHERE id = 1; COMMIT").await;
        let found = timeout(PATIENCE, waiting)
            .await
            .expect("no hang")
            .expect("no panic");
        assert_eq!(found, (before + 1).to_string(), "{form}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_is_taken_once() {
    let engine = with_jobs(60).await;
    let workers = (0..4).map(|_| {
        let session = engine.session();
        tokio::spawn(async move { work(&session).await })
    });
    let mut taken = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        taken.extend(worker.await.expect("no panic"));
    }
    assert_eq!(taken.len(), 60);
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 60);
    let done = "SELECT count(*) FROM jobs WHERE state = 'done'";
    assert_eq!(value(&engine.session(), done).await, "60");
}

/// Takes jobs as long as there are some.
async fn work(session: &Session) -> Vec<String> {
    let next = "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
    let mut taken = Vec::new();
    loop {
        run(session, "BEGIN").await;
        let job = value(session, next).await;
        if job.parse::<u32>().is_err() {
            run(session, "ROLLBACK").await;
            return taken;
        }
        run(
            session,
            &format!("UPDATE jobs SET state = 'done' WHERE id = {job}; COMMIT"),
        )
        .await;
        taken.push(job);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_behind_a_lock() {
    let engine = with_jobs(1).await;
    let clients = (0..4).map(|client| {
        let session = engine.session();
        tokio::spawn(async move {
            for _ in 0..25 {
                run(&session, "BEGIN").await;
                let form = FORMS[client % FORMS.len()];
                let done: i64 = value(&session, form).await.parse().expect("a number");
                let set = format!("UPDATE jobs SET done = {} WHERE id = 1; COMMIT", done + 1);
                run(&session, &set).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("no panic");
    }
    let done = value(&engine.session(), "SELECT done FROM jobs").await;
    assert_eq!(done, "100");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_were_changed_since_a_snapshot_cant_be_locked() {
    let engine = with_jobs(3).await;
    for form in FORMS {
        let (one, other) = (engine.session(), engine.session());
        run(&one, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
        value(&one, "SELECT count(*) FROM jobs").await;
        run(&other, "UPDATE jobs SET done = 7 WHERE id = 1").await;
        assert!(
            error(&one, form)
                .await
                .contains("run the transaction again"),
            "{form}"
        );
        run(&one, "ROLLBACK").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_tables_and_outer_joins_are_locked() {
    let engine = with_jobs(3).await;
    let (one, other) = (engine.session(), engine.session());
    let join =
        "SELECT o.name FROM owners o LEFT JOIN jobs j ON j.id = o.id ORDER BY o.id DESC LIMIT 2";
    run(&one, "BEGIN").await;
    assert_eq!(value(&one, &format!("{join} FOR SHARE")).await, "c");
    let locked = |table: &str, id: i32| {
        format!(
            "SELECT count(*) FROM (SELECT 1) WHERE EXISTS (SELECT 1 FROM {table} WHERE id = {id})"
        )
    };
    assert_eq!(value(&other, &locked("jobs", 2)).await, "1");
    for (sql, is_free) in [
        ("SELECT id FROM jobs WHERE id = 1 FOR UPDATE NOWAIT", true),
        ("SELECT id FROM jobs WHERE id = 2 FOR UPDATE NOWAIT", false),
        ("SELECT id FROM owners WHERE id = 1 FOR UPDATE NOWAIT", true),
        (
            "SELECT id FROM owners WHERE id = 9 FOR UPDATE NOWAIT",
            false,
        ),
    ] {
        match is_free {
            true => drop(value(&other, sql).await),
            false => drop(error(&other, sql).await),
        }
    }
    let skipped = "SELECT id FROM jobs ORDER BY id OFFSET 1 LIMIT 2 FOR UPDATE SKIP LOCKED";
    assert_eq!(value(&other, skipped).await, "3", "2 is not counted");
    run(&one, "COMMIT").await;
    assert_eq!(value(&other, skipped).await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_rows_are_read_beside_each_other_and_not_changed() {
    let engine = with_jobs(2000).await;
    for rows in ["id = 1", "id = 1 OR done > 5", "true"] {
        let (one, two, other) = (engine.session(), engine.session(), engine.session());
        let shared = format!("SELECT id FROM jobs WHERE {rows} ORDER BY id FOR SHARE NOWAIT");
        for session in [&one, &two] {
            run(session, "BEGIN").await;
            run(session, &shared).await;
        }
        let alone = "SELECT id FROM jobs WHERE id = 1 FOR UPDATE NOWAIT";
        assert!(error(&other, alone).await.contains("jobs"), "{rows}");
        let skipped =
            "SELECT id FROM jobs WHERE id < 3 ORDER BY id LIMIT 1 FOR KEY SHARE SKIP LOCKED";
        assert_eq!(value(&other, skipped).await, "1", "{rows}");
        let changed = run(&other, "UPDATE jobs SET done = done WHERE id = 1");
        let mut changed = std::pin::pin!(changed);
        let early = timeout(Duration::from_millis(50), &mut changed).await;
        assert!(early.is_err(), "{rows}: it waits for both");
        run(&one, "COMMIT").await;
        let early = timeout(Duration::from_millis(50), &mut changed).await;
        assert!(early.is_err(), "{rows}: it waits for the other one");
        run(&two, "UPDATE jobs SET done = 0 WHERE id = 1; COMMIT").await;
        changed.await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_share_a_row_can_not_both_change_it() {
    let engine = with_jobs(3).await;
    let (one, two) = (engine.session(), engine.session());
    for session in [&one, &two] {
        run(session, "BEGIN").await;
        value(session, "SELECT id FROM jobs WHERE id = 1 FOR SHARE").await;
    }
    let change = "UPDATE jobs SET done = done + 1 WHERE id = 1";
    let (first, second) = tokio::join!(try_run(&one, change), try_run(&two, change));
    let failed = [first, second].into_iter().filter_map(Result::err);
    let failed: Vec<String> = failed.map(|error| error.to_string()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].contains("deadlock"), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_locked_is_said() {
    let session = with_jobs(3).await.session();
    run(&session, "CREATE VIEW v AS SELECT * FROM jobs").await;
    for (sql, expected) in [
        (
            "SELECT count(*) FROM jobs FOR UPDATE",
            "GROUP BY or aggregate",
        ),
        ("SELECT DISTINCT id FROM jobs FOR UPDATE", "DISTINCT"),
        (
            "(SELECT id FROM jobs) UNION ALL (SELECT 1) FOR UPDATE",
            "UNION",
        ),
        (
            "SELECT row_number() OVER () FROM jobs FOR UPDATE",
            "window functions",
        ),
        ("SELECT * FROM v FOR UPDATE", "a view"),
        (
            "SELECT * FROM (SELECT * FROM jobs FOR UPDATE) q",
            "within another statement",
        ),
        (
            "INSERT INTO owners SELECT id, state FROM jobs FOR UPDATE",
            "within another statement",
        ),
        (
            "SELECT * FROM jobs FOR UPDATE OF j",
            "\"j\" in the FOR UPDATE clause",
        ),
    ] {
        let found = error(&session, sql).await;
        assert!(found.contains(expected), "{sql}: {found}");
    }
    for sql in [
        "EXPLAIN SELECT * FROM jobs FOR UPDATE",
        "SELECT * FROM jobs AS \"J\" FOR UPDATE OF \"J\"",
        "SELECT id FROM jobs WHERE id = 1 LIMIT 1 FOR KEY SHARE",
    ] {
        run(&session, sql).await;
    }
    run(&session, "BEGIN READ ONLY").await;
    for form in FORMS {
        assert!(error(&session, form).await.contains("READ ONLY"), "{form}");
        run(&session, "ROLLBACK; BEGIN READ ONLY").await;
    }
}
