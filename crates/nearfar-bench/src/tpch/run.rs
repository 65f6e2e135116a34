//! The run: load, check, count accesses, and time the queries under each placement.

use arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use nearfar_measure::Kind;
use nearfar_memory::{PageSize, Placement, TierBytes, TierId, TierKind};
use nearfar_sql::engine::Engine;
use nearfar_table::placement::{ColumnAccess, ColumnPlacements, Storage, Strategy};
use nearfar_table::table::Table;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answer::{Answer, Answers, Difference};
use super::data::{self, LoadedTable};
use super::error::TpchError;
use super::observer::{Event, Observer};
use super::options::{TpchOptions, check_near_budget};
use super::outcome::{BytesByTier, FarTier, Outcome, PlacementOutcome, QueryOutcome, TableOutcome};
use super::suite::Suite;
use crate::database::{Database, own_context};

const OWN_TABLES: &str = "DataFusion's own tables";
const NEARFAR_TABLES: &str = "Nearfar's tables";

/// Generates the tables in the memory of `engine`, checks the answers of its queries, and times them
/// under every placement.
///
/// To be called on a runtime with as many worker threads as the engine has threads. The tables stay
/// in the engine, where the last placement put them.
///
/// # Errors
/// See [`TpchError`]. A wrong answer ends the run.
pub async fn run(
    engine: &Arc<Engine>,
    options: &TpchOptions,
    observer: &dyn Observer,
) -> Result<Outcome, TpchError> {
    let texts = options.texts()?;
    options.check_placements(engine.system())?;
    let own = options.check.then(|| own_context(engine.threads()));
    let tables = {
        let (suite, scale_factor) = (options.suite, options.scale_factor);
        data::load_all(engine, suite, scale_factor, own.as_ref(), observer).await?
    };
    let database = register(engine, &tables)?;
    let workload = Workload {
        engine,
        suite: options.suite,
        database,
        tables,
        texts,
        observer,
    };
    let mut unchecked = Vec::new();
    let checked = match own {
        Some(own) => Some(workload.check(own, &mut unchecked).await?),
        None => None,
    };
    let columns = workload.count_accesses().await?;
    let ordered = options.ordered_placements();
    for placement in &ordered {
        check_near_budget(placement, &columns)?;
    }
    let mut placements: Vec<PlacementOutcome> = ordered
        .iter()
        .map(|placement| workload.untimed(placement, &columns))
        .collect::<Result<_, _>>()?;
    let of = ordered.len() * options.runs as usize;
    // The placements take turns, so that drift of the machine does not look like one of them.
    let mut position = 0;
    for run in 1..=options.runs {
        for placed in &mut placements {
            let placement = &placed.placement;
            observer.on(&Event::Placing {
                placement,
                position,
                of,
            });
            workload.place_and_time(placed, &columns, run).await?;
            position += 1;
        }
    }
    Ok(Outcome {
        options: options.clone(),
        threads: engine.threads(),
        far: far_tier(engine),
        tables: workload.tables.iter().map(table_outcome).collect(),
        checked,
        unchecked,
        placements,
    })
}

fn far_tier(engine: &Engine) -> Option<FarTier> {
    let tier = engine.topology().tier("far").ok()?;
    let is_emulated = tier.kind == TierKind::Modelled;
    let modelled = is_emulated.then(|| tier.note.clone().unwrap_or_default());
    Some(FarTier {
        name: tier.name.clone(),
        modelled,
    })
}

fn table_outcome(loaded: &LoadedTable) -> TableOutcome {
    TableOutcome {
        name: loaded.table.name().to_owned(),
        rows: loaded.rows,
        arrow_bytes: loaded.arrow_bytes,
        stored_bytes: loaded.stored_bytes,
        elapsed: loaded.elapsed,
    }
}

fn register(engine: &Arc<Engine>, tables: &[LoadedTable]) -> Result<Database, TpchError> {
    let session = engine.session();
    for LoadedTable { table, .. } in tables {
        session
            .register(Arc::clone(table))
            .map_err(|source| TpchError::Table {
                table: table.name().to_owned(),
                source: Box::new(source),
            })?;
    }
    Ok(Database::Nearfar(session))
}

