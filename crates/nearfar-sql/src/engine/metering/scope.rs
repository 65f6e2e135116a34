//! To whom the memory of an expression is charged.

use datafusion::common::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use std::cell::RefCell;
use std::sync::Arc;

use crate::engine::{FLOOR_BYTES, Settings};

/// Less is not worth asking for: every batch takes as much.
const TRIFLE_BYTES: u64 = 64 << 10;

/// More than any machine has, and far from where sums overflow.
const BYTES_MAX: u64 = 1 << 60;

thread_local! {
    static SCOPE: RefCell<Option<Arc<MemoryReservation>>> = const { RefCell::new(None) };
}

/// Ends what [`enter`] began.
pub struct Entered(Option<Arc<MemoryReservation>>);

/// Charges what expressions make on this thread to `scope` until the guard is dropped; with nothing, to
/// the statement.
pub fn enter(scope: Option<Arc<MemoryReservation>>) -> Entered {
    Entered(SCOPE.replace(scope))
}

impl Drop for Entered {
    fn drop(&mut self) {
        SCOPE.set(self.0.take());
    }
}

/// How long a result is kept whose size is charged outside of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// To the end of the statement: it was made of constants.
    Statement,
    /// By an operator that accounts for it.
    Batch,
}

/// Charges a result of `bytes` that `what` is about to make. What is returned is kept while it is made.
///
/// # Errors
/// More than the query, its session or the engine may take.
pub fn charge(
    config: &ConfigOptions,
    what: &str,
    bytes: u64,
    kept: Kept,
) -> Result<Option<MemoryReservation>> {
    if bytes <= TRIFLE_BYTES && kept == Kept::Batch {
        return Ok(None);
    }
    let bytes = bytes.min(BYTES_MAX) as usize;
    if let Some(scope) = current() {
        scope.try_grow(bytes)?;
        return Ok(None);
    }
    let settings = config.extensions.get::<Settings>();
    let Some(statement) = settings.and_then(Settings::statement) else {
        // The planner tries expressions on some rows, for which there is nobody to charge.
        return match bytes as u64 <= FLOOR_BYTES {
            true => Ok(None),
            false => Err(DataFusionError::ResourcesExhausted(format!(
                "{what} would make {bytes} bytes"
            ))),
        };
    };
    match kept {
        Kept::Statement => statement.keep(bytes).map(|()| None),
        Kept::Batch => statement.reserve(what, bytes).map(Some),
    }
}

/// Charges a value of `bytes` that was made for a row to the scope, if there is one.
///
/// # Errors
/// More than the query, its session or the engine may take.
pub fn charge_value(bytes: usize) -> Result<()> {
    SCOPE.with_borrow(|scope| match scope {
        Some(scope) => scope.try_grow(bytes),
        None => Ok(()),
    })
}

/// The scope of this thread.
pub fn current() -> Option<Arc<MemoryReservation>> {
    SCOPE.with_borrow(Clone::clone)
}
