//! Readers of a pool beside its owner: what they use is not used again, whatever is published meanwhile, whoever owns
//! the pool, and on hosts whose caches nothing keeps coherent.

use std::path::Path;
use std::sync::Arc;

use nearfar_memory::pool::{
    Claim, ExtentHandle, Owner, Pool, PoolError, PoolMemory, PoolOptions, Reader, TakeOver,
};
use proptest::prelude::*;

use crate::pool_hosts;

const BYTES: usize = 2 << 20;
const PATH: &str = "simulated";

fn claim(host: u32) -> Claim {
    pool_hosts::claim(host, TakeOver::Now)
}

fn pool() -> Pool {
    Pool::create_in(PoolMemory::simulated(BYTES), Path::new(PATH)).unwrap()
}

/// The same pool as another host has it.
fn of_another_host(pool: &Pool) -> Pool {
    let other = pool.memory().of_another_host().unwrap();
    Pool::attach_in(other, Path::new(PATH)).unwrap()
}

fn content(number: u64) -> Vec<u8> {
    let bytes = 3_000 + number % 3 * 4_096 + number % 97;
    (0..bytes).map(|at| (at * (number | 1)) as u8).collect()
}

/// An extent with the content of this number.
fn write(owner: &Owner, number: u64) -> Arc<ExtentHandle> {
    owner.write(&[&content(number)]).unwrap()
}

fn publish(owner: &Owner, numbers: &[u64]) {
    let extents: Vec<_> = numbers.iter().map(|number| write(owner, *number)).collect();
    owner.publish(&extents, b"").unwrap();
}

/// The extents that are published now, if that is news.
fn newest(reader: &Reader) -> Option<Vec<Arc<ExtentHandle>>> {
    reader.newest().unwrap().map(|found| found.extents)
}

fn bytes_of(extents: &[Arc<ExtentHandle>]) -> Vec<Vec<u8>> {
    let bytes = extents.iter().map(|it| it.buffer().unwrap().to_vec());
    bytes.collect()
}

#[test]
fn what_a_reader_uses_is_not_used_again() {
    let pool = pool();
    let owner = pool.claim(&claim(1)).unwrap();
    let all = owner.free_bytes();
    for reading in [pool.clone(), of_another_host(&pool)] {
        let reader = reading.read("reader").unwrap();
        publish(&owner, &[1, 2]);
        let held = newest(&reader).unwrap();
        assert!(held.iter().all(|extent| extent.is_borrowed()));
        assert!(newest(&reader).is_none(), "nothing is new");
        for number in 3..300 {
            publish(&owner, &[number]);
        }
        assert_eq!(bytes_of(&held), [content(1), content(2)]);
        publish(&owner, &[]);
        assert_eq!(newest(&reader).unwrap().len(), 0);
        assert!(held.iter().all(|extent| !extent.is_current()));
        drop(held);
        drop(reader);
        publish(&owner, &[]);
        let catalog = 4096;
        assert_eq!(owner.free_bytes(), all - catalog, "all is free again");
        assert_eq!(pool.readers(), []);
    }
}

#[test]
fn an_extent_that_stays_is_held_as_of_the_newest_publication() {
    let pool = pool();
    let owner = pool.claim(&claim(1)).unwrap();
    let reader = pool.read("reader").unwrap();
    let stays = write(&owner, 1);
    owner
        .publish(&[Arc::clone(&stays), write(&owner, 2)], b"")
        .unwrap();
    let mut held = newest(&reader).unwrap();
    let generations = |pool: &Pool| pool.readers()[0].generations.clone();
    assert_eq!(generations(&pool), Some(1..=1));
    held.truncate(1);
    owner.publish(&[stays], b"").unwrap();
    let again = newest(&reader).unwrap();
    assert!(Arc::ptr_eq(&held[0], &again[0]), "verified once");
    assert!(held[0].is_current());
    assert_eq!(
        generations(&pool),
        Some(2..=2),
        "nothing is left of the first"
    );
    drop((held, again));
    assert_eq!(generations(&pool), None);
}

#[test]
fn the_next_owner_keeps_off_what_readers_use() {
    let pool = pool();
    let other = of_another_host(&pool);
    let reader = other.read("reader").unwrap();
    let first = pool.claim(&claim(1)).unwrap();
    publish(&first, &[1, 2, 3]);
    let held = newest(&reader).unwrap();
    publish(&first, &[4]);
    for epoch in 2..10 {
        let owner = pool.claim(&claim(epoch)).unwrap();
        for number in 0..100 {
            publish(&owner, &[number + u64::from(epoch) * 100]);
        }
        std::mem::forget(owner);
    }
    assert_eq!(bytes_of(&held), [content(1), content(2), content(3)]);
}

