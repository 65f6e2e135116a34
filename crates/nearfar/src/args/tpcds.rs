//! `nearfar tpcds`.

use clap::Args;

use super::PlacedRunArgs;

/// Run TPC-DS in memory under several placements, and compare them
///
/// Generates the data, checks the answers against DataFusion's own tables, runs the 99 queries under
/// each placement, prints the comparison and writes a report. Placements are as for `nearfar tpch`.
/// Answers with a limit that leaves open which rows it keeps are compared without it.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "\
Examples:
  nearfar tpcds
  nearfar tpcds --sf 0.1 --queries 1-10,36 --placement far --runs 5
  nearfar tpcds --placement columns:10% --format json > results.jsonl")]
pub struct TpcdsArgs {
    #[command(flatten)]
    pub run: PlacedRunArgs,
}
