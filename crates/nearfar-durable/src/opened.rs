//! A database as it was left: from a data directory, from a pool, from both, or empty.

use std::sync::Arc;

use nearfar_memory::pool::PoolError;

use crate::checkpoint::Verifier;
use crate::checkpoint::pooled::{DataLink, Publication, TablePool, TablePoolOptions, Verify};
use crate::error::{CheckpointError, DurableError};
use crate::log::{DataDirectory, DataOptions, Definitions, Durability, Origin};
use nearfar_table::placement::Storage;
use nearfar_table::segment::ColumnPool;
use nearfar_table::table::Snapshot;
use nearfar_table::transaction::{Database, MergeLimits};

/// The database that is on disk or in a pool, or an empty one.
#[derive(Debug)]
pub struct Opened {
    /// Where rows are put: as it was given, and in the pool if there is one.
    pub storage: Storage,
    /// The pool, which this process owns.
    pub pool: Option<Arc<TablePool>>,
    /// The tables. Nothing is logged until the database is told of the log.
    pub database: Arc<Database>,
    /// The data directory and its log.
    pub durability: Option<Durability>,
    /// What the tables, views and schemas are called; nothing where nothing is kept.
    pub definitions: Option<Definitions>,
    /// Where the tables were.
    pub origin: Origin,
    /// Checks in the background what lies in the pool, until it is dropped.
    pub verifier: Option<Verifier>,
}

impl Opened {
    /// Opens what `data` and `pool` say; with a pool and a data directory, what is damaged in the pool is
    /// taken from the directory.
    ///
    /// # Errors
    /// [`DurableError`]: a directory or a pool that others have, that is damaged or that is not one; memory
    /// that is refused.
    pub fn new(
        storage: Storage,
        data: Option<&DataOptions>,
        pool: Option<&TablePoolOptions>,
    ) -> Result<Self, DurableError> {
        let (storage, pool) = open_pool(pool, data.is_some(), storage)?;
        let pool_id = pool.as_deref().map(TablePool::id);
        let directory =
            data.map(|data| DataDirectory::open_for(&data.directory, pool_id, data.access));
        let directory = directory.transpose()?;
        let link = directory.as_ref().map(DataDirectory::link);
        let attached = attach(pool.as_ref(), &storage, link.as_ref())?;
        let unverified = unverified(pool.as_ref(), attached.as_ref());
        let verify = |origin| match origin {
            Origin::Pool if !unverified.is_empty() => Some(Verifier::start(unverified)),
            _ => None,
        };
        let limits = MergeLimits::default();
        let Some((directory, data)) = directory.zip(data) else {
            let database = Database::new(storage.clone(), limits);
            let origin = attached.as_ref().map_or(Origin::Nothing, |_| Origin::Pool);
            return Ok(Self {
                storage,
                pool,
                origin,
                definitions: attached
                    .map(|published| Definitions::of_manifest(published.manifest, &database)),
                database,
                durability: None,
                verifier: verify(origin),
            });
        };
        let database = Database::durable(storage.clone(), limits);
        let opened = Durability::open(directory, data, &database, (pool.as_ref(), attached));
        // Merges that recovery began must not outlive it.
        let (durability, definitions) = opened.inspect_err(|_| database.merges().stop())?;
        Ok(Self {
            storage,
            pool,
            database,
            origin: durability.origin(),
            verifier: verify(durability.origin()),
            durability: Some(durability),
            definitions: Some(definitions),
        })
    }
}

/// `storage` with the pool of `options`, which this process owns from now on. With a data directory,
/// a pool whose catalog is damaged is opened empty.
fn open_pool(
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
fn attach(
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
    let DurableError::Checkpoint(error) = error else {
        return false;
    };
    match error.as_ref() {
        CheckpointError::Manifest { .. } | CheckpointError::Column { .. } => true,
        CheckpointError::Pool { source, .. } => matches!(
            source.as_ref(),
            PoolError::Catalog { .. } | PoolError::Damaged { .. }
        ),
        _ => false,
    }
}

/// The tables of what was attached, where they are to be verified in the background.
fn unverified(pool: Option<&Arc<TablePool>>, published: Option<&Publication>) -> Vec<Snapshot> {
    let is_wanted = |pool: &Arc<TablePool>| pool.verify() == Verify::Background;
    let published = published.filter(|_| pool.is_some_and(is_wanted));
    let tables = published
        .into_iter()
        .flat_map(|known| &known.manifest.tables);
    tables.map(|table| table.snapshot.clone()).collect()
}
