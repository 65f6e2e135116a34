//! From figures of points to the matrix: per pair the curve, the largest change and its class.

use serde_json::Value;

use super::effect::Effect;
use super::outcome::values;
use crate::results::{Kind, Metric};
use crate::statistics::{Summary, confidence_95};

/// A figure over its repetitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The middle one.
    pub median: f64,
    /// The 95 % confidence interval of their mean; the median twice where there is one only.
    pub interval: (f64, f64),
    /// Unit: `B/s`, `s`, or none for a metric of an application.
    pub unit: String,
    /// Whether it was disturbed.
    pub is_noisy: bool,
    lower_is_better: bool,
}

impl Figure {
    fn of(metric: &Metric) -> Option<Self> {
        let values = values(metric);
        let median = Summary::of(values.iter().copied())?.median;
        let interval = confidence_95(&values).unwrap_or((median, median));
        let is = |name: &str, expected: Value| metric.dimensions.get(name) == Some(&expected);
        Some(Self {
            median,
            interval: (interval.0.max(0.0), interval.1),
            unit: metric.unit.clone(),
            is_noisy: is("noisy", true.into()),
            lower_is_better: is("better", "lower".into()),
        })
    }

    /// Change of performance against running alone in per cent, with its bounds: those of the
    /// intervals of both at their worst, so that it is wider than an interval of 95 %.
    fn change(&self, alone: &Self) -> (f64, (f64, f64)) {
        let of = |beside: f64, alone: f64| match self.lower_is_better {
            true => (alone / beside - 1.0) * 100.0,
            false => (beside / alone - 1.0) * 100.0,
        };
        let ((low, high), (alone_low, alone_high)) = (self.interval, alone.interval);
        let bounds = match self.lower_is_better {
            true => (of(high, alone_low), of(low, alone_high)),
            false => (of(low, alone_high), of(high, alone_low)),
        };
        (of(self.median, alone.median), bounds)
    }
}

/// A place of a curve.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvePoint {
    /// Threads of the background.
    pub background_threads: usize,
    /// What is under test, beside it.
    pub beside: Figure,
    /// Bytes per second of the background, where it was counted.
    pub background_bytes_per_s: Option<f64>,
    /// Change of performance against running alone, in per cent.
    pub change_percent: f64,
    /// Its bounds; not finite where an interval begins at zero.
    pub bounds_percent: (f64, f64),
}

/// The change over the threads of the background, with one number of threads under test.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Threads under test.
    pub threads: usize,
    /// What is under test, alone.
    pub alone: Figure,
    /// By threads of the background.
    pub points: Vec<CurvePoint>,
}

/// A pair: what is under test, and what ran beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What is under test.
    pub tested: String,
    /// What ran beside it.
    pub beside: String,
    /// Why there is nothing, if so.
    pub gap: Option<String>,
    /// By threads under test.
    pub curves: Vec<Curve>,
}

impl Cell {
    /// Where the change is largest.
    pub fn largest(&self) -> Option<(&Curve, &CurvePoint)> {
        let points = self.curves.iter();
        let points = points.flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
        let finite = points.filter(|(_, point)| point.change_percent.is_finite());
        finite.max_by(|(_, a), (_, b)| {
            let size = |point: &CurvePoint| point.change_percent.abs();
            size(a).total_cmp(&size(b))
        })
    }

    /// Whether the largest change was disturbed.
    pub fn is_noisy(&self) -> bool {
        self.largest()
            .is_some_and(|(curve, point)| curve.alone.is_noisy || point.beside.is_noisy)
    }

    /// The class of the largest change.
    pub fn effect(&self) -> Option<Effect> {
        self.largest()
            .map(|(_, point)| Effect::of_percent(point.change_percent))
    }
}

/// A matrix as far as it was run.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Whether it was measured or modelled.
    pub kind: Kind,
    /// In the order in which they were run; those that could not be are the last.
    pub cells: Vec<Cell>,
}

