//! Two hosts over one CXL memory, which both have as `/dev/dax0.0`, and one folder, `/shared`.
//!
//! The testbed kills the writer's host once the writer has said in `/shared/published` how much it
//! had published, and then makes `/shared/take-over`.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use nearfar_memory::sys::{Durability, SharedMapping};

const BYTES: usize = 256 << 20;
const RECORD_WORDS: usize = 8;
/// The first page holds the number of published records.
const HEADER_WORDS: usize = 512;
const RECORDS_MAX: usize = (BYTES / 8 - HEADER_WORDS) / RECORD_WORDS;
const PUBLISHED: &str = "/shared/published";
const TAKE_OVER: &str = "/shared/take-over";

fn shared() -> SharedMapping {
    SharedMapping::open(Path::new("/dev/dax0.0"), BYTES, Durability::Flush).unwrap()
}

/// The words of a record: its number, numbers that follow from it, and their sum.
fn record(number: usize) -> [u64; RECORD_WORDS] {
    let mut words = [0; RECORD_WORDS];
    words[0] = number as u64;
    for (index, word) in words[1..RECORD_WORDS - 1].iter_mut().enumerate() {
        *word = number as u64 * 31 + index as u64;
    }
    words[RECORD_WORDS - 1] = words[..RECORD_WORDS - 1].iter().sum();
    words
}

/// Writes the record and, after it, that it is there.
fn publish(map: &SharedMapping, number: usize) {
    let words = map.words();
    let start = HEADER_WORDS + number * RECORD_WORDS;
    for (word, value) in words[start..].iter().zip(record(number)) {
        word.store(value, Relaxed);
    }
    words[0].store(number as u64 + 1, Release);
}

#[test]
#[ignore = "needs the topology two-hosts: cargo xtask testbed two-hosts"]
fn a_host_publishes_until_it_is_killed() {
    let map = shared();
    assert_eq!(map.words()[0].load(Acquire), 0, "the memory is fresh");
    for number in 0..RECORDS_MAX {
        publish(&map, number);
        if number % 10_000 == 9_999 {
            fs::write("/shared/published.new", (number + 1).to_string()).unwrap();
            fs::rename("/shared/published.new", PUBLISHED).unwrap();
        }
    }
    panic!("this host was not killed");
}

#[test]
#[ignore = "needs the topology two-hosts: cargo xtask testbed two-hosts"]
fn the_other_host_finds_all_that_was_published() {
    let map = shared();
    let started = Instant::now();
    while !Path::new(TAKE_OVER).exists() {
        assert!(started.elapsed() < Duration::from_secs(100), "no take-over");
        std::thread::sleep(Duration::from_millis(20));
    }
    let words = map.words();
    let published = words[0].load(Acquire) as usize;
    let told: usize = fs::read_to_string(PUBLISHED).unwrap().parse().unwrap();
    assert!(
        published >= told,
        "{published} records, but {told} had been told"
    );
    let start = |number: usize| HEADER_WORDS + number * RECORD_WORDS;
    for number in 0..published {
        let found = words[start(number)..start(number + 1)].iter();
        let found = found.map(|word| word.load(Relaxed));
        assert!(found.eq(record(number)), "record {number} of {published}");
    }
    // This host goes on where the other stopped.
    publish(&map, published);
    assert_eq!(words[0].load(Acquire) as usize, published + 1);
}
