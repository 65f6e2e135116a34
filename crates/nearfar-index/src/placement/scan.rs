//! Looking at leaves: which are to be moved, and how uses are distributed.

use std::ops::{ControlFlow, Deref};

use nearfar_memory::TierId;

use super::placer::{NodeOf, Placer, tiers_below};
use super::queue::{Demotion, Promotion};
use super::{Histogram, LeafView, Parameters, PlacedTree, Selection, Worker};

/// Candidates that are handed over together.
const HANDED_OVER_AT_ONCE: usize = 256;

/// How far the trigger and the cooler have come.
#[derive(Debug)]
pub(super) struct Scan<N> {
    /// The leaf where the trigger goes on; `None` at the beginning of a pass.
    next: Option<N>,
    /// The leaf where the cooler goes on.
    next_to_cool: Option<N>,
    /// Per tier, the leaves of this pass so far.
    fresh: Vec<Histogram>,
    /// Per tier, inner nodes that were looked at in this pass.
    pub(super) ways: Vec<Histogram>,
    /// The tree cannot be visited in parts.
    is_whole: bool,
    /// Cold leaves on farther tiers seen so far.
    cold_far: u64,
    /// Leaves on farther tiers seen so far that stay there.
    staying_far: u64,
    /// Sum of the ranks of leaves since the last one was chosen of those, and how many they are: most
    /// of its neighbours have its parent.
    neighbours: (u64, u64),
    chance: Chance,
}

/// What is decided by chance ([`Selection::Random`]).
#[derive(Debug)]
struct Chance {
    state: u64,
    /// Leaves chosen for promotion in this pass, and leaves on near tiers.
    chosen: u64,
    near: u64,
    /// The probability that a leaf on a near tier makes room, from the pass before.
    demotes: f64,
}

/// What is to be done about a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Promote {
        to: TierId,
        is_warm: bool,
    },
    Demote,
    /// Nothing, but its ancestors may have stayed nearer.
    LookAbove,
    Stay,
}

/// Leaves found that are not handed over yet.
struct Found<N> {
    promotions: Vec<Promotion<N>>,
    demotions: Vec<(TierId, Demotion<N>)>,
    /// Leaves whose ancestors are looked at after the visit, with their tiers and levels.
    above: Vec<(N, TierId, u32)>,
    /// Leaves that stay where they are, whose parents may be worth more, with their ranks and bytes.
    below: Vec<(N, u16, usize)>,
}

impl<N> Scan<N> {
    pub(super) fn new(tiers: usize) -> Self {
        Self {
            next: None,
            next_to_cool: None,
            fresh: vec![Histogram::default(); tiers],
            ways: vec![Histogram::default(); tiers],
            is_whole: false,
            cold_far: 0,
            staying_far: 0,
            neighbours: (0, 0),
            chance: Chance {
                state: 0x9E37_79B9_7F4A_7C15,
                chosen: 0,
                near: 0,
                demotes: 0.0,
            },
        }
    }
}

impl Chance {
    /// A number below one (xorshift, Marsaglia).
    fn next(&mut self) -> f64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Promotes a leaf as if each of its uses since the last pass had been chosen once in `one_in`,
    /// and demotes as many leaves as the pass before chose.
    fn decide(&mut self, uses: u16, tier: TierId, farthest: TierId, one_in: u32) -> Verdict {
        let not_chosen = (1.0 - 1.0 / f64::from(one_in)).powi(i32::from(uses));
        let is_chosen = self.next() >= not_chosen;
        if tier > TierId::NEAR && is_chosen {
            self.chosen += 1;
            let to = TierId::NEAR;
            return Verdict::Promote { to, is_warm: false };
        }
        if tier < farthest {
            self.near += 1;
            if self.next() < self.demotes {
                return Verdict::Demote;
            }
        }
        Verdict::Stay
    }

    fn end_pass(&mut self) {
        self.demotes = self.chosen as f64 / (self.near as f64).max(1.0);
        (self.chosen, self.near) = (0, 0);
    }
}

