//! Regions: memory with a placement that is populated, checked and accounted.

mod append;
mod buffer;
mod dax;
mod error;
mod migrate;
mod populate;
mod shelf;
mod slabs;
mod verify;

use std::fmt;
use std::ops::Range;
use std::panic::RefUnwindSafe;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

pub use append::{AppendArea, AppendedBytes};
pub use error::RegionError;
pub use shelf::{Shelf, ShelfBlock};
pub use slabs::{SlabHeap, SlabUsage};
pub use verify::Verification;

use crate::dax::DaxExtents;
use crate::layout::Layout;
use crate::placement::{OverBudget, PageSize, Placement, RegionOptions};
use crate::sys::{self, HUGE_PAGE_BYTES, Mapping, MappingKind, SysError};
use crate::system::{MemorySystem, Taken};
use crate::tier::{TierBytes, TierId};

/// A range of memory whose pages lie on tiers as its placement says.
///
/// All pages are there from the start: touching a region never faults and never allocates.
/// Dropping it unmaps the pages and gives the bytes back to the budgets.
///
/// A region is one kernel mapping per distinct kernel policy at most, however finely its placement
/// alternates: pages are populated run by run while the policy of the whole range is switched, and
/// it is left with one policy over all its nodes, which also keeps the kernel's automatic balancing
/// from moving its pages. That policy is strict, but for a tier of several nodes alone: pages that go
/// round these may come from others when one is full, which the check of every page then finds.
///
/// ```
/// use nearfar_memory::{Budgets, MemorySystem, Placement, Region, RegionOptions, TierId};
/// use nearfar_memory::{TierKind, TierSpec};
///
/// let near = TierSpec::new("near", TierKind::LocalDram, [0], 1 << 30);
/// let far = TierSpec::new("far", TierKind::Modelled, [0], 1 << 30);
/// let system = MemorySystem::from_specs(vec![near, far], &Budgets::new())?;
/// let both = Placement::Interleave(vec![TierId::NEAR, system.tier("far")?]);
/// let mut region = Region::allocate(&system, 1 << 20, &both, RegionOptions::default())?;
/// region.as_mut_slice()[0] = 1;
/// assert_eq!(region.tier_bytes(0..region.len())[TierId::NEAR], 1 << 19);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Region {
    map: Mapping,
    kind: MappingKind,
    bytes: usize,
    placed: RwLock<Placed>,
    /// What of DAX devices is mapped in it; declared after the mapping, so that others get it only then.
    dax: Vec<(TierId, DaxExtents)>,
    /// What the ledger holds for this region; its lock also keeps migrations apart. Declared after
    /// the mapping, so that bytes are given back once the pages are.
    taken: Mutex<Taken>,
    system: Arc<MemorySystem>,
}

/// Where the pages are.
struct Placed {
    placement: Placement,
    layout: Layout,
    verification: Verification,
}

// A panic between two steps of a migration leaves the old placement in force, and all other state
// behind the locks is replaced in one assignment.
impl RefUnwindSafe for Region {}

impl fmt::Debug for Region {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Region")
            .field("bytes", &self.bytes)
            .field("placement", &self.placement())
            .finish_non_exhaustive()
    }
}

