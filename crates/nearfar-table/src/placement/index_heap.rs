//! The memory of indexes.

use nearfar_memory::{HeapError, HeapOptions, MemorySystem, TierHeap, TierId};
use parking_lot::Mutex;
use std::sync::Arc;

/// The heap that the nodes of all indexes of an engine come from, in near memory. It is made with the first
/// index: a heap reserves as much address space as its tier has memory.
#[derive(Debug, Clone, Default)]
pub struct IndexHeap(Arc<Mutex<Option<TierHeap>>>);

impl IndexHeap {
    /// The heap.
    ///
    /// # Errors
    /// Address space that is refused; it is asked for again the next time.
    pub(crate) fn get(&self, system: &Arc<MemorySystem>) -> Result<TierHeap, HeapError> {
        let mut made = self.0.lock();
        if let Some(heap) = made.as_ref() {
            return Ok(heap.clone());
        }
        let heap = TierHeap::new(system, TierId::NEAR, HeapOptions::default())?;
        Ok(made.insert(heap).clone())
    }
}
