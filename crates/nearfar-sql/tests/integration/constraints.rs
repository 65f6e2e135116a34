//! Conditions of rows, and foreign keys.

use super::support::{engine, error, open, run, try_run, value};
use nearfar_sql::engine::{Engine, Session};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Longer than a statement takes that waits for nobody.
const PATIENCE: Duration = Duration::from_secs(20);

async fn with_families(rules: &str) -> (Arc<Engine>, Session) {
    let engine = engine();
    let session = engine.session();
    run(
        &session,
        &format!(
            "CREATE TABLE p (id INT PRIMARY KEY, v INT);
             CREATE TABLE c (id INT PRIMARY KEY, p INT DEFAULT 1 REFERENCES p {rules});
             INSERT INTO p VALUES (1, 10), (2, 20), (3, 30);
             INSERT INTO c VALUES (1, 1), (2, 2), (3, 2), (4, NULL)"
        ),
    )
    .await;
    (engine, session)
}

/// `c` as text: identities and what they refer to.
async fn children(session: &Session) -> String {
    let sql = "SELECT string_agg(id || ':' || coalesce(p::varchar, '-'), ' ' ORDER BY id) FROM c";
    value(session, sql).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_fails_a_condition() {
    let engine = engine();
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE t (a INT CHECK (a > 0), b INT, c VARCHAR CONSTRAINT short CHECK (length(c) < 4),
                         k INT PRIMARY KEY, CHECK (a < b), d DECIMAL(8, 2) CHECK (d >= 0.5))",
    )
    .await;
    run(
        &session,
        "INSERT INTO t VALUES (1, 2, 'abc', 1, 0.5), (NULL, NULL, NULL, 2, NULL)",
    )
    .await;
    for (sql, constraint) in [
        ("INSERT INTO t VALUES (0, 2, 'a', 3, 1)", "t_a_check"),
        ("INSERT INTO t VALUES (5, 2, 'a', 3, 1)", "t_check"),
        ("INSERT INTO t VALUES (1, 2, 'abcd', 3, 1)", "short"),
        ("INSERT INTO t VALUES (1, 2, 'a', 3, 0.49)", "t_d_check"),
        ("INSERT INTO t SELECT 1, 2, 'abcd', 3, 1", "short"),
        ("UPDATE t SET a = -a", "t_a_check"),
        ("UPDATE t SET a = 7 WHERE k = 1", "t_check"),
        (
            "INSERT INTO t VALUES (1, 2, 'a', 1, 1) ON CONFLICT (k) DO UPDATE SET a = 9",
            "t_check",
        ),
        ("UPDATE t SET c = 'abcd' WHERE k = 2 RETURNING k", "short"),
    ] {
        let message = error(&session, sql).await;
        let expected = format!("violates check constraint \"{constraint}\"");
        assert!(message.contains(&expected), "{sql}: {message}");
    }
    assert_eq!(
        value(&session, "SELECT count(*) FROM t WHERE a = 1 AND b = 2").await,
        "1"
    );
    run(
        &session,
        "UPDATE t SET b = 1 + b WHERE k = 1; INSERT INTO t VALUES (2, 3, 'x', 9, 1)",
    )
    .await;
    for (sql, expected) in [
        (
            "CREATE TABLE u (a INT CHECK (a + 1))",
            "must be of type boolean",
        ),
        ("CREATE TABLE u (a INT CHECK (b > 1))", "b"),
        ("CREATE TABLE u (a INT CHECK (a > (SELECT 1)))", "subquery"),
        ("CREATE TABLE u (a INT CHECK (sum(a) > 1))", "aggregate"),
        (
            "CREATE TABLE u (a INT CONSTRAINT x CHECK (a > 1) CONSTRAINT x CHECK (a > 2))",
            "already exists",
        ),
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains(expected), "{sql}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_come_and_go() {
    let engine = engine();
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (-1)",
    )
    .await;
    let message = error(&session, "ALTER TABLE t ADD CONSTRAINT up CHECK (a > 0)").await;
    assert!(message.contains("is violated by some row"), "{message}");
    run(
        &session,
        "DELETE FROM t WHERE a < 0; ALTER TABLE t ADD CONSTRAINT up CHECK (a > 0)",
    )
    .await;
    assert!(
        error(&session, "INSERT INTO t VALUES (0)")
            .await
            .contains("up")
    );
    let again = error(&session, "ALTER TABLE t ADD CONSTRAINT up CHECK (a > 1)").await;
    assert!(again.contains("already exists"), "{again}");
    let other = engine.session();
    run(&other, "BEGIN; INSERT INTO t VALUES (5)").await;
    run(
        &session,
        "ALTER TABLE t DROP CONSTRAINT up; INSERT INTO t VALUES (0)",
    )
    .await;
    let late = error(&other, "COMMIT").await;
    assert!(late.contains("run the transaction again"), "{late}");
    let gone = error(&session, "ALTER TABLE t DROP CONSTRAINT up").await;
    assert!(gone.contains("up"), "{gone}");
    run(&session, "ALTER TABLE t DROP CONSTRAINT IF EXISTS up").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_refer_to_rows_that_are_there() {
    let (_engine, session) = with_families("").await;
    for sql in [
        "INSERT INTO c VALUES (9, 9)",
        "INSERT INTO c SELECT 9, 9",
        "UPDATE c SET p = 9 WHERE id = 1",
        "UPDATE c SET p = p + 7 WHERE p = 2",
        "INSERT INTO c VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET p = 9",
    ] {
        let message = error(&session, sql).await;
        let expected = "violates foreign key constraint \"c_p_fkey\": key (p)=(9) is not present in table \"p\"";
        assert!(message.contains(expected), "{sql}: {message}");
    }
    for sql in [
        "DELETE FROM p WHERE id = 2",
        "DELETE FROM p",
        "UPDATE p SET id = 7 WHERE id = 2",
        "UPDATE p SET id = id + 10",
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains("is still referenced"), "{sql}: {message}");
    }
    run(
        &session,
        "DELETE FROM p WHERE id = 3; UPDATE p SET v = v + 1, id = id",
    )
    .await;
    run(&session, "INSERT INTO c (id) VALUES (7)").await;
    assert_eq!(children(&session).await, "1:1 2:2 3:2 4:- 7:1");
    run(
        &session,
        "BEGIN; INSERT INTO p VALUES (5, 0); INSERT INTO c VALUES (5, 5); DELETE FROM c WHERE id = 5;
         DELETE FROM p WHERE id = 5; COMMIT",
    )
    .await;
    let types = error(&session, "CREATE TABLE d (p VARCHAR REFERENCES p)").await;
    assert!(types.contains("can't be"), "{types}");
    let no_key = error(&session, "CREATE TABLE d (p INT REFERENCES p (v))").await;
    assert!(no_key.contains("no unique constraint"), "{no_key}");
    let unknown = error(&session, "CREATE TABLE d (p INT REFERENCES nothing)").await;
    assert!(unknown.contains("does not exist"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_no_parent_can_have_refer_to_none() {
    let session = engine().session();
    run(
        &session,
        "CREATE TABLE p (id INT PRIMARY KEY, d DECIMAL(9, 0) UNIQUE); INSERT INTO p VALUES (1, 1);
         CREATE TABLE wide (p BIGINT REFERENCES p, q BIGINT)",
    )
    .await;
    for sql in [
        "INSERT INTO wide VALUES (5000000000, 1)",
        "INSERT INTO wide SELECT 5000000000, 1",
        "INSERT INTO wide VALUES (1, 1), (NULL, 1), (5000000000, 1)",
    ] {
        let message = error(&session, sql).await;
        let expected = "key (p)=(5000000000) is not present in table \"p\"";
        assert!(message.contains(expected), "{sql}: {message}");
    }
    run(&session, "INSERT INTO wide VALUES (1, 1), (NULL, 2)").await;
    let scales = error(
        &session,
        "CREATE TABLE d (d DECIMAL(9, 2) REFERENCES p (d))",
    )
    .await;
    assert!(scales.contains("can't be"), "{scales}");
    run(
        &session,
        "CREATE TABLE d (d DECIMAL(9, 0) REFERENCES p (d)); INSERT INTO d VALUES (1)",
    )
    .await;
    assert!(
        error(&session, "INSERT INTO d VALUES (2)")
            .await
            .contains("is not present")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copied_rows_fail_no_constraint() {
    let (_engine, session) = with_families("").await;
    run(&session, "ALTER TABLE c ADD CHECK (id < 100)").await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("c.csv");
    let copy = format!(
        "COPY c FROM '{}' (FORMAT csv, HEADER false)",
        file.display()
    );
    for (rows, expected) in [
        ("9,9\n", "is not present"),
        ("100,1\n", "check constraint"),
        ("10,1\n11,2\n1,1\n", "duplicate key"),
    ] {
        std::fs::write(&file, rows).expect("a file");
        let message = error(&session, &copy).await;
        assert!(message.contains(expected), "{rows}: {message}");
    }
    std::fs::write(&file, "10,1\n11,\n").expect("a file");
    run(&session, &copy).await;
    assert_eq!(children(&session).await, "1:1 2:2 3:2 4:- 10:1 11:-");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_follow_those_that_they_refer_to() {
    for (rules, sql, expected) in [
        ("ON DELETE CASCADE", "DELETE FROM p WHERE id = 2", "1:1 4:-"),
        ("ON DELETE CASCADE", "DELETE FROM p", "4:-"),
        (
            "ON DELETE SET NULL",
            "DELETE FROM p WHERE id = 2",
            "1:1 2:- 3:- 4:-",
        ),
        (
            "ON DELETE SET DEFAULT",
            "DELETE FROM p WHERE id = 2",
            "1:1 2:1 3:1 4:-",
        ),
        (
            "ON UPDATE CASCADE",
            "UPDATE p SET id = 12 WHERE id = 2",
            "1:1 2:12 3:12 4:-",
        ),
        (
            "ON UPDATE CASCADE",
            "UPDATE p SET id = id + 10",
            "1:11 2:12 3:12 4:-",
        ),
        (
            "ON UPDATE SET NULL",
            "UPDATE p SET id = id + 10",
            "1:- 2:- 3:- 4:-",
        ),
        (
            "ON UPDATE CASCADE",
            "INSERT INTO p VALUES (2, 0), (8, 0) ON CONFLICT (id) DO UPDATE SET id = p.id + 40",
            "1:1 2:42 3:42 4:-",
        ),
    ] {
        let (_engine, session) = with_families(rules).await;
        run(&session, sql).await;
        assert_eq!(children(&session).await, expected, "{rules}: {sql}");
    }
    let (_engine, session) = with_families("ON DELETE SET DEFAULT").await;
    let message = error(&session, "DELETE FROM p").await;
    assert!(
        message.contains("not present"),
        "the default is gone too: {message}"
    );
    assert_eq!(children(&session).await, "1:1 2:2 3:2 4:-");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_several_columns_and_tables_that_refer_to_themselves() {
    let engine = engine();
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE p (a INT, b VARCHAR(9), UNIQUE (b, a));
         CREATE TABLE c (x BIGINT, y VARCHAR, FOREIGN KEY (x, y) REFERENCES p (a, b) MATCH FULL);
         CREATE TABLE d (x INT, y VARCHAR, CONSTRAINT two FOREIGN KEY (x, y) REFERENCES p (a, b) ON DELETE CASCADE);
         INSERT INTO p VALUES (1, 'a'), (1, 'b'), (2, 'a');
         INSERT INTO c VALUES (1, 'b'), (NULL, NULL);
         INSERT INTO d VALUES (1, NULL), (NULL, 'z'), (2, 'a')",
    )
    .await;
    let mixed = error(&session, "INSERT INTO c VALUES (1, NULL)").await;
    assert!(mixed.contains("MATCH FULL"), "{mixed}");
    for sql in [
        "INSERT INTO c VALUES (2, 'b')",
        "INSERT INTO d VALUES (2, 'b')",
    ] {
        assert!(
            error(&session, sql).await.contains("(x, y)=(2, b)"),
            "{sql}"
        );
    }
    assert!(
        error(&session, "DELETE FROM p WHERE a = 1")
            .await
            .contains("c_x_y_fkey")
    );
    run(&session, "DELETE FROM p WHERE a = 2").await;
    assert_eq!(value(&session, "SELECT count(*) FROM d").await, "2");
    run(
        &session,
        "CREATE TABLE tree (id INT PRIMARY KEY, above INT REFERENCES tree ON DELETE CASCADE);
         INSERT INTO tree VALUES (3, 2), (2, 1), (1, NULL), (9, 9), (4, 3)",
    )
    .await;
    run(&session, "DELETE FROM tree WHERE id = 2").await;
    assert_eq!(
        value(
            &session,
            "SELECT string_agg(id::varchar, ' ' ORDER BY id) FROM tree"
        )
        .await,
        "1 9"
    );
    run(&session, "DELETE FROM tree").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_can_wait_for_the_end_of_the_transaction() {
    let (_engine, session) = with_families("DEFERRABLE INITIALLY DEFERRED").await;
    run(
        &session,
        "BEGIN; INSERT INTO c VALUES (8, 8); INSERT INTO p VALUES (8, 0); COMMIT",
    )
    .await;
    run(
        &session,
        "BEGIN; DELETE FROM p WHERE id = 8; DELETE FROM c WHERE p = 8; COMMIT",
    )
    .await;
    run(&session, "BEGIN; INSERT INTO c VALUES (8, 8)").await;
    assert!(error(&session, "COMMIT").await.contains("is not present"));
    assert_eq!(children(&session).await, "1:1 2:2 3:2 4:-");
    assert!(
        error(&session, "INSERT INTO c VALUES (8, 8)")
            .await
            .contains("is not present")
    );
    run(&session, "BEGIN; DELETE FROM p WHERE id = 2").await;
    let now = error(&session, "SET CONSTRAINTS ALL IMMEDIATE").await;
    assert!(now.contains("is still referenced"), "{now}");
    run(
        &session,
        "ROLLBACK; BEGIN; SAVEPOINT s; INSERT INTO c VALUES (8, 8); ROLLBACK TO s; COMMIT",
    )
    .await;
    let (_engine, session) =
        with_families("ON DELETE RESTRICT DEFERRABLE INITIALLY DEFERRED").await;
    let restricted = error(&session, "BEGIN; DELETE FROM p WHERE id = 2").await;
    assert!(
        restricted.contains("is still referenced"),
        "no wait: {restricted}"
    );
    let (_engine, session) = with_families("DEFERRABLE").await;
    assert!(
        error(&session, "BEGIN; INSERT INTO c VALUES (8, 8)")
            .await
            .contains("is not present")
    );
    run(
        &session,
        "ROLLBACK; BEGIN; SET CONSTRAINTS ALL DEFERRED; INSERT INTO c VALUES (8, 8);
         INSERT INTO p VALUES (8, 0); COMMIT",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_of_some_constraints_can_wait() {
    let engine = engine();
    let session = engine.session();
    let tables = "CREATE TABLE p (id INT PRIMARY KEY);
                  CREATE TABLE c (a INT CONSTRAINT first REFERENCES p DEFERRABLE,
                                  b INT CONSTRAINT second REFERENCES p DEFERRABLE,
                                  d INT CONSTRAINT third REFERENCES p)";
    run(&session, tables).await;
    let wrong = "INSERT INTO c VALUES (7, 8, NULL)";
    for (names, found) in [
        ("first", "\"second\""),
        ("second", "\"first\""),
        ("first, public.second", ""),
        ("ALL", ""),
    ] {
        let sql = format!("BEGIN; SET CONSTRAINTS {names} DEFERRED; {wrong}");
        match found {
            "" => {
                run(&session, &sql).await;
                // The other one waits still.
                let message = error(&session, "SET CONSTRAINTS second IMMEDIATE").await;
                assert!(message.contains("\"second\""), "{names}: {message}");
            }
            found => {
                let message = error(&session, &sql).await;
                assert!(message.contains(found), "{names}: {message}");
            }
        }
        run(&session, "ROLLBACK").await;
    }
    let mended = format!(
        "BEGIN; SET CONSTRAINTS first, second DEFERRED; {wrong}; INSERT INTO p VALUES (8);
         SET CONSTRAINTS second IMMEDIATE; INSERT INTO p VALUES (7); COMMIT"
    );
    run(&session, &mended).await;
    let left =
        format!("DELETE FROM c; DELETE FROM p; BEGIN; SET CONSTRAINTS ALL DEFERRED; {wrong}");
    run(&session, &left).await;
    let message = error(&session, "COMMIT").await;
    assert!(message.contains("is not present"), "{message}");
    for (name, expected) in [("third", "is not deferrable"), ("fourth", "does not exist")] {
        let message = error(&session, &format!("SET CONSTRAINTS {name} DEFERRED")).await;
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_referred_to_stays() {
    let (_engine, session) = with_families("").await;
    for (sql, expected) in [
        ("DROP TABLE p", "refers to it"),
        ("TRUNCATE p", "cannot truncate"),
        ("ALTER TABLE p DROP CONSTRAINT p_pkey", "refers to it"),
        (
            "CREATE OR REPLACE TABLE p AS SELECT 1 AS id",
            "refers to it",
        ),
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains(expected), "{sql}: {message}");
    }
    run(
        &session,
        "TRUNCATE p, c; DROP TABLE p CASCADE; INSERT INTO c VALUES (1, 77)",
    )
    .await;
    let (_engine, session) = with_families("").await;
    run(&session, "DROP TABLE p, c").await;
    let (_engine, session) = with_families("").await;
    run(
        &session,
        "ALTER TABLE c DROP CONSTRAINT c_p_fkey; INSERT INTO c VALUES (9, 9)",
    )
    .await;
    let add = "ALTER TABLE c ADD CONSTRAINT again FOREIGN KEY (p) REFERENCES p (id)";
    assert!(
        error(&session, add)
            .await
            .contains("is violated by some row")
    );
    run(&session, &format!("DELETE FROM c WHERE id = 9; {add}")).await;
    assert!(
        error(&session, "INSERT INTO c VALUES (9, 9)")
            .await
            .contains("again")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_wait_for_each_other_where_rows_refer() {
    let (engine, one) = with_families("").await;
    let other = engine.session();
    run(&one, "BEGIN; INSERT INTO c VALUES (30, 3)").await;
    run(&engine.session(), "INSERT INTO c VALUES (31, 3)").await;
    run(&engine.session(), "UPDATE p SET v = 0 WHERE id = 3").await;
    let waiting = tokio::spawn(async move { error(&other, "DELETE FROM p WHERE id = 3").await });
    sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    run(&one, "COMMIT").await;
    let message = timeout(PATIENCE, waiting)
        .await
        .expect("no hang")
        .expect("no panic");
    assert!(message.contains("is still referenced"), "{message}");

    run(
        &one,
        "DELETE FROM c WHERE p = 3; BEGIN; DELETE FROM p WHERE id = 3",
    )
    .await;
    let other = engine.session();
    let waiting =
        tokio::spawn(async move { try_run(&other, "INSERT INTO c VALUES (32, 3)").await });
    sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    run(&one, "ROLLBACK").await;
    let added = timeout(PATIENCE, waiting)
        .await
        .expect("no hang")
        .expect("no panic");
    added.expect("the row that it refers to has stayed");

    let late = engine.session();
    run(
        &late,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM c",
    )
    .await;
    run(
        &one,
        "DELETE FROM c WHERE p = 3; INSERT INTO c VALUES (33, 3)",
    )
    .await;
    let message = error(&late, "DELETE FROM p WHERE id = 3").await;
    assert!(message.contains("run the transaction again"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_old_rows_may_refer_to_rows_that_others_have_changed() {
    let (engine, one) = with_families("").await;
    let late = engine.session();
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM p";
    run(&late, begin).await;
    run(&one, "UPDATE p SET v = v + 1 WHERE id < 3").await;
    run(&late, "INSERT INTO c VALUES (30, 1), (31, 3), (32, NULL)").await;
    run(&late, "UPDATE c SET p = 2 WHERE id = 1; COMMIT").await;
    assert_eq!(children(&one).await, "1:2 2:2 3:2 4:- 30:1 31:3 32:-");

    run(&late, begin).await;
    run(
        &one,
        "DELETE FROM c WHERE p = 3; DELETE FROM p WHERE id = 3",
    )
    .await;
    run(&one, "UPDATE p SET v = v + 1 WHERE id = 1").await;
    let message = error(&late, "INSERT INTO c VALUES (33, 1), (34, 3)").await;
    assert!(message.contains("run the transaction again"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_of_rows_that_many_refer_to_are_no_conflict() {
    let (engine, session) = with_families("").await;
    let workers = (0..8).map(|worker| {
        let session = engine.session();
        tokio::spawn(async move {
            for _ in 0..100 {
                let own = format!("BEGIN; UPDATE c SET p = 1 WHERE id = {worker}");
                run(&session, &own).await;
                run(&session, "UPDATE p SET v = v + 1 WHERE id = 1; COMMIT").await;
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        let ended = timeout(PATIENCE * 6, worker).await;
        ended.expect("no hang").expect("no conflict");
    }
    assert_eq!(value(&session, "SELECT v FROM p WHERE id = 1").await, "810");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_row_is_left_alone_by_sessions_beside_each_other() {
    let engine = engine();
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE p (id INT PRIMARY KEY);
         CREATE TABLE c (id SERIAL, p INT REFERENCES p, q INT REFERENCES p ON DELETE CASCADE);
         INSERT INTO p SELECT v FROM generate_series(0, 7) AS g (v)",
    )
    .await;
    let workers = (0..4_u32).map(|worker| {
        let session = engine.session();
        tokio::spawn(async move {
            let mut random = worker.wrapping_mul(2_654_435_761).wrapping_add(1);
            for _ in 0..60 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let key = (random >> 16) % 8;
                let sql = match (random >> 24) % 5 {
                    0 => format!("INSERT INTO c (p) VALUES ({key})"),
                    1 => format!("INSERT INTO c (q) VALUES ({key})"),
                    2 => format!("DELETE FROM p WHERE id = {key}"),
                    3 => format!("DELETE FROM c WHERE p = {key}"),
                    _ => format!("INSERT INTO p VALUES ({key}) ON CONFLICT DO NOTHING"),
                };
                // Whether it succeeds depends on the others.
                let _ = try_run(&session, &sql).await;
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        timeout(PATIENCE * 6, worker)
            .await
            .expect("no hang")
            .expect("no panic");
    }
    let orphans = "SELECT count(*) FROM c WHERE (p IS NOT NULL AND p NOT IN (SELECT id FROM p))
                   OR (q IS NOT NULL AND q NOT IN (SELECT id FROM p))";
    assert_eq!(value(&session, orphans).await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constraints_outlive_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..4 {
        let engine = open(folder.path());
        let session = engine.session();
        if round == 0 {
            run(
                &session,
                "CREATE SCHEMA s; CREATE TABLE s.p (id INT PRIMARY KEY);
                 CREATE TABLE c (id INT CHECK (id < 100), p INT);
                 ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES s.p ON DELETE CASCADE;
                 ALTER TABLE c ADD CONSTRAINT low CHECK (p < 50)",
            )
            .await;
        }
        if round == 2 {
            run(&session, "CHECKPOINT").await;
        }
        run(
            &session,
            &format!("INSERT INTO s.p VALUES ({round}); INSERT INTO c VALUES ({round}, {round})"),
        )
        .await;
        for (sql, expected) in [
            ("INSERT INTO c VALUES (100, NULL)", "c_id_check"),
            ("INSERT INTO c VALUES (1, 50)", "low"),
            ("INSERT INTO c VALUES (1, 49)", "c_p_fkey"),
            ("DROP TABLE s.p", "refers to it"),
        ] {
            let message = error(&session, sql).await;
            assert!(
                message.contains(expected),
                "round {round}: {sql}: {message}"
            );
        }
    }
    let session = open(folder.path()).session();
    run(&session, "DELETE FROM s.p WHERE id < 3").await;
    assert_eq!(value(&session, "SELECT count(*) FROM c").await, "1");
}