/// What a leaf is worth by how much it is used. Where thresholds are `fitted`, every leaf that is
/// not hot is a candidate for demotion, whatever its level: who goes is settled when the pass has
/// shown who would come.
fn judge(tiers: &[Parameters], fitted: bool, (tier, level): (TierId, u32), rank: u16) -> Verdict {
    let rank = u32::from(rank);
    let of = |tier: TierId| &tiers[tier.index()];
    let promotes_to = |wanted: fn(&Parameters) -> u32| {
        tiers_below(tier.index()).find(|nearer| rank >= wanted(of(*nearer)))
    };
    if let Some(to) = promotes_to(|parameters| parameters.hot_rank) {
        let is_warm = false;
        return Verdict::Promote { to, is_warm };
    }
    if tier.index() < tiers.len() {
        let parameters = of(tier);
        if fitted && rank < parameters.hot_rank.max(parameters.cold_rank) {
            return Verdict::Demote;
        }
        if !fitted && rank < parameters.cold_rank {
            let may_go = level >= u32::from(parameters.demote_level);
            return if may_go {
                Verdict::Demote
            } else {
                Verdict::Stay
            };
        }
    }
    if let Some(to) = promotes_to(|parameters| parameters.warm_rank) {
        return Verdict::Promote { to, is_warm: true };
    }
    match tiers_below(tier.index()).next_back() {
        Some(nearer) if rank < of(nearer).cold_rank => Verdict::LookAbove,
        _ => Verdict::Stay,
    }
}

impl<H: Deref<Target: PlacedTree>> Placer<H> {
    /// Looks at leaves for a worker, as many as a wake-up may: queues those to be moved, counts all, and halves
    /// their uses if `cools` says so, which only a look at all leaves may. Returns whether the pass
    /// over all leaves is complete.
    pub(super) fn look(&self, worker: Worker, cools: bool) -> bool {
        let mut scan = self.scan();
        if scan.next.is_none() {
            self.begin_pass(&mut scan);
        }
        let tiers: Vec<Parameters> = {
            let control = self.control();
            control.tiers.iter().map(|tier| tier.parameters).collect()
        };
        let mut next = scan.next.take();
        let mut found = Found::new();
        let mut looked = 0;
        let is_whole = scan.is_whole;
        let is_complete = self.visit(&mut next, is_whole, &mut |leaf| {
            looked += 1;
            self.look_at(&leaf, &tiers, &mut scan, &mut found);
            if cools {
                leaf.counter.cool();
            }
        });
        scan.next = next;
        self.hand_over(&mut found);
        self.look_above(found.above, &tiers);
        self.look_at_ways(found.below, &tiers, &mut scan);
        self.tally().leaves_scanned[worker.index()] += looked;
        match is_complete {
            None => {
                scan.is_whole = true;
                scan.next = None;
                drop(scan);
                return self.look(worker, cools);
            }
            Some(false) => return false,
            Some(true) => {}
        }
        self.end_pass(&mut scan);
        drop(scan);
        if cools {
            self.cool_thresholds();
        }
        true
    }

    /// Halves the uses of leaves, as many as a wake-up may. Thresholds follow when all are done.
    pub(super) fn cool(&self) {
        if self.selection_is_random() {
            return;
        }
        let mut scan = self.scan();
        let mut next = scan.next_to_cool.take();
        let mut looked = 0;
        let is_complete = self.visit(&mut next, scan.is_whole, &mut |leaf| {
            looked += 1;
            leaf.counter.cool();
        });
        scan.next_to_cool = next;
        scan.is_whole |= is_complete.is_none();
        self.tally().leaves_scanned[Worker::Cooler.index()] += looked;
        drop(scan);
        if is_complete == Some(true) {
            self.cool_thresholds();
        }
    }

    /// Whether the cooler has begun and not come to the end.
    pub(super) fn is_cooling(&self) -> bool {
        self.scan().next_to_cool.is_some()
    }

    fn selection_is_random(&self) -> bool {
        matches!(self.options.selection, Selection::Random { .. })
    }

    fn cool_thresholds(&self) {
        let mut control = self.control();
        control.histograms.iter_mut().for_each(Histogram::cool);
        control.ways.iter_mut().for_each(Histogram::cool);
        for tier in &mut control.tiers {
            tier.parameters.cool(self.options.mechanisms.thresholds);
        }
    }

