//! Statements that would take all memory, against a server with little address space: each of them
//! alone fails, and the server goes on serving others.

use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};

use crate::support::program;

/// What the server's queries may take.
const LIMIT: &str = "50MB";
/// What a statement may have the server grow by all the same: the floor that every query has, batches
/// on their way, and what the allocator keeps.
const GROWTH_BYTES_MAX: u64 = 400 << 20;
/// The address space of the server, in kilobytes.
const ADDRESS_SPACE_KB: &str = "6000000";
/// How long a peer may wait for its answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server below a limit of address space.
struct Limited {
    child: Child,
    address: String,
}

impl Limited {
    fn start() -> Self {
        let program = program();
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", ADDRESS_SPACE_KB]);
        command.arg(program.get_program());
        command.args(["serve", "--port", "0", "--no-http", "--memory-limit", LIMIT]);
        let spawned = command.stderr(Stdio::piped()).spawn();
        let mut child = spawned.expect("started");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut address = None;
        loop {
            let line = lines.next().expect("a line").expect("UTF-8");
            if let Some((_, after)) = line.split_once("listening on ") {
                let end = after.find([' ', ',']).unwrap_or(after.len());
                address = Some(after[..end].to_owned());
            }
            if line == "ready" {
                break;
            }
        }
        thread::spawn(move || lines.for_each(drop));
        let address = address.expect("an address");
        Self { child, address }
    }

    async fn client(&self) -> Client {
        let (host, port) = self.address.rsplit_once(':').expect("a port");
        let config = format!("host={host} port={port} user=me");
        let (client, connection) = tokio_postgres::connect(&config, NoTls)
            .await
            .expect("connected");
        tokio::spawn(connection);
        client
    }

    fn memory_bytes(&self, key: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
        kilobytes
            .and_then(|number| number.parse::<u64>().ok())
            .expect("a number")
            << 10
    }

    /// Has the peak be that of now.
    fn forget_peak(&self) {
        let file = format!("/proc/{}/clear_refs", self.child.id());
        fs::write(file, "5").expect("forgotten");
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Statements that can't be carried out with what they may take.
fn hostile() -> Vec<String> {
    let numbers = |count: usize| (0..count).map(|i| i.to_string()).collect::<Vec<_>>();
    let mut doubled = "SELECT repeat('x', 8000000) AS x0".to_owned();
    for i in 0..10 {
        doubled = format!("SELECT x{i} || x{i} AS x{} FROM ({doubled})", i + 1);
    }
    let constants = (0..60).map(|i| format!("repeat('x', 30000{i:02}) AS c{i}"));
    let constants: Vec<String> = constants.collect();
    let mut statements: Vec<String> = [
        "SELECT repeat('x', 1000000000)",
        "SELECT repeat(s, 1000000000) FROM t",
        "SELECT length(lpad('x', 1000000000, 'y'))",
        "SELECT length(rpad(s, 100000000)) FROM t",
        "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 1000)))",
        "SELECT length(regexp_replace(repeat('a', 1000000), 'a', repeat('b', 1000), 'g'))",
        "SELECT length(string_agg(s, '') OVER (ORDER BY a)) FROM t",
        "SELECT array_agg(a) OVER (ORDER BY a) FROM t",
        "SELECT length(string_agg(l || repeat('z', 1000), '')) FROM t",
        "SELECT a % 10, length(string_agg(l || repeat('z', 1000), '')) FROM t GROUP BY 1",
        "SELECT array_length(array_agg(l || repeat('z', 1000))) FROM t",
        "SELECT array_length(range(1, 1000000000))",
        "SELECT array_length(range(1, a * 1000)) FROM t",
        "SELECT array_length(array_repeat('abc', 1000000000))",
        "SELECT max(q.s) FROM (SELECT string_agg(l, '') AS s FROM t) q CROSS JOIN t",
        "SELECT s || 'x', unnest(range(1, 1000000)) FROM (SELECT string_agg(s, '') AS s FROM t)",
        "WITH RECURSIVE r AS (SELECT 1 AS n, 'xyz' AS s UNION ALL \
         SELECT n + 1, s || s FROM r WHERE n < 40) SELECT max(length(s)) FROM r",
    ]
    .map(str::to_owned)
    .into();
    statements.push(format!("SELECT length(x10) FROM ({doubled})"));
    statements.push(format!("SELECT {}", constants.join(", ")));
    statements.push(format!(
        "SELECT 1 WHERE 1 IN ({})",
        numbers(1_000_000).join(",")
    ));
    statements.push(format!("VALUES ({})", numbers(300_000).join("),(")));
    statements
}

/// Short statements of forms within each other whose operands are repeated, so that they would become
/// thousands of millions of operators.
fn nested() -> Vec<String> {
    let around = |form: &str, times: usize| {
        let expr = (0..times).fold("a".to_owned(), |expr, _| form.replace("{}", &expr));
        format!("SELECT {expr} FROM t")
    };
    [
        "coalesce({}, 1)",
        "ifnull({}, 1)",
        "nvl2({}, a, 1)",
        "CASE WHEN {} BETWEEN 1 AND 2 THEN 1 ELSE 2 END",
        "CASE WHEN CASE WHEN {} = 1 THEN a > 1 ELSE a < 1 END THEN 1 ELSE 2 END",
        "CASE WHEN ({}, 1) IN ((1, 2), (2, 1)) THEN 1 ELSE 2 END",
        "CASE WHEN ({}, 1) < (1, 2) THEN 1 ELSE 2 END",
        "CASE WHEN ({}, 1) IN (SELECT a, a FROM t) THEN 1 ELSE 2 END",
        "CASE WHEN {} < ALL (ARRAY[1, 2]) THEN 1 ELSE 2 END",
        "CASE WHEN {} < ALL (SELECT a FROM t) THEN 1 ELSE 2 END",
        "CASE WHEN {} IN (SELECT a FROM t) THEN 1 ELSE 2 END",
    ]
    .map(|form| around(form, 40))
    .into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_statements_fail_alone_and_the_server_stays_small() {
    let server = Limited::start();
    let (client, peer) = (server.client().await, server.client().await);
    let table = "CREATE TABLE t AS SELECT value AS a, 'x' AS s, 'a text of row ' || value AS l \
                 FROM generate_series(1, 100000)";
    client.simple_query(table).await.expect("a table");
    let mut wrong = String::new();
    let hostile = hostile().into_iter().map(|sql| (sql, "53200"));
    for (sql, expected) in hostile.chain(nested().into_iter().map(|sql| (sql, "54001"))) {
        let shown: String = sql.chars().take(100).collect();
        server.forget_peak();
        let before = server.memory_bytes("VmRSS");
        let code = match client.simple_query(&sql).await {
            Ok(_) => "no error".to_owned(),
            Err(error) => match error.code() {
                Some(code) => code.code().to_owned(),
                None => error.to_string(),
            },
        };
        let answer = tokio::time::timeout(PATIENCE, peer.simple_query("SELECT 1")).await;
        assert!(matches!(answer, Ok(Ok(_))), "a peer after {shown}");
        let grown = server.memory_bytes("VmHWM").saturating_sub(before);
        if code != expected || grown > GROWTH_BYTES_MAX {
            let _ = writeln!(wrong, "{code}, {} MiB more: {shown}", grown >> 20);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
