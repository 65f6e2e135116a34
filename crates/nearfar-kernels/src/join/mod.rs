//! Hash joins whose build table may be far.
//!
//! A table ([`JoinTable`]) is of cache lines in memory that the caller places, so that a lookup is one
//! line, rarely two. A probe goes through its keys in blocks of 1024: all are hashed, a Bloom filter
//! that is near takes those out that find nothing ([`BloomFilter`]), and the lines of the rest are asked
//! for some lookups ahead of their use, so that a core waits for as many of them concurrently as it can.
//! Rows of equal keys are in lists, which are followed in rounds: one step of every list, each asked for
//! in the round before. Where keys are known to be close together, a table is an array by their distance from the
//! lowest one instead, and nothing is hashed.
//!
//! [`HashJoin`] runs a whole join. Where the table is larger than the caches it may divide both sides by
//! the hash of their keys first ([`Partitions`]), so that each part's table stays in the caches and far
//! memory is read in order only; [`JoinPlan::choose`] says when.

mod filter;
mod lookups;
mod matched;
mod numbered;
mod partition;
mod plan;
mod probing;
mod run;
mod table;

pub use self::filter::BloomFilter;
pub use self::matched::Matched;
pub use self::partition::{PARTITIONS_LOG2_MAX, Partitions};
pub use self::plan::{JoinPlan, JoinTier};
pub use self::probing::{JoinKind, ProbeCursor, Probing};
pub use self::run::{HashJoin, Side};
pub use self::table::{JoinError, JoinTable};

/// Rows that go through each step of a probe together.
const BLOCK_ROWS: usize = 1024;

/// Rows that are built or divided between two looks at whether to go on: some milliseconds in far memory.
const STEP_ROWS: usize = 16 * BLOCK_ROWS;
