//! What TOML and YAML have in common: tables, lists and values, each with its line.

/// A value of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// The line it begins in, from 1.
    pub line: usize,
    pub value: Value,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Nothing was written.
    Nothing,
    /// A name or another text.
    Text(String),
    /// A number or a truth value, as it is written.
    Number(String),
    /// A list.
    List(Vec<Node>),
    /// Entries in the order in which they were written.
    Table(Vec<Entry>),
    /// Something that no specification has, such as a date.
    Other,
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub key: String,
    /// The line of the key, from 1.
    pub line: usize,
    pub node: Node,
}
