//! The operators of the papers over placed buffers, with the widest instructions of the machine.
//!
//! * [`Scan`] is the filtering integer scan of weisgut-2025, section 5.2, and finds ranges in encoded
//!   columns: a [`Selection`] of their rows.
//! * [`Aggregate`] and [`HashGroups`] sum, count and find extremes, over all rows or by group.
//! * [`HashJoin`] and [`JoinTable`] join rows by their keys; a table may be far.
//! * [`Adjacency`] is a graph, and has the two halves of a pass of `PageRank` over it.
//! * [`product`](fn@product) multiplies a matrix and a vector, as a language model does for each token.
//! * [`copy`](mod@copy) moves data between tiers by threads of its own, once for all who read it.
//! * [`words`], [`signed_words`], [`signed_longs`] and [`words_mut`] see the bytes of a region as the integers of a column.
//!
//! A kernel takes plain slices: where its memory lies is the caller's business. Each one has a
//! variant per instruction set, chosen at run time, and all give the same result. Each one tells a
//! [`Probe`](nearfar_model::Probe) what it accesses, so that the same code runs in the model; with
//! [`Native`](nearfar_model::Native) those calls compile to nothing (`docs/kernels.md` says how
//! that is checked).

#![deny(unsafe_code)]
#![deny(missing_docs)]

/// Tells a probe of an access. The configuration `nearfar_without_probe` leaves these calls out of
/// the source: `.ci/probe-is-free` compares the machine code of both builds.
macro_rules! tell {
    ($call:expr) => {
        #[cfg(not(nearfar_without_probe))]
        $call
    };
}

mod aggregate;
mod cancel;
pub mod copy;
mod isa;
mod join;
mod key;
mod line;
mod line_table;
mod memory;
mod product;
mod rank;
mod scan;
mod selection;
mod vectors;
mod words;

pub use aggregate::{
    Aggregate, CodeTooLarge, GroupsError, HashGroups, NoRoomForGroups, Number, Summary,
};
pub use cancel::{Cancel, Cancelled};
pub use isa::{Isa, UnsupportedIsa};
pub use join::{
    BloomFilter, HashJoin, JoinError, JoinKind, JoinPlan, JoinTable, JoinTier, Matched,
    PARTITIONS_LOG2_MAX, Partitions, ProbeCursor, Probing, Side,
};
pub use key::Key;
pub use line::{Line, NotLines, lines_mut};
pub use line_table::NO_ROW;
pub use product::product;
pub use rank::{Adjacency, GraphError};
pub use scan::{Lane, Matches, Part, Scan, ScanError, SignedLane, Stores};
pub use selection::Selection;
pub use words::{NotWords, signed_longs, signed_words, words, words_mut};
