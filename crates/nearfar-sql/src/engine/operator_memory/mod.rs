//! Operator memory on a tier: hash-join builds, aggregation state and sort runs.
//!
//! With `heap_tablespace = near` plans are left as they are. With any other tier, [`OperatorMemoryRule`] puts
//! a [`OperatorMemoryExec`] over every hash join, aggregation and sort, and a [`OperatorInputExec`] under each of
//! their inputs:
//!
//! ```text
//!   OperatorMemoryExec: tier=far            allocates on far while the operator runs,
//!     HashJoinExec                  charges the rows it yields
//!       OperatorInputExec: build      allocates near again while its input runs,
//!         …                         counts the rows that go into the table
//!       OperatorInputExec: probe      from the first probed row on, the operator
//!         …                         allocates near too: what it now makes are results
//! ```
//!
//! Allocations follow the thread's tier ([`nearfar_memory::ThreadTier`]), so that they reach the
//! tier in programs whose global allocator is [`nearfar_memory::NearfarAllocator`]. Tasks that an
//! operator spawns inherit its tier ([`inherit_tiers`]).
//!
//! On an emulated tier the memory is near memory, and what it would have cost to have it far is a
//! *modelled estimate* ([`Usage`]), made from counted rows, the bytes the operator accounts for and
//! the model's share of the cache, and executed by delaying the threads. It is shown as
//! `modelled_estimate_wait` in `EXPLAIN ANALYZE`.

mod exec;
mod rule;
mod stream;
#[cfg(test)]
mod tests;
mod tracer;
mod usage;

pub use exec::{OperatorInputExec, OperatorMemoryExec};
pub use rule::OperatorMemoryRule;
pub use tracer::inherit_tiers;
pub use usage::{Operator, Usage, WAIT_METRIC as OPERATOR_WAIT_METRIC};
