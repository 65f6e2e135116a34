//! One copy of replicated tables for several nodes: those that another node keeps in a pool are read where they lie
//! there, in the place of rows of this node's own.
//!
//! Every node has all rows of a replicated table, in its log and in its tables; nothing here changes which. A table has
//! the same rows on two nodes where it has [been emptied or made last](super::LocalTable::since) by the same step, and has
//! as many rows since, because all nodes take the same steps in the same order, and rows are only added. Where that is so
//! in what the other node has published, its segments are used here; what is added later is this node's own, until the
//! other node publishes again.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use nearfar_durable::checkpoint::pooled::{SharedPool, SharedPoolOptions, SharedPublication};
use nearfar_sql::error::EngineError;
use nearfar_table::segment::RowSet;
use nearfar_table::transaction::MergeScope;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::{LocalTable, Node};
use crate::error::failed;
use crate::home::TableHome;

/// Tables that the other node publishes no longer are used for so long, and copied then, so that it can use their space.
const OUTDATED_PATIENCE: Duration = Duration::from_secs(30);

/// Errors that differ from the last one are told again after so long.
const TELLING_INTERVAL: Duration = Duration::from_secs(60);

/// What this node shares with another.
#[derive(Debug)]
pub struct Sharing {
    options: SharedPoolOptions,
    /// Attached once it is there.
    pool: OnceLock<SharedPool>,
    is_busy: AtomicBool,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// What the other node has published, as long as not all tables are those that are here.
    published: Option<SharedPublication>,
    /// Since when tables here have been outdated.
    outdated: Option<Instant>,
    /// What was told last, and when.
    told: Option<(String, Instant)>,
}

/// Says that nobody is looking any more.
struct Looking<'s>(&'s Sharing);

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Ordering::Release);
    }
}

impl Sharing {
    pub(crate) fn new(options: SharedPoolOptions) -> Self {
        Self {
            options,
            pool: OnceLock::new(),
            is_busy: AtomicBool::new(false),
            progress: Mutex::default(),
        }
    }

    /// The right to look, unless somebody does.
    fn begin(&self) -> Option<Looking<'_>> {
        let is_free = !self.is_busy.swap(true, Ordering::AcqRel);
        is_free.then_some(Looking(self))
    }

    fn tell(&self, error: &(dyn Error + 'static)) {
        let text = error.to_string();
        let mut progress = self.progress.lock();
        let is_known =
            |(told, since): &(String, Instant)| *told == text || since.elapsed() < TELLING_INTERVAL;
        if !progress.told.as_ref().is_some_and(is_known) {
            tracing::warn!(error, "tables in the pool of another node can't be read");
            progress.told = Some((text, Instant::now()));
        }
    }
}

