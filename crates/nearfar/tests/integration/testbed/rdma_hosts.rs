//! Two machines on one network: the program serves memory on 10.0.0.1, and queries on 10.0.0.2 scan tables whose
//! columns lie there. The server is killed and started again, and then its machine is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use nearfar_memory::{TierId, TierSpec};
use nearfar_rdma::{HostOptions, RemoteHost, Secret};
use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use nearfar_sql::remote::RemoteTable;
use nearfar_topology::Topology;

use super::hosts::{PUBLISHED, publish, until_there};
use crate::support::{program, temp};

const SERVER: &str = "10.0.0.1:7475";
const SECRET: &str = "the secret of two hosts";
const TIER: &str = "rdma:10.0.0.1:7475";
const LISTENING: &str = "/shared/listening";
/// Written when the server may be killed and started again, and when that was done.
const RESTART: &str = "/shared/restart";
const RESTARTED: &str = "/shared/restarted";
const ROWS: i64 = 150_000;

/// Starts the server, and what it says when it listens.
fn serve(secret: &Path) -> (Child, String) {
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
        .arg(secret)
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut line = String::new();
    let stderr = server.stderr.take().expect("a pipe");
    BufReader::new(stderr).read_line(&mut line).expect("a line");
    assert!(line.starts_with("offering"), "{line}");
    (server, line)
}

