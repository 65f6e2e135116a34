//! Statements that take long end within their limit, and leave their share to others.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use nearfar_server::ServerOptions;

use crate::support::{GLANCE, PATIENCE, Running, code, options, start_with};

/// The limit of time of statements here.
const LIMIT_MS: u64 = 300;

/// What a statement may take longer on a machine that is busy with something else. Without a check,
/// each of those here takes at least as long again.
const MARGIN: Duration = Duration::from_secs(3);

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

/// Common table expressions, each of which uses the one before twice.
fn doubling(tables: usize) -> String {
    let text = list(tables, |n| match n {
        0 => "t0 AS (SELECT 1 AS a)".to_owned(),
        n => format!(
            "t{n} AS (SELECT x.a FROM t{0} x JOIN t{0} y ON x.a = y.a)",
            n - 1
        ),
    });
    format!("WITH {text} SELECT count(*) FROM t{}", tables - 1)
}

fn values(rows: usize) -> String {
    let rows = list(rows, |n| format!("({n}, 'row {n}')"));
    format!("SELECT count(*) FROM (VALUES {rows}) AS v(a, b)")
}

async fn server_with_texts() -> Running {
    let server = start_with(ServerOptions {
        max_message_bytes: 64 << 20,
        ..options()
    })
    .await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE texts AS SELECT value AS k, repeat('abcdefgh ', 20000) || value AS s \
             FROM generate_series(1, 300);
             CREATE TABLE small AS SELECT value AS k FROM generate_series(1, 1000)",
        )
        .await
        .expect("tables");
    server
}

/// Waits until no thread works for a statement any more, and no query runs.
async fn wait_for_quiet(server: &Running) {
    let is_quiet = |it: &Running| {
        it.metric("nearfar_statements_busy") == 0.0 && it.metric("nearfar_transactions_open") == 0.0
    };
    server.wait_until("the end of the work", is_quiet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_end_within_their_limit_and_so_does_their_work() {
    let server = server_with_texts().await;
    let client = server.client().await;
    let limit = format!("SET statement_timeout = {LIMIT_MS}");
    client.batch_execute(&limit).await.expect("set");
    let elements = list(150_000, |n| (1_000_000 + n).to_string());
    let columns = list(1_600, |n| format!("k + {n} * k - k % 7 AS c{n}"));
    for sql in [
        format!("SELECT count(*) FROM small WHERE k IN ({elements})"),
        format!("SELECT {columns} FROM small ORDER BY 1 LIMIT 1"),
        values(60_000),
        doubling(11),
        "SELECT count(*) FROM texts WHERE s ~ '(a|b|c)+d.*[x-z]{3}$'".to_owned(),
        "SELECT sum(length(regexp_replace(s, '(a|b)c', 'x', 'g'))) FROM texts".to_owned(),
        "SELECT count(*) FROM texts a, small b WHERE a.s LIKE '%h_a%b%d_f%xyz'".to_owned(),
        "SELECT count(*) FROM small a, small b, small c WHERE a.k + b.k + c.k = 0".to_owned(),
    ] {
        let shown: String = sql.chars().take(60).collect();
        let begun = Instant::now();
        let ended = client.batch_execute(&sql).await;
        let time = begun.elapsed();
        assert!(
            time < Duration::from_millis(LIMIT_MS) + MARGIN,
            "{shown} took {time:?}"
        );
        // One may be done in time on a fast machine.
        if ended.is_err() {
            assert_eq!(code(ended), "57014", "{shown}");
        }
        wait_for_quiet(&server).await;
    }
    // The connection is as it was.
    client.batch_execute("SELECT 1").await.expect("answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_end_within_their_limit() {
    let server = server_with_texts().await;
    let client = server.client().await;
    let limit = format!("SET statement_timeout = {LIMIT_MS}");
    client.batch_execute(&limit).await.expect("set");
    for sql in [values(60_000), doubling(11)] {
        let begun = Instant::now();
        let prepared = client.prepare(&sql).await;
        let time = begun.elapsed();
        assert!(time < Duration::from_millis(LIMIT_MS) + MARGIN, "{time:?}");
        if prepared.is_err() {
            assert_eq!(code(prepared), "57014");
        }
        wait_for_quiet(&server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_beyond_what_can_be_planned_in_time_are_refused() {
    let server = server_with_texts().await;
    let client = server.client().await;
    let columns = list(20_000, |n| format!("k AS c{n}"));
    let wide = format!("SELECT {columns} FROM small");
    assert_eq!(code(client.batch_execute(&wide).await), "54011");
    assert_eq!(code(client.prepare(&wide).await), "54011");
    let columns = list(100, |n| format!("k AS c{n}"));
    let stars = list(20, |n| format!("(SELECT {columns} FROM small) AS s{n}"));
    let expanded = format!("SELECT * FROM {stars}");
    assert_eq!(code(client.batch_execute(&expanded).await), "54011");
    assert_eq!(code(client.batch_execute(&doubling(15)).await), "54001");
}

#[tokio::test(flavor = "multi_thread")]
async fn short_queries_need_no_thread_of_long_ones() {
    let server = server_with_texts().await;
    // All threads for long queries are taken, for as long as it lasts.
    let (mut release, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (sender, receiver) = mpsc::channel::<()>();
        let (is_taken, begun) = tokio::sync::oneshot::channel();
        server.lanes.long.spawn(async move {
            let _ = is_taken.send(());
            let _ = receiver.recv();
        });
        release.push(sender);
        taken.push(begun);
    }
    for begun in taken {
        begun.await.expect("begun");
    }
    let client = server.client().await;
    let questions = async {
        client.batch_execute("SELECT 1").await?;
        client
            .batch_execute("SELECT sum(k) FROM small WHERE k % 7 = 3")
            .await?;
        client
            .batch_execute("INSERT INTO small VALUES (0); DELETE FROM small WHERE k = 0")
            .await?;
        client
            .query("SELECT k FROM small WHERE k = $1", &[&1i64])
            .await
    };
    let answered = tokio::time::timeout(PATIENCE, questions).await;
    drop(release);
    assert_eq!(answered.expect("in time").expect("answered").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_is_answered_while_others_plan_and_look_for_patterns() {
    let server = server_with_texts().await;
    let hostile = [
        values(60_000),
        values(60_000),
        values(60_000),
        "SELECT count(*) FROM texts a, small b WHERE a.s ~ '(a|b|c)+d.*[x-z]{3}$'".to_owned(),
    ];
    let mut sessions = Vec::new();
    for sql in hostile {
        let client = server.client().await;
        let cancel = client.cancel_token();
        let running = tokio::spawn(async move {
            // Again and again, so that they are at it for as long as the peer asks.
            while client.batch_execute(&sql).await.is_ok() {}
        });
        sessions.push((cancel, running));
    }
    let is_busy = |it: &Running| it.metric("nearfar_statements_busy") >= 3.0;
    server.wait_until("planning", is_busy).await;
    let peer = server.client().await;
    for _ in 0..5 {
        let asked = Instant::now();
        peer.batch_execute("SELECT 1").await.expect("answered");
        let waited = asked.elapsed();
        assert!(waited < MARGIN, "{waited:?}");
    }
    for (cancel, running) in sessions {
        while !running.is_finished() {
            cancel
                .cancel_query(tokio_postgres::NoTls)
                .await
                .expect("sent");
            tokio::time::sleep(10 * GLANCE).await;
        }
    }
    wait_for_quiet(&server).await;
}