    /// Visits leaves from `next` on, at most as many as a wake-up may unless it is to be `whole`,
    /// and sets `next` to where to go on. Returns whether the end was reached; `None` where the
    /// tree cannot go on in the middle.
    fn visit(
        &self,
        next: &mut Option<NodeOf<H>>,
        whole: bool,
        look: &mut dyn FnMut(LeafView<'_, NodeOf<H>>),
    ) -> Option<bool> {
        let limit = self.options.leaves_per_wakeup_max.filter(|_| !whole);
        let mut left = limit.unwrap_or(usize::MAX);
        let from = next.take();
        let mut visitor = |leaf: LeafView<'_, NodeOf<H>>| {
            if left == 0 {
                *next = Some(leaf.node.clone());
                return ControlFlow::Break(());
            }
            left -= 1;
            look(leaf);
            ControlFlow::Continue(())
        };
        let flow = match from {
            None => self.tree.visit_leaves(&mut visitor),
            Some(from) => self.tree.visit_leaves_from(&from, &mut visitor)?,
        };
        Some(flow.is_continue())
    }

    fn begin_pass(&self, scan: &mut Scan<NodeOf<H>>) {
        scan.fresh
            .iter_mut()
            .for_each(|histogram| *histogram = Histogram::default());
        scan.ways
            .iter_mut()
            .for_each(|histogram| *histogram = Histogram::default());
        // What waits since the pass before is found again, if it is still worth it.
        self.promotions().clear();
        for tier in self.near_tiers() {
            self.demotions(tier).clear();
        }
    }

    fn end_pass(&self, scan: &mut Scan<NodeOf<H>>) {
        scan.chance.end_pass();
        let memory = self.tree.memory();
        let mut control = self.control();
        for (index, fresh) in scan.fresh.iter_mut().enumerate() {
            let ledger = memory.ledger(TierId::from_index(index).unwrap_or(self.farthest));
            let live_bytes = ledger.node_bytes + ledger.value_bytes;
            control.inner_bytes[index] = live_bytes.saturating_sub(fresh.total_bytes());
            control.histograms[index] = std::mem::take(fresh);
        }
        control.ways = scan.ways.clone();
        control.passes += 1;
        let budgets = self.budgets();
        for tier in self.near_tiers() {
            control.follow(tier, &self.options, &budgets);
        }
    }

    /// The budgets of the tiers but the farthest.
    pub(super) fn budgets(&self) -> Vec<u64> {
        let memory = self.tree.memory();
        self.near_tiers()
            .map(|tier| memory.ledger(tier).budget_bytes)
            .collect()
    }

    fn look_at(
        &self,
        leaf: &LeafView<'_, NodeOf<H>>,
        tiers: &[Parameters],
        scan: &mut Scan<NodeOf<H>>,
        found: &mut Found<NodeOf<H>>,
    ) {
        let rank = self.rank(leaf.counter.uses(), leaf.bytes);
        scan.fresh[leaf.tier.index()].add(rank, leaf.bytes);
        if !self.options.mechanisms.migrates {
            return;
        }
        let verdict = match self.options.selection {
            Selection::Uses => judge(tiers, self.is_fitted(), (leaf.tier, leaf.level), rank),
            Selection::Random { one_in } => {
                let uses = leaf.counter.take();
                scan.chance.decide(uses, leaf.tier, self.farthest, one_in)
            }
        };
        let node = || leaf.node.clone();
        scan.neighbours.0 += u64::from(rank);
        scan.neighbours.1 += 1;
        let is_promoted = matches!(verdict, Verdict::Promote { .. });
        if self.is_fitted() && leaf.tier > TierId::NEAR && !is_promoted {
            scan.staying_far += 1;
            if self.is_chosen(scan.staying_far, found.below.len()) {
                let (sum, leaves) = std::mem::take(&mut scan.neighbours);
                let mean = u16::try_from(sum / leaves).unwrap_or(u16::MAX);
                found.below.push((node(), mean, leaf.bytes));
            }
        }
        match verdict {
            Verdict::Stay => {}
            Verdict::Promote { to, is_warm } => found.promotions.push(Promotion {
                leaf: node(),
                rank,
                bytes: leaf.bytes,
                from: leaf.tier,
                to,
                is_warm,
            }),
            Verdict::Demote => {
                let level = leaf.level;
                let demotion = Demotion {
                    node: node(),
                    level,
                    rank: Some(rank),
                };
                found.demotions.push((leaf.tier, demotion));
            }
            Verdict::LookAbove => {
                scan.cold_far += 1;
                if self.is_chosen(scan.cold_far, found.above.len()) {
                    found.above.push((node(), leaf.tier, leaf.level));
                }
            }
        }
        if found.promotions.len() + found.demotions.len() >= HANDED_OVER_AT_ONCE {
            self.hand_over(found);
        }
    }

