//! Definitions within transactions, and columns of tables that are there.

use super::support::{engine, error, open, run, try_run, value};
use nearfar_sql::engine::Session;
use std::time::Duration;
use tokio::time::timeout;

/// The names of permanent tables, views and sequences that a session sees.
async fn names(session: &Session) -> String {
    let sql =
        "SELECT string_agg(table_name, ' ' ORDER BY table_name) FROM information_schema.tables
               WHERE table_schema NOT IN ('nearfar', 'information_schema', 'temporary')";
    value(session, sql).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_transaction_defines_is_its_own_until_it_commits() {
    let engine = engine();
    let (one, other) = (engine.session(), engine.session());
    run(&one, "CREATE TABLE before (a INT); BEGIN").await;
    run(
        &one,
        "CREATE TABLE t (id SERIAL PRIMARY KEY, v VARCHAR CHECK (v <> ''));
         INSERT INTO t (v) VALUES ('a'), ('b');
         CREATE VIEW w AS SELECT v FROM t;
         CREATE TABLE u AS SELECT * FROM t;
         CREATE INDEX t_v ON t (v);
         CREATE SCHEMA s; CREATE TABLE s.x (a INT); DROP TABLE before",
    )
    .await;
    assert_eq!(
        value(&one, "SELECT count(*) FROM w JOIN u USING (v)").await,
        "2"
    );
    assert_eq!(names(&other).await, "before");
    assert!(error(&other, "SELECT * FROM t").await.contains("t"));
    assert_eq!(names(&one).await, "t u w x");
    run(&one, "COMMIT").await;
    assert_eq!(names(&other).await, "t u w x");
    assert!(
        error(&other, "INSERT INTO t (v) VALUES ('')")
            .await
            .contains("check")
    );
    run(&other, "INSERT INTO t (v) VALUES ('c')").await;
    assert_eq!(value(&other, "SELECT max(id) FROM t").await, "4");
    assert!(
        error(&other, "INSERT INTO t VALUES (4, 'd')")
            .await
            .contains("duplicate key")
    );
    assert_eq!(value(&other, "SELECT id FROM t WHERE v = 'b'").await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_rolled_back_was_never_defined() {
    let engine = engine();
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE t (a INT PRIMARY KEY, b INT DEFAULT 1); INSERT INTO t VALUES (1), (2);
         CREATE TEMP TABLE own (a INT)",
    )
    .await;
    run(
        &session,
        "BEGIN; DROP TABLE own; CREATE TEMP TABLE another (a INT); ALTER TABLE t ADD COLUMN c INT DEFAULT 7;
         ALTER TABLE t ADD CONSTRAINT few CHECK (a < 10); CREATE INDEX t_b ON t (b); INSERT INTO t VALUES (3)",
    )
    .await;
    assert_eq!(value(&session, "SELECT sum(a + b + c) FROM t").await, "30");
    assert!(
        error(&session, "INSERT INTO t VALUES (10)")
            .await
            .contains("few")
    );
    run(&session, "ROLLBACK").await;
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "2");
    assert_eq!(value(&session, "SELECT count(*) FROM own").await, "0");
    assert!(error(&session, "SELECT c FROM t").await.contains("c"));
    assert!(
        error(&session, "SELECT * FROM another")
            .await
            .contains("another")
    );
    run(&session, "INSERT INTO t VALUES (10)").await;
    assert_eq!(
        value(
            &session,
            "SELECT count(*) FROM nearfar.indexes WHERE table_name = 't'"
        )
        .await,
        "1"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn savepoints_keep_definitions() {
    let session = engine().session();
    run(
        &session,
        "BEGIN; CREATE TABLE t (a INT); INSERT INTO t VALUES (1); SAVEPOINT s;
         ALTER TABLE t ADD COLUMN b INT DEFAULT 5; CREATE TABLE u (a INT); INSERT INTO t VALUES (2, 6)",
    )
    .await;
    assert_eq!(value(&session, "SELECT sum(a * b) FROM t").await, "17");
    run(&session, "ROLLBACK TO s; INSERT INTO t VALUES (3)").await;
    assert!(error(&session, "SELECT * FROM u").await.contains('u'));
    run(&session, "ROLLBACK TO s; COMMIT").await;
    assert_eq!(value(&session, "SELECT sum(a) FROM t").await, "1");
    assert_eq!(names(&session).await, "t");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_come_go_and_get_other_names() {
    let session = engine().session();
    run(
        &session,
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR UNIQUE, c INT CHECK (c > 0));
         INSERT INTO t SELECT v, 'b' || v, v FROM generate_series(1, 70000) AS g (v);
         CALL nearfar.merge('t'); INSERT INTO t VALUES (70001, 'new', 1); DELETE FROM t WHERE a = 5",
    )
    .await;
    run(
        &session,
        "ALTER TABLE t ADD COLUMN d INT, ADD COLUMN IF NOT EXISTS a INT, ADD e VARCHAR(5) NOT NULL DEFAULT 'x'",
    )
    .await;
    let all = "SELECT count(*) || ' ' || count(d) || ' ' || min(e) || ' ' || sum(a) FROM t";
    assert_eq!(value(&session, all).await, "70000 0 x 2450104996");
    assert_eq!(
        value(&session, "SELECT b FROM t WHERE a = 70001").await,
        "new"
    );
    run(
        &session,
        "ALTER TABLE t RENAME COLUMN c TO amount; ALTER TABLE t RENAME b TO \"The B\"",
    )
    .await;
    assert!(
        error(&session, "INSERT INTO t VALUES (-1, 'n', -1)")
            .await
            .contains("t_c_check")
    );
    assert!(
        error(&session, "INSERT INTO t (a, \"The B\") VALUES (-1, 'new')")
            .await
            .contains("duplicate key")
    );
    run(
        &session,
        "ALTER TABLE t DROP COLUMN amount, DROP COLUMN IF EXISTS nothing",
    )
    .await;
    run(&session, "INSERT INTO t VALUES (-1, 'n', 4)").await;
    assert_eq!(
        value(&session, "SELECT d || e FROM t WHERE a = -1").await,
        "4x"
    );
    assert!(
        error(&session, "INSERT INTO t VALUES (-2, 'm', 4, 'longer')")
            .await
            .contains("too long")
    );
    run(&session, "ALTER TABLE t RENAME TO u").await;
    assert_eq!(value(&session, "SELECT count(*) FROM u").await, "70001");
    run(&session, "CALL nearfar.merge('u'); CALL nearfar.check('u')").await;
    for (sql, expected) in [
        ("SELECT * FROM t", "t"),
        ("ALTER TABLE u ADD COLUMN a INT", "already"),
        (
            "ALTER TABLE u ADD COLUMN f INT NOT NULL",
            "does not allow nulls",
        ),
        ("ALTER TABLE u DROP COLUMN nothing", "nothing"),
        ("ALTER TABLE u RENAME nothing TO x", "nothing"),
        ("ALTER TABLE u RENAME a TO d", "already"),
        ("ALTER TABLE u ALTER d SET NOT NULL", "does not allow nulls"),
        ("ALTER TABLE u ALTER a DROP NOT NULL", "primary key"),
        ("ALTER TABLE u ALTER e TYPE INT", "x"),
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains(expected), "{sql}: {message}");
    }
    assert_eq!(value(&session, "SELECT count(*) FROM u").await, "70001");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_columns_are_computed_again() {
    let session = engine().session();
    run(
        &session,
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR); INSERT INTO t VALUES (1, '10'), (2, '20'), (3, NULL)",
    )
    .await;
    run(
        &session,
        "ALTER TABLE t ALTER b TYPE BIGINT USING b::bigint * 2, ALTER a SET DATA TYPE BIGINT",
    )
    .await;
    assert_eq!(
        value(&session, "SELECT sum(b) FROM t WHERE a < 3").await,
        "60"
    );
    run(
        &session,
        "ALTER TABLE t ADD COLUMN n SERIAL, ADD COLUMN r VARCHAR DEFAULT gen_random_uuid()",
    )
    .await;
    assert_eq!(
        value(&session, "SELECT count(DISTINCT r) || ' ' || sum(n) FROM t").await,
        "3 6"
    );
    run(&session, "INSERT INTO t (a) VALUES (4)").await;
    assert_eq!(value(&session, "SELECT max(n) FROM t").await, "4");
    assert!(
        error(&session, "INSERT INTO t (a) VALUES (4)")
            .await
            .contains("duplicate key")
    );
    run(
        &session,
        "UPDATE t SET b = 1 WHERE b IS NULL; ALTER TABLE t ALTER b SET NOT NULL",
    )
    .await;
    assert!(
        error(&session, "INSERT INTO t VALUES (5, NULL)")
            .await
            .contains("does not allow nulls")
    );
    run(
        &session,
        "ALTER TABLE t RENAME n TO number; ALTER TABLE t DROP COLUMN number",
    )
    .await;
    assert_eq!(names(&session).await, "t", "its sequence is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_keys_hold_within_the_transaction_that_defines_them() {
    let engine = engine();
    let (session, other) = (engine.session(), engine.session());
    run(
        &session,
        "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2)",
    )
    .await;
    run(
        &session,
        "BEGIN; CREATE TABLE c (p INT REFERENCES p ON DELETE CASCADE); INSERT INTO c VALUES (1), (2)",
    )
    .await;
    run(&other, "SET lock_timeout = '50ms'").await;
    assert!(
        error(&other, "DELETE FROM p WHERE id = 1")
            .await
            .contains("lock_timeout")
    );
    // Foreign keys of others, found meanwhile, are not all there are.
    run(
        &other,
        "CREATE TABLE o (k INT PRIMARY KEY, p INT REFERENCES o); DROP TABLE o",
    )
    .await;
    run(&session, "SAVEPOINT s").await;
    assert!(
        error(&session, "INSERT INTO c VALUES (3)")
            .await
            .contains("not present")
    );
    run(
        &session,
        "ROLLBACK TO s; DELETE FROM p WHERE id = 2; COMMIT",
    )
    .await;
    assert_eq!(value(&other, "SELECT sum(p) FROM c").await, "1");
    run(&other, "DELETE FROM p").await;
    assert_eq!(value(&other, "SELECT count(*) FROM c").await, "0");
    run(
        &session,
        "ALTER TABLE p RENAME id TO key; ALTER TABLE c RENAME p TO of; INSERT INTO p VALUES (7)",
    )
    .await;
    assert!(
        error(&session, "INSERT INTO c VALUES (8)")
            .await
            .contains("(of)=(8)")
    );
    run(&session, "INSERT INTO c VALUES (7)").await;
    assert!(
        error(&session, "ALTER TABLE p DROP COLUMN key")
            .await
            .contains("only one")
    );
    run(&session, "ALTER TABLE p ADD x INT").await;
    assert!(
        error(&session, "ALTER TABLE p DROP COLUMN key")
            .await
            .contains("c_p_fkey")
    );
    run(
        &session,
        "ALTER TABLE p DROP COLUMN key CASCADE; INSERT INTO c VALUES (9)",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_changes_a_table_beside_its_definition_is_told() {
    let engine = engine();
    let (one, other) = (engine.session(), engine.session());
    run(
        &one,
        "CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)",
    )
    .await;
    run(&other, "BEGIN; INSERT INTO t VALUES (3)").await;
    run(&one, "ALTER TABLE t ADD COLUMN b INT DEFAULT 1").await;
    assert!(error(&other, "COMMIT").await.contains('t'));
    assert_eq!(value(&other, "SELECT sum(a * b) FROM t").await, "3");
    run(&one, "BEGIN; ALTER TABLE t ADD COLUMN c INT").await;
    run(&other, "SET lock_timeout = '50ms'").await;
    assert!(
        error(&other, "UPDATE t SET a = 9 WHERE a = 1")
            .await
            .contains("lock_timeout")
    );
    run(&other, "INSERT INTO t VALUES (4)").await;
    assert!(
        error(&one, "COMMIT").await.contains('t'),
        "its rows are not those that it has read"
    );
    run(&one, "BEGIN; CREATE TABLE u (a INT)").await;
    run(&other, "CREATE TABLE u (b INT)").await;
    assert!(try_run(&one, "COMMIT").await.is_err());
    assert_eq!(value(&one, "SELECT count(b) FROM u").await, "0");
    let writer = {
        let session = engine.session();
        tokio::spawn(async move {
            let mut done = 0;
            for at in 100..400 {
                let sql = format!("INSERT INTO t (a) VALUES ({at})");
                done += u32::from(try_run(&session, &sql).await.is_ok());
            }
            done
        })
    };
    for column in 0..5 {
        let _ = try_run(
            &one,
            &format!("ALTER TABLE t ADD COLUMN d{column} INT DEFAULT {column}"),
        )
        .await;
    }
    let done = writer.await.expect("no panic");
    let counted = value(&one, "SELECT count(*) FROM t WHERE a >= 100").await;
    assert_eq!(counted, done.to_string());
    run(&one, "CALL nearfar.check('t')").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_outlive_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let engine = open(folder.path());
        let session = engine.session();
        run(
            &session,
            "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR, c INT); INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2);
             CREATE TABLE gone (a INT); CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2)",
        )
        .await;
        run(
            &session,
            "BEGIN; ALTER TABLE t ADD d INT DEFAULT 7; ALTER TABLE t DROP COLUMN b;
             ALTER TABLE t ADD FOREIGN KEY (c) REFERENCES p; INSERT INTO t VALUES (3, 2, 8);
             DELETE FROM t WHERE a = 1; DROP TABLE gone; CREATE VIEW v AS SELECT a, d FROM t;
             CREATE TABLE n (id SERIAL, v VARCHAR); INSERT INTO n (v) VALUES ('one'), ('two'); DELETE FROM n WHERE id = 1;
             COMMIT",
        )
        .await;
        run(
            &session,
            "ALTER TABLE n ALTER v TYPE VARCHAR USING v || '!'; ALTER TABLE n RENAME TO m",
        )
        .await;
        run(
            &session,
            "BEGIN; CREATE TABLE never (a INT); ALTER TABLE t ADD e INT",
        )
        .await;
    }
    for _ in 0..2 {
        let engine = open(folder.path());
        let session = engine.session();
        let rows = "SELECT string_agg(a || ':' || c || ':' || d, ' ' ORDER BY a) FROM t";
        assert_eq!(value(&session, rows).await, "2:2:7 3:2:8");
        assert_eq!(value(&session, "SELECT sum(d) FROM v").await, "15");
        assert_eq!(value(&session, "SELECT v FROM m").await, "two!");
        assert_eq!(names(&session).await, "m p t v");
        assert!(
            error(&session, "INSERT INTO t VALUES (9, 9, 9)")
                .await
                .contains("not present")
        );
        assert!(
            error(&session, "INSERT INTO t VALUES (2, 2, 9)")
                .await
                .contains("duplicate key")
        );
        run(&session, "CALL nearfar.check('t'); CHECKPOINT").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_follow_or_are_in_the_way() {
    let session = engine().session();
    run(
        &session,
        "CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2); CREATE VIEW v AS SELECT a FROM t;
         CREATE VIEW w AS SELECT a + 1 AS a FROM v",
    )
    .await;
    run(
        &session,
        "ALTER TABLE t ADD c INT DEFAULT 3; INSERT INTO t VALUES (5, 6, 7)",
    )
    .await;
    assert_eq!(value(&session, "SELECT sum(a) FROM w").await, "8");
    for sql in [
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t RENAME a TO z",
        "ALTER TABLE t RENAME TO z",
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains('v'), "{sql}: {message}");
    }
    run(&session, "CREATE VIEW whole AS SELECT * FROM t").await;
    let in_use = error(&session, "ALTER TABLE t ADD d INT").await;
    assert!(in_use.contains("whole"), "{in_use}");
    run(&session, "DROP VIEW whole").await;
    run(
        &session,
        "BEGIN; CREATE INDEX i ON t (a); ALTER TABLE t ALTER b SET DEFAULT 4; COMMIT",
    )
    .await;
    run(&session, "INSERT INTO t (a) VALUES (10)").await;
    assert_eq!(value(&session, "SELECT sum(a) FROM w").await, "19");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_undone_is_refused_in_transactions() {
    let session = engine().session();
    run(&session, "CREATE SEQUENCE s; CREATE TABLE t (a INT)").await;
    for sql in [
        "VACUUM",
        "CALL nearfar.merge('t')",
        "ALTER SEQUENCE s RESTART WITH 5",
        "ALTER TABLE t SET (placement = 'near')",
    ] {
        run(&session, "BEGIN").await;
        let message = error(&session, sql).await;
        assert!(message.contains("transaction"), "{sql}: {message}");
        run(&session, "ROLLBACK").await;
    }
    run(&session, "BEGIN READ ONLY").await;
    assert!(
        error(&session, "CREATE TABLE u (a INT)")
            .await
            .contains("READ ONLY")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_are_prepared_do_not_read_what_was_there() {
    let engine = engine();
    let (session, other) = (engine.session(), engine.session());
    run(&session, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await;
    run(
        &session,
        "PREPARE s AS SELECT sum(a) FROM t; PREPARE i AS INSERT INTO t VALUES (2)",
    )
    .await;
    assert_eq!(value(&session, "EXECUTE s").await, "1");
    run(&session, "EXECUTE i").await;
    run(&other, "ALTER TABLE t ADD b INT; INSERT INTO t VALUES (5)").await;
    for name in ["s", "i"] {
        let message = error(&session, &format!("EXECUTE {name}")).await;
        assert!(message.contains("prepared before"), "{message}");
    }
    run(&session, "DEALLOCATE s; PREPARE s AS SELECT sum(a) FROM t").await;
    assert_eq!(value(&session, "EXECUTE s").await, "8");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alterations_beside_each_other_follow_each_other() {
    let engine = engine();
    let session = engine.session();
    run(&session, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await;
    let alterations = (0..6).map(|column| {
        let session = engine.session();
        tokio::spawn(async move {
            let sql = format!("ALTER TABLE t ADD COLUMN c{column} INT DEFAULT {column}");
            run(&session, &sql).await
        })
    });
    for alteration in alterations.collect::<Vec<_>>() {
        alteration.await.expect("altered");
    }
    let sum = "SELECT a + c0 + c1 + c2 + c3 + c4 + c5 FROM t";
    assert_eq!(value(&session, sum).await, "16");
    let other = engine.session();
    for session in [&session, &other] {
        run(session, "BEGIN").await;
        value(session, "SELECT count(*) FROM t").await;
    }
    run(&session, "ALTER TABLE t DROP COLUMN c0").await;
    let mut second = std::pin::pin!(error(&other, "ALTER TABLE t DROP COLUMN c1"));
    let early = timeout(Duration::from_millis(50), &mut second).await;
    assert!(early.is_err(), "it waits");
    run(&session, "COMMIT").await;
    let second = second.await;
    assert!(second.contains("run the transaction again"), "{second}");
    assert_eq!(value(&session, "SELECT a + c1 FROM t").await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_with_a_column_is_gone() {
    let session = engine().session();
    run(
        &session,
        "CREATE TABLE t (id INT PRIMARY KEY, up INT REFERENCES t, v VARCHAR, d DECIMAL(9, 2));
         INSERT INTO t VALUES (1, NULL, 'long text', 1.25)",
    )
    .await;
    let short = error(&session, "ALTER TABLE t ALTER v TYPE VARCHAR(4)").await;
    assert!(short.contains("too long"), "{short}");
    run(
        &session,
        "ALTER TABLE t ALTER v TYPE VARCHAR(4) USING left(v, 4), ALTER d TYPE INT",
    )
    .await;
    let row = "SELECT concat_ws(' ', v, d) FROM t";
    assert_eq!(value(&session, row).await, "long 1");
    run(&session, "ALTER TABLE t DROP COLUMN id").await;
    run(&session, "INSERT INTO t VALUES (9, 'x', 1)").await;
    let constraints = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'id'";
    assert_eq!(value(&session, constraints).await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_the_session_and_sequences_are_committed_with_the_rest() {
    let session = engine().session();
    run(
        &session,
        "CREATE TEMP TABLE gone (a INT);
         BEGIN; CREATE TEMP TABLE own (a INT); INSERT INTO own VALUES (1); DROP TABLE gone;
         ALTER TABLE own ADD b INT DEFAULT 2; CREATE SEQUENCE s START 5",
    )
    .await;
    assert_eq!(value(&session, "SELECT nextval('s')").await, "5");
    run(&session, "COMMIT").await;
    assert_eq!(value(&session, "SELECT a + b FROM own").await, "3");
    assert_eq!(value(&session, "SELECT nextval('s')").await, "6");
    assert!(error(&session, "SELECT * FROM gone").await.contains("gone"));
    run(&session, "BEGIN").await;
    assert_eq!(value(&session, "SELECT nextval('s')").await, "7");
    run(&session, "DROP SEQUENCE s; ROLLBACK").await;
    assert_eq!(value(&session, "SELECT nextval('s')").await, "8");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_and_keys_get_other_names() {
    const NAMES: &str = "SELECT string_agg(index_name, ' ' ORDER BY index_name) \
                         FROM nearfar.indexes WHERE table_name = 't'";
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path());
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE INDEX t_v ON t (v);
         INSERT INTO t SELECT value, value FROM generate_series(1, 100) AS s(value);
         BEGIN; ALTER INDEX t_v RENAME TO gone; ALTER TABLE t RENAME CONSTRAINT t_pkey TO lost",
    )
    .await;
    assert_eq!(value(&session, NAMES).await, "gone lost");
    run(&session, "ROLLBACK").await;
    assert_eq!(value(&session, NAMES).await, "t_pkey t_v");
    for taken in ["t", "t_v"] {
        let sql = format!("ALTER INDEX t_pkey RENAME TO {taken}");
        let told = error(&session, &sql).await;
        assert!(told.contains(taken), "{told}");
    }
    run(
        &session,
        "CREATE TEMP TABLE a (x INT); CREATE INDEX of_a ON a (x); CREATE TEMP TABLE b (x INT CONSTRAINT c CHECK (x > 0) PRIMARY KEY)",
    )
    .await;
    error(&session, "ALTER INDEX of_a RENAME TO b").await;
    error(&session, "ALTER TABLE b RENAME CONSTRAINT b_pkey TO c").await;
    error(&session, "ALTER TABLE b RENAME CONSTRAINT c TO b_pkey").await;
    run(
        &session,
        "ALTER INDEX of_a RENAME TO t; DROP INDEX t; DROP TABLE a; DROP TABLE b",
    )
    .await;
    run(
        &session,
        "ALTER INDEX t_v RENAME TO \"By V\"; ALTER TABLE t RENAME CONSTRAINT t_pkey TO of_t",
    )
    .await;
    assert_eq!(value(&session, NAMES).await, "By V of_t");
    let duplicate = "INSERT INTO t VALUES (7, 7)";
    assert!(error(&session, duplicate).await.contains("of_t"));
    drop((session, engine));
    let engine = open(folder.path());
    let session = engine.session();
    assert_eq!(value(&session, NAMES).await, "By V of_t");
    assert!(error(&session, duplicate).await.contains("of_t"));
    run(
        &session,
        "ALTER TABLE t DROP CONSTRAINT of_t; DROP INDEX \"By V\"",
    )
    .await;
    run(&session, duplicate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_and_sequences_are_dropped_together_or_not_at_all() {
    let session = engine().session();
    run(&session, "CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT)").await;
    let indexes = "SELECT count(*) FROM nearfar.indexes";
    for (begin, end) in [("", ""), ("BEGIN; ", "; COMMIT")] {
        run(
            &session,
            "CREATE INDEX t_a ON t (a); CREATE INDEX t_b ON t (b);
             CREATE SEQUENCE one; CREATE SEQUENCE two",
        )
        .await;
        for (sql, wanted) in [
            ("DROP INDEX t_a, nope", "does not exist"),
            ("DROP INDEX t_a, t_pkey", "is the constraint of table"),
            ("DROP SEQUENCE one, nope", "does not exist"),
            ("DROP SEQUENCE one, t", "is not a sequence"),
        ] {
            let message = error(&session, sql).await;
            assert!(message.contains(wanted), "{sql}: {message}");
        }
        assert_eq!(value(&session, indexes).await, "3");
        assert_eq!(value(&session, "SELECT nextval('one')").await, "1");
        let drop = "DROP INDEX IF EXISTS t_a, nope, t_b, t_a;
                    DROP SEQUENCE IF EXISTS one, nope, two, one";
        run(&session, &format!("{begin}{drop}{end}")).await;
        assert_eq!(value(&session, indexes).await, "1");
        for sequence in ["one", "two"] {
            let message = error(&session, &format!("SELECT nextval('{sequence}')")).await;
            assert!(message.contains("does not exist"), "{message}");
        }
    }
}
