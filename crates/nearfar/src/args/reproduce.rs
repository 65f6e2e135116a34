//! `nearfar reproduce`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::FigureArgs;
use super::figure::Selection;

/// Hold the model against published points.
///
/// Runs published experiments in the simulator in virtual time and prints published, modelled and
/// error per point, the mean absolute percentage error per series, and the worst point. Of geyer-2023 no points
/// are published here: of its experiments it says which of the shapes that the paper describes the model has.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar reproduce fig4
  nearfar reproduce weisgut --report reproduction.html
  nearfar reproduce all --report everything.html
  nearfar reproduce fig5 --format json
  nearfar reproduce mao-table3 --report interference.html
  nearfar reproduce mao-fig3a
  nearfar reproduce geyer --report geyer.html
  nearfar reproduce weisgut-fig14
  nearfar reproduce --points my-points.csv --profile cxl-blades-4")]
pub struct ReproduceArgs {
    /// A figure, or all of a paper; figures of weisgut-2025 need no name in front [default: weisgut].
    #[arg(
        conflicts_with = "points",
        value_parser = PossibleValuesParser::new(Selection::words()).map(|word| Selection::named(&word)),
    )]
    pub figure: Option<Selection>,
    /// Points of your own: CSV with the columns of a published experiment (docs/reproduction.md).
    #[arg(long, value_name = "FILE")]
    pub points: Option<PathBuf>,
    /// The machine to model for figures of weisgut-2025 and points: a built-in profile or a TOML file [default:
    /// cxl-blades-4].
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Write both curves of every series to this HTML page.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}
