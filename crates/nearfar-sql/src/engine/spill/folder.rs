//! The folder on disk that queries spill to.

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManager, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::spill_file::{SpillFile, TempFileFactory};
use parking_lot::Mutex;
use std::sync::Arc;

use crate::scratch::{ScratchFolder, sweep};

/// A folder of this process where temporary files go, made when the first query spills there.
#[derive(Debug, Default)]
pub struct SpillFolder(Mutex<Option<Made>>);

#[derive(Debug)]
struct Made {
    /// Removes its own files before the folder is.
    files: Arc<DiskManager>,
    _folder: ScratchFolder,
}

impl SpillFolder {
    /// What the operators of queries find it in. Removes what killed processes have spilled.
    ///
    /// # Errors
    /// What DataFusion finds wrong with it.
    pub fn runtime() -> Result<Arc<RuntimeEnv>> {
        sweep(&std::env::temp_dir());
        let disk = DiskManager::builder().with_temp_file_factory(Arc::new(Self::default()));
        let builder = RuntimeEnvBuilder::new().with_disk_manager_builder(disk);
        builder.build_arc()
    }

    fn files(&self) -> Result<Arc<DiskManager>> {
        let mut made = self.0.lock();
        if let Some(made) = made.as_ref() {
            return Ok(Arc::clone(&made.files));
        }
        let folder = ScratchFolder::make(&std::env::temp_dir(), "spill");
        let folder = folder.map_err(DataFusionError::IoError)?;
        let mode = DiskManagerMode::Directories(vec![folder.path().to_owned()]);
        let files = Arc::new(DiskManager::builder().with_mode(mode).build()?);
        *made = Some(Made {
            files: Arc::clone(&files),
            _folder: folder,
        });
        Ok(files)
    }
}

impl TempFileFactory for SpillFolder {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        self.files()?.create_tmp_file(description)
    }
}
