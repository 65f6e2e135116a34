//! Where nodes go: at birth by their level, later by how often their leaves are used.
//!
//! * [`Frontend`] is the part that runs within tree operations: it chooses the tier of a new node
//!   and counts uses of leaves (zhao-2026, section 4.1).
//! * [`PlacedTree`] is what a tree offers for its nodes to be moved.
//! * [`Placer`] finds hot and cold leaves, moves them with what is above them, and keeps tiers
//!   between their watermarks (sections 4.2 and 4.3). [`Workers`] run it in the background.

mod exchange;
mod executor;
mod frontend;
mod histogram;
mod options;
mod parameters;
mod placer;
mod queue;
mod scan;
mod schedule;
mod statistics;
mod tree;
mod watermark;
mod ways;
mod workers;

pub use frontend::{Allocation, Frontend, LeafCounter, NewNode, Tracking, seed_chance};
pub use histogram::{BINS, Histogram};
pub use options::{
    DepthEstimate, Intervals, Mechanisms, PlacementError, PlacementOptions, Ranking, Selection,
    Thresholds, Watermarks,
};
pub use parameters::Parameters;
pub use placer::Placer;
pub use statistics::{PlacementStatistics, Refusals, TierMoves, TierStatistics, UsageSample};
pub use tree::{LeafView, MigrateError, Migration, NodeView, Placed, PlacedTree};
pub use workers::{Worker, WorkerPanic, Workers};
