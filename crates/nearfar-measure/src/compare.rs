//! Two results side by side.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use crate::report::{Cell, Column, Note, Report, Table};
use crate::results::{Header, Kind, Metric};

/// Dimensions that say what a figure of an access benchmark or a scan belongs to; others describe how it came about.
const IDENTITY: [&str; 7] = [
    "run",
    "task",
    "tier",
    "event",
    "percentile",
    "contestant",
    "selectivity_percent",
];

/// What an access benchmark or a scan says of itself, and not of memory.
const ELAPSED: &str = "run_seconds";

/// One figure of two results.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Its name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// What it belongs to.
    pub of: String,
    /// In the first results.
    pub first: Figure,
    /// In the second ones.
    pub second: Figure,
}

/// One side of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The value: the median where there were several runs.
    pub value: f64,
    /// Where it comes from.
    pub kind: Kind,
    /// The confidence interval of its mean, or its spread.
    pub interval: Option<(f64, f64)>,
    /// Whether the run was disturbed.
    pub is_noisy: bool,
}

impl Pair {
    /// Second over first.
    pub fn ratio(&self) -> f64 {
        self.second.value / self.first.value
    }

    /// Whether the intervals of the two do not touch; `None` where one has none.
    pub fn differs(&self) -> Option<bool> {
        let (first, second) = self.first.interval.zip(self.second.interval)?;
        Some(first.1 < second.0 || second.1 < first.0)
    }
}

/// What two results have in common, and what only one of them has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    /// Figures of both, in the order of the first.
    pub pairs: Vec<Pair>,
    /// Number of figures that only the first has.
    pub only_first: usize,
    /// Number of figures that only the second has.
    pub only_second: usize,
}

/// Pairs the figures of two results of access benchmarks or scans by name, unit and what they belong to. Kinds may
/// differ: that is how a model is held against a measurement.
pub fn compare(first: &[Metric], second: &[Metric]) -> Comparison {
    compare_by(first, second, |metric| {
        (metric.metric != ELAPSED).then(|| belongs_to(metric, &IDENTITY))
    })
}

/// The same of other results, given what a figure belongs to; those for which that is `None` are left out.
pub fn compare_by(
    first: &[Metric],
    second: &[Metric],
    of: impl Fn(&Metric) -> Option<String>,
) -> Comparison {
    let found = |metric: &Metric| Some((of(metric)?, figure(metric)?));
    // What is there several times is paired in turn.
    let mut others: BTreeMap<(&str, String), VecDeque<Figure>> = BTreeMap::new();
    for metric in second {
        if let Some((of, figure)) = found(metric) {
            let same = others.entry((&metric.metric, of)).or_default();
            same.push_back(figure);
        }
    }
    let mut comparison = Comparison::default();
    for metric in first {
        let Some((of, figure)) = found(metric) else {
            continue;
        };
        let same = others.get_mut(&(metric.metric.as_str(), of.clone()));
        match same.and_then(VecDeque::pop_front) {
            Some(second) => comparison.pairs.push(Pair {
                metric: metric.metric.clone(),
                unit: metric.unit.clone(),
                of,
                first: figure,
                second,
            }),
            None => comparison.only_first += 1,
        }
    }
    comparison.only_second = others.values().map(VecDeque::len).sum();
    comparison
}

