//! `nearfar plan`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nearfar_plan::DeviceRange;

use super::FigureArgs;
use crate::human::ByteSize;

/// What to buy.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// What is planned.
    #[command(subcommand)]
    pub action: PlanAction,
}

/// What can be planned.
#[derive(Debug, Subcommand)]
pub enum PlanAction {
    Cost(PlanCostArgs),
}

/// The cheapest processors, memory modules and CXL devices for a capacity.
///
/// All slots of a processor and of a device are populated, each with modules of one size. Prices are a
/// dated list; by default those of a paper of 2025, so give your own (docs/planning.md).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar plan cost --capacity 4TiB
  nearfar plan cost --capacity 1TiB,2TiB,4TiB,8TiB --devices 0,1-4
  nearfar plan cost --capacity 6TiB --prices my-prices.toml --format json")]
pub struct PlanCostArgs {
    /// Memory that is needed; several sizes are separated by commas.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', required = true)]
    pub capacity: Vec<ByteSize>,
    /// CXL devices that the machine may have: numbers or ranges such as 1-4 [default: none, one, and
    /// one to as many as the prices allow].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub devices: Vec<DeviceRange>,
    /// A TOML file of prices [default: those of weisgut-2025, of March 2025].
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}
