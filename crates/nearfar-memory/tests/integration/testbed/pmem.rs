//! Persistent memory: a DAX file system at `/mnt`, and a DAX device.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use nearfar_memory::sys::{Durability, SharedMapping};

const BYTES: usize = 8 << 20;

/// Fills a mapping with words that are all different.
fn fill(map: &SharedMapping, factor: u64) {
    for (index, word) in map.words().iter().enumerate() {
        word.store(index as u64 * factor, Relaxed);
    }
}

#[test]
#[ignore = "needs the topology pmem: cargo xtask testbed pmem"]
fn a_file_in_persistent_memory_needs_no_flush() {
    let path = Path::new("/mnt/data");
    File::create(path).unwrap().set_len(BYTES as u64).unwrap();
    let map = SharedMapping::open(path, BYTES, Durability::CpuCaches).unwrap();
    fill(&map, 7);
    // No copy is in the page cache: what is read is the memory itself.
    let content = fs::read(path).unwrap();
    let word = |index: usize| u64::from_le_bytes(content[8 * index..][..8].try_into().unwrap());
    assert!((0..BYTES / 8).all(|index| word(index) == index as u64 * 7));
    map.flush(0..BYTES).unwrap();
}

#[test]
#[ignore = "needs the topology pmem: cargo xtask testbed pmem"]
fn a_dax_device_of_persistent_memory_needs_no_flush() {
    let path = Path::new("/dev/dax1.0");
    let map = SharedMapping::open(path, BYTES, Durability::CpuCaches).unwrap();
    fill(&map, 11);
    drop(map);
    let map = SharedMapping::open(path, BYTES, Durability::CpuCaches).unwrap();
    let words = map.words().iter().enumerate();
    assert!(
        words
            .clone()
            .all(|(index, word)| word.load(Relaxed) == index as u64 * 11)
    );
}

#[test]
#[ignore = "needs the topology pmem: cargo xtask testbed pmem"]
fn memory_that_ends_with_the_machine_is_not_called_durable() {
    let path = Path::new("/tmp/data");
    File::create(path).unwrap().set_len(BYTES as u64).unwrap();
    let error = SharedMapping::open(path, BYTES, Durability::CpuCaches).unwrap_err();
    assert_eq!(
        (error.call, error.errno),
        ("mmap(MAP_SYNC)", libc::EOPNOTSUPP)
    );
}
