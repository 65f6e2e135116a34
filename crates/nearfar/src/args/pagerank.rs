//! `nearfar measure pagerank`.

use clap::Args;
use nearfar_measure::graph::{DEGREE_MAX, SCALE_MAX};
use nearfar_memory::PlacementSpec;

use super::{FigureArgs, ThreadArgs};

/// Rank the nodes of a Kronecker graph that lies where a placement says.
///
/// Prints the time of a trial. `nearfar measure interference --application-preset pagerank` has it beside others.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar measure pagerank
  nearfar measure pagerank --scale 24 --placement far --threads 8
  nearfar measure pagerank --placement interleave:near,far --format json")]
pub struct PagerankArgs {
    /// The binary logarithm of the number of nodes.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=i64::from(SCALE_MAX)))]
    pub scale: u32,
    /// Edges that are drawn for each node.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=i64::from(DEGREE_MAX)))]
    pub degree: u32,
    /// What decides which edges are drawn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Where the graph and its ranks lie.
    #[arg(long, value_name = "PLACEMENT", default_value = "near")]
    pub placement: PlacementSpec,
    /// How often all nodes are ranked from the start on.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub trials: u32,
    #[command(flatten)]
    pub threads: ThreadArgs,
    #[command(flatten)]
    pub figures: FigureArgs,
}
