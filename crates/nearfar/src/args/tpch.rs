//! `nearfar tpch`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use nearfar_table::placement::NearBudget;

use super::{FigureArgs, MachineArgs, QueryList, ScaleArgs};

/// Run TPC-H in memory under several placements, and compare them
///
/// Generates the data, checks the answers against DataFusion's own tables, runs the queries under
/// each placement, prints the comparison and writes a report. A placement is one of
///
///   near               everything near
///   far                everything far
///   TIER               everything on a tier, on its devices (cxl2, cxl1-3), or on a node (node4)
///   interleave:N:F     N pages near, then F pages far, and so on
///   interleave:A,B     page by page in turn; weighted:A=3,B=1 so many pages of each
///   split:A=90%,B      the first pages of each column on A, the rest on B
///   columns:BUDGET     the most accessed columns near, up to a share of the data (25%), bytes
///                      (2GiB) or a number of columns (16), the rest far
///   columns            the same with --near-budget
///   explicit:COLUMN,…  these columns far (or COLUMN=TIER), the rest near
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "\
Examples:
  nearfar tpch
  nearfar tpch --sf 10 --profile cxl-blades-4 --placement far --placement columns:10% --runs 5
  nearfar tpch --profile mine.toml --compare-model --placement far --placement columns
  nearfar tpch --queries 1,6,12-14 --placement interleave:3:1 --format json > results.jsonl")]
pub struct TpchArgs {
    #[command(flatten)]
    pub run: PlacedRunArgs,
}

/// A run of a benchmark under placements.
#[derive(Debug, Args)]
pub struct PlacedRunArgs {
    #[command(flatten)]
    pub scale: ScaleArgs,
    /// Model a far tier after a built-in profile or a TOML file; `none` for the machine's own
    /// [default: the machine's own far tier, or cxl-blades-1 where it has none].
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Run on this machine's own tiers and then with the far tier of the profile, such as one that `nearfar calibrate` made
    /// of this machine, and print both with their ratio. There is no report.
    #[arg(long, requires = "profile", conflicts_with = "report")]
    pub compare_model: bool,
    /// A placement to run under; may be given several times. All near always runs first
    /// [default: near, far, interleave:1:1, interleave:2:1, columns].
    #[arg(long = "placement", value_name = "PLACEMENT")]
    pub placements: Vec<String>,
    /// What the placement `columns` leaves near: a share of the data, bytes, or a number of columns.
    #[arg(long, value_name = "BUDGET", default_value = "25%", value_parser = near_budget)]
    pub near_budget: NearBudget,
    /// Queries to run, such as 1,3-5,22 [default: all].
    #[arg(long, value_name = "LIST")]
    pub queries: Option<QueryList>,
    /// Timed runs of each query under each placement.
    #[arg(long, value_name = "N", default_value = "3")]
    pub runs: NonZeroU32,
    /// Do not check the answers, which takes the data a second time in memory.
    #[arg(long)]
    pub no_check: bool,
    #[command(flatten)]
    pub figures: FigureArgs,
    /// Write the report, one HTML page, to this file [default: nearfar-BENCHMARK.html].
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write no report.
    #[arg(long, conflicts_with = "report")]
    pub no_report: bool,
    #[command(flatten)]
    pub machine: MachineArgs,
}

fn near_budget(text: &str) -> Result<NearBudget, String> {
    text.parse()
        .map_err(|error: nearfar_table::placement::StrategyError| error.to_string())
}
