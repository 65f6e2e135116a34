//! Chains of joins over strings.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::DataType;
use nearfar_sql::engine::{Engine, EngineOptions, StatementResult};

use super::support::{engine, options, run, same_without};

const ROWS: usize = 40_000;
const JOINS: usize = 7;

/// Of a join of compact inputs, in one column; seven joins would multiply them to hundreds of thousands.
const BUFFERS_MAX: usize = 1000;

/// A table of some zones whose strings are all short, all long, or either, with a key for every join.
fn table() -> String {
    let keys = [7, 11, 13, 17, 19, 23, 29].into_iter().enumerate();
    let keys = keys.map(|(i, factor)| format!("value * {factor} % {ROWS} + 1 AS k{}", i + 1));
    format!(
        "CREATE TABLE t AS SELECT value AS id, {}, 'k' || value AS short, \
         'a string that is longer than its view ' || value AS long, \
         CASE WHEN value % 7 = 0 THEN 'another one that is longer ' || value ELSE 's' END AS mixed \
         FROM generate_series(1, {ROWS})",
        keys.collect::<Vec<_>>().join(", ")
    )
}

/// Buffers of the array of views that has most of them.
fn buffers_max(batches: &[RecordBatch]) -> usize {
    let columns = batches.iter().flat_map(RecordBatch::columns);
    let views = columns.filter(|column| *column.data_type() == DataType::Utf8View);
    let buffers = views.map(|column| column.as_string_view().data_buffers().len());
    buffers.max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_above_joins_multiply_no_buffers_of_strings() {
    let options = EngineOptions {
        threads: 4,
        ..options()
    };
    let session = Engine::new(options).expect("an engine").session();
    run(&session, &table()).await;
    for limit in ["", "_rows"] {
        let name = format!("datafusion.optimizer.hash_join_single_partition_threshold{limit}");
        run(&session, &format!("SET {name} = 0")).await;
    }
    // Each join has its own key, so that rows move between partitions before each; and none of the long
    // strings among the short ones is left, so that their buffers are there for nothing.
    let joined =
        (1..=JOINS).map(|i| format!("JOIN t t{i} ON t0.k{i} = t{i}.id AND t{i}.id % 7 <> 0"));
    let columns = (0..=JOINS).flat_map(|i| {
        let column = move |name: &str| format!("t{i}.{name} AS {name}{i}");
        ["short", "long", "mixed"].map(column)
    });
    let columns: Vec<String> = columns.collect();
    let joined: Vec<String> = joined.collect();
    let query = format!(
        "SELECT {} FROM t t0 {}",
        columns.join(", "),
        joined.join(" ")
    );
    let Some(StatementResult::Rows(rows)) = session.execute(&query).await.expect("rows").pop()
    else {
        panic!("no rows");
    };
    let batches = rows.collect().await.expect("rows");
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert!(rows > ROWS / 10, "{rows} rows");
    let buffers = buffers_max(&batches);
    assert!(buffers <= BUFFERS_MAX, "{buffers} buffers in one column");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_are_ordered_by_equalities_of_where_below_outer_joins() {
    let session = Engine::new(options()).expect("an engine").session();
    let tables = "CREATE TABLE dates AS SELECT value AS k, value / 7 AS week, value / 365 AS year FROM generate_series(1, 3650); \
                  CREATE TABLE sales AS SELECT 1 + value * 7919 % 3600 AS sold, value % 200 AS item, value AS id \
                    FROM generate_series(1, 10000); \
                  CREATE TABLE stocks AS SELECT 1 + value / 200 * 7 AS day, value % 200 AS item, value AS stock \
                    FROM generate_series(0, 99999); \
                  CREATE TABLE returns AS SELECT value AS id FROM generate_series(1, 10000, 5)";
    run(&session, tables).await;
    // Weeks leave few of the stocks that items have.
    let sql = "SELECT count(*), count(r.id), sum(b.stock) FROM sales s JOIN stocks b ON s.item = b.item \
               JOIN dates d1 ON s.sold = d1.k JOIN dates d2 ON b.day = d2.k LEFT JOIN returns r ON r.id = s.id \
               WHERE d1.week = d2.week AND d1.year = 3";
    let plan = run(&session, &format!("EXPLAIN {sql}")).await;
    let both = plan
        .lines()
        .any(|line| line.contains("Inner Join: ") && line.contains("item") && line.contains("day"));
    assert!(both, "{plan}");
    let alone = "SELECT count(*), count(r.id), sum(b.stock) FROM (SELECT s.*, d1.week FROM sales s JOIN dates d1 ON s.sold = d1.k \
                   WHERE d1.year = 3 OFFSET 0) s JOIN (SELECT b.*, d2.week FROM stocks b JOIN dates d2 ON b.day = d2.k OFFSET 0) b \
                 ON s.item = b.item AND s.week = b.week LEFT JOIN returns r ON r.id = s.id";
    let rows = |text: &str| text.lines().nth(3).map(str::to_owned);
    assert_eq!(
        rows(&run(&session, sql).await),
        rows(&run(&session, alone).await)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_of_joins_that_spill_look_at_their_own_columns() {
    let session = engine().session();
    run(
        &session,
        "CREATE TABLE u AS SELECT value AS z, value % 500 AS k, value % 7 AS p, value AS q FROM generate_series(1, 2000);
         CREATE TABLE v AS SELECT value % 300 AS k, value AS q, value % 5 AS p FROM generate_series(1, 3000)",
    )
    .await;
    let condition = "u.k = v.k AND u.p < v.p";
    for (columns, join) in [
        ("u.k, u.q, v.k, v.q", "JOIN"),
        ("v.q, u.q", "LEFT JOIN"),
        ("u.q, v.q", "RIGHT JOIN"),
        ("u.q, v.q", "FULL JOIN"),
        ("u.q, v.k", "JOIN"),
    ] {
        let rows = format!("SELECT {columns} FROM u {join} v ON {condition}");
        let sql = format!("{rows} ORDER BY u.q, v.q LIMIT 3000 OFFSET 1000");
        same_without(&session, "datafusion.optimizer.prefer_hash_join", &sql).await;
    }
    for not in ["", "NOT "] {
        let sql = format!(
            "SELECT q FROM u WHERE {not}EXISTS (SELECT FROM v WHERE {condition}) ORDER BY q"
        );
        same_without(&session, "datafusion.optimizer.prefer_hash_join", &sql).await;
    }
    let counted = "WITH c AS (SELECT p AS k, count(*) AS n FROM u GROUP BY 1)
                   SELECT l.k, r.n FROM c l FULL JOIN c r ON l.k = r.k AND l.n >= r.n + 1 ORDER BY 1, 2";
    same_without(&session, "datafusion.optimizer.prefer_hash_join", counted).await;
}