#[test]
fn a_reader_that_comes_again_is_not_taken_for_two() {
    let pool = pool();
    let owner = pool.claim(&claim(1)).unwrap();
    publish(&owner, &[3]);
    let free = owner.free_bytes();
    let killed = pool.read("reader").unwrap();
    let held = newest(&killed).unwrap();
    publish(&owner, &[6]);
    assert!(owner.free_bytes() < free, "it is kept for the reader");
    let again = pool.read("reader").unwrap();
    owner.renew().unwrap();
    assert_eq!(owner.free_bytes(), free);
    assert_eq!(pool.readers().len(), 1);
    assert_eq!(killed.check(), Err(PoolError::Forgotten));
    assert_eq!(killed.newest().unwrap_err(), PoolError::Forgotten);
    drop((held, killed));
    assert_eq!(again.check(), Ok(()), "the earlier one takes nothing away");
    assert!(newest(&again).is_some());
}

#[test]
fn a_reader_that_is_gone_for_good_is_forgotten_when_somebody_says_so() {
    let pool = pool();
    let owner = pool.claim(&claim(1)).unwrap();
    publish(&owner, &[3]);
    let free = owner.free_bytes();
    let gone = pool.read("gone").unwrap();
    let held = newest(&gone).unwrap();
    publish(&owner, &[6]);
    drop(owner);
    let refused = pool.claim_empty(&claim(1)).unwrap_err();
    assert!(refused.to_string().contains("\"gone\""), "{refused}");
    let owner = pool.claim(&claim(1)).unwrap();
    assert!(owner.free_bytes() < free, "it is kept for the reader");
    drop(owner);
    let forgetting = Claim {
        forget_readers: vec!["another".to_owned(), "gone".to_owned()],
        ..claim(1)
    };
    let mut owner = pool.claim(&forgetting).unwrap();
    drop(owner.take_published());
    assert_eq!(owner.free_bytes(), free);
    drop(owner);
    assert!(pool.claim_empty(&claim(1)).is_ok());
    drop((held, gone));
}

#[test]
fn names_and_places_of_readers_are_limited() {
    let pool = pool();
    for name in ["", "a\0b", &"n".repeat(65)] {
        let refused = pool.read(name).unwrap_err();
        assert!(matches!(refused, PoolError::ReaderName { .. }), "{refused}");
    }
    let long = "n".repeat(64);
    let mut readers = vec![pool.read(&long).unwrap()];
    assert_eq!(pool.readers()[0].name, long);
    readers.extend((1..32).map(|number| pool.read(&format!("w{number}")).unwrap()));
    let refused = pool.read("one more").unwrap_err();
    assert!(refused.to_string().contains("\"w31\""), "{refused}");
    readers.pop();
    assert!(pool.read("one more").is_ok());
}

#[test]
fn many_readers_register_concurrently() {
    let pool = pool();
    let readers: Vec<Reader> = std::thread::scope(|scope| {
        let register = |number| {
            let pool = &pool;
            scope.spawn(move || pool.read(&format!("w{number}")).unwrap())
        };
        let registering: Vec<_> = (0..32).map(register).collect();
        registering
            .into_iter()
            .map(|it| it.join().unwrap())
            .collect()
    });
    assert!(readers.iter().all(|reader| reader.check().is_ok()));
    assert_eq!(pool.readers().len(), 32);
}

#[test]
fn a_full_pool_tells_what_is_kept_for_readers() {
    let pool = pool();
    let owner = pool.claim(&claim(1)).unwrap();
    let half = vec![7; BYTES / 2];
    owner
        .publish(&[owner.write(&[&half]).unwrap()], b"")
        .unwrap();
    let reader = pool.read("reader").unwrap();
    let held = newest(&reader).unwrap();
    owner.publish(&[], b"").unwrap();
    let full = owner.write(&[&half]).unwrap_err();
    assert!(
        full.to_string().contains("kept for those that read"),
        "{full}"
    );
    drop(held);
    assert!(
        owner.write(&[&half]).is_ok(),
        "it is looked for when it is needed"
    );
}

#[test]
fn a_catalog_that_needs_retired_space_is_whole() {
    for attempt in 0..4 {
        let pool = pool();
        let owner = pool.claim(&claim(1)).unwrap();
        let reader = pool.read("reader").unwrap();
        publish(&owner, &[3]);
        let held = newest(&reader).unwrap();
        publish(&owner, &[]);
        // All of the rest is taken, but for a few pages.
        let mut taken = Vec::new();
        while let Ok(extent) = owner.write(&[&[1; 4096]]) {
            taken.push(extent);
        }
        taken.truncate(taken.len() - attempt);
        drop(held);
        let published = owner.publish(&taken[..1], b"");
        drop((reader, taken));
        owner.renew().unwrap();
        drop(owner);
        let next = pool.claim(&claim(2)).unwrap();
        let found = next.published().unwrap().extents.len();
        assert_eq!(found, usize::from(published.is_ok()), "{published:?}");
    }
}

