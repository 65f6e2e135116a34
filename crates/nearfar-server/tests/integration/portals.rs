//! Rows that come in portions: portals and cursors.

use futures::TryStreamExt;
use tokio_postgres::SimpleQueryMessage;

use crate::support::{code, options, start, start_with, values};

#[tokio::test(flavor = "multi_thread")]
async fn portals_give_rows_in_portions() {
    let server = start().await;
    let mut client = server.client().await;
    let transaction = client.transaction().await.expect("begun");
    let select = "SELECT value FROM generate_series(1, 10) ORDER BY value";
    let portal = transaction.bind(select, &[]).await.expect("bound");
    let mut found = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 4).await.expect("rows");
        if rows.is_empty() {
            break;
        }
        assert!(rows.len() <= 4);
        found.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    }
    assert_eq!(found, (1..=10).collect::<Vec<i64>>());
    transaction.commit().await.expect("committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_while_a_query_runs() {
    let server = start().await;
    let client = server.client().await;
    let select = "SELECT a.a FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b";
    let parameters: [i64; 0] = [];
    let rows = client.query_raw(select, parameters).await.expect("begun");
    let mut rows = std::pin::pin!(rows);
    for _ in 0..10_000 {
        assert!(rows.try_next().await.expect("a row").is_some());
    }
    drop(client);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_portals_are_charged_to_their_connection() {
    let server = start_with(options()).await;
    let mut client = server.client().await;
    client
        .batch_execute("SET session_memory_limit = '1MiB'")
        .await
        .expect("set");
    let length = client.prepare("SELECT length($1)").await.expect("prepared");
    let (small, large) = ("x".repeat(100), "x".repeat(300 << 10));
    for _ in 0..100 {
        let row = client.query_one(&length, &[&small]).await.expect("a row");
        assert_eq!(row.get::<_, i32>(0), 100);
    }
    let too_large = "x".repeat(2 << 20);
    assert_eq!(code(client.query(&length, &[&too_large]).await), "53200");
    let transaction = client.transaction().await.expect("begun");
    let mut portals = Vec::new();
    let refused = loop {
        match transaction.bind(&length, &[&large]).await {
            Ok(portal) => portals.push(portal),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code().map(|code| code.code()), Some("53200"));
    assert!((1..4).contains(&portals.len()), "{}", portals.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_are_fetched_by_both_protocols() {
    let server = start().await;
    let client = server.client().await;
    assert_eq!(
        code(client.simple_query("DECLARE c CURSOR FOR SELECT 1").await),
        "25P01"
    );
    assert_eq!(code(client.simple_query("FETCH c").await), "34000");
    client.batch_execute("BEGIN").await.expect("begun");
    // With a parameter, as psycopg's cursors on the server are declared.
    let declare =
        "DECLARE \"C d\" CURSOR FOR SELECT value FROM generate_series(1, 9) WHERE value > $1";
    let declared = client.execute(declare, &[&3_i64]).await;
    assert_eq!(declared.expect("declared"), 0);
    let fetch = client
        .prepare("FETCH FORWARD 2 FROM \"C d\"")
        .await
        .expect("prepared");
    assert_eq!(fetch.columns()[0].name(), "value");
    for expected in [[4_i64, 5], [6, 7]] {
        let rows = client.query(&fetch, &[]).await.expect("fetched");
        let rows: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(rows, expected);
    }
    let messages = client
        .simple_query("MOVE 1 IN \"C d\"; FETCH ALL IN \"C d\"")
        .await;
    let messages = messages.expect("fetched");
    assert_eq!(values(&messages), ["9"]);
    let counts = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
        _ => None,
    });
    assert_eq!(counts.collect::<Vec<_>>(), [1, 1]);
    for (wrong, expected) in [
        ("DECLARE \"C d\" CURSOR FOR SELECT 1", "42P03"),
        ("FETCH PRIOR FROM \"C d\"", "55000"),
        ("CLOSE nothing", "34000"),
        ("DECLARE e SCROLL CURSOR FOR SELECT 1", "0A000"),
    ] {
        let sql = format!("SAVEPOINT s; {wrong}");
        assert_eq!(code(client.simple_query(&sql).await), expected, "{wrong}");
        client.batch_execute("ROLLBACK TO s; RELEASE s").await.ok();
    }
    client.batch_execute("ROLLBACK").await.expect("undone");
    assert_eq!(code(client.simple_query("FETCH \"C d\"").await), "34000");
}
