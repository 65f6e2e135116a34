//! A pool with tables: opened, owned and written.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use nearfar_memory::pool::{
    Claim, ExtentHandle, Owner, OwnerRecord, Pool, PoolError, PoolOptions, Published,
};
use nearfar_memory::{MemorySystem, Placement, TierId, UnknownTier};
use parking_lot::Mutex;

use super::options::{DataLink, TablePoolOptions, Verify};
use super::place::PoolPlace;
use crate::checkpoint::Lease;
use crate::error::{CheckpointError, DurabilityError, DurableError};
use nearfar_table::error::TableError;
use nearfar_table::segment::{ColumnPool, SegmentMemory};

/// A pool that tables are in, which this process owns.
#[derive(Debug)]
pub struct TablePool {
    pub(super) place: Arc<PoolPlace>,
    pub(super) owner: Owner,
    /// What was published before, until it is attached.
    pub(super) published: Mutex<Option<Arc<Published>>>,
    pub(super) verify: Verify,
    lease: Lease,
    /// Whether there is a data directory, and which one, once that is known.
    pub(super) data: OnceLock<DataLink>,
    /// The term in which this process writes the data directory, once it has begun.
    pub(super) term: OnceLock<u64>,
    /// The position of the log that the last publication was taken at. Held by the one that is under
    /// way.
    pub(super) publishing: Mutex<u64>,
}

impl TablePool {
    /// Attaches the pool, or makes it where there is none, and becomes its owner.
    ///
    /// # Errors
    /// [`CheckpointError::Pool`], which says what is wrong with the pool; a tier that there is not.
    pub(crate) fn open(
        options: &TablePoolOptions,
        has_data: bool,
        system: &Arc<MemorySystem>,
    ) -> Result<Arc<Self>, DurableError> {
        Self::open_with(options, has_data, system, Pool::claim)
    }

    /// The same, and forgets what was published in it, because it can't be used.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_empty(
        options: &TablePoolOptions,
        has_data: bool,
        system: &Arc<MemorySystem>,
    ) -> Result<Arc<Self>, DurableError> {
        Self::open_with(options, has_data, system, Pool::claim_empty)
    }

    fn open_with(
        options: &TablePoolOptions,
        has_data: bool,
        system: &Arc<MemorySystem>,
        claim: fn(&Pool, &Claim) -> Result<Owner, PoolError>,
    ) -> Result<Arc<Self>, DurableError> {
        let tier = system
            .tier(&options.tier)
            .map_err(|error: UnknownTier| error)?;
        let path = &options.path;
        let failed = |source| CheckpointError::Pool {
            path: path.clone(),
            source: Box::new(source),
        };
        let pool = match &options.attached {
            Some(pool) => Ok(pool.clone()),
            None => attach_or_create(options, has_data),
        };
        let pool = pool.map_err(failed)?;
        let mut owner = claim(&pool, &options.claim).map_err(failed)?;
        let published = Mutex::new(owner.take_published());
        Ok(Arc::new(Self {
            place: Arc::new(PoolPlace::new(
                path.clone(),
                pool.id(),
                (system, tier),
                false,
            )),
            lease: Lease::start(owner.clone()),
            owner,
            published,
            verify: options.verify,
            data: OnceLock::new(),
            term: OnceLock::new(),
            publishing: Mutex::new(0),
        }))
    }

    /// Says which data directory has the log that goes on from what is published. Once, before
    /// [`Self::attach`].
    pub(crate) fn belong_to(&self, data: &DataLink) {
        self.data.get_or_init(|| data.clone());
    }

    /// Says which term of the data directory is published from now on, by its identity. Once.
    pub(crate) fn begin_term(&self, identity: u64) {
        self.term.get_or_init(|| identity);
    }

    /// Says that what was attached, at this position of the log, is used: what is published next is
    /// not older.
    pub(crate) fn go_on_from(&self, log_position: u64) {
        *self.publishing.lock() = log_position;
    }

    /// The file or device.
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// The number that tells the pool from others.
    pub(crate) fn id(&self) -> u128 {
        self.place.pool_id
    }

    /// Whether it still is this process's, at this moment.
    ///
    /// # Errors
    /// Who has taken it over.
    pub fn check_owner(&self) -> Result<(), OwnerRecord> {
        self.lease.check()
    }

    /// Gives the pool back, so that who waits for it has it immediately.
    ///
    /// # Errors
    /// The kernel's.
    pub fn give_back(&self) -> Result<(), CheckpointError> {
        let given_back = self.owner.give_back();
        given_back.map_err(|source| self.place.failed(source))
    }

    /// The lease that this process has the pool by.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The tier that its memory is part of.
    pub fn tier(&self) -> TierId {
        self.place.tier
    }

    /// When its bytes are checked.
    pub fn verify(&self) -> Verify {
        self.verify
    }

    /// Bytes that it has room for.
    pub fn free_bytes(&self) -> u64 {
        self.owner.free_bytes()
    }

    /// Whether columns of this placement are used in the pool.
    pub fn holds(&self, placement: &Placement) -> bool {
        self.place.holds(placement)
    }

    /// Puts bytes into the pool. They are gone with the process unless they are published.
    ///
    /// # Errors
    /// A pool or a tier without room; a pool that was taken over.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<SegmentMemory, CheckpointError> {
        let extent = self.write_extent(&[bytes])?;
        self.place.in_place(extent)
    }

    pub(super) fn write_extent(
        &self,
        parts: &[&[u8]],
    ) -> Result<Arc<ExtentHandle>, CheckpointError> {
        let extent = self
            .owner
            .write(parts)
            .map_err(|source| self.place.failed(source))?;
        self.place.charge(&extent)?;
        Ok(extent)
    }
}

