//! The right to write: extents, and their publication.

use std::collections::{HashMap, HashSet};
use std::hash::Hasher;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use twox_hash::XxHash3_64;

use super::attach::{Pool, system_error_at};
use super::catalog::{Catalog, Retired};
use super::error::PoolError;
use super::extent::{Extent, ExtentHandle, Holder};
use super::intents::Intents;
use super::ownership::{Claim, OwnerRecord};
use super::reader_slots::Slots;
use super::root::Root;
use super::space::Space;

/// What was published last.
#[derive(Debug, Clone)]
pub struct Published {
    /// Counts publications, from one.
    pub generation: u64,
    /// The extents, in the order in which they were published.
    pub extents: Vec<Arc<ExtentHandle>>,
    /// What the publisher said of them.
    pub catalog: Vec<u8>,
}

/// The owner of a pool. It stays the owner as long as this or a handle on an extent lives, or until
/// somebody takes the pool over; then it must not use what it has any longer.
#[derive(Debug, Clone)]
pub struct Owner {
    core: Arc<OwnerCore>,
    published: Option<Arc<Published>>,
}

/// What handles on extents hold on to.
#[derive(Debug)]
pub(super) struct OwnerCore {
    pool: Pool,
    record: OwnerRecord,
    /// Whether it has the lock of the file, since its claim or by now.
    has_lock: AtomicBool,
    renewed: Mutex<Instant>,
    /// Held by the one publication that is under way.
    publishing: Mutex<()>,
    /// Where this and `state` are both needed, `state` is locked first.
    intents: Intents,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    space: Space,
    root: Option<Root>,
    /// The extents of the root, its catalog among them.
    rooted: Vec<Rooted>,
    /// Those of earlier roots that readers may use, whose space counts as that of a root.
    retired: Vec<Retired>,
    /// Whether a catalog is being written that tells which extents are retired: these stay so until it is published.
    is_publishing: bool,
    /// The last generation that was published, or one that none that may have been seen is later than.
    last_generation: u64,
}

/// An extent that is published.
#[derive(Debug, Clone, Copy)]
struct Rooted {
    extent: Extent,
    /// The first publication that had it, or zero where that is not known.
    first_generation: u64,
}

impl State {
    /// What is rooted once `extents` are published as this generation.
    fn rooted_by(&self, extents: &[Extent], generation: u64) -> Vec<Rooted> {
        let before = self.rooted.iter();
        let before = before.map(|it| (it.extent.offset, it.first_generation));
        let before: HashMap<u64, u64> = before.collect();
        let rooted = extents.iter().map(|extent| Rooted {
            extent: *extent,
            first_generation: *before.get(&extent.offset).unwrap_or(&generation),
        });
        rooted.collect()
    }

    /// What is retired once `extents` are published: what is published now and not then, and what is by now.
    fn retired_by(&self, extents: &[Extent]) -> Vec<Retired> {
        let kept: HashSet<u64> = extents.iter().map(|extent| extent.offset).collect();
        let last_generation = self.last_generation;
        let left = self.rooted.iter();
        let left = left.filter(|it| !kept.contains(&it.extent.offset));
        let new = left.map(|it| Retired {
            offset: it.extent.offset,
            bytes: it.extent.bytes,
            first_generation: it.first_generation,
            last_generation,
        });
        self.retired.iter().copied().chain(new).collect()
    }
}

impl Owner {
    pub(super) fn claim(pool: &Pool, claim: &Claim) -> Result<Self, PoolError> {
        let (mut owner, in_the_way) = Self::take(pool, claim, true)?;
        if owner.core.state().root.is_none() {
            owner.core.check_unread()?;
        }
        owner.adopt()?;
        owner.core.set_aside(&in_the_way);
        owner.core.release_free();
        Ok(owner)
    }

