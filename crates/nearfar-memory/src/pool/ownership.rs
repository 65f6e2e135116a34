//! Who owns a pool: epochs that fence earlier owners, and leases that tell whether one is alive.
//!
//! The claim word counts owners. Raising it by one is the one step that decides who is next; an
//! owner whose epoch is not the claim word's any more writes nothing. The record of an epoch says
//! who it is and which publication it began from: what an earlier owner publishes later than that,
//! having missed that it was fenced, does not count.
//!
//! A lease is a heartbeat, not a time: the owner raises a word, and whoever waits for the lease to
//! end sees by its own monotonic clock how long the word has stood still. No clock of another host
//! matters, and none that jumps.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::checksum;
use super::error::PoolError;
use super::memory::PoolMemory;
use crate::sys::SysError;

/// Owners that follow each other and have places of their own for what they write beside extents. An
/// owner that is stopped between its last look at the claim word and what it writes can overwrite
/// what another wrote there only if that many have taken the pool over meanwhile.
pub(super) const OWNERS: u64 = 6;

/// The word that counts owners, in the second page; each of these has a line of its own.
pub(super) const CLAIM_WORD: usize = 512;
/// The word that the owner raises as long as it lives.
pub(super) const HEARTBEAT_WORD: usize = CLAIM_WORD + 8;
/// The last epoch whose owner gave the pool back.
const RELEASED_WORD: usize = CLAIM_WORD + 16;
/// The last epoch whose owner got the lock of the file after its claim.
const LOCKED_WORD: usize = CLAIM_WORD + 24;
/// The first word of the first record, and words from one record to the next.
const RECORDS_WORD: usize = 2 * 512;
const RECORD_WORDS: usize = 128;

const HOST_BYTES: usize = 64;
/// Words of a process: boot id of its host, number, the host's name.
pub(super) const NAME_WORDS: usize = 3 + HOST_BYTES / 8;
/// Words of a record before those of the process.
const NAME_FIELD: usize = 4;
const RECORD_FIELDS: usize = NAME_FIELD + NAME_WORDS;

const _: () = assert!(RECORD_FIELDS < RECORD_WORDS);
const _: () = assert!(RECORDS_WORD + OWNERS as usize * RECORD_WORDS <= super::root::FIRST_WORD);

/// How long the other side may take to see a claim on memory without coherent caches.
pub(super) const SETTLE: Duration = Duration::from_millis(50);
/// The lease of an owner that died before it had written who it was.
const LEASE_UNKNOWN: Duration = Duration::from_secs(10);

/// Who an owner is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerName {
    /// Its host's name, of which 64 bytes are kept.
    pub host: String,
    /// A number that this run of the host's kernel has alone.
    pub boot_id: u128,
    /// Its process.
    pub pid: u32,
}

impl OwnerName {
    /// This process on this host (proc(5): `hostname`, `boot_id`).
    #[must_use]
    pub fn of_this_process() -> Self {
        let read = |name: &str| std::fs::read_to_string(name).unwrap_or_default();
        let boot_id = read("/proc/sys/kernel/random/boot_id")
            .trim()
            .replace('-', "");
        Self {
            host: read("/proc/sys/kernel/hostname").trim().to_owned(),
            boot_id: u128::from_str_radix(&boot_id, 16).unwrap_or(0),
            pid: std::process::id(),
        }
    }
}

impl fmt::Display for OwnerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {} on host {:?}", self.pid, self.host)
    }
}

/// A process as words of the pool.
pub(super) fn name_words(name: &OwnerName) -> [u64; NAME_WORDS] {
    let mut words = [0; NAME_WORDS];
    words[0] = name.boot_id as u64;
    words[1] = (name.boot_id >> 64) as u64;
    words[2] = u64::from(name.pid);
    put_text(&mut words[3..], &name.host);
    words
}

/// The process that [`name_words`] gives these words for.
pub(super) fn name_from_words(words: &[u64]) -> OwnerName {
    OwnerName {
        host: text_of(&words[3..NAME_WORDS]),
        boot_id: u128::from(words[0]) | (u128::from(words[1]) << 64),
        pid: words[2] as u32,
    }
}

/// Puts as much of a text into words as they have room for.
pub(super) fn put_text(words: &mut [u64], text: &str) {
    for (word, chunk) in words.iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(bytes);
    }
}

