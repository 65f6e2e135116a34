//! The contenders that are part of this program: Nearfar, and DataFusion's own tables in memory.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::datasource::MemTable;
use datafusion::prelude::ParquetReadOptions;
use nearfar_memory::{GlobalHeaps, HeapError, NearfarAllocator, Placement, TierId};
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_sql::load::{FileFormat, Load, Progress, file_plan};
use nearfar_table::placement::ColumnPlacements;
use nearfar_topology::Topology;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Runtime;

use super::files::write_answer;
use super::memory::{buffer_bytes, peak_bytes, reset_peak, resident_bytes};
use super::protocol::{Loaded, QueryMemory, Reply, Request};
use crate::database::{Database, own_context};

/// A contender that [`serve`] can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// All data near, as the engine has it by default.
    Nearfar,
    /// DataFusion's own tables in memory, as they come, with the platform's allocator.
    MemTable,
}

impl Role {
    /// Its word on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nearfar => "nearfar",
            Self::MemTable => "memtable",
        }
    }
}

/// A word that names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no contender: nearfar and memtable are")]
pub struct UnknownRole {
    /// The word.
    pub text: String,
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        [Self::Nearfar, Self::MemTable]
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| UnknownRole {
                text: text.to_owned(),
            })
    }
}

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Answers requests from `input` on `output` until `input` ends. To be called in a process of its
/// own, before that has started threads: [`Role::Nearfar`] sets up the global allocator.
///
/// # Errors
/// Only those of `input` and `output`; what a request meets is its answer.
pub fn serve(role: Role, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let version = match role {
        Role::Nearfar => format!("Nearfar {}", env!("CARGO_PKG_VERSION")),
        Role::MemTable => format!("DataFusion {}", datafusion::DATAFUSION_VERSION),
    };
    answer(&mut output, &Reply::Ready { version })?;
    let mut server = None;
    for line in input.lines() {
        let reply = handle(role, &mut server, &line?).unwrap_or_else(|failure| Reply::Failed {
            reason: chain(failure.as_ref()),
        });
        answer(&mut output, &reply)?;
    }
    Ok(())
}

