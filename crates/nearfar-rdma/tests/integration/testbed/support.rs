//! What the tests of all machines need.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearfar_kernels::copy::{
    Chunks, Copiers, CopyCancel, CopyError, CopyOptions, staged_from, streamed_from, streamed_to,
};
use nearfar_kernels::{
    Aggregate, HashJoin, JoinKind, JoinPlan, JoinTier, Matches, Scan, Selection, Summary,
    signed_words,
};
use nearfar_memory::{Budgets, MemorySystem, Placement, TierId, TierKind, TierSpec};
use nearfar_model::Native;
use nearfar_rdma::{
    HostOptions, NearRing, RemoteBuffer, RemoteDraft, RemoteError, RemoteFetch, RemoteHost,
    RemoteStore, Secret, Server, ServerOptions,
};

pub const MIB: u64 = 1 << 20;
/// What the tier of the other host may be used for.
pub const BUDGET: u64 = 24 * MIB;

pub fn secret() -> Secret {
    Secret::new(b"the secret of the testbed").unwrap()
}

/// Sees to a SoftRoCE device over the network card.
pub fn soft_roce() {
    if Path::new("/sys/class/infiniband/rxe0").exists() {
        return;
    }
    let script = "set -e
for module in virtio_net crc32_generic rdma_rxe ib_uverbs; do modprobe $module; done
ip link set eth0 up
ip addr add 10.0.0.1/24 dev eth0
rdma link add rxe0 type rxe netdev eth0
until [ -c /dev/infiniband/uverbs0 ]; do sleep 0.1; done";
    let done = Command::new("sh").args(["-c", script]).status().unwrap();
    assert!(done.success());
}

/// Near memory, and a tier `remote` of this host's.
pub fn system(host: SocketAddr) -> Arc<MemorySystem> {
    let near = TierSpec::new("near", TierKind::LocalDram, [0], 256 * MIB);
    let remote = TierSpec::rdma("remote", host.to_string(), 1 << 40);
    let budgets = Budgets::new().with("remote", BUDGET);
    MemorySystem::from_specs(vec![near, remote], &budgets).unwrap()
}

/// A server at this address that offers 16 MiB for so long.
pub fn server(listen: &str, lease: Duration) -> Server {
    server_for(listen, lease, 64)
}

/// As [`server`], for so many clients.
pub fn server_for(listen: &str, lease: Duration, clients_max: usize) -> Server {
    let near = TierSpec::new("near", TierKind::LocalDram, [0], 256 * MIB);
    let system = MemorySystem::from_specs(vec![near], &Budgets::new()).unwrap();
    let near = Placement::Bind(TierId::NEAR);
    let mut options = ServerOptions::new(listen.parse().unwrap(), 16 * MIB, near);
    options.lease = lease;
    options.clients_max = clients_max;
    Server::start(&system, secret(), options).unwrap()
}

pub fn connect(host: SocketAddr, options: HostOptions) -> Result<RemoteHost, RemoteError> {
    let system = system(host);
    let tier = system.tier("remote").unwrap();
    RemoteHost::connect(&system, tier, host, &secret(), options)
}

/// Waits until it is so.
#[track_caller]
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "{what}: waited in vain"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// So many numbers that follow from `seed`, below `limit`.
pub fn column(seed: u64, rows: usize, limit: u64) -> Vec<i32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % limit) as i32 - (limit / 3) as i32
    };
    (0..rows).map(|_| next()).collect()
}

