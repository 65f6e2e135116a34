//! A pool as this process has it, as its owner or as a reader.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use nearfar_memory::pool::{ExtentHandle, PoolError};
use nearfar_memory::{MemorySystem, Placement, TierId};
use parking_lot::Mutex;

use crate::checkpoint::SegmentFile;
use crate::error::CheckpointError;
use nearfar_table::segment::{PoolBytes, SegmentMemory};

/// Where a pool lies, and what of it was found damaged.
#[derive(Debug)]
pub(super) struct PoolPlace {
    pub(super) path: PathBuf,
    pub(super) pool_id: u128,
    pub(super) system: Arc<MemorySystem>,
    pub(super) tier: TierId,
    /// Whether another process owns it, whose extents are all used where they lie.
    pub(super) is_borrowed: bool,
    /// Where extents begin whose bytes were found damaged.
    damaged: Mutex<HashSet<u64>>,
}

impl PoolPlace {
    pub(super) fn new(
        path: PathBuf,
        pool_id: u128,
        (system, tier): (&Arc<MemorySystem>, TierId),
        is_borrowed: bool,
    ) -> Self {
        Self {
            path,
            pool_id,
            system: Arc::clone(system),
            tier,
            is_borrowed,
            damaged: Mutex::default(),
        }
    }

    /// Whether columns of this placement are used in the pool.
    pub(super) fn holds(&self, placement: &Placement) -> bool {
        *placement == Placement::Bind(self.tier)
    }

    /// Counts an extent as taken of the pool's tier.
    pub(super) fn charge(&self, extent: &ExtentHandle) -> Result<(), CheckpointError> {
        let charged = extent.charge_to(&self.system, self.tier);
        charged.map_err(|source| self.failed(source))
    }

    pub(super) fn in_place(
        &self,
        extent: Arc<ExtentHandle>,
    ) -> Result<SegmentMemory, CheckpointError> {
        let bytes = PoolBytes::of(extent, &self.system, self.tier);
        let bytes = bytes.map_err(|source| self.failed(source))?;
        Ok(SegmentMemory::Pool(bytes))
    }

    /// Says that the data directory is used instead of an extent, and has the next publication write the
    /// segment anew.
    pub(super) fn note_damaged(
        &self,
        extent: &ExtentHandle,
        file: &SegmentFile,
        damage: &CheckpointError,
    ) {
        if self.damaged.lock().insert(extent.extent().offset) {
            let file = file.path().display();
            tracing::warn!(%damage, %file, "damaged in the pool, and read from the data directory");
        }
    }

    /// Whether an extent was found damaged.
    pub(super) fn is_damaged(&self, extent: &ExtentHandle) -> bool {
        self.damaged.lock().contains(&extent.extent().offset)
    }

    pub(super) fn failed(&self, source: PoolError) -> CheckpointError {
        CheckpointError::Pool {
            path: self.path.clone(),
            source: Box::new(source),
        }
    }
}