impl ColumnPool for TablePool {
    fn holds(&self, placement: &Placement) -> bool {
        self.holds(placement)
    }

    fn write(&self, bytes: &[u8]) -> Result<SegmentMemory, TableError> {
        Ok(self.write(bytes)?)
    }

    fn check_owner(&self) -> Result<(), TableError> {
        self.check_owner()
            .map_err(|by| DurabilityError::fenced(&by).into())
    }
}

/// The pool at the path of `options`, or a new one where there is none.
fn attach_or_create(options: &TablePoolOptions, has_data: bool) -> Result<Pool, PoolError> {
    let path = &options.path;
    let is_there = std::fs::metadata(path).is_ok_and(|metadata| {
        use std::os::unix::fs::FileTypeExt;
        metadata.len() > 0 || metadata.file_type().is_char_device()
    });
    let none = |reason: &str| {
        let (path, reason) = (path.clone(), reason.to_owned());
        PoolError::NotAPool { path, reason }
    };
    let attached = match is_there {
        true => Pool::attach(path, PoolOptions::default()),
        // Nothing else has what was in it.
        false if path.exists() && !has_data => {
            return Err(none(
                "the file is empty. If it had tables, they are lost: put it back from a copy, or \
                 remove it to have a new pool made",
            ));
        }
        false => Err(none(
            "there is no such file; say how large the pool is to be",
        )),
    };
    let made = PoolOptions {
        access: options.access,
        ..PoolOptions::default()
    };
    match (attached, options.bytes) {
        (Err(PoolError::NotAPool { .. }), Some(bytes)) => {
            let pool = Pool::create(path, bytes, made)?;
            let path = path.display();
            match has_data {
                true => {
                    tracing::info!(%path, "a new pool is made, and filled from the data directory")
                }
                false => {
                    tracing::warn!(%path, "there was no pool: a new one is made, without tables")
                }
            }
            Ok(pool)
        }
        // What was in it is in the data directory.
        (Err(error @ (PoolError::Version { .. } | PoolError::ByteOrder { .. })), bytes)
            if has_data =>
        {
            replace(path, bytes, made, error)
        }
        (attached, _) => attached,
    }
}

/// A new pool in place of one that this program can't read, of as many bytes if none are given.
fn replace(
    path: &Path,
    bytes: Option<u64>,
    made: PoolOptions,
    error: PoolError,
) -> Result<Pool, PoolError> {
    tracing::warn!(%error, "the pool is made anew, and filled from the data directory");
    let is_file = |found: &std::fs::Metadata| found.is_file();
    let Some(found) = std::fs::metadata(path).ok().filter(is_file) else {
        return Err(error);
    };
    if std::fs::remove_file(path).is_err() {
        return Err(error);
    }
    Pool::create(path, bytes.unwrap_or(found.len()), made)
}