/// The text that was put into words.
pub(super) fn text_of(words: &[u64]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What the pool says of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRecord {
    /// Counts owners, from one.
    pub epoch: u64,
    /// Who it is.
    pub name: OwnerName,
    /// How long it may be silent before others may take over.
    pub lease: Duration,
    /// The last publication of earlier owners that counts.
    pub accepted_generation: u64,
    /// Whether it had the lock of the file when it claimed: on its host, a free lock then means that it is
    /// dead.
    pub has_lock: bool,
}

impl fmt::Display for OwnerRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} (epoch {}, lease {} ms)",
            self.name,
            self.epoch,
            self.lease.as_millis()
        )
    }
}

/// What to do about an owner that does not seem to be dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOver {
    /// Leave it the pool.
    Never,
    /// Wait until its lease ends, for so long at most.
    WhenItsLeaseEnds {
        /// How long to wait, the lease included.
        patience: Duration,
    },
    /// Take the pool immediately, because somebody says so.
    Now,
    /// The same as long as the last claim is this one: whoever has come in between keeps it.
    From {
        /// The epoch of the owner that was found dead, or is to be replaced.
        epoch: u64,
    },
}

/// How a pool is to be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who claims it.
    pub name: OwnerName,
    /// How long this owner may be silent before others may take over.
    pub lease: Duration,
    /// What to do about an owner that lives.
    pub take_over: TakeOver,
    /// Readers that are gone for good, by their names: once this is the owner, it uses again what they used.
    pub forget_readers: Vec<String>,
}

impl Claim {
    /// This process, which leaves an owner that lives alone, with a lease of five seconds.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self {
            name: OwnerName::of_this_process(),
            lease: Duration::from_secs(5),
            take_over: TakeOver::Never,
            forget_readers: Vec::new(),
        }
    }
}

impl OwnerRecord {
    fn words(&self) -> [u64; RECORD_FIELDS] {
        let mut words = [0; RECORD_FIELDS];
        words[0] = self.epoch;
        words[1] = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        words[2] = self.accepted_generation;
        words[3] = u64::from(self.has_lock);
        words[NAME_FIELD..].copy_from_slice(&name_words(&self.name));
        words
    }

    fn from_words(words: &[u64; RECORD_FIELDS]) -> Self {
        Self {
            epoch: words[0],
            name: name_from_words(&words[NAME_FIELD..]),
            lease: Duration::from_millis(words[1]),
            accepted_generation: words[2],
            has_lock: words[3] != 0,
        }
    }

    /// Writes the record where that of the sixth owner before was, so that one that is late or not
    /// whole leaves those of the others alone.
    fn write(&self, pool_id: u128, memory: &PoolMemory) -> Result<(), SysError> {
        let first = record_word(self.epoch % OWNERS);
        let words = self.words();
        memory.store(first, &words);
        memory.store(
            first + RECORD_FIELDS,
            &[checksum::of_words(pool_id, &words)],
        );
        memory.write_back_words(first, RECORD_FIELDS + 1)
    }

    fn read(slot: u64, pool_id: u128, memory: &PoolMemory) -> Option<Self> {
        let first = record_word(slot);
        let mut words = [0; RECORD_FIELDS];
        for (index, word) in words.iter_mut().enumerate() {
            *word = memory.load(first + index);
        }
        let is_whole = memory.load(first + RECORD_FIELDS) == checksum::of_words(pool_id, &words);
        let is_here = words[0] > 0 && words[0] % OWNERS == slot;
        (is_whole && is_here).then(|| Self::from_words(&words))
    }

    /// The last owner that wrote its record; one that died before it had has published nothing. The
    /// claim word is raised first: where it is smaller than the epoch of a record, a late claim of
    /// another host has put it back, and the record is right.
    pub(super) fn last(pool_id: u128, memory: &PoolMemory) -> Option<Self> {
        memory.drop_cached(bytes_of(RECORDS_WORD, OWNERS as usize * RECORD_WORDS));
        let records = (0..OWNERS).filter_map(|slot| Self::read(slot, pool_id, memory));
        records.max_by_key(|record| record.epoch)
    }
}

/// The claims on one pool.
pub(super) struct Ownership<'m> {
    pub(super) memory: &'m PoolMemory,
    pub(super) pool_id: u128,
}

