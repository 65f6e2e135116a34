//! Times TPC-H on Nearfar tables and on DataFusion's `MemTable`, alternating, in one process.
//!
//! Made for tuning: both contenders share the process's allocator, so that the ratio shows what
//! tables and plans are worth and leaves the allocator's gain out. `nearfar bench tpch` runs each
//! contender as its users have it.
//!
//! `cargo run --release -p nearfar-bench --example compare -- --sf 1 --threads 2 --runs 5`
#![allow(clippy::print_stdout)]

use anyhow::{Context, Result, bail};
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use clap::{Parser, ValueEnum};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use nearfar_bench::tpch::queries;
use nearfar_memory::{GlobalHeaps, NearfarAllocator, Placement, TierId};
use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use nearfar_sql::load::{Load, Progress, tpch};
use nearfar_table::placement::ColumnPlacements;
use nearfar_topology::Topology;
use std::sync::Arc;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: NearfarAllocator = NearfarAllocator;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Contender {
    Nearfar,
    Memtable,
}

/// The tables of one contender, and how its users query them.
enum Tables {
    Nearfar(Session),
    Memtable(SessionContext),
}

impl Tables {
    fn name(&self) -> &'static str {
        match self {
            Self::Nearfar(_) => "nearfar",
            Self::Memtable(_) => "memtable",
        }
    }

    async fn collect(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        match self {
            Self::Memtable(context) => Ok(context.sql(sql).await?.collect().await?),
            Self::Nearfar(session) => match session.execute(sql).await?.pop() {
                Some(StatementResult::Rows(rows)) => Ok(rows.collect().await?),
                _ => bail!("a statement without rows"),
            },
        }
    }
}

/// Compares TPC-H on Nearfar tables with DataFusion's own tables in memory.
#[derive(Parser)]
struct Arguments {
    /// Scale factor.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Threads, and partitions of both.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Timed runs of each query, after one that is not counted.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Queries to run.
    #[arg(long, value_delimiter = ',')]
    queries: Vec<u8>,
    /// Only this contender.
    #[arg(long)]
    only: Option<Contender>,
    /// Prints each query's plan with metrics instead of times.
    #[arg(long)]
    explain: bool,
    /// Leaves the platform's allocator as it is, for both contenders.
    #[arg(long)]
    platform_allocator: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let engine = Engine::new(EngineOptions {
        threads: arguments.threads,
        ..EngineOptions::new(Topology::this_machine()?)
    })?;
    if !arguments.platform_allocator {
        NearfarAllocator::install(&engine.storage().system, GlobalHeaps::default())?;
    }
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(arguments.threads)
        .enable_all()
        .build()?
        .block_on(run(&arguments, &engine))
}

async fn run(arguments: &Arguments, engine: &Arc<Engine>) -> Result<()> {
    let mut contenders = Vec::new();
    if arguments.only != Some(Contender::Memtable) {
        contenders.push(nearfar(engine, arguments)?);
    }
    if arguments.only != Some(Contender::Nearfar) {
        contenders.push(memtable(arguments)?);
    }
    let numbers: Vec<u8> = match arguments.queries.as_slice() {
        [] => queries::NUMBERS.collect(),
        some => some.to_vec(),
    };
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
    println!("{:>5} {}", "query", header(&contenders));
    for number in numbers {
        let Some(sql) = queries::query(number, arguments.sf) else {
            bail!("no query {number}")
        };
        if arguments.explain {
            for tables in &contenders {
                println!("-- q{number} {}", tables.name());
                explain(tables, &sql).await?;
            }
            continue;
        }
        let medians = medians_ms(&contenders, &sql, arguments.runs)
            .await
            .with_context(|| format!("q{number}"))?;
        println!("{number:>5} {}", cells(&medians));
        columns
            .iter_mut()
            .zip(medians)
            .for_each(|(column, median)| column.push(median));
    }
    if !arguments.explain {
        let sums: Vec<f64> = columns.iter().map(|column| column.iter().sum()).collect();
        let means: Vec<f64> = columns
            .iter()
            .map(|column| geometric_mean(column))
            .collect();
        println!("{:>5} {}", "sum", cells(&sums));
        println!("{:>5} {}", "geo", cells(&means));
    }
    Ok(())
}

