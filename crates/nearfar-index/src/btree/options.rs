//! What can be chosen when a B+tree is made, and why it may not be.

use super::geometry::{Geometry, NODE_BYTES_MAX, NODE_BYTES_MIN};
use crate::memory::OutOfMemory;

/// What can be chosen when a B+tree is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BPlusTreeOptions {
    /// Bytes of a node, inner or leaf: a power of two from 256 to 4096. Larger nodes serve scans,
    /// smaller ones inserts and placement; which is best depends on the memory (weisgut-2025,
    /// section 5.5). [`Self::NODE_BYTES_DEFAULT`] by default.
    pub node_bytes: usize,
    /// The share of each node that a bulk load fills, more than 0 and at most 1. What is left
    /// free takes later inserts without a split.
    pub fill_factor: f64,
}

impl Default for BPlusTreeOptions {
    fn default() -> Self {
        Self {
            node_bytes: Self::NODE_BYTES_DEFAULT,
            fill_factor: 0.9,
        }
    }
}

/// Why a B+tree could not be made.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BPlusTreeError {
    /// The node size is none that the tree can have.
    #[error("node_bytes is {node_bytes}: choose a power of two from 256 to 4096")]
    NodeBytes {
        /// What was asked for.
        node_bytes: usize,
    },
    /// The fill factor is no share.
    #[error("fill_factor is {fill_factor}: choose a share of more than 0 and at most 1")]
    FillFactor {
        /// What was asked for.
        fill_factor: f64,
    },
    /// The keys of a bulk load do not ascend.
    #[error("key {key} follows {previous}: sort the pairs by key, and keep one of each key")]
    NotAscending {
        /// The key that is out of order.
        key: u64,
        /// The key before it.
        previous: u64,
    },
    /// No tier has room.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

impl BPlusTreeOptions {
    /// Bytes of a node by default. Lookups and scans are faster than with less, and inserts than
    /// with more; figures for all sizes are in `docs/index.md`.
    pub const NODE_BYTES_DEFAULT: usize = 2048;

    /// The layout of the nodes.
    pub(super) fn geometry(&self) -> Result<Geometry, BPlusTreeError> {
        let node_bytes = self.node_bytes;
        let is_allowed = (NODE_BYTES_MIN..=NODE_BYTES_MAX).contains(&node_bytes);
        if !is_allowed || !node_bytes.is_power_of_two() {
            return Err(BPlusTreeError::NodeBytes { node_bytes });
        }
        Ok(Geometry::new(node_bytes))
    }

    /// The fill factor, if it is one.
    pub(super) fn fill_factor(&self) -> Result<f64, BPlusTreeError> {
        let fill_factor = self.fill_factor;
        if fill_factor > 0.0 && fill_factor <= 1.0 {
            Ok(fill_factor)
        } else {
            Err(BPlusTreeError::FillFactor { fill_factor })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_options_are_refused_by_name() {
        for node_bytes in [0, 8, 128, 255, 1000, 8192, usize::MAX] {
            let options = BPlusTreeOptions {
                node_bytes,
                ..BPlusTreeOptions::default()
            };
            let error = options.geometry().unwrap_err().to_string();
            assert!(error.contains("node_bytes"), "{error}");
        }
        for fill_factor in [0.0, -1.0, 1.5, f64::NAN] {
            let options = BPlusTreeOptions {
                fill_factor,
                ..BPlusTreeOptions::default()
            };
            let error = options.fill_factor().unwrap_err().to_string();
            assert!(error.contains("fill_factor"), "{error}");
        }
    }
}