impl Ownership<'_> {
    /// The epoch of the last claim.
    pub(super) fn epoch(&self) -> u64 {
        self.memory.drop_cached(bytes_of(CLAIM_WORD, 1));
        self.memory.word(CLAIM_WORD).load(Ordering::Acquire)
    }

    /// Whether the last claim is that of `epoch`.
    ///
    /// # Errors
    /// [`PoolError::Fenced`].
    pub(super) fn check(&self, epoch: u64) -> Result<(), PoolError> {
        match self.epoch() {
            by_epoch if by_epoch == epoch => Ok(()),
            by_epoch => Err(PoolError::Fenced { epoch, by_epoch }),
        }
    }

    /// Whether the last claim is that of `owner`, which has written its record. On memory without coherent caches another
    /// host may have raised the claim word to the same number and written its record over this one, however late: it is the
    /// owner then.
    ///
    /// # Errors
    /// [`PoolError::Fenced`]; [`PoolError::Owned`] by that host.
    pub(super) fn check_owner(&self, owner: &OwnerRecord) -> Result<(), PoolError> {
        self.check(owner.epoch)?;
        if !self.memory.is_shared_by_lines() {
            return Ok(());
        }
        let found = self.record(owner.epoch);
        match found.name == owner.name {
            true => Ok(()),
            false => Err(PoolError::Owned { record: found }),
        }
    }

    /// The last epoch whose owner gave the pool back.
    fn released(&self) -> u64 {
        self.memory.drop_cached(bytes_of(RELEASED_WORD, 1));
        self.memory.load(RELEASED_WORD)
    }

    /// The last epoch whose owner got the lock of the file after its claim.
    fn locked(&self) -> u64 {
        self.memory.drop_cached(bytes_of(LOCKED_WORD, 1));
        self.memory.load(LOCKED_WORD)
    }

    /// Says that the owner under `epoch` has the lock of the file by now. Only who has it calls it.
    pub(super) fn say_locked(&self, epoch: u64) -> Result<(), PoolError> {
        self.memory.store(LOCKED_WORD, &[epoch]);
        self.write_back(LOCKED_WORD)
    }

    /// The record of whoever claimed last.
    pub(super) fn record(&self, epoch: u64) -> OwnerRecord {
        let last = OwnerRecord::last(self.pool_id, self.memory);
        last.filter(|record| record.epoch == epoch)
            .unwrap_or_else(|| OwnerRecord {
                epoch,
                name: OwnerName {
                    host: "unknown".to_owned(),
                    boot_id: 0,
                    pid: 0,
                },
                lease: LEASE_UNKNOWN,
                accepted_generation: 0,
                has_lock: false,
            })
    }

    /// The owner under the claim of `epoch`, unless it is known to be none any more. `is_locked` says
    /// that this process has the file's lock: an owner on this host is then dead.
    pub(super) fn owner(
        &self,
        epoch: u64,
        name: &OwnerName,
        is_locked: bool,
    ) -> Option<OwnerRecord> {
        if epoch == 0 || self.released() == epoch {
            return None;
        }
        let record = self.record(epoch);
        let had_lock = record.has_lock || self.locked() == epoch;
        if is_locked && had_lock && record.name.boot_id == name.boot_id {
            return None;
        }
        Some(record)
    }

    /// Waits for its turn as the claim says, and raises the claim word. The epoch is then this
    /// owner's.
    pub(super) fn take(&self, claim: &Claim, is_locked: bool) -> Result<u64, PoolError> {
        let begun = Instant::now();
        loop {
            let epoch = self.epoch();
            if let Some(record) = self.owner(epoch, &claim.name, is_locked) {
                match claim.take_over {
                    TakeOver::Never => return Err(PoolError::Owned { record }),
                    TakeOver::WhenItsLeaseEnds { patience } => {
                        self.wait_for_end(epoch, record, begun, patience)?;
                    }
                    TakeOver::From { epoch: known } if known != epoch => {
                        return Err(PoolError::Owned { record });
                    }
                    TakeOver::Now | TakeOver::From { .. } => {}
                }
            }
            if self.raise(epoch)? {
                return Ok(epoch + 1);
            }
        }
    }

    /// Waits until the owner has been silent for its lease, has given the pool back, or is another.
    fn wait_for_end(
        &self,
        epoch: u64,
        record: OwnerRecord,
        begun: Instant,
        patience: Duration,
    ) -> Result<(), PoolError> {
        let pause = (record.lease / 20).clamp(Duration::from_millis(1), Duration::from_millis(200));
        let (mut heartbeat, mut heard) = (self.heartbeat(), Instant::now());
        loop {
            let is_over = self.epoch() != epoch || self.released() == epoch;
            if is_over || heard.elapsed() >= record.lease {
                return Ok(());
            }
            if begun.elapsed() >= patience {
                return Err(PoolError::Owned { record });
            }
            std::thread::sleep(pause);
            let now = self.heartbeat();
            if now != heartbeat {
                (heartbeat, heard) = (now, Instant::now());
            }
        }
    }

    pub(super) fn heartbeat(&self) -> u64 {
        self.memory.drop_cached(bytes_of(HEARTBEAT_WORD, 1));
        self.memory.load(HEARTBEAT_WORD)
    }

    /// Raises the claim word from `epoch`; false when somebody else was first. Where another host may
    /// have raised it to the same number, unseen by this one, the record decides.
    fn raise(&self, epoch: u64) -> Result<bool, PoolError> {
        let word = self.memory.word(CLAIM_WORD);
        let raised = word.compare_exchange(epoch, epoch + 1, Ordering::AcqRel, Ordering::Acquire);
        if raised.is_err() {
            return Ok(false);
        }
        self.write_back(CLAIM_WORD)?;
        if !self.memory.is_shared_by_lines() {
            return Ok(self.epoch() == epoch + 1);
        }
        std::thread::sleep(SETTLE);
        let last = OwnerRecord::last(self.pool_id, self.memory);
        let is_taken = last.is_some_and(|record| record.epoch > epoch);
        Ok(self.epoch() == epoch + 1 && !is_taken)
    }

    /// Writes who the owner is, once it knows where it begins, unless it is fenced already. On memory
    /// without coherent caches the record is read again: of two hosts whose claims have not seen each
    /// other, the one whose record is there is the owner.
    ///
    /// # Errors
    /// [`PoolError::Fenced`], [`PoolError::Owned`] by the other host, or the kernel's.
    pub(super) fn write_record(&self, record: &OwnerRecord) -> Result<(), PoolError> {
        self.check(record.epoch)?;
        record
            .write(self.pool_id, self.memory)
            .map_err(|source| super::attach::system_error(source, "claimed"))?;
        if self.memory.is_shared_by_lines() {
            std::thread::sleep(SETTLE);
            self.check_owner(record)?;
        }
        self.beat()
    }

    /// Says that the owner lives.
    pub(super) fn beat(&self) -> Result<(), PoolError> {
        self.memory
            .word(HEARTBEAT_WORD)
            .fetch_add(1, Ordering::AcqRel);
        self.write_back(HEARTBEAT_WORD)
    }

    /// Gives the pool back, if it is still this owner's.
    pub(super) fn release(&self, epoch: u64) -> Result<(), PoolError> {
        if self.epoch() == epoch {
            self.memory.store(RELEASED_WORD, &[epoch]);
            self.write_back(RELEASED_WORD)?;
        }
        Ok(())
    }

    fn write_back(&self, word: usize) -> Result<(), PoolError> {
        self.memory
            .write_back_words(word, 1)
            .map_err(|source| super::attach::system_error(source, "claimed"))
    }
}

