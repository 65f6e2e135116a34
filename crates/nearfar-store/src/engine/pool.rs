//! The pool that an engine's main storage is in.

use std::sync::Arc;

use super::Engine;
use crate::error::StoreError;
use crate::image::DatabaseImage;
use crate::placement::Storage;
use crate::savepoint::pooled::{TablePool, TablePoolOptions, Verify};
use crate::savepoint::{Publisher, Verifier};

/// `storage` with the pool of `options`, and what was published there. With a data directory that is
/// the log's to know, and the pool is filled anew.
pub(super) fn attach(
    options: Option<&TablePoolOptions>,
    has_log: bool,
    storage: Storage,
) -> Result<(Storage, Option<DatabaseImage>), StoreError> {
    let Some(options) = options else {
        return Ok((storage, None));
    };
    let system = &storage.system;
    let pool = match has_log {
        true => TablePool::open_empty(options, system)?,
        false => TablePool::open(options, system)?,
    };
    let storage = Storage {
        pool: Some(Arc::clone(&pool)),
        ..storage
    };
    let image = match has_log {
        true => None,
        false => pool.attach(&storage)?,
    };
    Ok((storage, image))
}

/// Who verifies in the background what was attached, where that is wanted.
pub(super) fn verifier(storage: &Storage, image: &DatabaseImage) -> Option<Verifier> {
    let pool = storage.pool.as_ref()?;
    (pool.verify() == Verify::Background).then(|| Verifier::start(image))
}

impl Engine {
    /// Publishes what is committed from now on, if there is a pool.
    pub(super) fn start_publishing(&self) {
        let Some(pool) = &self.storage.pool else {
            return;
        };
        let (take, database) = (self.image_taker(), Arc::clone(&self.database));
        let take = move || {
            let image = take();
            // A pool must not have what the log could still lose.
            if let Some(log) = database.log() {
                log.sync_to(image.log_position)?;
            }
            Ok(image)
        };
        let publisher = Publisher::new(Arc::clone(pool), Box::new(take));
        let publisher = self.publisher.get_or_init(|| publisher);
        self.database.set_publisher(publisher);
    }

    /// The pool that main storage is in, where there is one.
    pub fn pool(&self) -> Option<&Arc<TablePool>> {
        self.storage.pool.as_ref()
    }

    /// Publishes what is committed in the pool, with what was written since the last merge; nothing
    /// without a pool. It is done by itself after merges, large inserts and definitions, and at the
    /// end.
    ///
    /// # Errors
    /// A pool without room, or that was taken over. What was published before still is.
    pub fn publish(&self) -> Result<(), StoreError> {
        self.publisher
            .get()
            .map_or(Ok(()), |publisher| publisher.publish())
    }
}
