//! Which extents of a pool are free.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::extent::{ExtentHandle, WeakHandle};

/// Extents begin and end at multiples of this: pages, so that space can be given back to the file.
pub(super) const EXTENT_GRAIN: u64 = 4096;

/// Why an extent is not free.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Uses {
    bytes: u64,
    /// Handles of this process, or one for whoever is writing it.
    handles: u32,
    /// Roots that mention it: the last that was published, and the one before.
    roots: u32,
}

/// Free and used extents. An extent is free once neither a root nor a handle has it.
#[derive(Debug)]
pub(super) struct Space {
    free: BTreeMap<u64, u64>,
    used: BTreeMap<u64, Uses>,
    handles: HashMap<u64, WeakHandle>,
}

impl Space {
    pub(super) fn new(all: Range<u64>) -> Self {
        Self {
            free: BTreeMap::from([(all.start, all.end - all.start)]),
            used: BTreeMap::new(),
            handles: HashMap::new(),
        }
    }

    /// Takes an extent for `bytes`, counted as one handle; the smallest hole that has room.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        let bytes = round_up(bytes)?;
        let holes = self.free.iter().filter(|(_, free)| **free >= bytes);
        let (offset, free) = holes.min_by_key(|(_, free)| **free)?;
        let (offset, free) = (*offset, *free);
        self.free.remove(&offset);
        if free > bytes {
            self.free.insert(offset + bytes, free - bytes);
        }
        self.used.insert(
            offset,
            Uses {
                bytes,
                handles: 1,
                roots: 0,
            },
        );
        Some(offset)
    }

    /// Counts an extent that a root mentions, where it is free or known. False when it overlaps
    /// something else or lies outside.
    pub(super) fn add_root(&mut self, offset: u64, bytes: u64) -> bool {
        let Some(bytes) = round_up(bytes) else {
            return false;
        };
        if let Some(uses) = self.used.get_mut(&offset) {
            uses.roots += 1;
            return uses.bytes == bytes;
        }
        let before = self.free.range(..=offset).next_back();
        let Some((hole, free)) = before else {
            return false;
        };
        let end = offset.saturating_add(bytes);
        if end > hole + free || !offset.is_multiple_of(EXTENT_GRAIN) {
            return false;
        }
        self.set_aside(&(offset..end));
        self.used.insert(
            offset,
            Uses {
                bytes,
                handles: 0,
                roots: 1,
            },
        );
        true
    }

    /// Takes what is free of a range out of the free extents, in whole grains. It never comes back.
    pub(super) fn set_aside(&mut self, range: &Range<u64>) {
        let start = range.start / EXTENT_GRAIN * EXTENT_GRAIN;
        let end = round_up(range.end).unwrap_or(range.end);
        let holes = self.free.range(..end).map(|(hole, free)| (*hole, *free));
        let touched: Vec<_> = holes.filter(|(hole, free)| hole + free > start).collect();
        for (hole, free) in touched {
            self.free.remove(&hole);
            if hole < start {
                self.free.insert(hole, start - hole);
            }
            if hole + free > end {
                self.free.insert(end, hole + free - end);
            }
        }
    }

    /// A root that mentioned the extent is gone. What became free, if it did.
    pub(super) fn drop_root(&mut self, offset: u64) -> Option<Range<u64>> {
        let uses = self.used.get_mut(&offset)?;
        uses.roots = uses.roots.saturating_sub(1);
        self.free_if_unused(offset)
    }

    /// The handle of this process on a used extent, or the one that `make` makes, counted.
    pub(super) fn handle(
        &mut self,
        offset: u64,
        make: impl FnOnce() -> Arc<ExtentHandle>,
    ) -> Option<Arc<ExtentHandle>> {
        let uses = self.used.get_mut(&offset)?;
        if let Some(handle) = self.handles.get(&offset).and_then(WeakHandle::upgrade) {
            return Some(handle);
        }
        uses.handles += 1;
        let handle = make();
        self.handles.insert(offset, Arc::downgrade(&handle));
        Some(handle)
    }

    /// Remembers the handle of an extent that was just [taken](Self::take).
    pub(super) fn remember(&mut self, offset: u64, handle: &Arc<ExtentHandle>) {
        self.handles.insert(offset, Arc::downgrade(handle));
    }

    /// A handle, or a writer without one, is gone. What became free, if it did.
    pub(super) fn drop_handle(&mut self, offset: u64) -> Option<Range<u64>> {
        let uses = self.used.get_mut(&offset)?;
        uses.handles = uses.handles.saturating_sub(1);
        self.free_if_unused(offset)
    }

    fn free_if_unused(&mut self, offset: u64) -> Option<Range<u64>> {
        let uses = *self.used.get(&offset)?;
        if uses.handles > 0 || uses.roots > 0 {
            return None;
        }
        self.used.remove(&offset);
        self.handles.remove(&offset);
        let (mut start, mut end) = (offset, offset + uses.bytes);
        if let Some(after) = self.free.remove(&end) {
            end += after;
        }
        if let Some((hole, free)) = self.free.range(..start).next_back().map(|(a, b)| (*a, *b))
            && hole + free == start
        {
            self.free.remove(&hole);
            start = hole;
        }
        self.free.insert(start, end - start);
        Some(offset..offset + uses.bytes)
    }

    /// The free extents.
    pub(super) fn free(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.free
            .iter()
            .map(|(offset, bytes)| *offset..offset + bytes)
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.free.values().sum()
    }

    pub(super) fn largest_free_bytes(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }
}