impl Node {
    /// Looks whether there is something to be shared, on a thread of its own, unless that is being done.
    pub(crate) fn begin_to_share(self: &Arc<Self>) {
        if self.sharing.is_none() {
            return;
        }
        let node = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let is_ending = node.is_draining.load(Ordering::Relaxed);
            let Some(sharing) = node.sharing.as_ref().filter(|_| !is_ending) else {
                return;
            };
            if let Some(_looking) = sharing.begin()
                && let Err(error) = node.share(sharing)
            {
                sharing.tell(&error);
            }
        });
    }

    /// Gives this node's place in the pool of another one back, where no table of the engine is used any more.
    pub fn stop_sharing(&self) {
        let pool = self.sharing.as_ref().and_then(|it| it.pool.get());
        if let Some(Err(error)) = pool.map(SharedPool::give_back) {
            tracing::warn!(%error, "the pool of another node keeps what was read here");
        }
    }

    fn share(&self, sharing: &Sharing) -> Result<(), EngineError> {
        let pool = match sharing.pool.get() {
            Some(pool) => pool,
            None => {
                let pool = SharedPool::open(&sharing.options, self.engine.system())?;
                sharing.pool.get_or_init(|| pool)
            }
        };
        if let Err(error) = pool.check() {
            // Rows may be anything by now.
            self.is_draining.store(true, Ordering::Relaxed);
            return Err(failed(format!("{error}; start this node again")));
        }
        let newest = pool.newest()?;
        let kept = sharing.progress.lock().published.take();
        let mut adopted = Ok(true);
        if let Some(published) = newest.or(kept) {
            adopted = self.adopt_all(&published);
            if !matches!(adopted, Ok(true)) {
                sharing.progress.lock().published = Some(published);
            }
        }
        self.copy_outdated(sharing)?;
        adopted.map(drop)
    }

    /// Uses those replicated tables of a publication that are those of this node; whether that were all.
    ///
    /// # Errors
    /// The first table that can't be used; the others are.
    fn adopt_all(&self, published: &SharedPublication) -> Result<bool, EngineError> {
        let theirs = self.since_in(published)?;
        let mut all = Ok(true);
        for (name, local) in self.tables.read().clone() {
            let table = &local.table;
            let rows = table.snapshot().rows();
            if !matches!(local.home, TableHome::Replicated) || rows == 0 || table.is_adopted() {
                continue;
            }
            let is_same = local.since != 0
                && theirs.get(&name) == Some(&local.since)
                && published.rows(&name) == Some(rows);
            let adopted = match is_same {
                true => self.adopt(published, &local),
                false => Ok(false),
            };
            all = all.and_then(|all| Ok(adopted? && all));
        }
        all
    }

    fn adopt(
        &self,
        published: &SharedPublication,
        local: &LocalTable,
    ) -> Result<bool, EngineError> {
        let (database, name) = (self.engine.database(), local.table.name());
        let Some(theirs) = published.attach(name, database.storage())? else {
            return Ok(false);
        };
        // Nothing is emptied or made anew from here on.
        let unchanged = self.state.blocking_lock();
        let now = self.tables.read().get(name).cloned();
        let now = now.filter(|now| now.since == local.since);
        let is_adopted = now.is_some_and(|now| now.table.adopt(database, &theirs.snapshot));
        drop(unchanged);
        if is_adopted {
            let bytes = local.table.borrowed_bytes();
            tracing::info!(
                table = name,
                bytes,
                "a table is read in the pool of another node"
            );
        }
        Ok(is_adopted)
    }

    /// The step by which each table of a publication was made, or emptied last.
    fn since_in(
        &self,
        published: &SharedPublication,
    ) -> Result<BTreeMap<String, u64>, EngineError> {
        let storage = self.engine.database().storage();
        let Some(tables) = published.attach("nearfar_cluster_tables", storage)? else {
            return Ok(BTreeMap::new());
        };
        let column = |name: &str| tables.schema.index_of(name);
        let (Ok(name), Ok(since)) = (column("name"), column("since")) else {
            return Ok(BTreeMap::new());
        };
        let mut found = BTreeMap::new();
        for part in tables.snapshot.parts() {
            let rows: Vec<u32> = (0..part.segment.rows() as u32)
                .filter(|row| part.has(*row as usize))
                .collect();
            let read = |column: usize| {
                let data_type = tables.schema.field(column).data_type();
                part.values(column, data_type, RowSet::Positions(&rows))
            };
            let names = arrow::compute::cast(&read(name)?, &arrow::datatypes::DataType::Utf8)?;
            let steps = read(since)?;
            let steps = steps.as_primitive::<Int64Type>();
            for (name, step) in names.as_string::<i32>().iter().zip(steps) {
                let known = name.zip(step);
                found.extend(known.map(|(name, step)| (name.to_owned(), step.cast_unsigned())));
            }
        }
        Ok(found)
    }

    /// Takes a copy of tables that the other node has published no longer for a while.
    fn copy_outdated(&self, sharing: &Sharing) -> Result<(), EngineError> {
        let tables = self.tables.read().clone();
        let mut outdated = tables.values().filter(|local| local.table.is_outdated());
        let since = outdated.next().map(|_| Instant::now());
        let since = {
            let mut progress = sharing.progress.lock();
            progress.outdated = since.map(|now| progress.outdated.unwrap_or(now));
            progress.outdated
        };
        if since.is_none_or(|since| since.elapsed() < OUTDATED_PATIENCE) {
            return Ok(());
        }
        // What is not the same by now, and is published no longer, will not be.
        sharing.progress.lock().published = None;
        let database = self.engine.database();
        for local in tables.values().filter(|local| local.table.is_outdated()) {
            let (table, scope) = (&local.table, MergeScope::Outdated);
            let go_on = || !self.is_draining.load(Ordering::Relaxed);
            table.merge(database, database.storage(), scope, &go_on)?;
        }
        Ok(())
    }

    /// Bytes of this node's tables that lie in the pool of another node.
    pub(crate) fn shared_bytes(&self) -> u64 {
        let tables = self.tables.read();
        let tables = tables.values().map(|local| local.table.borrowed_bytes());
        tables.sum()
    }
}