impl Region {
    /// Makes a region of `bytes` bytes, all zero, in whole pages (at least one).
    ///
    /// Every page is populated, with the tier's free memory looked at first and again as it goes,
    /// since a strict policy on a full node would have the kernel kill the process; then the kernel
    /// is asked where every page is. Where a sandbox forbids these questions or the policy calls,
    /// the region is made nevertheless if the machine has but one node, or if only the questions
    /// are forbidden; [`Self::verification`] then says that it is unverified, and why.
    ///
    /// What lies on a DAX device ([`TierBackend::Dax`](crate::TierBackend::Dax)) is mapped from
    /// there. Alone on such a tier, a region has pages of the device's alignment, if that is larger
    /// than the page asked for; together with other tiers it needs pages that the alignment divides.
    ///
    /// # Errors
    /// [`RegionError`]; nothing is left behind.
    pub fn allocate(
        system: &Arc<MemorySystem>,
        bytes: usize,
        placement: &Placement,
        options: RegionOptions,
    ) -> Result<Self, RegionError> {
        placement.check(system.tier_count())?;
        let page_bytes = dax::page_bytes(system, placement, options.page_size)?;
        let pages = bytes.div_ceil(page_bytes).max(1);
        if pages
            .checked_mul(page_bytes)
            .is_none_or(|total| total > isize::MAX as usize)
        {
            return Err(RegionError::TooLarge {
                requested_bytes: bytes,
            });
        }
        let mut taken = None;
        let (placement, layout) = settle_placement(
            system,
            placement,
            options.over_budget,
            page_bytes,
            pages,
            |wanted| {
                taken = Some(system.take(*wanted)?);
                Ok(())
            },
        )?;
        let Some(mut taken) = taken else {
            unreachable!("a settled placement has taken its bytes")
        };
        if dax::page_bytes(system, &placement, options.page_size)? != page_bytes {
            // It was spilled from a device, whose pages were larger.
            drop(taken);
            return Self::allocate(system, bytes, &placement, options);
        }
        let requested_bytes = system.kernel_bytes(&layout.all_bytes());
        let allowed = system.check_cgroup(requested_bytes);
        allowed.map_err(|limit| RegionError::over_cgroup(requested_bytes, limit))?;
        let (map, kind, policy) = map_and_populate(system, &layout, options.page_size, &mut taken)?;
        let dax = dax::map(system, &map, &layout)?;
        let verification = verify::verify(system, &map, kind, &layout, policy)?;
        let verification = dax::verify(system, &map, &layout, &dax, verification)?;
        taken.populated(u64::MAX);
        Ok(Self {
            map,
            kind,
            bytes,
            placed: RwLock::new(Placed {
                placement,
                layout,
                verification,
            }),
            dax,
            taken: Mutex::new(taken),
            system: Arc::clone(system),
        })
    }

    /// The bytes asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether no byte was asked for; there is a page even so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes asked for, as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping has at least `bytes` bytes, all populated and initialised (to zero,
        // at first); they are written only through `&mut self`, and moving pages between nodes does
        // not change them.
        unsafe { std::slice::from_raw_parts(self.map.base().as_ptr(), self.bytes) }
    }

    /// The bytes asked for, as a mutable slice.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `&mut self` excludes every other reference.
        unsafe { std::slice::from_raw_parts_mut(self.map.base().as_ptr(), self.bytes) }
    }

    /// The bytes of `range` on each tier, by arithmetic: cheap enough to ask per scanned batch.
    ///
    /// During a migration this is still the placement that it started from.
    ///
    /// # Panics
    /// When `range` lies outside of the region, as a slice would.
    #[must_use]
    pub fn tier_bytes(&self, range: Range<usize>) -> TierBytes {
        assert!(
            range.start <= range.end && range.end <= self.bytes,
            "range {range:?} lies outside of a region of {} bytes",
            self.bytes
        );
        self.placed.read().layout.bytes(range)
    }

    /// The placement in force, which spilling may have made another than was asked for.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placed.read().placement.clone()
    }

    /// What the last check of the pages' places found.
    #[must_use]
    pub fn verification(&self) -> Verification {
        self.placed.read().verification.clone()
    }

    /// Asks the kernel anew where every page is.
    ///
    /// # Errors
    /// [`RegionError::Misplaced`] when pages lie elsewhere than on their tier,
    /// [`RegionError::Query`] when the kernel cannot be asked.
    pub fn verify(&self) -> Result<(), RegionError> {
        // Holding the lock keeps a migration from moving pages meanwhile.
        let _taken = self.taken.lock();
        let placed = self.placed.read();
        verify::check_pages(&self.system, &self.map, self.kind, &placed.layout)?
            .and(dax::check(
                &self.system,
                &self.map,
                &placed.layout,
                &self.dax,
            )?)
            .map_err(|source| RegionError::Query { source })
    }

    /// Bytes of a page of the placement.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.placed.read().layout.page_bytes()
    }

    /// Bytes in whole pages: what the ledger counts.
    #[must_use]
    pub fn mapped_bytes(&self) -> usize {
        self.map.len()
    }

    /// Bytes that lie in huge pages now, explicit or transparent.
    ///
    /// # Errors
    /// The error of asking, `ENOTTY` before Linux 6.7.
    pub fn huge_page_bytes(&self) -> Result<usize, SysError> {
        match self.kind {
            MappingKind::HugeTlb => Ok(self.map.len()),
            _ => sys::huge_bytes(&self.map),
        }
    }

    /// The system that accounts for this region.
    #[must_use]
    pub fn system(&self) -> &Arc<MemorySystem> {
        &self.system
    }
}