    /// Whether the leaf with this number is one of those whose ancestors are looked at, where so many
    /// are chosen already.
    fn is_chosen(&self, number: u64, chosen: usize) -> bool {
        number.is_multiple_of(self.options.stuck_one_in.into())
            && chosen < self.options.queued_nodes_max
    }

    fn hand_over(&self, found: &mut Found<NodeOf<H>>) {
        let mut promotions = self.promotions();
        for promotion in found.promotions.drain(..) {
            promotions.push(promotion);
        }
        drop(promotions);
        for (tier, demotion) in found.demotions.drain(..) {
            self.demotions(tier).push(demotion);
        }
    }
}

impl<N> Found<N> {
    fn new() -> Self {
        Self {
            promotions: Vec::new(),
            demotions: Vec::new(),
            above: Vec::new(),
            below: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PlacementOptions;
    use super::*;

    fn tier(index: usize) -> TierId {
        TierId::from_index(index).unwrap()
    }

    #[test]
    fn a_leaf_is_judged_by_the_tier_it_could_reach() {
        let mut near = Parameters::new(&PlacementOptions::default(), 4);
        (near.hot_rank, near.warm_rank, near.cold_rank) = (100, 80, 40);
        let mut middle = near;
        (middle.hot_rank, middle.warm_rank, middle.cold_rank) = (20, 10, 5);
        let tiers = [near, middle];
        let promote = |index, is_warm| Verdict::Promote {
            to: tier(index),
            is_warm,
        };
        let of = |on, level, rank| judge(&tiers, false, (tier(on), level), rank);
        assert_eq!(of(2, 5, 100), promote(0, false));
        assert_eq!(of(2, 5, 99), promote(1, false));
        assert_eq!(of(1, 5, 99), promote(0, true));
        assert_eq!(of(1, 5, 79), Verdict::Stay);
        assert_eq!(of(2, 5, 12), promote(1, true));
        assert_eq!(of(1, 5, 4), Verdict::Demote);
        assert_eq!(of(0, 5, 39), Verdict::Demote);
        assert_eq!(of(0, 2, 39), Verdict::Stay, "above L_demote");
        assert_eq!(of(0, 5, 40), Verdict::Stay);
        assert_eq!(of(2, 5, 4), Verdict::LookAbove);
        assert_eq!(of(1, 5, 39), Verdict::LookAbove);
        let fitted = |on, level, rank| judge(&tiers, true, (tier(on), level), rank);
        assert_eq!(
            fitted(0, 2, 99),
            Verdict::Demote,
            "if one that is hot comes"
        );
        assert_eq!(fitted(0, 2, 100), Verdict::Stay);
        assert_eq!(fitted(2, 5, 100), promote(0, false));
    }

    #[test]
    fn chance_promotes_by_uses_and_demotes_as_many() {
        let mut chance = Scan::<u32>::new(2).chance;
        let mut pass = |uses: u16, far: bool| {
            let from = if far { tier(1) } else { tier(0) };
            let verdicts = (0..10_000).map(|_| chance.decide(uses, from, tier(1), 100));
            let moved = verdicts.filter(|verdict| *verdict != Verdict::Stay).count();
            if !far {
                chance.end_pass();
            }
            moved
        };
        let promoted = pass(10, true);
        assert!(
            (800..1100).contains(&promoted),
            "1 - 0.99^10 is 9.6 %: {promoted}"
        );
        assert_eq!(pass(1000, false), 0, "near already");
        let demoted = pass(0, false);
        assert!((800..1100).contains(&demoted), "{demoted}");
    }
}
