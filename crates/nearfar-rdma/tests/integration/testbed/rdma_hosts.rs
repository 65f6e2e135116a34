//! Two machines on one network: 10.0.0.1 offers memory and is killed, 10.0.0.2 uses it.
//!
//! The testbed kills the first once the second has written `/shared/published`.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nearfar_kernels::copy::{CopyCancel, CopyError};
use nearfar_rdma::{HostOptions, RemoteBuffer, RemoteError, RemoteHost};

use super::support::{
    bytes, column, connect, grouped, operators, options, server, until, written_by_copiers,
};

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
    written_by_copiers(&host);

    // Another host, which goes on when the first is gone: this one.
    let own = server("10.0.0.2:0", LEASE);
    let writer = connect(SERVER.parse().unwrap(), HostOptions::default()).unwrap();
    let near = connect(own.address(), HostOptions::default()).unwrap();
    let values = column(9, 500_000, 100);
    let (far, kept) = (
        RemoteBuffer::put(&host, &bytes(&values)).unwrap(),
        RemoteBuffer::put(&near, &bytes(&values)).unwrap(),
    );
    let run = |cancel: &CopyCancel| grouped(&host, (&far, &values), 64 << 10, true, cancel);
    run(&CopyCancel::default()).unwrap();

    // Killed in the middle of one of these: it hangs, is cancelled, and ends. So do writes beside it.
    let (content, columns) = (bytes(&values[..100_000]), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| write_until_it_is_lost(&writer, &content, &columns));
        until("a column", || columns.load(Ordering::Relaxed) > 0);
        fs::write("/shared/published.new", "operators ran").unwrap();
        fs::rename("/shared/published.new", PUBLISHED).unwrap();
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(60) {
            let Some(late) = cancelled_after(Duration::from_secs(3), &run) else {
                continue;
            };
            assert!(late < Duration::from_secs(1), "{late:?}");
            break;
        }
        let error = writes.join().unwrap();
        assert!(matches!(error, RemoteError::Lost { .. }), "{error}");
        assert!(
            error.to_string().starts_with(&format!("host {SERVER}")),
            "{error}"
        );
    });
    // Whatever needs the host then fails by its name.
    let last = Instant::now();
    let error = run(&CopyCancel::default()).unwrap_err().to_string();
    let noticed = last.elapsed();
    let told = format!("{error}; noticed after {noticed:?}\n");
    fs::write("/shared/noticed", told).unwrap();
    let named = format!("host {SERVER}, region {}, is lost: ", far.region().number());
    assert!(
        error.starts_with(&named) && error.len() > named.len(),
        "{error}"
    );
    assert!(noticed < Duration::from_secs(30), "a hang");
    // And immediately, once that was noticed; what does not need it goes on.
    let told = Instant::now();
    let error = far.read(0, &mut [0; 100]).unwrap_err();
    let RemoteError::Lost {
        host: lost, region, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (lost.as_str(), *region),
        (SERVER, Some(far.region().number()))
    );
    let error = host.allocate(1).unwrap_err();
    assert!(matches!(error, RemoteError::Lost { .. }), "{error}");
    assert!(told.elapsed() < Duration::from_secs(2));
    let never = CopyCancel::default();
    grouped(&near, (&kept, &values), 64 << 10, true, &never).unwrap();
}

/// Has copiers write columns, which are counted, until one fails.
fn write_until_it_is_lost(host: &RemoteHost, content: &[u8], columns: &AtomicUsize) -> RemoteError {
    let never = CopyCancel::default();
    let started = Instant::now();
    loop {
        match RemoteBuffer::put_by_copiers(host, content, options(64 << 10), &never) {
            Ok(column) => assert_eq!(column.len(), content.len()),
            Err(error) => return error,
        }
        columns.fetch_add(1, Ordering::Relaxed);
        assert!(started.elapsed() < Duration::from_secs(90), "not lost");
        // Operators run beside it, on few processors.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Cancels `run` if it takes so long, and says how long it went on then.
fn cancelled_after(
    limit: Duration,
    run: &(dyn Fn(&CopyCancel) -> Result<(), CopyError> + Sync),
) -> Option<Duration> {
    let cancel = CopyCancel::default();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&cancel));
        let started = Instant::now();
        while !running.is_finished() {
            if started.elapsed() < limit {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            cancel.cancel();
            let cancelled = Instant::now();
            assert_eq!(running.join().unwrap(), Err(CopyError::Cancelled));
            return Some(cancelled.elapsed());
        }
        running.join().unwrap().unwrap();
        None
    })
}
