//! What was declared of a table's rows, beside the types of its columns.

use std::collections::BTreeMap;

/// What rows of a table are given, as it was declared. Expressions are SQL, which layers above this one
/// plan and evaluate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableRules {
    /// By column, the expression of the value of a row that is added without one; null for others.
    pub defaults: BTreeMap<String, String>,
}

impl TableRules {
    /// Whether nothing was declared.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
