//! The memory that our trees are made on.

use std::sync::Arc;

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::Frontend;
use nearfar_memory::{HeapError, HeapOptions, MemorySystem, TierHeap, TierId};

/// Makes the memory and the frontend of a tree.
pub trait MemorySource {
    /// New memory, and how the tree is to use it.
    ///
    /// # Errors
    /// [`HeapError`]: a tier gives no heap.
    fn make(&self) -> Result<(NodeMemory, Frontend), HeapError>;
}

/// The platform's allocator, everything near.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlatformMemory;

impl MemorySource for PlatformMemory {
    fn make(&self) -> Result<(NodeMemory, Frontend), HeapError> {
        Ok((NodeMemory::platform(), Frontend::all_near()))
    }
}

/// A heap of huge pages on near memory, everything near.
#[derive(Debug, Clone)]
pub struct NearMemory {
    /// Whose near tier.
    pub system: Arc<MemorySystem>,
    /// Address space of each tree's heap; the tier's capacity by default.
    pub reserve_bytes: Option<usize>,
}

impl MemorySource for NearMemory {
    fn make(&self) -> Result<(NodeMemory, Frontend), HeapError> {
        let options = HeapOptions {
            reserve_bytes: self.reserve_bytes,
            huge_pages: true,
            ..HeapOptions::default()
        };
        let heap = TierHeap::new(&self.system, TierId::NEAR, options)?;
        let memory = NodeMemory::on_heaps(vec![(heap, u64::MAX >> 1)]);
        Ok((memory, Frontend::all_near()))
    }
}