/// What a figure says of these dimensions, as far as it has them: words as they are, numbers with what they count.
pub fn belongs_to(metric: &Metric, dimensions: &[&str]) -> String {
    let parts = dimensions.iter().filter_map(|name| {
        Some(match metric.dimensions.get(*name)? {
            Value::String(word) => word.clone(),
            value => format!("{name} {value}"),
        })
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn figure(metric: &Metric) -> Option<Figure> {
    let bound = |name: &str| metric.dimensions.get(name)?.as_f64();
    let confidence = bound("ci95_low").zip(bound("ci95_high"));
    let spread = metric.spread.map(|spread| (spread.min, spread.max));
    Some(Figure {
        value: metric.value.get()?,
        kind: metric.kind,
        interval: confidence.or(spread),
        is_noisy: metric
            .dimensions
            .get("noisy")
            .and_then(Value::as_bool)
            .unwrap_or(false),
    })
}

/// The comparison as a page.
pub fn page(names: [&str; 2], headers: [&Header; 2], comparison: &Comparison) -> Report {
    let mut report = Report::new(format!("{} against {}", names[0], names[1]));
    report.subtitle("Ratios are the second figure over the first.");
    if headers[0].machine != headers[1].machine {
        let note = "The two results come from different machines or kernels.";
        report.note(Note::Warning, note);
    }
    let differing = comparison.pairs.iter();
    let differing = differing.filter(|pair| pair.first.kind != pair.second.kind);
    let (differing, all) = (differing.count(), comparison.pairs.len());
    if differing > 0 {
        let note = format!(
            "{differing} of {all} pairs hold figures of different kinds, such as a measured and a \
             modelled one: see the columns Kind."
        );
        report.note(Note::Warning, note);
    }
    let noisy = comparison
        .pairs
        .iter()
        .filter(|pair| pair.first.is_noisy || pair.second.is_noisy);
    let noisy = noisy.count();
    if noisy > 0 {
        let all = comparison.pairs.len();
        report.note(
            Note::Warning,
            format!("{noisy} of {all} pairs hold a disturbed run."),
        );
    }
    report.table(table(names, comparison));
    for (name, header) in names.into_iter().zip(headers) {
        report.heading(name.to_owned()).header(header);
    }
    report
}

fn table(names: [&str; 2], comparison: &Comparison) -> Table {
    let columns = [
        Column::text("Figure"),
        Column::text("Of"),
        Column::text("Unit"),
        Column::number(names[0], "", 2),
        Column::text("Kind"),
        Column::number(names[1], "", 2),
        Column::text("Kind"),
        Column::number("Ratio", "", 3),
        Column::text("Intervals"),
    ];
    let mut table = Table::new("Figures that both have", columns);
    for pair in &comparison.pairs {
        let (scale, unit) = display_unit(&pair.unit);
        table.row([
            Cell::from(pair.metric.as_str()),
            Cell::from(pair.of.as_str()),
            Cell::from(unit),
            Cell::from(pair.first.value * scale),
            Cell::from(pair.first.kind.name()),
            Cell::from(pair.second.value * scale),
            Cell::from(pair.second.kind.name()),
            Cell::from(pair.ratio()),
            Cell::from(match pair.differs() {
                Some(true) => "apart",
                Some(false) => "overlap",
                None => "not known",
            }),
        ]);
    }
    table
}

/// Bytes per second are shown in GB/s, accesses in millions per second.
pub(crate) fn display_unit(unit: &str) -> (f64, &str) {
    match unit {
        "B/s" => (1e-9, "GB/s"),
        "1/s" => (1e-6, "M/s"),
        other => (1.0, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, run: &str, value: f64) -> Metric {
        Metric::new(name, value, "B/s", Kind::Measured).with("run", run)
    }

    #[test]
    fn figures_are_paired_by_what_they_belong_to() {
        let first = [
            metric("a", "x", 10.0),
            metric("a", "y", 5.0),
            metric("b", "x", 1.0),
        ];
        let second = [
            metric("a", "y", 10.0)
                .with("ci95_low", 9.0)
                .with("ci95_high", 11.0),
            metric("c", "x", 1.0),
            metric("run_seconds", "x", 1.0),
        ];
        let comparison = compare(&first, &second);
        assert_eq!((comparison.only_first, comparison.only_second), (2, 1));
        let pair = &comparison.pairs[0];
        assert_eq!(
            (pair.of.as_str(), pair.ratio(), pair.differs()),
            ("y", 2.0, None)
        );
    }

    #[test]
    fn counters_are_paired_by_their_event() {
        let counter = |event: &str, value: f64| {
            let metric = Metric::new("counter", value, "count", Kind::Measured);
            metric.with("run", "x").with("event", event)
        };
        let first = [counter("cycles", 10.0), counter("instructions", 20.0)];
        let second = [counter("instructions", 30.0), counter("cycles", 40.0)];
        let comparison = compare(&first, &second);
        assert_eq!((comparison.only_first, comparison.only_second), (0, 0));
        let found: Vec<(&str, f64)> = comparison
            .pairs
            .iter()
            .map(|pair| (pair.of.as_str(), pair.ratio()))
            .collect();
        assert_eq!(found, [("x, cycles", 4.0), ("x, instructions", 1.5)]);
    }

    #[test]
    fn other_results_are_paired_by_what_is_said_of_them() {
        let of = |placement: &str, query: u32, value: f64| {
            let metric = metric("seconds", "ignored", value).with("query", query);
            metric.with("placement", placement)
        };
        let first = [of("near", 1, 1.0), of("far", 1, 2.0), of("far", 6, 3.0)];
        let second = [of("far", 6, 6.0), of("far", 1, 1.0), of("far", 1, 7.0)];
        let comparison = compare_by(&first, &second, |metric| {
            let of = belongs_to(metric, &["placement", "query"]);
            (!of.starts_with("near")).then_some(of)
        });
        assert_eq!((comparison.only_first, comparison.only_second), (0, 1));
        let pairs = comparison.pairs.iter();
        let pairs: Vec<_> = pairs.map(|pair| (pair.of.as_str(), pair.ratio())).collect();
        assert_eq!(pairs, [("far, query 1", 0.5), ("far, query 6", 2.0)]);
    }

    #[test]
    fn intervals_tell_whether_figures_differ() {
        let side = |low: f64, high: f64| {
            [metric("a", "x", (low + high) / 2.0)
                .with("ci95_low", low)
                .with("ci95_high", high)]
        };
        let differs =
            |first: [Metric; 1], second: [Metric; 1]| compare(&first, &second).pairs[0].differs();
        assert_eq!(differs(side(1.0, 2.0), side(1.5, 3.0)), Some(false));
        assert_eq!(differs(side(1.0, 2.0), side(2.5, 3.0)), Some(true));
    }
}
