//! `nearfar sql`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{DataArgs, MachineArgs, MemoryHostArgs, PoolArgs};

/// Query files in memory: an interactive shell, or statements from the command line or a script.
///
/// Each file (Parquet, CSV, Arrow IPC) is loaded into memory as a table named after it; a folder
/// stands for the files in it, and a folder named like a file (lines.parquet) for one table.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar sql orders.parquet                       a shell with table `orders`
  nearfar sql --tpch 1 --profile cxl-blades-1      a shell with TPC-H and a modelled far tier
  nearfar sql data/ -c 'SELECT count(*) FROM lines' --format json
  nearfar sql data/ -f report.sql -o report.csv --format csv
  echo 'SELECT 1;' | nearfar sql
  nearfar sql --data shop                          a shell whose tables outlive it, in folder shop/

Without -c and -f, statements are read from a terminal (`\\?` there says more) or from a script on
stdin. The first statement that fails ends a script; `nearfar --help` lists the exit codes.")]
pub struct SqlArgs {
    /// Files and folders to load.
    #[arg(value_name = "FILE|FOLDER")]
    pub files: Vec<PathBuf>,
    /// Run these statements and leave; may be given several times.
    #[arg(short, long, value_name = "SQL")]
    pub command: Vec<String>,
    /// Run the statements of this file and leave; may be given several times, after any -c.
    #[arg(short, long, value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// How to print the rows of queries.
    #[arg(long, value_enum, default_value_t = RowFormat::Table)]
    pub format: RowFormat,
    /// Write the rows of queries to this file, whole or not at all.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print at most so many rows of a table in the interactive shell; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_rows: usize,
    /// Print how long each statement took, and what it read.
    #[arg(long)]
    pub timing: bool,
    /// Generate the eight tables of TPC-H at this scale factor.
    #[arg(long, value_name = "SF", allow_negative_numbers = true)]
    pub tpch: Option<f64>,
    /// Put tables that name no tablespace here: `near`, `far`, a tier, or another placement
    /// (docs/placements.md), such as `interleave:2:1`.
    #[arg(long, value_name = "NAME")]
    pub tablespace: Option<String>,
    /// Add a modelled tier `far` after a built-in profile or a TOML file.
    #[arg(long, value_name = "NAME|FILE", help_heading = "Machine")]
    pub profile: Option<String>,
    /// Most that may be placed near: short for --budget near=BYTES.
    #[arg(long, value_name = "BYTES", help_heading = "Machine")]
    pub near_budget: Option<crate::human::ByteSize>,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub pool: PoolArgs,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub hosts: MemoryHostArgs,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// A text table.
    Table,
    /// Comma-separated values with a header.
    Csv,
    /// One JSON object per row and line.
    Json,
    /// A Parquet file: one result, and not to a terminal.
    Parquet,
}
