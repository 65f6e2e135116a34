//! Tables in the pool of another process, read where they lie.

use std::sync::Arc;

use nearfar_memory::pool::{Pool, PoolError, PoolOptions, Reader};
use nearfar_memory::{MemorySystem, UnknownTier};

use super::options::SharedPoolOptions;
use super::place::PoolPlace;
use super::publication::Unattached;
use crate::error::{CheckpointError, DurableError};
use crate::manifest::TableManifest;
use nearfar_table::placement::Storage;

/// A pool that another process owns, on this host or on another one. See [`Reader`] for who keeps what it uses.
#[derive(Debug)]
pub struct SharedPool {
    place: Arc<PoolPlace>,
    reader: Reader,
}

/// What the owner of a [`SharedPool`] has published.
#[derive(Debug)]
pub struct SharedPublication {
    place: Arc<PoolPlace>,
    content: Unattached,
}

impl SharedPool {
    /// Attaches the pool, whose extents this process can't write.
    ///
    /// # Errors
    /// [`CheckpointError::Pool`]: no pool, or one with too many readers; a tier that there is not.
    pub fn open(
        options: &SharedPoolOptions,
        system: &Arc<MemorySystem>,
    ) -> Result<Self, DurableError> {
        let tier = system
            .tier(&options.tier)
            .map_err(|error: UnknownTier| error)?;
        let failed = |source| CheckpointError::Pool {
            path: options.path.clone(),
            source: Box::new(source),
        };
        let how = PoolOptions {
            is_read_only: true,
            ..PoolOptions::default()
        };
        let pool = Pool::attach(&options.path, how).map_err(failed)?;
        let reader = pool.read(&options.reader).map_err(failed)?;
        let place = PoolPlace::new(options.path.clone(), pool.id(), (system, tier), true);
        Ok(Self {
            place: Arc::new(place),
            reader,
        })
    }

    /// What is published now, unless that is what this said last. To be called now and then, so that the owner can use
    /// space again.
    ///
    /// # Errors
    /// What is published can't be read.
    pub fn newest(&self) -> Result<Option<SharedPublication>, CheckpointError> {
        let found = self.reader.newest();
        let Some(published) = found.map_err(|source| self.place.failed(source))? else {
            return Ok(None);
        };
        let content = Unattached::read(&self.place, &published, None)?;
        Ok(Some(SharedPublication {
            place: Arc::clone(&self.place),
            content,
        }))
    }

    /// Gives the place of this reader back, where nothing that was attached is used any more.
    ///
    /// # Errors
    /// [`PoolError::Forgotten`], or the kernel's.
    pub fn give_back(&self) -> Result<(), PoolError> {
        self.reader.give_back()
    }

    /// Whether what was attached may still be used.
    ///
    /// # Errors
    /// [`PoolError::Forgotten`]: the space may have been used again.
    pub fn check(&self) -> Result<(), PoolError> {
        self.reader.check()
    }
}

impl SharedPublication {
    /// The number of rows of a table in schema `public`; `None` where there is none of this name.
    pub fn rows(&self, table: &str) -> Option<usize> {
        let mut tables = self.content.tables.iter();
        tables.find(|entry| entry.is(table)).map(|it| it.rows())
    }

    /// A table in schema `public`, whose bytes are all verified and used where they lie, whatever its placement; `None`
    /// where there is none of this name.
    ///
    /// # Errors
    /// Damaged bytes; a tier without budget for them.
    pub fn attach(
        &self,
        table: &str,
        storage: &Storage,
    ) -> Result<Option<TableManifest>, DurableError> {
        let mut tables = self.content.tables.iter();
        let Some(entry) = tables.find(|entry| entry.is(table)) else {
            return Ok(None);
        };
        let attached = self.content.attach(&self.place, entry.clone(), storage)?;
        Ok(Some(attached))
    }
}
