//! Why a map did not take a key.

use nearfar_index::TreeError;

/// Why a map did not take a key and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// One of our trees refused it.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Another crate's map has no memory.
    #[error("the map is out of memory")]
    OutOfMemory,
}
