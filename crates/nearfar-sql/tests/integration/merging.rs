//! `MERGE`.

use super::support::{error, run, try_run, two_tiers, value};
use nearfar_sql::engine::Session;
use std::time::Duration;
use tokio::time::timeout;

const TABLES: &str = "CREATE TABLE t (k INT PRIMARY KEY, n INT DEFAULT 7, s VARCHAR);
                      CREATE TABLE u (k INT, n INT);
                      INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
                      INSERT INTO u VALUES (2, 200), (3, 300), (4, 400), (5, NULL)";

async fn rows(session: &Session) -> String {
    let each = "k || ':' || coalesce(CAST(n AS VARCHAR), '-') || ':' || coalesce(s, '-')";
    let all = format!("SELECT string_agg({each}, ' ' ORDER BY k) FROM t");
    value(session, &all).await
}

/// What each of `merges` answers, and the rows of the table after it, each from the same rows.
async fn each_gives(merges: &[(&str, &str, &str)]) {
    for (merge, expected, left) in merges {
        let session = two_tiers().session();
        run(&session, TABLES).await;
        assert_eq!(run(&session, merge).await, *expected, "{merge}");
        assert_eq!(rows(&session).await, *left, "{merge}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_changed_deleted_and_added() {
    each_gives(&[
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN UPDATE SET N = t.n + u.n \
             WHEN NOT MATCHED THEN INSERT (k, n) VALUES (u.k, u.n)",
            "MERGE 4",
            "1:10:a 2:220:b 3:330:c 4:400:- 5:-:-",
        ),
        (
            "MERGE INTO t x USING (SELECT k, n FROM u WHERE k < 5) AS y ON x.k = y.k \
             WHEN MATCHED AND y.n > 200 THEN DELETE \
             WHEN MATCHED THEN UPDATE SET (s, n) = ('new', DEFAULT) \
             WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (y.k, DEFAULT)",
            "MERGE 3",
            "1:10:a 2:7:new 4:7:-",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND t.k = 2 THEN DO NOTHING \
             WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND u.n IS NULL THEN DO NOTHING \
             WHEN NOT MATCHED THEN INSERT (s, k) VALUES ('of ' || u.k, u.k)",
            "MERGE 2",
            "1:10:a 2:20:b 4:7:of 4",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k AND t.n > 20 \
             WHEN NOT MATCHED BY SOURCE AND t.k = 1 THEN DELETE \
             WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = DEFAULT, s = 'alone'",
            "MERGE 2",
            "2:7:alone 3:30:c",
        ),
        (
            "MERGE INTO t USING (VALUES (9, 1), (1, 0)) AS v (k, d) ON t.k = v.k \
             WHEN MATCHED THEN UPDATE SET n = 100 / (v.d + 1) \
             WHEN NOT MATCHED THEN INSERT VALUES (v.k, 100 / v.d, CAST(v.d AS VARCHAR)) \
             WHEN NOT MATCHED BY SOURCE THEN DO NOTHING",
            "MERGE 2",
            "1:100:a 2:20:b 3:30:c 9:100:1",
        ),
        (
            "MERGE INTO t USING t AS u ON t.k = u.k + 1 WHEN MATCHED THEN UPDATE SET n = u.n \
             WHEN NOT MATCHED THEN INSERT VALUES (u.k + 10, u.n)",
            "MERGE 3",
            "1:10:a 2:10:b 3:20:c 13:30:-",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k \
             WHEN MATCHED AND u.n > (SELECT avg(n) FROM t) * 10 THEN UPDATE SET s = (SELECT max(s) FROM t) \
             WHEN NOT MATCHED AND EXISTS (SELECT 1 FROM u AS w WHERE w.n = u.n) THEN INSERT VALUES (u.k)",
            "MERGE 2",
            "1:10:a 2:20:b 3:30:c 4:7:-",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_a_statement_may_not_make_are_refused_and_nothing_is_changed() {
    let session = two_tiers().session();
    run(&session, TABLES).await;
    run(&session, "INSERT INTO u VALUES (2, 201)").await;
    let before = rows(&session).await;
    for (merge, expected) in [
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN UPDATE SET n = u.n",
            "cannot affect row a second time",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN NOT MATCHED THEN INSERT VALUES (1, 1)",
            "t_pkey",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN NOT MATCHED THEN INSERT VALUES (t.k)",
            "t.k",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN NOT MATCHED THEN INSERT (k, n) VALUES (u.k)",
            "more target columns than expressions",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND sum(u.n) > 1 THEN DELETE",
            "aggregate functions are not allowed",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN UPDATE SET z = 1",
            "z",
        ),
        (
            "MERGE INTO none USING u ON none.k = u.k WHEN MATCHED THEN DELETE",
            "none",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN NOT MATCHED THEN INSERT VALUES (NULL, 1)",
            "k",
        ),
    ] {
        let message = error(&session, merge).await;
        assert!(message.contains(expected), "{merge}: {message}");
        assert_eq!(rows(&session).await, before, "{merge}");
    }
    // A row is only changed once if it is not changed by the other.
    let merge =
        "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND u.n = 201 THEN UPDATE SET n = u.n";
    assert_eq!(run(&session, merge).await, "MERGE 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identities_and_constraints_hold() {
    let session = two_tiers().session();
    run(
        &session,
        "CREATE TABLE p (k INT PRIMARY KEY);
         CREATE TABLE t (id INT GENERATED ALWAYS AS IDENTITY, k INT REFERENCES p, n INT CHECK (n > 0));
         INSERT INTO p VALUES (1), (2)",
    )
    .await;
    let into = "MERGE INTO t USING (VALUES (1, 5), (2, 6)) AS v (k, n) ON t.k = v.k";
    let merge = format!("{into} WHEN NOT MATCHED THEN INSERT (k, n) VALUES (v.k, v.n)");
    assert_eq!(run(&session, &merge).await, "MERGE 2");
    assert_eq!(value(&session, "SELECT sum(id) FROM t").await, "3");
    for (rest, expected) in [
        ("WHEN MATCHED THEN UPDATE SET n = 0", "t_n_check"),
        ("WHEN MATCHED THEN UPDATE SET k = v.k + 7", "t_k_fkey"),
        ("WHEN MATCHED THEN UPDATE SET id = 4", "id"),
        (
            "AND false WHEN NOT MATCHED THEN INSERT VALUES (9, 1, 1)",
            "id",
        ),
    ] {
        let message = error(&session, &format!("{into} {rest}")).await;
        assert!(message.contains(expected), "{rest}: {message}");
    }
    let all = "WHEN MATCHED AND v.k = 1 THEN UPDATE SET id = DEFAULT \
               WHEN NOT MATCHED BY SOURCE THEN DELETE";
    assert_eq!(run(&session, &format!("{into} {all}")).await, "MERGE 1");
    let none = "AND false WHEN NOT MATCHED AND v.k = 1 THEN INSERT DEFAULT VALUES";
    assert_eq!(run(&session, &format!("{into} {none}")).await, "MERGE 1");
    let counted = "SELECT count(*) || ' ' || count(DISTINCT id) || ' ' || count(n) FROM t";
    assert_eq!(value(&session, counted).await, "3 3 2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_waits_for_rows_and_looks_again() {
    let engine = two_tiers();
    let (one, other) = (engine.session(), engine.session());
    run(&one, TABLES).await;
    run(&one, "BEGIN; UPDATE t SET n = 21 WHERE k = 2").await;
    let merge = "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND t.n = 21 THEN UPDATE SET n = t.n + 1 \
                 WHEN MATCHED THEN UPDATE SET n = 0";
    let merging = tokio::spawn(async move { try_run(&other, merge).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!merging.is_finished());
    run(&one, "COMMIT").await;
    let done = timeout(Duration::from_secs(60), merging).await;
    done.expect("in time").expect("no panic").expect("merged");
    assert_eq!(rows(&one).await, "1:10:a 2:22:b 3:0:c");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_are_prepared_explained_and_undone() {
    let session = two_tiers().session();
    run(&session, TABLES).await;
    let merge = "MERGE INTO t USING (SELECT CAST($1 AS INT) AS k, CAST($2 AS INT) AS n) AS v ON t.k = v.k \
                 WHEN MATCHED THEN UPDATE SET n = v.n WHEN NOT MATCHED THEN INSERT VALUES (v.k, v.n)";
    run(&session, &format!("PREPARE m AS {merge}")).await;
    run(&session, "BEGIN").await;
    assert_eq!(run(&session, "EXECUTE m (1, 11)").await, "MERGE 1");
    assert_eq!(run(&session, "EXECUTE m (4, 44)").await, "MERGE 1");
    assert_eq!(rows(&session).await, "1:11:a 2:20:b 3:30:c 4:44:-");
    run(&session, "ROLLBACK").await;
    assert_eq!(rows(&session).await, "1:10:a 2:20:b 3:30:c");
    let explained = "EXPLAIN MERGE INTO t USING u ON t.k = u.k WHEN NOT MATCHED THEN DO NOTHING";
    let plan = run(&session, explained).await;
    assert!(plan.contains("Join"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_are_evaluated_for_rows_of_their_clauses_only() {
    each_gives(&[(
        "MERGE INTO t USING (VALUES (1, 0), (2, 0), (9, 5)) AS v (k, d) ON t.k = v.k \
         WHEN NOT MATCHED AND 10 / v.d > 1 THEN INSERT VALUES (v.k, v.d) \
         WHEN MATCHED AND v.d = 0 THEN DELETE \
         WHEN MATCHED AND 10 / v.d > 1 THEN DO NOTHING",
        "MERGE 3",
        "3:30:c 9:5:-",
    )])
    .await;
}
