//! The state of placement, and the order of its work.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearfar_memory::TierId;

use super::exchange::{Exchange, Leaves};
use super::histogram::RANKED_BYTES;
use super::queue::{DemotionQueue, PromotionQueue};
use super::scan::Scan;
use super::schedule::{Allowance, Schedule};
use super::statistics::Tally;
use super::watermark::Strain;
use super::{
    Frontend, Histogram, Parameters, PlacedTree, PlacementError, PlacementOptions,
    PlacementStatistics, Ranking, TierMoves, TierStatistics, Worker,
};

/// The name of a node of the tree behind a handle.
pub(super) type NodeOf<H> = <<H as Deref>::Target as PlacedTree>::Node;

/// Places the nodes of a tree: finds what is hot and what is cold, moves it, and keeps every tier
/// but the farthest between its watermarks (zhao-2026, sections 4.2 and 4.3).
///
/// `H` is how the tree is held: `&Tree`, or `Arc<Tree>` for [`Workers`](super::Workers). Driven by
/// hand, a placer needs no thread and no clock: [`Placer::step`] does what is due at a moment, and
/// [`Placer::next_wakeup`] says when something will be.
///
/// Every tier but the farthest has a budget, watermarks and [`Parameters`] of its own. A leaf is
/// promoted to the nearest tier for which it is hot and which has room, and its way there before
/// it, from the top down; it is demoted by one tier, and then its ancestors, from the leaf up.
/// So the single boundary holds at every moment.
pub struct Placer<H: Deref<Target: PlacedTree>> {
    pub(super) tree: H,
    pub(super) options: PlacementOptions,
    pub(super) farthest: TierId,
    control: Mutex<Control>,
    scan: Mutex<Scan<NodeOf<H>>>,
    promotions: Mutex<PromotionQueue<NodeOf<H>>>,
    demotions: Vec<Mutex<DemotionQueue<NodeOf<H>>>>,
    /// Per tier, whether promotion to it stands still.
    halted: Vec<AtomicBool>,
    tally: Mutex<Tally>,
    allowance: Mutex<Allowance>,
    schedule: Mutex<Schedule>,
}

impl<H: Deref<Target: PlacedTree>> fmt::Debug for Placer<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Placer");
        fields
            .field("control", &*self.control())
            .field("options", &self.options);
        fields.finish_non_exhaustive()
    }
}

/// What workers share: the parameters and the distribution that they follow from.
#[derive(Debug)]
pub(super) struct Control {
    /// Each tier but the farthest.
    pub(super) tiers: Vec<TierControl>,
    /// Leaves on each tier, as of the last pass.
    pub(super) histograms: Vec<Histogram>,
    /// Inner nodes on each tier above leaves that lie there, of those that the last pass looked at.
    pub(super) ways: Vec<Histogram>,
    /// Bytes on each tier that were not leaves' when the last pass ended.
    pub(super) inner_bytes: Vec<u64>,
    /// Complete passes.
    pub(super) passes: u64,
}

/// What governs one tier.
#[derive(Debug)]
pub(super) struct TierControl {
    pub(super) parameters: Parameters,
    /// The least that strain lowers levels to (L_min): half of what is guessed to fit.
    pub(super) level_min: u8,
    pub(super) strain: Option<Strain>,
    /// What the last pass found worth exchanging with farther tiers.
    pub(super) exchange: Exchange,
}

