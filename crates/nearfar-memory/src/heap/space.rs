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

/// Address space for a heap: the tier's capacity by default, or what its DAX device has left of its
/// budget, in whole arenas' units.
pub(super) fn reserve_bytes(system: &MemorySystem, tier: TierId, options: HeapOptions) -> usize {
    let info = system.info(tier);
    let all = match info.has_nodes() {
        true => info.capacity_bytes,
        // All of it is charged, so that it cannot be more than there is.
        false => system.ledger().available_bytes(tier) / ARENA_ALIGN as u64 * ARENA_ALIGN as u64,
    };
    let all = usize::try_from(all).unwrap_or(usize::MAX);
    let wanted = options.reserve_bytes.unwrap_or(all);
    // Beyond this no machine has address space.
    wanted
        .clamp(ARENA_ALIGN, 1 << 46)
        .next_multiple_of(ARENA_ALIGN)
}

/// Address space of one heap. mimalloc never forgets an arena, so that space which has any is kept
/// for the next heap of the same shape.
pub(super) struct Space {
    pub(super) map: Arc<Mapping>,
    /// The bytes of the mapping that are this heap's.
    pub(super) range: Range<usize>,
    nodes: NodeSet,
    huge_pages: bool,
    /// The arenas made so far, from the front, each of [`ARENA_BYTES_MAX`] but for the last.
    pub(super) arenas: Vec<&'static Arena>,
    /// The part of a DAX device that it is, if it is one.
    device: Option<DevicePart>,
}

/// A part of a tier's DAX device, charged as long as it is held. Space that arenas were made in holds it
/// until the process ends, for the next heap on that tier.
struct DevicePart {
    /// Declared first: it is given back before its bytes are.
    extents: DaxExtents,
    system: Arc<MemorySystem>,
    tier: TierId,
    bytes: u64,
}

impl Drop for DevicePart {
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
        huge_pages: bool,
    ) -> Result<Self, HeapError> {
        let info = system.info(tier);
        let name = || info.name.clone();
        if !info.has_nodes() {
            return Err(HeapError::NotAllocatable { tier: name() });
        }
        let nodes = system.node_set(tier);
        match prefer(&map, range.clone(), nodes) {
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
        let advice = if huge_pages {
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
            huge_pages,
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
        if !system.ledger().try_take(Taker::Heap, tier, bytes as u64) {
            return Err(HeapError::Arena {
                tier: name(),
                reserve_bytes: bytes,
                available_bytes: system.ledger().available_bytes(tier),
            });
        }
        let extents = device.take(bytes as u64).inspect_err(|_| {
            let ledger = system.ledger();
            ledger.give_back(Taker::Heap, tier, bytes as u64);
        });
        let part = DevicePart {
            extents: extents.map_err(failed)?,
            system: Arc::clone(system),
            tier,
            bytes: bytes as u64,
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
        let part = self.device.as_ref();
        part.is_some_and(|part| Arc::ptr_eq(&part.system, system) && part.tier == tier)
    }

    pub(super) fn retired_or_new(
        system: &Arc<MemorySystem>,
        tier: TierId,
        bytes: usize,
        huge_pages: bool,
    ) -> Result<Self, HeapError> {
        let device = system.device(tier).map_err(|source| HeapError::Dax {
            tier: system.name(tier),
            source,
        })?;
        let nodes = system.node_set(tier);
        // Pages of a device are as large as it says.
        let huge_pages = huge_pages && device.is_none();
        let bytes = device
            .as_ref()
            .map_or(bytes, |device| bytes.next_multiple_of(device.page_bytes()));
        let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |space: &Space| {
            let is_alike = (space.nodes, space.huge_pages) == (nodes, huge_pages);
            space.range.len() == bytes
                && is_alike
                && space.is_prepaid() == device.is_some()
                && (device.is_none() || space.is_of(system, tier))
        };
        if let Some(position) = retired.iter().position(fits) {
            return Ok(retired.swap_remove(position));
        }
        drop(retired);
        if let Some(device) = device {
            return Self::on_device(system, tier, &device, bytes);
        }
        let map = map_for_heaps(system, tier, bytes, ARENA_ALIGN)?;
        Self::new(system, tier, Arc::new(map), 0..bytes, huge_pages)
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
fn prefer(map: &Mapping, range: Range<usize>, nodes: NodeSet) -> Result<(), SysError> {
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
