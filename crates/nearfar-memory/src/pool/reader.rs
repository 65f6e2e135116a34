//! The right to read what another process publishes, in place.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::attach::{EXTENTS_START, Pool};
use super::catalog::Catalog;
use super::error::PoolError;
use super::extent::{Extent, ExtentHandle, Holder, WeakHandle};
use super::identity::Identity;
use super::owner::Published;
use super::reader_slots::{Slot, Slots};
use super::root::Root;

/// A publication that is replaced while it is looked at is looked for again, so many times before the next call does.
const TRIES: u32 = 8;

/// A reader of a pool that another process owns, on this host or on another. It and the handles on what it has read
/// keep the space of these extents from being used again, whoever owns the pool; see [`Pool::read`].
///
/// ```
/// use nearfar_memory::pool::{Claim, Pool, PoolOptions};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("tables.pool");
/// let pool = Pool::create(&path, 8 << 20, PoolOptions::default())?;
/// let owner = pool.claim(&Claim::of_this_process())?;
/// let extent = owner.write(&[b"the column"])?;
/// owner.publish(&[extent], b"what the extents are")?;
///
/// // Another process:
/// let options = PoolOptions { is_read_only: true, ..PoolOptions::default() };
/// let reader = Pool::attach(&path, options)?.read("another")?;
/// let published = reader.newest()?.expect("something was published");
/// owner.publish(&[], b"nothing")?;
/// assert_eq!(published.extents[0].buffer()?.as_slice(), b"the column");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Reader {
    core: Arc<ReaderCore>,
}

/// What handles on extents hold on to.
#[derive(Debug)]
pub(super) struct ReaderCore {
    pool: Pool,
    slot: Slot,
    /// The publication that was attached last. Locked while one is attached, and before `held`.
    seen: Mutex<Option<Root>>,
    held: Mutex<HeldExtents>,
}

/// The extents that there are handles on.
#[derive(Debug, Default)]
struct HeldExtents {
    by_offset: HashMap<u64, HeldExtent>,
    /// How many of them each publication has that is the last one known to have them.
    by_generation: BTreeMap<u64, usize>,
    /// The publication that is being attached.
    attaching: Option<u64>,
    /// What the owner was told last.
    told: Option<RangeInclusive<u64>>,
}

#[derive(Debug)]
struct HeldExtent {
    extent: Extent,
    handle: WeakHandle,
    handles: usize,
    generation: u64,
}

impl Reader {
    pub(super) fn register(pool: &Pool, name: &str) -> Result<Self, PoolError> {
        let slot = Slots(pool).take(name)?;
        let core = ReaderCore {
            pool: pool.clone(),
            slot,
            seen: Mutex::default(),
            held: Mutex::default(),
        };
        Ok(Self {
            core: Arc::new(core),
        })
    }

    /// What is published now, unless that is what this said last; `None` too where nothing is, or an owner is just
    /// taking the pool over. Extents that an earlier publication had too are held as those of this one, so that to call
    /// it now and then lets the owner have the space of the others, once there is no handle on them.
    ///
    /// # Errors
    /// [`PoolError::Forgotten`], after which nothing that was attached may be used any more; [`PoolError::Catalog`]; a pool
    /// that was made anew.
    pub fn newest(&self) -> Result<Option<Published>, PoolError> {
        let core = &self.core;
        let mut seen = core.seen();
        core.check()?;
        let attached = core.attach_newest(*seen);
        core.held().attaching = None;
        core.tell()?;
        let Some((root, published)) = attached? else {
            return Ok(None);
        };
        *seen = Some(root);
        Ok(Some(published))
    }

    /// Gives the reader's place back, where nothing that it has attached is used any more: the owner uses it again.
    ///
    /// # Errors
    /// [`PoolError::Forgotten`], or the kernel's.
    pub fn give_back(&self) -> Result<(), PoolError> {
        Slots(&self.core.pool).give_back(&self.core.slot)
    }

    /// Whether the reader still is one: what it has attached may be used.
    ///
    /// # Errors
    /// [`PoolError::Forgotten`]; a pool that was made anew.
    pub fn check(&self) -> Result<(), PoolError> {
        self.core.check()
    }
}

