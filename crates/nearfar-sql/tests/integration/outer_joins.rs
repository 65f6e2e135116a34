//! Outer joins become inner ones where the joins above allow it, and answers stay what they are.

use nearfar_sql::engine::{Engine, Session};

use super::support::{options, run, same_without};

async fn session() -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    let tables = "CREATE TABLE s AS SELECT value AS id, value % 50 AS n FROM generate_series(1, 400); \
                  CREATE TABLE r AS SELECT value AS id, nullif(value % 4, 0) AS k FROM generate_series(1, 300, 2); \
                  CREATE TABLE t AS SELECT value AS k, 'reason ' || value AS why FROM generate_series(0, 2)";
    run(&session, tables).await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_a_partner_that_no_join_above_wants_are_left_out() {
    let session = session().await;
    let sql = "SELECT s.n, t.why FROM s LEFT JOIN r ON s.id = r.id, t WHERE r.k = t.k";
    let plan = run(&session, &format!("EXPLAIN {sql}")).await;
    assert!(
        !plan.contains("Left Join") && !plan.contains("join_type=Left,"),
        "{plan}"
    );
    assert!(!plan.contains("join_type=Right,"), "{plan}");
    run(&session, "SET narrow_outer_joins = off").await;
    let plan = run(&session, &format!("EXPLAIN {sql}")).await;
    assert!(plan.contains("Left Join"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_with_outer_joins_made_inner() {
    let session = session().await;
    let counted = "SELECT count(*), count(s.id), count(r.id), count(t.k), sum(s.n) FROM";
    let from = [
        "s LEFT JOIN r ON s.id = r.id, t WHERE r.k = t.k",
        "s LEFT JOIN r ON s.id = r.id JOIN t ON s.n = t.k",
        "s LEFT JOIN r ON s.id = r.id LEFT JOIN t ON r.k = t.k",
        "t RIGHT JOIN (s LEFT JOIN r ON s.id = r.id) ON r.k = t.k",
        "t LEFT JOIN (s LEFT JOIN r ON s.id = r.id) ON r.k = t.k",
        "r RIGHT JOIN s ON s.id = r.id JOIN t ON r.k = t.k",
        "s FULL JOIN r ON s.id = r.id + 200 JOIN t ON r.k = t.k",
        "s FULL JOIN r ON s.id = r.id + 200 JOIN t ON s.n = t.k",
        "s FULL JOIN r ON s.id = r.id + 200 JOIN t ON s.n = t.k JOIN t u ON r.k = u.k",
        "s FULL JOIN r ON s.id = r.id + 200 FULL JOIN t ON r.k = t.k",
        "s LEFT JOIN r ON s.id = r.id JOIN t ON r.k IS NOT DISTINCT FROM nullif(t.k, 0)",
        "s LEFT JOIN r ON s.id = r.id JOIN t ON coalesce(r.k, 0) = t.k",
        "s LEFT JOIN r ON s.id = r.id JOIN t ON r.k < t.k OR r.k IS NULL",
        "s LEFT JOIN (SELECT id, k + 1 AS k FROM r) r ON s.id = r.id JOIN t ON r.k = t.k",
        "s LEFT JOIN (SELECT id AS k, k AS id FROM r) r ON s.id = r.k JOIN t ON r.id = t.k",
    ];
    let of_rows = [
        "SELECT count(*) FROM s LEFT JOIN r ON s.id = r.id WHERE r.k IN (SELECT k FROM t)",
        "SELECT count(*) FROM s LEFT JOIN r ON s.id = r.id WHERE r.k NOT IN (SELECT k FROM t)",
        "SELECT count(*) FROM s LEFT JOIN r ON s.id = r.id WHERE NOT EXISTS (SELECT FROM t WHERE t.k = r.k)",
        "SELECT count(*) FROM t WHERE k NOT IN (SELECT r.k FROM s LEFT JOIN r ON s.id = r.id)",
        "SELECT count(*) FROM t WHERE k IN (SELECT r.k FROM s LEFT JOIN r ON s.id = r.id)",
        "SELECT count(*), sum(a.n) FROM (SELECT s.n, r.k FROM s LEFT JOIN r ON s.id = r.id LIMIT 400) a, t \
         WHERE a.k = t.k",
        "SELECT count(*), sum(a.c) FROM (SELECT r.k, count(*) AS c FROM s LEFT JOIN r ON s.id = r.id GROUP BY r.k) a, \
           t WHERE a.k = t.k",
    ];
    let statements = from.iter().map(|from| format!("{counted} {from}"));
    for sql in statements.chain(of_rows.map(str::to_owned)) {
        same_without(&session, "narrow_outer_joins", &sql).await;
    }
}
