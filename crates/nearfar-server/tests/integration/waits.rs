//! Statements that wait for rows of others, and commits that wait for the disk, on threads that serve other clients too.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use nearfar_durable::log::{DataOptions, LogFaults};
use nearfar_server::ServerOptions;
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_topology::Topology;
use tokio_postgres::{Client, NoTls, Statement};

use crate::support::{Running, code, options, start_on, start_with};

const TABLE: &str =
    "CREATE TABLE t (k INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0), (2, 0)";
const ADD: &str = "UPDATE t SET n = n + 1 WHERE k = $1";
const HOLD: &str = "BEGIN; UPDATE t SET n = n + 10 WHERE k = 1";

/// A server with one thread for its clients.
fn one_thread() -> ServerOptions {
    ServerOptions {
        client_threads: 1,
        ..options()
    }
}

async fn start() -> Running {
    let server = start_with(one_thread()).await;
    let client = server.client().await;
    client.batch_execute(TABLE).await.expect("a table");
    server
}

/// A client with [`ADD`] prepared, which has run before: it is not planned any more.
async fn adder(server: &Running) -> (Client, Statement) {
    let client = server.client().await;
    let add = client.prepare(ADD).await.expect("prepared");
    for _ in 0..2 {
        client.execute(&add, &[&2]).await.expect("added");
    }
    (client, add)
}

/// A client that has the first row.
async fn holder(server: &Running) -> Client {
    let holder = server.client().await;
    holder.batch_execute(HOLD).await.expect("held");
    holder
}

