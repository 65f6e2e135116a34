//! Values of columns that statements leave to the table.

use datafusion::scalar::ScalarValue;
use nearfar_sql::engine::Session;
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::SqlError;

use super::support::{error, open, run, try_run, two_tiers, value};

const T: &str = "CREATE TABLE t (a INT DEFAULT 1, b VARCHAR(5) DEFAULT 'x' NOT NULL, \
                 c TIMESTAMPTZ DEFAULT now(), d DECIMAL(6, 2) DEFAULT 2 * 1.5, e BIGINT)";

/// All rows, without the time.
async fn rows(session: &Session) -> String {
    let sql = "SELECT string_agg(concat_ws('/', a, b, c IS NULL, d, e), ' ' ORDER BY e) FROM t";
    value(session, sql).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_without_a_value_have_their_default() {
    let session = two_tiers().session();
    run(&session, T).await;
    for insert in [
        "INSERT INTO t (e) VALUES (1)",
        "INSERT INTO t (e, a) VALUES (2, DEFAULT), (3, 30)",
        "INSERT INTO t VALUES (NULL, 'y', NULL, NULL, 4)",
        "INSERT INTO t VALUES (DEFAULT, DEFAULT, DEFAULT, DEFAULT, 5)",
        "INSERT INTO t (E, A) SELECT 6, 60",
        "INSERT INTO t (e) SELECT e + 6 FROM t WHERE e = 1",
        "PREPARE p AS INSERT INTO t (e) VALUES ($1); EXECUTE p(8)",
        "INSERT INTO t (b, e) SELECT * FROM (VALUES ('z', 9)) AS v",
    ] {
        run(&session, insert).await;
    }
    let wanted = "1/x/false/3.00/1 1/x/false/3.00/2 30/x/false/3.00/3 y/true/4 \
                  1/x/false/3.00/5 60/x/false/3.00/6 1/x/false/3.00/7 1/x/false/3.00/8 \
                  1/z/false/3.00/9";
    assert_eq!(rows(&session).await, wanted);
    run(&session, "TRUNCATE t; INSERT INTO t DEFAULT VALUES").await;
    assert_eq!(rows(&session).await, "1/x/false/3.00");
    // Fewer values than columns are those of the first.
    run(&session, "TRUNCATE t; INSERT INTO t VALUES (7), (8)").await;
    run(&session, "INSERT INTO t SELECT 9, 'q'").await;
    let sql = "SELECT string_agg(a || b, ' ' ORDER BY a) FROM t";
    assert_eq!(value(&session, sql).await, "7x 8x 9q");
    run(
        &session,
        "UPDATE t SET a = DEFAULT, b = DEFAULT, e = DEFAULT WHERE a > 7",
    )
    .await;
    assert_eq!(value(&session, sql).await, "1x 1x 7x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_change_and_statements_that_are_not_planned_again_follow() {
    let session = two_tiers().session();
    run(
        &session,
        "CREATE TABLE t (k INT PRIMARY KEY, a INT DEFAULT 1, u VARCHAR DEFAULT gen_random_uuid())",
    )
    .await;
    let statement = session
        .read("INSERT INTO t (k) VALUES ($1)")
        .expect("SQL")
        .remove(0);
    let insert = async |key: i32| {
        let key = [ScalarValue::Int32(Some(key))];
        session.run_with(&statement, &key).await.expect("a row");
    };
    assert!(
        session
            .compile(&statement, &[ScalarValue::Int32(Some(1))])
            .await
            .expect("a plan"),
        "it is planned once"
    );
    insert(1).await;
    insert(2).await;
    run(&session, "ALTER TABLE t ALTER a SET DEFAULT 2").await;
    insert(3).await;
    run(
        &session,
        "ALTER TABLE t ALTER COLUMN a DROP DEFAULT, ALTER u SET DEFAULT 'u'",
    )
    .await;
    insert(4).await;
    let sql = "SELECT string_agg(coalesce(a::text, '-'), '' ORDER BY k) FROM t";
    assert_eq!(value(&session, sql).await, "112-");
    assert_eq!(
        value(&session, "SELECT count(DISTINCT u) FROM t").await,
        "4"
    );
    assert_eq!(value(&session, "SELECT u FROM t WHERE k = 4").await, "u");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_default_is_refused() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE t (a INT, b VARCHAR)").await;
    for (expression, wanted) in [
        ("b", "cannot use column reference in DEFAULT expression"),
        ("(SELECT 1)", "cannot use subquery in DEFAULT expression"),
        (
            "sum(1)",
            "cannot use aggregate, window or set-returning function",
        ),
        ("'1' || '2'", "is of type"),
        ("'one'", "one"),
        ("no_function(1)", "no_function"),
        ("1 +", "xpected"),
    ] {
        for sql in [
            format!("ALTER TABLE t ALTER a SET DEFAULT {expression}"),
            format!("CREATE TABLE n (a INT DEFAULT {expression}, b VARCHAR)"),
        ] {
            let message = error(&session, &sql).await;
            assert!(message.contains(wanted), "{sql}: {message}");
        }
    }
    let unknown = try_run(&session, "ALTER TABLE t ALTER z SET DEFAULT 1").await;
    assert!(matches!(
        unknown,
        Err(EngineError::Sql(SqlError::UnknownColumn { .. }))
    ));
    // A value that is not wanted is an error of the row.
    run(
        &session,
        "CREATE TABLE n (a INT, b VARCHAR(2) DEFAULT 'long')",
    )
    .await;
    assert!(
        error(&session, "INSERT INTO n (a) VALUES (1)")
            .await
            .contains("too long")
    );
    run(
        &session,
        "CREATE TABLE m (a INT, b INT NOT NULL DEFAULT NULL)",
    )
    .await;
    assert!(
        error(&session, "INSERT INTO m (a) VALUES (1)")
            .await
            .contains("does not allow nulls")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_are_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    for checkpoint in ["", "; CHECKPOINT"] {
        let engine = open(folder.path());
        let session = engine.session();
        let sql = "CREATE OR REPLACE TABLE t (a INT DEFAULT 1, b INT DEFAULT 2, e INT); \
                   ALTER TABLE t ALTER b SET DEFAULT 3, ALTER a DROP DEFAULT";
        run(&session, &format!("{sql}{checkpoint}")).await;
        drop((session, engine));
        let engine = open(folder.path());
        let session = engine.session();
        run(&session, "INSERT INTO t (e) VALUES (1)").await;
        let found = value(&session, "SELECT concat_ws('/', a, b, e) FROM t").await;
        assert_eq!(found, "3/1", "{checkpoint}");
    }
}
