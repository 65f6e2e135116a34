//! Placement by pages, as kernels do it. In the model only: pages of the simulated address space
//! change their device while the simulation runs.

use super::space::PageTable;
use crate::placed::PageRule;
use crate::random::Random;

/// One access in so many is sampled (MEMTIS: every 200th load that misses).
const SAMPLE_ONE_IN: u32 = 200;
/// A share of near memory that TPP keeps free for new pages.
const FREE_SHARE: f64 = 0.02;
/// Looks between two halvings of MEMTIS's counts.
const COOL_EVERY: u32 = 4;

/// What a look moved, in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PageMoves {
    pub(super) promoted: u64,
    pub(super) demoted: u64,
}

/// A policy at work.
#[derive(Debug)]
pub(super) struct PagePolicy {
    rule: PageRule,
    near_pages: usize,
    moves_max: usize,
    heat: Vec<u32>,
    looks: u32,
    random: Random,
}

impl PagePolicy {
    /// A policy that keeps at most `near_pages` near and moves at most `moves_max` per look.
    pub(super) fn new(rule: PageRule, pages: usize, near_pages: usize, moves_max: usize) -> Self {
        Self {
            rule,
            near_pages,
            moves_max,
            heat: vec![0; pages],
            looks: 0,
            random: Random::new(1),
        }
    }

    /// Looks at all pages, moves some, and forgets their uses.
    pub(super) fn look(&mut self, table: &PageTable) -> PageMoves {
        self.looks += 1;
        let moves = match self.rule {
            PageRule::Recency => self.by_recency(table),
            PageRule::Frequency => self.by_frequency(table),
        };
        table.uses.iter().for_each(|uses| uses.set(0));
        moves
    }

    fn by_recency(&mut self, table: &PageTable) -> PageMoves {
        let used = |page: usize| table.uses[page].get() > 0;
        let is_near = |page: usize| table.tiers[page].get() == 0;
        let pages = 0..self.heat.len();
        let wanted: Vec<usize> = pages
            .clone()
            .filter(|page| !is_near(*page) && used(*page) && self.heat[*page] > 0)
            .collect();
        // Heat is the number of looks running in which a page was used.
        for page in pages.clone() {
            self.heat[page] = if used(page) { self.heat[page] + 1 } else { 0 };
        }
        let near = pages.clone().filter(|page| is_near(*page)).count();
        let kept = self.near_pages - (self.near_pages as f64 * FREE_SHARE) as usize;
        let over = (near + wanted.len())
            .saturating_sub(kept)
            .min(self.moves_max);
        let idle = pages.filter(|page| is_near(*page) && self.heat[*page] == 0);
        let idle: Vec<usize> = idle.take(over).collect();
        idle.iter().for_each(|page| table.tiers[*page].set(1));
        let room = self.near_pages.saturating_sub(near - idle.len());
        let promoted: Vec<usize> = wanted.into_iter().take(room.min(self.moves_max)).collect();
        promoted.iter().for_each(|page| table.tiers[*page].set(0));
        PageMoves {
            promoted: promoted.len() as u64,
            demoted: idle.len() as u64,
        }
    }

    fn by_frequency(&mut self, table: &PageTable) -> PageMoves {
        for (heat, uses) in self.heat.iter_mut().zip(&table.uses) {
            let chance = self.random.below(u64::from(SAMPLE_ONE_IN)) as u32;
            *heat = heat.saturating_add((uses.get() + chance) / SAMPLE_ONE_IN);
        }
        let mut order: Vec<usize> = (0..self.heat.len()).collect();
        order.sort_by_key(|page| {
            (
                std::cmp::Reverse(self.heat[*page]),
                table.tiers[*page].get(),
            )
        });
        let (hot, cold) = order.split_at(self.near_pages.min(order.len()));
        let is_near = |page: &&usize| table.tiers[**page].get() == 0;
        let coming: Vec<usize> = hot.iter().filter(|page| !is_near(page)).copied().collect();
        let going: Vec<usize> = cold.iter().rev().filter(is_near).copied().collect();
        let count = coming.len().min(self.moves_max);
        let near = table.tiers.iter().filter(|tier| tier.get() == 0).count();
        let room = self.near_pages.saturating_sub(near);
        let leaving = count.saturating_sub(room).min(going.len());
        going[..leaving]
            .iter()
            .for_each(|page| table.tiers[*page].set(1));
        let arriving = count.min(room + leaving);
        coming[..arriving]
            .iter()
            .for_each(|page| table.tiers[*page].set(0));
        if self.looks.is_multiple_of(COOL_EVERY) {
            self.heat.iter_mut().for_each(|heat| *heat /= 2);
        }
        PageMoves {
            promoted: arriving as u64,
            demoted: leaving as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Whatever is used most ends up near, and near memory never has more pages than it may.
    #[test]
    fn both_rules_bring_used_pages_near_within_their_share() {
        for rule in [PageRule::Recency, PageRule::Frequency] {
            let table = PageTable {
                shift: 12,
                tiers: (0..100)
                    .map(|page| Cell::new(u8::from(page >= 20)))
                    .collect(),
                uses: vec![Cell::new(0); 100],
            };
            let mut policy = PagePolicy::new(rule, 100, 20, 8);
            for _ in 0..20 {
                (60..75).for_each(|page| table.uses[page].set(1000));
                policy.look(&table);
                let near = table.tiers.iter().filter(|tier| tier.get() == 0).count();
                assert!(near <= 20, "{rule:?}: {near}");
            }
            assert!(
                (60..75).all(|page| table.tiers[page].get() == 0),
                "{rule:?}"
            );
        }
    }
}
