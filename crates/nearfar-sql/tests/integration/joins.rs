//! Chains of joins over strings.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::DataType;
use nearfar_sql::engine::{Engine, EngineOptions, StatementResult};

use super::support::{options, run};

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
