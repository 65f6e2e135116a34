//! What was declared of a table's rows, beside the types of its columns.

use std::collections::BTreeMap;

use super::TableId;

/// Whether statements may give a column of numbers other values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityKind {
    /// Only where they say so (`OVERRIDING SYSTEM VALUE`).
    Always,
    /// They may.
    ByDefault,
}

/// A condition that no row may fail: one that is false, not one that is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRule {
    /// The constraint.
    pub name: String,
    /// The condition, as it was written.
    pub sql: String,
}

/// What becomes of rows that refer to a row which goes, or gets another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceAction {
    /// The change is refused where there are some when the constraint is checked.
    NoAction,
    /// The change is refused, also where the check of the constraint is deferred.
    Restrict,
    /// They go too, or get the other key.
    Cascade,
    /// Their columns get nulls.
    SetNull,
    /// Their columns get their defaults.
    SetDefault,
}

/// When a foreign key is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceCheck {
    /// Behind each statement.
    Always,
    /// Behind each statement, unless a transaction says that it is to be checked at its end.
    Immediate,
    /// At the end of each transaction, unless that says otherwise.
    Deferred,
}

/// A foreign key: rows whose columns have no null refer to a row of another table, which has to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The constraint.
    pub name: String,
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The table that is referred to.
    pub parent: TableId,
    /// Its columns, which are those of a unique index.
    pub parent_columns: Vec<String>,
    /// What a row that goes does to those that refer to it.
    pub on_delete: ReferenceAction,
    /// What another key of a row does to those that refer to it.
    pub on_update: ReferenceAction,
    /// Whether all columns of a row have to be null where one is (`MATCH FULL`).
    pub is_full: bool,
    /// When it is checked.
    pub check: ReferenceCheck,
}

/// What rows of a table are given and have to be, as it was declared. Expressions are SQL, which layers above this one
/// plan and evaluate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableRules {
    /// By column, the expression of the value of a row that is added without one; null for others.
    pub defaults: BTreeMap<String, String>,
    /// The columns that were declared as identities; their numbers are defaults.
    pub identities: BTreeMap<String, IdentityKind>,
    /// Conditions of rows, in the order of their names.
    pub checks: Vec<CheckRule>,
    /// Foreign keys.
    pub references: Vec<Reference>,
}

impl TableRules {
    /// Whether nothing was declared.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Has the rules of a column's rows go by another name of it; conditions are left as they are written.
    pub fn rename_column(&mut self, from: &str, to: &str) {
        if let Some(default) = self.defaults.remove(from) {
            self.defaults.insert(to.to_owned(), default);
        }
        if let Some(identity) = self.identities.remove(from) {
            self.identities.insert(to.to_owned(), identity);
        }
        let columns = self.references.iter_mut().flat_map(|it| &mut it.columns);
        columns
            .filter(|column| *column == from)
            .for_each(|column| to.clone_into(column));
    }

    /// Whether rows that are right by these rules are so by `others` too.
    pub(crate) fn has_constraints_of(&self, others: &Self) -> bool {
        self.checks == others.checks && self.references == others.references
    }
}
