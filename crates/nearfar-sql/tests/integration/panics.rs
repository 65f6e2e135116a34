//! Operators with a bug that makes them panic.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Volatility, create_udf};
use nearfar_sql::engine::Engine;
use std::sync::Arc;

use super::support::{error, options, run, value};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_panics_ends_its_query_alone() {
    let session = Engine::new(options()).expect("an engine").session();
    let buggy = create_udf(
        "buggy",
        vec![DataType::Int64],
        DataType::Int64,
        Volatility::Volatile,
        Arc::new(|_| panic!("a bug of an operator")),
    );
    session.context().register_udf(buggy);
    run(
        &session,
        "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2)",
    )
    .await;
    for sql in [
        "SELECT buggy(a) FROM t",
        "SELECT count(*) FROM t GROUP BY buggy(a)",
        "SELECT a FROM t ORDER BY buggy(a)",
    ] {
        let message = error(&session, sql).await;
        let is_told = message.contains("panicked") && message.contains("a bug of an operator");
        assert!(is_told, "{message}");
        assert_eq!(value(&session, "SELECT sum(a) FROM t").await, "3");
    }
}
