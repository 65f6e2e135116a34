//! Address space of heaps.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::HeapError;
use super::arena::{ARENA_ALIGN, ARENA_BYTES_MAX, Arena};
use super::tier_heap::HeapOptions;
use crate::dax::{DaxDevice, DaxExtents};
use crate::ledger::Taker;
use crate::sys::{self, Advice, Mapping, MappingKind, NodeSet, Policy, SysError};
use crate::system::MemorySystem;
use crate::tier::TierId;

/// Address space for a heap on the nodes of a tier: the tier's capacity by default, in whole arenas' units.
pub(super) fn reserve_bytes(system: &MemorySystem, tier: TierId, options: HeapOptions) -> usize {
    let all = usize::try_from(system.info(tier).capacity_bytes).unwrap_or(usize::MAX);
    in_units(options.reserve_bytes.unwrap_or(all), ARENA_ALIGN)
}

fn in_units(bytes: usize, unit_bytes: usize) -> usize {
    // Beyond this no machine has address space.
    bytes
        .clamp(unit_bytes, 1 << 46)
        .next_multiple_of(unit_bytes)
}

/// Address space of one heap. mimalloc never forgets an arena, so that space which has any is kept
/// for the next heap of the same shape.
pub(super) struct Space {
    pub(super) map: Arc<Mapping>,
    /// The bytes of the mapping that are this heap's.
    pub(super) range: Range<usize>,
    nodes: NodeSet,
    huge_pages: bool,
    kernel_moves: bool,
    /// The arenas made so far, from the front, each of [`ARENA_BYTES_MAX`] but for the last.
    pub(super) arenas: Vec<&'static Arena>,
    /// The part of a DAX device that it is, if it is one.
    device: Option<DevicePart>,
}

/// A part of a tier's DAX device, charged as long as it is held. Space that arenas were made in holds it
/// until the process ends, for the next heap on that tier.
struct DevicePart {
    /// Declared first: it is given back before its charge is, so that what is left of a budget is there.
    extents: DaxExtents,
    charge: DeviceCharge,
}

/// Bytes of a heap on a tier's device.
struct DeviceCharge {
    system: Arc<MemorySystem>,
    tier: TierId,
    bytes: u64,
}

impl DeviceCharge {
    fn take(system: &Arc<MemorySystem>, tier: TierId, bytes: u64) -> Option<Self> {
        let is_taken = system.ledger().try_take(Taker::Heap, tier, bytes);
        is_taken.then(|| Self {
            system: Arc::clone(system),
            tier,
            bytes,
        })
    }
}

impl Drop for DeviceCharge {
    fn drop(&mut self) {
        let ledger = self.system.ledger();
        ledger.give_back(Taker::Heap, self.tier, self.bytes);
    }
}

/// Space without a heap.
static RETIRED: Mutex<Vec<Space>> = Mutex::new(Vec::new());

impl Space {
    /// `range` of `map` for a heap on `tier`.
    pub(super) fn new(
        system: &MemorySystem,
        tier: TierId,
        map: Arc<Mapping>,
        range: Range<usize>,
        options: HeapOptions,
    ) -> Result<Self, HeapError> {
        let info = system.info(tier);
        let name = || info.name.clone();
        if !info.has_nodes() {
            return Err(HeapError::NotAllocatable { tier: name() });
        }
        let nodes = system.node_set(tier);
        match prefer(&map, range.clone(), nodes, options.kernel_moves) {
            Err(error) if error.is_unavailable() && system.has_one_node() => {}
            Err(source) => {
                return Err(HeapError::Bind {
                    tier: name(),
                    nodes: nodes.to_string(),
                    source,
                });
            }
            Ok(()) => {}
        }
        let advice = if options.huge_pages {
            Advice::HugePages
        } else {
            Advice::BasePages
        };
        if let Err(error) = map.advise(range.clone(), advice) {
            tracing::debug!(%error, "page size advice refused");
        }
        Ok(Self {
            map,
            range,
            nodes,
            huge_pages: options.huge_pages,
            kernel_moves: options.kernel_moves,
            arenas: Vec::new(),
            device: None,
        })
    }

    /// So much of the DAX device of `tier`, all of it charged.
    fn on_device(
        system: &Arc<MemorySystem>,
        tier: TierId,
        device: &Arc<DaxDevice>,
        bytes: usize,
    ) -> Result<Self, HeapError> {
        let name = || system.name(tier);
        let failed = |source| HeapError::Dax {
            tier: name(),
            source,
        };
        let charge = DeviceCharge::take(system, tier, bytes as u64);
        let charge = charge.ok_or_else(|| HeapError::Arena {
            tier: name(),
            reserve_bytes: bytes,
            available_bytes: system.ledger().available_bytes(tier),
        })?;
        let part = DevicePart {
            extents: device.take(bytes as u64).map_err(failed)?,
            charge,
        };
        let map = map_for_heaps(system, tier, bytes, device.page_bytes())?;
        let all = 0..bytes;
        let mapped = part.extents.map_zeroed(&map, std::slice::from_ref(&all));
        mapped.map_err(failed)?;
        Ok(Self {
            map: Arc::new(map),
            range: 0..bytes,
            nodes: NodeSet::EMPTY,
            huge_pages: false,
            kernel_moves: false,
            arenas: Vec::new(),
            device: Some(part),
        })
    }