fn header(contenders: &[Tables]) -> String {
    let names = contenders
        .iter()
        .map(|tables| format!("{:>10}", tables.name()));
    let ratio = (contenders.len() == 2).then(|| format!("{:>7}", "ratio"));
    names.chain(ratio).collect::<Vec<_>>().join(" ")
}

fn cells(values_ms: &[f64]) -> String {
    let cells = values_ms.iter().map(|value| format!("{value:>10.2}"));
    let ratio = (values_ms.len() == 2).then(|| format!("{:>7.3}", values_ms[0] / values_ms[1]));
    cells.chain(ratio).collect::<Vec<_>>().join(" ")
}

fn nearfar(engine: &Arc<Engine>, arguments: &Arguments) -> Result<Tables> {
    let session = engine.session();
    let started = Instant::now();
    for name in tpch::TABLES {
        let rows = tpch::rows(name, arguments.sf, arguments.threads)?;
        let load = Load {
            storage: engine.storage().clone(),
            name: name.to_owned(),
            placements: ColumnPlacements::all(Placement::Bind(TierId::NEAR)),
            progress: Arc::new(Progress::default()),
        };
        session.register(load.batches(&rows.schema, rows.parts)?)?;
    }
    let bytes = engine.storage().system.usage(TierId::NEAR).region_bytes;
    println!(
        "nearfar: {:.1} s to generate and load, {:.0} MB in regions",
        started.elapsed().as_secs_f64(),
        bytes as f64 / 1e6
    );
    Ok(Tables::Nearfar(session))
}

fn memtable(arguments: &Arguments) -> Result<Tables> {
    let config = SessionConfig::new().with_target_partitions(arguments.threads);
    let context = SessionContext::new_with_config(config);
    let started = Instant::now();
    let mut bytes = 0;
    for name in tpch::TABLES {
        let rows = tpch::rows(name, arguments.sf, arguments.threads)?;
        let parts: Vec<Vec<RecordBatch>> = std::thread::scope(|scope| {
            let threads: Vec<_> = rows
                .parts
                .into_iter()
                .map(|part| scope.spawn(|| part.collect::<Result<Vec<_>, _>>()))
                .collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .map_err(|_| anyhow::anyhow!("generating {name}"))?
                        .map_err(Into::into)
                })
                .collect::<Result<_>>()
        })?;
        bytes += parts
            .iter()
            .flatten()
            .map(RecordBatch::get_array_memory_size)
            .sum::<usize>();
        context.register_table(name, Arc::new(MemTable::try_new(rows.schema, parts)?))?;
    }
    println!(
        "memtable: {:.1} s to generate, {:.0} MB",
        started.elapsed().as_secs_f64(),
        bytes as f64 / 1e6
    );
    Ok(Tables::Memtable(context))
}

async fn medians_ms(contenders: &[Tables], sql: &str, runs: usize) -> Result<Vec<f64>> {
    let mut times_ms: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
    for run in 0..=runs {
        for (tables, times_ms) in contenders.iter().zip(&mut times_ms) {
            let started = Instant::now();
            tables.collect(sql).await?;
            if run > 0 {
                times_ms.push(started.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    Ok(times_ms.into_iter().map(median).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

async fn explain(tables: &Tables, sql: &str) -> Result<()> {
    for batch in tables.collect(&format!("explain analyze {sql}")).await? {
        if let Some(column) = batch.columns().last() {
            let lines = cast(column, &DataType::Utf8)?;
            let lines = lines.as_string::<i32>().iter().flatten();
            lines.for_each(|line| println!("{line}"));
        }
    }
    Ok(())
}