pub fn bytes(column: &[i32]) -> Vec<u8> {
    column
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

pub fn options(chunk_bytes: usize) -> CopyOptions {
    CopyOptions {
        chunk_bytes,
        copiers: Copiers::PUBLISHED,
    }
}

/// The range that filters look for.
const RANGE: std::ops::RangeInclusive<i32> = -5..=40;

fn filtered(column: &[i32]) -> usize {
    let mut selection = Selection::all(column.len());
    let (scan, keep) = (Scan::new(), Matches::Keep);
    scan.within_signed(column, RANGE, keep, &mut selection, &Native);
    selection.rows().count()
}

/// What two pipelines over the same column find, which are grouped: each chunk is fetched once for both.
#[derive(Debug, Clone, PartialEq)]
enum Found {
    Summary(Summary<i32>),
    Rows(usize),
}

/// Aggregate and filter over a column of another host, whose values are `values`, in near buffers that its device writes
/// to, or in others: the same as near, unless the host is lost.
pub fn grouped(
    host: &RemoteHost,
    (column, values): (&RemoteBuffer, &[i32]),
    chunk_bytes: usize,
    is_registered: bool,
    cancel: &CopyCancel,
) -> Result<(), CopyError> {
    let columns = [column];
    let fetch = |_| RemoteFetch::new(&columns, cancel);
    let options = options(chunk_bytes);
    let len = column.len();
    let found = match is_registered {
        true => {
            let ring = NearRing::new(host, 4, chunk_bytes).unwrap().into_buffers();
            streamed_from(len, ring, options, cancel, fetch, pipelines())?
        }
        false => {
            let ring = vec![vec![0; chunk_bytes]; 4];
            streamed_from(len, ring, options, cancel, fetch, pipelines())?
        }
    };
    let found: Vec<Found> = found.into_iter().collect::<Result<_, _>>()?;
    let summary = Aggregate::new().summary(values, &Native);
    let expected = [Found::Summary(summary), Found::Rows(filtered(values))];
    assert_eq!(found, expected, "{chunk_bytes}");
    Ok(())
}

type Pipeline<B> = Box<dyn FnOnce(&mut Chunks<'_, B>) -> Result<Found, CopyError> + Send>;

fn pipelines<B: AsRef<[u8]> + 'static>() -> Vec<Pipeline<B>> {
    vec![
        Box::new(|chunks| {
            let mut all: Option<Summary<i32>> = None;
            while let Some(chunk) = chunks.next_chunk()? {
                let found = Aggregate::new().summary(signed_words(&chunk).unwrap(), &Native);
                all = Some(all.map_or(found, |all| all.merged(found)));
            }
            Ok(Found::Summary(all.unwrap_or_default()))
        }),
        Box::new(|chunks| {
            let mut rows = 0;
            while let Some(chunk) = chunks.next_chunk()? {
                rows += filtered(signed_words(&chunk).unwrap());
            }
            Ok(Found::Rows(rows))
        }),
    ]
}

/// Pairs of rows with equal keys, sorted.
fn joined(build: &[i32], probe: &[i32]) -> Vec<(u32, u32)> {
    let join = HashJoin::new(
        JoinKind::Inner,
        JoinPlan::choose(build.len(), JoinTier::NEAR),
    );
    let mut pairs = Vec::new();
    join.run((build, None), (probe, None), &Native, |found| {
        let rows = found.probe_rows.iter().zip(&found.build_rows);
        pairs.extend(rows.map(|(probe, build)| (*probe, *build)));
    })
    .unwrap();
    pairs.sort_unstable();
    pairs
}

/// Joins one after the other, whose columns are staged while the join before runs: the same pairs as near.
pub fn joins(host: &RemoteHost) {
    let probe = column(3, 60_001, 9000);
    let builds = [column(4, 5000, 9000), column(5, 777, 9000)];
    let put = |column: &[i32]| RemoteBuffer::put(host, &bytes(column)).unwrap();
    let remote = [put(&probe), put(&builds[0]), put(&builds[1])];
    let columns: Vec<&RemoteBuffer> = remote.iter().collect();
    let mut near: Vec<_> = columns
        .iter()
        .map(|column| host.near_buffer(column.len()).unwrap())
        .collect();
    let to = near.iter_mut().map(AsMut::as_mut).collect();
    let (options, cancel) = (options(64 << 10), CopyCancel::default());
    let fetch = |_| RemoteFetch::new(&columns, &cancel);
    staged_from(to, options, &cancel, fetch, |staged| {
        let fetched = |part| signed_words(staged.wait(part).unwrap()).unwrap();
        for (index, build) in builds.iter().enumerate() {
            let found = joined(fetched(index + 1), fetched(0));
            assert!(!found.is_empty());
            assert_eq!(found, joined(build, &probe), "join {index}");
        }
    })
    .unwrap();
}

/// All operators over columns of this host.
pub fn operators(host: &RemoteHost) {
    for (rows, chunk_bytes) in [(300_007, 64 << 10), (5000, 192), (0, 4096), (1, 64)] {
        let values = column(rows as u64, rows, 100);
        let remote = RemoteBuffer::put(host, &bytes(&values)).unwrap();
        for is_registered in [true, false] {
            let never = CopyCancel::default();
            grouped(host, (&remote, &values), chunk_bytes, is_registered, &never).unwrap();
        }
    }
    joins(host);
}

/// Asserts that a column has these bytes, which are checked as they are read.
#[track_caller]
pub fn assert_holds(column: &RemoteBuffer, content: &[u8]) {
    let mut found = vec![1; content.len()];
    column.read(0, &mut found).unwrap();
    assert!(found == content, "{} bytes", content.len());
    assert_eq!(column.len(), content.len());
}

/// Columns that copiers write behind a producer, in chunks that divide them and in others, through near buffers that the
/// device reads and through others: they have the bytes that the producer gave, and operators the same answers.
pub fn written_by_copiers(host: &RemoteHost) {
    let never = CopyCancel::default();
    for (rows, chunk_bytes) in [
        (300_007, 64 << 10),
        (5000, 4096),
        (131_072, 256 << 10),
        (1000, 64 << 10),
        (1, 4096),
        (0, 4096),
    ] {
        let values = column(rows as u64, rows, 100);
        let (content, options) = (bytes(&values), options(chunk_bytes));
        let registered = RemoteBuffer::put_by_copiers(host, &content, options, &never).unwrap();
        assert_holds(&registered, &content);
        grouped(host, (&registered, &values), chunk_bytes, true, &never).unwrap();

        // One slot, and pieces that chunks do not divide.
        let draft = RemoteDraft::new(host, content.len()).unwrap();
        let store = |_| RemoteStore::new(&draft, &never);
        let slot = vec![vec![0; chunk_bytes]];
        streamed_to(content.len(), slot, options, &never, store, |outgoing| {
            let mut pieces = content.chunks(10_007);
            pieces.try_for_each(|piece| outgoing.write(piece))?;
            outgoing.finish()
        })
        .unwrap();
        assert_holds(&draft.finish().unwrap(), &content);
    }
}
