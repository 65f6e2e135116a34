//! The hyper watermark: parameters follow the used share of each tier (zhao-2026, section 4.3).

use std::ops::Deref;
use std::time::Duration;

use nearfar_memory::TierId;

use super::placer::Placer;
use super::statistics::UsageSample;
use super::{Parameters, PlacedTree, Worker};

/// A tier under strain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strain {
    /// The parameters before it.
    before: Parameters,
    /// What the last pass for its relief demoted by; another one by the same would find nothing.
    demoted_by: Option<DemotedBy>,
}

/// What decides which nodes are demoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DemotedBy {
    cold_rank: u32,
    demote_level: u8,
    passes: u64,
}

/// How one round of relief went.
enum Round {
    Relieved,
    /// Enough was demoted, but some of it is not free yet.
    Waits,
    Goes,
    /// Nothing is left to adjust, and nothing left to demote.
    Exhausted,
}

impl<H: Deref<Target: PlacedTree>> Placer<H> {
    /// Looks at the used shares and adjusts the parameters (figure 13, `watermarkMaintainer`).
    pub(super) fn maintain(&self, now: Duration) {
        let memory = self.tree.memory();
        let used_share = |tier| memory.ledger(tier).used_share();
        let used_shares = self
            .near_tiers()
            .map(|tier| used_share(tier) as f32)
            .collect();
        self.tally().sample(UsageSample {
            at: now,
            used_shares,
        });
        if !self.options.mechanisms.has_watermarks {
            return;
        }
        for tier in self.near_tiers().rev() {
            let watermarks = self.options.watermarks_of(tier);
            let is_under_strain = self.control().tiers[tier.index()].strain.is_some();
            let used_share = used_share(tier);
            if is_under_strain || used_share > watermarks.high {
                self.relieve(tier);
            } else if used_share < watermarks.low {
                self.adjust_to_abundance(tier);
            }
        }
    }

    /// Lets promotions to all tiers go on, as after a maintainer that ended in the middle.
    pub(super) fn abandon_relief(&self) {
        for (tier, state) in self.near_tiers().zip(&mut self.control().tiers) {
            state.strain = None;
            self.halt(tier, false);
        }
    }

    /// Halts promotion, adjusts and demotes until the tier is below its high watermark, then goes
    /// back half way (figure 12, blue). What cannot be had now is left to the next wake-up.
    fn relieve(&self, tier: TierId) {
        self.halt(tier, true);
        let begins = {
            let state = &mut self.control().tiers[tier.index()];
            let begins = state.strain.is_none();
            state.strain.get_or_insert(Strain {
                before: state.parameters,
                demoted_by: None,
            });
            begins
        };
        if begins {
            self.tally().strains += 1;
            let used_share = self.tree.memory().ledger(tier).used_share();
            tracing::debug!(%tier, used_share, "a tier is under strain");
        }
        loop {
            match self.relieve_round(tier) {
                Round::Goes => {}
                Round::Relieved => return self.end_strain(tier),
                Round::Waits | Round::Exhausted => return,
            }
        }
    }

    fn relieve_round(&self, tier: TierId) -> Round {
        let memory = self.tree.memory();
        memory.quiesce();
        let high = self.options.watermarks_of(tier).high;
        if memory.ledger(tier).used_share() <= high {
            return Round::Relieved;
        }
        if self.live_share(tier) <= high {
            return Round::Waits;
        }
        let has_changed = self.tighten(tier);
        if self.demotes_by(tier) != self.strain(tier).and_then(|strain| strain.demoted_by) {
            self.demote_under_strain(tier);
            let demoted_by = self.demotes_by(tier);
            if let Some(strain) = &mut self.control().tiers[tier.index()].strain {
                strain.demoted_by = demoted_by;
            }
            return Round::Goes;
        }
        if has_changed {
            Round::Goes
        } else {
            Round::Exhausted
        }
    }

    fn strain(&self, tier: TierId) -> Option<Strain> {
        self.control().tiers[tier.index()].strain
    }

    /// What decides about demotion now; `None` where nothing is moved at all.
    fn demotes_by(&self, tier: TierId) -> Option<DemotedBy> {
        if !self.options.mechanisms.migrates {
            return None;
        }
        let control = self.control();
        let parameters = &control.tiers[tier.index()].parameters;
        Some(DemotedBy {
            cold_rank: parameters.cold_rank,
            demote_level: parameters.demote_level,
            passes: control.passes,
        })
    }

    /// Adjusts once and lets thresholds and frontend follow. Returns whether anything was left to
    /// adjust.
    fn tighten(&self, tier: TierId) -> bool {
        let budgets = self.budgets();
        let mut control = self.control();
        let state = &mut control.tiers[tier.index()];
        let has_changed = state.parameters.tighten(state.level_min);
        control.follow(tier, &self.options, &budgets);
        drop(control);
        self.publish_boundary(tier);
        has_changed
    }

    /// Looks at leaves and demotes what is cold by now, part by part of the tree where it can be
    /// visited so. Ends early below the low watermark, so as not to demote too much.
    fn demote_under_strain(&self, tier: TierId) {
        let low = self.options.watermarks_of(tier).low;
        loop {
            let is_complete = self.look(Worker::Maintainer, false);
            self.demote_from(tier, low, None);
            if is_complete || self.live_share(tier) <= low {
                return;
            }
        }
    }

    fn end_strain(&self, tier: TierId) {
        let budgets = self.budgets();
        let mut control = self.control();
        let state = &mut control.tiers[tier.index()];
        if let Some(strain) = state.strain.take() {
            state.parameters.restore_half_way(&strain.before);
        }
        control.follow(tier, &self.options, &budgets);
        drop(control);
        self.publish_boundary(tier);
        self.halt(tier, false);
    }

    /// Adjusts gently (figure 12, green); nothing is moved by it immediately.
    fn adjust_to_abundance(&self, tier: TierId) {
        let level_max = u8::try_from(self.tree.height()).unwrap_or(u8::MAX);
        let budgets = self.budgets();
        let mut control = self.control();
        control.tiers[tier.index()].parameters.loosen(level_max);
        control.follow(tier, &self.options, &budgets);
        drop(control);
        self.publish_boundary(tier);
        self.tally().abundances += 1;
    }
}
