//! One node, with SoftRoCE over its network card.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nearfar_measure::results;

use super::storage::measured_beside_each_other;
use crate::support::{program, run, temp};

/// Sees to a SoftRoCE device.
fn soft_roce() {
    if Path::new("/sys/class/infiniband/rxe0").exists() {
        return;
    }
    let script = "set -e
for module in virtio_net crc32_generic rdma_rxe ib_uverbs; do modprobe $module; done
ip link set eth0 up
ip addr add 10.0.0.1/24 dev eth0
rdma link add rxe0 type rxe netdev eth0
until [ -c /dev/infiniband/uverbs0 ]; do sleep 0.1; done";
    let done = Command::new("sh").args(["-c", script]).status();
    assert!(done.expect("started").success());
}

/// A file with a secret that its owner alone may read.
fn secret(folder: &Path, name: &str) -> String {
    let file = folder.join(name);
    fs::write(&file, format!("the secret named {name}\n")).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("protected");
    file.to_str().expect("UTF-8").to_owned()
}

/// A server of so many bytes and its address.
fn serve(secret: &str, bytes: u64) -> (Child, String) {
    let mut command = program();
    let size = bytes.to_string();
    command.args(["memory", "serve", "--size", &size, "--lease", "2"]);
    command.args(["--listen", "10.0.0.1:0", "--secret-file", secret]);
    let mut server = command.stderr(Stdio::piped()).spawn().expect("started");
    let stderr = server.stderr.take().expect("a pipe");
    let mut line = String::new();
    BufReader::new(stderr).read_line(&mut line).expect("a line");
    let told = format!("offering {size} bytes at 10.0.0.1:");
    assert!(line.starts_with(&told), "{line}");
    assert!(line.trim_end().ends_with("over rxe0"), "{line}");
    let address = line.split_whitespace().nth(4).expect("an address");
    (server, address.to_owned())
}

fn signal(server: &Child, name: &str) {
    let id = server.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &id]).status();
    assert!(sent.expect("started").success());
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn memory_is_served_tried_and_taken_back() {
    soft_roce();
    let folder = temp();
    let (right, wrong) = (
        secret(folder.path(), "right"),
        secret(folder.path(), "wrong"),
    );
    let (mut server, address) = serve(&right, 8 << 20);
    let check = |more: &[&str]| {
        let check = ["memory", "check", &address, "--secret-file"];
        run([&check[..], more].concat())
    };
    let told = check(&[&right, "--size", "1MiB"]).succeeded();
    for part in [
        "tier kind     rdma",
        "verified      1048576 bytes",
        "over rxe0",
    ] {
        assert!(told.contains(part), "{part:?} is missing in\n{told}");
    }
    let json = check(&[&right, "--size", "1MiB", "--format", "json"]).succeeded();
    let (_, metrics) = results::read(json.as_bytes()).expect("the documented schema");
    let streamed = metrics
        .iter()
        .find(|metric| metric.metric == "remote_streamed_bytes");
    let streamed = streamed.and_then(|metric| metric.value.get());
    assert_eq!(streamed, Some(1_048_576.0));

    check(&[&wrong]).failed(4, &[&address, "refuses this secret"]);
    check(&[&right, "--size", "9MiB"]).failed(6, &[&address, "8388608 bytes are left"]);
    fs::set_permissions(&wrong, fs::Permissions::from_mode(0o644)).expect("opened");
    check(&[&wrong]).failed(4, &["everybody can read", "chmod"]);

    signal(&server, "INT");
    let ended = server.wait().expect("ended");
    assert_eq!(ended.code(), Some(0));
    check(&[&right]).failed(9, &[&address, "cannot be reached"]);
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn a_server_that_is_killed_is_told_by_its_name() {
    soft_roce();
    let folder = temp();
    let secret = secret(folder.path(), "right");
    let (mut server, address) = serve(&secret, 64 << 20);
    let check = ["memory", "check", &address, "--size", "32MiB"];
    let mut command = program();
    command.args(check).args(["--secret-file", &secret]);
    let checking = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let checking = checking.spawn().expect("started");
    until_connected(&address);
    std::thread::sleep(Duration::from_millis(500));
    server.kill().expect("killed");
    let killed = Instant::now();
    server.wait().expect("ended");
    let ended = checking.wait_with_output().expect("ended");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(9), "{told}");
    let named = format!("error: host {address}");
    assert!(
        told.starts_with(&named) && told.contains("is lost"),
        "{told}"
    );
    assert!(killed.elapsed() < Duration::from_secs(60), "a hang");
}

/// Waits until somebody is connected to this address (proc(5), `/proc/net/tcp`: 01 is established).
fn until_connected(address: &str) {
    let port: u16 = address
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port");
    let local = format!("0100000A:{port:04X}");
    let started = Instant::now();
    loop {
        let table = fs::read_to_string("/proc/net/tcp").expect("read");
        let mut rows = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        if rows.any(|row| row.len() > 3 && row[1] == local && row[3] == "01") {
            return;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "nobody connects"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn storage_and_memory_are_measured_beside_each_other() {
    measured_beside_each_other(
        &["near ld", "ssd randread"],
        &["near ntst", "ssd randwrite"],
    );
}
