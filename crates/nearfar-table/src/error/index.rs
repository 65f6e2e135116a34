//! Why an index can't be made or does not take a row.

use nearfar_index::TreeError;

use super::table_name::TableName;

/// Why an index can't be made, or does not take a row. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A key that another row has.
    #[error("duplicate key value violates unique constraint \"{index}\": key {key} already exists")]
    Duplicate {
        /// The index.
        index: String,
        /// The key, as in `(a, b)=(1, x)`.
        key: String,
        /// The table, where that is known.
        table: Option<Box<TableName>>,
    },
    /// A key that is too long.
    #[error("a key of {bytes} bytes: index \"{index}\" takes keys of at most {bytes_max} bytes")]
    KeyTooLong {
        /// The index.
        index: String,
        /// The key's bytes.
        bytes: usize,
        /// The most that an index takes.
        bytes_max: usize,
    },
    /// A null in a column of a primary key.
    #[error("a column of primary key \"{index}\" has a null: key {key}")]
    NullKey {
        /// The index.
        index: String,
        /// The key.
        key: String,
    },
    /// A row that an index does not lead to, or leads to by another key: a bug, or damaged memory.
    #[error("index \"{index}\" and its table differ at key {key}: drop it and create it again")]
    Differs {
        /// The index.
        index: String,
        /// The key.
        key: String,
    },
    /// No tier of the index has room.
    #[error(
        "index \"{index}\" needs {bytes} bytes for a node, and {tiers} has no room: raise the budget, or move \
         the index with ALTER INDEX … SET TABLESPACE"
    )]
    OutOfMemory {
        /// The index.
        index: String,
        /// The node's bytes.
        bytes: usize,
        /// The tiers that its nodes may be on.
        tiers: String,
    },
    /// Its tree takes no such key.
    #[error(transparent)]
    Tree(#[from] TreeError),
}
