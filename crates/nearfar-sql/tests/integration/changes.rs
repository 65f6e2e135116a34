//! Clauses of statements that change rows: what they give back, and other tables that they look at.

use super::support::{error, options, run, try_run, two_tiers, value};
use arrow::util::display::array_value_to_string;
use datafusion::scalar::ScalarValue;
use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use nearfar_sql::error::EngineError;

/// The command of a statement that gives rows, and these, sorted, with values separated by commas.
async fn given_by(
    session: &Session,
    sql: &str,
    parameters: &[ScalarValue],
) -> Result<(&'static str, Vec<String>), EngineError> {
    let statement = session.read(sql)?.remove(0);
    let StatementResult::Rows(rows) = session.run_with(&statement, parameters).await? else {
        panic!("{sql} gives no rows");
    };
    let command = rows.command();
    let mut given = Vec::new();
    for batch in rows.collect().await? {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter();
            let values = values.map(|column| array_value_to_string(column, row).expect("a text"));
            given.push(values.collect::<Vec<_>>().join(","));
        }
    }
    given.sort();
    Ok((command, given))
}

async fn given(session: &Session, sql: &str) -> String {
    let (command, rows) = given_by(session, sql, &[]).await.expect(sql);
    format!("{command} {}", rows.join(" "))
}

