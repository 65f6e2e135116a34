//! Two hosts over one pool, each with a cache that nothing keeps coherent with the other's: what one
//! has published the other sees, and what was not written back is never taken for what it was to be.

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use nearfar_memory::pool::{
    Claim, Owner, OwnerName, OwnerWatch, Pool, PoolError, PoolMemory, TakeOver,
};

const BYTES: usize = 2 << 20;
/// Extents of each publication.
const EXTENTS: usize = 6;

pub fn claim(host: u32, take_over: TakeOver) -> Claim {
    Claim {
        name: OwnerName {
            host: format!("host-{host}"),
            boot_id: u128::from(host),
            pid: host,
        },
        lease: Duration::from_millis(200),
        take_over,
        forget_readers: Vec::new(),
    }
}

/// The pool as each of two hosts has it.
fn two_hosts() -> [Pool; 2] {
    let memory = PoolMemory::simulated(BYTES);
    let path = Path::new("simulated");
    let first = Pool::create_in(memory, path).unwrap();
    let other = first.memory().of_another_host().unwrap();
    let second = Pool::attach_in(other, path).unwrap();
    [first, second]
}

fn content(number: u64, part: usize) -> Vec<u8> {
    let bytes = 700 + 911 * part as u64;
    let byte = |at: u64| (at.wrapping_mul(number * 2 + 1) >> 2) as u8 ^ part as u8;
    (0..bytes).map(byte).collect()
}

fn publish(owner: &Owner, number: u64) -> Result<(), PoolError> {
    let extents: Result<Vec<_>, _> = (0..EXTENTS)
        .map(|part| owner.write(&[&content(number, part)]))
        .collect();
    owner.publish(&extents?, &number.to_le_bytes()).map(drop)
}

/// The number of what was published, all of whose bytes are right; or how it is known that it is not.
fn found(owner: &Owner) -> Result<Option<u64>, PoolError> {
    let Some(published) = owner.published() else {
        return Ok(None);
    };
    let number = u64::from_le_bytes(published.catalog[..].try_into().unwrap());
    assert_eq!(published.extents.len(), EXTENTS);
    for (part, extent) in published.extents.iter().enumerate() {
        assert_eq!(extent.buffer()?.as_slice(), content(number, part));
    }
    Ok(Some(number))
}

#[test]
fn a_host_finds_what_the_other_has_published_and_back() {
    let pools = two_hosts();
    let mut owner = pools[0].claim(&claim(1, TakeOver::Never)).unwrap();
    for number in 1..=9 {
        publish(&owner, number).unwrap();
        let here = (number % 2) as usize;
        let next = claim(here as u32 + 1, TakeOver::Never);
        match number % 3 {
            // It gives the pool back; without the lines of that, it would seem to live.
            0 => drop(owner),
            // It is fenced while it lives.
            _ => {
                let by_force = Claim {
                    take_over: TakeOver::Now,
                    ..next.clone()
                };
                let new = pools[here].claim(&by_force).unwrap();
                assert!(matches!(
                    publish(&owner, 1000),
                    Err(PoolError::Fenced { .. })
                ));
                assert!(owner.renew().is_err());
                assert_eq!(found(&new), Ok(Some(number)));
                drop((owner, new));
            }
        }
        owner = pools[here].claim(&next).unwrap();
        assert_eq!(found(&owner), Ok(Some(number)));
    }
}

#[test]
fn a_standby_on_the_other_host_hears_the_owner() {
    let pools = two_hosts();
    let owner = pools[0].claim(&claim(1, TakeOver::Never)).unwrap();
    let name = claim(2, TakeOver::Never).name;
    let mut watch = OwnerWatch::new(&pools[1], name);
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(40));
        owner.renew().unwrap();
        let looked = watch.look().unwrap();
        assert_eq!(looked.owner.map(|record| record.name.pid), Some(1));
    }
    drop(owner);
    assert!(watch.look().unwrap().is_gone, "it was given back");
}

/// Whichever write-back is forgotten: what the other host takes over is a publication as it was, or
/// known to be damaged.
#[test]
fn a_write_back_that_was_forgotten_is_found_by_checksums() {
    let mut damaged = 0;
    for skipped in 0.. {
        let pools = two_hosts();
        let memory = pools[0].memory();
        let owner = pools[0].claim(&claim(1, TakeOver::Never)).unwrap();
        publish(&owner, 1).unwrap();
        publish(&owner, 2).unwrap();
        let from = memory.write_backs_done() + skipped;
        memory.skip_write_backs(from..from + 1);
        publish(&owner, 3).unwrap();
        if memory.write_backs_done() <= from {
            break;
        }
        // Of what was not written back, nothing ever is.
        let standby = pools[1].claim(&claim(2, TakeOver::Now));
        match standby.as_ref().map(found) {
            Ok(Ok(number)) => assert!(matches!(number, Some(2 | 3)), "{number:?}"),
            Ok(Err(PoolError::Damaged { .. })) | Err(PoolError::Catalog { .. }) => damaged += 1,
            other => panic!("without write-back {skipped}: {other:?}"),
        }
    }
    assert!(damaged > EXTENTS, "each extent and the catalog: {damaged}");
}

/// Without coherent caches, both may raise the claim word from what they see to the same number.
#[test]
fn of_two_hosts_that_claim_concurrently_one_wins_at_most() {
    for round in 0..12 {
        let pools = two_hosts();
        // Shorter than a claim waits for others to be seen.
        let delay = Duration::from_millis(15);
        pools[0].memory().delay_write_backs(delay);
        let together = Barrier::new(2);
        let claimed: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = pools
                .iter()
                .zip([1, 2])
                .map(|(pool, host)| {
                    let together = &together;
                    scope.spawn(move || {
                        together.wait();
                        std::thread::sleep(Duration::from_millis(u64::from(host) * round * 2));
                        pool.claim(&claim(host, TakeOver::Never))
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        // One that was held up for longer than the other has waited finds out when it next looks.
        let owners = claimed.iter().flatten();
        let owners: Vec<_> = owners.filter(|owner| owner.check().is_ok()).collect();
        assert!(owners.len() <= 1, "round {round}: {owners:?}");
        for refused in claimed.iter().filter_map(|claimed| claimed.as_ref().err()) {
            assert!(matches!(refused, PoolError::Owned { .. }), "{refused}");
        }
    }
}