/// Locks a mutex whose data stays good when a worker panics: each change of it is complete or is
/// made up for by the next pass.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<H: Deref<Target: PlacedTree>> Placer<H> {
    /// A placer of `tree`. Sets the tree's tracking and boundaries; moves nothing yet.
    ///
    /// # Errors
    /// [`PlacementError`]: an option makes no sense, or a budget cannot hold the root.
    pub fn new(tree: H, options: PlacementOptions) -> Result<Self, PlacementError> {
        let memory = tree.memory();
        options.validate(memory.tiers())?;
        let near_tiers = memory.tiers() - 1;
        check_budgets(&*tree, &options)?;
        let mut fitting_bytes = 0_u64;
        let tiers = tiers_below(near_tiers).map(|tier| {
            fitting_bytes = fitting_bytes.saturating_add(memory.ledger(tier).budget_bytes);
            let levels = options.depth.levels(fitting_bytes);
            TierControl {
                parameters: Parameters::new(&options, levels),
                level_min: levels / 2,
                strain: None,
                exchange: Exchange::default(),
            }
        });
        let control = Control {
            tiers: tiers.collect(),
            histograms: vec![Histogram::default(); near_tiers + 1],
            ways: vec![Histogram::default(); near_tiers + 1],
            inner_bytes: vec![0; near_tiers + 1],
            passes: 0,
        };
        let queued_max = options.queued_nodes_max;
        let placer = Self {
            farthest: memory.farthest(),
            control: Mutex::new(control),
            scan: Mutex::new(Scan::new(near_tiers + 1)),
            promotions: Mutex::new(PromotionQueue::new(queued_max)),
            demotions: (0..near_tiers)
                .map(|_| Mutex::new(DemotionQueue::new(queued_max)))
                .collect(),
            halted: (0..near_tiers).map(|_| AtomicBool::new(false)).collect(),
            tally: Mutex::new(Tally::new(near_tiers)),
            allowance: Mutex::new(Allowance::new(options.migration_bytes_per_second_max)),
            schedule: Mutex::new(Schedule::new(&options.intervals)),
            options,
            tree,
        };
        let frontend = placer.tree.frontend();
        frontend.set_tracking(placer.options.mechanisms.tracking);
        frontend.set_passed_one_in(placer.options.passed_one_in);
        for tier in placer.near_tiers() {
            placer.publish_boundary(tier);
        }
        Ok(placer)
    }

    /// The tree.
    #[must_use]
    pub fn tree(&self) -> &H::Target {
        &self.tree
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &PlacementOptions {
        &self.options
    }

    /// Does what is due at `now`, a time since placement began that never goes back: adjusts,
    /// looks at leaves, cools, and then moves what is queued.
    pub fn step(&self, now: Duration) {
        let due = lock(&self.schedule).take_due(now, &self.options.intervals);
        if due.maintainer {
            self.maintain(now);
        }
        let cools = due.cooler || (due.trigger && self.is_cooling());
        // One look at all leaves serves both, where a look is not cut in parts.
        let is_one_look = self.options.leaves_per_wakeup_max.is_none();
        if cools && !(due.trigger && is_one_look) {
            self.cool();
        }
        if due.trigger {
            self.look(Worker::Trigger, cools && is_one_look);
        }
        self.demote(now);
        self.promote(now);
        lock(&self.schedule).has_queued_at(now, self.has_queued());
    }

    /// Does one worker's turn. Returns when its next one is, if that is not a matter of its
    /// interval.
    pub(super) fn work(&self, worker: Worker, now: Duration) -> Option<Duration> {
        match worker {
            Worker::Trigger => {
                self.look(Worker::Trigger, false);
            }
            Worker::Promoter => self.promote(now),
            Worker::Demoter => self.demote(now),
            Worker::Cooler => {
                self.cool();
                return self.is_cooling().then_some(self.options.intervals.trigger);
            }
            Worker::Maintainer => self.maintain(now),
        }
        None
    }

    /// When [`Self::step`] will have something to do.
    #[must_use]
    pub fn next_wakeup(&self) -> Duration {
        lock(&self.schedule).next_wakeup()
    }

    /// What was moved to and from each tier but the farthest. As [`Self::leaves_scanned_by`] and [`Self::busy`], it takes
    /// one short lock and can be asked at any time, while [`Self::statistics`] copies all that is known.
    #[must_use]
    pub fn moves(&self) -> Vec<TierMoves> {
        self.tally().moves.clone()
    }

    /// Leaves that were looked at for each worker, as in [`PlacementStatistics::leaves_scanned_by`].
    #[must_use]
    pub fn leaves_scanned_by(&self) -> [(Worker, u64); Worker::ALL.len()] {
        let scanned = self.tally().leaves_scanned;
        Worker::ALL.map(|worker| (worker, scanned[worker.index()]))
    }

    /// Time spent by each worker that runs as a thread.
    #[must_use]
    pub fn busy(&self) -> [(Worker, Duration); Worker::ALL.len()] {
        let busy = self.tally().busy;
        Worker::ALL.map(|worker| (worker, busy[worker.index()]))
    }

    /// Bytes that placement keeps beside the tree: its state, histograms, queues, the used shares over time and the
    /// frontend's words. Of the queue of promotions it is the room of as many as have waited together, of those of demotions
    /// that of the levels that wait now. The counters in leaves are the tree's, and what names of nodes keep elsewhere is
    /// not known. Looks at all of the queues, so that it is for the end of a run, and not for each of its steps.
    #[must_use]
    pub fn metadata_bytes(&self) -> u64 {
        // Each of them is locked by itself.
        let promotions = self.promotions().heap_bytes();
        let demotions = self
            .near_tiers()
            .map(|tier| self.demotions(tier).heap_bytes());
        let queues = promotions + demotions.sum::<usize>();
        let control = self.control().heap_bytes();
        let tally = self.tally().heap_bytes();
        (size_of::<Self>() + size_of::<Frontend>() + control + tally + queues) as u64
    }

    /// What was done so far, and the present state.
    #[must_use]
    pub fn statistics(&self) -> PlacementStatistics {
        // Queues are locked each by itself, and never while the rest is.
        let queued_promotions = self.promotions().len();
        let queued_demotions = self.near_tiers().map(|tier| self.demotions(tier).len());
        let queued_demotions = queued_demotions.sum();
        let control = self.control();
        let tally = self.tally();
        let memory = self.tree.memory();
        let tiers = self.near_tiers().zip(&control.tiers);
        let tiers = tiers.map(|(tier, state)| TierStatistics {
            tier,
            ledger: memory.ledger(tier),
            parameters: state.parameters,
            is_under_strain: state.strain.is_some(),
            moves: tally.moves[tier.index()],
            histogram: control.histograms[tier.index()].clone(),
        });
        PlacementStatistics {
            tiers: tiers.collect(),
            histogram: control.all_leaves(),
            refusals: tally.refusals,
            passes: control.passes,
            leaves_scanned: tally.leaves_scanned.iter().sum(),
            leaves_scanned_by: Worker::ALL
                .map(|worker| (worker, tally.leaves_scanned[worker.index()])),
            strains: tally.strains,
            abundances: tally.abundances,
            queued_promotions,
            queued_demotions,
            usage: tally.usage.iter().cloned().collect(),
            busy: Worker::ALL.map(|worker| (worker, tally.busy[worker.index()])),
        }
    }

    /// The tiers that nodes can be promoted to.
    pub(super) fn near_tiers(&self) -> impl DoubleEndedIterator<Item = TierId> + use<H> {
        tiers_below(self.farthest.index())
    }

    pub(super) fn control(&self) -> MutexGuard<'_, Control> {
        lock(&self.control)
    }

    pub(super) fn scan(&self) -> MutexGuard<'_, Scan<NodeOf<H>>> {
        lock(&self.scan)
    }

    pub(super) fn promotions(&self) -> MutexGuard<'_, PromotionQueue<NodeOf<H>>> {
        lock(&self.promotions)
    }

    pub(super) fn demotions(&self, tier: TierId) -> MutexGuard<'_, DemotionQueue<NodeOf<H>>> {
        lock(&self.demotions[tier.index()])
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        lock(&self.tally)
    }

    pub(super) fn allowance(&self) -> MutexGuard<'_, Allowance> {
        lock(&self.allowance)
    }

    pub(super) fn has_queued(&self) -> bool {
        self.promotions().len() > 0 || self.near_tiers().any(|tier| self.demotions(tier).len() > 0)
    }

    /// Stops promotion to a tier, or lets it go on.
    pub(super) fn halt(&self, tier: TierId, is_halted: bool) {
        self.halted[tier.index()].store(is_halted, Ordering::Release);
    }

    pub(super) fn is_halted(&self, tier: TierId) -> bool {
        self.halted[tier.index()].load(Ordering::Acquire)
    }

    /// Lets the frontend know of the level from which on new nodes go farther.
    pub(super) fn publish_boundary(&self, tier: TierId) {
        let levels = if self.options.mechanisms.is_layered {
            self.control().tiers[tier.index()].parameters.fast_levels
        } else {
            u8::MAX
        };
        self.tree.frontend().set_boundary(tier, levels);
    }

    /// Used bytes of a tier as a share of its budget, without what waits to be freed.
    pub(super) fn live_share(&self, tier: TierId) -> f64 {
        let ledger = self.tree.memory().ledger(tier);
        (ledger.node_bytes + ledger.value_bytes) as f64 / (ledger.budget_bytes as f64).max(1.0)
    }

    /// About how much an inner node is used, by one of those below it: as much as all of the least
    /// number that a node has below it.
    pub(super) fn rank_above(&self, rank: u16, bytes_below: usize, bytes: usize) -> u16 {
        let all_below = u64::from(rank) * u64::from(self.options.depth.fanout_min);
        let above = match self.options.ranking {
            Ranking::Uses => all_below,
            Ranking::UsesPerByte => all_below * bytes_below as u64 / (bytes as u64).max(1),
        };
        u16::try_from(above).unwrap_or(u16::MAX)
    }

    /// How much a leaf is used, or that per KiB.
    pub(super) fn rank(&self, uses: u16, bytes: usize) -> u16 {
        match self.options.ranking {
            Ranking::Uses => uses,
            Ranking::UsesPerByte => {
                let rank = u64::from(uses) * u64::from(RANKED_BYTES) / (bytes as u64).max(1);
                u16::try_from(rank).unwrap_or(u16::MAX)
            }
        }
    }
}

