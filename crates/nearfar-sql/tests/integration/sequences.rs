//! Sequences, and columns that number themselves.

use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::{Engine, EngineOptions, Session};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::support::{error, options, run, try_run, two_tiers, value};

fn open(folder: &Path, checkpoint_at_end: bool) -> Arc<Engine> {
    let data = DataOptions {
        checkpoint_at_end,
        ..DataOptions::new(folder)
    };
    let options = EngineOptions {
        data: Some(data),
        ..options()
    };
    Engine::new(options).expect("an engine")
}

async fn next(session: &Session, sequence: &str) -> i64 {
    let text = value(session, &format!("SELECT nextval('{sequence}')")).await;
    text.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_follow_each_other() {
    let engine = two_tiers();
    let (session, other) = (engine.session(), engine.session());
    run(
        &session,
        "CREATE SEQUENCE s START WITH 10 INCREMENT BY -2 MINVALUE 4 MAXVALUE 10 CACHE 5",
    )
    .await;
    let none = error(&session, "SELECT currval('s')").await;
    assert!(
        none.contains("currval of sequence \"s\" is not yet defined"),
        "{none}"
    );
    assert!(
        error(&session, "SELECT lastval()")
            .await
            .contains("lastval is not yet")
    );
    assert_eq!(next(&session, "s").await, 10);
    assert_eq!(next(&other, "public.S").await, 8);
    assert_eq!(value(&session, "SELECT currval('s')").await, "10");
    assert_eq!(value(&other, "SELECT lastval()").await, "8");
    assert_eq!(value(&session, "SELECT nextval('s'::regclass)").await, "6");
    assert_eq!(value(&session, "SELECT last_value FROM s").await, "6");
    assert_eq!(next(&session, "s").await, 4);
    let end = error(&session, "SELECT nextval('s')").await;
    assert!(
        end.contains("reached minimum value of sequence \"s\" (4)"),
        "{end}"
    );
    run(&session, "ALTER SEQUENCE s CYCLE").await;
    assert_eq!(next(&session, "s").await, 10);
    run(&session, "ALTER SEQUENCE s RESTART WITH 5 NO CYCLE").await;
    assert_eq!(next(&session, "s").await, 5);
    assert_eq!(value(&session, "SELECT setval('s', 9, false)").await, "9");
    assert_eq!(next(&session, "s").await, 9);
    let outside = error(&session, "SELECT setval('s', 11)").await;
    assert!(
        outside.contains("value 11 is out of bounds for sequence \"s\" (4..10)"),
        "{outside}"
    );
    // Each row has one.
    run(&session, "CREATE SEQUENCE rows").await;
    let sql =
        "SELECT count(DISTINCT n) FROM (SELECT nextval('rows') AS n FROM generate_series(1, 100))";
    assert_eq!(value(&session, sql).await, "100");
    run(&session, "DROP SEQUENCE s, rows").await;
    assert!(
        error(&session, "SELECT nextval('s')")
            .await
            .contains("does not exist")
    );
    run(&session, "DROP SEQUENCE IF EXISTS s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_sequence_is_refused() {
    let session = two_tiers().session();
    run(&session, "CREATE TABLE t (a INT); CREATE SEQUENCE s").await;
    for (sql, wanted) in [
        (
            "CREATE SEQUENCE n INCREMENT 0",
            "INCREMENT must not be zero",
        ),
        (
            "CREATE SEQUENCE n MINVALUE 5 MAXVALUE 4",
            "must be less than MAXVALUE",
        ),
        (
            "CREATE SEQUENCE n START 0",
            "START value (0) cannot be less than MINVALUE (1)",
        ),
        ("CREATE SEQUENCE n CACHE 0", "must be greater than zero"),
        (
            "CREATE SEQUENCE n AS smallint MAXVALUE 40000",
            "out of range for sequence data type smallint",
        ),
        (
            "CREATE SEQUENCE n AS text",
            "must be smallint, integer, or bigint",
        ),
        (
            "CREATE SEQUENCE n START WITH 99999999999999999999",
            "out of range for type bigint",
        ),
        ("CREATE SEQUENCE n OWNED BY t.z", "no column `z`"),
        ("CREATE SEQUENCE n OWNED BY t", "table.column or NONE"),
        ("CREATE SEQUENCE t", "already exists"),
        ("CREATE TABLE s (a INT)", "already exists"),
        ("DROP TABLE s", "is not a table"),
        ("DROP SEQUENCE t", "is not a sequence"),
        (
            "ALTER SEQUENCE s RESTART WITH 0",
            "RESTART value (0) cannot be less",
        ),
        ("ALTER SEQUENCE n RESTART", "does not exist"),
        ("SELECT nextval('t')", "is not a sequence"),
        ("SELECT nextval('a b')", "does not exist"),
        ("CREATE SEQUENCE n NONSENSE", "xpected"),
        (
            "CREATE TABLE n (a TEXT GENERATED ALWAYS AS IDENTITY)",
            "must be smallint, integer, or bigint",
        ),
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains(wanted), "{sql}: {message}");
    }
    run(
        &session,
        "CREATE SEQUENCE IF NOT EXISTS s; ALTER SEQUENCE IF EXISTS n RESTART",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_number_themselves() {
    let session = two_tiers().session();
    run(
        &session,
        "CREATE TABLE t (id SERIAL PRIMARY KEY, w VARCHAR); CREATE TABLE b (id BIGSERIAL, s SMALLSERIAL, w VARCHAR)",
    )
    .await;
    run(
        &session,
        "INSERT INTO t (w) VALUES ('a'), ('b'); INSERT INTO t (w) SELECT 'c'",
    )
    .await;
    run(&session, "INSERT INTO t VALUES (DEFAULT, 'd'), (50, 'e')").await;
    let all = "SELECT string_agg(id || w, ' ' ORDER BY id) FROM t";
    assert_eq!(value(&session, all).await, "1a 2b 3c 4d 50e");
    assert_eq!(value(&session, "SELECT lastval()").await, "4");
    let owner = value(&session, "SELECT pg_get_serial_sequence('t', 'id')").await;
    assert_eq!(owner, "public.t_id_seq");
    assert!(
        error(&session, "INSERT INTO t VALUES (NULL, 'x')")
            .await
            .contains("null")
    );
    let used = error(&session, "DROP SEQUENCE t_id_seq").await;
    assert!(used.contains("column id of table t"), "{used}");
    run(&session, "INSERT INTO b (w) VALUES ('a')").await;
    assert_eq!(value(&session, "SELECT id + s FROM b").await, "2");
    run(&session, "DROP TABLE t, b").await;
    assert!(
        error(&session, "SELECT nextval('t_id_seq')")
            .await
            .contains("does not exist")
    );
    // The session's own tables have sequences of their own.
    run(
        &session,
        "CREATE TEMP TABLE t (id SERIAL, a INT); INSERT INTO t (a) VALUES (7)",
    )
    .await;
    assert_eq!(value(&session, "SELECT id FROM t").await, "1");
    run(
        &session,
        "DROP TABLE t; CREATE TEMP TABLE t (id SERIAL); DROP TABLE t",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identities_take_other_values_where_they_are_told_to() {
    let session = two_tiers().session();
    run(
        &session,
        "CREATE TABLE t (a INT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5), \
         d BIGINT GENERATED BY DEFAULT AS IDENTITY (INCREMENT BY 2 MINVALUE 0 NO MAXVALUE START 4 CYCLE), w INT)",
    )
    .await;
    run(
        &session,
        "INSERT INTO t (w) VALUES (1), (2); INSERT INTO t (d, w) VALUES (100, 3)",
    )
    .await;
    run(&session, "INSERT INTO t VALUES (DEFAULT, DEFAULT, 4)").await;
    let all = "SELECT string_agg(concat_ws('/', a, d, w), ' ' ORDER BY w) FROM t";
    assert_eq!(value(&session, all).await, "10/4/1 15/6/2 20/100/3 25/8/4");
    for sql in [
        "INSERT INTO t VALUES (1, 1, 1)",
        "INSERT INTO t (a) VALUES (DEFAULT), (1)",
        "INSERT INTO t (a, w) SELECT 1, 2",
    ] {
        let message = error(&session, sql).await;
        assert!(
            message.contains("cannot insert a non-DEFAULT value into column \"a\""),
            "{message}"
        );
    }
    let message = error(&session, "UPDATE t SET a = 1").await;
    assert!(
        message.contains("column \"a\" can only be updated to DEFAULT"),
        "{message}"
    );
    run(&session, "UPDATE t SET a = DEFAULT WHERE w = 1").await;
    run(
        &session,
        "INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (1, 2, 5)",
    )
    .await;
    run(
        &session,
        "INSERT INTO t (a, w) OVERRIDING SYSTEM VALUE SELECT 2, 6",
    )
    .await;
    run(
        &session,
        "INSERT INTO t OVERRIDING USER VALUE VALUES (1, 2, 7)",
    )
    .await;
    let wanted = "30/4/1 15/6/2 20/100/3 25/8/4 1/2/5 2/10/6 35/12/7";
    assert_eq!(value(&session, all).await, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_not_given_again_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut given = BTreeSet::new();
    for round in 0..6 {
        let engine = open(folder.path(), round % 2 == 0);
        let session = engine.session();
        if round == 0 {
            run(
                &session,
                "CREATE SCHEMA x; CREATE SEQUENCE x.s; CREATE TABLE t (id SERIAL, w INT)",
            )
            .await;
            run(&session, "CREATE SEQUENCE gone; DROP SEQUENCE gone; CREATE TABLE g (id SERIAL); DROP TABLE g").await;
        }
        for number in 0..45 {
            assert!(given.insert(next(&session, "x.s").await), "round {round}");
            if number == 7 && round % 3 == 0 {
                run(&session, "CHECKPOINT").await;
            }
        }
        run(&session, "INSERT INTO t (w) VALUES (1), (2)").await;
        drop((session, engine));
    }
    let engine = open(folder.path(), false);
    let session = engine.session();
    assert_eq!(
        value(&session, "SELECT count(DISTINCT id) FROM t").await,
        "12"
    );
    for gone in ["gone", "g_id_seq"] {
        let sql = format!("SELECT nextval('{gone}')");
        assert!(try_run(&session, &sql).await.is_err(), "{gone}");
    }
    run(
        &session,
        "SELECT setval('x.s', 5); ALTER SEQUENCE x.s INCREMENT BY 10",
    )
    .await;
    drop((session, engine));
    let session = open(folder.path(), false).session();
    assert_eq!(next(&session, "x.s").await, 15);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_beside_each_other_have_numbers_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path(), false);
    run(
        &engine.session(),
        "CREATE TABLE t (id SERIAL PRIMARY KEY, w INT)",
    )
    .await;
    let writers = (0..4).map(|writer| {
        let session = engine.session();
        tokio::spawn(async move {
            for _ in 0..50 {
                run(&session, &format!("INSERT INTO t (w) VALUES ({writer})")).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("rows");
    }
    assert_eq!(
        value(&engine.session(), "SELECT max(id) - count(*) FROM t").await,
        "0"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_tables_begin_to_count_again_where_asked() {
    let session = two_tiers().session();
    run(
        &session,
        "CREATE TABLE p (id INT GENERATED BY DEFAULT AS IDENTITY (START 5) PRIMARY KEY, n INT);
         CREATE TABLE c (id SERIAL, p INT REFERENCES p);
         CREATE TEMP TABLE own (id SERIAL, n INT);
         INSERT INTO p (n) VALUES (1), (2);
         INSERT INTO c (p) VALUES (5), (6), (6);
         INSERT INTO own (n) VALUES (1), (2)",
    )
    .await;
    let refused = error(&session, "TRUNCATE p RESTART IDENTITY").await;
    assert!(refused.contains("c_p_fkey"), "{refused}");
    run(&session, "TRUNCATE c").await;
    assert_eq!(
        value(&session, "INSERT INTO c (p) VALUES (5) RETURNING id").await,
        "4"
    );
    run(&session, "TRUNCATE p, own RESTART IDENTITY CASCADE").await;
    assert_eq!(value(&session, "SELECT count(*) FROM c").await, "0");
    assert_eq!(
        value(&session, "INSERT INTO p (n) VALUES (1) RETURNING id").await,
        "5"
    );
    assert_eq!(
        value(&session, "INSERT INTO c (p) VALUES (5) RETURNING id").await,
        "1"
    );
    assert_eq!(
        value(&session, "INSERT INTO own (n) VALUES (1) RETURNING id").await,
        "1"
    );
    run(&session, "BEGIN").await;
    let refused = error(&session, "TRUNCATE own RESTART IDENTITY").await;
    assert!(refused.contains("RESTART IDENTITY"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_identities_are_the_next_numbers() {
    let session = two_tiers().session();
    run(
        &session,
        "CREATE TABLE t (id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, w INT);
         INSERT INTO t (w) VALUES (1), (2), (3)",
    )
    .await;
    for (sql, wanted) in [
        ("UPDATE t SET id = DEFAULT WHERE id = 1", "4/1 2/2 3/3"),
        (
            "UPDATE t SET id = DEFAULT WHERE w = 2 RETURNING id",
            "4/1 5/2 3/3",
        ),
        (
            "UPDATE t SET (id, w) = (DEFAULT, 30) WHERE w = 3",
            "4/1 5/2 6/30",
        ),
        (
            "PREPARE p AS UPDATE t SET id = DEFAULT WHERE w = $1 RETURNING id; EXECUTE p(30)",
            "4/1 5/2 7/30",
        ),
    ] {
        run(&session, sql).await;
        let all = "SELECT string_agg(concat_ws('/', id, w), ' ' ORDER BY w) FROM t";
        assert_eq!(value(&session, all).await, wanted, "{sql}");
    }
    for sql in ["UPDATE t SET id = 1", "UPDATE t SET id = 1 RETURNING id"] {
        let message = error(&session, sql).await;
        assert!(message.contains("can only be updated to DEFAULT"), "{sql}");
    }
}
