//! Two machines over one CXL memory, `/dev/dax0.0` in both, and one network: the node of a cluster on 10.0.0.1 keeps its
//! tables in a pool in that memory, and that on 10.0.0.2 reads replicated tables there; or a server on the one has another
//! on the other stand by. Then the first machine is killed.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use nearfar_bench::cluster::{metric_of, query_rows, write_cluster};
use nearfar_bench::server_process::ServerProcess;

use super::hosts::{PATIENCE, PUBLISHED, TAKE_OVER, publish, until_there};
use super::take_over;
use crate::cluster::{joined, texts};
use crate::support::program;

const DEVICE: &str = "/dev/dax0.0";
const FOLDER: &str = "/shared/cluster";
/// Written when the cluster's files are there, and when its tables are.
const WRITTEN: &str = "/shared/written";
const LOADED: &str = "/shared/loaded";
const ROWS: u64 = 3_000;

fn start(node: &str, pool: &[&str]) -> ServerProcess {
    let file = format!("{FOLDER}/cluster.toml");
    let common = [
        "serve",
        "--port",
        "0",
        "--http",
        "127.0.0.1:0",
        "--threads",
        "2",
    ];
    let kept = ["--log-sync", "on", "--data", "/mnt/data"];
    let which = ["--cluster", &file, "--node", node];
    let all = common.iter().chain(&kept).chain(&which).chain(pool);
    let arguments: Vec<OsString> = all.map(OsString::from).collect();
    let program = program().get_program().to_owned();
    ServerProcess::start_with(Path::new(&program), &arguments).expect("a node")
}

fn run(node: &ServerProcess, sql: &str) -> String {
    joined(&texts(query_rows(node.address, sql).expect(sql)))
}

const SUM: &str = "SELECT count(*), sum(CAST(a AS BIGINT)), count(DISTINCT b) FROM big";

fn expected() -> String {
    format!("{ROWS}|{}|1000", ROWS * (ROWS + 1) / 2)
}

/// Makes and fills the table. An emulated machine may be too slow for the other node to take it for there.
fn fill(node: &ServerProcess) {
    let insert = format!(
        "INSERT INTO big SELECT value, 'x' || value % 1000 FROM generate_series(1, {ROWS})"
    );
    let create = "CREATE TABLE IF NOT EXISTS big (a INT, b TEXT) REPLICATED";
    let begun = Instant::now();
    loop {
        let done = [create, "TRUNCATE big", &insert]
            .iter()
            .try_for_each(|sql| query_rows(node.address, sql).map(drop));
        let found = query_rows(node.address, SUM).map(|rows| joined(&texts(rows)));
        match (done, found) {
            (Ok(()), Ok(found)) if found == expected() => return,
            tried => assert!(begun.elapsed() < PATIENCE, "{tried:?}"),
        }
    }
}

#[test]
#[ignore = "needs the topology two-hosts: cargo xtask testbed two-hosts"]
fn a_node_keeps_its_tables_in_the_common_memory_until_its_host_is_killed() {
    std::fs::create_dir(FOLDER).expect("made");
    let places = ["10.0.0.1:7001", "10.0.0.2:7001"];
    let places = places.map(|place| place.parse::<SocketAddr>().expect("an address"));
    write_cluster(Path::new(FOLDER), &places).expect("written");
    publish(WRITTEN, "");
    let node = start("w1", &["--pool", DEVICE, "--pool-bytes", "256MiB"]);
    fill(&node);
    run(&node, "CALL nearfar.merge('big')");
    publish(LOADED, "");
    std::thread::sleep(PATIENCE);
    panic!("this host was not killed");
}

#[test]
#[ignore = "needs the topology two-hosts: cargo xtask testbed two-hosts"]
fn the_other_node_reads_them_there() {
    until_there(WRITTEN);
    let node = start("w2", &["--shared-pool", DEVICE]);
    until_there(LOADED);
    let bytes_on = |column: &str| {
        let sql = format!("SELECT sum({column}) FROM nearfar.tiers");
        run(&node, &sql).parse::<u64>().expect("bytes")
    };
    let shared = || metric_of(&node, "nearfar_cluster_shared_bytes").expect("a metric");
    let begun = Instant::now();
    while shared() < 3 * ROWS {
        assert!(begun.elapsed() < PATIENCE, "nothing is shared");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(run(&node, SUM), expected());
    let (own, common) = (bytes_on("region_bytes"), bytes_on("pool_bytes"));
    assert!(
        common >= shared() && own < shared(),
        "{own} bytes of its own, {common} in common"
    );
    publish(PUBLISHED, &format!("{} bytes are shared", shared()));
    until_there(TAKE_OVER);
    assert_eq!(
        run(&node, SUM),
        expected(),
        "the memory stays when the owner's host is gone"
    );
    let refused = query_rows(node.address, "INSERT INTO big VALUES (1, 'x')");
    let refused = refused.expect_err("a node is gone").to_string();
    assert!(refused.contains("`w1`"), "{refused}");
}

#[test]
#[ignore = "needs the topology two-hosts: cargo xtask testbed two-hosts"]
fn a_server_keeps_its_tables_in_the_common_memory_until_its_host_is_killed() {
    take_over::serve_until_killed();
}

#[test]
#[ignore = "needs the topology two-hosts: cargo xtask testbed two-hosts"]
fn a_server_that_stands_by_on_the_other_host_takes_over() {
    take_over::stand_by_and_take_over();
}
