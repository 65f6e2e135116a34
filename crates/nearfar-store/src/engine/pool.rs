//! The pool that an engine's main storage is in.

use nearfar_memory::pool::PoolError;
use std::sync::Arc;

use super::Engine;
use crate::durable_error::DurableError;
use crate::error::StoreError;
use crate::savepoint::pooled::{DataLink, Publication, TablePool, TablePoolOptions, Verify};
use crate::savepoint::{Publisher, SavepointError};
use nearfar_table::placement::Storage;
use nearfar_table::segment::ColumnPool;
use nearfar_table::table::Snapshot;

/// `storage` with the pool of `options`, which this process owns from now on. With a data directory,
/// a pool whose catalog is damaged is opened empty.
pub(super) fn open(
    options: Option<&TablePoolOptions>,
    has_data: bool,
    storage: Storage,
) -> Result<(Storage, Option<Arc<TablePool>>), DurableError> {
    let Some(options) = options else {
        return Ok((storage, None));
    };
    let pool = match TablePool::open(options, has_data, &storage.system) {
        Err(error) if has_data && is_damage(&error) => {
            note_damage(&error);
            TablePool::open_empty(options, has_data, &storage.system)?
        }
        opened => opened?,
    };
    let columns: Arc<dyn ColumnPool> = Arc::clone(&pool) as _;
    let storage = Storage {
        pool: Some(columns),
        ..storage
    };
    Ok((storage, Some(pool)))
}

/// What was published in `pool`, which is that of `storage`. Where that is damaged, the data directory
/// has it, and the next publication takes its place.
pub(super) fn attach(
    pool: Option<&Arc<TablePool>>,
    storage: &Storage,
    data: Option<&DataLink>,
) -> Result<Option<Publication>, DurableError> {
    let Some(pool) = pool else {
        return Ok(None);
    };
    if let Some(data) = data {
        pool.belong_to(data);
    }
    match pool.attach(storage) {
        Err(error) if data.is_some() && is_damage(&error) => {
            note_damage(&error);
            Ok(None)
        }
        attached => attached,
    }
}

fn note_damage(error: &DurableError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "the pool is filled anew from the data directory");
}

/// Whether what is in a pool can't be used, and nothing else is wrong.
fn is_damage(error: &DurableError) -> bool {
    let DurableError::Savepoint(error) = error else {
        return false;
    };
    match error.as_ref() {
        SavepointError::Image { .. } | SavepointError::Column { .. } => true,
        SavepointError::Pool { source, .. } => matches!(
            source.as_ref(),
            PoolError::Catalog { .. } | PoolError::Damaged { .. }
        ),
        _ => false,
    }
}

/// The tables of what was attached, where they are to be verified in the background.
pub(super) fn unverified(
    pool: Option<&Arc<TablePool>>,
    published: Option<&Publication>,
) -> Vec<Snapshot> {
    let is_wanted = |pool: &Arc<TablePool>| pool.verify() == Verify::Background;
    let published = published.filter(|_| pool.is_some_and(is_wanted));
    let tables = published.into_iter().flat_map(|known| &known.image.tables);
    tables.map(|table| table.snapshot.clone()).collect()
}

impl Engine {
    /// Publishes what is committed from now on, if there is a pool.
    pub(super) fn start_publishing(&self) {
        let Some(pool) = &self.pool else {
            return;
        };
        let (take, log) = (self.image_taker(), self.log().cloned());
        let take = move || {
            let image = take();
            // A pool must not have what the log could still lose.
            if let Some(log) = &log {
                log.sync_to(image.log_position)?;
            }
            Ok(image)
        };
        let publisher = Publisher::new(Arc::clone(pool), Box::new(take));
        let publisher = self.publisher.get_or_init(|| publisher);
        let publisher = Arc::downgrade(publisher);
        self.database.on_main_changed(move || {
            if let Some(publisher) = publisher.upgrade() {
                publisher.publish_or_warn();
            }
        });
    }

    /// The pool that main storage is in, where there is one.
    pub fn pool(&self) -> Option<&Arc<TablePool>> {
        self.pool.as_ref()
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
            .map_or(Ok(()), |publisher| Ok(publisher.publish()?))
    }
}
