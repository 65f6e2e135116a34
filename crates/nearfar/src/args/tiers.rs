//! `nearfar tiers`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;

use super::FigureArgs;

/// Show the memory tiers of this machine, near to far.
///
/// Latency and bandwidth are what firmware, drivers or the profile declare; `--probe` measures
/// them. What the machine does not say is listed with the reason.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  nearfar tiers
  nearfar tiers --profile cxl-blades-4 --format json
  nearfar tiers --probe --profile ./my-machine.toml --threads 2")]
pub struct TiersArgs {
    /// Add a modelled tier `far` after a built-in profile or a TOML file.
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Read the machine from this folder instead of /sys.
    #[arg(long, value_name = "FOLDER", conflicts_with = "probe")]
    pub sysfs: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
    /// Measure idle latency and read and write bandwidth of every tier.
    ///
    /// A modelled tier is measured with and without its model, as a check that it behaves as its
    /// profile says.
    #[arg(long)]
    pub probe: bool,
    /// Threads of the bandwidth figures [default: the processors of this process].
    #[arg(long, value_name = "N", requires = "probe", value_parser = super::threads)]
    pub threads: Option<NonZeroU32>,
    /// Give these threads all of the modelled device, not their share of it.
    #[arg(long, requires = "probe", requires = "profile")]
    pub whole_device: bool,
}
