//! What an index is, as it was declared.

use super::placed::IndexPlacement;

/// The trees that an index can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexKind {
    /// An adaptive radix tree ([`nearfar_index::Art`]).
    #[default]
    Art,
    /// A trie of B+trees ([`nearfar_index::Masstree`]).
    Masstree,
}

impl IndexKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Art, Self::Masstree];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Art => "art",
            Self::Masstree => "masstree",
        }
    }
}

/// What an index is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexRole {
    /// To find rows.
    Search,
    /// To find rows, of which no two have one key.
    Unique,
    /// The same, as a constraint of the table.
    UniqueConstraint,
    /// The same, as the table's primary key.
    PrimaryKey,
}

impl IndexRole {
    /// Whether no two rows may have one key. Keys with a null in them are not the same as any other.
    pub fn is_unique(self) -> bool {
        self != Self::Search
    }

    /// Whether it is a constraint of the table, which is dropped as one.
    pub fn is_constraint(self) -> bool {
        matches!(self, Self::UniqueConstraint | Self::PrimaryKey)
    }
}

/// A column of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexColumn {
    /// Its place in the table's schema.
    pub column: usize,
    /// Whether large values come first.
    pub is_descending: bool,
    /// Whether nulls come first.
    pub nulls_first: bool,
}

impl IndexColumn {
    /// A column in ascending order, nulls last.
    pub fn ascending(column: usize) -> Self {
        Self {
            column,
            is_descending: false,
            nulls_first: false,
        }
    }
}

/// An index, as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDefinition {
    /// Its name, the only one among tables and indexes of the schema.
    pub name: String,
    /// What its keys are made of, at least one.
    pub columns: Vec<IndexColumn>,
    /// Which tree it is.
    pub kind: IndexKind,
    /// What it is there for.
    pub role: IndexRole,
    /// Where its nodes go.
    pub placement: IndexPlacement,
}
