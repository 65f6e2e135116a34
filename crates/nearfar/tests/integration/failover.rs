//! Servers that share a pool and a data directory: who takes over, and what the others may do.

use std::path::Path;
use std::sync::mpsc;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::node::Node;
use crate::support::{run, temp};

/// Longer than a process is held up by a busy machine.
const LEASE: &str = "3";

/// Starts a server and waits until it has said `line`.
fn start(folder: &Path, arguments: &[&str], line: &str) -> Node {
    let mut node = spawn(folder, arguments);
    node.wait_for(line);
    node
}

fn spawn(folder: &Path, arguments: &[&str]) -> Node {
    let arguments = arguments.iter().map(|word| (*word).to_owned());
    Node::spawn(
        &common(folder)
            .into_iter()
            .chain(arguments)
            .collect::<Vec<_>>(),
    )
}

fn common(folder: &Path) -> Vec<String> {
    let place = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (data, pool) = (place("data"), place("tables.pool"));
    let words = [
        "serve",
        "--port",
        "0",
        "--http",
        "127.0.0.1:0",
        "--data",
        &data,
        "--pool",
        &pool,
        "--pool-bytes",
        "64MiB",
        "--lease",
        LEASE,
        "--grace",
        "1",
    ];
    words.map(str::to_owned).to_vec()
}

fn runtime() -> Runtime {
    Runtime::new().expect("threads")
}

async fn insert(client: &Client, number: i64) -> Result<(), tokio_postgres::Error> {
    let sql = format!("INSERT INTO t VALUES ({number})");
    client.batch_execute(&sql).await
}

/// The rows of the table, ascending.
async fn rows(node: &Node) -> Vec<i64> {
    let client = node.connect().await.expect("connected");
    let rows = client.query("SELECT i FROM t ORDER BY i", &[]).await;
    rows.expect("rows").iter().map(|row| row.get(0)).collect()
}

/// Checks that all that was acknowledged is there, and beside it nothing but `doubtful`.
#[track_caller]
fn check(found: &[i64], acknowledged: &[i64], doubtful: &[i64]) {
    let mut rest: Vec<i64> = found.to_vec();
    for number in acknowledged {
        let at = rest.iter().position(|row| row == number);
        rest.remove(at.unwrap_or_else(|| panic!("{number} is lost of {found:?}")));
    }
    rest.retain(|row| !doubtful.contains(row));
    assert!(rest.is_empty(), "{rest:?} is too much of {found:?}");
}

/// A client that inserts ascending numbers into a new table until that fails.
struct Inserting(JoinHandle<(Vec<i64>, i64)>);

impl Inserting {
    /// Starts it, and waits until so many are acknowledged.
    fn start(runtime: &Runtime, node: &Node, enough: usize) -> Self {
        let client = runtime.block_on(node.connect()).expect("connected");
        let created = runtime.block_on(client.batch_execute("CREATE TABLE t (i BIGINT)"));
        created.expect("created");
        let (told, progress) = mpsc::channel();
        let inserting = runtime.spawn(async move {
            let mut acknowledged = Vec::new();
            for number in 0.. {
                if insert(&client, number).await.is_err() {
                    return (acknowledged, number);
                }
                acknowledged.push(number);
                let _ = told.send(number);
            }
            unreachable!("there are more numbers than time")
        });
        progress.iter().take(enough).for_each(drop);
        Self(inserting)
    }

    /// The numbers that were acknowledged, and the first that was not.
    fn ended(self, runtime: &Runtime) -> (Vec<i64>, i64) {
        runtime.block_on(self.0).expect("ended")
    }
}

#[test]
fn a_standby_takes_over_from_a_killed_primary_and_back() {
    let folder = temp();
    let runtime = runtime();
    let mut first = start(folder.path(), &[], "ready");
    let mut second = start(folder.path(), &["--standby"], "standby");
    assert!(second.get("/health/ready").contains("503"));
    assert!(second.get("/health/ready").contains("standby"));
    assert!(second.get("/health/live").contains("200"));
    let refused = runtime
        .block_on(second.connect())
        .map(drop)
        .expect_err("refused");
    assert_eq!(refused.code().map(|code| code.code()), Some("57P03"));
    let inserting = Inserting::start(&runtime, &first, 40);
    first.signal("KILL");
    let (acknowledged, doubtful) = inserting.ended(&runtime);
    first.ended();
    second.wait_for("ready");
    check(&runtime.block_on(rows(&second)), &acknowledged, &[doubtful]);
    assert!(second.get("/metrics").contains("nearfar_takeovers_total 1"));
    // Without --standby, it is told who has the tables.
    let pid = second.child.id().to_string();
    run(common(folder.path())).failed(4, &["owned by process", &pid]);
    let mut third = start(folder.path(), &["--standby"], "standby");
    let client = runtime.block_on(second.connect()).expect("connected");
    runtime.block_on(insert(&client, -1)).expect("inserted");
    drop(client);
    second.signal("TERM");
    third.wait_for("ready");
    assert_eq!(second.ended(), Some(0));
    let acknowledged = [&[-1], &acknowledged[..]].concat();
    check(&runtime.block_on(rows(&third)), &acknowledged, &[doubtful]);
}

