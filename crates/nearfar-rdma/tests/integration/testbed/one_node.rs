//! One machine whose device is its own peer.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nearfar_kernels::copy::{CopyCancel, CopyError, Outgoing};
use nearfar_memory::rdma::{NearBuffer, RdmaError};
use nearfar_memory::{TierId, TierKind};
use nearfar_rdma::{
    HostOptions, NearRing, RemoteBuffer, RemoteDraft, RemoteError, RemoteHost, Secret,
};

use super::support::{
    BUDGET, MIB, assert_holds, bytes, column, connect, operators, options, secret, server,
    server_for, soft_roce, system, until, written_by_copiers,
};

const LISTEN: &str = "10.0.0.1:0";
const LEASE: Duration = Duration::from_secs(5);

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn operators_over_remote_columns_give_the_same_answers() {
    soft_roce();
    let server = server(LISTEN, LEASE);
    assert_eq!(server.device(), "rxe0");
    let system = system(server.address());
    let tier = system.tier("remote").unwrap();
    assert_eq!(system.info(tier).kind, TierKind::Rdma);
    let near_before = system.usage(TierId::NEAR).used_bytes();
    let options = HostOptions::default();
    let host = RemoteHost::connect(&system, tier, server.address(), &secret(), options).unwrap();
    operators(&host);
    let checked = host.check(MIB as usize + 2).unwrap();
    assert_eq!(checked.verified_bytes, MIB + 4);
    assert_eq!(checked.charged_bytes, MIB + 4096);
    assert_eq!(system.usage(tier).used_bytes(), 0, "all is given back");
    assert!(system.usage(tier).peak_bytes > MIB, "and was counted");

    let region = host.allocate(MIB + 1).unwrap();
    assert_eq!(system.usage(tier).used_bytes(), MIB + 4096);
    assert_eq!(server.usage().used_bytes, MIB + 4096);
    let mut found = vec![1; 1001];
    region.read(MIB - 1000, &mut found).unwrap();
    assert!(found.iter().all(|byte| *byte == 0), "what is given is zero");
    let sent: Vec<u8> = (0..=MIB).map(|at| (at * 7 / 8) as u8).collect();
    region.write(0, &sent).unwrap();
    region.read(MIB - 1000, &mut found).unwrap();
    assert_eq!(found, sent[MIB as usize - 1000..]);
    drop(region);
    drop(host);
    until("the client's place", || server.usage().clients == 0);
    assert_eq!(server.usage().used_bytes, 0);
    assert_eq!(system.usage(TierId::NEAR).used_bytes(), near_before);
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn what_was_not_offered_is_refused() {
    soft_roce();
    let server = server(LISTEN, LEASE);
    let system = system(server.address());
    let tier = system.tier("remote").unwrap();
    let wrong = Secret::new(b"the secret of somebody else").unwrap();
    let options = HostOptions::default();
    let refused = RemoteHost::connect(&system, tier, server.address(), &wrong, options);
    let error = refused.unwrap_err();
    assert!(matches!(error, RemoteError::WrongSecret { .. }), "{error}");
    assert!(error.to_string().contains(&server.address().to_string()));

    let options = HostOptions::default();
    let host = RemoteHost::connect(&system, tier, server.address(), &secret(), options).unwrap();
    let kept = host.allocate(10 * MIB).unwrap();
    let error = host.allocate(7 * MIB).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "host {} refuses: 7340032 bytes were asked for, but 6291456 bytes are left of what is offered",
            server.address()
        )
    );
    let error = host.allocate(BUDGET).unwrap_err();
    let RemoteError::Rdma { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(matches!(source, RdmaError::Budget(_)), "{error}");
    assert_eq!(system.usage(tier).used_bytes(), 10 * MIB);
    let error = kept.read(10 * MIB - 1, &mut [0; 2]).unwrap_err();
    assert!(matches!(error, RemoteError::OutOfRange { .. }), "{error}");
    // Refusals cost nothing: the rest can be had.
    drop(host.allocate(6 * MIB).unwrap());

    let full = server_for(LISTEN, LEASE, 1);
    let first = connect(full.address(), HostOptions::default()).unwrap();
    let error = connect(full.address(), HostOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "host {} refuses: it has as many clients as it takes",
            full.address()
        )
    );
    drop(first);
    until("the only place", || full.usage().clients == 0);
    drop(connect(full.address(), HostOptions::default()).unwrap());
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn leases_end_and_memory_comes_back() {
    soft_roce();
    let server = server(LISTEN, Duration::from_secs(1));
    let silent = HostOptions {
        renews: false,
        ..HostOptions::default()
    };
    let silent = connect(server.address(), silent).unwrap();
    let renewing = connect(server.address(), HostOptions::default()).unwrap();
    let lost = silent.allocate(MIB).unwrap();
    let kept = renewing.allocate(2 * MIB).unwrap();
    kept.write(5, b"here").unwrap();
    // Whoever renews by hand keeps it too.
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(400));
        silent.renew().unwrap();
    }
    lost.write(0, b"still mine").unwrap();
    until("the end of the lease", || {
        server.usage().used_bytes == 2 * MIB
    });
    until("the news of it", || silent.lost().is_some());
    let error = lost.read(0, &mut [0; 8]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "host {}, region {}, is lost: the lease was not renewed in time",
            server.address(),
            lost.number()
        )
    );
    assert!(silent.allocate(1).is_err() && silent.renew().is_err());
    let mut found = [0; 4];
    kept.read(5, &mut found).unwrap();
    assert_eq!(&found, b"here", "the other client has lost nothing");
    // Who connects again has a host, and not what was there.
    silent.reconnect().unwrap();
    assert_eq!(silent.lost(), None);
    let anew = silent.allocate(MIB).unwrap();
    anew.read(0, &mut found).unwrap();
    assert_eq!(found, [0; 4]);
    assert!(lost.read(0, &mut found).is_err());
    drop((lost, anew));
    assert_eq!(server.usage().used_bytes, 2 * MIB);
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn threads_share_connections_and_regions() {
    const THREADS: u64 = 6;
    const PART: usize = 70_001;
    soft_roce();
    let server = server(LISTEN, LEASE);
    let few = HostOptions {
        links: 2,
        ..HostOptions::default()
    };
    let host = connect(server.address(), few).unwrap();
    let region = host.allocate(THREADS * PART as u64).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (host, region) = (&host, &region);
            scope.spawn(move || {
                let begin = thread * PART as u64;
                let mut registered = host.near_buffer(PART).unwrap();
                for round in 0..5_u64 {
                    let byte = |at: usize| (at as u64 * (thread + 3) + round) as u8;
                    let sent: Vec<u8> = (0..PART).map(byte).collect();
                    // From plain memory into a registered buffer, and the other way round.
                    region.write(begin, &sent).unwrap();
                    region.read(begin, registered.as_mut()).unwrap();
                    assert_eq!(registered.as_ref(), sent, "{thread} {round}");
                    registered.as_mut().reverse();
                    region.write(begin, registered.as_ref()).unwrap();
                    let mut found = vec![0; PART];
                    region.read(begin, &mut found).unwrap();
                    assert!(found.iter().rev().eq(&sent), "{thread} {round}");
                }
            });
        }
    });
    // A region outlives the host's handle, and gives its memory back by itself.
    drop(host);
    region.write(0, b"still there").unwrap();
    drop(region);
    until("the client's end", || server.usage().clients == 0);
    assert_eq!(server.usage().used_bytes, 0);
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn more_connections_are_given_up_than_a_client_may_have() {
    const GIVEN_UP: usize = 70;
    soft_roce();
    let server = server(LISTEN, LEASE);
    let host = connect(server.address(), HostOptions::default()).unwrap();
    let content: Vec<u8> = (0..15 * MIB).map(|at| (at / 3) as u8).collect();
    let remote = RemoteBuffer::put(&host, &content).unwrap();
    let started = Instant::now();
    let given_up = AtomicUsize::new(0);
    // They slow each other, so that a transfer goes on for longer than a cancelled one may.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut found = vec![0; content.len()];
                while given_up.load(Ordering::Relaxed) < GIVEN_UP {
                    assert!(started.elapsed() < Duration::from_secs(60), "{given_up:?}");
                    match remote.read_unless(0, &mut found, &|| true) {
                        Err(RemoteError::Cancelled { .. }) => {
                            given_up.fetch_add(1, Ordering::Relaxed);
                        }
                        other => other.unwrap(),
                    }
                }
            });
        }
    });
    let mut found = vec![0; content.len()];
    remote.read(0, &mut found).unwrap();
    assert!(found == content, "the host is as it was");
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn hostile_peers_harm_nobody_else() {
    soft_roce();
    let server = server(LISTEN, LEASE);
    let host = connect(server.address(), HostOptions::default()).unwrap();
    let region = host.allocate(MIB).unwrap();
    region.write(0, b"mine").unwrap();
    let hello = [&[41, 0, 0, 0, 1][..], b"nfrdma", &[2, 0], &[9; 32]].concat();
    let spoken: [&[u8]; 6] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 64],
        &[0xFF; 4096],
        &hello,
        &[&hello[..], &[33, 0, 0, 0, 3], &[7; 32]].concat(),
    ];
    let peers: Vec<TcpStream> = spoken
        .iter()
        .cycle()
        .take(60)
        .map(|bytes| {
            let mut peer = TcpStream::connect(server.address()).unwrap();
            // The server takes a few of one address, and closes the others.
            let _ = peer.write_all(bytes);
            peer
        })
        .collect();
    let mut found = [0; 4];
    region.read(0, &mut found).unwrap();
    assert_eq!(&found, b"mine");
    let usage = server.usage();
    assert_eq!((usage.clients, usage.used_bytes), (1, MIB));
    assert!(usage.strangers <= 8, "{usage:?}");
    // Those that the server has not accepted yet are not counted as strangers.
    for mut peer in peers {
        peer.set_read_timeout(Some(LEASE + Duration::from_secs(10)))
            .unwrap();
        match peer.read_to_end(&mut Vec::new()) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
            _ => {}
        }
    }
    until("the end of all of them", || server.usage().strangers == 0);
    drop(connect(server.address(), HostOptions::default()).unwrap());
    region.read(0, &mut found).unwrap();
    assert_eq!(&found, b"mine");
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn a_server_that_stops_is_lost_by_its_name() {
    soft_roce();
    let (one, two) = (server(LISTEN, LEASE), server(LISTEN, LEASE));
    let hosts = [&one, &two].map(|server| {
        let host = connect(server.address(), HostOptions::default()).unwrap();
        let region = host.allocate(MIB).unwrap();
        region.write(0, &[7; 100]).unwrap();
        (host, region)
    });
    let gone = one.address().to_string();
    let silent = TcpStream::connect(one.address()).unwrap();
    until("the stranger", || one.usage().strangers == 1);
    let stopped = Instant::now();
    drop(one);
    let stopped = stopped.elapsed();
    assert!(stopped < Duration::from_secs(3), "{stopped:?}");
    drop(silent);
    let started = Instant::now();
    let mut found = vec![0; 100];
    let error = loop {
        if let Err(error) = hosts[0].1.read(0, &mut found) {
            break error;
        }
        assert!(started.elapsed() < LEASE, "nothing was noticed");
    };
    let RemoteError::Lost { host, region, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((host, *region), (&gone, Some(hosts[0].1.number())));
    assert!(hosts[0].0.allocate(1).is_err());
    hosts[1].1.read(0, &mut found).unwrap();
    assert_eq!(found, [7; 100], "the other host is as it was");
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn damaged_columns_are_noticed() {
    soft_roce();
    let server = server(LISTEN, LEASE);
    let host = connect(server.address(), HostOptions::default()).unwrap();
    let content = bytes(&column(1, 5001, 100));
    let never = CopyCancel::default();
    let by_copiers = RemoteBuffer::put_by_copiers(&host, &content, options(4096), &never);
    for remote in [RemoteBuffer::put(&host, &content), by_copiers] {
        let remote = remote.unwrap();
        assert_holds(&remote, &content);
        let mut found = vec![0; content.len()];
        for (offset, length) in [(0, 1), (4095, 2), (4096, 4096), (100, 9000), (20_000, 4)] {
            remote.read(offset, &mut found[..length]).unwrap();
            assert_eq!(found[..length], content[offset..][..length]);
        }
        remote.region().write(8200, &[content[8200] ^ 1]).unwrap();
        remote.read(0, &mut found[..8192]).unwrap();
        for (offset, length) in [(8192, 4096), (0, content.len()), (8191, 2)] {
            let error = remote.read(offset, &mut found[..length]).unwrap_err();
            let RemoteError::Damaged { offset_bytes, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(offset_bytes, 8192);
        }
        assert!(remote.read(20_000, &mut [0; 5]).is_err(), "behind its end");
    }
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn copiers_write_columns_behind_a_producer() {
    soft_roce();
    let server = server(LISTEN, LEASE);
    let system = system(server.address());
    let tier = system.tier("remote").unwrap();
    let near_before = system.usage(TierId::NEAR).used_bytes();
    let options_of_host = HostOptions::default();
    let address = server.address();
    let host = RemoteHost::connect(&system, tier, address, &secret(), options_of_host).unwrap();
    written_by_copiers(&host);

    // More of the host than it offers, more near memory than there is, and chunks that blocks do not divide.
    let never = CopyCancel::default();
    let put = |bytes: usize, chunk_bytes: usize| {
        let content = vec![7; bytes];
        RemoteBuffer::put_by_copiers(&host, &content, options(chunk_bytes), &never).unwrap_err()
    };
    let error = put(17 << 20, 4096);
    assert!(matches!(error, RemoteError::Refused { .. }), "{error}");
    let error = put(100_000, 512 << 20);
    assert!(matches!(error, RemoteError::Region(_)), "{error}");
    for chunk_bytes in [64, 6144] {
        let error = put(100_000, chunk_bytes);
        assert!(matches!(error, RemoteError::Blocks { .. }), "{error}");
    }
    assert_eq!(system.usage(tier).used_bytes(), 0, "all is given back");
    assert_eq!(server.usage().used_bytes, 0);
    drop(host);
    assert_eq!(system.usage(TierId::NEAR).used_bytes(), near_before);
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn columns_of_which_not_all_was_written_are_none() {
    soft_roce();
    let server = server(LISTEN, LEASE);
    let host = connect(server.address(), HostOptions::default()).unwrap();
    let len = 3 * MIB as usize;
    let give = |bytes: usize, own: Option<RemoteError>| {
        let give = |outgoing: &mut Outgoing<'_, NearBuffer>| {
            outgoing.write(&vec![7; bytes])?;
            own.map_or(Ok(()), Err)
        };
        let ring = NearRing::new(&host, 3, 4096).unwrap();
        let never = CopyCancel::default();
        RemoteBuffer::put_streamed(&host, len, ring, options(4096), &never, give).unwrap_err()
    };
    let error = give(len - 1, None);
    let RemoteError::Copy(CopyError::Produced { produced_bytes, .. }) = error else {
        panic!("{error}");
    };
    assert_eq!(produced_bytes, len - 1);
    let own = RemoteError::Copy(CopyError::NoConsumer);
    let error = give(100_000, Some(own));
    let is_own = matches!(error, RemoteError::Copy(CopyError::NoConsumer));
    assert!(is_own, "{error}");
    let draft = RemoteDraft::new(&host, len).unwrap();
    let error = draft.finish().unwrap_err();
    let RemoteError::Unwritten { offset_bytes, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(offset_bytes, 0);
    assert_eq!(server.usage().used_bytes, 0, "all is given back");
}

#[test]
#[ignore = "needs the topology one-node: cargo xtask testbed one-node"]
fn writes_by_copiers_end_when_they_are_cancelled_or_their_server_is_gone() {
    soft_roce();
    let server = server(LISTEN, LEASE);
    let host = connect(server.address(), HostOptions::default()).unwrap();
    let content: Vec<u8> = (0..15 * MIB).map(|at| (at / 7) as u8).collect();
    let copies = options(64 << 10);
    // Half a column is given, and more when something has happened.
    let put = |cancel: &CopyCancel, happens: &(dyn Fn() + Sync)| {
        let ring = NearRing::new(&host, 4, 64 << 10).unwrap();
        let write = |outgoing: &mut Outgoing<'_, NearBuffer>| {
            let (first, second) = content.split_at(content.len() / 2);
            outgoing.write(first)?;
            happens();
            outgoing.write(second).map_err(RemoteError::from)
        };
        RemoteBuffer::put_streamed(&host, content.len(), ring, copies, cancel, write)
    };
    let cancel = CopyCancel::default();
    let error = put(&cancel, &|| cancel.cancel()).unwrap_err();
    assert!(matches!(error, RemoteError::Cancelled { .. }), "{error}");
    // From outside, in the middle of transfers.
    for after_ms in [5, 20, 60] {
        let cancel = CopyCancel::default();
        let late = std::thread::scope(|scope| {
            let cancels = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(after_ms));
                cancel.cancel();
                Instant::now()
            });
            let put = put(&cancel, &|| until("the end", || cancel.is_cancelled()));
            let error = put.unwrap_err();
            assert!(matches!(error, RemoteError::Cancelled { .. }), "{error}");
            cancels.join().unwrap().elapsed()
        });
        assert!(late < Duration::from_secs(2), "{late:?}");
    }
    assert_eq!(server.usage().used_bytes, 0, "all was given back");
    let (column, ()) = put(&CopyCancel::default(), &|| ()).unwrap();
    assert_holds(&column, &content);
    drop(column);

    let is_half = AtomicBool::new(false);
    let (address, server) = (server.address().to_string(), server);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until("half a column", || is_half.load(Ordering::Relaxed));
            drop(server);
        });
        let never = CopyCancel::default();
        let error = put(&never, &|| {
            is_half.store(true, Ordering::Relaxed);
            until("the end of the host", || host.lost().is_some());
        });
        let error = error.unwrap_err();
        let RemoteError::Lost {
            host,
            region: Some(_),
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(host, &address);
    });
    let never = CopyCancel::default();
    let error = RemoteBuffer::put_by_copiers(&host, &content, copies, &never).unwrap_err();
    assert!(matches!(error, RemoteError::Lost { .. }), "{error}");
}
