//! Pools outlive their owners: crashes, losses of power, take-overs and damage.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use nearfar_memory::pool::{
    Claim, ExtentHandle, Owner, OwnerName, Pool, PoolError, PoolMemory, PoolOptions, TakeOver,
};
use proptest::prelude::*;

const BYTES: usize = 2 << 20;

fn nowhere() -> &'static Path {
    Path::new("simulated")
}

fn name(host: &str, boot_id: u128) -> OwnerName {
    OwnerName {
        host: host.to_owned(),
        boot_id,
        pid: 7,
    }
}

fn claim(host: &str, boot_id: u128, take_over: TakeOver) -> Claim {
    Claim {
        name: name(host, boot_id),
        lease: Duration::from_millis(200),
        take_over,
        forget_readers: Vec::new(),
    }
}

fn here(take_over: TakeOver) -> Claim {
    claim("here", 1, take_over)
}

/// Bytes that follow from a number.
fn content(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64)
        .map(|at| (at.wrapping_mul(number | 1) >> 3) as u8)
        .collect()
}

/// Publishes generation `number`, which has as many extents as its number modulo 5, and keeps the
/// first extent of the generation before.
fn publish(
    owner: &Owner,
    number: u64,
    kept: Option<&Arc<ExtentHandle>>,
) -> Result<Vec<Arc<ExtentHandle>>, PoolError> {
    let mut extents: Vec<_> = kept.into_iter().cloned().collect();
    for part in 0..number % 5 + 1 {
        let bytes = content(number * 10 + part, 1000 + 977 * part as usize);
        let (head, tail) = bytes.split_at(13);
        extents.push(owner.write(&[head, tail])?);
    }
    let catalog = format!("{number} {}", kept.is_some());
    owner.publish(&extents, catalog.as_bytes())?;
    Ok(extents)
}

/// The number of the generation that a pool holds, all of whose bytes are as they were published.
fn check(owner: &Owner) -> u64 {
    let Some(published) = owner.published() else {
        return 0;
    };
    let catalog = String::from_utf8(published.catalog.clone()).unwrap();
    let (number, kept) = catalog.split_once(' ').unwrap();
    let number: u64 = number.parse().unwrap();
    let kept = usize::from(kept == "true");
    assert_eq!(published.extents.len() as u64, number % 5 + 1 + kept as u64);
    for (part, extent) in published.extents[kept..].iter().enumerate() {
        let expected = content(number * 10 + part as u64, 1000 + 977 * part);
        assert_eq!(extent.buffer().unwrap().as_slice(), expected);
    }
    for extent in &published.extents[..kept] {
        extent.verify().unwrap();
    }
    number
}

/// The memory that publications leave behind when the power fails after `write_backs`.
fn run_until_power_fails(write_backs: u64, evicted: impl FnMut(usize) -> bool) -> PoolMemory {
    let memory = PoolMemory::simulated(BYTES);
    memory.fail_after(write_backs);
    let pool = Pool::create_in(memory, nowhere()).unwrap();
    let owner = pool.claim(&here(TakeOver::Never)).unwrap();
    let mut kept: Option<Arc<ExtentHandle>> = None;
    for number in 1..=8 {
        kept = publish(&owner, number, kept.as_ref()).unwrap().pop();
    }
    pool.memory().power_loss(evicted).unwrap()
}

