//! Papers, and what all of their figures have in common.

use super::interplay::{Causes, Curves, InterplayTable, RegulatedPoint, Regulators};
use super::outcome::Reproduction;
use crate::operators::GeyerOutcome;
use crate::report::{LineChart, Report};
use crate::results::{Kind, Metric};

/// A paper whose experiments are reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paper {
    /// ahn-2024.
    Ahn,
    /// geyer-2023.
    Geyer,
    /// mao-2025.
    Mao,
    /// weisgut-2025.
    Weisgut,
    /// zhao-2026.
    Zhao,
}

impl Paper {
    /// All papers, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Weisgut, Self::Mao, Self::Geyer, Self::Ahn, Self::Zhao];

    /// Its word in commands.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ahn => "ahn",
            Self::Geyer => "geyer",
            Self::Mao => "mao",
            Self::Weisgut => "weisgut",
            Self::Zhao => "zhao",
        }
    }

    /// Its name, and what it is about.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ahn => "ahn-2024: a database with main storage, heap or temporary tables far",
            Self::Geyer => "geyer-2023: operators over near and far buffers",
            Self::Mao => "mao-2025: interference between tiers and storage",
            Self::Weisgut => "weisgut-2025: performance of CXL memory",
            Self::Zhao => "zhao-2026: trees over two tiers",
        }
    }
}

/// What a figure gave in the model, for programs and for people. A crate that runs figures of its own
/// implements it for what they give, and the registry of `nearfar reproduce` names its runner.
pub trait FigureOutcome: Send {
    /// All figures; published ones among them.
    fn metrics(&self) -> Vec<Metric>;

    /// What it shows, with paper and number.
    fn title(&self) -> String;

    /// In a few words, how well the model meets what is published: the mean error, or how many shapes or classes are met
    /// of how many.
    fn verdict(&self) -> String;

    /// Published and modelled values in one small chart ([`overview`]); `None` where no number is published.
    fn overview(&self) -> Option<LineChart>;

    /// Adds it to a page.
    fn add_to(&self, report: &mut Report);

    /// Whether anything could be run.
    fn has_figures(&self) -> bool {
        true
    }
}