/// The loaded tables and the queries to run over them.
struct Workload<'a> {
    engine: &'a Arc<Engine>,
    suite: Suite,
    database: Database,
    tables: Vec<LoadedTable>,
    texts: Vec<(u8, String)>,
    observer: &'a dyn Observer,
}

impl Workload<'_> {
    /// Compares all answers; DataFusion's own tables are freed at the end. Returns the queries that agree, and adds
    /// those to `unchecked` that DataFusion can't answer, and of TPC-DS those that it answers otherwise.
    async fn check(
        &self,
        own: SessionContext,
        unchecked: &mut Vec<(u8, String)>,
    ) -> Result<Vec<u8>, TpchError> {
        let own = Database::Own(own);
        let mut checked = Vec::with_capacity(self.texts.len());
        for (number, text) in &self.texts {
            self.observer.on(&Event::Checking { query: *number });
            match self.difference(&own, *number, text).await {
                Ok(None) => checked.push(*number),
                // DataFusion keeps fewer digits of quotients, which queries of TPC-DS multiply.
                Ok(Some(difference)) if self.suite == Suite::TpcDs => {
                    unchecked.push((*number, difference.to_string()));
                }
                Ok(Some(difference)) => {
                    return Err(TpchError::Mismatch {
                        number: *number,
                        tables: NEARFAR_TABLES.to_owned(),
                        difference: Box::new(difference),
                    });
                }
                Err(TpchError::Query { tables, source, .. }) if tables == OWN_TABLES => {
                    unchecked.push((*number, source.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(checked)
    }

    /// Where Nearfar's answer is not that over DataFusion's `own` tables.
    async fn difference(
        &self,
        own: &Database,
        number: u8,
        text: &str,
    ) -> Result<Option<Difference>, TpchError> {
        let expected = self.answers(own, OWN_TABLES, number, text).await?;
        let found = self
            .answers(&self.database, NEARFAR_TABLES, number, text)
            .await?;
        Ok(expected.difference(&found, self.suite.order_by(number)))
    }

    async fn answers(
        &self,
        database: &Database,
        tables: &str,
        number: u8,
        text: &str,
    ) -> Result<Answers, TpchError> {
        let kept = answer(database, tables, number, text).await?;
        let all = match self.suite.unlimited(number) {
            Some(text) => Some(answer(database, tables, number, text).await?),
            None => None,
        };
        Ok(Answers { kept, all })
    }

    /// Runs every query once, all near, as weisgut-2025 section 6.3.3 does before it places columns.
    async fn count_accesses(&self) -> Result<Vec<ColumnAccess>, TpchError> {
        data::reset_counters(&self.tables);
        for (number, text) in &self.texts {
            self.observer.on(&Event::Counting { query: *number });
            collect(&self.database, NEARFAR_TABLES, *number, text).await?;
        }
        Ok(data::column_accesses(&self.tables))
    }

    /// Moves the columns and runs all queries once.
    async fn place_and_time(
        &self,
        placed: &mut PlacementOutcome,
        columns: &[ColumnAccess],
        run: u32,
    ) -> Result<(), TpchError> {
        let placement = &placed.placement;
        placed.migration = self.place(placement, columns).await?;
        for ((number, text), query) in self.texts.iter().zip(&mut placed.queries) {
            let read_before = self.read_bytes();
            let started = Instant::now();
            collect(&self.database, &placement.to_string(), *number, text).await?;
            let elapsed = started.elapsed();
            query.seconds.push(elapsed.as_secs_f64());
            query.read_bytes = self.named(&self.read_bytes().saturating_sub(&read_before));
            self.observer.on(&Event::Ran {
                placement,
                run,
                query: *number,
                elapsed,
            });
        }
        let mut stored = TierBytes::ZERO;
        self.tables
            .iter()
            .for_each(|loaded| stored += loaded.table.tier_bytes());
        placed.stored_bytes = self.named(&stored);
        Ok(())
    }

    /// All near is measured whatever else the machine has; anything else takes the far tier along.
    fn kind(&self, placement: &Strategy) -> Kind {
        match self.engine.models().is_empty() || *placement == Strategy::near() {
            true => Kind::Measured,
            false => Kind::Modelled,
        }
    }

    /// What is known of a placement before it has run.
    fn untimed(
        &self,
        placement: &Strategy,
        columns: &[ColumnAccess],
    ) -> Result<PlacementOutcome, TpchError> {
        let placed = self.placements(placement, columns)?;
        let by_column = matches!(placement, Strategy::ByAccess(_) | Strategy::Explicit { .. });
        let is_near = |column: &ColumnAccess| {
            let placements = placed.get(&column.table);
            placements.is_some_and(|placements| {
                *placements.of(&column.column) == Placement::Bind(TierId::NEAR)
            })
        };
        let near = columns.iter().filter(|column| by_column && is_near(column));
        let queries = self.texts.iter().map(|(number, _)| QueryOutcome {
            number: *number,
            seconds: Vec::new(),
            read_bytes: Vec::new(),
        });
        Ok(PlacementOutcome {
            placement: placement.clone(),
            kind: self.kind(placement),
            stored_bytes: Vec::new(),
            near_columns: near
                .map(|column| format!("{}.{}", column.table, column.column))
                .collect(),
            migration: Duration::ZERO,
            queries: queries.collect(),
        })
    }

    fn placements(
        &self,
        placement: &Strategy,
        columns: &[ColumnAccess],
    ) -> Result<HashMap<String, ColumnPlacements>, TpchError> {
        Ok(placement.place(columns, self.engine.system())?)
    }

    /// Moves columns; returns the time that took.
    async fn place(
        &self,
        placement: &Strategy,
        columns: &[ColumnAccess],
    ) -> Result<Duration, TpchError> {
        let mut placed = self.placements(placement, columns)?;
        let mut migration = Duration::ZERO;
        for LoadedTable { table, .. } in &self.tables {
            if let Some(placements) = placed.remove(table.name()) {
                migration += self.migrate(table, placements).await?;
            }
        }
        Ok(migration)
    }

    async fn migrate(
        &self,
        table: &Arc<Table>,
        placements: ColumnPlacements,
    ) -> Result<Duration, TpchError> {
        let (moved, storage) = (Arc::clone(table), self.storage(&placements));
        let started = Instant::now();
        data::unblocked(move || moved.migrate(&placements, &storage))
            .await?
            .map_err(|source| TpchError::Table {
                table: table.name().to_owned(),
                source: Box::new(source.into()),
            })?;
        Ok(started.elapsed())
    }

    /// The engine's memory, in base pages where these alternate between tiers: a column segment is
    /// of few huge pages, often of one, and weisgut-2025 section 6.2 alternates base pages too.
    fn storage(&self, placements: &ColumnPlacements) -> Storage {
        let mut storage = self.engine.storage().clone();
        if matches!(
            placements.default,
            Placement::Weighted(_) | Placement::Interleave(_)
        ) {
            storage.options.page_size = PageSize::Base;
        }
        storage
    }

    /// Bytes that scans have read so far.
    fn read_bytes(&self) -> TierBytes {
        let mut bytes = TierBytes::ZERO;
        for (tier, _) in self.engine.storage().system.tiers() {
            bytes[tier] = self.engine.costs().bytes_read(tier);
        }
        bytes
    }

    fn named(&self, bytes: &TierBytes) -> BytesByTier {
        let tiers = self.engine.storage().system.tiers();
        tiers
            .map(|(tier, info)| (info.name.clone(), bytes[tier]))
            .collect()
    }
}

async fn collect(
    database: &Database,
    tables: &str,
    number: u8,
    text: &str,
) -> Result<Vec<RecordBatch>, TpchError> {
    let rows = database.rows(text).await;
    let failed = |source| TpchError::Query {
        number,
        tables: tables.to_owned(),
        source: Box::new(source),
    };
    rows.map(|(_, batches)| batches).map_err(failed)
}

async fn answer(
    database: &Database,
    tables: &str,
    number: u8,
    text: &str,
) -> Result<Answer, TpchError> {
    let batches = collect(database, tables, number, text).await?;
    let failed = |source| TpchError::Answer {
        number,
        tables: tables.to_owned(),
        source,
    };
    Answer::from_batches(&batches).map_err(failed)
}