#[test]
fn a_loss_of_power_at_any_moment_loses_nothing_that_was_acknowledged() {
    // How many write-backs each acknowledged publication had taken, from a run without a failure.
    let memory = PoolMemory::simulated(BYTES);
    let pool = Pool::create_in(memory, nowhere()).unwrap();
    let owner = pool.claim(&here(TakeOver::Never)).unwrap();
    let mut after = vec![pool.memory().write_backs_done()];
    let mut kept = None;
    for number in 1..=8 {
        kept = publish(&owner, number, kept.as_ref()).unwrap().pop();
        after.push(pool.memory().write_backs_done());
    }
    let total = *after.last().unwrap();
    assert_eq!(check_again(&pool), 8);

    for write_backs in 0..=total {
        let acknowledged = after
            .iter()
            .filter(|done| **done <= write_backs)
            .count()
            .saturating_sub(1);
        for evicted in 0..3 {
            let found = run_until_power_fails(write_backs, |line| match evicted {
                0 => false,
                1 => true,
                _ => (line as u64 * 7 + write_backs).is_multiple_of(3),
            });
            let pool = match Pool::attach_in(found, nowhere()) {
                Ok(pool) => pool,
                Err(PoolError::NotAPool { .. }) if write_backs < after[0] => continue,
                Err(error) => panic!("after {write_backs} write-backs: {error}"),
            };
            // Whoever claimed it may be nameless: its record was lost.
            let owner = pool.claim(&here(TakeOver::Now)).unwrap();
            let number = check(&owner);
            assert!(
                number >= acknowledged as u64 && number <= acknowledged as u64 + 1,
                "after {write_backs} write-backs: {number} found, {acknowledged} acknowledged"
            );
            // The pool goes on from there.
            publish(&owner, 100, None).unwrap();
            drop(owner);
            assert_eq!(check_again(&pool), 100);
        }
    }
}

/// What a later owner of the pool finds.
fn check_again(pool: &Pool) -> u64 {
    let owner = pool.claim(&here(TakeOver::Now)).unwrap();
    check(&owner)
}

#[test]
fn a_pool_in_a_file_serves_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, 4 << 20, PoolOptions::default()).unwrap();
    let owner = pool.claim(&Claim::of_this_process()).unwrap();
    let held = publish(&owner, 3, None).unwrap();
    let again = Pool::attach(&path, PoolOptions::default()).unwrap();
    let refused = again.claim(&Claim::of_this_process()).unwrap_err();
    assert!(
        matches!(&refused, PoolError::Owned { record } if record.epoch == 1),
        "{refused}"
    );
    assert!(refused.to_string().contains("process"), "{refused}");
    drop((owner, pool));
    again
        .claim(&Claim::of_this_process())
        .expect_err("handles keep the pool");
    drop(held);
    let owner = again.claim(&Claim::of_this_process()).unwrap();
    assert_eq!((check(&owner), owner.record().epoch), (3, 2));
    drop(owner);
    let error = Pool::create(&path, 4 << 20, PoolOptions::default()).unwrap_err();
    assert!(matches!(error, PoolError::Exists { .. }), "{error}");
}

#[test]
fn a_second_claim_through_the_same_attachment_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, 2 << 20, PoolOptions::default()).unwrap();
    let owner = pool.claim(&Claim::of_this_process()).unwrap();
    for pool in [&pool, &pool.clone()] {
        let error = pool.claim(&Claim::of_this_process()).unwrap_err();
        assert!(matches!(error, PoolError::Owned { .. }), "{error}");
    }
    owner.renew().expect("nobody has taken it");
}

#[test]
fn an_owner_without_the_lock_is_not_taken_for_dead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, 2 << 20, PoolOptions::default()).unwrap();
    let fenced = pool.claim(&Claim::of_this_process()).unwrap();
    let by_force = Claim {
        take_over: TakeOver::Now,
        ..Claim::of_this_process()
    };
    let owner = Pool::attach(&path, PoolOptions::default())
        .unwrap()
        .claim(&by_force)
        .unwrap();
    drop(fenced);
    let error = pool.claim(&Claim::of_this_process()).unwrap_err();
    assert!(
        matches!(&error, PoolError::Owned { record } if record.epoch == 2),
        "{error}"
    );
    owner.renew().unwrap();
}

#[test]
fn an_owner_that_was_fenced_publishes_nothing() {
    let pool = Pool::create_in(PoolMemory::simulated(BYTES), nowhere()).unwrap();
    let old = pool.claim(&here(TakeOver::Never)).unwrap();
    publish(&old, 1, None).unwrap();
    let new = pool.claim(&claim("there", 2, TakeOver::Now)).unwrap();
    assert_eq!(check(&new), 1);
    let error = old.write(&[b"late"]).unwrap_err();
    assert_eq!(
        error,
        PoolError::Fenced {
            epoch: 1,
            by_epoch: 2
        }
    );
    assert!(old.publish(&[], b"late").is_err());
    assert!(old.renew().is_err());
    publish(&new, 2, None).unwrap();
    drop(old);
    drop(new);
    assert_eq!(check_again(&pool), 2);
}

