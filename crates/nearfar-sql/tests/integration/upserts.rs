//! `INSERT … ON CONFLICT`.

use super::support::{error, options, run, try_run, two_tiers, value};
use datafusion::scalar::ScalarValue;
use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const T: &str = "CREATE TABLE t (k INT PRIMARY KEY, g INT, n BIGINT, CONSTRAINT t_g UNIQUE (g));
                 INSERT INTO t VALUES (1, 10, 100), (2, 20, 200)";

async fn rows(session: &Session) -> String {
    let all = "SELECT string_agg(k || ':' || coalesce(CAST(g AS VARCHAR), '-') || ':' || n, ' ' ORDER BY k) FROM t";
    value(session, all).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_in_the_way_are_left_or_changed() {
    let session = two_tiers().session();
    run(&session, T).await;
    for (sql, expected, left) in [
        (
            "INSERT INTO t VALUES (1, 11, 0), (3, 30, 300), (3, 31, 301) ON CONFLICT DO NOTHING",
            "INSERT 1",
            "1:10:100 2:20:200 3:30:300",
        ),
        (
            "INSERT INTO t VALUES (4, 20, 0) ON CONFLICT (g) DO NOTHING",
            "INSERT 0",
            "1:10:100 2:20:200 3:30:300",
        ),
        (
            "INSERT INTO t AS x VALUES (1, 12, 1), (5, 50, 500) ON CONFLICT (k) DO UPDATE \
             SET n = x.n + excluded.n, g = excluded.g",
            "INSERT 2",
            "1:12:101 2:20:200 3:30:300 5:50:500",
        ),
        (
            "INSERT INTO t SELECT k, g, 1 FROM t ON CONFLICT ON CONSTRAINT t_g DO UPDATE \
             SET n = t.n + 1 WHERE t.k > excluded.n",
            "INSERT 3",
            "1:12:101 2:20:201 3:30:301 5:50:501",
        ),
        (
            "INSERT INTO t VALUES (6, NULL, 6), (7, NULL, 7) ON CONFLICT (g) DO UPDATE SET n = 0",
            "INSERT 2",
            "1:12:101 2:20:201 3:30:301 5:50:501 6:-:6 7:-:7",
        ),
        (
            "INSERT INTO t (k, n) VALUES (7, 1) ON CONFLICT (k) DO UPDATE SET (k, n) = (8, excluded.n)",
            "INSERT 1",
            "1:12:101 2:20:201 3:30:301 5:50:501 6:-:6 8:-:1",
        ),
    ] {
        assert_eq!(run(&session, sql).await, expected, "{sql}");
        assert_eq!(rows(&session).await, left, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_be_no_conflict_is_refused() {
    let session = two_tiers().session();
    run(&session, T).await;
    for (sql, expected) in [
        (
            "INSERT INTO t VALUES (1, 1, 1) ON CONFLICT (n) DO NOTHING",
            "no unique or exclusion",
        ),
        (
            "INSERT INTO t VALUES (1, 1, 1) ON CONFLICT (k, g) DO NOTHING",
            "no unique or exclusion",
        ),
        (
            "INSERT INTO t VALUES (1, 1, 1) ON CONFLICT (x) DO NOTHING",
            "no column `x`",
        ),
        (
            "INSERT INTO t VALUES (1, 1, 1) ON CONFLICT ON CONSTRAINT x DO NOTHING",
            "\"x\"",
        ),
        (
            "INSERT INTO t VALUES (1, 1, 1) ON CONFLICT (k) DO UPDATE SET n = n + 1",
            "mbiguous",
        ),
        (
            "INSERT INTO t VALUES (1, 1, 1) ON CONFLICT (k) DO UPDATE SET x = 1",
            "no column `x`",
        ),
        (
            "INSERT INTO t VALUES (11, 1, 1), (11, 2, 2) ON CONFLICT (k) DO UPDATE SET n = 1",
            "a second time",
        ),
        (
            "INSERT INTO t VALUES (1, 1, 1), (1, 2, 2) ON CONFLICT (k) DO UPDATE SET n = 1",
            "a second time",
        ),
        (
            "INSERT INTO t VALUES (11, 20, 1) ON CONFLICT (k) DO NOTHING",
            "duplicate key",
        ),
        (
            "INSERT INTO t VALUES (1, 1, 1) ON CONFLICT (k) DO UPDATE SET g = 20",
            "duplicate key",
        ),
    ] {
        let failed = error(&session, sql).await;
        assert!(failed.contains(expected), "{sql}: {failed}");
    }
    let wrong = session.execute("INSERT INTO t VALUES (1, 1, 1) ON CONFLICT DO UPDATE SET n = 1");
    assert!(wrong.await.is_err());
    run(
        &session,
        "EXPLAIN INSERT INTO t VALUES (1, 1, 1) ON CONFLICT DO NOTHING",
    )
    .await;
    assert_eq!(rows(&session).await, "1:10:100 2:20:200");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_are_changed_and_given_back_in_their_order() {
    let session = two_tiers().session();
    run(&session, T).await;
    let given = run(
        &session,
        "INSERT INTO t VALUES (9, 90, 9), (1, 12, 1), (8, 80, 8) \
         ON CONFLICT (k) DO UPDATE SET n = excluded.n RETURNING k, n, g",
    )
    .await;
    let given = given.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        given.contains("| 9 | 9 | 90 | | 1 | 1 | 10 | | 8 | 8 | 80 |"),
        "in their order: {given}"
    );
    let many = "INSERT INTO t SELECT value, NULL, 0 FROM generate_series(1, 3000) \
                ON CONFLICT (k) DO UPDATE SET n = -t.n";
    assert_eq!(run(&session, many).await, "INSERT 3000");
    assert_eq!(
        value(&session, "SELECT count(*) FROM t WHERE n < 0").await,
        "4"
    );
    run(&session, "CALL nearfar.merge('t')").await;
    assert_eq!(run(&session, many).await, "INSERT 3000");
    assert_eq!(
        value(&session, "SELECT count(*) FROM t WHERE n > 0").await,
        "4"
    );
    assert_eq!(run(&session, "CALL nearfar.check('t')").await, "CHECK 2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_and_transactions_are_those_of_other_statements() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let open = || {
        let data = Some(DataOptions::new(folder.path()));
        Engine::new(EngineOptions { data, ..options() }).expect("an engine")
    };
    let engine = open();
    let session = engine.session();
    run(&session, T).await;
    let sql = "INSERT INTO t (k, n) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE \
               SET n = t.n + excluded.n + $2 WHERE t.n < $3 RETURNING n";
    let statement = session.read(sql).expect(sql).remove(0);
    for (n, expected) in [(1_i64, "102"), (2, "106"), (3, "112"), (3, "")] {
        let parameters = [
            ScalarValue::Int32(Some(1)),
            ScalarValue::Int64(Some(n)),
            ScalarValue::Int64(Some(112)),
        ];
        let result = session.run_with(&statement, &parameters).await.expect(sql);
        let StatementResult::Rows(rows) = result else {
            panic!("no rows");
        };
        let rows = rows.collect().await.expect("rows");
        let shown = arrow::util::pretty::pretty_format_batches(&rows)
            .expect("a text")
            .to_string();
        assert!(shown.contains(expected), "{shown}");
        assert_eq!(
            rows.iter().map(|batch| batch.num_rows()).sum::<usize>(),
            usize::from(!expected.is_empty())
        );
    }
    let own = "BEGIN; INSERT INTO t VALUES (5, 5, 5); SAVEPOINT s; DELETE FROM t WHERE k = 1;
               INSERT INTO t VALUES (1, 1, 1), (5, 6, 0) ON CONFLICT (k) DO UPDATE SET n = 55";
    run(&session, own).await;
    assert_eq!(rows(&session).await, "1:1:1 2:20:200 5:5:55");
    run(&session, "ROLLBACK TO s; COMMIT").await;
    assert_eq!(rows(&session).await, "1:10:112 2:20:200 5:5:5");
    drop((session, engine));
    let engine = open();
    let session = engine.session();
    assert_eq!(rows(&session).await, "1:10:112 2:20:200 5:5:5");
    assert_eq!(run(&session, "CALL nearfar.check('t')").await, "CHECK 2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_an_open_transaction_adds_is_waited_for() {
    let engine = two_tiers();
    let (one, other) = (engine.session(), engine.session());
    run(&one, T).await;
    let add = "INSERT INTO t (k, n) VALUES (7, 1) ON CONFLICT (k) DO UPDATE SET n = t.n + 1";
    for end in ["COMMIT", "ROLLBACK"] {
        run(&one, "DELETE FROM t WHERE k = 7").await;
        run(&one, &format!("BEGIN; {add}")).await;
        let waiting = other.clone();
        let waiting = tokio::spawn(async move { run(&waiting, add).await });
        sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        run(&one, end).await;
        let done = timeout(Duration::from_secs(20), waiting).await;
        assert_eq!(done.expect("in time").expect("added"), "INSERT 1");
        let expected = if end == "COMMIT" { "2" } else { "1" };
        assert_eq!(
            value(&one, "SELECT n FROM t WHERE k = 7").await,
            expected,
            "{end}"
        );
    }
    run(
        &one,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t",
    )
    .await;
    run(&other, "INSERT INTO t (k, n) VALUES (8, 1)").await;
    let late = error(
        &one,
        "INSERT INTO t (k, n) VALUES (8, 1) ON CONFLICT DO NOTHING",
    )
    .await;
    assert!(late.contains("conflict"), "{late}");
    run(&one, "ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_count_is_lost_and_no_key_is_added_twice() {
    let engine = two_tiers();
    run(
        &engine.session(),
        "CREATE TABLE t (k INT PRIMARY KEY, n BIGINT)",
    )
    .await;
    let clients = (0..4_usize).map(|client| {
        let session = Arc::clone(&engine).session();
        tokio::spawn(async move {
            for round in 0..50_usize {
                let key = (round * 7 + client) % 5;
                let add = format!(
                    "INSERT INTO t VALUES ({key}, 1) ON CONFLICT (k) DO UPDATE SET n = t.n + 1"
                );
                match (round + client) % 3 {
                    0 => drop(run(&session, &format!("BEGIN; {add}; COMMIT")).await),
                    1 if round % 10 == 1 => {
                        run(&session, &format!("BEGIN; {add}; ROLLBACK; {add}")).await;
                    }
                    _ => drop(try_run(&session, &add).await.expect("added")),
                }
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    for client in clients {
        let done = timeout(Duration::from_secs(120), client).await;
        done.expect("in time").expect("no error");
    }
    let session = engine.session();
    assert_eq!(value(&session, "SELECT sum(n) FROM t").await, "200");
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "5");
    assert_eq!(run(&session, "CALL nearfar.check('t')").await, "CHECK 1");
}
