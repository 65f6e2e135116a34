//! What a point gave, as results.

use std::time::Duration;

use serde_json::{Value, json};

use super::matrix::{MissingCell, Point};
use super::traffic::Traffic;
use crate::results::{Kind, Metric};
use crate::statistics::{Summary, confidence_95};

/// What the figures of an application are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApplicationFigure {
    Seconds,
    /// A number of its own, of which less is better or more.
    Metric {
        lower_is_better: bool,
    },
}

/// What a point gave.
#[derive(Debug, Clone, PartialEq)]
pub struct PointOutcome {
    /// Bytes per second of what is under test, or the metric of an application, by repetition.
    pub(super) tested: Vec<f64>,
    /// Bytes per second of the background, by repetition; none where nothing ran beside, or nobody
    /// counted.
    pub(super) background: Vec<f64>,
    pub(super) application: Option<ApplicationFigure>,
    pub(super) kind: Kind,
    /// Why something is lost, as far as it was asked for and found.
    pub(super) causes: Vec<Metric>,
    /// Why it is noisy.
    pub noise_reasons: Vec<String>,
    pub(super) elapsed: Duration,
}

impl PointOutcome {
    /// The figures of the point; `run_seconds` is the last.
    pub fn metrics(&self, point: &Point) -> Vec<Metric> {
        let mut metrics = vec![self.tested_metric(point)];
        if !self.background.is_empty() {
            let metric = repeated("bandwidth_bytes_per_s", &self.background, "B/s", self.kind);
            metrics.push(metric.with("role", "background"));
        }
        metrics.extend(self.causes.iter().cloned());
        let seconds = self.elapsed.as_secs_f64();
        let seconds = Metric::new("run_seconds", seconds, "s", Kind::Measured);
        metrics.push(seconds.with("noise", json!(self.noise_reasons)));
        let of_point = |metric: Metric| {
            let metric = metric
                .with("run", point.to_string())
                .with("tested", point.subject.to_string())
                .with("threads", point.threads)
                .with("noisy", !self.noise_reasons.is_empty());
            match &point.background {
                Some((traffic, threads)) => metric
                    .with("beside", traffic.to_string())
                    .with("background_threads", *threads),
                None => metric,
            }
        };
        metrics.into_iter().map(of_point).collect()
    }

    fn tested_metric(&self, point: &Point) -> Metric {
        let figure = match point.subject {
            Traffic::Application => self.application,
            _ => None,
        };
        let (name, unit, is_lower_better) = match figure {
            None => ("bandwidth_bytes_per_s", "B/s", false),
            Some(ApplicationFigure::Seconds) => ("application_seconds", "s", true),
            Some(ApplicationFigure::Metric { lower_is_better }) => {
                ("application_metric", "", lower_is_better)
            }
        };
        let metric = repeated(name, &self.tested, unit, self.kind).with("role", "tested");
        match is_lower_better {
            true => metric.with("better", "lower"),
            false => metric,
        }
    }
}

/// The median over repetitions, the confidence interval of their mean, and all of them.
fn repeated(name: &str, values: &[f64], unit: &str, kind: Kind) -> Metric {
    let Some(summary) = Summary::of(values.iter().copied()) else {
        return Metric::unavailable(name, "nothing was complete", unit, kind);
    };
    if let [value] = values {
        return Metric::new(name, *value, unit, kind).with("values", json!([value]));
    }
    let metric = Metric::of_runs(name, &summary, unit, kind).with("values", json!(values));
    match confidence_95(values) {
        Some((low, high)) => metric
            .with("ci95_low", low.max(0.0))
            .with("ci95_high", high),
        None => metric,
    }
}

impl MissingCell {
    /// The change that could not be had, with the reason.
    pub fn metric(&self, kind: Kind) -> Metric {
        Metric::unavailable("change_percent", &self.reason, "%", kind)
            .with("tested", self.subject.to_string())
            .with("beside", self.background.to_string())
    }
}

/// The repetitions that a figure was taken over.
pub(super) fn values(metric: &Metric) -> Vec<f64> {
    let values = metric.dimensions.get("values").and_then(Value::as_array);
    let values = values.into_iter().flatten().filter_map(Value::as_f64);
    values.collect()
}