#[test]
fn a_lease_ends_when_its_owner_is_silent_and_not_before() {
    let pool = Pool::create_in(PoolMemory::simulated(BYTES), nowhere()).unwrap();
    let owner = pool.claim(&here(TakeOver::Never)).unwrap();
    let patient = |milliseconds| {
        let patience = Duration::from_millis(milliseconds);
        claim("there", 2, TakeOver::WhenItsLeaseEnds { patience })
    };
    std::thread::scope(|scope| {
        let renewing = scope.spawn(|| {
            for _ in 0..40 {
                owner.renew().unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let error = pool.claim(&patient(400)).unwrap_err();
        assert!(matches!(error, PoolError::Owned { .. }), "{error}");
        renewing.join().unwrap();
    });
    let begun = Instant::now();
    let next = pool.claim(&patient(60_000)).unwrap();
    assert!(
        begun.elapsed() >= Duration::from_millis(200),
        "a whole lease"
    );
    assert_eq!(next.record().epoch, 2);
    assert!(owner.renew().is_err());
}

#[test]
fn one_of_many_claims_wins() {
    let pool = Pool::create_in(PoolMemory::simulated(BYTES), nowhere()).unwrap();
    let owners: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8_u32)
            .map(|number| {
                let pool = &pool;
                scope.spawn(move || {
                    pool.claim(&claim("host", u128::from(number) + 10, TakeOver::Never))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let winners = owners.iter().filter(|owner| owner.is_ok()).count();
    // A claim may also begin after an earlier winner has given the pool back: none has here.
    assert_eq!(winners, 1);
    for loser in owners.iter().filter_map(|owner| owner.as_ref().err()) {
        assert!(matches!(loser, PoolError::Owned { .. }), "{loser}");
    }
}

#[test]
fn space_comes_back_when_nobody_uses_it() {
    let pool = Pool::create_in(PoolMemory::simulated(BYTES), nowhere()).unwrap();
    let owner = pool.claim(&here(TakeOver::Never)).unwrap();
    let all = owner.free_bytes();
    let reader = publish(&owner, 4, None).unwrap();
    for number in 5..200 {
        publish(&owner, number, None).unwrap();
    }
    assert_eq!(
        reader[0].buffer().unwrap().as_slice(),
        content(40, 1000),
        "an old snapshot"
    );
    drop(reader);
    owner.publish(&[], b"0 false").unwrap();
    assert_eq!(owner.free_bytes(), all - 4096, "all but the catalog");
}

#[test]
fn a_full_pool_says_so_and_stays_as_it_is() {
    let pool = Pool::create_in(PoolMemory::simulated(BYTES), nowhere()).unwrap();
    let owner = pool.claim(&here(TakeOver::Never)).unwrap();
    publish(&owner, 2, None).unwrap();
    let error = owner.write(&[&vec![1; BYTES]]).unwrap_err();
    assert!(
        matches!(error, PoolError::Full { bytes, .. } if bytes == BYTES as u64),
        "{error}"
    );
    drop(owner);
    assert_eq!(check_again(&pool), 2);
}

#[test]
fn a_pool_takes_the_memory_of_its_extents_only() {
    // Larger than any /dev/shm.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::create(&folder.path().join("pool"), 1 << 44, PoolOptions::default()).unwrap();
    let owner = pool.claim(&Claim::of_this_process()).unwrap();
    let extent = owner.write(&[b"small"]).unwrap();
    owner.publish(&[extent], b"").unwrap();
}

#[test]
fn impossible_sizes_and_foreign_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    for bytes in [0, 4096, (2 << 20) + 1] {
        let error = Pool::create(&path, bytes, PoolOptions::default()).unwrap_err();
        assert_eq!(error, PoolError::Size { bytes });
    }
    assert!(!path.exists(), "nothing is left behind");
    std::fs::write(&path, vec![7; 2 << 20]).unwrap();
    let error = Pool::attach(&path, PoolOptions::default()).unwrap_err();
    assert!(matches!(error, PoolError::NotAPool { .. }), "{error}");
    let error = Pool::attach(&folder.path().join("none"), PoolOptions::default()).unwrap_err();
    assert!(error.to_string().contains("none"), "{error}");
    let error = Pool::create(&path, 2 << 20, PoolOptions::default()).unwrap_err();
    assert!(matches!(error, PoolError::Exists { .. }), "{error}");
}

#[test]
fn a_pool_that_was_not_made_to_its_end_can_be_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let bytes = 2 << 20;
    let file = |words: &[(usize, u8)]| {
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(bytes).unwrap();
        for (at, byte) in words {
            std::os::unix::fs::FileExt::write_all_at(&file, &[*byte], *at as u64).unwrap();
        }
    };
    let create = || Pool::create(&path, bytes, PoolOptions::default());
    for begun in [&[][..], &[(8, 1), (40, 7)]] {
        file(begun);
        let error = Pool::attach(&path, PoolOptions::default()).unwrap_err();
        assert!(matches!(error, PoolError::NotAPool { .. }), "{error}");
        create().unwrap();
        Pool::attach(&path, PoolOptions::default()).unwrap();
    }
    for foreign in [(0, 1), (60, 1), (4096, 1), (60_000, 1)] {
        file(&[foreign]);
        assert!(
            matches!(create(), Err(PoolError::Exists { .. })),
            "{foreign:?}"
        );
    }
}

#[test]
fn of_many_that_make_a_pool_concurrently_one_does() {
    for round in 0..100_u64 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let together = Barrier::new(8);
        let make = |number: u64| {
            together.wait();
            // Of more than one size, so that nobody makes the file shorter under another.
            let bytes = (1 + number % 2) * BYTES as u64;
            Pool::create(&path, bytes, PoolOptions::default())
        };
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| scope.spawn(move || make(number)))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.collect()
        });
        let pools: Vec<_> = made.iter().flatten().collect();
        assert_eq!(pools.len(), 1, "round {round}");
        for refused in made.iter().filter_map(|made| made.as_ref().err()) {
            let is_known = matches!(refused, PoolError::Exists { .. } | PoolError::InUse { .. });
            assert!(is_known, "{refused}");
        }
        let attached = Pool::attach(&path, PoolOptions::default()).unwrap();
        assert_eq!(attached.id(), pools[0].id());
        let owner = attached.claim(&Claim::of_this_process()).unwrap();
        assert_eq!((owner.record().epoch, owner.record().has_lock), (1, true));
        publish(&owner, 1, None).unwrap();
        drop(owner);
        assert_eq!(
            check(&pools[0].claim(&Claim::of_this_process()).unwrap()),
            1
        );
    }
}

