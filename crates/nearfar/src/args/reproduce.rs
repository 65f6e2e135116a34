//! `nearfar reproduce`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nearfar_measure::operators::GeyerFigure;
use nearfar_measure::reproduce::Figure;

use super::FigureArgs;

/// Hold the model against published points.
///
/// Runs published experiments in the simulator in virtual time and prints published, modelled and
/// error per point, the mean absolute percentage error per series, and the worst point. `geyer` runs the
/// experiments of geyer-2023, of which no points are published here, on four profiles of their own, and says
/// which of the shapes that the paper describes the model has.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar reproduce fig4
  nearfar reproduce all --report reproduction.html
  nearfar reproduce fig5 --format json
  nearfar reproduce mao-table3 --report interference.html
  nearfar reproduce mao-fig3a
  nearfar reproduce geyer --report geyer.html
  nearfar reproduce weisgut-fig14
  nearfar reproduce --points my-points.csv --profile cxl-blades-4")]
pub struct ReproduceArgs {
    /// The figure of weisgut-2025; with its name in front, that of mao-2025 or geyer-2023 [default: all of the former].
    #[arg(value_enum, conflicts_with = "points")]
    pub figure: Option<FigureName>,
    /// Points of your own: CSV with the columns of a published experiment (docs/reproduction.md).
    #[arg(long, value_name = "FILE")]
    pub points: Option<PathBuf>,
    /// The machine to model: a built-in profile or a TOML file; those of mao-2025 are given [default:
    /// cxl-blades-4].
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Write both curves of every series to this HTML page.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// A figure, or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FigureName {
    /// Throughput over one to four CXL devices.
    Fig4,
    /// Latency percentiles.
    Fig5,
    /// A region split between CPU and CXL memory.
    Fig6,
    /// Filtering scans.
    Fig7,
    /// Scans with a share of the columns in CXL memory.
    Fig8,
    /// Bound shares.
    Fig9,
    /// B+trees by threads.
    Fig10,
    /// B+tree node sizes.
    Fig11,
    /// What memory tiers and storage take from each other.
    MaoTable3,
    /// Counters that say why writes to storage lose, from simulated queues.
    MaoTable4,
    /// Writes to an NVMe drive beside non-temporal stores to CXL memory.
    #[value(name = "mao-fig3a")]
    MaoFig3a,
    /// Random writes to it beside copies by MOVDIR64B.
    #[value(name = "mao-fig3b")]
    MaoFig3b,
    /// The largest decline of applications of all four types.
    MaoFig4,
    /// A database beside loads of CXL memory, whose gain the model does not have.
    MaoFig5,
    /// PageRank beside non-temporal stores to CXL memory.
    MaoFig6,
    /// CPU quotas that give a victim its bandwidth back.
    MaoFig7,
    /// Quotas, frequency and bandwidth allocation.
    MaoFig8,
    /// Prices of the cheapest machines.
    #[value(name = "weisgut-fig14")]
    Fig14,
    /// Every figure of weisgut-2025.
    All,
    /// geyer-2023: all of its figures.
    Geyer,
    /// geyer-2023: sums with further remote buffers.
    GeyerFig2,
    /// geyer-2023: sums over local and remote threads.
    GeyerFig3,
    /// geyer-2023: joins one after the other.
    GeyerFig4,
    /// geyer-2023: grouped joins.
    GeyerFig5,
}

/// A table or figure of mao-2025.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterplayFigure {
    Table3,
    Table4,
    Fig3a,
    Fig3b,
    Fig4,
    Fig5,
    Fig6,
    Fig7,
    Fig8,
}

impl InterplayFigure {
    /// Its word in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table3 => "mao-table3",
            Self::Table4 => "mao-table4",
            Self::Fig3a => "mao-fig3a",
            Self::Fig3b => "mao-fig3b",
            Self::Fig4 => "mao-fig4",
            Self::Fig5 => "mao-fig5",
            Self::Fig6 => "mao-fig6",
            Self::Fig7 => "mao-fig7",
            Self::Fig8 => "mao-fig8",
        }
    }
}

impl FigureName {
    /// The table or figure of mao-2025 that it stands for.
    pub fn interplay(self) -> Option<InterplayFigure> {
        match self {
            Self::MaoTable3 => Some(InterplayFigure::Table3),
            Self::MaoTable4 => Some(InterplayFigure::Table4),
            Self::MaoFig3a => Some(InterplayFigure::Fig3a),
            Self::MaoFig3b => Some(InterplayFigure::Fig3b),
            Self::MaoFig4 => Some(InterplayFigure::Fig4),
            Self::MaoFig5 => Some(InterplayFigure::Fig5),
            Self::MaoFig6 => Some(InterplayFigure::Fig6),
            Self::MaoFig7 => Some(InterplayFigure::Fig7),
            Self::MaoFig8 => Some(InterplayFigure::Fig8),
            _ => None,
        }
    }

    /// The figures of weisgut-2025 that it stands for.
    pub fn figures(self) -> Vec<Figure> {
        match self {
            Self::Fig4 => vec![Figure::Fig4],
            Self::Fig5 => vec![Figure::Fig5],
            Self::Fig6 => vec![Figure::Fig6],
            Self::Fig7 => vec![Figure::Fig7],
            Self::Fig8 => vec![Figure::Fig8],
            Self::Fig9 => vec![Figure::Fig9],
            Self::Fig10 => vec![Figure::Fig10],
            Self::Fig11 => vec![Figure::Fig11],
            Self::MaoTable3
            | Self::MaoTable4
            | Self::MaoFig3a
            | Self::MaoFig3b
            | Self::MaoFig4
            | Self::MaoFig5
            | Self::MaoFig6
            | Self::MaoFig7
            | Self::MaoFig8 => Vec::new(),
            Self::Fig14 => vec![Figure::Fig14],
            Self::All => Figure::ALL.to_vec(),
            Self::Geyer | Self::GeyerFig2 | Self::GeyerFig3 | Self::GeyerFig4 | Self::GeyerFig5 => {
                Vec::new()
            }
        }
    }

    /// The figures of geyer-2023 that it stands for.
    pub fn geyer(self) -> Vec<GeyerFigure> {
        match self {
            Self::Geyer => GeyerFigure::ALL.to_vec(),
            Self::GeyerFig2 => vec![GeyerFigure::Fig2],
            Self::GeyerFig3 => vec![GeyerFigure::Fig3],
            Self::GeyerFig4 => vec![GeyerFigure::Fig4],
            Self::GeyerFig5 => vec![GeyerFigure::Fig5],
            _ => Vec::new(),
        }
    }
}
