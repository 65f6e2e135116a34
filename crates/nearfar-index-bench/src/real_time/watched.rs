//! What is seen of a run while it goes on.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use nearfar_index::placement::{PlacedTree, Worker as PlacementWorker, Workers};
use nearfar_memory::TierId;
use nearfar_memory::kernel_tiering::KernelMoves;
use nearfar_memory::sys::{self, NodeSet};

use super::worker::{Board, Done};
use crate::placed::Moment;

/// What placement has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moved {
    pub(super) promoted_bytes: u64,
    pub(super) demoted_bytes: u64,
    /// Time that each of its threads was at work, in the order of [`PlacementWorker::ALL`].
    pub(super) busy: [Duration; PlacementWorker::ALL.len()],
}

impl Moved {
    pub(super) const fn bytes(&self) -> u64 {
        self.promoted_bytes + self.demoted_bytes
    }
}

impl From<KernelMoves> for Moved {
    fn from(moves: KernelMoves) -> Self {
        Self {
            promoted_bytes: moves.promoted_bytes,
            demoted_bytes: moves.demoted_bytes,
            ..Self::default()
        }
    }
}

pub(super) fn moved<T: PlacedTree>(workers: Option<&Workers<Arc<T>>>) -> Moved {
    let mut moved = Moved::default();
    let Some(workers) = workers else {
        return moved;
    };
    let placer = workers.placer();
    for moves in placer.moves() {
        moved.promoted_bytes += moves.promoted_bytes;
        moved.demoted_bytes += moves.demoted_bytes;
    }
    moved.busy = placer.busy().map(|(_, busy)| busy);
    moved
}

/// A moment, what each thread had done by then, and what placement had.
pub(super) type Mark = (Duration, Vec<Done>, Moved);

/// What was seen of a run.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) series: Vec<Moment>,
    /// When figures began to be taken.
    pub(super) start: Option<Mark>,
    pub(super) end: Mark,
    /// Bytes that placement keeps beside the tree at the end; none where its workers do not run.
    pub(super) metadata_bytes: Option<u64>,
}

impl Watched {
    /// Whether no operation was counted yet since figures are taken.
    pub(super) fn is_empty(&self, board: &Board) -> bool {
        let done = |(_, before, _): &Mark| sum(before, &board.read()).operations;
        self.start.as_ref().map_or(0, done) == 0
    }
}

impl Board {
    pub(super) fn read(&self) -> Vec<Done> {
        self.tallies.iter().map(|tally| tally.read()).collect()
    }
}

/// Operations per second of all threads together, each in the time that it spent on them: on a machine that is modelled
/// without what it waited for a processor, as that machine has a core for each.
pub(super) fn rate(before: &[Done], after: &[Done], is_modelled: bool) -> f64 {
    let before = before
        .iter()
        .copied()
        .chain(std::iter::repeat(Done::default()));
    let rates = before.zip(after).map(|(before, after)| {
        let waited_ns = match is_modelled {
            true => 0,
            false => after.waited_ns - before.waited_ns,
        };
        let busy_s = (after.busy_ns - before.busy_ns + waited_ns) as f64 / 1e9;
        let operations = (after.operations - before.operations) as f64;
        if busy_s > 0.0 {
            operations / busy_s
        } else {
            0.0
        }
    });
    rates.sum()
}

/// What all threads have done between two moments.
pub(super) fn sum(before: &[Done], after: &[Done]) -> Done {
    let before = before
        .iter()
        .copied()
        .chain(std::iter::repeat(Done::default()));
    let mut sum = Done::default();
    for (before, after) in before.zip(after) {
        let charged = after.charged.since(before.charged);
        sum.operations += after.operations - before.operations;
        sum.busy_ns += after.busy_ns - before.busy_ns;
        sum.waited_ns += after.waited_ns - before.waited_ns;
        sum.charged.latency_ns += charged.latency_ns;
        sum.charged.lines_read += charged.lines_read;
        sum.charged.lines_written += charged.lines_written;
        sum.charged.near_accesses += charged.near_accesses;
        sum.charged.far_accesses += charged.far_accesses;
    }
    sum
}

pub(super) fn moment(
    (at, is_modelled): (Duration, bool),
    before: &[Done],
    after: &[Done],
    near_bytes_share: f64,
) -> Moment {
    let charged = sum(before, after).charged;
    let accesses = charged.near_accesses + charged.far_accesses;
    Moment {
        at,
        operations_per_s: rate(before, after, is_modelled),
        near_bytes_share,
        near_accesses_share: is_modelled
            .then(|| charged.near_accesses as f64 / accesses.max(1) as f64),
    }
}

/// The share of a tree's bytes that are near.
pub(super) fn near_bytes_share<T: PlacedTree>(tree: &T) -> f64 {
    let memory = tree.memory();
    memory.ledger(TierId::NEAR).used_bytes() as f64 / memory.used_bytes().max(1) as f64
}

/// The share of a tree's pages that are on these nodes, of those on its first tier, which the kernel moves.
pub(super) fn near_pages_share<T: PlacedTree>(tree: &T, near: &NodeSet) -> f64 {
    let addresses = tree.memory().addresses(TierId::NEAR).unwrap_or(0..0);
    let by_node = sys::bytes_by_node(&addresses).unwrap_or_default();
    let on_near = by_node.iter().filter(|(node, _)| near.contains(**node));
    let near_bytes: u64 = on_near.map(|(_, bytes)| bytes).sum();
    near_bytes as f64 / by_node.values().sum::<u64>().max(1) as f64
}

/// The addresses of the nodes on far memory.
pub(super) fn far_addresses<T: PlacedTree>(tree: &T) -> Range<usize> {
    let memory = tree.memory();
    memory.addresses(memory.farthest()).unwrap_or(0..0)
}