#[test]
fn a_pool_in_use_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let create = || Pool::create(&path, BYTES as u64, PoolOptions::default());
    let owner = create().unwrap().claim(&Claim::of_this_process()).unwrap();
    let refused = create().unwrap_err();
    assert!(matches!(refused, PoolError::InUse { .. }), "{refused}");
    drop(owner);
    let refused = create().unwrap_err();
    assert!(matches!(refused, PoolError::Exists { .. }), "{refused}");
}

/// A file with a pool and two publications.
fn pool_file(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("pool");
    let pool = Pool::create(&path, 2 << 20, PoolOptions::default()).unwrap();
    let owner = pool.claim(&Claim::of_this_process()).unwrap();
    publish(&owner, 1, None).unwrap();
    publish(&owner, 2, None).unwrap();
    path
}

#[test]
fn pools_of_other_versions_and_machines_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = pool_file(folder.path());
    let bytes = std::fs::read(&path).unwrap();
    let attach = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        let path = folder.path().join("changed");
        std::fs::write(&path, bytes).unwrap();
        Pool::attach(&path, PoolOptions::default()).unwrap_err()
    };
    let error = attach(&|bytes| bytes[..8].reverse());
    assert!(matches!(error, PoolError::ByteOrder { .. }), "{error}");
    let error = attach(&|bytes| bytes[8] = 99);
    assert!(
        matches!(error, PoolError::Version { found: 99, .. }),
        "{error}"
    );
    let error = attach(&|bytes| bytes[30] ^= 1);
    assert!(matches!(error, PoolError::NotAPool { .. }), "{error}");
    let error = attach(&|bytes| bytes.truncate(1 << 20));
    assert!(matches!(error, PoolError::NotAPool { .. }), "{error}");
    let error = attach(&|bytes| bytes.resize(4 << 20, 0));
    assert!(matches!(error, PoolError::NotAPool { .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever bits flip, a pool is refused, or its damage is found before a byte is served, or
    /// what it serves is right.
    #[test]
    fn flipped_bits_are_never_served(flips in prop::collection::vec((0..110_000_usize, 0..8_u8), 1..4)) {
        let folder = tempfile::tempdir().unwrap();
        let path = pool_file(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        for (at, bit) in flips {
            bytes[at] ^= 1 << bit;
        }
        std::fs::write(&path, bytes).unwrap();
        let Ok(pool) = Pool::attach(&path, PoolOptions::default()) else { return Ok(()) };
        let Ok(owner) = pool.claim(&Claim { take_over: TakeOver::Now, ..Claim::of_this_process() }) else {
            return Ok(());
        };
        let Some(published) = owner.published() else { return Ok(()) };
        let number: u64 = std::str::from_utf8(&published.catalog).unwrap().split_once(' ').unwrap().0.parse().unwrap();
        for (part, extent) in published.extents.iter().enumerate() {
            let Ok(buffer) = extent.buffer() else { continue };
            let expected = content(number * 10 + part as u64, 1000 + 977 * part);
            prop_assert_eq!(buffer.as_slice(), expected);
        }
    }
}

#[test]
fn a_damaged_pool_can_be_emptied_and_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = pool_file(folder.path());
    let pool = Pool::attach(&path, PoolOptions::default()).unwrap();
    let owner = pool.claim_empty(&Claim::of_this_process()).unwrap();
    assert!(owner.published().is_none());
    publish(&owner, 7, None).unwrap();
    drop(owner);
    let owner = pool.claim(&Claim::of_this_process()).unwrap();
    assert_eq!(check(&owner), 7);
    assert_eq!(
        owner.published().unwrap().generation,
        3,
        "generations go on"
    );
}

#[test]
fn extents_that_come_and_go_on_many_threads_keep_their_bytes() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, 8 << 20, PoolOptions::default()).unwrap();
    let owner = pool.claim(&here(TakeOver::Never)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let owner = &owner;
            scope.spawn(move || {
                for number in 0..2000 {
                    let bytes = content(thread * 10_000 + number, 3000);
                    let extent = owner.write(&[&bytes]).unwrap();
                    std::thread::yield_now();
                    assert_eq!(extent.buffer().unwrap().as_slice(), bytes, "{number}");
                }
            });
        }
    });
}

