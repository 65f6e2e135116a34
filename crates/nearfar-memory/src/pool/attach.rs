//! Pools: made, attached and claimed.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::PoolError;
use super::extent::Extent;
use super::identity::Identity;
use super::medium::Medium;
use super::memory::PoolMemory;
use super::owner::Owner;
use super::ownership::{Claim, OwnerRecord, Ownership};
use super::reader::Reader;
use super::reader_slots::{ReaderRecord, Slots};
use crate::access::FileAccess;
use crate::sys::{Durability, SharedFile, SharedKind, SharedMapping, SysError};

/// Sizes of pools are multiples of this, the alignment of DAX devices.
pub(super) const GRAIN_BYTES: u64 = 2 << 20;
/// The smallest pool.
pub(super) const BYTES_MIN: u64 = GRAIN_BYTES;
/// Extents begin here; before are the identity, the claims, the roots and the readers.
pub(super) const EXTENTS_START: u64 = 72 << 10;

const _: () = assert!(super::reader_slots::END_WORD as u64 * 8 == EXTENTS_START);

/// How a pool is to be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolOptions {
    /// What its memory is. Unless told: tmpfs is memory of this host, a DAX device or a file that
    /// can be mapped with `MAP_SYNC` is lines, and everything else a file on a disk.
    pub medium: Option<Medium>,
    /// Who may read the file, where one is made.
    pub access: FileAccess,
    /// Whether extents are mapped so that this process can't write to them, as who [reads](Pool::read) only does; but for
    /// those within the first 2 MiB, where readers say what they read.
    pub is_read_only: bool,
}

/// Memory that outlives a process, attached to this one. See [`crate::pool`].
///
/// ```
/// use nearfar_memory::pool::{Claim, Pool, PoolOptions};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("tables.pool");
/// let pool = Pool::create(&path, 8 << 20, PoolOptions::default())?;
/// let owner = pool.claim(&Claim::of_this_process())?;
/// let extent = owner.write(&[b"the column"])?;
/// owner.publish(&[extent], b"what the extents are")?;
/// drop(owner);
///
/// // A later process:
/// let pool = Pool::attach(&path, PoolOptions::default())?;
/// let owner = pool.claim(&Claim::of_this_process())?;
/// let published = owner.published().expect("something was published");
/// assert_eq!(published.catalog, b"what the extents are");
/// assert_eq!(published.extents[0].buffer()?.as_slice(), b"the column");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pool {
    pub(super) memory: Arc<PoolMemory>,
    pub(super) identity: Identity,
    path: PathBuf,
}

impl Pool {
    /// Makes a pool of `bytes` at `path`: a new file, or a DAX device that holds none. A file takes
    /// memory as extents are written, not before. One that was begun like this, and not made for want
    /// of room or because the process was killed, is made now.
    ///
    /// Of processes of one host that make it concurrently, one does. Two hosts that make it on one device
    /// do not see each other.
    ///
    /// # Errors
    /// [`PoolError`]: a size that cannot be, a pool that is there already or in use, or the kernel's.
    pub fn create(path: &Path, bytes: u64, options: PoolOptions) -> Result<Self, PoolError> {
        if bytes < BYTES_MIN || !bytes.is_multiple_of(GRAIN_BYTES) {
            return Err(PoolError::Size { bytes });
        }
        let doing = |source| system_error_at(path, source, "made");
        let exists = || PoolError::Exists {
            path: path.to_path_buf(),
        };
        let file = SharedFile::open_or_make(path, options.access.file_mode()).map_err(doing)?;
        // From the first look at what is there until it is a pool; the lock ends with the file where
        // this fails.
        if !file.try_lock().map_err(doing)? {
            return Err(PoolError::InUse {
                path: path.to_path_buf(),
            });
        }
        let there = file.bytes().map_err(doing)?;
        if file.kind() == SharedKind::DaxDevice {
            if there < bytes {
                return Err(PoolError::Size { bytes });
            }
        } else if there != 0
            && (there != bytes || file.allocated_bytes().map_err(doing)? > EXTENTS_START)
        {
            return Err(exists());
        }
        let is_device = file.kind() == SharedKind::DaxDevice;
        file.set_bytes(bytes).map_err(doing)?;
        let memory = map(path, file, bytes, options)?;
        if there != 0 && !is_device && !Identity::is_unwritten(&memory, EXTENTS_START) {
            return Err(exists());
        }
        memory.reserve(0..EXTENTS_START).map_err(doing)?;
        let pool = Self::create_in(memory, path)?;
        pool.memory.unlock();
        Ok(pool)
    }

    /// Makes a pool in all of `memory`.
    ///
    /// # Errors
    /// [`PoolError::Exists`], or what the kernel says.
    pub fn create_in(memory: PoolMemory, path: &Path) -> Result<Self, PoolError> {
        if !matches!(
            Identity::read(&memory, path),
            Err(PoolError::NotAPool { .. })
        ) {
            return Err(PoolError::Exists {
                path: path.to_path_buf(),
            });
        }
        let doing = |source| system_error_at(path, source, "made");
        let identity = Identity {
            id: new_id(),
            bytes: memory.bytes(),
        };
        // A device may hold what was there before.
        let header_words = (EXTENTS_START / 8) as usize;
        memory.store(0, &vec![0; header_words]);
        memory.write_back(0..EXTENTS_START).map_err(doing)?;
        identity.write(&memory).map_err(doing)?;
        Ok(Self {
            memory: Arc::new(memory),
            identity,
            path: path.to_path_buf(),
        })
    }

