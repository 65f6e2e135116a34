//! Asking the kernel where every page is.

use std::time::Duration;

use crate::layout::Layout;
use crate::region::populate::PolicyOutcome;
use crate::region::{RegionError, dax};
use crate::sys::{
    self, BASE_PAGE_BYTES, HUGE_PAGE_BYTES, Mapping, MappingKind, NodeSet, PageLocation, SysError,
};
use crate::system::MemorySystem;
use crate::tier::{MAX_TIERS, TierId};

/// What is known of the pages' places.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verification {
    /// The kernel was asked of every page, and each lies on a node of its tier.
    Verified,
    /// Pages lie on DAX devices, of which the kernel tells no place: that they do follows from which
    /// bytes of which device are mapped there, which `/proc/self/maps` was asked for. All other pages
    /// are as [`Self::Verified`].
    ByMapping,
    /// The kernel could not be asked, or not be told, for this reason.
    Unverified {
        /// The call that a sandbox forbids, or that the kernel lacks.
        reason: SysError,
    },
}

/// Checks the pages of a region that was just populated.
pub(super) fn verify(
    system: &MemorySystem,
    map: &Mapping,
    kind: MappingKind,
    layout: &Layout,
    policy: PolicyOutcome,
) -> Result<Verification, RegionError> {
    if let PolicyOutcome::Unneeded(reason) = policy {
        system.tell_unverified(
            "memory policies are unavailable; the machine has one node",
            reason,
        );
        return Ok(Verification::Unverified { reason });
    }
    match check_pages(system, map, kind, layout)? {
        Ok(()) => Ok(Verification::Verified),
        Err(reason) if reason.is_unavailable() => {
            system.tell_unverified("the placement of pages cannot be verified", reason);
            Ok(Verification::Unverified { reason })
        }
        Err(source) => Err(RegionError::Query { source }),
    }
}

/// Checks the pages of `map` against `layout`; the inner error is that of asking.
pub(super) fn check_pages(
    system: &MemorySystem,
    map: &Mapping,
    kind: MappingKind,
    layout: &Layout,
) -> Result<Result<(), SysError>, RegionError> {
    let mut tries = 0;
    loop {
        let mut tally = Tally::default();
        if let Err(error) = tally.count(system, map, kind, layout, |_, _, _| {}) {
            return Ok(Err(error));
        }
        tries += 1;
        if !tally.lacks_absent_only() || tries == TRIES {
            return tally.judge(system, layout).map(Ok);
        }
        std::thread::sleep(PAUSE);
    }
}

/// A page that the kernel moves, to make a huge page say, is nowhere for a moment: it is asked for so
/// often, with a pause in between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Base pages by tier: expected, found and absent.
#[derive(Default)]
pub(super) struct Tally {
    expected: [u64; MAX_TIERS],
    found: [u64; MAX_TIERS],
    absent: [u64; MAX_TIERS],
}

impl Tally {
    /// Asks for every page and tells `misplaced` the byte offset, tier and location of those that
    /// lie elsewhere than on their tier.
    pub(super) fn count(
        &mut self,
        system: &MemorySystem,
        map: &Mapping,
        kind: MappingKind,
        layout: &Layout,
        mut misplaced: impl FnMut(usize, TierId, PageLocation),
    ) -> Result<(), SysError> {
        let stride = if kind == MappingKind::HugeTlb {
            HUGE_PAGE_BYTES
        } else {
            BASE_PAGE_BYTES
        };
        let (mut tier, mut nodes, mut run_end) = (TierId::NEAR, NodeSet::EMPTY, 0);
        let mut count = |offset: usize, location: PageLocation| {
            if offset >= run_end {
                let (next, end_page) = layout.run_at(offset / layout.page_bytes());
                if next != tier || run_end == 0 {
                    nodes = system.node_set(next);
                }
                (tier, run_end) = (next, end_page * layout.page_bytes());
            }
            self.expected[tier.index()] += 1;
            match location {
                PageLocation::Node(node) if nodes.contains(node) => {
                    self.found[tier.index()] += 1;
                }
                other => {
                    if matches!(other, PageLocation::Error(_)) {
                        self.absent[tier.index()] += 1;
                    }
                    misplaced(offset, tier, other);
                }
            }
        };
        let ranges = match dax::is_on_devices(system, layout) {
            false => std::iter::once(0..map.len()).collect(),
            true => layout.ranges(|tier| system.info(tier).has_nodes()),
        };
        let mut ranges = ranges.into_iter();
        ranges.try_for_each(|range| sys::query_pages(map, range, stride, &mut count))
    }

    /// Whether pages are not in memory, and all others where they should be.
    fn lacks_absent_only(&self) -> bool {
        let there = self.found.iter().zip(&self.absent);
        let there = there.map(|(found, absent)| found + absent);
        self.absent.iter().any(|absent| *absent > 0) && there.eq(self.expected)
    }

    /// An error for the first tier that lacks pages.
    pub(super) fn judge(&self, system: &MemorySystem, layout: &Layout) -> Result<(), RegionError> {
        for (tier, _) in layout.all_bytes().iter() {
            let at = tier.index();
            if self.found[at] != self.expected[at] {
                let info = system.info(tier);
                return Err(RegionError::Misplaced {
                    tier: info.name.clone(),
                    nodes: info.node_set.to_string(),
                    expected_pages: self.expected[at],
                    found_pages: self.found[at],
                    absent_pages: self.absent[at],
                });
            }
        }
        Ok(())
    }
}