impl Table {
    /// The matrix of these figures.
    pub fn of(metrics: &[Metric]) -> Self {
        let tested: Vec<&Metric> = with_role(metrics, "tested").collect();
        let mut table = Self {
            kind: metrics
                .iter()
                .find(|metric| metric.metric != "run_seconds")
                .map_or(Kind::Measured, |metric| metric.kind),
            cells: Vec::new(),
        };
        for metric in &tested {
            if let Some(beside) = text(metric, "beside") {
                table.add(metrics, &tested, metric, beside);
            }
        }
        for metric in metrics.iter().filter(|one| one.metric == "change_percent") {
            let pair = text(metric, "tested").zip(text(metric, "beside"));
            if let Some(((tested, beside), reason)) = pair.zip(metric.value.reason()) {
                table.cell(tested, beside).gap = Some(reason.to_owned());
            }
        }
        table
    }

    /// The cell of a pair, made if there is none.
    fn cell(&mut self, tested: &str, beside: &str) -> &mut Cell {
        let is_it = |cell: &Cell| cell.tested == tested && cell.beside == beside;
        let at = self.cells.iter().position(is_it).unwrap_or_else(|| {
            self.cells.push(Cell {
                tested: tested.to_owned(),
                beside: beside.to_owned(),
                gap: None,
                curves: Vec::new(),
            });
            self.cells.len() - 1
        });
        &mut self.cells[at]
    }

    fn add(&mut self, metrics: &[Metric], all: &[&Metric], metric: &Metric, beside: &str) {
        let Some((tested, threads)) = text(metric, "tested").zip(number(metric, "threads")) else {
            return;
        };
        let alone = all.iter().find(|other| {
            text(other, "beside").is_none()
                && text(other, "tested") == Some(tested)
                && number(other, "threads") == Some(threads)
        });
        let figures = alone
            .and_then(|alone| Figure::of(alone))
            .zip(Figure::of(metric));
        let Some(((alone, figure), background_threads)) =
            figures.zip(number(metric, "background_threads"))
        else {
            return;
        };
        let run = text(metric, "run");
        let mut background = with_role(metrics, "background");
        let background = background.find(|other| text(other, "run") == run);
        let (change_percent, bounds_percent) = figure.change(&alone);
        let point = CurvePoint {
            background_threads,
            beside: figure,
            background_bytes_per_s: background.and_then(|found| found.value.get()),
            change_percent,
            bounds_percent,
        };
        let cell = self.cell(tested, beside);
        match cell.curves.iter_mut().find(|one| one.threads == threads) {
            Some(curve) => curve.points.push(point),
            None => cell.curves.push(Curve {
                threads,
                alone,
                points: vec![point],
            }),
        }
    }

    /// `change_percent` of every pair: the largest, with its bounds, its class as `effect`, and the
    /// threads at which it is.
    pub fn metrics(&self) -> Vec<Metric> {
        let found = self.cells.iter().filter_map(|cell| {
            let (curve, point) = cell.largest()?;
            let value = point.change_percent;
            let mut metric = Metric::new("change_percent", value, "%", self.kind)
                .with("tested", cell.tested.as_str())
                .with("beside", cell.beside.as_str())
                .with("effect", Effect::of_percent(value).name())
                .with("threads", curve.threads)
                .with("background_threads", point.background_threads)
                .with("alone", curve.alone.median)
                .with("together", point.beside.median)
                .with("figure_unit", curve.alone.unit.as_str())
                .with("noisy", cell.is_noisy());
            for (name, bound) in [
                ("ci_low", point.bounds_percent.0),
                ("ci_high", point.bounds_percent.1),
            ] {
                if bound.is_finite() {
                    metric = metric.with(name, bound);
                }
            }
            Some(metric)
        });
        found.collect()
    }
}