impl Control {
    /// Bytes of what is kept here for each tier.
    fn heap_bytes(&self) -> usize {
        let histograms = self.histograms.capacity() + self.ways.capacity();
        self.tiers.capacity() * size_of::<TierControl>()
            + histograms * size_of::<Histogram>()
            + self.inner_bytes.capacity() * size_of::<u64>()
    }

    /// The distribution over all tiers.
    pub(super) fn all_leaves(&self) -> Histogram {
        let mut all = Histogram::default();
        for histogram in &self.histograms {
            all.merge(histogram);
        }
        all
    }

    /// Sets a tier's thresholds by the distribution of all leaves.
    pub(super) fn follow(&mut self, tier: TierId, options: &PlacementOptions, budgets: &[u64]) {
        let nearer = tiers_below(tier.index() + 1);
        let fit = nearer.map(|tier| {
            let usable = options.watermarks_of(tier).high * budgets[tier.index()] as f64;
            (usable as u64).saturating_sub(self.inner_bytes[tier.index()])
        });
        let fit = fit.fold(0, u64::saturating_add);
        let mut leaves = Leaves {
            all: self.all_leaves(),
            here: self.histograms[tier.index()].clone(),
            farther: Histogram::default(),
        };
        for farther in &self.histograms[tier.index() + 1..] {
            leaves.farther.merge(farther);
        }
        for ways in &self.ways[tier.index() + 1..] {
            leaves.farther.merge(ways);
            leaves.all.merge(ways);
        }
        let state = &mut self.tiers[tier.index()];
        state.exchange = state.parameters.follow(&leaves, options, fit);
    }
}

