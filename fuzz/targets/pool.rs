//! Pools with bytes of others: whatever stands in their pages, attaching, claiming and reading them ends,
//! and what is verified is what was published.
//!
//! The input is a list of patches of a pool with one publication: three bytes for the place, one for the
//! length, and the bytes.
#![no_main]

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nearfar_memory::pool::{Claim, Pool, PoolOptions, TakeOver};

const POOL_BYTES: u64 = 2 << 20;
/// Bytes that patches reach: identity, claims, roots, and the first extents behind them.
const PATCHED_BYTES: usize = 96 << 10;
const COLUMN: &[u8] = b"the column, which is as long as it is";

fn claim() -> Claim {
    Claim {
        take_over: TakeOver::Now,
        ..Claim::of_this_process()
    }
}

/// The first bytes of a pool in which something was published.
static PUBLISHED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, POOL_BYTES, PoolOptions::default()).expect("a pool");
    let owner = pool.claim(&claim()).expect("its owner");
    let extent = owner.write(&[COLUMN]).expect("an extent");
    owner.publish(&[extent], b"what it is").expect("published");
    owner.give_back().expect("given back");
    drop((owner, pool));
    let mut bytes = std::fs::read(&path).expect("its bytes");
    bytes.truncate(PATCHED_BYTES);
    bytes
});

fn patch(bytes: &mut [u8], mut patches: &[u8]) {
    while let [a, b, c, length, rest @ ..] = patches {
        let at = u32::from_le_bytes([*a, *b, *c, 0]) as usize % bytes.len();
        let length = usize::from(*length).min(rest.len()).min(bytes.len() - at);
        bytes[at..at + length].copy_from_slice(&rest[..length]);
        patches = &rest[length..];
    }
}

fn read(path: &Path) {
    let Ok(pool) = Pool::attach(path, PoolOptions::default()) else {
        return;
    };
    let _ = pool.last_owner();
    let Ok(owner) = pool.claim(&claim()) else {
        return;
    };
    let Some(published) = owner.published() else {
        return;
    };
    for extent in &published.extents {
        if let Ok(bytes) = extent.verified() {
            assert_eq!(bytes, COLUMN, "verified, and not what was published");
        }
    }
}

fuzz_target!(|patches: &[u8]| {
    let mut bytes = PUBLISHED.clone();
    patch(&mut bytes, patches);
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(POOL_BYTES).expect("its length");
    file.as_file().write_all_at(&bytes, 0).expect("its bytes");
    read(file.path());
});