    /// Claims the pool; its space is all free but for what earlier owners may still change. Not while somebody reads what
    /// nobody knows any more.
    pub(super) fn claim_empty(pool: &Pool, claim: &Claim) -> Result<Self, PoolError> {
        // From here on no reader finds what was published.
        let (owner, in_the_way) = Self::take(pool, claim, false)?;
        if let Err(read) = owner.core.check_unread() {
            // Whoever claims it next does.
            owner.core.accept()?;
            return Err(read);
        }
        owner.core.set_aside(&in_the_way);
        Ok(owner)
    }

    /// Becomes the owner; whether what was published goes on to count. Also what earlier owners may still change.
    fn take(
        pool: &Pool,
        claim: &Claim,
        accepts: bool,
    ) -> Result<(Self, Vec<Range<u64>>), PoolError> {
        let failed = |source| system_error_at(pool.path(), source, "claimed");
        let is_locked = pool.memory.try_lock().map_err(failed)?;
        let ownership = pool.ownership();
        let taken = ownership.take(claim, is_locked);
        let unlock = || {
            if is_locked {
                pool.memory.unlock();
            }
        };
        let epoch = taken.inspect_err(|_| unlock())?;
        let last = ownership.owner(epoch - 1, &claim.name, is_locked);
        let in_the_way = Intents::of_earlier(pool, epoch, last.is_none());
        pool.memory.drop_cached(0..pool.extents().start);
        let root = Root::newest(pool.identity.id, &pool.memory);
        let record = OwnerRecord {
            epoch,
            name: claim.name.clone(),
            lease: claim.lease,
            accepted_generation: root.filter(|_| accepts).map_or(0, |root| root.generation),
            has_lock: is_locked,
        };
        ownership.write_record(&record).inspect_err(|_| unlock())?;
        for reader in &claim.forget_readers {
            let was_there = pool.forget_reader(reader).inspect_err(|_| unlock())?;
            tracing::info!(
                reader,
                was_there,
                "a reader of the pool is taken for gone for good"
            );
        }
        let state = State {
            space: Space::new(pool.extents()),
            root,
            rooted: Vec::new(),
            retired: Vec::new(),
            is_publishing: false,
            last_generation: root.map_or(0, |root| root.generation),
        };
        let core = OwnerCore {
            pool: pool.clone(),
            record,
            has_lock: AtomicBool::new(is_locked),
            renewed: Mutex::new(Instant::now()),
            publishing: Mutex::default(),
            intents: Intents::new(pool.clone(), epoch),
            state: Mutex::new(state),
        };
        let owner = Self {
            core: Arc::new(core),
            published: None,
        };
        Ok((owner, in_the_way))
    }

    /// Reads what was published and counts its space.
    fn adopt(&mut self) -> Result<(), PoolError> {
        let Some(root) = self.core.state().root else {
            return Ok(());
        };
        // SAFETY: the pool is this process's, which has given no space out yet.
        let catalog = unsafe { Catalog::read(&self.core.pool, root)? };
        let extents = catalog.extents;
        let mut state = self.core.state();
        let rooted = extents.iter().copied().chain([root.catalog_extent()]);
        let rooted = rooted.map(|extent| Rooted {
            extent,
            first_generation: 0,
        });
        state.rooted = rooted.collect();
        state.retired = catalog.retired;
        let rooted = state.rooted.iter().map(|it| it.extent);
        let rooted = rooted.map(|extent| (extent.offset, extent.bytes));
        let retired = state.retired.iter().map(|it| (it.offset, it.bytes));
        let counted: Vec<(u64, u64)> = rooted.chain(retired).collect();
        let mut counted = counted.into_iter();
        if !counted.all(|(offset, bytes)| state.space.add_root(offset, bytes)) {
            return Err(PoolError::Catalog {
                reason: "its extents overlap or lie outside",
            });
        }
        drop(state);
        let handles = extents.iter().map(|extent| self.core.handle(*extent));
        self.published = Some(Arc::new(Published {
            generation: root.generation,
            extents: handles.collect(),
            catalog: catalog.content,
        }));
        self.core.drop_retired(None);
        Ok(())
    }

    /// What was published when this owner began; `None` when nothing was.
    #[must_use]
    pub fn published(&self) -> Option<&Published> {
        self.published.as_deref()
    }

