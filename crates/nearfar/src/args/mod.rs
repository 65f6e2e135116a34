//! What can be written on the command line. Values are only read here; whether a profile or a tier
//! exists is found out by the commands, so that each has its own exit code.

mod bench;
mod calibrate;
mod data;
pub mod figure;
mod index;
mod inference;
mod interference;
mod machine;
mod measure;
mod memory;
mod pagerank;
mod plan;
mod pool;
mod profiles;
mod queries;
mod regulate;
mod reproduce;
mod serve;
mod shared;
mod sql;
mod tiers;
mod tpcc;
mod tpcds;
mod tpch;

use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

pub use self::bench::{
    BenchArea, BenchArgs, BenchClusterArgs, BenchCooperativeArgs, BenchFairnessArgs, BenchHeapArgs,
    BenchInsertArgs, BenchMergeArgs, BenchOltpArgs, BenchOperatorsArgs, BenchRestartArgs,
    BenchScanArgs, ComparisonArgs, OperatorGridArgs,
};
pub use self::calibrate::CalibrateArgs;
pub use self::data::DataArgs;
pub use self::index::{BenchIndexArgs, IndexAction, IndexArgs};
pub use self::inference::InferenceArgs;
pub use self::interference::{ApplicationArgs, InterferenceArgs, StorageArgs};
pub use self::machine::MachineArgs;
pub use self::measure::{MeasureAction, MeasureArgs, MeasureRunArgs};
pub use self::memory::{
    MemoryAction, MemoryArgs, MemoryCheckArgs, MemoryHostArgs, MemoryServeArgs,
};
pub use self::pagerank::PagerankArgs;
pub use self::plan::{PlanAction, PlanArgs, PlanCostArgs};
pub use self::pool::PoolArgs;
pub use self::profiles::ProfilesArgs;
pub use self::queries::QueryList;
pub use self::regulate::{
    BenchRegulateArgs, ControllerName, DecisionFormat, KnobName, RegulateAction, RegulateArgs,
    RegulateRunArgs, VictimMetricArgs, WatchName,
};
pub use self::reproduce::ReproduceArgs;
pub use self::serve::{PromoteArgs, ServeAction, ServeArgs, TakeOverArg, UserAction, UserRole};
pub use self::shared::{FigureArgs, ScaleArgs, ThreadArgs};
pub use self::sql::{RowFormat, SqlArgs};
pub use self::tiers::TiersArgs;
pub use self::tpcc::{BenchHtapArgs, BenchTpccArgs};
pub use self::tpcds::TpcdsArgs;
pub use self::tpch::{PlacedRunArgs, TpchArgs};
use crate::exit::Exit;

/// The command line of `nearfar`.
#[derive(Debug, Parser)]
#[command(
    name = "nearfar",
    version,
    about = "SQL over memory that is not equally near: local DRAM, CXL, a second socket, or a model of them",
    after_help = "`nearfar help` and `nearfar help COMMAND` say more.",
    after_long_help = long_help(),
    max_term_width = 100,
)]
pub struct Cli {
    /// Say more on stderr: once for what is going on, twice for details.
    #[arg(short, long, action = clap::ArgAction::Count, global = true, display_order = 900)]
    pub verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Tiers(TiersArgs),
    Profiles(ProfilesArgs),
    Sql(Box<SqlArgs>),
    Serve(Box<ServeArgs>),
    Tpch(TpchArgs),
    Tpcds(TpcdsArgs),
    Bench(BenchArgs),
    Index(IndexArgs),
    Measure(Box<MeasureArgs>),
    Regulate(Box<RegulateArgs>),
    Reproduce(ReproduceArgs),
    Calibrate(CalibrateArgs),
    Plan(PlanArgs),
    Memory(MemoryArgs),
}

/// How a command that prints figures prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FigureFormat {
    /// For people.
    Table,
    /// For programs: one JSON object per line, the first with machine, version and configuration.
    Json,
}

/// The most threads that can be asked for, few enough for an operating system to start.
const THREADS_MAX: u32 = 1024;

/// Reads a number of threads.
fn threads(text: &str) -> Result<NonZeroU32, String> {
    let threads = text
        .parse()
        .ok()
        .filter(|threads: &NonZeroU32| threads.get() <= THREADS_MAX);
    threads.ok_or_else(|| format!("give a number from 1 to {THREADS_MAX}"))
}

/// Reads a number of seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "give a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Reads how many times as slow something may be.
fn latency_max(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok();
    let ratio = ratio.filter(|ratio| (1.01..=100.0).contains(ratio));
    ratio.ok_or_else(|| "give a number from 1.01 to 100, such as 1.2".to_owned())
}

fn long_help() -> String {
    format!(
        "Examples:\n  \
         nearfar tiers                                what memory this machine has\n  \
         nearfar tiers --probe --profile cxl-blades-1 measure it, and a modelled CXL device\n  \
         nearfar measure --preset latency             latency percentiles of its memory\n  \
         nearfar sql orders.parquet lines.csv         query files in memory\n  \
         nearfar serve --tpch 1                       the same for PostgreSQL's clients\n  \
         nearfar tpch                                 TPC-H under several placements\n\n\
         Results go to stdout, everything else to stderr.\n\n\
         Exit codes:\n{}",
        Exit::table()
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
