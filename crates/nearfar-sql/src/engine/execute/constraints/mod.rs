//! Constraints that no index upholds: conditions of rows (`CHECK`), and foreign keys.
//!
//! Conditions are evaluated where rows are written ([`RowConditions`]). Foreign keys are held against what a
//! statement has done before it ends, or its transaction does.

mod check;
mod declare;
mod references;

pub(super) use declare::Declared;
pub(in crate::engine) use declare::has_key;
