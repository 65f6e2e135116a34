//! Moving a region to another placement, in place.

use crate::layout::Layout;
use crate::placement::{OverBudget, Placement};
use crate::region::populate::{self, PolicyOutcome};
use crate::region::verify::{Tally, Verification};
use crate::region::{Placed, Region, RegionError, settle_placement};
use crate::sys::{self, BASE_PAGE_BYTES, PageLocation, SysError};
use crate::system::MemorySystem;
use crate::tier::{MAX_TIERS, TierId};

/// Rounds of moving what is still misplaced that may move nothing: pages that are in use for I/O or
/// being scanned by the kernel are busy for a moment only.
const FUTILE_ROUNDS_MAX: usize = 5;
/// Misplaced pages handled per round, which bounds the memory for their list.
const PAGES_PER_ROUND: usize = 1 << 20;

impl Region {
    /// Moves the region to `placement`, in place and online: the address stays, and readers and
    /// writers go on meanwhile. Gives the placement that the budgets allowed.
    ///
    /// Pages whose tiers lie on other nodes are moved by the kernel. Between tiers on the same nodes
    /// (a modelled tier and the one that lends it memory) nothing moves but the account. While pages
    /// move, both the old and the new tier are charged; [`Self::tier_bytes`] tells the old placement
    /// until all have moved. Migrations of one region wait for each other.
    ///
    /// A region on a DAX device stays there.
    ///
    /// Migrating to the placement in force brings back what the kernel has moved elsewhere, as it
    /// does with the pages of a node that goes offline.
    ///
    /// # Errors
    /// [`RegionError::OverBudget`], [`RegionError::NodesFull`], [`RegionError::Migrate`],
    /// [`RegionError::DeviceFixed`] and others: the old placement is in force as before, and moved
    /// pages were moved back.
    pub fn migrate(
        &self,
        placement: &Placement,
        over_budget: OverBudget,
    ) -> Result<Placement, RegionError> {
        self.check_movable(placement)?;
        let mut taken = self.taken.lock();
        let old = self.placed.read().layout.clone();
        let (placement, new) = settle_placement(
            &self.system,
            placement,
            over_budget,
            old.page_bytes(),
            old.pages(),
            |wanted| taken.extend_to(wanted),
        )?;
        match self.move_to(&old, &new) {
            Ok(verification) => {
                let settled = new.all_bytes();
                *self.placed.write() = Placed {
                    placement: placement.clone(),
                    layout: new,
                    verification,
                };
                taken.settle(&settled);
                Ok(placement)
            }
            Err(error) => {
                if let Err(stuck) = self.move_to(&new, &old) {
                    tracing::warn!(error = %stuck, "pages of a failed migration did not move back");
                }
                taken.settle(&old.all_bytes());
                Err(error)
            }
        }
    }

    /// Refuses to move what is mapped from a device, and to map what is to be moved there: whoever
    /// reads meanwhile would see neither the old bytes nor the new.
    fn check_movable(&self, placement: &Placement) -> Result<(), RegionError> {
        placement.check(self.system.tier_count())?;
        let mut own = self.dax.iter().map(|(tier, _)| *tier);
        let is_device = |tier: &TierId| self.system.info(*tier).backend.device().is_some();
        match own.next().or_else(|| placement.tiers().find(is_device)) {
            Some(tier) => Err(RegionError::DeviceFixed {
                tier: self.system.name(tier),
            }),
            None => Ok(()),
        }
    }

    /// Moves pages that lie as `old` says to where `new` says.
    fn move_to(&self, old: &Layout, new: &Layout) -> Result<Verification, RegionError> {
        let system = &self.system;
        if old == new && self.verification() == Verification::Verified {
            return self.move_stragglers(new).map(|()| Verification::Verified);
        }
        if groups_agree(system, old, new) {
            return Ok(self.verification());
        }
        let before = old.place_bytes();
        for (tier, bytes) in new.place_bytes() {
            let there = before.iter().find(|(place, _)| *place == tier);
            let wanted = bytes.saturating_sub(there.map_or(0, |(_, bytes)| *bytes));
            if wanted > 0 {
                populate::check_free(system, tier, wanted)?;
            }
        }
        if let PolicyOutcome::Unneeded(reason) = populate::bind_whole(system, &self.map, new)? {
            return Ok(Verification::Unverified { reason });
        }
        let mut turns = Turns::default();
        let heads = (0..new.pages()).filter_map(|page| {
            let tier = new.run_at(page).0;
            let node = turns.next(system, tier);
            let before = old.run_at(page).0;
            (before != tier && system.nodes(before) != system.nodes(tier))
                .then_some((page * new.page_bytes(), node))
        });
        let cannot = |source| RegionError::Migrate {
            unmoved_pages: (new.total_bytes() / BASE_PAGE_BYTES) as u64,
            source,
        };
        sys::move_pages(&self.map, heads, |_, _| {}).map_err(cannot)?;
        self.move_stragglers(new).map(|()| Verification::Verified)
    }

    /// Moves what still lies elsewhere than `new` says: base pages of a huge page that the kernel
    /// had split, and pages that were busy.
    fn move_stragglers(&self, new: &Layout) -> Result<(), RegionError> {
        let mut misplaced: Vec<(usize, TierId)> = Vec::new();
        let mut last_errno = libc::EBUSY;
        let (mut left, mut futile_rounds) = (u64::MAX, 0);
        loop {
            misplaced.clear();
            let mut tally = Tally::default();
            let mut count = 0u64;
            tally
                .count(
                    &self.system,
                    &self.map,
                    self.kind,
                    new,
                    |offset, tier, _| {
                        count += 1;
                        if misplaced.len() < PAGES_PER_ROUND {
                            misplaced.push((offset, tier));
                        }
                    },
                )
                .map_err(|source| RegionError::Query { source })?;
            if misplaced.is_empty() {
                return Ok(());
            }
            futile_rounds += usize::from(count >= left);
            left = left.min(count);
            if futile_rounds == FUTILE_ROUNDS_MAX {
                let source = SysError {
                    call: "move_pages",
                    errno: last_errno,
                };
                return Err(RegionError::Migrate {
                    unmoved_pages: count,
                    source,
                });
            }
            let mut turns = Turns::default();
            let targets = misplaced
                .iter()
                .map(|(offset, tier)| (*offset, turns.next(&self.system, *tier)));
            sys::move_pages(&self.map, targets, |_, location| {
                if let PageLocation::Error(errno) = location {
                    last_errno = errno;
                }
            })
            .map_err(|source| RegionError::Migrate {
                unmoved_pages: count,
                source,
            })?;
        }
    }
}

/// Whether every page keeps its nodes between two layouts of the same pages.
fn groups_agree(system: &MemorySystem, old: &Layout, new: &Layout) -> bool {
    let (before, after) = (populate::groups(system, old), populate::groups(system, new));
    match (&before[..], &after[..]) {
        ([(_, before)], [(_, after)]) => before == after,
        _ => old == new,
    }
}

/// Deals out the nodes of each tier in turn.
#[derive(Default)]
struct Turns([usize; MAX_TIERS]);

impl Turns {
    fn next(&mut self, system: &MemorySystem, tier: TierId) -> u32 {
        let nodes = system.nodes(tier);
        let turn = &mut self.0[tier.index()];
        *turn += 1;
        nodes[(*turn - 1) % nodes.len()]
    }
}
