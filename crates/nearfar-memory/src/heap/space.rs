//! Address space of heaps.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::HeapError;
use super::arena::{ARENA_ALIGN, ARENA_BYTES_MAX, Arena};
use super::tier_heap::HeapOptions;
use crate::sys::{self, Advice, Mapping, MappingKind, NodeSet, Policy, SysError};
use crate::system::MemorySystem;
use crate::tier::TierId;

/// Address space for a heap: the tier's capacity by default, in whole arenas' units.
pub(super) fn reserve_bytes(system: &MemorySystem, tier: TierId, options: HeapOptions) -> usize {
    let capacity = usize::try_from(system.info(tier).capacity_bytes).unwrap_or(usize::MAX);
    let wanted = options.reserve_bytes.unwrap_or(capacity);
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
        if !info.is_allocatable() {
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
        })
    }

    pub(super) fn retired_or_new(
        system: &MemorySystem,
        tier: TierId,
        bytes: usize,
        huge_pages: bool,
    ) -> Result<Self, HeapError> {
        let nodes = system.node_set(tier);
        let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |space: &Space| {
            (space.range.len(), space.nodes, space.huge_pages) == (bytes, nodes, huge_pages)
        };
        if let Some(position) = retired.iter().position(fits) {
            return Ok(retired.swap_remove(position));
        }
        drop(retired);
        let map = map_for_heaps(system, tier, bytes)?;
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

/// Reserves address space for heaps.
pub(super) fn map_for_heaps(
    system: &MemorySystem,
    tier: TierId,
    bytes: usize,
) -> Result<Mapping, HeapError> {
    Mapping::new(bytes, ARENA_ALIGN, MappingKind::Anonymous).map_err(|source| HeapError::Map {
        tier: system.info(tier).name.clone(),
        reserve_bytes: bytes,
        source,
    })
}
