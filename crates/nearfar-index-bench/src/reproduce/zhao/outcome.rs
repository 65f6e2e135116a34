//! Published ranges beside what the model has.

use nearfar_measure::Kind;
use nearfar_measure::report::{Bar, BarChart, Cell, Column, LineChart, Report, Table};
use nearfar_measure::reproduce::{self, overview};
use nearfar_measure::results::Metric;

use super::claim::{Claim, Figure};

/// A claim and what the model has in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimOutcome {
    /// The claim.
    pub claim: Claim,
    /// The model's percentage.
    pub modelled_percent: f64,
}

impl ClaimOutcome {
    /// How far it is from the published range, in points of a hundred.
    #[must_use]
    pub fn error_points(&self) -> f64 {
        self.claim.error_points(self.modelled_percent)
    }

    /// Whether it is within.
    #[must_use]
    pub fn is_in_range(&self) -> bool {
        self.error_points() == 0.0
    }
}

/// A figure, run.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureOutcome {
    /// Which.
    pub figure: Figure,
    /// Its claims.
    pub claims: Vec<ClaimOutcome>,
}

impl FigureOutcome {
    /// The number of claims whose range holds what the model has.
    #[must_use]
    pub fn in_range(&self) -> usize {
        self.claims.iter().filter(|one| one.is_in_range()).count()
    }

    /// The mean distance from the published ranges, in points of a hundred.
    #[must_use]
    pub fn mean_error_points(&self) -> f64 {
        let errors = self.claims.iter().map(|one| one.error_points().abs());
        errors.sum::<f64>() / self.claims.len().max(1) as f64
    }
}

impl reproduce::FigureOutcome for FigureOutcome {
    /// `claims`, `claims_in_range` and `mean_error_points` of the figure; of each claim the ends of the published
    /// range, `modelled_percent` and `error_points`.
    fn metrics(&self) -> Vec<Metric> {
        let figure = self.figure.name();
        let of_figure = |name: &str, value: f64, unit: &str| {
            Metric::new(name, value, unit, Kind::Modelled).with("figure", figure)
        };
        let mut metrics = vec![
            of_figure("claims", self.claims.len() as f64, "count"),
            of_figure("claims_in_range", self.in_range() as f64, "count"),
            of_figure("mean_error_points", self.mean_error_points(), "points"),
        ];
        for one in &self.claims {
            let claim = &one.claim;
            let of_claim = |name: &str, value: f64, unit: &str, kind: Kind| {
                Metric::new(name, value, unit, kind)
                    .with("figure", figure)
                    .with("claim", claim.to_string())
                    .with("source", claim.source)
            };
            metrics.extend([
                of_claim(
                    "published_low_percent",
                    claim.low_percent,
                    "%",
                    Kind::Published,
                ),
                of_claim(
                    "published_high_percent",
                    claim.high_percent,
                    "%",
                    Kind::Published,
                ),
                of_claim(
                    "modelled_percent",
                    one.modelled_percent,
                    "%",
                    Kind::Modelled,
                ),
                of_claim("error_points", one.error_points(), "points", Kind::Modelled),
            ]);
        }
        metrics
    }

    fn title(&self) -> String {
        format!("{}: {}", self.figure.name(), self.figure.title())
    }

    fn verdict(&self) -> String {
        format!(
            "{} of {} published ranges hold what the model has; it is {:.1} points off them on average",
            self.in_range(),
            self.claims.len(),
            self.mean_error_points()
        )
    }

    /// The middle of each published range, and what the model has.
    fn overview(&self) -> Option<LineChart> {
        let pairs = self.claims.iter().map(|one| {
            let middle = f64::midpoint(one.claim.low_percent, one.claim.high_percent);
            (middle, one.modelled_percent)
        });
        overview(self.figure.title(), "%", pairs)
    }

    /// Adds a chart of the published ranges and what the model has, and a table that unfolds.
    fn add_to(&self, report: &mut Report) {
        let mut chart = BarChart::new(self.title(), "%")
            .series("published, from", Kind::Published)
            .series("published, to", Kind::Published)
            .series("modelled", Kind::Modelled);
        let columns = [
            Column::text("Claim"),
            Column::number("From", "%", 1).kind(Kind::Published),
            Column::number("To", "%", 1).kind(Kind::Published),
            Column::number("Modelled", "%", 1).kind(Kind::Modelled),
            Column::number("Off the range", "points", 1).kind(Kind::Modelled),
            Column::text("Source"),
        ];
        let mut table = Table::new(self.figure.name(), columns);
        for one in &self.claims {
            let claim = &one.claim;
            let bars = [claim.low_percent, claim.high_percent, one.modelled_percent];
            chart.group(claim.to_string(), bars.map(Bar::from));
            table.row([
                Cell::from(claim.to_string().as_str()),
                Cell::from(claim.low_percent),
                Cell::from(claim.high_percent),
                Cell::from(one.modelled_percent),
                Cell::from(one.error_points()),
                Cell::from(claim.source),
            ]);
        }
        report.bars(chart);
        report.folded(self.verdict(), [table]);
    }
}
