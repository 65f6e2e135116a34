//! Limits of what is moved to and from far tiers, as those see it who run a server.

use std::fs;

use nearfar_server::ServerOptions;

use crate::support::{code, options, start, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn traffic_and_its_limit_are_metrics() {
    let server = start().await;
    let client = server.client().await;
    let near = server.engine.system().tiers().next().expect("a tier");
    let near = near.1.name.clone();
    let rows = "CREATE TABLE t AS SELECT value AS k FROM generate_series(1, 100000)";
    client.batch_execute(rows).await.expect("a table");
    client
        .batch_execute("SELECT sum(k) FROM t")
        .await
        .expect("a sum");
    let of = |metric: &str, task: &str| {
        server.metric(&format!(
            "nearfar_traffic_{metric}_total{{tier=\"{near}\",task=\"{task}\"}}"
        ))
    };
    assert!(of("read_bytes", "scan") > 0.0);
    assert!(of("written_bytes", "load") > 0.0);
    assert_eq!(of("waits", "scan"), 0.0);
    assert_eq!(of("wait_seconds", "scan"), 0.0);
    assert_eq!(server.metric("nearfar_traffic_waiting"), 0.0);
    let limit = "nearfar_traffic_limit_bytes_per_second";
    assert!(!server.get("/metrics").1.contains(limit));
    let set = "SET far_bandwidth = '2GB/s'";
    client.batch_execute(set).await.expect("set");
    assert_eq!(server.metric(limit), 2e9);
    client
        .batch_execute("RESET far_bandwidth")
        .await
        .expect("reset");
    assert!(!server.get("/metrics").1.contains(limit));
    let bad = "SET far_bandwidth = '2 parsecs'";
    assert_eq!(code(client.batch_execute(bad).await), "22023");
}

/// Threads of this process that regulate.
fn regulators() -> usize {
    let threads = fs::read_dir("/proc/self/task").expect("threads");
    let names = threads.filter_map(|thread| {
        let thread = thread.expect("a thread").path().join("comm");
        fs::read_to_string(thread).ok()
    });
    names
        .filter(|name| name.trim() == "nearfar-regulat")
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn near_memory_is_watched_only_where_it_has_a_goal() {
    let plain = start().await;
    plain
        .client()
        .await
        .batch_execute("SELECT 1")
        .await
        .expect("a row");
    assert_eq!(regulators(), 0);
    let mut server = start_with(ServerOptions {
        near_latency_max: Some(100.0),
        ..options()
    })
    .await;
    let client = server.client().await;
    client.batch_execute("SELECT 1").await.expect("a row");
    plain.wait_until("a regulator", |_| regulators() == 1).await;
    drop(client);
    server.ask_to_stop();
    server.stopped().await;
    plain
        .wait_until("the end of the regulator", |_| regulators() == 0)
        .await;
}