/// The tiers nearer than the one at `index`.
pub(super) fn tiers_below(index: usize) -> impl DoubleEndedIterator<Item = TierId> {
    (0..index).filter_map(TierId::from_index)
}

fn check_budgets<T: PlacedTree + ?Sized>(
    tree: &T,
    options: &PlacementOptions,
) -> Result<(), PlacementError> {
    for tier in tiers_below(tree.memory().tiers() - 1) {
        if tree.memory().ledger(tier).budget_bytes == 0 {
            return Err(PlacementError::NoBudget { tier });
        }
    }
    let near = tree.memory().ledger(TierId::NEAR);
    let high = options.watermarks_of(TierId::NEAR).high;
    let usable_bytes = (near.budget_bytes as f64 * high) as u64;
    match root_bytes(tree) {
        Some(root_bytes) if root_bytes > usable_bytes => Err(PlacementError::RootDoesNotFit {
            tier: TierId::NEAR,
            usable_bytes,
            root_bytes,
        }),
        _ => Ok(()),
    }
}

/// Bytes of the root, found above any leaf.
fn root_bytes<T: PlacedTree + ?Sized>(tree: &T) -> Option<u64> {
    let mut leaf = None;
    let _ = tree.visit_leaves(&mut |view| {
        leaf = Some(view.node.clone());
        std::ops::ControlFlow::Break(())
    });
    let mut root = leaf?;
    while let Some(parent) = tree.parent(&root) {
        root = parent;
    }
    Some(tree.view(&root)?.bytes as u64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Art;
    use crate::memory::NodeMemory;
    use crate::placement::{Allocation, Tracking};

    /// Else it would wait for ever.
    #[test]
    fn what_was_done_is_told_while_queues_and_parameters_are_held() {
        let memory = NodeMemory::platform_with_budgets(&[1 << 20, 1 << 20]);
        let frontend = Frontend::new(Allocation::Layered, Tracking::Off, memory.farthest());
        let tree = Art::<u64>::with_memory(memory, frontend);
        let placer = Placer::new(&tree, PlacementOptions::default()).unwrap();
        let _held = (
            placer.control(),
            placer.scan(),
            placer.promotions(),
            placer.demotions(TierId::NEAR),
        );
        assert_eq!(placer.moves(), [TierMoves::default()]);
        let leaves = placer.leaves_scanned_by().map(|(_, leaves)| leaves);
        assert_eq!(leaves, [0; Worker::ALL.len()]);
        let busy = placer.busy().map(|(_, busy)| busy);
        assert_eq!(busy, [Duration::ZERO; Worker::ALL.len()]);
    }
}
