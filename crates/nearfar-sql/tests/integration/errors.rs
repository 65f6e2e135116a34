//! Mistakes and faults get one clear message and leave nothing behind.

use super::support::{error, region_bytes, run, two_tiers, two_tiers_with, value};
use nearfar_memory::Budgets;
use nearfar_sql::engine::{Engine, EngineOptions, Session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_runs_when_a_later_statement_is_no_sql() {
    let session = two_tiers().session();
    let message = error(&session, "CREATE TABLE t AS SELECT 1 AS a; SELEC 1").await;
    assert!(
        message.starts_with("syntax error: Expected: an SQL statement, found: SELEC"),
        "{message}"
    );
    assert!(message.contains("Line: 1, Column: 34"), "{message}");
    assert_eq!(
        value(&session, "SELECT count(*) FROM nearfar.tables").await,
        "0"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_are_not_supported_say_what_is() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE t AS SELECT 1 AS a").await;
    for sql in [
        "MERGE INTO t USING t AS u ON t.a = u.a WHEN MATCHED THEN DELETE RETURNING t.a",
        "ALTER TABLE t OWNER TO me",
        "CREATE INDEX i ON t (a + 1)",
        "CREATE INDEX i ON t (a) WHERE a > 0",
        "CREATE INDEX i ON t USING hash (a)",
        "INSERT OVERWRITE t VALUES (1)",
        "LISTEN messages",
        "NOTIFY messages, 'one'",
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains("not supported:"), "{sql}: {message}");
    }
    assert_eq!(value(&session, "SELECT sum(a) FROM t").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_are_taken_or_missing() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, "CREATE TABLE t AS SELECT 1 AS a").await;
    for (sql, part) in [
        (
            "CREATE TABLE t AS SELECT 2 AS a",
            "table `t` already exists",
        ),
        ("CREATE VIEW t AS SELECT 2 AS a", "table `t` already exists"),
        ("DROP TABLE u", "table `u` does not exist"),
        ("SELECT b FROM t", "No field named b"),
        ("INSERT INTO t VALUES (1, 2)", "Inconsistent data length"),
        (
            "CREATE TABLE u AS SELECT 1 AS a, 2 AS a",
            "two columns named `a`",
        ),
        ("COPY u FROM 'x.csv'", "table `u` does not exist"),
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains(part), "{sql}: {message}");
    }
    run(&session, "DISCARD ALL").await;
    assert_eq!(engine.query_memory().used_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tier_without_room_refuses_and_keeps_nothing() {
    let engine = two_tiers_with(Budgets::new().with("far", 64 << 10));
    let session = engine.session();
    let rows = "AS SELECT value AS k, 'row ' || value AS s FROM generate_series(1, 100000)";
    let refused = ["tier \"far\" has ", "raise the budget or place less there"];
    let message = error(&session, &format!("CREATE TABLE t TABLESPACE far {rows}")).await;
    assert!(
        refused.iter().all(|part| message.contains(part)),
        "{message}"
    );
    assert_eq!(region_bytes(&engine), 0);
    assert_eq!(
        value(&session, "SELECT count(*) FROM nearfar.tables").await,
        "0"
    );
    run(&session, &format!("CREATE TABLE t {rows}")).await;
    let before = region_bytes(&engine);
    let message = error(&session, "ALTER TABLE t SET TABLESPACE far").await;
    assert!(
        refused.iter().all(|part| message.contains(part)),
        "{message}"
    );
    assert_eq!(region_bytes(&engine), before);
    assert_eq!(
        value(&session, "SELECT count(*) FROM t WHERE s <> ''").await,
        "100000"
    );
    run(&session, "ALTER TABLE t SET TABLESPACE near").await;
    let message = error(&session, "SELECT 1 / 0").await;
    assert!(message.contains("Divide by zero"), "{message}");
}

#[test]
fn budgets_that_can_t_be_are_named() {
    let engine = |budgets| {
        Engine::new(EngineOptions {
            budgets,
            ..super::support::options()
        })
    };
    let message = engine(Budgets::new().with("nearby", 1))
        .expect_err("no such tier")
        .to_string();
    assert!(message.contains("\"nearby\"; there are: near"), "{message}");
    let message = engine(Budgets::new().with("near", u64::MAX))
        .expect_err("too much")
        .to_string();
    assert!(message.contains("exceeds its capacity"), "{message}");
}

/// Each of these statements fails with its message.
async fn each_is_refused(session: &Session, wanted: &[(&str, &str)]) {
    for (sql, message) in wanted {
        assert_eq!(error(session, sql).await, *message, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_take_one_value_each() {
    let session = two_tiers().session();
    run(
        &session,
        "CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1);
         CREATE TABLE u AS SELECT * FROM t",
    )
    .await;
    let assigned = "multiple assignments to same column \"v\"";
    let merge = "MERGE INTO t USING u ON t.k = u.k WHEN";
    let matched = format!("{merge} MATCHED THEN UPDATE SET v = 2, v = 3");
    let alone = format!("{merge} NOT MATCHED BY SOURCE THEN UPDATE SET v = 2, v = 3");
    let given = "column \"k\" specified more than once";
    for sql in [
        "UPDATE t SET v = 2, v = 3",
        "UPDATE t SET v = 2, V = 3 WHERE k = 1",
        "UPDATE t SET v = 2, v = 3 RETURNING v",
        "UPDATE t SET v = 2, (k, v) = (2, 3)",
        "UPDATE t SET v = 2, v = u.v FROM u WHERE t.k = u.k",
        "PREPARE p AS UPDATE t SET v = 2, v = 3",
        "INSERT INTO t VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET v = 2, v = 3",
        matched.as_str(),
        alone.as_str(),
    ] {
        each_is_refused(&session, &[(sql, assigned)]).await;
    }
    each_is_refused(
        &session,
        &[
            ("INSERT INTO t (k, k) VALUES (2, 2)", given),
            ("INSERT INTO t (k, K) SELECT 2, 2", given),
        ],
    )
    .await;
    assert_eq!(value(&session, "SELECT sum(v) FROM t").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_declared_twice_is_refused() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE t (k INT, v INT)").await;
    let both = "both default and identity specified for column \"id\" of table \"n\"";
    let several = "multiple default values specified for column \"id\" of table \"n\"";
    each_is_refused(
        &session,
        &[
            (
                "CREATE TABLE n (a INT, b INT, PRIMARY KEY (a, b, A))",
                "column \"a\" appears twice in primary key constraint",
            ),
            (
                "CREATE TABLE n (a INT, UNIQUE (a, a))",
                "column \"a\" appears twice in unique constraint",
            ),
            (
                "ALTER TABLE t ADD UNIQUE (v, v)",
                "column \"v\" appears twice in unique constraint",
            ),
            (
                "CREATE TABLE n (id INT DEFAULT 4 GENERATED ALWAYS AS IDENTITY)",
                both,
            ),
            (
                "CREATE TABLE n (id INT GENERATED BY DEFAULT AS IDENTITY DEFAULT 4)",
                both,
            ),
            ("CREATE TABLE n (id SERIAL DEFAULT 4)", several),
            ("CREATE TABLE n (id INT DEFAULT 4 DEFAULT 5)", several),
        ],
    )
    .await;
    for percent in ["1000", "9", "101"] {
        let sql = format!("CREATE INDEX ON t (v) WITH (fillfactor = {percent})");
        let message = error(&session, &sql).await;
        assert!(message.contains("`fillfactor`"), "{sql}: {message}");
    }
}