/// A small chart of (published, modelled) pairs in the order of the published values.
pub fn overview(
    title: &str,
    unit: &str,
    pairs: impl IntoIterator<Item = (f64, f64)>,
) -> Option<LineChart> {
    let mut pairs: Vec<(f64, f64)> = pairs.into_iter().collect();
    if pairs.is_empty() {
        return None;
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let line = |value: fn(&(f64, f64)) -> f64| {
        let values = pairs.iter().map(value).enumerate();
        let points: Vec<(f64, f64)> = values.map(|(at, y)| ((at + 1) as f64, y)).collect();
        points
    };
    let mut chart = LineChart::new(title, "points by published value", unit);
    chart.line("published", Kind::Published, line(|pair| pair.0));
    chart.line("modelled", Kind::Modelled, line(|pair| pair.1));
    Some(chart)
}

/// Mean of the absolute errors, in their unit; none of none.
pub(super) fn mean_absolute(errors: impl IntoIterator<Item = f64>) -> Option<f64> {
    let errors: Vec<f64> = errors.into_iter().map(f64::abs).collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

/// So many of so many shapes.
fn shapes(met: usize, all: usize) -> String {
    format!("{met} of {all} shapes are met")
}

impl FigureOutcome for Reproduction {
    fn metrics(&self) -> Vec<Metric> {
        self.metrics()
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    fn verdict(&self) -> String {
        let Some(error) = self.mape_percent() else {
            return "unavailable".to_owned();
        };
        let error = format!("mean absolute error {error:.1} {}", self.error_unit());
        match self.unavailable.values().sum::<usize>() {
            0 => error,
            points => format!("{error}; {points} points are unavailable"),
        }
    }

    fn overview(&self) -> Option<LineChart> {
        let pairs = self.points().map(|point| (point.published, point.modelled));
        overview(&self.name, &self.unit, pairs)
    }

    fn add_to(&self, report: &mut Report) {
        self.add_to(report);
    }

    fn has_figures(&self) -> bool {
        self.mape_percent().is_some()
    }
}

impl FigureOutcome for InterplayTable {
    fn metrics(&self) -> Vec<Metric> {
        self.metrics()
    }

    fn title(&self) -> String {
        "Largest change of bandwidth beside others (mao-2025, table III)".to_owned()
    }

    fn verdict(&self) -> String {
        let right = self.cells.iter().filter(|cell| cell.is_right()).count();
        let all = self.cells.len();
        format!("sign and class of {right} of {all} are right")
    }

    fn overview(&self) -> Option<LineChart> {
        let cells = self.cells.iter();
        let pairs = cells.map(|cell| (cell.published_percent, cell.modelled_percent));
        overview(Self::name(), "change in %", pairs)
    }

    fn add_to(&self, report: &mut Report) {
        self.add_to(report);
    }
}

impl FigureOutcome for Causes {
    fn metrics(&self) -> Vec<Metric> {
        self.metrics()
    }

    fn title(&self) -> String {
        "What counters say of writes to storage beside CXL ntst (mao-2025, table IV)".to_owned()
    }

    fn verdict(&self) -> String {
        let known = self.ratios.iter().filter(|ratio| ratio.modelled.is_known());
        let modelled = format!("{} of {} are modelled", known.count(), self.ratios.len());
        match self.mape_percent() {
            Some(error) => format!("{modelled}; mean absolute error {error:.1} %"),
            None => modelled,
        }
    }

    fn overview(&self) -> Option<LineChart> {
        let ratios = self.ratios.iter();
        let pairs = ratios.filter_map(|ratio| Some((ratio.published, ratio.modelled.get()?)));
        overview(Self::name(), "with over without", pairs)
    }

    fn add_to(&self, report: &mut Report) {
        self.add_to(report);
    }
}

impl FigureOutcome for Curves {
    fn metrics(&self) -> Vec<Metric> {
        self.metrics()
    }

    fn title(&self) -> String {
        format!("Beside CXL memory (mao-2025, {})", self.figure.name())
    }

    fn verdict(&self) -> String {
        let met = self.shapes.iter().filter(|shape| shape.is_met).count();
        shapes(met, self.shapes.len())
    }

    fn overview(&self) -> Option<LineChart> {
        let curves = self.curves.iter();
        let pairs =
            curves.filter_map(|curve| Some((curve.published_percent?, curve.change_percent())));
        overview(self.figure.name(), "change in %", pairs)
    }

    fn add_to(&self, report: &mut Report) {
        self.add_to(report);
    }
}

impl FigureOutcome for Regulators {
    fn metrics(&self) -> Vec<Metric> {
        self.metrics()
    }

    fn title(&self) -> String {
        format!(
            "What regulation gives back (mao-2025, {})",
            self.figure.name()
        )
    }

    fn verdict(&self) -> String {
        let errors = self.points.iter().filter_map(RegulatedPoint::error_points);
        let published = format!("{} of {} settings", errors.count(), self.points.len());
        match self.mean_error_points() {
            Some(error) => format!("mean absolute error {error:.1} points of {published}"),
            None => published,
        }
    }

    fn overview(&self) -> Option<LineChart> {
        let points = self.points.iter().filter_map(|point| {
            let (low, high) = point.published;
            let low = low?;
            Some((low.midpoint(high.unwrap_or(low)), point.recovered_percent))
        });
        overview(self.figure.name(), "bandwidth of the victim in %", points)
    }

    fn add_to(&self, report: &mut Report) {
        self.add_to(report);
    }
}

impl FigureOutcome for GeyerOutcome {
    fn metrics(&self) -> Vec<Metric> {
        self.metrics()
    }

    fn title(&self) -> String {
        "Operators over near and far buffers (geyer-2023)".to_owned()
    }

    fn verdict(&self) -> String {
        shapes(self.shapes_met(), self.shapes.len())
    }

    /// No numbers are published.
    fn overview(&self) -> Option<LineChart> {
        None
    }

    fn add_to(&self, report: &mut Report) {
        self.add_to(report);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RegulatorFigure, reproduce_causes, reproduce_regulators};
    use super::*;

    #[test]
    fn what_regulators_and_causes_miss_is_in_their_verdicts() {
        let regulators = reproduce_regulators(RegulatorFigure::Fig8).unwrap();
        let error = regulators.mean_error_points().unwrap();
        // The frequency alone misses what is published by tens of points.
        assert!(error > 5.0, "{error}");
        let expected = format!("mean absolute error {error:.1} points of 3 of 15 settings");
        assert_eq!(regulators.verdict(), expected);
        let causes = reproduce_causes().unwrap();
        let error = causes.mape_percent().unwrap();
        let expected = format!("6 of 8 are modelled; mean absolute error {error:.1} %");
        assert_eq!(causes.verdict(), expected);
        let metrics = regulators.metrics().into_iter().chain(causes.metrics());
        let means = metrics.filter(|metric| {
            ["mean_error_points", "mape_percent"].contains(&metric.metric.as_str())
        });
        assert_eq!(means.count(), 2);
    }

    #[test]
    fn an_overview_is_in_the_order_of_what_is_published() {
        assert_eq!(overview("none", "s", []), None);
        let chart = overview("two", "s", [(2.0, 3.0), (1.0, 4.0)]).unwrap();
        let mut expected = LineChart::new("two", "points by published value", "s");
        expected.line("published", Kind::Published, [(1.0, 1.0), (2.0, 2.0)]);
        expected.line("modelled", Kind::Modelled, [(1.0, 4.0), (2.0, 3.0)]);
        assert_eq!(chart, expected);
    }
}
