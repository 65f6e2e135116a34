//! Two machines on one network: 10.0.0.1 offers memory and is killed, 10.0.0.2 uses it.
//!
//! The testbed kills the first once the second has written `/shared/published`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nearfar_rdma::{HostOptions, RemoteBuffer, RemoteError};

use super::support::{bytes, column, connect, grouped, operators, server, until};

const SERVER: &str = "10.0.0.1:7475";
/// Written by the second machine when the first may be killed.
const PUBLISHED: &str = "/shared/published";
/// Written by the first when it listens.
const LISTENING: &str = "/shared/listening";
const LEASE: Duration = Duration::from_secs(10);

#[test]
#[ignore = "needs the topology rdma-hosts: cargo xtask testbed rdma-hosts"]
fn a_host_offers_memory_until_it_is_killed() {
    let server = server(SERVER, LEASE);
    fs::write(LISTENING, server.device()).unwrap();
    std::thread::sleep(Duration::from_secs(110));
    panic!("this host was not killed: {:?}", server.usage());
}

#[test]
#[ignore = "needs the topology rdma-hosts: cargo xtask testbed rdma-hosts"]
fn operators_use_the_other_host_and_fail_by_its_name() {
    until("the other host", || Path::new(LISTENING).exists());
    let host = connect(SERVER.parse().unwrap(), HostOptions::default()).unwrap();
    operators(&host);

    // Another host, which goes on when the first is gone: this one.
    let own = server("10.0.0.2:0", LEASE);
    let near = connect(own.address(), HostOptions::default()).unwrap();
    let content = bytes(&column(9, 100_000, 100));
    let (far, kept) = (
        RemoteBuffer::put(&host, &content).unwrap(),
        RemoteBuffer::put(&near, &content).unwrap(),
    );
    grouped(&host, &far, 64 << 10, true).unwrap();
    fs::write("/shared/published.new", "operators ran").unwrap();
    fs::rename("/shared/published.new", PUBLISHED).unwrap();

    let mut last = Instant::now();
    let started = last;
    let error = loop {
        let mut all = vec![0; content.len()];
        match far.read(0, &mut all) {
            Ok(()) => assert_eq!(all, content),
            Err(error) => break error,
        }
        last = Instant::now();
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "the host was not killed"
        );
    };
    let noticed = last.elapsed();
    let RemoteError::Lost {
        host: lost,
        region,
        reason,
    } = &error
    else {
        panic!("{error}");
    };
    let told = format!("{error}; noticed {noticed:?} after the last read that was answered\n");
    fs::write("/shared/noticed", told).unwrap();
    assert_eq!(
        (lost.as_str(), *region),
        (SERVER, Some(far.region().number()))
    );
    assert!(!reason.is_empty());
    assert!(noticed < Duration::from_secs(30), "a hang");
    // Operators over it fail by its name, and immediately; others do not.
    let told = Instant::now();
    let error = grouped(&host, &far, 64 << 10, true)
        .unwrap_err()
        .to_string();
    assert!(error.contains(SERVER), "{error}");
    assert!(told.elapsed() < Duration::from_secs(2));
    grouped(&near, &kept, 64 << 10, true).unwrap();
}
