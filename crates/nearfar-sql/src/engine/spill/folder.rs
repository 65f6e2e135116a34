//! The folder on disk that queries spill to.

use bytes::{Bytes, BytesMut};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::spill_file::{SpillFile, SpillWriter, TempFileFactory};
use futures::stream;
use parking_lot::Mutex;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::AsyncReadExt;

use super::file::{Bytestream, READ_BYTES};
use crate::scratch::{ScratchFolder, sweep};

/// A folder of this process where temporary files go, made when the first query spills there.
#[derive(Debug, Default)]
pub struct SpillFolder {
    made: Mutex<Option<Arc<ScratchFolder>>>,
    /// What the next file is called.
    next: AtomicU64,
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

    fn folder(&self) -> io::Result<Arc<ScratchFolder>> {
        let mut made = self.made.lock();
        if let Some(folder) = made.as_ref() {
            return Ok(Arc::clone(folder));
        }
        let folder = Arc::new(ScratchFolder::make(&std::env::temp_dir(), "spill")?);
        Ok(Arc::clone(made.insert(folder)))
    }
}

impl TempFileFactory for SpillFolder {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        let folder = self.folder().map_err(DataFusionError::IoError)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(FolderFile(Arc::new(Removed {
            path: folder.path().join(number.to_string()),
            bytes: AtomicU64::new(0),
            _folder: folder,
        }))))
    }
}

/// A file of the folder. It is open only while somebody writes or reads it: queries have more files than a process may
/// have open.
struct FolderFile(Arc<Removed>);

/// Its place, removed when this is dropped.
struct Removed {
    path: PathBuf,
    bytes: AtomicU64,
    /// Outlives the file.
    _folder: Arc<ScratchFolder>,
}

impl Drop for Removed {
    fn drop(&mut self) {
        // One that nobody has written to is not there.
        let _ = fs::remove_file(&self.path);
    }
}

impl SpillFile for FolderFile {
    fn size(&self) -> Option<u64> {
        Some(self.0.bytes.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Bytestream> {
        let first = Reader::Closed(Arc::clone(&self.0));
        Ok(Box::pin(stream::try_unfold(first, |reader| async move {
            let next = reader.next().await;
            next.map_err(DataFusionError::IoError)
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        let mut options = fs::OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        let file = options.open(&self.0.path);
        Ok(Box::new(Writer {
            file: file.map_err(DataFusionError::IoError)?,
            of: Arc::clone(&self.0),
        }))
    }
}

enum Reader {
    Closed(Arc<Removed>),
    /// With the bytes that are left, as far as is known.
    Open(tokio::fs::File, usize),
}

impl Reader {
    async fn next(self) -> io::Result<Option<(Bytes, Self)>> {
        let (mut file, left) = match self {
            Self::Closed(of) => {
                let bytes = of.bytes.load(Ordering::Relaxed) as usize;
                (tokio::fs::File::open(&of.path).await?, bytes)
            }
            Self::Open(file, left) => (file, left),
        };
        // Arrays that are made of the bytes keep all of their buffer.
        let mut bytes = BytesMut::with_capacity(left.clamp(1, READ_BYTES));
        let read = file.read_buf(&mut bytes).await?;
        let left = left.saturating_sub(read);
        Ok((read > 0).then(|| (bytes.freeze(), Self::Open(file, left))))
    }
}

struct Writer {
    file: fs::File,
    of: Arc<Removed>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.of.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