async fn number(client: &Client) -> i32 {
    let row = client.query_one("SELECT n FROM t WHERE k = 1", &[]).await;
    row.expect("a row").get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_row_keeps_nobody_else_waiting() {
    let server = start().await;
    let (waiter, add) = adder(&server).await;
    let holder = holder(&server).await;
    let waiting = tokio::spawn(async move { waiter.execute(&add, &[&1]).await });
    // The holder is served by the same thread, and the other one has to wait for it.
    for _ in 0..100 {
        assert_eq!(number(&holder).await, 10);
        assert!(!waiting.is_finished());
    }
    holder.batch_execute("COMMIT").await.expect("committed");
    assert_eq!(waiting.await.expect("no panic").expect("added"), 1);
    assert_eq!(number(&holder).await, 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_row_can_be_given_up() {
    let server = start().await;
    let (waiter, add) = adder(&server).await;
    let holder = holder(&server).await;
    let late = "SET statement_timeout = 100";
    waiter.batch_execute(late).await.expect("set");
    assert_eq!(code(waiter.execute(&add, &[&1]).await), "57014");
    let never = "RESET statement_timeout";
    waiter.batch_execute(never).await.expect("reset");
    let cancel = waiter.cancel_token();
    let canceller = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            cancel.cancel_query(NoTls).await.expect("sent");
        }
    });
    assert_eq!(code(waiter.execute(&add, &[&1]).await), "57014");
    canceller.abort();
    drop(waiter);
    // One that goes meanwhile.
    let (waiter, connection) = server.config().connect(NoTls).await.expect("connected");
    let connection = tokio::spawn(connection);
    let add = waiter.prepare(ADD).await.expect("prepared");
    let waiting = tokio::spawn(async move { waiter.execute(&add, &[&1]).await.map(drop) });
    tokio::time::sleep(Duration::from_millis(50)).await;
    connection.abort();
    assert!(waiting.await.expect("no panic").is_err());
    server
        .wait_until("its end", |it| it.metric("nearfar_sessions") == 1.0)
        .await;
    holder.batch_execute("COMMIT").await.expect("committed");
    assert_eq!(number(&holder).await, 10, "what was given up is not done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_gives_up_who_waits_for_a_row() {
    let mut server = start().await;
    let (waiter, add) = adder(&server).await;
    // No client, whose rows would be free when the server stops.
    let holder = server.engine.session();
    holder.execute(HOLD).await.expect("held");
    let waiting = tokio::spawn(async move { waiter.execute(&add, &[&1]).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    server.ask_to_stop();
    assert_eq!(code(waiting.await.expect("no panic")), "57P01");
    server.stopped().await;
    drop(holder);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_wait_for_each_other_one_is_told() {
    let server = start().await;
    let (one, add_of_one) = adder(&server).await;
    let (other, add_of_other) = adder(&server).await;
    one.batch_execute("BEGIN").await.expect("begun");
    other.batch_execute("BEGIN").await.expect("begun");
    one.execute(&add_of_one, &[&1]).await.expect("added");
    other.execute(&add_of_other, &[&2]).await.expect("added");
    let waiting = tokio::spawn(async move {
        let added = one.execute(&add_of_one, &[&2]).await;
        (one, added)
    });
    let told = other.execute(&add_of_other, &[&1]).await;
    if told.is_err() {
        assert_eq!(code(told), "40P01");
        other.batch_execute("ROLLBACK").await.expect("ended");
        let (one, added) = waiting.await.expect("no panic");
        assert_eq!(added.expect("added"), 1);
        one.batch_execute("COMMIT").await.expect("committed");
    } else {
        let (one, added) = waiting.await.expect("no panic");
        assert_eq!(code(added), "40P01");
        one.batch_execute("ROLLBACK").await.expect("ended");
        other.batch_execute("COMMIT").await.expect("committed");
    }
    assert_eq!(number(&server.client().await).await, 1);
}

/// A server whose commits wait for the disk.
async fn durable(data: DataOptions) -> Running {
    let mut options = EngineOptions::new(Topology::this_machine().expect("a machine"));
    options.data = Some(data);
    let engine = Engine::new(options).expect("an engine");
    start_on(engine, one_thread()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_share_writes_to_disk_and_are_there_when_they_are_acknowledged() {
    const CLIENTS: i32 = 8;
    const EACH: i32 = 50;
    let folder = tempfile::tempdir().expect("a folder");
    let server = durable(DataOptions::new(folder.path())).await;
    server
        .client()
        .await
        .batch_execute(TABLE)
        .await
        .expect("a table");
    let add = async |number: i32| {
        let client = server.client().await;
        let insert = client.prepare("INSERT INTO t VALUES ($1, 1)").await;
        let insert = insert.expect("prepared");
        for at in 0..EACH {
            let key = 100 + number * EACH + at;
            // Half of them as the last statement of a transaction.
            let is_alone = at % 2 == 0;
            if !is_alone {
                client.batch_execute("BEGIN").await.expect("begun");
            }
            client.execute(&insert, &[&key]).await.expect("added");
            if !is_alone {
                client.batch_execute("COMMIT").await.expect("committed");
            }
            // It is seen by its own client, and all else that was acknowledged.
            let seen = "SELECT n FROM t WHERE k = $1";
            let seen = client.query_one(seen, &[&key]).await.expect("a row");
            assert_eq!(seen.get::<_, i32>(0), 1);
        }
    };
    join_all((0..CLIENTS).map(add)).await;
    let log = "SELECT records, syncs FROM nearfar.log";
    let row = server.client().await.query_one(log, &[]).await;
    let row = row.expect("a row");
    let (records, syncs): (i64, i64) = (row.get(0), row.get(1));
    assert!(records >= i64::from(CLIENTS * EACH) && syncs < records);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_is_told_to_all_who_wait_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(LogFaults::default());
    let data = DataOptions {
        faults: Arc::clone(&faults),
        ..DataOptions::new(folder.path())
    };
    let server = durable(data).await;
    let client = server.client().await;
    client.batch_execute(TABLE).await.expect("a table");
    let clients = join_all((0..3).map(|_| adder(&server))).await;
    let before = number(&client).await;
    faults.fail_sync(true);
    let failing = clients.iter().map(async |(client, add)| {
        let failed = client.execute(add, &[&1]).await;
        assert!(["08007", "58030"].contains(&code(failed).as_str()));
    });
    join_all(failing).await;
    assert_eq!(number(&client).await, before, "nothing of it is seen");
}
