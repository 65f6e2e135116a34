//! Statements and servers that end before their time.

use std::io::Write;
use std::time::Duration;

use tokio_postgres::NoTls;

use crate::support::{
    LONG, code, connect, message, options, read_until, start, start_with, startup,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_ends_a_statement() {
    let server = start().await;
    let client = server.client().await;
    let cancel = client.cancel_token();
    let canceller = tokio::spawn(async move {
        // Again and again: the statement may not have begun.
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cancel.cancel_query(NoTls).await.expect("sent");
        }
    });
    assert_eq!(code(client.batch_execute(LONG).await), "57014");
    assert_eq!(code(client.query(LONG, &[]).await), "57014");
    canceller.abort();
    client.batch_execute("BEGIN").await.expect("begun");
    client.batch_execute("ROLLBACK").await.expect("rolled back");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_time_out() {
    let server = start().await;
    let client = server.client().await;
    client
        .batch_execute("SET statement_timeout = 100")
        .await
        .expect("set");
    assert_eq!(code(client.batch_execute(LONG).await), "57014");
    client
        .batch_execute("RESET statement_timeout; BEGIN")
        .await
        .expect("reset");
    client
        .batch_execute("SET statement_timeout = 100")
        .await
        .expect("set");
    assert_eq!(code(client.query(LONG, &[]).await), "57014");
    assert_eq!(code(client.batch_execute("SELECT 1").await), "25P02");
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_clients_time_out() {
    let options = nearfar_server::ServerOptions {
        idle_in_transaction_timeout: Some(Duration::from_millis(50)),
        authentication_timeout: Duration::from_millis(200),
        ..options()
    };
    let server = start_with(options).await;
    let client = server.client().await;
    client.batch_execute("BEGIN").await.expect("begun");
    server.wait_until("the end", |_| client.is_closed()).await;
    let mut stranger = server.raw();
    let mut byte = [0];
    let read = std::io::Read::read(&mut stranger, &mut byte);
    assert!(matches!(read, Ok(0)), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_takes_its_statement_along() {
    let server = start().await;
    let mut stream = server.raw();
    stream.write_all(&startup()).expect("sent");
    read_until(&mut stream, b'Z');
    let query = message(b'Q', &[LONG.as_bytes(), b"\0"].concat());
    stream.write_all(&query).expect("sent");
    server
        .wait_until("a query", |it| it.metric("nearfar_transactions_open") > 0.0)
        .await;
    drop(stream);
    server
        .wait_until("its end", |it| {
            it.metric("nearfar_transactions_open") == 0.0
        })
        .await;
    assert_eq!(server.metric("nearfar_sessions"), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_gives_statements_up_after_their_grace() {
    let mut server = start().await;
    let (busy, idle) = (server.client().await, server.client().await);
    let running = tokio::spawn(async move { busy.batch_execute(LONG).await });
    server
        .wait_until("a query", |it| it.metric("nearfar_transactions_open") > 0.0)
        .await;
    server.ask_to_stop();
    assert_eq!(server.stopped().await.interrupted, 1);
    assert_eq!(code(running.await.expect("no panic")), "57P01");
    assert!(idle.batch_execute("SELECT 1").await.is_err());
    assert!(connect(&server.config()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_lets_statements_end() {
    let options = nearfar_server::ServerOptions {
        grace: Duration::from_secs(100),
        ..options()
    };
    let mut server = start_with(options).await;
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE t AS SELECT 1 AS a; BEGIN")
        .await
        .expect("begun");
    server.ask_to_stop();
    server
        .wait_until("stopping", |it| it.get("/health/ready").0 == 503)
        .await;
    client
        .batch_execute("INSERT INTO t VALUES (2); COMMIT")
        .await
        .expect("committed");
    assert_eq!(server.stopped().await.interrupted, 0);
}
