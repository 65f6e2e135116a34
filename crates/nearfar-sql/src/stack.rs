//! Stacks for reading and planning, which take a step of recursion for each level of a statement.
//!
//! The parser and the planner have more stack allocated where theirs ends, but not in all that they call.

use std::pin::pin;

/// More than the deepest statements take that are not [refused](crate::sql): of derived tables, 333 are allowed,
/// and 450 fit in a debug build.
const STACK_BYTES: usize = 64 << 20;

/// A thread that has so much left is used as it is.
const ENOUGH_BYTES: usize = 56 << 20;

/// Runs `work` on a stack that all statements fit on which are not refused.
pub fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ENOUGH_BYTES, STACK_BYTES, work)
}

/// The same of each step of a future.
pub async fn polled_with_stack<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| with_stack(|| work.as_mut().poll(cx))).await
}