/// The first word of a record.
fn record_word(slot: u64) -> usize {
    RECORDS_WORD + slot as usize * RECORD_WORDS
}

/// The bytes of so many words.
fn bytes_of(first: usize, count: usize) -> std::ops::Range<u64> {
    (first * 8) as u64..((first + count) * 8) as u64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::pool::memory::TEST_BYTES;
    use crate::pool::root::Root;
    use crate::pool::{Owner, Pool};

    fn pool() -> Pool {
        let memory = PoolMemory::simulated(TEST_BYTES);
        Pool::create_in(memory, Path::new("simulated")).expect("a pool")
    }

    fn by_force() -> Claim {
        Claim {
            take_over: TakeOver::Now,
            ..Claim::of_this_process()
        }
    }

    fn claim(pool: &Pool) -> Owner {
        pool.claim(&by_force()).expect("an owner")
    }

    fn found(pool: &Pool) -> Vec<u8> {
        let owner = claim(pool);
        owner.published().expect("something").catalog.clone()
    }

    /// A claim that is stopped before it writes its record.
    fn stopped_claim(pool: &Pool) -> OwnerRecord {
        let epoch = pool.ownership().take(&by_force(), false).expect("a claim");
        let root = Root::newest(pool.id(), &pool.memory);
        OwnerRecord {
            epoch,
            name: OwnerName::of_this_process(),
            lease: Duration::from_secs(5),
            accepted_generation: root.map_or(0, |root| root.generation),
            has_lock: false,
        }
    }

    #[test]
    fn a_record_that_comes_late_takes_nothing_from_later_owners() {
        for later in (1..OWNERS as usize).step_by(if cfg!(miri) { 4 } else { 1 }) {
            let pool = pool();
            claim(&pool).publish(&[], b"first").expect("published");
            let late = stopped_claim(&pool);
            let owners: Vec<_> = (0..later).map(|_| claim(&pool)).collect();
            let last = owners.last().expect("an owner");
            last.publish(&[], b"last").expect("published");
            // It had looked at the claim word when it was stopped.
            late.write(pool.id(), &pool.memory).expect("written");
            let known = pool.last_owner().expect("an owner");
            assert_eq!(&known, last.record(), "after {later}");
            assert_eq!(found(&pool), b"last", "after {later}");
        }
    }

    #[test]
    fn of_two_hosts_with_one_epoch_the_one_whose_record_is_there_is_the_owner() {
        let pool = pool();
        let owner = claim(&pool);
        let other_memory = pool.memory.of_another_host().expect("simulated memory");
        owner.check().expect("nobody else's record is there");
        // It had raised the claim word to the same number, unseen, and was held up until now.
        let mut late = owner.record().clone();
        late.name.pid += 1;
        late.write(pool.id(), &other_memory).expect("written");
        for refused in [
            owner.check(),
            owner.renew(),
            owner.publish(&[], b"late").map(drop),
        ] {
            let refused = refused.expect_err("another owner");
            assert_eq!(
                refused,
                PoolError::Owned {
                    record: late.clone()
                }
            );
        }
    }

    #[test]
    fn an_owner_gets_the_lock_once_the_one_before_has_ended() {
        let (pool, name) = (pool(), OwnerName::of_this_process());
        let first = claim(&pool);
        let second = claim(&pool);
        let seems_dead = || pool.ownership().owner(2, &name, true).is_none();
        second.renew().expect("an owner");
        assert!(!second.record().has_lock && !seems_dead());
        drop(first);
        assert!(!seems_dead(), "it could not know yet");
        second.renew().expect("an owner");
        assert!(!pool.memory.try_lock().expect("a lock"));
        assert!(seems_dead(), "who gets its lock knows that it has died");
        drop(second);
        assert!(pool.memory.try_lock().expect("a lock"));
    }

    #[test]
    fn an_owner_that_is_fenced_does_not_keep_the_lock() {
        let pool = pool();
        let first = claim(&pool);
        let second = claim(&pool);
        drop(first);
        let third = claim(&pool);
        drop(third);
        let refused = second.renew().expect_err("fenced");
        assert!(matches!(refused, PoolError::Fenced { .. }), "{refused}");
        assert!(pool.memory.try_lock().expect("a lock"));
    }

    #[test]
    fn an_owner_that_is_fenced_already_writes_no_record() {
        let pool = pool();
        let late = stopped_claim(&pool);
        let owner = claim(&pool);
        let before = pool.memory.write_backs_done();
        let refused = pool.ownership().write_record(&late).expect_err("fenced");
        let (epoch, by_epoch) = (late.epoch, owner.record().epoch);
        assert_eq!(refused, PoolError::Fenced { epoch, by_epoch });
        assert_eq!(pool.memory.write_backs_done(), before);
    }

    #[test]
    fn owners_that_die_while_they_claim_take_no_publication_with_them() {
        let most = OWNERS - 1;
        // Under Miri each pool takes seconds.
        let step = if cfg!(miri) { 21 } else { 1 };
        for torn in (0..1_u32 << most).step_by(step) {
            let pool = pool();
            let owners: Vec<_> = (0..=OWNERS)
                .map(|number| {
                    let owner = claim(&pool);
                    let catalog = number.to_string();
                    owner.publish(&[], catalog.as_bytes()).expect("published");
                    owner
                })
                .collect();
            for dead in 0..most {
                let words = stopped_claim(&pool).words();
                if torn >> dead & 1 == 1 {
                    let first = record_word(words[0] % OWNERS);
                    pool.memory.store(first, &words[..RECORD_FIELDS / 2]);
                }
            }
            assert_eq!(found(&pool), OWNERS.to_string().as_bytes(), "{torn:b}");
            drop(owners);
        }
    }
}