fn with_role<'a>(metrics: &'a [Metric], role: &str) -> impl Iterator<Item = &'a Metric> {
    let has = move |metric: &&Metric| text(metric, "role") == Some(role);
    metrics.iter().filter(has)
}

fn text<'a>(metric: &'a Metric, dimension: &str) -> Option<&'a str> {
    metric.dimensions.get(dimension)?.as_str()
}

fn number(metric: &Metric, dimension: &str) -> Option<usize> {
    let number = metric.dimensions.get(dimension)?.as_u64()?;
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::matrix::{MissingCell, Point};
    use super::super::outcome::{ApplicationFigure, PointOutcome};
    use super::super::traffic::{MemoryOperation, Traffic};
    use super::*;

    fn memory(tier: &str) -> Traffic {
        Traffic::Memory {
            tier: tier.to_owned(),
            operation: MemoryOperation::Load,
        }
    }

    fn figures(
        subject: Traffic,
        threads: usize,
        others: usize,
        tested: &[f64],
        application: Option<ApplicationFigure>,
    ) -> Vec<Metric> {
        let background = (others > 0).then(|| (memory("far"), others));
        let point = Point {
            subject,
            threads,
            background,
        };
        let outcome = PointOutcome {
            tested: tested.to_vec(),
            background: if others > 0 { vec![5e9] } else { Vec::new() },
            application,
            kind: Kind::Measured,
            causes: Vec::new(),
            noise_reasons: Vec::new(),
            elapsed: Duration::from_secs(1),
        };
        outcome.metrics(&point)
    }

    #[test]
    fn the_largest_change_is_found_over_all_threads_with_its_class() {
        let near = || memory("near");
        let metrics = [
            figures(near(), 1, 0, &[9e9, 10e9, 11e9], None),
            figures(near(), 2, 0, &[20e9], None),
            figures(near(), 1, 1, &[9.9e9, 9.9e9, 9.9e9], None),
            figures(near(), 1, 2, &[8e9, 8e9, 8e9], None),
            figures(near(), 2, 1, &[11e9], None),
        ]
        .concat();
        let table = Table::of(&metrics);
        let [cell] = &table.cells[..] else {
            panic!("one pair: {:?}", table.cells);
        };
        let points: Vec<usize> = cell.curves.iter().map(|curve| curve.points.len()).collect();
        assert_eq!(points, [2, 1]);
        let (curve, point) = cell.largest().unwrap();
        assert_eq!((curve.threads, point.background_threads), (2, 1));
        assert!((point.change_percent + 45.0).abs() < 1e-9);
        assert_eq!(cell.effect(), Some(Effect::DeepLoss));
        assert_eq!(point.background_bytes_per_s, Some(5e9));
        let (low, high) = cell.curves[0].points[1].bounds_percent;
        assert!(low < -20.0 && high > -20.0, "{low} to {high}");
        let [metric] = &table.metrics()[..] else {
            panic!("one figure");
        };
        assert_eq!(metric.dimensions["effect"], "deep");
    }

    #[test]
    fn an_application_that_takes_longer_has_lost() {
        let application = |others, seconds| {
            let figure = Some(ApplicationFigure::Seconds);
            figures(Traffic::Application, 1, others, &[seconds], figure)
        };
        let table = Table::of(&[application(0, 1.0), application(1, 2.0)].concat());
        let (_, point) = table.cells[0].largest().unwrap();
        assert_eq!(point.change_percent, -50.0);
        assert_eq!(point.bounds_percent, (-50.0, -50.0));
    }

    #[test]
    fn what_could_not_be_run_keeps_its_reason() {
        let missing = MissingCell {
            subject: memory("near"),
            background: memory("far"),
            reason: "no far tier".to_owned(),
        };
        let table = Table::of(&[missing.metric(Kind::Measured)]);
        assert_eq!(table.cells[0].gap.as_deref(), Some("no far tier"));
        assert_eq!(table.cells[0].largest(), None);
        assert!(table.metrics().is_empty());
    }
}
