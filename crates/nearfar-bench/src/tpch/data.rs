//! The tables in memory: Nearfar's, and DataFusion's own beside them to check against.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use nearfar_memory::{Placement, TierId};
use nearfar_sql::engine::Engine;
use nearfar_sql::load::{Batches, Load, Progress, Rows};
use nearfar_table::placement::{ColumnAccess, ColumnPlacements};
use nearfar_table::table::Table;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::TpchError;
use super::observer::{Event, Observer};
use super::suite::Suite;

/// One table, loaded.
#[derive(Debug, Clone)]
pub struct LoadedTable {
    /// The table.
    pub table: Arc<Table>,
    /// Its rows.
    pub rows: u64,
    /// Its bytes before encoding.
    pub arrow_bytes: u64,
    /// The bytes that it took in its regions when it had been loaded.
    pub stored_bytes: u64,
    /// The time it took to generate and load it.
    pub elapsed: Duration,
}

/// Generates and loads all tables, all near. With `own`, the same rows are registered there as
/// DataFusion's own tables in memory.
///
/// # Errors
/// A table that is refused by the memory system.
pub async fn load_all(
    engine: &Arc<Engine>,
    suite: Suite,
    scale_factor: f64,
    own: Option<&SessionContext>,
    observer: &dyn Observer,
) -> Result<Vec<LoadedTable>, TpchError> {
    let mut tables = Vec::with_capacity(suite.tables().len());
    for &name in suite.tables() {
        let failed = |source| TpchError::Table {
            table: name.to_owned(),
            source: Box::new(source),
        };
        let progress = Arc::new(Progress::default());
        let expected_rows = suite.expected_rows(name, scale_factor);
        observer.on(&Event::Loading {
            table: name,
            expected_rows,
            progress: &progress,
        });
        let mut rows = suite
            .rows(name, scale_factor, engine.threads())
            .map_err(failed)?;
        let schema = Arc::clone(&rows.schema);
        let copies = own.map(|_| copied(&mut rows.parts));
        let loaded = load(engine, name, rows, &progress).await?;
        observer.on(&Event::Loaded {
            table: name,
            rows: loaded.rows,
            arrow_bytes: loaded.arrow_bytes,
            stored_bytes: loaded.stored_bytes,
            elapsed: loaded.elapsed,
        });
        if let (Some(own), Some(copies)) = (own, copies) {
            register(own, name, schema, copies).map_err(|source| failed(source.into()))?;
        }
        tables.push(loaded);
    }
    Ok(tables)
}

async fn load(
    engine: &Arc<Engine>,
    name: &'static str,
    rows: Rows,
    progress: &Arc<Progress>,
) -> Result<LoadedTable, TpchError> {
    let load = Load {
        storage: engine.storage().clone(),
        name: name.to_owned(),
        placements: ColumnPlacements::all(Placement::Bind(TierId::NEAR)),
        progress: Arc::clone(progress),
    };
    let started = Instant::now();
    let table = unblocked(move || load.batches(&rows.schema, rows.parts))
        .await?
        .map_err(|source| TpchError::Table {
            table: name.to_owned(),
            source: Box::new(source),
        })?;
    Ok(LoadedTable {
        rows: progress.rows(),
        arrow_bytes: progress.bytes(),
        stored_bytes: table.tier_bytes().total(),
        elapsed: started.elapsed(),
        table,
    })
}

/// A copy of every part's batches that have passed; they share their memory with the original.
type Copies = Vec<Arc<Mutex<Vec<RecordBatch>>>>;

fn copied(parts: &mut Vec<Batches>) -> Copies {
    let mut copies = Vec::with_capacity(parts.len());
    let originals = std::mem::take(parts);
    for original in originals {
        let copy = Arc::new(Mutex::new(Vec::new()));
        copies.push(Arc::clone(&copy));
        parts.push(Box::new(original.inspect(move |batch| {
            if let Ok(batch) = batch {
                copy.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(batch.clone());
            }
        })));
    }
    copies
}

fn register(
    own: &SessionContext,
    name: &str,
    schema: SchemaRef,
    copies: Copies,
) -> Result<(), DataFusionError> {
    let take = |copy: Arc<Mutex<Vec<RecordBatch>>>| {
        std::mem::take(&mut *copy.lock().unwrap_or_else(PoisonError::into_inner))
    };
    let partitions = copies.into_iter().map(take).collect();
    own.register_table(name, Arc::new(MemTable::try_new(schema, partitions)?))?;
    Ok(())
}

/// Sizes and access counts of all columns.
pub fn column_accesses(tables: &[LoadedTable]) -> Vec<ColumnAccess> {
    let tables = tables.iter();
    tables
        .flat_map(|loaded| loaded.table.column_accesses())
        .collect()
}

/// Starts counting accesses from nothing.
pub fn reset_counters(tables: &[LoadedTable]) {
    for loaded in tables {
        loaded.table.reset_access_counts();
    }
}

/// Runs what blocks without holding up the queries' threads.
pub async fn unblocked<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TpchError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(TpchError::Cancelled {
                what: error.to_string(),
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_sql::error::EngineError;

    #[test]
    fn copies_are_what_passed() -> Result<(), EngineError> {
        let mut rows = Suite::TpcH.rows("nation", 1.0, 2)?;
        let copies = copied(&mut rows.parts);
        let passed: Vec<RecordBatch> = rows.parts.remove(0).collect::<Result<_, _>>()?;
        let own = crate::database::own_context(1);
        register(&own, "nation", rows.schema, copies)?;
        assert_eq!(passed.iter().map(RecordBatch::num_rows).sum::<usize>(), 25);
        assert!(own.table_exist("nation")?);
        Ok(())
    }
}
