//! Memory that a statement takes where DataFusion's operators do not ask for it.
//!
//! Operators account for what they keep: the tables of joins and aggregations, the runs of sorts.
//! Nobody asks for what expressions make, and a call such as `repeat('x', 1000000000)` makes a
//! gigabyte of nothing. So
//!
//! - functions whose result can be far larger than their arguments are replaced by [`Guarded`] ones,
//!   which ask for the size of their result before they make it ([`functions`]); the operator `||` is
//!   one of them ([`Concatenated`]);
//! - aggregates over windows ask for each value that they give ([`rewrite`]);
//! - operators that evaluate such functions run in a *scope* ([`MeteredExec`]): what the functions make
//!   for a batch is the query's until the next batch is asked for. Outside of a scope a result is the
//!   query's while it is made, and what is made of constants is the statement's to its end;
//! - batches become smaller below operators that repeat a long constant in every row, or call a
//!   function without a bound ([`SliceExec`]), and then all batches of the query do ([`batch_rows`]);
//! - joins are charged for a batch of their widest rows, and the unnesting of lists for all their elements
//!   ([`widths`]);
//! - the text of a statement and its plan are charged by their number of tokens, and what a client
//!   keeps (prepared statements, the values of portals) to its session ([`Charge`]).
//!
//! All of it is of the same [`QueryMemory`](super::QueryMemory) limits as the rest of the query, and is
//! refused in the same way.

mod aggregates;
mod concatenated;
mod exec;
mod functions;
mod guarded;
mod rewrite;
mod rule;
mod scope;
mod sizes;
mod text;
mod widths;
mod window_values;

pub use concatenated::Concatenated;
pub use functions::guarded_functions;
pub use rewrite::GuardedCalls;
pub use rule::{METERING, batch_rows};
pub use text::{parsed_bytes, planned_bytes};

use exec::{MeteredExec, Role, SliceExec};
use guarded::{Growth, Guarded};