#[test]
#[ignore = "needs the topology rdma-hosts: cargo xtask testbed rdma-hosts"]
fn the_program_serves_memory_until_its_host_is_killed() {
    let folder = temp();
    let secret = folder.path().join("secret");
    fs::write(&secret, SECRET).expect("written");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("protected");
    let (mut server, line) = serve(&secret);
    publish(LISTENING, &line);
    until_there(RESTART);
    server.kill().expect("killed");
    server.wait().expect("ended");
    let (mut server, line) = serve(&secret);
    publish(RESTARTED, &line);
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

/// The error of a query that needs the host, once that is gone, which it names.
async fn lost(session: &Session, table: &str) -> String {
    let mut last = Instant::now();
    let query = format!("SELECT sum(v), max(name) FROM {table}");
    let error = loop {
        match answer(session, &query).await {
            Ok(_) => last = Instant::now(),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains(&format!("host {SERVER}, region")), "{error}");
    assert!(last.elapsed() < Duration::from_secs(30), "a hang");
    error
}

/// Compares the answers over a table with those over rows of this host.
async fn same_answers(session: &Session, table: &str) {
    for query in QUERIES {
        let of = |name: &str| query.replace("FROM T", &format!("FROM {name}"));
        let (near, far) = (of("near"), of(table));
        let expected = answer(session, &near).await.expect(&near);
        let found = answer(session, &far).await.expect(&far);
        assert_eq!(found, expected, "{far}");
    }
}

async fn run(session: &Session, sql: &str) {
    for result in session.execute(sql).await.expect(sql) {
        if let StatementResult::Rows(rows) = result {
            rows.collect().await.expect(sql);
        }
    }
}

/// A table on the host that nobody else has, as `own`.
fn put_own(session: &Session, host: &Arc<RemoteHost>) {
    let batches = batches();
    let table = RemoteTable::put(Arc::clone(host) as _, batches[0].schema(), &batches);
    let table = table.expect("put");
    assert_eq!(table.rows(), ROWS as usize);
    let attached = session.attach_remote("own", Arc::new(table));
    attached.expect("attached");
}

async fn scans(session: &Session, host: &Arc<RemoteHost>) {
    let (system, tier) = (Arc::clone(session.engine().system()), host.tier());
    let batches = batches();
    let attached = session.attach("near", batches[0].schema(), &batches);
    attached.expect("attached");
    put_own(session, host);
    assert!(system.usage(tier).used_bytes() > 2 << 20);
    run(session, "CREATE TABLE kept AS SELECT * FROM near").await;
    let kept = session.rows_of("kept").await.expect("a table");
    let table = RemoteTable::put_from(Arc::clone(host) as _, kept).await;
    let table = Arc::new(table.expect("put"));
    session.attach_remote("rebuilt", table).expect("attached");
    same_answers(session, "own").await;
    same_answers(session, "rebuilt").await;

    publish(RESTART, "queries ran");
    let error = lost(session, "rebuilt").await;
    assert!(error.contains("rebuilt from table public.kept"), "{error}");
    for _ in 0..2 {
        let error = lost(session, "own").await;
        assert!(error.contains("no durable copy"), "{error}");
    }
    until_there(RESTARTED);
    same_answers(session, "rebuilt").await;
    let host_bytes = system.usage(tier).used_bytes();
    assert!(host_bytes > 2 << 20, "it is on the host: {host_bytes}");
    assert!(session.detach("own"));
    put_own(session, host);
    same_answers(session, "own").await;

    let near_bytes = || system.usage(TierId::NEAR).region_bytes;
    let near_before = near_bytes();
    publish(PUBLISHED, "queries ran");
    lost(session, "rebuilt").await;
    lost(session, "own").await;
    same_answers(session, "rebuilt").await;
    assert!(near_bytes() > near_before + (2 << 20), "it is near");
    let others = answer(session, "SELECT sum(v), max(name) FROM near").await;
    assert!(others.is_ok(), "{others:?}");
    assert!(session.detach("own") && session.detach("rebuilt"));
}

/// The program with the host's memory as tablespace `other`.
fn with_host(secret: &str, statements: &[&str]) -> Output {
    let folder = temp();
    let file = folder.path().join("secret");
    fs::write(&file, secret).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("protected");
    let mut command = program();
    command.args(["sql", "--format", "csv", "--memory-host"]);
    command.arg(format!("other={SERVER}"));
    command.arg("--memory-secret-file").arg(&file);
    for statement in statements {
        command.args(["-c", statement]);
    }
    command.output().expect("run")
}

/// Statements of the program put rows on the host, and read them.
fn statements_of_the_program() {
    let ran = with_host(
        SECRET,
        &[
            "CREATE TABLE t TABLESPACE other AS SELECT value AS k, 'name ' || value AS name
             FROM generate_series(1, 150000)",
            "SELECT sum(k), max(name) FROM t",
            "SELECT tier, host, rows, place FROM nearfar.remote_tables",
            "SELECT kind, region_bytes > 2000000 FROM nearfar.tiers WHERE name = 'other'",
        ],
    );
    let (rows, told) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{told}");
    let expected = [
        "11250075000,name 99999",
        "other,10.0.0.1:7475,150000,host",
        "rdma,true",
    ];
    for expected in expected {
        assert!(rows.lines().any(|line| line == expected), "{rows}{told}");
    }
    let ran = with_host("another secret of hosts", &["SELECT 1"]);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(4), "{told}");
    assert!(told.contains(SERVER), "{told}");
}

#[test]
#[ignore = "needs the topology rdma-hosts: cargo xtask testbed rdma-hosts"]
fn queries_scan_the_other_host_and_fail_by_its_name() {
    until_there(LISTENING);
    statements_of_the_program();
    let topology = Topology::this_machine().expect("a machine");
    let engine = Engine::new(EngineOptions {
        remote_tiers: vec![TierSpec::rdma(TIER, SERVER, 64 << 20)],
        // What is kept near needs no host.
        remote_cache_bytes: 0,
        ..EngineOptions::new(topology)
    });
    let engine = engine.expect("an engine");
    let system = Arc::clone(engine.system());
    let tier = system.tier(TIER).expect("a tier");
    let secret = Secret::new(SECRET.as_bytes()).expect("a secret");
    let (address, options) = (SERVER.parse().expect("an address"), HostOptions::default());
    let host = RemoteHost::connect(&system, tier, address, &secret, options).expect("connected");
    let host = Arc::new(host);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let session = engine.session();
    runtime.expect("threads").block_on(scans(&session, &host));
    drop(session);
    assert_eq!(system.usage(tier).used_bytes(), 0, "all is given back");
}
