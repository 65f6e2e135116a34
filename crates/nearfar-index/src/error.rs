//! Why a tree did not take a key.

use crate::memory::OutOfMemory;

/// Why a tree did not take a key and its value. The tree is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// No tier has room for a node or the value.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The key is longer than the tree supports.
    #[error("a key of {bytes} bytes: this tree takes keys of at most {bytes_max} bytes")]
    KeyTooLong {
        /// The key's bytes.
        bytes: usize,
        /// The most that the tree takes.
        bytes_max: usize,
    },
}
