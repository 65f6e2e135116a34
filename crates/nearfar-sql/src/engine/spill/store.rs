//! The files of one query.

use datafusion::error::Result;
use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::spill_file::{SpillFile, TempFileFactory};
use nearfar_memory::{MemorySystem, TierId};
use nearfar_model::EmulatedTier;
use std::sync::Arc;

use super::file::StoredFile;
use crate::memory::SpillAccount;
use nearfar_table::traffic::TrafficAccount;

/// The tier whose memory is tried before disk.
#[derive(Debug, Clone)]
pub struct SpillTier {
    /// The tiers and their accounts.
    pub system: Arc<MemorySystem>,
    /// Which of them.
    pub tier: TierId,
    /// Its model, where it is emulated.
    pub model: Option<Arc<EmulatedTier>>,
    /// Where what is spilled to it is counted.
    pub account: Arc<TrafficAccount>,
}

/// Makes the files that the operators of one query spill to.
#[derive(Debug, Clone)]
pub struct SpillStore {
    pub(super) tier: Option<SpillTier>,
    pub(super) disk: Arc<DiskManager>,
    pub(super) account: Arc<SpillAccount>,
}

impl SpillStore {
    /// Files in the memory of `tier`, if one is given, and then on `disk`, counted by `account`.
    pub fn new(
        tier: Option<SpillTier>,
        disk: Arc<DiskManager>,
        account: Arc<SpillAccount>,
    ) -> Self {
        if let Some(tier) = &tier {
            account.set_tier(tier.tier);
        }
        Self {
            tier,
            disk,
            account,
        }
    }

    /// The store as operators know it.
    ///
    /// # Errors
    /// What DataFusion finds wrong with it.
    pub fn into_disk_manager(self) -> Result<Arc<DiskManager>> {
        let builder = DiskManager::builder().with_temp_file_factory(Arc::new(self));
        Ok(Arc::new(builder.build()?))
    }
}

impl TempFileFactory for SpillStore {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        self.account.add_file();
        Ok(Arc::new(StoredFile::new(self.clone(), description)))
    }
}