    /// Whether all of it is charged, whatever is used.
    pub(super) fn is_prepaid(&self) -> bool {
        self.device.is_some()
    }

    /// Whether it is a part of the device of this tier.
    fn is_of(&self, system: &Arc<MemorySystem>, tier: TierId) -> bool {
        let charge = self.device.as_ref().map(|part| &part.charge);
        charge.is_some_and(|charge| Arc::ptr_eq(&charge.system, system) && charge.tier == tier)
    }

    pub(super) fn retired_or_new(
        system: &Arc<MemorySystem>,
        tier: TierId,
        options: HeapOptions,
    ) -> Result<Self, HeapError> {
        let device = system.device(tier).map_err(|source| HeapError::Dax {
            tier: system.name(tier),
            source,
        })?;
        match device {
            Some(device) => Self::retired_or_on_device(system, tier, &device, options),
            None => Self::retired_or_on_nodes(system, tier, options),
        }
    }

    fn retired_or_on_nodes(
        system: &MemorySystem,
        tier: TierId,
        options: HeapOptions,
    ) -> Result<Self, HeapError> {
        let bytes = reserve_bytes(system, tier, options);
        let nodes = system.node_set(tier);
        let has_shape = |space: &Space| {
            let pages = (space.huge_pages, space.kernel_moves);
            !space.is_prepaid()
                && (space.nodes, space.range.len()) == (nodes, bytes)
                && pages == (options.huge_pages, options.kernel_moves)
        };
        match Self::retired(has_shape) {
            Some(space) => Ok(space),
            None => {
                let map = map_for_heaps(system, tier, bytes, ARENA_ALIGN)?;
                Self::new(system, tier, Arc::new(map), 0..bytes, options)
            }
        }
    }

    /// By default what a heap before had, or else all that is left of the budget.
    fn retired_or_on_device(
        system: &Arc<MemorySystem>,
        tier: TierId,
        device: &Arc<DaxDevice>,
        options: HeapOptions,
    ) -> Result<Self, HeapError> {
        let unit_bytes = ARENA_ALIGN.max(device.page_bytes());
        let wanted = options.reserve_bytes;
        let wanted = wanted.map(|bytes| in_units(bytes, unit_bytes));
        let fits = |space: &Space| {
            space.is_of(system, tier) && wanted.is_none_or(|bytes| space.range.len() == bytes)
        };
        if let Some(space) = Self::retired(fits) {
            return Ok(space);
        }
        // All of it is charged, so that it cannot be more than there is.
        let left = usize::try_from(system.ledger().available_bytes(tier)).unwrap_or(usize::MAX);
        let all = in_units(left / unit_bytes * unit_bytes, unit_bytes);
        Self::on_device(system, tier, device, wanted.unwrap_or(all))
    }

    /// One of those without a heap.
    fn retired(fits: impl Fn(&Space) -> bool) -> Option<Self> {
        let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
        let position = retired.iter().position(fits)?;
        Some(retired.swap_remove(position))
    }

    /// The number of arenas that there can be.
    pub(super) fn arenas_max(&self) -> usize {
        self.range.len().div_ceil(ARENA_BYTES_MAX)
    }

    /// The bytes of the next arena, if there is room for one.
    pub(super) fn next_arena(&self) -> Option<Range<usize>> {
        let start = self.range.start + self.arenas.len() * ARENA_BYTES_MAX;
        (start < self.range.end).then(|| start..self.range.end.min(start + ARENA_BYTES_MAX))
    }

    pub(super) fn retire(self) {
        for arena in &self.arenas {
            arena.retire();
        }
        if !self.arenas.is_empty() {
            RETIRED
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(self);
        }
    }
}

/// Has the pages of `range` come from `nodes` as long as these have memory.
///
/// A heap is filled as it is used, with no look at what a node has free, so that under a strict
/// policy a full node would have the kernel kill the process. Its pages are charged to its tier
/// wherever they lie.
fn prefer(
    map: &Mapping,
    range: Range<usize>,
    nodes: NodeSet,
    kernel_moves: bool,
) -> Result<(), SysError> {
    if kernel_moves {
        return sys::bind_range(map, range, &Policy::Balanced(nodes));
    }
    if nodes.len() == 1 {
        match sys::bind_range(map, range.clone(), &Policy::PreferredMany(nodes)) {
            // The kernel is older than the policy.
            Err(error) if error.errno == libc::EINVAL => {}
            other => return other,
        }
    }
    sys::bind_range(map, range, &Policy::evenly(nodes))
}

/// Reserves address space for heaps, aligned to `align` and as arenas need it.
pub(super) fn map_for_heaps(
    system: &MemorySystem,
    tier: TierId,
    bytes: usize,
    align: usize,
) -> Result<Mapping, HeapError> {
    Mapping::new(bytes, align.max(ARENA_ALIGN), MappingKind::Anonymous).map_err(|source| {
        HeapError::Map {
            tier: system.info(tier).name.clone(),
            reserve_bytes: bytes,
            source,
        }
    })
}
