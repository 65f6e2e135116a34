//! `nearfar calibrate`.

use std::path::PathBuf;

use clap::Args;
use nearfar_measure::calibrate::Parameter;

use super::FigureArgs;

/// Fit parameters of the simulator to a machine's own points.
///
/// Points are CSV with the columns of a published experiment of accesses, or results of `nearfar measure
/// --preset calibrate`. A share of them is held out and takes no part in the fit; the errors of both are
/// printed. The new profile can be given to --profile (docs/calibration.md).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar measure --preset calibrate -o points.jsonl
  nearfar calibrate points.jsonl --profile cxl-blades-4 --name my-machine -o my-machine.toml
  nearfar calibrate throughput.csv latency.csv --fit far.read_latency_ns,far.read_service_ns")]
pub struct CalibrateArgs {
    /// Files of points: CSV, or results as JSON lines or Parquet.
    #[arg(value_name = "FILE", required = true)]
    pub points: Vec<PathBuf>,
    /// The profile to begin with; what is not fitted stays as it is there.
    #[arg(long, value_name = "NAME|FILE", default_value = "cxl-blades-4")]
    pub profile: String,
    /// Parameters to fit [default: far.read_latency_ns, far.ownership_ns, far.read_service_ns and
    /// far.write_service_ns].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub fit: Vec<Parameter>,
    /// Share of the points that is held out, per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u8).range(1..=90))]
    pub hold_out: u8,
    /// Which points are held out.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Most simulations of all points.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub rounds: usize,
    /// Name of the new profile.
    #[arg(long, default_value = "calibrated")]
    pub name: String,
    /// Write the new profile to this file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}
