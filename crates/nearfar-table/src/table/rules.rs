//! What was declared of a table's rows, beside the types of its columns.

use std::collections::BTreeMap;

/// Whether statements may give a column of numbers other values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityKind {
    /// Only where they say so (`OVERRIDING SYSTEM VALUE`).
    Always,
    /// They may.
    ByDefault,
}

/// What rows of a table are given, as it was declared. Expressions are SQL, which layers above this one
/// plan and evaluate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableRules {
    /// By column, the expression of the value of a row that is added without one; null for others.
    pub defaults: BTreeMap<String, String>,
    /// The columns that were declared as identities; their numbers are defaults.
    pub identities: BTreeMap<String, IdentityKind>,
}

impl TableRules {
    /// Whether nothing was declared.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
