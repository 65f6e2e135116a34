//! Passwords that are guessed, slowed down.
//!
//! Failures are counted for a user at an address, for an address, and for a user. Beyond a few, each
//! attempt of a user at an address waits for those before it, twice as long with each failure up to a
//! bound; so does each of an address, whoever the users are. Of a user whose password is guessed from
//! many addresses, every attempt waits for a moment, and none for another: nobody locks out a user from
//! an address that is not his own. Names that no user has are counted alike. What is kept is bounded;
//! what failed longest ago is forgotten first.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::admission::Origin;

/// Records that are kept.
const RECORDS_MAX: usize = 4096;
/// Within which half of the failures are forgotten.
const HALF_LIFE: Duration = Duration::from_secs(60);
/// The first delay.
const DELAY: Duration = Duration::from_millis(100);
/// The longest wait that an attempt is let in for.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// What failures are counted of.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// Failures without a delay.
    free: u32,
    /// The longest delay.
    delay_max: Duration,
    /// Whether attempts wait for each other.
    is_queue: bool,
}

const OF_USER_AT_ADDRESS: Kind = Kind {
    free: 3,
    delay_max: Duration::from_secs(10),
    is_queue: true,
};
const OF_ADDRESS: Kind = Kind {
    free: 20,
    delay_max: Duration::from_secs(10),
    is_queue: true,
};
const OF_USER: Kind = Kind {
    free: 20,
    delay_max: Duration::from_secs(1),
    is_queue: false,
};

/// Counts of failures, of the users and addresses of one server.
#[derive(Debug, Default)]
pub struct Throttle {
    hasher: RandomState,
    records: Mutex<HashMap<u64, Record>>,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    failures: u32,
    /// Of the last failure, or later by half lives.
    last: Instant,
    /// When the next attempt has its turn.
    free_at: Instant,
}

/// There are more attempts than are let wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

impl Throttle {
    /// How long an attempt has to wait before it is told whether it succeeds.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn wait(&self, from: Origin, user: &str, now: Instant) -> Result<Duration, TooMany> {
        let mut records = self.records.lock();
        let keys = self.keys(from, user);
        let mut start = now;
        for (key, kind) in keys {
            if let Some(record) = records.get_mut(&key) {
                record.forget(now);
                start = start.max(record.start(kind, now));
            }
        }
        let wait = start.saturating_duration_since(now);
        if wait > WAIT_MAX {
            return Err(TooMany);
        }
        for (key, kind) in keys.into_iter().filter(|(_, kind)| kind.is_queue) {
            if let Some(record) = records.get_mut(&key) {
                record.free_at = start + record.delay(kind);
            }
        }
        Ok(wait)
    }

    /// Counts an attempt that failed.
    pub fn failed(&self, from: Origin, user: &str, now: Instant) {
        let mut records = self.records.lock();
        for (key, kind) in self.keys(from, user) {
            make_room(&mut records, key);
            let record = records.entry(key).or_insert(Record {
                failures: 0,
                last: now,
                free_at: now,
            });
            record.forget(now);
            record.failures = record.failures.saturating_add(1);
            record.last = now;
            if kind.is_queue {
                record.free_at = record.free_at.max(now + record.delay(kind));
            }
        }
    }

    /// Forgets the failures of a user at an address, who has proved to be that.
    pub fn succeeded(&self, from: Origin, user: &str) {
        let [(key, _), ..] = self.keys(from, user);
        self.records.lock().remove(&key);
    }

    fn keys(&self, from: Origin, user: &str) -> [(u64, Kind); 3] {
        let key = |from: Option<Origin>, user: Option<&str>| self.hash(&(from, user));
        [
            (key(Some(from), Some(user)), OF_USER_AT_ADDRESS),
            (key(Some(from), None), OF_ADDRESS),
            (key(None, Some(user)), OF_USER),
        ]
    }

    fn hash(&self, value: &impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }
}