fn answer(output: &mut impl Write, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

/// An error with everything behind it, on one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let errors = std::iter::successors(Some(error), |error| error.source());
    errors
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

fn handle(role: Role, server: &mut Option<Server>, line: &str) -> Result<Reply, Failure> {
    match (serde_json::from_str(line)?, server) {
        (
            Request::Load {
                directory,
                tables,
                threads,
            },
            server @ None,
        ) => {
            let (loading, loaded) = Server::load(role, &directory, &tables, threads)?;
            *server = Some(loading);
            Ok(Reply::Loaded(loaded))
        }
        (Request::Load { .. }, Some(_)) => Err("the tables are loaded already".into()),
        (_, None) => Err("nothing is loaded yet".into()),
        (Request::Query { sql }, Some(server)) => {
            let started = Instant::now();
            server.collect(sql)?;
            Ok(Reply::Ran {
                seconds: started.elapsed().as_secs_f64(),
            })
        }
        (Request::Measure { sql }, Some(server)) => Ok(Reply::Measured(server.measure(sql)?)),
        (Request::Save { sql, path }, Some(server)) => {
            let (schema, batches) = server.collect(sql)?;
            write_answer(&path, &schema, &batches)?;
            Ok(Reply::Saved)
        }
    }
}

struct Server {
    runtime: Runtime,
    database: Database,
}

impl Server {
    fn load(
        role: Role,
        directory: &Path,
        tables: &[String],
        threads: usize,
    ) -> Result<(Self, Loaded), Failure> {
        let engine = match role {
            Role::Nearfar => Some(engine(threads)?),
            Role::MemTable => None,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()?;
        let directory = directory.to_owned();
        let tables = tables.to_vec();
        // A sandbox may refuse it, and the peak would be one of before.
        let has_reset = reset_peak().is_ok();
        let before_bytes = resident_bytes()?;
        let started = Instant::now();
        let loading = runtime.spawn(async move {
            match engine {
                Some(engine) => load_nearfar(&engine, &directory, &tables).await,
                None => load_own(&directory, &tables, threads).await,
            }
        });
        let (database, kept_bytes) = runtime.block_on(loading)??;
        let loaded = Loaded {
            seconds: started.elapsed().as_secs_f64(),
            before_bytes,
            peak_bytes: has_reset.then(peak_bytes).transpose()?,
            after_bytes: resident_bytes()?,
            kept_bytes,
        };
        Ok((Self { runtime, database }, loaded))
    }

    /// Runs a query once what the heaps hold free was given back, and says what it took.
    fn measure(&self, sql: String) -> Result<QueryMemory, Failure> {
        if let Database::Nearfar(session) = &self.database {
            session.engine().storage().system.reclaim(TierId::NEAR);
        }
        let has_reset = reset_peak().is_ok();
        let before_bytes = resident_bytes()?;
        self.collect(sql)?;
        Ok(QueryMemory {
            before_bytes,
            peak_bytes: has_reset.then(peak_bytes).transpose()?,
        })
    }

    /// Runs a query on the runtime's threads alone.
    fn collect(&self, sql: String) -> Result<(SchemaRef, Vec<RecordBatch>), Failure> {
        let database = self.database.clone();
        let query = self.runtime.spawn(async move { database.rows(&sql).await });
        Ok(self.runtime.block_on(query)??)
    }
}

pub(crate) type LoadedTables = (Database, BTreeMap<String, u64>);

fn engine(threads: usize) -> Result<Arc<Engine>, Failure> {
    install(EngineOptions {
        threads,
        ..EngineOptions::new(Topology::this_machine()?)
    })
}

/// An engine whose tiers the global allocator follows.
pub(crate) fn install(options: EngineOptions) -> Result<Arc<Engine>, Failure> {
    let engine = Engine::new(options)?;
    match NearfarAllocator::install(&engine.storage().system, GlobalHeaps::default()) {
        Ok(()) | Err(HeapError::Installed) => Ok(engine),
        Err(error) => Err(error.into()),
    }
}

/// Loads tables from their folders of Parquet files.
pub(crate) async fn load_nearfar(
    engine: &Arc<Engine>,
    directory: &Path,
    tables: &[String],
) -> Result<LoadedTables, Failure> {
    let session = engine.session();
    let mut kept = BTreeMap::new();
    // By the ledger, which counts whole pages.
    let region_bytes = || engine.storage().system.usage(TierId::NEAR).region_bytes;
    for name in tables {
        let before_bytes = region_bytes();
        let load = Load {
            storage: engine.storage().clone(),
            name: name.clone(),
            placements: ColumnPlacements::all(Placement::Bind(TierId::NEAR)),
            progress: Arc::new(Progress::default()),
        };
        let path = directory.join(name);
        let (plan, context) = file_plan(&path, FileFormat::Parquet, engine.threads()).await?;
        let table = load.plan(plan, context.task_ctx()).await?;
        kept.insert(name.clone(), region_bytes() - before_bytes);
        session.register(table)?;
    }
    Ok((Database::Nearfar(session), kept))
}

async fn load_own(
    directory: &Path,
    tables: &[String],
    threads: usize,
) -> Result<LoadedTables, Failure> {
    let own = own_context(threads);
    let mut kept = BTreeMap::new();
    for name in tables {
        let path = directory.join(name);
        let path = path.to_str().ok_or("the folder's name is not UTF-8")?;
        let frame = own
            .read_parquet(path, ParquetReadOptions::default())
            .await?;
        let schema = SchemaRef::new(frame.schema().as_arrow().clone());
        let partitions = frame.collect_partitioned().await?;
        kept.insert(name.clone(), buffer_bytes(partitions.iter().flatten()));
        own.register_table(name, Arc::new(MemTable::try_new(schema, partitions)?))?;
    }
    Ok((Database::Own(own), kept))
}