    /// The same, which this owner holds on to no longer: the space of extents that are not published
    /// again is free once nobody else does.
    pub fn take_published(&mut self) -> Option<Arc<Published>> {
        self.published.take()
    }

    /// Who this owner is.
    #[must_use]
    pub fn record(&self) -> &OwnerRecord {
        &self.core.record
    }

    /// Bytes that can still be written.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.core.state().space.free_bytes()
    }

    /// Writes a new extent of these parts, one after the other. It is of no account for later
    /// owners until it is published; its space is free again when the handle is gone before that.
    ///
    /// # Errors
    /// [`PoolError::Full`], [`PoolError::Fenced`], [`PoolError::GivenBack`], or the kernel's, such as
    /// `ENOSPC`.
    pub fn write(&self, parts: &[&[u8]]) -> Result<Arc<ExtentHandle>, PoolError> {
        self.check()?;
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        let offset = self.core.take(bytes)?;
        let written = self.core.fill(offset, bytes, parts);
        match written {
            Ok(extent) => {
                let holder = Holder::Owner(Arc::clone(&self.core));
                let handle = ExtentHandle::new(holder, extent, true);
                self.core.state().space.remember(offset, &handle);
                Ok(handle)
            }
            Err(error) => {
                self.core.drop_handle(offset);
                Err(error)
            }
        }
    }

    /// Publishes these extents and what they are, in place of what was published before: all of it
    /// or, when anything fails on the way, nothing.
    ///
    /// # Errors
    /// As [`Self::write`]. What was published before then still is.
    pub fn publish(&self, extents: &[Arc<ExtentHandle>], catalog: &[u8]) -> Result<u64, PoolError> {
        let _alone = self.core.publishing();
        self.core.drop_retired(None);
        self.core.state().is_publishing = true;
        let published = self.publish_alone(extents, catalog);
        self.core.state().is_publishing = false;
        self.core.drop_retired(None);
        let generation = published?;
        self.check()?;
        Ok(generation)
    }

    /// The same, while nothing else is published and no retired extent becomes free.
    fn publish_alone(
        &self,
        extents: &[Arc<ExtentHandle>],
        catalog: &[u8],
    ) -> Result<u64, PoolError> {
        let extents: Vec<Extent> = extents.iter().map(|handle| handle.extent()).collect();
        let retired = self.core.state().retired_by(&extents);
        let written = self.write(&[&Catalog::head(&extents, &retired), catalog])?;
        let catalog_extent = written.extent();
        let mut state = self.core.state();
        let root = Root {
            generation: state.last_generation + 1,
            epoch: self.core.record.epoch,
            catalog_offset: catalog_extent.offset,
            catalog_bytes: catalog_extent.bytes,
            catalog_checksum: catalog_extent.checksum,
        };
        self.check()?;
        let mut rooted = extents;
        rooted.push(catalog_extent);
        for extent in &rooted {
            state.space.add_root(extent.offset, extent.bytes);
        }
        let pool = &self.core.pool;
        // Where this fails, nobody knows how much of the root is in memory: the new extents stay
        // counted, as the old ones do, and the next generation is a later one for the same slot.
        state.last_generation = root.generation + 1;
        root.write(pool.identity.id, &pool.memory)
            .map_err(|source| system_error_at(pool.path(), source, "published to"))?;
        state.last_generation = root.generation;
        let kept: HashSet<u64> = rooted.iter().map(|extent| extent.offset).collect();
        let rooted = state.rooted_by(&rooted, root.generation);
        let before = std::mem::replace(&mut state.rooted, rooted);
        state.root = Some(root);
        state.retired = retired;
        // They are counted for the new root by now, and the others as retired.
        for before in before.iter().filter(|it| kept.contains(&it.extent.offset)) {
            state.space.drop_root(before.extent.offset);
        }
        Ok(root.generation)
    }

    /// Says that this owner lives. To be called a few times per lease. An owner that has taken the pool
    /// from a process that had the lock of the file gets the lock here, once that process has ended. Space that readers have
    /// let go of is free from here on.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn renew(&self) -> Result<(), PoolError> {
        self.beat()?;
        self.core.drop_retired(Some(self.core.record.lease / 10));
        Ok(())
    }

    fn beat(&self) -> Result<(), PoolError> {
        let ownership = self.core.pool.ownership();
        ownership.check_owner(&self.core.record)?;
        ownership.beat()?;
        self.core.lock_file()?;
        *self
            .core
            .renewed
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Ok(())
    }

    /// Time since the lease was last renewed.
    #[must_use]
    pub fn silent_for(&self) -> Duration {
        self.core
            .renewed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed()
    }

    /// Who has claimed the pool last: this owner, or who has taken it over. That one may be in the
    /// midst of writing who it is, which is waited for a little.
    #[must_use]
    pub fn successor(&self) -> OwnerRecord {
        let ownership = self.core.pool.ownership();
        for _ in 0..20 {
            let record = ownership.record(ownership.epoch());
            if record.name.pid != 0 {
                return record;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        ownership.record(ownership.epoch())
    }

    /// Gives the pool back before the last handle on it is gone, once what is being written is.
    /// Nothing is written after that.
    ///
    /// # Errors
    /// The kernel's.
    pub fn give_back(&self) -> Result<(), PoolError> {
        self.core.intents.end();
        self.core.pool.ownership().release(self.core.record.epoch)
    }

    #[cfg(test)]
    pub(super) fn intents(&self) -> &Intents {
        &self.core.intents
    }

    /// Whether this owner still is the owner; renews the lease where half of it is over.
    ///
    /// # Errors
    /// [`PoolError::Fenced`]; [`PoolError::Owned`] by a host whose claim this one has not seen, and whose record took the
    /// place of its own.
    pub fn check(&self) -> Result<(), PoolError> {
        if self.silent_for() > self.core.record.lease / 2 {
            return self.beat();
        }
        self.core.pool.ownership().check_owner(&self.core.record)
    }
}

impl OwnerCore {
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    fn publishing(&self) -> MutexGuard<'_, ()> {
        self.publishing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody may look at what was published before.
    ///
    /// # Errors
    /// [`PoolError::Read`].
    fn check_unread(&self) -> Result<(), PoolError> {
        match Slots(&self.pool).held()[..] {
            [] => Ok(()),
            _ => Err(PoolError::Read {
                readers: self.pool.readers(),
            }),
        }
    }

    /// Says that what was published counts after all.
    fn accept(&self) -> Result<(), PoolError> {
        let record = OwnerRecord {
            accepted_generation: self.state().last_generation,
            ..self.record.clone()
        };
        self.pool.ownership().write_record(&record)
    }

    /// Lets the space of extents that are published no longer, and that no reader may look at, be used again. Ends after
    /// `time` with what is left for the next call.
    fn drop_retired(&self, time: Option<Duration>) {
        let begun = Instant::now();
        let mut state = self.state();
        if state.retired.is_empty() || state.is_publishing {
            return;
        }
        let held = Slots(&self.pool).held();
        let is_held = |retired: &Retired| held.iter().any(|held| retired.is_in(held));
        let (mut left, over): (Vec<_>, Vec<_>) = state.retired.iter().copied().partition(is_held);
        for retired in over {
            if time.is_some_and(|time| begun.elapsed() > time) {
                left.push(retired);
            } else if let Some(free) = state.space.drop_root(retired.offset) {
                self.release(free);
            }
        }
        state.retired = left;
    }

    /// Takes the lock of the file where this owner has not got it, if it is free.
    fn lock_file(&self) -> Result<(), PoolError> {
        let memory = &self.pool.memory;
        if self.has_lock.load(Ordering::Acquire) || !matches!(memory.try_lock(), Ok(true)) {
            return Ok(());
        }
        let (ownership, epoch) = (self.pool.ownership(), self.record.epoch);
        ownership.check(epoch).inspect_err(|_| memory.unlock())?;
        // Before the word says so: who reads it takes a free lock for the death of this owner.
        self.has_lock.store(true, Ordering::Release);
        ownership.say_locked(epoch)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, bytes: u64) -> Result<u64, PoolError> {
        if let Some(offset) = self.state().space.take(bytes) {
            return Ok(offset);
        }
        self.drop_retired(None);
        let mut state = self.state();
        state.space.take(bytes).ok_or_else(|| PoolError::Full {
            bytes,
            largest_free_bytes: state.space.largest_free_bytes(),
            read_bytes: state.retired.iter().map(|it| it.bytes).sum(),
        })
    }

    /// Writes the parts into space that was taken, and has them in memory for good.
    fn fill(&self, offset: u64, bytes: u64, parts: &[&[u8]]) -> Result<Extent, PoolError> {
        let _intent = self.intents.begin(offset..offset + bytes)?;
        let failed = |source| system_error_at(self.pool.path(), source, "written");
        let memory = &self.pool.memory;
        memory.reserve(offset..offset + bytes).map_err(failed)?;
        let mut sum = XxHash3_64::new();
        let mut carried = Vec::with_capacity(8);
        let mut at = offset;
        for part in parts {
            sum.write(part);
            let mut rest = *part;
            if !carried.is_empty() {
                let fill = rest.len().min(8 - carried.len());
                carried.extend_from_slice(&rest[..fill]);
                rest = &rest[fill..];
                if carried.len() < 8 {
                    continue;
                }
                memory.write(at, &carried);
                at += 8;
                carried.clear();
            }
            let whole = rest.len() / 8 * 8;
            memory.write(at, &rest[..whole]);
            at += whole as u64;
            carried.extend_from_slice(&rest[whole..]);
        }
        memory.write(at, &carried);
        memory.write_back(offset..offset + bytes).map_err(failed)?;
        Ok(Extent {
            offset,
            bytes,
            checksum: sum.finish(),
        })
    }

    fn handle(self: &Arc<Self>, extent: Extent) -> Arc<ExtentHandle> {
        let make = || {
            self.pool
                .memory
                .drop_cached(extent.offset..extent.offset + extent.bytes);
            ExtentHandle::new(Holder::Owner(Arc::clone(self)), extent, false)
        };
        let handle = self.state().space.handle(extent.offset, make);
        handle.expect("the extent was counted for its root")
    }

    /// Gives back the memory behind all free space, where whoever was here before left some.
    fn release_free(&self) {
        let state = self.state();
        for free in state.space.free() {
            self.release(free);
        }
    }

    /// Gives back the memory behind a free extent. Only with `state` locked, so that nobody is given
    /// the extent meanwhile; and only as long as the pool is this owner's, because what is free for it
    /// may be in use by the next.
    fn release(&self, free: Range<u64>) {
        match self.intents.begin(free.clone()) {
            Ok(_intent) => self.pool.memory.release(free),
            Err(error) => tracing::debug!(%error, "pages of a free extent are left alone"),
        }
    }

    /// Keeps off what earlier owners may still change, as far as it is free: what is published they
    /// do not change.
    fn set_aside(&self, in_the_way: &[Range<u64>]) {
        let mut state = self.state();
        let before = state.space.free_bytes();
        for range in in_the_way {
            state.space.set_aside(range);
        }
        let bytes = before - state.space.free_bytes();
        if bytes > 0 {
            tracing::warn!(
                bytes,
                "an earlier owner may still write to the pool: this owner does not use these bytes"
            );
        }
    }

    pub(super) fn drop_handle(&self, offset: u64) {
        let mut state = self.state();
        if let Some(free) = state.space.drop_handle(offset) {
            self.release(free);
        }
    }
}

impl Drop for OwnerCore {
    fn drop(&mut self) {
        if let Err(error) = self.pool.ownership().release(self.record.epoch) {
            tracing::warn!(%error, "the pool could not be given back: the next owner waits for the lease");
        }
        if *self.has_lock.get_mut() {
            self.pool.memory.unlock();
        }
    }
}