/// Forgets what failed longest ago, where there is no room for `key`.
fn make_room(records: &mut HashMap<u64, Record>, key: u64) {
    if records.len() < RECORDS_MAX || records.contains_key(&key) {
        return;
    }
    let oldest = records.iter().min_by_key(|(_, record)| record.last);
    if let Some(oldest) = oldest.map(|(key, _)| *key) {
        records.remove(&oldest);
    }
}

impl Record {
    fn forget(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.last);
        let half_lives = (age.as_secs() / HALF_LIFE.as_secs()) as u32;
        self.failures = self.failures.checked_shr(half_lives).unwrap_or(0);
        self.last += HALF_LIFE * half_lives;
    }

    fn delay(&self, kind: Kind) -> Duration {
        let beyond = self.failures.saturating_sub(kind.free);
        match beyond {
            0 => Duration::ZERO,
            beyond => {
                let factor = 2u32.saturating_pow(beyond - 1);
                DELAY.saturating_mul(factor).min(kind.delay_max)
            }
        }
    }

    /// When an attempt of now has its turn.
    fn start(&self, kind: Kind, now: Instant) -> Instant {
        match self.delay(kind) {
            Duration::ZERO => now,
            _ if kind.is_queue => self.free_at.max(now),
            delay => now + delay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(last: u8) -> Origin {
        Origin::of([10, 0, 0, last].into())
    }

    #[test]
    fn failures_are_slower_and_slower_up_to_a_bound() {
        let (throttle, mut now) = (Throttle::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..14 {
            let wait = throttle.wait(origin(1), "ann", now).expect("in time");
            waits.push(wait.as_millis());
            now += wait;
            throttle.failed(origin(1), "ann", now);
        }
        assert_eq!(waits[..8], [0, 0, 0, 0, 100, 200, 400, 800]);
        assert_eq!(waits[13], 10_000);
        // Neither another user there nor this one elsewhere.
        for (from, user) in [(1, "bob"), (2, "ann")] {
            assert_eq!(throttle.wait(origin(from), user, now), Ok(Duration::ZERO));
        }
        throttle.succeeded(origin(1), "ann");
        assert_eq!(throttle.wait(origin(1), "ann", now), Ok(Duration::ZERO));
    }

    #[test]
    fn attempts_at_the_same_time_wait_for_each_other() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for _ in 0..8 {
            throttle.failed(origin(1), "ann", now);
        }
        let waits: Vec<_> = (0..20)
            .map(|_| throttle.wait(origin(1), "ann", now))
            .collect();
        assert_eq!(waits[0], Ok(Duration::from_millis(1600)));
        assert_eq!(waits[1], Ok(Duration::from_millis(3200)));
        assert_eq!(waits[19], Err(TooMany));
        let later = now + HALF_LIFE * 4;
        assert_eq!(throttle.wait(origin(1), "ann", later), Ok(Duration::ZERO));
    }

    #[test]
    fn many_users_of_an_address_and_many_addresses_of_a_user_are_slowed() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for number in 0..40 {
            throttle.failed(origin(1), &format!("user {number}"), now);
            throttle.failed(origin(100 + number), "ann", now);
        }
        let sprayed = throttle.wait(origin(1), "user 100", now).expect("in time");
        assert!(sprayed >= Duration::from_secs(5), "{sprayed:?}");
        for _ in 0..100 {
            let own = throttle.wait(origin(2), "ann", now);
            assert_eq!(own, Ok(Duration::from_secs(1)), "none waits for another");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for number in 0..RECORDS_MAX {
            let later = now + Duration::from_millis(number as u64);
            throttle.failed(origin(1), &format!("user {number}"), later);
        }
        assert!(throttle.records.lock().len() <= RECORDS_MAX);
        let end = now + Duration::from_millis(RECORDS_MAX as u64);
        assert!(throttle.wait(origin(1), "ann", end).expect("in time") > Duration::ZERO);
    }
}
