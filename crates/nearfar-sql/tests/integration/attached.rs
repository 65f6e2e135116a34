//! Rows of the program as tables of one session, and rows that are added by the names of their columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use nearfar_sql::engine::{ClientRows, Engine, Session};
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::SqlError;

use crate::support::{error, options, region_bytes, run, value};

fn session() -> Session {
    Engine::new(options()).expect("an engine").session()
}

/// Numbers from 0 on, in one batch.
fn numbers(count: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
    RecordBatch::try_from_iter([("n", numbers)]).expect("a batch")
}

fn stream(batches: Vec<Result<RecordBatch, EngineError>>) -> ClientRows {
    futures::stream::iter(batches).boxed()
}

async fn append(
    session: &Session,
    table: &str,
    schema: &SchemaRef,
    batches: Vec<Result<RecordBatch, EngineError>>,
) -> Result<u64, EngineError> {
    session
        .append(&Arc::default(), table, schema, stream(batches))
        .await
}

#[tokio::test]
async fn attached_rows_are_read_where_they_are() {
    let session = session();
    let batch = numbers(100_000);
    session
        .attach("own", batch.schema(), std::slice::from_ref(&batch))
        .expect("attached");
    let query = "SELECT count(*) || ' ' || max(n) AS v FROM own WHERE n % 2 = 1";
    assert_eq!(value(&session, query).await, "50000 99999");
    assert_eq!(region_bytes(session.engine()), 0);
    let other = session.engine().session();
    assert!(error(&other, "SELECT * FROM own").await.contains("own"));
    error(&session, "INSERT INTO own VALUES (1)").await;
    session
        .attach("own", batch.schema(), &[])
        .expect("in place of the others");
    assert_eq!(value(&session, "SELECT count(*) AS v FROM own").await, "0");
    assert!(session.detach("own"));
    assert!(!session.detach("own"));
    assert!(error(&session, "SELECT * FROM own").await.contains("own"));
}

#[tokio::test]
async fn attached_rows_take_no_temporary_tables_place() {
    let session = session();
    run(&session, "CREATE TEMP TABLE own AS SELECT 7 AS n").await;
    let batch = numbers(1);
    let refused = session.attach("own", batch.schema(), &[batch]);
    assert!(
        matches!(refused, Err(EngineError::Sql(SqlError::TableExists { .. }))),
        "{refused:?}"
    );
    assert!(!session.detach("own"));
    assert_eq!(value(&session, "SELECT n AS v FROM own").await, "7");
}

#[tokio::test]
async fn tables_that_there_are_not_are_found_in_statements() {
    let session = session();
    run(&session, "CREATE TABLE kept (n BIGINT)").await;
    let sql = r#"WITH c AS (SELECT 1 AS n)
        SELECT * FROM kept, c, Frame, "Quoted" WHERE kept.n IN (SELECT n FROM inner_one)"#;
    let statements = session.read(sql).expect("a statement");
    let missing = session.missing_tables(&statements[0]).await;
    let expected = [
        ("Frame", "frame"),
        ("Quoted", "Quoted"),
        ("inner_one", "inner_one"),
    ];
    let expected = expected.map(|(written, name)| (written.to_owned(), name.to_owned()));
    assert_eq!(missing.expect("names"), BTreeMap::from(expected));
}

#[tokio::test]
async fn rows_are_added_by_the_names_of_columns() {
    let session = session();
    run(
        &session,
        "CREATE TABLE t (id INTEGER, name VARCHAR DEFAULT 'nobody', n BIGINT)",
    )
    .await;
    let batch = numbers(3);
    let added = append(&session, "t", &batch.schema(), vec![Ok(batch.clone())]).await;
    assert_eq!(added.expect("added"), 3);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["9", "8"]));
    let texts = RecordBatch::try_from_iter([("id", texts)]).expect("a batch");
    let added = append(&session, "public.t", &texts.schema(), vec![Ok(texts)]).await;
    assert_eq!(added.expect("cast and added"), 2);
    let query =
        "SELECT count(*) || ' ' || sum(n) || ' ' || sum(id) || ' ' || max(name) AS v FROM t";
    assert_eq!(value(&session, query).await, "5 3 17 nobody");
}

#[tokio::test]
async fn rows_that_fail_leave_nothing() {
    let session = session();
    run(&session, "CREATE TABLE t (n BIGINT)").await;
    let batch = numbers(3);
    let failed = Err(EngineError::Cancelled {
        what: "the source".to_owned(),
    });
    let schema = batch.schema();
    let given = append(&session, "t", &schema, vec![Ok(batch.clone()), failed]).await;
    assert!(given.is_err(), "{given:?}");
    let other: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let other = RecordBatch::try_from_iter([("other", other)]).expect("a batch");
    let given = append(&session, "t", &other.schema(), vec![Ok(other)]).await;
    assert!(
        matches!(given, Err(EngineError::Sql(SqlError::UnknownColumn { .. }))),
        "{given:?}"
    );
    assert!(append(&session, "nowhere", &schema, vec![]).await.is_err());
    assert_eq!(value(&session, "SELECT count(*) AS v FROM t").await, "0");
}