const T: &str = "CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR(3), n NUMERIC(6, 2))";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_rows_are_given_back() {
    let session = two_tiers().session();
    run(&session, T).await;
    for (sql, expected) in [
        (
            "INSERT INTO t VALUES (1, 'a', 1.005), (2, 'b', 2) RETURNING *",
            "INSERT 1,a,1.01 2,b,2.00",
        ),
        (
            "INSERT INTO t AS x (v, k) SELECT 'c', max(k) + 1 FROM t RETURNING x.k, n IS NULL, \
             (SELECT count(*) FROM t)",
            "INSERT 3,true,2",
        ),
        (
            "UPDATE t SET v = v || '!' WHERE k >= 2 RETURNING k, v, upper(v) AS v",
            "UPDATE 2,b!,B! 3,c!,C!",
        ),
        ("UPDATE t SET v = 'z' WHERE k = 9 RETURNING *", "UPDATE "),
        (
            "DELETE FROM t WHERE k = 2 RETURNING v, k + 1, t.n",
            "DELETE b!,3,2.00",
        ),
        ("DELETE FROM t AS x WHERE x.k = 9 RETURNING x.k", "DELETE "),
        ("DELETE FROM t AS x WHERE x.k = 3 RETURNING x.k", "DELETE 3"),
        ("SELECT k FROM t", "SELECT 1"),
    ] {
        assert_eq!(given(&session, sql).await, expected, "{sql}");
    }
    let plan = run(
        &session,
        "EXPLAIN UPDATE t SET v = 'x' WHERE k = 1 RETURNING v",
    )
    .await;
    assert!(
        plan.contains("t_pkey") || plan.contains("TableScan"),
        "{plan}"
    );
    for (sql, expected) in [
        ("INSERT INTO t (k) VALUES (7) RETURNING nothing", "nothing"),
        (
            "DELETE FROM t RETURNING count(*)",
            "aggregate functions are not allowed in RETURNING",
        ),
        (
            "DELETE FROM t RETURNING row_number() OVER ()",
            "window functions are not allowed in RETURNING",
        ),
        ("INSERT INTO t (k) VALUES (7) RETURNING 1 / (k - 7)", "ivi"),
        ("INSERT INTO t (k) VALUES (1) RETURNING k", "duplicate key"),
        (
            "INSERT INTO t (v, k) VALUES ('long', 7) RETURNING k",
            "too long",
        ),
        ("EXPLAIN ANALYZE DELETE FROM t RETURNING k", "not supported"),
    ] {
        let failed = error(&session, sql).await;
        assert!(failed.contains(expected), "{sql}: {failed}");
    }
    assert_eq!(given(&session, "SELECT k FROM t").await, "SELECT 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_are_not_planned_again_give_rows_back() {
    let session = two_tiers().session();
    run(&session, T).await;
    let int = |value: i32| ScalarValue::Int32(Some(value));
    let text = |value: &str| ScalarValue::Utf8(Some(value.to_owned()));
    for sql in [
        "INSERT INTO t (k, v) VALUES ($1, $2) RETURNING k, v || $2, n",
        "UPDATE t SET v = $2 WHERE k = $1 RETURNING v, k + $1",
        "DELETE FROM t WHERE k = $1 AND v <> $2 RETURNING k",
    ] {
        let statement = session.read(sql).expect(sql).remove(0);
        for round in 1..4 {
            let parameters = [int(round), text("ab")];
            if sql.starts_with("DELETE") {
                run(&session, "UPDATE t SET v = 'x'").await;
            }
            let result = session.run_with(&statement, &parameters).await.expect(sql);
            let StatementResult::Rows(rows) = result else {
                panic!("{sql} gives no rows");
            };
            assert!(sql.starts_with(rows.command()), "{}", rows.command());
            let rows = rows.collect().await.expect("rows");
            let shown = arrow::util::pretty::pretty_format_batches(&rows)
                .expect("a text")
                .to_string();
            let expected = match &sql[..6] {
                "INSERT" => format!("| {round} | abab     |   |"),
                "UPDATE" => format!("| ab | {}", 2 * round),
                _ => format!("| {round} |"),
            };
            let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            let expected = expected.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(shown.contains(&expected), "{sql}: {shown}");
        }
    }
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "0");
    run(
        &session,
        "PREPARE i (INT) AS INSERT INTO t (k) VALUES ($1) RETURNING k + $1",
    )
    .await;
    assert_eq!(given(&session, "EXECUTE i(4)").await, "INSERT 8");
    run(
        &session,
        "PREPARE d AS DELETE FROM t WHERE k = $1 RETURNING k",
    )
    .await;
    assert_eq!(given(&session, "EXECUTE d(4)").await, "DELETE 4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_changed_by_what_other_tables_say() {
    let session = two_tiers().session();
    run(&session, T).await;
    let other = "CREATE TABLE u (k INT, w VARCHAR);
                 INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4);
                 INSERT INTO u VALUES (1, 'x'), (2, 'y'), (2, 'y'), (7, 'z')";
    run(&session, other).await;
    assert_eq!(
        run(&session, "UPDATE t SET v = u.w FROM u WHERE t.k = u.k").await,
        "UPDATE 2",
        "a row is changed once"
    );
    for (sql, expected) in [
        (
            "UPDATE t AS x SET (v, n) = (u.w || 'q', x.n + y.n) FROM u, t AS y \
             WHERE x.k = u.k AND y.k = 3 AND u.k = 1 RETURNING x.k, x.v, x.n, u.w, y.v",
            "UPDATE 1,xq,4.00,x,c",
        ),
        (
            "UPDATE t SET v = s.w FROM (SELECT k, max(w) AS w FROM u GROUP BY k) AS s \
             WHERE s.k = t.k AND s.k = 2 RETURNING *",
            "UPDATE 2,y,2.00,2,y",
        ),
        (
            "DELETE FROM t USING u, u AS o WHERE t.k = u.k AND o.k = 7 RETURNING t.k, o.w",
            "DELETE 1,z 2,z",
        ),
        ("SELECT k, v FROM t", "SELECT 3,c 4,d"),
    ] {
        assert_eq!(given(&session, sql).await, expected, "{sql}");
    }
    let parameters = [
        ScalarValue::Utf8(Some("p".to_owned())),
        ScalarValue::Int32(Some(3)),
    ];
    let one = "UPDATE t SET v = $1 FROM u WHERE t.k = $2 AND u.k = 7 RETURNING v";
    let one = given_by(&session, one, &parameters);
    assert_eq!(one.await.expect("updated").1, ["p"]);
    assert_eq!(
        run(&session, "UPDATE t SET (v, n) = ('r', 5)").await,
        "UPDATE 2"
    );
    for (sql, expected) in [
        ("UPDATE t SET x = 1 FROM u", "no column `x`"),
        (
            "UPDATE t SET v = 'a', v = 'b' FROM u",
            "multiple assignments",
        ),
        ("UPDATE t SET v = max(u.w) FROM u", "not allowed in UPDATE"),
        ("DELETE FROM t USING nothing", "nothing"),
    ] {
        let failed = error(&session, sql).await;
        assert!(failed.contains(expected), "{sql}: {failed}");
    }
    assert_eq!(run(&session, "CALL nearfar.check('t')").await, "CHECK 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_back_is_undone_and_kept_with_its_transaction() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let open = || {
        let data = Some(DataOptions::new(folder.path()));
        Engine::new(EngineOptions { data, ..options() }).expect("an engine")
    };
    let engine = open();
    let session = engine.session();
    run(&session, T).await;
    run(&session, "BEGIN; INSERT INTO t VALUES (1, 'a', 1)").await;
    run(&session, "SAVEPOINT s").await;
    assert_eq!(
        given(&session, "UPDATE t SET k = 2 RETURNING k").await,
        "UPDATE 2"
    );
    assert!(
        try_run(&session, "DELETE FROM t RETURNING 1 / 0")
            .await
            .is_err()
    );
    run(&session, "ROLLBACK TO s").await;
    assert_eq!(
        given(&session, "DELETE FROM t RETURNING k").await,
        "DELETE 1"
    );
    run(&session, "ROLLBACK TO s; COMMIT").await;
    assert_eq!(
        given(&session, "INSERT INTO t (k) VALUES (5) RETURNING k").await,
        "INSERT 5"
    );
    drop((session, engine));
    let engine = open();
    assert_eq!(
        given(&engine.session(), "SELECT k FROM t").await,
        "SELECT 1 5"
    );
}
