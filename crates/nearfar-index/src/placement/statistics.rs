//! What placement has done.

use std::collections::VecDeque;
use std::time::Duration;

use nearfar_memory::TierId;

use super::{Histogram, Parameters, Worker};
use crate::memory::TierLedger;

/// Samples of the used share that are kept: ten minutes of the paper's interval.
const SAMPLES_MAX: usize = 6000;

/// What was moved to and from one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierMoves {
    /// Nodes that came from farther tiers.
    pub promoted_nodes: u64,
    /// Their bytes, with their values.
    pub promoted_bytes: u64,
    /// Nodes that went to farther tiers.
    pub demoted_nodes: u64,
    /// Their bytes, with their values.
    pub demoted_bytes: u64,
}

/// Migrations that were tried in vain, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refusals {
    /// The node was gone.
    pub gone: u64,
    /// The tier had no room.
    pub no_room: u64,
    /// A child would have been nearer than its parent.
    pub crosses_boundary: u64,
    /// Writers held the node.
    pub busy: u64,
}

/// The used shares of all tiers but the farthest, at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageSample {
    /// Since placement began.
    pub at: Duration,
    /// Per tier, near to far.
    pub used_shares: Box<[f32]>,
}

/// One tier's part of [`PlacementStatistics`].
#[derive(Debug, Clone, PartialEq)]
pub struct TierStatistics {
    /// The tier.
    pub tier: TierId,
    /// What is used of it now.
    pub ledger: TierLedger,
    /// Its parameters.
    pub parameters: Parameters,
    /// Whether it is under strain.
    pub is_under_strain: bool,
    /// What was moved.
    pub moves: TierMoves,
    /// Leaves that lay on it when all leaves were last looked at.
    pub histogram: Histogram,
}

/// What placement has done so far, and the state that it is in.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementStatistics {
    /// Each tier but the farthest.
    pub tiers: Vec<TierStatistics>,
    /// All leaves when they were last looked at.
    pub histogram: Histogram,
    /// Migrations in vain.
    pub refusals: Refusals,
    /// Times that all leaves were looked at.
    pub passes: u64,
    /// Leaves looked at.
    pub leaves_scanned: u64,
    /// The worker for which each of them was: where the trigger and the cooler are due together, one look is for both,
    /// and is the trigger's.
    pub leaves_scanned_by: [(Worker, u64); Worker::ALL.len()],
    /// Times that a tier came under strain.
    pub strains: u64,
    /// Times that a tier had room to spare.
    pub abundances: u64,
    /// Leaves that wait for promotion.
    pub queued_promotions: usize,
    /// Nodes that wait for demotion.
    pub queued_demotions: usize,
    /// The used shares over time, the last ten minutes at the paper's interval.
    pub usage: Vec<UsageSample>,
    /// Time spent by each worker that runs as a thread.
    pub busy: [(Worker, Duration); Worker::ALL.len()],
}

/// The counts behind [`PlacementStatistics`].
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) moves: Vec<TierMoves>,
    pub(super) refusals: Refusals,
    pub(super) leaves_scanned: [u64; Worker::ALL.len()],
    pub(super) strains: u64,
    pub(super) abundances: u64,
    pub(super) usage: VecDeque<UsageSample>,
    pub(super) busy: [Duration; Worker::ALL.len()],
}

impl Tally {
    pub(super) fn new(near_tiers: usize) -> Self {
        Self {
            moves: vec![TierMoves::default(); near_tiers],
            ..Self::default()
        }
    }

    /// Counts a node that went from one tier to another.
    pub(super) fn moved(&mut self, from: TierId, to: TierId, bytes: usize) {
        let bytes = bytes as u64;
        if to < from {
            let moves = &mut self.moves[to.index()];
            moves.promoted_nodes += 1;
            moves.promoted_bytes += bytes;
        } else if let Some(moves) = self.moves.get_mut(from.index()) {
            moves.demoted_nodes += 1;
            moves.demoted_bytes += bytes;
        }
    }

    /// Bytes of what is kept here outside of the tally itself.
    pub(super) fn heap_bytes(&self) -> usize {
        let moves = self.moves.capacity() * size_of::<TierMoves>();
        let samples = self.usage.capacity() * size_of::<UsageSample>();
        let shares = self
            .usage
            .iter()
            .map(|sample| size_of_val(&*sample.used_shares));
        moves + samples + shares.sum::<usize>()
    }

    pub(super) fn sample(&mut self, sample: UsageSample) {
        if self.usage.len() == SAMPLES_MAX {
            self.usage.pop_front();
        }
        self.usage.push_back(sample);
    }
}