impl ReaderCore {
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    fn seen(&self) -> MutexGuard<'_, Option<Root>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, HeldExtents> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<(), PoolError> {
        self.pool.memory.drop_cached(0..4096);
        let found = Identity::read(&self.pool.memory, self.pool.path())?;
        if found.id != self.pool.identity.id {
            return Err(PoolError::Forgotten);
        }
        Slots(&self.pool).check(&self.slot)
    }

    /// The newest publication that counts, if it counts for whoever owns the pool next too.
    fn newest_root(&self) -> Option<Root> {
        let memory = &self.pool.memory;
        memory.drop_cached(0..EXTENTS_START);
        let root = Root::newest(self.pool.identity.id, memory)?;
        let ownership = self.pool.ownership();
        let epoch = ownership.epoch();
        if epoch == root.epoch {
            return Some(root);
        }
        // Until the next owner has said which publication it goes on from, nobody knows.
        let record = ownership.record(epoch);
        let goes_on = record.name.pid != 0 && record.accepted_generation >= root.generation;
        goes_on.then_some(root)
    }

    /// Says which publication is looked at, until that still is the newest when the owner can know of it.
    fn hold_newest(&self, seen: Option<Root>) -> Result<Option<Root>, PoolError> {
        for _ in 0..TRIES {
            let Some(root) = self.newest_root().filter(|root| Some(*root) != seen) else {
                return Ok(None);
            };
            self.held().attaching = Some(root.generation);
            self.tell()?;
            if self.newest_root() == Some(root) {
                return Ok(Some(root));
            }
        }
        Ok(None)
    }

    fn attach_newest(
        self: &Arc<Self>,
        seen: Option<Root>,
    ) -> Result<Option<(Root, Published)>, PoolError> {
        let Some(root) = self.hold_newest(seen)? else {
            return Ok(None);
        };
        // SAFETY: the owner knows that this publication is read, and uses the space of nothing that it has.
        let catalog = unsafe { Catalog::read(&self.pool, root)? };
        let broken = |reason| PoolError::Catalog { reason };
        if !catalog.extents.iter().all(|extent| self.pool.has(*extent)) {
            return Err(broken("its extents lie outside"));
        }
        let handles = catalog.extents.iter().map(|extent| {
            let handle = self.handle(*extent, root.generation);
            handle.ok_or(broken("an extent was used again while it was read"))
        });
        let published = Published {
            generation: root.generation,
            extents: handles.collect::<Result<_, _>>()?,
            catalog: catalog.content,
        };
        Ok(Some((root, published)))
    }

    /// The handle on an extent of a publication, or a new one. `None` where there is one on other bytes.
    fn handle(self: &Arc<Self>, extent: Extent, generation: u64) -> Option<Arc<ExtentHandle>> {
        let mut held = self.held();
        let known = held.by_offset.get_mut(&extent.offset);
        if known.as_ref().is_some_and(|known| known.extent != extent) {
            return None;
        }
        let found = known.as_ref().and_then(|known| known.handle.upgrade());
        let handle = found
            .clone()
            .unwrap_or_else(|| ExtentHandle::new(Holder::Reader(Arc::clone(self)), extent, false));
        let new = usize::from(found.is_none());
        let before = match known {
            Some(known) => {
                known.handles += new;
                known.handle = Arc::downgrade(&handle);
                Some(std::mem::replace(&mut known.generation, generation))
            }
            None => {
                let first = HeldExtent {
                    extent,
                    handle: Arc::downgrade(&handle),
                    handles: 1,
                    generation,
                };
                held.by_offset.insert(extent.offset, first);
                None
            }
        };
        if let Some(before) = before {
            held.forget(before);
        }
        *held.by_generation.entry(generation).or_default() += 1;
        Some(handle)
    }

    /// Tells the owner which publications are looked at, unless it knows.
    fn tell(&self) -> Result<(), PoolError> {
        let mut held = self.held();
        let generations = held.generations();
        if held.told != generations {
            Slots(&self.pool).hold(&self.slot, generations.clone())?;
            held.told = generations;
        }
        Ok(())
    }

    /// Whether the publication that was attached last has the extent there.
    pub(super) fn is_current(&self, offset: u64) -> bool {
        let seen = self.seen().map(|root| root.generation);
        let held = self.held();
        let extent = held.by_offset.get(&offset);
        extent.is_some_and(|extent| Some(extent.generation) == seen)
    }

    pub(super) fn drop_handle(&self, offset: u64) {
        let mut held = self.held();
        let Some(extent) = held.by_offset.get_mut(&offset) else {
            return;
        };
        extent.handles -= 1;
        if extent.handles > 0 {
            return;
        }
        let generation = extent.generation;
        held.by_offset.remove(&offset);
        held.forget(generation);
        drop(held);
        match self.tell() {
            Ok(()) | Err(PoolError::Forgotten) => {}
            Err(error) => {
                tracing::warn!(%error, "the owner of the pool keeps an extent for nothing");
            }
        }
    }
}

impl HeldExtents {
    fn generations(&self) -> Option<RangeInclusive<u64>> {
        let handles = self.by_generation.keys().copied();
        let all = || handles.clone().chain(self.attaching);
        Some(all().min()?..=all().max()?)
    }

    /// An extent is not of this publication any more.
    fn forget(&mut self, generation: u64) {
        if let Some(extents) = self.by_generation.get_mut(&generation) {
            *extents -= 1;
            if *extents == 0 {
                self.by_generation.remove(&generation);
            }
        }
    }
}

impl Drop for ReaderCore {
    fn drop(&mut self) {
        match Slots(&self.pool).give_back(&self.slot) {
            Ok(()) | Err(PoolError::Forgotten) => {}
            Err(error) => {
                tracing::warn!(%error, "the owner of the pool takes this reader for one that is there");
            }
        }
    }
}
