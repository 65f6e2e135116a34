//! Who commits the changes of tables, as they know it.

use std::fmt;

use super::Table;

/// Who commits the changes of tables.
pub(crate) trait TableOwner: fmt::Debug + Send + Sync {
    /// Has no commit take effect for as long as the result lives.
    fn hold_commits(&self) -> Box<dyn CommitsHeld + '_>;

    /// Takes out a table that is no longer there.
    fn forget(&self, table: &Table);
}

/// Commits wait while it lives.
pub(crate) trait CommitsHeld {}
