//! Clients that do not behave.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use nearfar_server::ServerOptions;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{code, message, options, read_until, start, start_with, startup};

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_too_long_is_refused_and_the_next_is_answered() {
    let options = ServerOptions {
        max_message_bytes: 10_000,
        ..options()
    };
    let server = start_with(options).await;
    let client = server.client().await;
    let long = format!("SELECT '{}'", "x".repeat(1 << 20));
    assert_eq!(code(client.batch_execute(&long).await), "54000");
    client.batch_execute("SELECT 1").await.expect("answered");
    assert_eq!(code(client.query(long.as_str(), &[]).await), "54000");
    client.query("SELECT 1", &[]).await.expect("answered");
}

/// What a client may be in the middle of when it stops making sense.
fn prefixes() -> Vec<Vec<u8>> {
    let parse = message(b'P', b"\0SELECT $1\0\0\0");
    let bind = message(b'B', b"\0\0\0\0\0\x01\0\0\0\x01x\0\0");
    let begin = message(b'Q', b"BEGIN\0");
    let copy = message(b'Q', b"COPY t FROM STDIN (FORMAT csv)\0");
    let rows = message(b'd', b"1\n\"2");
    vec![
        Vec::new(),
        vec![0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f],
        startup(),
        [startup(), begin].concat(),
        [startup(), parse.clone()].concat(),
        [startup(), parse, bind].concat(),
        [startup(), copy.clone()].concat(),
        [startup(), copy, rows].concat(),
    ]
}

/// Bytes that are often almost a message.
fn nonsense() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    let kinds = prop::sample::select(b"QPBDECHSdcfpXz\0".to_vec());
    let body = prop::collection::vec(prop::sample::select(b"\0\x01\x02\xffSPa1$".to_vec()), 0..40);
    let framed = (kinds, body).prop_map(|(kind, body)| message(kind, &body));
    let cut = (framed.clone(), any::<prop::sample::Index>())
        .prop_map(|(whole, at)| whole[..at.index(whole.len())].to_vec());
    let many = prop::collection::vec(framed, 1..6).prop_map(|messages| messages.concat());
    prop_oneof![bytes, many, cut]
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_at_any_stage_harms_nobody_else() {
    let options = ServerOptions {
        authentication_timeout: Duration::from_secs(2),
        ..options()
    };
    let server = start_with(options).await;
    let bystander = server.client().await;
    bystander
        .batch_execute("CREATE TABLE t AS SELECT 7 AS a")
        .await
        .expect("created");
    let server = tokio::task::spawn_blocking(move || {
        let stages = prop::sample::select(prefixes());
        let mut runner = TestRunner::new(Config::with_cases(150));
        let run = runner.run(&(stages, nonsense()), |(prefix, nonsense)| {
            let mut stream = server.raw();
            // The server may hang up before everything is sent.
            let _ = stream.write_all(&[prefix, nonsense].concat());
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            Ok(())
        });
        run.expect("no case fails");
        server
    });
    let server = server.await.expect("no panic");
    let row = bystander
        .query_one("SELECT a FROM t", &[])
        .await
        .expect("answered");
    assert_eq!(row.get::<_, i32>(0), 7);
    server
        .client()
        .await
        .batch_execute("SELECT 1")
        .await
        .expect("answered");
    server
        .wait_until("no strangers", |it| it.metric("nearfar_sessions") <= 2.0)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_expressions_do_not_end_the_server() {
    let server = start().await;
    let client = server.client().await;
    let deep = |count: usize| format!("SELECT 1{}", " + 1".repeat(count));
    client.batch_execute(&deep(500)).await.expect("answered");
    for sql in [
        deep(100_000),
        format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(20_000)),
        format!("SELECT {} 1", "NOT ".repeat(10_000)),
    ] {
        let refused = code(client.batch_execute(&sql).await);
        assert!(["54001", "42601"].contains(&refused.as_str()), "{refused}");
    }
    client.batch_execute("SELECT 1").await.expect("answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_are_survived() {
    // As many as the test may have files, of both ends.
    let server = start().await;
    let mut streams = Vec::new();
    for _ in 0..1000 {
        let Ok(mut stream) = std::net::TcpStream::connect(server.address) else {
            break;
        };
        let _ = stream.write_all(&startup());
        streams.push(stream);
    }
    assert!(streams.len() > 300, "{}", streams.len());
    let last = streams.len() - 1;
    streams[0]
        .write_all(&message(b'Q', b"SELECT 1\0"))
        .expect("sent");
    let (first, rest) = streams.split_at_mut(1);
    read_until(&mut first[0], b'Z');
    let answers = read_until(&mut first[0], b'Z');
    assert!(answers.iter().any(|(kind, _)| *kind == b'D'));
    drop(rest[last - 1].shutdown(Shutdown::Both));
    drop(streams);
    server
        .wait_until("their end", |it| it.metric("nearfar_sessions") == 0.0)
        .await;
    server
        .client()
        .await
        .batch_execute("SELECT 1")
        .await
        .expect("answered");
}
