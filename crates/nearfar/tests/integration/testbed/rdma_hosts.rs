//! Two machines on one network: the program serves memory on 10.0.0.1, which is killed, and queries on 10.0.0.2 scan a
//! table whose columns lie there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use nearfar_memory::{Budgets, MemorySystem, TierKind, TierSpec};
use nearfar_rdma::{HostOptions, RemoteHost, Secret};
use nearfar_sql::engine::{Engine, EngineOptions, Session};
use nearfar_sql::remote::RemoteTable;
use nearfar_topology::Topology;

use crate::support::{program, temp};

const SERVER: &str = "10.0.0.1:7475";
const SECRET: &str = "the secret of two hosts";
const LISTENING: &str = "/shared/listening";
/// Written when the first machine may be killed.
const PUBLISHED: &str = "/shared/published";
const ROWS: i64 = 150_000;

#[test]
#[ignore = "needs the topology rdma-hosts: cargo xtask testbed rdma-hosts"]
fn the_program_serves_memory_until_its_host_is_killed() {
    let folder = temp();
    let secret = folder.path().join("secret");
    fs::write(&secret, SECRET).expect("written");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("protected");
    let mut command = program();
    command.args([
        "memory",
        "serve",
        "--size",
        "64MiB",
        "--listen",
        SERVER,
        "--secret-file",
    ]);
    let mut server = command
        .arg(&secret)
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut line = String::new();
    let stderr = server.stderr.take().expect("a pipe");
    BufReader::new(stderr).read_line(&mut line).expect("a line");
    assert!(line.starts_with("offering"), "{line}");
    fs::write(LISTENING, line).expect("written");
    panic!("this host was not killed: {:?}", server.wait());
}

/// Rows in two batches, with nulls and texts.
fn batches() -> Vec<RecordBatch> {
    [0..ROWS / 3, ROWS / 3..ROWS]
        .map(|rows| {
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone()));
            let values = rows
                .clone()
                .map(|row| (row % 7 != 0).then_some(row * 31 % 1000));
            let values: ArrayRef = Arc::new(values.collect::<Int64Array>());
            let names = rows.map(|row| format!("name {}", row % 100));
            let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
            let columns = [
                ("k", keys, false),
                ("v", values, true),
                ("name", names, false),
            ];
            RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
        })
        .into()
}

async fn answer(session: &Session, sql: &str) -> Result<String, DataFusionError> {
    let rows = session.sql(sql).await?.collect().await?;
    Ok(pretty_format_batches(&rows)?.to_string())
}

/// With `T` for the table.
const QUERIES: [&str; 6] = [
    "SELECT count(*), count(v), sum(v), min(k), max(k) FROM T AS t",
    "SELECT count(*) FROM T AS t",
    "SELECT name, count(*), sum(v) FROM T AS t GROUP BY name ORDER BY name",
    "SELECT k, name FROM T AS t WHERE v BETWEEN 10 AND 12 AND name LIKE '%7' ORDER BY k LIMIT 20",
    "SELECT count(*), sum(a.v + b.k) FROM T AS a JOIN near AS b ON a.v = b.k",
    "SELECT k, v, name FROM T AS t ORDER BY v DESC NULLS FIRST, k LIMIT 5",
];

#[test]
#[ignore = "needs the topology rdma-hosts: cargo xtask testbed rdma-hosts"]
fn queries_scan_the_other_host_and_fail_by_its_name() {
    let started = Instant::now();
    while !Path::new(LISTENING).exists() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "nobody listens"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let near = TierSpec::new("near", TierKind::LocalDram, [0], 64 << 20);
    let remote = TierSpec::rdma("remote", SERVER, 64 << 20);
    let system = MemorySystem::from_specs(vec![near, remote], &Budgets::new()).expect("tiers");
    let tier = system.tier("remote").expect("a tier");
    let secret = Secret::new(SECRET.as_bytes()).expect("a secret");
    let (address, options) = (SERVER.parse().expect("an address"), HostOptions::default());
    let host = RemoteHost::connect(&system, tier, address, &secret, options).expect("connected");
    let batches = batches();
    let schema = batches[0].schema();
    let table = RemoteTable::put(&host, schema.clone(), &batches).expect("put");
    assert_eq!(table.rows(), ROWS as usize);
    assert!(system.usage(tier).used_bytes() > 2 << 20);

    let topology = Topology::this_machine().expect("a machine");
    let engine = Engine::new(EngineOptions::new(topology)).expect("an engine");
    let session = engine.session();
    session.attach("near", schema, &batches).expect("attached");
    session
        .attach_remote("far_away", Arc::new(table))
        .expect("attached");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.expect("threads").block_on(async {
        for query in QUERIES {
            let of = |name: &str| query.replace("FROM T", &format!("FROM {name}"));
            let (near, far) = (of("near"), of("far_away"));
            let expected = answer(&session, &near).await.expect(&near);
            let found = answer(&session, &far).await.expect(&far);
            assert_eq!(found, expected, "{far}");
        }
        fs::write("/shared/published.new", "queries ran").expect("written");
        fs::rename("/shared/published.new", PUBLISHED).expect("renamed");
        let mut last = Instant::now();
        let error = loop {
            match answer(&session, "SELECT sum(v), max(name) FROM far_away").await {
                Ok(_) => last = Instant::now(),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains(&format!("host {SERVER}, region")), "{error}");
        assert!(last.elapsed() < Duration::from_secs(30), "a hang");
        let others = answer(&session, "SELECT sum(v), max(name) FROM near").await;
        assert!(others.is_ok(), "{others:?}");
        assert!(session.detach("far_away"));
    });
    drop(session);
    assert_eq!(system.usage(tier).used_bytes(), 0, "all is given back");
}
