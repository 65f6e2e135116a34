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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::{LocalTable, Node};
use crate::error::failed;
use crate::home::TableHome;

/// Tables that the other node publishes no longer are used for so long, and copied then, so that it can use their space.
const OUTDATED_PATIENCE: Duration = Duration::from_secs(30);

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
    /// What was told last, so that it is told once.
    told: Option<String>,
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
}

impl Node {
    /// Looks whether there is something to be shared, on a thread of its own, unless that is being done.
    pub(crate) fn begin_to_share(self: &Arc<Self>) {
        let Some(sharing) = &self.sharing else {
            return;
        };
        if sharing.is_busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let node = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let Some(sharing) = &node.sharing else {
                return;
            };
            let shared = node.share(sharing);
            let told = shared.err().map(|error| error.to_string());
            let mut progress = sharing.progress.lock();
            if let Some(error) = told.as_ref().filter(|_| progress.told != told) {
                tracing::warn!(error, "tables in the pool of another node can't be read");
            }
            progress.told = told;
            drop(progress);
            sharing.is_busy.store(false, Ordering::Release);
        });
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
        let published = {
            let mut progress = sharing.progress.lock();
            newest.or_else(|| progress.published.take())
        };
        if let Some(published) = published
            && !self.adopt_all(&published)?
        {
            sharing.progress.lock().published = Some(published);
        }
        self.copy_outdated(sharing)
    }

    /// Uses those replicated tables of a publication that are those of this node; whether that were all.
    fn adopt_all(&self, published: &SharedPublication) -> Result<bool, EngineError> {
        let theirs = self.since_in(published)?;
        let mut all = true;
        for (name, local) in self.tables.read().clone() {
            if !matches!(local.home, TableHome::Replicated) {
                continue;
            }
            let rows = local.table.snapshot().rows();
            let is_same =
                theirs.get(&name) == Some(&local.since) && published.rows(&name) == Some(rows);
            all &= is_same && (rows == 0 || self.adopt(published, &local)?);
        }
        Ok(all)
    }

    fn adopt(
        &self,
        published: &SharedPublication,
        local: &LocalTable,
    ) -> Result<bool, EngineError> {
        let (database, table) = (self.engine.database(), &local.table);
        let Some(theirs) = published.attach(table.name(), database.storage())? else {
            return Ok(false);
        };
        // Nothing is emptied or made anew from here on.
        let unchanged = self.state.blocking_lock();
        let now = self.tables.read().get(table.name()).cloned();
        let is_same = now.is_some_and(|now| now.since == local.since);
        let is_adopted = is_same && table.adopt(database, &theirs.snapshot);
        drop(unchanged);
        if is_adopted {
            let (table, bytes) = (table.name(), table.borrowed_bytes());
            tracing::info!(table, bytes, "a table is read in the pool of another node");
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
