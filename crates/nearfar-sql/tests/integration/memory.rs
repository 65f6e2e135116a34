//! Memory that statements take beside their operators: it is asked for before it is taken.

use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use nearfar_sql::error::EngineError;

use super::support::{options, run, value};

const LIMIT_BYTES: u64 = 50 << 20;

async fn limited() -> Session {
    let options = EngineOptions {
        memory_limit_bytes: Some(LIMIT_BYTES),
        ..options()
    };
    let session = Engine::new(options).expect("an engine").session();
    let table = "CREATE TABLE t AS SELECT value AS a, 'x' AS s, 'a text of row ' || value AS l \
                 FROM generate_series(1, 100000)";
    run(&session, table).await;
    session
}

/// Runs all of a statement.
async fn run_all(session: &Session, sql: &str) -> Result<usize, EngineError> {
    let mut rows = 0;
    for result in session.execute(sql).await? {
        if let StatementResult::Rows(mut stream) = result {
            use futures::StreamExt;
            while let Some(batch) = stream.next().await {
                rows += batch?.num_rows();
            }
        }
    }
    Ok(rows)
}

async fn refused(session: &Session, sql: &str) {
    let shown: String = sql.chars().take(200).collect();
    match run_all(session, sql).await {
        Err(EngineError::OutOfMemory(_)) => {}
        Err(error) => panic!("{shown}: {error}"),
        Ok(rows) => panic!("{shown}: {rows} rows"),
    }
    assert_eq!(value(session, "SELECT 1").await, "1", "after {shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_functions_are_charged_before_they_are_made() {
    let session = limited().await;
    for sql in [
        "SELECT repeat('x', 1000000000)",
        "SELECT length(repeat('x', 1000000000))",
        "SELECT repeat(s, 1000000000) FROM t",
        "SELECT length(lpad('x', 1000000000, 'y'))",
        "SELECT length(rpad(s, 100000000)) FROM t",
        "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 1000)))",
        "SELECT length(regexp_replace(repeat('a', 1000000), 'a', repeat('b', 1000), 'g'))",
        "SELECT array_length(range(1, 1000000000))",
        "SELECT array_length(generate_series(1, 1000000000))",
        "SELECT array_length(range(1, a * 1000)) FROM t",
        "SELECT array_length(array_repeat('abc', 1000000000))",
        "SELECT count(*) FROM t WHERE length(repeat(l, 100000000)) = 7",
        "SELECT concat(repeat('a', 20000000), repeat('b', 20000000), repeat('c', 20000000))",
        "SELECT repeat('a', 20000000), repeat('b', 20000000), repeat('c', 20000000)",
    ] {
        refused(&session, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_that_double_again_and_again_are_refused() {
    let session = limited().await;
    let mut query = "SELECT repeat('x', 1000000) AS x0".to_owned();
    for i in 0..8 {
        query = format!("SELECT x{i} || x{i} AS x{} FROM ({query})", i + 1);
    }
    refused(&session, &format!("SELECT length(x8) FROM ({query})")).await;
    let grown = "WITH RECURSIVE r AS (SELECT 1 AS n, 'xyz' AS s \
                 UNION ALL SELECT n + 1, s || s FROM r WHERE n < 40) SELECT max(length(s)) FROM r";
    refused(&session, grown).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_windows_are_charged() {
    let session = limited().await;
    for sql in [
        "SELECT length(string_agg(s, '') OVER (ORDER BY a)) FROM t",
        "SELECT array_agg(a) OVER (ORDER BY a) FROM t",
        "SELECT max(x) OVER (ORDER BY a) FROM (SELECT a, l || repeat('y', 100000) AS x FROM t)",
    ] {
        refused(&session, sql).await;
    }
    let small = "SELECT max(length(x)) FROM \
                 (SELECT string_agg(s, '') OVER (PARTITION BY a % 1000 ORDER BY a) AS x FROM t)";
    assert_eq!(value(&session, small).await, "100");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_statements_are_charged_before_they_are_read_and_planned() {
    let session = limited().await;
    let numbers: Vec<String> = (0..400_000).map(|i| i.to_string()).collect();
    let list = format!("SELECT 1 WHERE 1 IN ({})", numbers.join(","));
    refused(&session, &list).await;
    let rows = format!("VALUES ({})", numbers.join("),("));
    refused(&session, &rows).await;
    let short = format!("SELECT 1 WHERE 1 IN ({})", numbers[..1000].join(","));
    assert_eq!(run_all(&session, &short).await.expect("a short list"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_keeps_is_charged_until_it_is_dropped() {
    let session = limited().await;
    let mut kept = Vec::new();
    let refusal = loop {
        assert!(kept.len() < 100, "nothing was refused");
        match session.charge("values", 12 << 20) {
            Ok(charge) => kept.push(charge),
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal, EngineError::OutOfMemory(_)), "{refusal}");
    assert_eq!(kept.len(), 4);
    drop(kept);
    assert!(session.charge("values", 12 << 20).is_ok());
    run(&session, "DISCARD ALL").await;
    assert_eq!(session.engine().query_memory().used_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_are_charged_until_they_are_deallocated() {
    let session = limited().await;
    let long = format!("SELECT '{}'", "x".repeat(1 << 20));
    let mut count = 0;
    let refusal = loop {
        assert!(count < 100, "nothing was refused");
        match run_all(&session, &format!("PREPARE p{count} AS {long}")).await {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal, EngineError::OutOfMemory(_)), "{refusal}");
    assert!(count > 0, "not even one is kept");
    run_all(&session, "DEALLOCATE ALL")
        .await
        .expect("deallocated");
    let again = format!("PREPARE again AS {long}");
    run_all(&session, &again).await.expect("room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_joins_and_lists_repeat_are_charged() {
    let session = limited().await;
    for sql in [
        "SELECT max(q.s) FROM (SELECT string_agg(l, '') AS s FROM t) q CROSS JOIN t",
        "SELECT count(q.s) FROM (SELECT array_agg(a) AS s FROM t) q JOIN t ON q.s[1] = 1 OR t.a = 5",
        "SELECT s || 'x', unnest(range(1, 1000000)) FROM (SELECT string_agg(s, '') AS s FROM t)",
    ] {
        refused(&session, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_constants_are_repeated_for_a_few_rows_at_a_time() {
    let session = limited().await;
    let sql = "SELECT repeat('x', 1000000) AS x, a FROM t WHERE a <= 1000";
    assert_eq!(run_all(&session, sql).await.expect("rows"), 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_texts_of_tables_are_in_short_batches() {
    let session = limited().await;
    let table =
        "CREATE TABLE long AS SELECT value AS id, repeat(chr((64 + value)::int), 400000) AS s
                 FROM generate_series(1, 12)";
    run(&session, table).await;
    let sql = "SELECT long.s FROM long, t WHERE t.a < 100 ORDER BY t.a, long.id";
    let results = session.execute(sql).await.expect("rows");
    let Some(StatementResult::Rows(rows)) = results.into_iter().next() else {
        panic!("no rows")
    };
    let batches = rows.collect().await.expect("rows");
    let rows: Vec<usize> = batches.iter().map(|batch| batch.num_rows()).collect();
    assert_eq!(rows.iter().sum::<usize>(), 1188);
    assert!(rows.iter().all(|rows| *rows <= 83), "{rows:?}");
    // Each row has 1.6 MB of texts, which all rows together would have thousands of times.
    let longest = "SELECT max(length(a.s || b.s)) FROM long a, long b, long c, long d";
    assert_eq!(value(&session, longest).await, "800000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guarded_functions_answer_as_before() {
    let session = limited().await;
    for (sql, expected) in [
        ("SELECT repeat('ab', 3)", "ababab"),
        ("SELECT 'a' || 1", "a1"),
        ("SELECT ('a' || NULL) IS NULL", "true"),
        ("SELECT concat('a', NULL, 'b')", "ab"),
        ("SELECT concat_ws('-', 'a', NULL, 'b')", "a-b"),
        ("SELECT lpad('7', 3, '0')", "007"),
        ("SELECT s || l FROM t WHERE a = 5", "xa text of row 5"),
        ("SELECT count(*) FROM t WHERE s || a = 'x77'", "1"),
        ("SELECT max(s || l) FROM t WHERE a < 3", "xa text of row 2"),
        (
            "SELECT count(*) FROM (SELECT l || s FROM t GROUP BY l || s)",
            "100000",
        ),
        ("SELECT array_length(range(1, 100))", "99"),
        ("SELECT [1, 2] || [3]", "[1, 2, 3]"),
        ("SELECT array_to_string(make_array(1, 2), '+')", "1+2"),
    ] {
        assert_eq!(value(&session, sql).await, expected, "{sql}");
    }
    let named = run(&session, "SELECT s || 'y' FROM t WHERE a = 1").await;
    assert!(named.contains("|| "), "{named}");
}