    /// Attaches the pool at `path`.
    ///
    /// # Errors
    /// [`PoolError`]: no pool, one that this program cannot read, or the kernel's.
    pub fn attach(path: &Path, options: PoolOptions) -> Result<Self, PoolError> {
        let doing = |source| system_error_at(path, source, "attached");
        let file = SharedFile::open(path).map_err(doing)?;
        file.close_to_others().map_err(doing)?;
        let bytes = file.bytes().map_err(doing)?;
        if bytes < BYTES_MIN || !bytes.is_multiple_of(GRAIN_BYTES) {
            return Err(PoolError::NotAPool {
                path: path.to_path_buf(),
                reason: format!("it has {bytes} bytes, which no pool has"),
            });
        }
        let memory = map(path, file, bytes, options)?;
        if options.is_read_only {
            memory.protect(GRAIN_BYTES..bytes).map_err(doing)?;
        }
        Self::attach_in(memory, path)
    }

    /// Attaches the pool in `memory`.
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub fn attach_in(memory: PoolMemory, path: &Path) -> Result<Self, PoolError> {
        memory.drop_cached(0..EXTENTS_START);
        let identity = Identity::read(&memory, path)?;
        Ok(Self {
            memory: Arc::new(memory),
            identity,
            path: path.to_path_buf(),
        })
    }

    /// The file or device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A number that no other pool has.
    #[must_use]
    pub fn id(&self) -> u128 {
        self.identity.id
    }

    /// Bytes of the pool.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.identity.bytes
    }

    /// The memory, to let the power of a simulated one fail.
    #[must_use]
    pub fn memory(&self) -> &PoolMemory {
        &self.memory
    }

    /// Who claimed the pool last; `None` when nobody has.
    #[must_use]
    pub fn last_owner(&self) -> Option<OwnerRecord> {
        let ownership = self.ownership();
        let epoch = ownership.epoch();
        (epoch > 0).then(|| ownership.record(epoch))
    }

    /// Becomes the owner, who alone reads and writes extents.
    ///
    /// # Errors
    /// [`PoolError::Owned`] when there is another owner and the claim does not end its time;
    /// [`PoolError::Fenced`] when somebody took the pool over in the midst of the claim;
    /// [`PoolError::Catalog`] when what was published cannot be read.
    pub fn claim(&self, claim: &Claim) -> Result<Owner, PoolError> {
        Owner::claim(self, claim)
    }

    /// Becomes the owner and forgets what was published, because it is damaged.
    ///
    /// # Errors
    /// As [`Self::claim`].
    pub fn claim_empty(&self, claim: &Claim) -> Result<Owner, PoolError> {
        Owner::claim_empty(self, claim)
    }

    /// Reads what the owner publishes, in place, as long as the [`Reader`] or a handle on an extent lives. A reader is
    /// called by a name that no other has at the same time: one that comes again under its name, because it was killed,
    /// takes the place of what it was before.
    ///
    /// # Errors
    /// [`PoolError::ReaderName`], [`PoolError::Readers`] where there are too many, or the kernel's.
    pub fn read(&self, name: &str) -> Result<Reader, PoolError> {
        Reader::register(self, name)
    }

    /// Who reads the pool without being its owner.
    #[must_use]
    pub fn readers(&self) -> Vec<ReaderRecord> {
        Slots(self).all()
    }

    /// Has what the reader of this name used be used again, because its process is gone for good: what a living one
    /// reads from then on may be anything. Whether there was such a reader.
    ///
    /// # Errors
    /// The kernel's.
    pub fn forget_reader(&self, name: &str) -> Result<bool, PoolError> {
        Slots(self).forget(name)
    }

    pub(super) fn ownership(&self) -> Ownership<'_> {
        Ownership {
            memory: &self.memory,
            pool_id: self.identity.id,
        }
    }

    pub(super) fn extents(&self) -> Range<u64> {
        EXTENTS_START..self.identity.bytes
    }

    /// Whether an extent lies where extents are.
    pub(super) fn has(&self, extent: Extent) -> bool {
        let (all, end) = (self.extents(), extent.offset.checked_add(extent.bytes));
        all.start <= extent.offset && end.is_some_and(|end| end <= all.end)
    }
}

fn map(
    path: &Path,
    file: SharedFile,
    bytes: u64,
    options: PoolOptions,
) -> Result<PoolMemory, PoolError> {
    let doing = |source| system_error_at(path, source, "mapped");
    let plain = || SharedMapping::open(path, bytes as usize, Durability::Flush).map_err(doing);
    let with_sync = || SharedMapping::open(path, bytes as usize, Durability::CpuCaches);
    let (map, medium) = match (options.medium, file.kind()) {
        (Some(medium), _) => (plain()?, medium),
        (None, SharedKind::Tmpfs) => (plain()?, Medium::Memory),
        (None, SharedKind::DaxDevice) => (plain()?, Medium::Lines),
        (None, SharedKind::Regular) => match with_sync() {
            Ok(map) => (map, Medium::Lines),
            Err(_) => (plain()?, Medium::File),
        },
    };
    Ok(PoolMemory::mapped(map, file, medium))
}

pub(super) fn system_error_at(path: &Path, source: SysError, doing: &'static str) -> PoolError {
    PoolError::System {
        path: path.to_path_buf(),
        doing,
        source,
    }
}

/// An error of a call on memory whose path the caller does not know.
pub(super) fn system_error(source: SysError, doing: &'static str) -> PoolError {
    system_error_at(Path::new("in memory"), source, doing)
}

/// A number that no other pool has: of the kernel's random numbers where it gives some, and of the
/// time and the process.
pub(super) fn new_id() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let random = u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or(0);
    let time = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    random ^ time ^ (u128::from(std::process::id()) << 96)
}