/// Finds the placement that the budgets allow and takes its bytes with `take`, which names a tier
/// when that lacks room.
fn settle_placement(
    system: &MemorySystem,
    placement: &Placement,
    over_budget: OverBudget,
    page_bytes: usize,
    pages: usize,
    mut take: impl FnMut(&TierBytes) -> Result<(), TierId>,
) -> Result<(Placement, Layout), RegionError> {
    placement.check(system.tier_count())?;
    let mut placement = placement.clone();
    // Each tier can be spilled from once; a second time would lead around in a circle.
    let mut spilled = 0;
    loop {
        if let Some(tier) = placement
            .tiers()
            .find(|tier| !system.info(*tier).is_allocatable())
        {
            return Err(RegionError::NotAllocatable {
                tier: system.name(tier),
            });
        }
        let layout = Layout::new(&placement, page_bytes, pages);
        let wanted = layout.all_bytes();
        let taken = take(&wanted).or_else(|full| {
            if system.reclaim(full) {
                take(&wanted)
            } else {
                Err(full)
            }
        });
        let Err(full) = taken else {
            return Ok((placement, layout));
        };
        spilled += 1;
        let next = match over_budget {
            OverBudget::Spill if spilled < system.tier_count() => next_tier(system, full, &wanted),
            _ => None,
        };
        let Some(next) = next else {
            let state = system.ledger().state(full);
            return Err(RegionError::OverBudget {
                tier: system.info(full).name.clone(),
                requested_bytes: wanted[full],
                available_bytes: state.budget_bytes.saturating_sub(state.used_bytes),
                budget_bytes: state.budget_bytes,
            });
        };
        tracing::debug!(from = %system.info(full).name, to = %system.info(next).name, "spilling");
        placement = placement.with_replaced(full, next);
    }
}

/// The tier that takes what `full` cannot: the next farther one with room, else the next nearer.
fn next_tier(system: &MemorySystem, full: TierId, wanted: &TierBytes) -> Option<TierId> {
    let farther = full.index() + 1..system.tier_count();
    let nearer = (0..full.index()).rev();
    farther
        .chain(nearer)
        .filter_map(TierId::from_index)
        .find(|tier| {
            system.info(*tier).has_nodes()
                && system.ledger().available_bytes(*tier) >= wanted[*tier] + wanted[full]
        })
}

/// Maps the pages of `layout` and populates them: for huge pages in explicitly reserved ones if
/// there are enough, else in transparent ones.
fn map_and_populate(
    system: &MemorySystem,
    layout: &Layout,
    page_size: PageSize,
    taken: &mut Taken,
) -> Result<(Mapping, MappingKind, populate::PolicyOutcome), RegionError> {
    let requested_bytes = layout.total_bytes();
    let map = |align: usize, kind: MappingKind| {
        Mapping::new(requested_bytes, align, kind).map_err(|source| RegionError::Map {
            requested_bytes,
            source,
        })
    };
    let populate = |map: Mapping, kind: MappingKind, taken: &mut Taken| {
        let policy = populate::populate(system, &map, kind, layout, page_size, taken)?;
        Ok((map, kind, policy))
    };
    let is_reserved = || system.roots().free_huge_pages() >= layout.pages() as u64;
    // Bytes of devices are mapped in place of ordinary pages.
    if page_size == PageSize::Huge && !dax::is_on_devices(system, layout) && is_reserved() {
        let kind = MappingKind::HugeTlb;
        let explicit = map(HUGE_PAGE_BYTES, kind).and_then(|map| populate(map, kind, taken));
        match explicit {
            Ok(done) => return Ok(done),
            Err(error) => {
                tracing::debug!(%error, "no explicit huge pages, trying transparent ones")
            }
        }
    }
    let kind = MappingKind::Anonymous;
    let align = page_size.bytes().max(layout.page_bytes());
    populate(map(align, kind)?, kind, taken)
}