/// `bytes` in whole grains, at least one.
fn round_up(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(EXTENT_GRAIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GRAINS: u64 = 64;

    fn space() -> Space {
        Space::new(EXTENT_GRAIN..EXTENT_GRAIN * (GRAINS + 1))
    }

    #[test]
    fn an_extent_is_free_when_neither_root_nor_handle_has_it() {
        let mut space = space();
        let offset = space.take(5000).unwrap();
        assert!(space.add_root(offset, 5000));
        assert_eq!(space.drop_handle(offset), None, "a root has it");
        assert_eq!(
            space.drop_root(offset),
            Some(offset..offset + 2 * EXTENT_GRAIN)
        );
        assert_eq!(space.free_bytes(), GRAINS * EXTENT_GRAIN);
        assert_eq!(
            space.largest_free_bytes(),
            GRAINS * EXTENT_GRAIN,
            "in one piece"
        );
    }

    #[test]
    fn extents_that_overlap_are_refused() {
        let mut space = space();
        let grain = EXTENT_GRAIN;
        assert!(space.add_root(4 * grain, 2 * grain));
        assert!(!space.add_root(5 * grain, grain), "inside of another");
        assert!(!space.add_root(3 * grain, 2 * grain), "into another");
        assert!(!space.add_root(grain + 1, 10), "not at a page");
        assert!(!space.add_root(GRAINS * grain, 2 * grain), "beyond the end");
        assert!(!space.add_root(0, grain), "before the start");
        assert!(!space.add_root(4 * grain, u64::MAX), "longer than anything");
    }

    #[test]
    fn what_is_set_aside_is_not_given_out() {
        let (mut space, grain) = (space(), EXTENT_GRAIN);
        assert!(space.add_root(4 * grain, 2 * grain));
        space.set_aside(&(3 * grain + 5..7 * grain - 5));
        space.set_aside(&(GRAINS * grain..u64::MAX));
        space.set_aside(&(0..1));
        let free: Vec<_> = space.free().collect();
        assert_eq!(free, [grain..3 * grain, 7 * grain..GRAINS * grain]);
        assert_eq!(space.drop_root(4 * grain), Some(4 * grain..6 * grain));
        let free: Vec<_> = space.free().collect();
        let freed = 4 * grain..6 * grain;
        assert_eq!(free, [grain..3 * grain, freed, 7 * grain..GRAINS * grain]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, ..ProptestConfig::default() })]

        /// Against a map of grains.
        #[test]
        fn taken_extents_never_overlap(steps in prop::collection::vec((0..3_u8, 1..40_000_u64), 1..80)) {
            let mut space = space();
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (what, number) in steps {
                if what == 0 && !held.is_empty() {
                    let (offset, _) = held.swap_remove(number as usize % held.len());
                    prop_assert!(space.drop_handle(offset).is_some());
                } else if let Some(offset) = space.take(number) {
                    held.push((offset, number.next_multiple_of(EXTENT_GRAIN)));
                } else {
                    prop_assert!(space.largest_free_bytes() < number);
                }
                let mut ranges = held.clone();
                ranges.sort_unstable();
                prop_assert!(ranges.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
                let used: u64 = held.iter().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(space.free_bytes(), GRAINS * EXTENT_GRAIN - used);
            }
        }
    }
}