/// Writes extents until the pool is full.
fn fill_up(owner: &Owner, number: u64) -> Vec<(Arc<ExtentHandle>, Vec<u8>)> {
    (number..)
        .map_while(|number| {
            let bytes = content(number, 5000);
            Some((owner.write(&[&bytes]).ok()?, bytes))
        })
        .collect()
}

#[test]
fn an_owner_that_lost_the_pool_gives_no_memory_of_the_next_back() {
    let take_overs = [("given back", TakeOver::Never), ("taken", TakeOver::Now)];
    for (how, take_over) in take_overs {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("pool");
        let pool = Pool::create(&path, BYTES as u64, PoolOptions::default()).unwrap();
        let first = pool.claim(&here(TakeOver::Never)).unwrap();
        let mut unpublished = fill_up(&first, 0);
        unpublished.pop();
        if take_over == TakeOver::Never {
            first.give_back().unwrap();
            let refused = first.write(&[b"more"]);
            assert_eq!(refused.unwrap_err(), PoolError::GivenBack);
        }
        let pool = Pool::attach(&path, PoolOptions::default()).unwrap();
        let second = pool.claim(&here(take_over)).unwrap();
        let written = fill_up(&second, 1_000_000);
        assert!(written.len() > 200);
        drop((unpublished, first));
        for (extent, bytes) in &written {
            assert_eq!(extent.buffer().unwrap().as_slice(), bytes, "{how}");
        }
    }
}
