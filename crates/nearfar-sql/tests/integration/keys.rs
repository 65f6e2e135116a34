//! Keys and indexes through SQL.

use super::support::{engine, error, options, run, two_tiers, value};
use arrow::util::display::array_value_to_string;
use arrow::util::pretty::pretty_format_batches;
use datafusion::scalar::ScalarValue;
use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::{Engine, Immediate, RowStream, Session, StatementResult};
use nearfar_sql::sql::Statement;
use std::path::Path;
use std::sync::Arc;

const T: &str = "CREATE TABLE t (k INT PRIMARY KEY, g INT, w VARCHAR, UNIQUE (g, w))";

/// What a query of which an index is to be used gives; it is the same without.
async fn found(session: &Session, index: &str, query: &str) -> String {
    let plan = run(session, &format!("EXPLAIN {query}")).await;
    assert!(plan.contains(&format!("index={index}")), "{query}: {plan}");
    value(session, query).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_found_by_keys() {
    let session = two_tiers().session();
    run(&session, T).await;
    let rows = "SELECT value, value % 100, 'w' || value / 100 FROM generate_series(1, 5000)";
    run(&session, &format!("INSERT INTO t {rows}")).await;
    run(&session, "CREATE INDEX ON t USING masstree (w DESC)").await;
    for merged in [false, true] {
        if merged {
            assert_eq!(run(&session, "CALL nearfar.merge('t')").await, "MERGE 5000");
        }
        for (index, query, wanted) in [
            ("t_pkey", "SELECT w FROM t WHERE k = 4321", "w43"),
            (
                "t_pkey",
                "SELECT count(*) FROM t WHERE 17 = k AND g = 17",
                "1",
            ),
            (
                "t_pkey",
                "SELECT count(*) FROM t WHERE k = 17 AND g = 18",
                "0",
            ),
            ("t_pkey", "SELECT count(*) FROM t WHERE k = 5001", "0"),
            (
                "t_g_w_key",
                "SELECT k FROM t WHERE w = 'w7' AND g = 5",
                "705",
            ),
            ("t_w_idx", "SELECT count(*) FROM t WHERE w = 'w50'", "1"),
        ] {
            assert_eq!(found(&session, index, query).await, wanted, "{query}");
        }
        // More rows than are worth it.
        let many = "SELECT count(*) FROM t WHERE w = 'w1'";
        assert!(
            !run(&session, &format!("EXPLAIN {many}"))
                .await
                .contains("index=")
        );
        assert_eq!(value(&session, many).await, "100");
    }
    assert_eq!(
        run(&session, "UPDATE t SET g = 1000 WHERE k = 5").await,
        "UPDATE 1"
    );
    assert_eq!(run(&session, "DELETE FROM t WHERE k = 6").await, "DELETE 1");
    let moved = "SELECT k FROM t WHERE g = 1000 AND w = 'w0'";
    assert_eq!(found(&session, "t_g_w_key", moved).await, "5");
    assert_eq!(
        value(&session, "SELECT count(*) FROM t WHERE k = 6").await,
        "0"
    );
    run(&session, "PREPARE one AS SELECT w FROM t WHERE k = $1").await;
    assert!(run(&session, "EXECUTE one(200)").await.contains("w2"));
    assert_eq!(run(&session, "CALL nearfar.check('t')").await, "CHECK 3");
    run(&session, "TRUNCATE t").await;
    assert_eq!(
        value(&session, "SELECT count(*) FROM t WHERE k = 5").await,
        "0"
    );
    run(&session, "INSERT INTO t VALUES (5, 5, 'a')").await;
    assert_eq!(value(&session, "SELECT w FROM t WHERE k = 5").await, "a");
    assert_eq!(run(&session, "CALL nearfar.check('t')").await, "CHECK 3");
    let kept = "SELECT string_agg(index_name || columns || kind, ' ' ORDER BY index_name)
                FROM nearfar.indexes WHERE keys = 1 AND bytes > 0";
    let all = "t_g_w_key(g, w)art t_pkey(k)art t_w_idx(w DESC)masstree";
    assert_eq!(value(&session, kept).await, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_of_keys_are_found() {
    let session = two_tiers().session();
    let tables = "CREATE TABLE t (g INT, k INT, w VARCHAR, PRIMARY KEY (g, k));
                  CREATE TABLE plain (g INT, k INT, w VARCHAR)";
    session.execute(tables).await.expect("tables");
    let rows = "SELECT value % 7, value, CASE WHEN value % 9 > 0 THEN 'w' || value / 100 END \
                FROM generate_series(1, 5000)";
    run(&session, &format!("INSERT INTO t {rows}")).await;
    run(&session, &format!("INSERT INTO plain {rows}")).await;
    run(
        &session,
        "CREATE INDEX ON t USING masstree (k DESC NULLS LAST)",
    )
    .await;
    run(&session, "CREATE INDEX ON t (w)").await;
    session.execute("BEGIN").await.expect("a transaction");
    for own in [false, true] {
        if own {
            for table in ["t", "plain"] {
                let own = format!("INSERT INTO {table} VALUES (3, 5001, 'x'), (8, 5002, NULL)");
                run(&session, &own).await;
                let gone = format!("DELETE FROM {table} WHERE k BETWEEN 95 AND 105");
                run(&session, &gone).await;
            }
        }
        // Without an index: statistics tell it, or there are more rows than are worth it.
        for (index, condition) in [
            ("t_pkey", "g = 3 AND k BETWEEN 80 AND 120"),
            ("t_pkey", "g = 3 AND k >= 4990"),
            ("t_pkey", "g = 3 AND 200 > k"),
            ("", "g > 6"),
            ("", "g < 0"),
            ("t_pkey", "g = 3 AND k > 20 AND k < 10"),
            ("t_k_idx", "k > 4980"),
            ("t_k_idx", "k >= 90 AND k <= 101"),
            ("t_k_idx", "k < 12 AND k > 3 AND g <> 4"),
            ("t_k_idx", "k BETWEEN 4999 AND 10000"),
            ("", "w > 'w49'"),
            ("t_w_idx", "w >= 'w50' AND w < 'w5000'"),
        ] {
            let sums = "SELECT count(*) || ' ' || coalesce(sum(k), 0) || ' ' || count(w) FROM";
            let wanted = value(&session, &format!("{sums} plain WHERE {condition}")).await;
            let query = format!("{sums} t WHERE {condition}");
            match index {
                "" => assert_eq!(value(&session, &query).await, wanted, "{condition}"),
                _ => assert_eq!(found(&session, index, &query).await, wanted, "{condition}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_finds_its_own_rows() {
    let engine = two_tiers();
    let (session, other) = (engine.session(), engine.session());
    run(&session, T).await;
    run(
        &session,
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, NULL, 'c')",
    )
    .await;
    run(&session, "BEGIN").await;
    run(&session, "INSERT INTO t VALUES (4, NULL, 'c')").await;
    run(&session, "UPDATE t SET k = 10 WHERE k = 1").await;
    run(&session, "DELETE FROM t WHERE k = 2").await;
    for (k, mine, theirs) in [(1, "0", "1"), (2, "0", "1"), (4, "1", "0"), (10, "1", "0")] {
        let query = format!("SELECT count(*) FROM t WHERE k = {k}");
        assert_eq!(found(&session, "t_pkey", &query).await, mine, "{k}");
        assert_eq!(found(&other, "t_pkey", &query).await, theirs, "{k}");
    }
    // The key that it has given up is free for it, and taken for others.
    run(&session, "INSERT INTO t VALUES (1, 7, 'x')").await;
    let taken = error(&other, "INSERT INTO t VALUES (1, 8, 'y')").await;
    assert!(
        taken.contains("\"t_pkey\": key (k)=(1) already exists"),
        "{taken}"
    );
    run(&session, "COMMIT").await;
    assert_eq!(value(&other, "SELECT w FROM t WHERE k = 1").await, "x");
    assert_eq!(run(&other, "CALL nearfar.check('t')").await, "CHECK 2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_kept() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, T).await;
    run(
        &session,
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 1, NULL), (4, 1, NULL)",
    )
    .await;
    for (sql, told) in [
        (
            "INSERT INTO t VALUES (5, 5, 'e'), (1, 6, 'f')",
            "\"t_pkey\": key (k)=(1)",
        ),
        (
            "INSERT INTO t VALUES (5, 5, 'e'), (5, 6, 'f')",
            "\"t_pkey\": key (k)=(5)",
        ),
        (
            "INSERT INTO t VALUES (5, 1, 'a')",
            "\"t_g_w_key\": key (g, w)=(1, a)",
        ),
        ("UPDATE t SET k = 2 WHERE k = 1", "\"t_pkey\": key (k)=(2)"),
        ("UPDATE t SET k = 7", "\"t_pkey\": key (k)=(7)"),
        ("INSERT INTO t SELECT NULL, 1, 'z'", "does not allow nulls"),
        ("ALTER TABLE t ADD PRIMARY KEY (g)", "multiple primary keys"),
        ("ALTER TABLE t ADD UNIQUE (g)", "key (g)=(1)"),
        ("CREATE UNIQUE INDEX u ON t (g)", "\"u\": key (g)=(1)"),
        (
            "CREATE INDEX t_pkey ON t (g)",
            "\"t_pkey\": a table or index",
        ),
        ("CREATE INDEX t ON t (g)", "\"t\": a table or index"),
        ("CREATE INDEX i ON t (x)", "no column `x`"),
        ("CREATE INDEX i ON nothing (x)", "`nothing` does not exist"),
        ("DROP INDEX t_pkey", "ALTER TABLE t DROP CONSTRAINT t_pkey"),
        ("DROP INDEX nothing", "\"nothing\" does not exist"),
        (
            "ALTER TABLE t DROP CONSTRAINT nothing",
            "\"nothing\" of table `t`",
        ),
        (
            "CREATE TABLE u (a INT PRIMARY KEY, b INT, PRIMARY KEY (b))",
            "multiple primary keys",
        ),
        ("CREATE TABLE u (a INT, PRIMARY KEY (b))", "no column `b`"),
    ] {
        let refused = error(&session, sql).await;
        assert!(refused.contains(told), "{sql}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_checked_at_the_end_of_statements_and_can_be_dropped() {
    let session = two_tiers().session();
    run(&session, T).await;
    run(
        &session,
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 1, NULL), (4, 1, NULL)",
    )
    .await;
    assert_eq!(run(&session, "UPDATE t SET k = k + 1").await, "UPDATE 4");
    let all = "SELECT string_agg(k, ' ' ORDER BY k) FROM t";
    assert_eq!(value(&session, all).await, "2 3 4 5");
    run(
        &session,
        "ALTER TABLE ONLY t DROP CONSTRAINT IF EXISTS t_g_w_key",
    )
    .await;
    run(&session, "CREATE INDEX IF NOT EXISTS t_pkey ON t (g)").await;
    run(&session, "DROP INDEX IF EXISTS nothing").await;
    run(&session, "INSERT INTO t VALUES (1, 1, 'a')").await;
    run(&session, "ALTER TABLE t DROP CONSTRAINT t_pkey").await;
    run(&session, "INSERT INTO t VALUES (1, 1, 'a')").await;
    let twice = error(&session, "ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY (k)").await;
    assert!(
        twice.contains("\"pk\": key (k)=(1) already exists"),
        "{twice}"
    );
    run(&session, "ALTER TABLE t DROP CONSTRAINT IF EXISTS pk").await;
    let null = error(&session, "ALTER TABLE t ADD PRIMARY KEY (k, w)").await;
    assert!(
        null.contains("\"t_pkey\" has a null: key (k, w)="),
        "{null}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_tables_have_keys_of_their_own() {
    let engine = two_tiers();
    let (session, other) = (engine.session(), engine.session());
    for session in [&session, &other] {
        run(session, "CREATE TEMP TABLE s (k INT PRIMARY KEY)").await;
        run(session, "INSERT INTO s VALUES (1)").await;
        run(session, "CREATE INDEX i ON s (k)").await;
        assert_eq!(
            found(session, "s_pkey", "SELECT count(*) FROM s WHERE k = 1").await,
            "1"
        );
        run(session, "DROP INDEX i").await;
    }
}

fn open(folder: &Path) -> Arc<Engine> {
    let mut options = options();
    options.data = Some(DataOptions::new(folder));
    Engine::new(options).expect("an engine")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_outlive_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = async |session: &Session| {
        assert_eq!(
            found(session, "t_pkey", "SELECT w FROM t WHERE k = 2").await,
            "b"
        );
        assert_eq!(
            found(session, "named", "SELECT k FROM t WHERE w = 'a'").await,
            "1"
        );
        let taken = error(session, "INSERT INTO t VALUES (2, 9, 'z')").await;
        assert!(taken.contains("key (k)=(2) already exists"), "{taken}");
        assert_eq!(run(session, "CALL nearfar.check('t')").await, "CHECK 2");
    };
    {
        let session = open(folder.path()).session();
        run(&session, T).await;
        run(&session, "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')").await;
        run(&session, "CREATE INDEX named ON t (w)").await;
        run(&session, "ALTER TABLE t DROP CONSTRAINT t_g_w_key").await;
        check(&session).await;
    }
    {
        let session = open(folder.path()).session();
        check(&session).await;
        run(&session, "CHECKPOINT").await;
    }
    let session = open(folder.path()).session();
    // A change is the first that needs the entries.
    run(&session, "DELETE FROM t WHERE w = 'a'").await;
    run(&session, "INSERT INTO t VALUES (1, 1, 'a')").await;
    check(&session).await;
}

/// The only value that a statement gives with these parameters; nothing where it gives no row. It is not
/// planned again.
async fn immediately(session: &Session, statement: &Statement, with: &[ScalarValue]) -> String {
    let ran = session.run_immediately(statement, with).expect("rows");
    let result = ran.wait().expect("rows");
    match result.unwrap_or_else(|| panic!("{} is planned", statement.text())) {
        StatementResult::Rows(rows) => first_value(rows).await,
        StatementResult::Command(tag) => tag.to_string(),
    }
}

async fn first_value(rows: RowStream) -> String {
    let batches = rows.collect().await.expect("rows");
    let batch = batches.iter().find(|batch| batch.num_rows() > 0);
    let value = batch.map(|batch| array_value_to_string(batch.column(0), 0).expect("a text"));
    value.unwrap_or_default()
}

/// The same, however the statement is carried out.
async fn anyhow(session: &Session, statement: &Statement, with: &[ScalarValue]) -> String {
    match session.run_with(statement, with).await.expect("rows") {
        StatementResult::Rows(rows) => first_value(rows).await,
        StatementResult::Command(tag) => panic!("{tag}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_for_a_key_is_planned_once() {
    let session = Engine::new(options()).expect("an engine").session();
    run(&session, T).await;
    run(&session, "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')").await;
    let one = session
        .read("SELECT w FROM t AS x WHERE x.k = $1")
        .expect("read")
        .remove(0);
    let unknown = session.run_immediately(&one, &[ScalarValue::from(1_i32)]);
    assert!(
        matches!(unknown, Ok(Immediate::NotNow)),
        "it was not planned yet"
    );
    assert_eq!(
        anyhow(&session, &one, &[ScalarValue::from(1_i32)]).await,
        "a"
    );
    for (value, found) in [
        (ScalarValue::from(2_i32), "b"),
        (ScalarValue::from(2_i64), "b"),
        (ScalarValue::from(3_i32), ""),
    ] {
        assert_eq!(immediately(&session, &one, &[value]).await, found);
    }
    // What is compared in another way is planned.
    for (value, found) in [
        (ScalarValue::from(i64::MAX), ""),
        (ScalarValue::from(1.0), "a"),
        (ScalarValue::from(1.5), ""),
        (ScalarValue::Int32(None), ""),
    ] {
        let planned = session.run_immediately(&one, std::slice::from_ref(&value));
        assert!(matches!(planned, Ok(Immediate::NotNow)), "{value:?}");
        assert_eq!(anyhow(&session, &one, &[value]).await, found);
    }
    let key = [ScalarValue::from(1_i32)];
    run(&session, "BEGIN; UPDATE t SET w = 'mine' WHERE k = 1").await;
    assert_eq!(immediately(&session, &one, &key).await, "mine");
    error(&session, "SELECT 1 / 0").await;
    assert!(
        session.run_immediately(&one, &key).is_err(),
        "the transaction has failed"
    );
    run(&session, "ROLLBACK").await;
    assert_eq!(immediately(&session, &one, &key).await, "a");
    run(
        &session,
        "CREATE TEMP TABLE t (k INT PRIMARY KEY, w VARCHAR)",
    )
    .await;
    assert_eq!(anyhow(&session, &one, &key).await, "");
    run(
        &session,
        "DROP TABLE t; ALTER TABLE t DROP CONSTRAINT t_pkey",
    )
    .await;
    assert_eq!(anyhow(&session, &one, &key).await, "a");
    let other_key = "UPDATE t SET g = 3 - k; ALTER TABLE t ADD CONSTRAINT t_pkey PRIMARY KEY (g)";
    run(&session, other_key).await;
    assert_eq!(anyhow(&session, &one, &key).await, "a");
    run(
        &session,
        "DROP TABLE t; CREATE TABLE t (w INT, k INT UNIQUE); INSERT INTO t VALUES (7, 1)",
    )
    .await;
    assert_eq!(anyhow(&session, &one, &key).await, "7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_compiled_gives_what_is_planned() {
    let session = Engine::new(options()).expect("an engine").session();
    run(
        &session,
        "CREATE TABLE t (a INT, b VARCHAR, c DATE, d DECIMAL(9, 2), e DOUBLE, UNIQUE (b, a))",
    )
    .await;
    let rows =
        "(1, 'x', '2020-01-01', 1.5, 0.5), (2, 'x', NULL, NULL, NULL), (NULL, 'y', NULL, 1, 1)";
    run(&session, &format!("INSERT INTO t VALUES {rows}")).await;
    for sql in [
        "SELECT 1",
        "SELECT 1, 1, 'x' AS y, NULL",
        "SELECT c FROM t WHERE a = 1 AND b = 'x'",
        "SELECT d, e, d FROM t WHERE 'x' = b AND a = 2",
        "SELECT a FROM t WHERE a = 3 AND b = 'x'",
        "SELECT a FROM t WHERE b = 'y' AND a = NULL",
        "SELECT a FROM t WHERE a = 1 AND a = 2 AND b = 'x'",
        "SELECT a + 1 FROM t WHERE a = 1 AND b = 'x'",
        "SELECT count(*) FROM t WHERE a = 1 AND b = 'x'",
        "SELECT a FROM t WHERE a = 1 AND b = 'x' AND d > 1",
        "SELECT a FROM t WHERE a = 1 AND b = 'x' AND d > 2",
        "SELECT a FROM t WHERE a = 2 AND b = 'x' AND d > 1",
        "SELECT a FROM t WHERE a = 1 AND b = 'x' AND a <> 0 AND 6 / (a - 1) > 2 AND FALSE",
        "SELECT -a AS n, a * 2.5, d / 3, e + 1, c IS NULL, CASE WHEN a > 0 THEN b END FROM t WHERE a = 1 AND b = 'x'",
        "SELECT CAST(d AS INT), CAST(a AS VARCHAR), d IN (1, 1.5), a BETWEEN 0 AND 5 FROM t WHERE a = 1 AND b = 'x'",
    ] {
        let statement = session.read(sql).expect(sql).remove(0);
        let mut shown = Vec::new();
        for _ in 0..2 {
            let result = session.run(&statement).await.expect(sql);
            let StatementResult::Rows(rows) = result else {
                panic!("{sql}")
            };
            let schema = Arc::clone(rows.schema());
            let batches = rows.collect().await.expect(sql);
            shown.push((
                schema,
                pretty_format_batches(&batches).expect(sql).to_string(),
            ));
        }
        assert_eq!(shown[0], shown[1], "{sql}");
    }
}

/// A table of orders, with some rows that are deleted, some that were changed, and main storage.
async fn with_lines() -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    run(
        &session,
        "CREATE TABLE lines (w INT, o INT, n INT, amount DECIMAL(6, 2), word VARCHAR, at TIMESTAMP, PRIMARY KEY (w, o, n));
         CREATE INDEX words ON lines (w, word, o DESC);
         INSERT INTO lines SELECT v % 3, v / 30, v % 10, CASE WHEN v % 7 > 0 THEN v * 0.25 END, 'word ' || v % 11, NULL
         FROM generate_series(1, 900) AS g (v) WHERE v / 3 % 10 = v % 10;
         CALL nearfar.merge('lines');
         DELETE FROM lines WHERE o = 7;
         UPDATE lines SET amount = amount + 1 WHERE o % 5 = 1;
         INSERT INTO lines VALUES (1, 5, 100, 7, 'word 3', '2026-01-01'), (1, 5, 101, NULL, NULL, NULL)",
    )
    .await;
    session
}

/// The answer of a statement with these parameters, which is carried out without being planned if `is_compiled`.
async fn answer(session: &Session, sql: &str, parameters: &[i32], is_compiled: bool) -> String {
    let statement = read(session, sql);
    let values: Vec<ScalarValue> = parameters.iter().map(|value| (*value).into()).collect();
    let compiled = session.compile(&statement, &values).await.expect(sql);
    assert_eq!(compiled, is_compiled, "{sql}");
    let ran = session.run_immediately(&statement, &values).expect(sql);
    let result = match ran.wait().expect(sql) {
        Some(result) => result,
        None if is_compiled => panic!("{sql} is planned"),
        None => session.run_with(&statement, &values).await.expect(sql),
    };
    match result {
        StatementResult::Rows(rows) => {
            let batches = rows.collect().await.expect(sql);
            pretty_format_batches(&batches).expect(sql).to_string()
        }
        StatementResult::Command(tag) => format!("{tag:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_compiled_of_ranges_gives_what_is_planned() {
    let session = with_lines().await;
    let queries = [
        "SELECT n, amount FROM lines WHERE w = $1 AND o = $2 ORDER BY n",
        "SELECT o, n FROM lines WHERE w = $1 AND o >= $2 AND o < $2 + 3 ORDER BY o DESC, n",
        "SELECT o, n FROM lines WHERE w = $1 AND o BETWEEN $2 AND 20 ORDER BY amount NULLS FIRST, o, n LIMIT 4",
        "SELECT o FROM lines WHERE w = $1 AND o > $2 ORDER BY o LIMIT 1",
        "SELECT o, n FROM lines WHERE w = CAST($1 AS INT) AND o = CAST($2 AS INTEGER) ORDER BY n",
        "SELECT o, n FROM lines WHERE w = $1 AND word = 'word 3' AND o < $2 + 100 ORDER BY o DESC LIMIT 2",
        "SELECT o AS p FROM lines WHERE w = $1 AND $2 < 100 ORDER BY p, n LIMIT 3",
        "SELECT o FROM lines WHERE w = $1 AND word = 'word 3' AND $2 < 100 ORDER BY o DESC, n LIMIT 1",
        "SELECT n + 1 AS m FROM lines WHERE w = $1 AND o = $2 AND amount > 2 ORDER BY -n LIMIT 2",
        "SELECT sum(amount), count(*), count(amount), min(n), max(word) FROM lines WHERE w = $1 AND o = $2",
        "SELECT count(DISTINCT word) + 1 AS words FROM lines WHERE w = $1 AND o > $2 AND o < 20",
        "SELECT count(*) FROM lines WHERE w = $1 AND o = $2 AND amount / (n - 3) > 0 AND n <> 3",
        "SELECT n FROM lines WHERE o = $2 AND w = $1 AND 6 / $2 < 100 ORDER BY 1 LIMIT 0",
    ];
    for changes in [
        "",
        "BEGIN; INSERT INTO lines VALUES (1, 4, 0, 3, 'word 3', NULL), (2, 0, 200, 3, 'word 3', NULL); DELETE FROM lines WHERE n = 1",
    ] {
        run(&session, changes).await;
        for sql in queries {
            // No function of this kind is carried out without planning.
            let planned = sql.replace("WHERE", "WHERE abs($1) >= 0 AND");
            for given in [[1, 5], [1, 7], [2, 1], [0, 9], [9, 9], [1, 1]] {
                let expected = answer(&session, &planned, &given, false).await;
                let found = answer(&session, sql, &given, true).await;
                assert_eq!(found, expected, "{sql} with {given:?} after {changes:?}");
            }
        }
    }
    run(&session, "ROLLBACK").await;
    // What is cast to another type than it has is compared as that.
    let cast = read(
        &session,
        "SELECT o FROM lines WHERE w = CAST($1 AS INT) AND o = 5 AND n = 5",
    );
    let text = [ScalarValue::from("2")];
    assert!(session.compile(&cast, &text).await.expect("a statement"));
    let ran = session.run_immediately(&cast, &text);
    assert!(matches!(ran, Ok(Immediate::NotNow)));
    assert_eq!(
        anyhow(&session, &cast, &text).await,
        anyhow(&session, &cast, &[2_i32.into()]).await
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_of_rows_are_changed_without_planning() {
    let session = with_lines().await;
    let count = "SELECT count(*) FROM lines WHERE w = $1 AND o = $2";
    let left = |given: [i32; 2]| {
        let session = session.clone();
        async move { answer(&session, count, &given, true).await }
    };
    let before = left([1, 5]).await;
    let update = "UPDATE lines SET amount = n, at = now() WHERE w = $1 AND o = $2 AND n < 101";
    let changed = answer(&session, update, &[1, 5], true).await;
    let expected = "SELECT count(*) FROM lines WHERE w = $1 AND o = $2 AND amount = n AND at IS NOT NULL AND n < 101";
    let expected = answer(&session, expected, &[1, 5], true).await;
    let expected = expected.replace("count(*)", "");
    let number = |text: &str| {
        text.chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
    };
    assert_eq!(number(&changed), number(&expected));
    assert_eq!(left([1, 5]).await, before);
    answer(
        &session,
        "DELETE FROM lines WHERE w = $1 AND o = $2",
        &[1, 5],
        true,
    )
    .await;
    assert_ne!(left([1, 5]).await, before);
    assert_eq!(left([1, 5]).await, left([1, 7]).await);
    run(&session, "CALL nearfar.check('lines')").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_parameters_of_other_types_are_added_without_planning() {
    let session = Engine::new(options()).expect("an engine").session();
    run(
        &session,
        "CREATE TABLE t (a INT PRIMARY KEY, b BIGINT, c VARCHAR, d DECIMAL(9, 2), e VARCHAR DEFAULT 'none')",
    )
    .await;
    let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
    for (number, sql) in [
        "INSERT INTO t VALUES ($1, $2, $3, $4)",
        "INSERT INTO t (d, c, a, b) VALUES ($4, $3, $1, $2 + 1)",
        "INSERT INTO t VALUES ($1, $2, $3, $4, NULL), ($1 + 100, 7, 'x', 2.5, $3)",
    ]
    .into_iter()
    .enumerate()
    {
        let statement = read(&session, sql);
        for round in 0..2 {
            let key = (number * 10 + round) as i64;
            let values = [
                key.into(),
                5_i32.into(),
                text("a text of some length"),
                3_i32.into(),
            ];
            if round == 0 {
                assert!(
                    session.compile(&statement, &values).await.expect(sql),
                    "{sql}"
                );
            }
            let done = session.run_immediately(&statement, &values);
            assert!(matches!(done, Ok(Immediate::Ran(_))), "{sql} is planned");
        }
    }
    let all = "SELECT count(*) || ' ' || sum(a) || ' ' || sum(b) || ' ' || sum(d) || ' ' || count(e) FROM t \
               WHERE c = 'a text of some length' OR c = 'x'";
    assert_eq!(value(&session, all).await, "8 304 46 23.00 6");
    run(&session, "CALL nearfar.check('t')").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_of_a_range_are_left_to_the_planner() {
    let session = Engine::new(options()).expect("an engine").session();
    run(
        &session,
        "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b)); INSERT INTO t SELECT v % 2, v FROM generate_series(1, 2000) AS g (v)",
    )
    .await;
    let all = read(&session, "SELECT count(*) FROM t WHERE a = $1");
    let first = read(&session, "SELECT b FROM t WHERE a = $1 ORDER BY b LIMIT 1");
    for statement in [&all, &first] {
        let compiled = session.compile(statement, &[1_i32.into()]).await;
        assert!(compiled.expect("a statement"));
    }
    let run = session.run_immediately(&all, &[1_i32.into()]);
    assert!(matches!(run, Ok(Immediate::NotNow)));
    assert_eq!(anyhow(&session, &all, &[1_i32.into()]).await, "1000");
    assert_eq!(immediately(&session, &first, &[1_i32.into()]).await, "1");
}

async fn with_a_row_of_each_type() -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    run(
        &session,
        "CREATE TABLE t (k INT PRIMARY KEY, n INT NOT NULL, w VARCHAR(3) UNIQUE, at TIMESTAMP);
         INSERT INTO t VALUES (1, 1, 'a', now()), (2, 1, 'b', now()), (8, 1, 'c', NULL)",
    )
    .await;
    session
}

fn read(session: &Session, sql: &str) -> Statement {
    session.read(sql).expect(sql).remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_is_planned_once() {
    let session = with_a_row_of_each_type().await;
    let text = |text: &str| ScalarValue::Utf8View(Some(text.to_owned()));
    let values = |k: i32, w: &str| [ScalarValue::from(k), text(w)];
    let insert = read(
        &session,
        "INSERT INTO t (k, n, w, at) VALUES ($1, 1, $2, now())",
    );
    session
        .run_with(&insert, &values(3, "d"))
        .await
        .expect("a row");
    assert_eq!(
        immediately(&session, &insert, &values(4, "e")).await,
        "INSERT 1"
    );
    for (given, expected) in [
        (values(2, "x"), "duplicate key"),
        (values(5, "a"), "duplicate key"),
        (values(5, "long"), "too long"),
        ([ScalarValue::Int32(None), text("x")], "null"),
    ] {
        let error = session
            .run_immediately(&insert, &given)
            .expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
    }
    let several = read(
        &session,
        "INSERT INTO t (n, k) VALUES ($1, $2 + 1), (7, 10)",
    );
    let with = [ScalarValue::from(1_i32), ScalarValue::from(10_i64)];
    let other_types = [ScalarValue::from(1_i32), ScalarValue::from(2.5)];
    session.run_with(&several, &with).await.expect("rows");
    for given in [&[][..], &other_types] {
        let result = session.run_immediately(&several, given);
        assert!(matches!(result, Ok(Immediate::NotNow)));
    }
    assert!(session.run_immediately(&several, &with).is_err());
    let count = read(&session, "SELECT count(*) FROM t WHERE at IS NOT NULL");
    assert_eq!(anyhow(&session, &count, &[]).await, "4");
    run(&session, "CALL nearfar.check('t')").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_key_are_planned_once() {
    let session = with_a_row_of_each_type().await;
    let [one, two] = [1_i32, 2].map(ScalarValue::from);
    let update = read(
        &session,
        "UPDATE t SET n = n + $2, w = w WHERE k = $1 AND n >= $2",
    );
    let (ones, higher) = ([one.clone(), one.clone()], [one.clone(), two.clone()]);
    session.run_with(&update, &higher).await.expect("no row");
    assert_eq!(immediately(&session, &update, &ones).await, "UPDATE 1");
    assert_eq!(immediately(&session, &update, &higher).await, "UPDATE 1");
    let too_high = [one.clone(), ScalarValue::from(i32::MAX)];
    assert_eq!(immediately(&session, &update, &too_high).await, "UPDATE 0");
    let clash = read(&session, "UPDATE t SET k = k + $2 WHERE k = $1");
    assert!(session.run_with(&clash, &ones).await.is_err());
    assert!(session.run_immediately(&clash, &ones).is_err());
    let error = session
        .run_immediately(&clash, &too_high)
        .expect_err("too large");
    assert!(error.to_string().contains("Overflow"), "{error}");
    let shown = read(&session, "SELECT k + n FROM t WHERE k = $1");
    assert_eq!(anyhow(&session, &shown, &[one]).await, "5");

    let delete = read(&session, "DELETE FROM t WHERE k = $1");
    session.run_with(&delete, &[two]).await.expect("a row");
    let eight = [ScalarValue::from(8_i32)];
    let (begin, count) = (
        read(&session, "BEGIN"),
        "SELECT count(*) FROM t WHERE k = 8",
    );
    for (end, expected) in [("ROLLBACK", "1"), ("COMMIT", "0")] {
        assert_eq!(immediately(&session, &begin, &[]).await, "BEGIN");
        assert_eq!(immediately(&session, &delete, &eight).await, "DELETE 1");
        assert_eq!(immediately(&session, &delete, &eight).await, "DELETE 0");
        assert_eq!(immediately(&session, &read(&session, end), &[]).await, end);
        assert_eq!(
            anyhow(&session, &read(&session, count), &[]).await,
            expected
        );
    }
    run(&session, "BEGIN READ ONLY").await;
    let error = session
        .run_immediately(&delete, &eight)
        .expect_err("read only");
    assert!(error.to_string().contains("READ ONLY"), "{error}");
    run(&session, "ROLLBACK; CALL nearfar.check('t')").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_behind_the_first_segment_leaves_no_index() {
    let engine = engine();
    let session = engine.session();
    let rows = "CREATE TABLE t AS SELECT value AS k FROM generate_series(1, 530000)";
    run(&session, rows).await;
    run(&session, "INSERT INTO t VALUES (5)").await;
    let segments = "SELECT count(*) > 1 FROM nearfar.segments WHERE table_name = 't'";
    assert_eq!(value(&session, segments).await, "true");
    for sql in [
        "CREATE UNIQUE INDEX late ON t (k)",
        "ALTER TABLE t ADD CONSTRAINT late UNIQUE (k)",
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains("5"), "{message}");
        let indexes = "SELECT count(*) FROM nearfar.indexes WHERE table_name = 't'";
        assert_eq!(value(&session, indexes).await, "0");
    }
    run(
        &session,
        "DELETE FROM t WHERE k = 5; INSERT INTO t VALUES (5)",
    )
    .await;
    run(
        &session,
        "CREATE UNIQUE INDEX late ON t (k); CALL nearfar.check('t')",
    )
    .await;
}