#[test]
fn a_primary_that_was_stopped_can_write_no_more() {
    let folder = temp();
    let runtime = runtime();
    let mut first = start(folder.path(), &[], "ready");
    let mut second = start(folder.path(), &["--standby"], "standby");
    let inserting = Inserting::start(&runtime, &first, 20);
    first.signal("STOP");
    second.wait_for("ready");
    let client = runtime.block_on(second.connect()).expect("connected");
    runtime.block_on(insert(&client, -1)).expect("inserted");
    first.signal("CONT");
    let (acknowledged, doubtful) = inserting.ended(&runtime);
    assert_eq!(first.ended(), Some(10), "{:?}", first.said);
    while first.says("") {}
    let pid = second.child.id().to_string();
    assert!(
        first
            .said
            .iter()
            .any(|line| line.contains("has taken over") && line.contains(&pid))
    );
    runtime.block_on(insert(&client, -2)).expect("inserted");
    let acknowledged = [&[-1, -2], &acknowledged[..]].concat();
    check(&runtime.block_on(rows(&second)), &acknowledged, &[doubtful]);
    second.signal("KILL");
    second.ended();
    let third = start(folder.path(), &["--take-over", "when-lease-ends"], "ready");
    check(&runtime.block_on(rows(&third)), &acknowledged, &[doubtful]);
}

#[test]
fn a_standby_is_promoted_while_the_primary_lives() {
    let folder = temp();
    let runtime = runtime();
    let mut first = start(folder.path(), &[], "ready");
    let mut second = start(
        folder.path(),
        &["--standby", "--take-over", "never"],
        "standby",
    );
    let http = first.http();
    run(["serve", "promote", "--http", &http]).failed(9, &["no standby"]);
    let inserting = Inserting::start(&runtime, &first, 20);
    let http = second.http();
    run(["serve", "promote", "--http", &http]).succeeded();
    second.wait_for("ready");
    let (acknowledged, doubtful) = inserting.ended(&runtime);
    assert_eq!(first.ended(), Some(10), "{:?}", first.said);
    check(&runtime.block_on(rows(&second)), &acknowledged, &[doubtful]);
}

#[test]
fn a_pool_alone_is_handed_over() {
    let folder = temp();
    let runtime = runtime();
    let words = common(folder.path());
    let at = words
        .iter()
        .position(|word| word == "--data")
        .expect("there");
    let arguments = [&words[..at], &words[at + 2..]].concat();
    let standby = [&arguments[..], &["--standby".to_owned()]].concat();
    let mut first = Node::spawn(&arguments);
    first.wait_for("ready");
    let mut second = Node::spawn(&standby);
    second.wait_for("standby");
    let client = runtime.block_on(first.connect()).expect("connected");
    let sql = "CREATE TABLE t (i BIGINT); INSERT INTO t VALUES (1), (2)";
    runtime
        .block_on(client.batch_execute(sql))
        .expect("created");
    drop(client);
    first.signal("TERM");
    second.wait_for("ready");
    assert_eq!(first.ended(), Some(0));
    check(&runtime.block_on(rows(&second)), &[1, 2], &[]);
}

#[test]
fn of_two_primaries_one_serves() {
    let folder = temp();
    let mut nodes = [0, 1].map(|_| spawn(folder.path(), &[]));
    let served = nodes.each_mut().map(|node| node.says("ready"));
    assert!(
        served[0] != served[1],
        "{:?} {:?}",
        nodes[0].said,
        nodes[1].said
    );
    let refused = &nodes[usize::from(served[0])];
    assert!(
        refused.said.iter().any(|line| line.starts_with("error: ")),
        "{:?}",
        refused.said
    );
}
