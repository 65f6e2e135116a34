//! Two machines over one CXL memory, `/dev/dax0.0` in both, and one folder: a server on the first keeps its tables in a pool
//! in that memory and its log in that folder, and one on the second stands by. Then the first machine is killed.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use nearfar_bench::cluster::query_rows;
use nearfar_bench::server_process::ServerProcess;

use super::hosts::{PATIENCE, PUBLISHED, TAKE_OVER, publish, until_there};
use crate::cluster::{joined, texts};
use crate::support::program;

const DEVICE: &str = "/dev/dax0.0";
const DATA: &str = "/shared/shop";
/// Written when the first server has its tables.
const LOADED: &str = "/shared/loaded";
/// The last number that was acknowledged.
const ACKNOWLEDGED: &str = "/shared/acknowledged";
const MERGED_ROWS: u64 = 3_000;
/// Commits until the first machine may be killed.
const COMMITS: u64 = 20;
/// Longer than an emulated machine holds a process up.
const LEASE_SECONDS: &str = "30";

fn start(further: &[&str]) -> ServerProcess {
    let common = ["--log-sync", "on", "--data", DATA, "--pool", DEVICE];
    let lease = ["--lease", LEASE_SECONDS];
    let words = common.iter().chain(&lease).chain(further);
    let mut arguments = ServerProcess::arguments(2);
    arguments.extend(words.map(OsString::from));
    let program = program().get_program().to_owned();
    ServerProcess::start_with(Path::new(&program), &arguments).expect("a server")
}

fn run(server: &ServerProcess, sql: &str) -> String {
    joined(&texts(query_rows(server.address, sql).expect(sql)))
}

fn rows(server: &ServerProcess) -> String {
    run(server, "SELECT count(*), count(DISTINCT a), max(a) FROM t")
}

fn all_until(last: u64) -> String {
    format!("{last}|{last}|{last}")
}

/// The part of the machine that is killed.
pub fn serve_until_killed() {
    let server = start(&["--pool-bytes", "192MiB"]);
    run(&server, "CREATE TABLE t (a BIGINT PRIMARY KEY)");
    let insert = format!("INSERT INTO t SELECT value FROM generate_series(1, {MERGED_ROWS})");
    run(&server, &insert);
    run(&server, "CALL nearfar.merge('t')");
    run(
        &server,
        &format!("INSERT INTO t VALUES ({})", MERGED_ROWS + 1),
    );
    // It is killed, and the next one on this machine finds all of it.
    drop(server);
    let server = start(&[]);
    assert_eq!(rows(&server), all_until(MERGED_ROWS + 1));
    publish(LOADED, "");
    let begun = Instant::now();
    for number in MERGED_ROWS + 2.. {
        assert!(begun.elapsed() < PATIENCE, "this host was not killed");
        run(&server, &format!("INSERT INTO t VALUES ({number})"));
        publish(ACKNOWLEDGED, &number.to_string());
        if number == MERGED_ROWS + COMMITS {
            publish(PUBLISHED, &format!("{number} was acknowledged"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The part of the other one.
pub fn stand_by_and_take_over() {
    until_there(LOADED);
    // It is ready when it has taken over.
    let server = start(&["--standby"]);
    assert!(
        Path::new(TAKE_OVER).exists(),
        "the first server lost its pool before its host was killed"
    );
    let acknowledged = std::fs::read_to_string(ACKNOWLEDGED).expect("commits");
    let acknowledged: u64 = acknowledged.parse().expect("a number");
    let found = rows(&server);
    // The commit that was under way may be there.
    let may_be = [acknowledged, acknowledged + 1].map(all_until);
    assert!(
        may_be.contains(&found),
        "{found}, and {acknowledged} was acknowledged"
    );
    run(&server, "CALL nearfar.merge('t')");
    run(&server, "INSERT INTO t VALUES (0)");
    assert_eq!(
        run(&server, "SELECT count(*) FROM t WHERE a = 0 OR a = 17"),
        "2"
    );
    let refused = query_rows(server.address, "INSERT INTO t VALUES (17)");
    assert!(refused.is_err(), "the index knows the key");
}