#[test]
fn nobody_reads_what_is_forgotten() {
    let pool = pool();
    let owner = pool.claim(&claim(1)).unwrap();
    publish(&owner, &[1]);
    drop(owner);
    let reader = pool.read("reader").unwrap();
    let owner = pool.claim_empty(&claim(1)).unwrap();
    assert!(newest(&reader).is_none(), "nothing is published any more");
    publish(&owner, &[2]);
    let held = newest(&reader).unwrap();
    assert_eq!(bytes_of(&held), [content(2)]);
    drop(owner);
    assert!(pool.claim_empty(&claim(1)).is_err(), "it is read");
    let owner = pool.claim(&claim(1)).unwrap();
    assert_eq!(bytes_of(&owner.published().unwrap().extents), [content(2)]);
}

#[test]
fn extents_can_not_be_written_by_a_process_that_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, 4 << 20, PoolOptions::default()).unwrap();
    let owner = pool.claim(&claim(1)).unwrap();
    let large = vec![3; 3 << 20];
    owner
        .publish(&[owner.write(&[&large]).unwrap()], b"")
        .unwrap();
    let options = PoolOptions {
        is_read_only: true,
        ..PoolOptions::default()
    };
    let reading = Pool::attach(&path, options).unwrap();
    let held = newest(&reading.read("reader").unwrap()).unwrap();
    assert_eq!(bytes_of(&held), [large]);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let name = path.to_str().unwrap();
    let rights: Vec<_> = maps.lines().filter(|line| line.ends_with(name)).collect();
    assert!(
        rights.iter().any(|line| line.contains(" r--s ")),
        "{rights:?}"
    );
}

/// A step of a history.
#[derive(Debug, Clone)]
enum Step {
    /// Publish so many new extents, and every second of those that are published.
    Publish(u64),
    /// The reader of this number looks for news.
    Look(usize),
    /// It lets go of what it has found at this place.
    LetGo(usize, usize),
    /// Another owner takes over.
    TakeOver,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4_u64).prop_map(Step::Publish),
        3 => (0..2_usize).prop_map(Step::Look),
        2 => (0..2_usize, 0..8_usize).prop_map(|(reader, at)| Step::LetGo(reader, at)),
        1 => Just(Step::TakeOver),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 48 }, ..ProptestConfig::default() })]

    /// What readers hold keeps its bytes.
    #[test]
    fn no_byte_changes_that_a_reader_may_look_at(steps in steps()) {
        let pool = pool();
        let mut owner = pool.claim(&claim(1)).unwrap();
        let mut published: Vec<(u64, Arc<ExtentHandle>)> = Vec::new();
        let readers = ["one", "two"].map(|name| pool.read(name).unwrap());
        let mut held: [Vec<(Vec<u8>, Arc<ExtentHandle>)>; 2] = Default::default();
        let (mut next, mut epoch) = (1, 1);
        for step in steps {
            match step {
                Step::Publish(new) => {
                    let mut at = 0;
                    published.retain(|_| { at += 1; at % 2 == 0 });
                    for number in next..next + new {
                        published.push((number, write(&owner, number)));
                    }
                    next += new;
                    let extents: Vec<_> = published.iter().map(|(_, it)| Arc::clone(it)).collect();
                    owner.publish(&extents, b"").unwrap();
                }
                Step::Look(reader) => {
                    for extent in newest(&readers[reader]).into_iter().flatten() {
                        held[reader].push((extent.buffer().unwrap().to_vec(), extent));
                    }
                }
                Step::LetGo(reader, at) => {
                    if at < held[reader].len() {
                        held[reader].swap_remove(at);
                    }
                }
                Step::TakeOver => {
                    epoch += 1;
                    published.clear();
                    owner = pool.claim(&claim(epoch)).unwrap();
                    drop(owner.take_published());
                }
            }
            for (bytes, extent) in held.iter().flatten() {
                let now = extent.buffer().unwrap();
                prop_assert_eq!(now.as_slice(), &bytes[..]);
            }
        }
        drop(held);
        drop(published);
        owner.publish(&[], b"").unwrap();
        owner.renew().unwrap();
        prop_assert_eq!(owner.free_bytes(), pool.bytes() - (72 << 10) - 4096);
    }
}
