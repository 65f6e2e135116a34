//! Results of access benchmarks as a page: heat maps, curves, percentiles, and all figures.

use std::collections::{BTreeMap, BTreeSet};

use nearfar_memory::PlacementSpec;
use serde_json::Value;

use super::compare::display_unit;
use crate::report::{Cell, Column, HeatMap, LineChart, Note, Report, Table};
use crate::results::{Header, Kind, Metric};

/// The page of these results.
pub fn page(header: &Header, metrics: &[Metric]) -> Report {
    let name = header
        .configuration
        .get("settings")
        .and_then(|settings| settings.get("name"));
    let name = name.and_then(Value::as_str).unwrap_or("access");
    let mut report = Report::new(format!("Access benchmark: {name}"));
    let kinds: BTreeSet<Kind> = metrics.iter().map(|metric| metric.kind).collect();
    report.legend(kinds);
    if let Some(profile) = virtual_profile(header) {
        report.subtitle(format!(
            "Run in virtual time on the machine of profile {profile}; the machine in the end only \
             computed it."
        ));
    }
    noise(&mut report, metrics);
    heat_maps(&mut report, metrics);
    splits(&mut report, metrics);
    loaded(&mut report, metrics);
    percentiles(&mut report, metrics);
    report.heading("All figures").table(all(metrics));
    report.heading("Machine and specification").header(header);
    report.footer(format!("nearfar {}", header.version));
    report
}

/// The profile whose machine was simulated.
fn virtual_profile(header: &Header) -> Option<&str> {
    let settings = header.configuration.get("settings")?;
    let is_virtual = settings.get("clock")?.as_str()? == "virtual";
    settings.get("profile")?.as_str().filter(|_| is_virtual)
}

fn text(metric: &Metric, dimension: &str) -> String {
    match metric.dimensions.get(dimension) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

fn value_of(metric: &Metric, dimension: &str) -> Option<f64> {
    metric.dimensions.get(dimension)?.as_f64()
}

fn named<'a>(metrics: &'a [Metric], name: &'a str) -> impl Iterator<Item = &'a Metric> + Clone {
    metrics
        .iter()
        .filter(move |metric| metric.metric == name && metric.value.is_known())
}

fn noise(report: &mut Report, metrics: &[Metric]) {
    for metric in named(metrics, "run_seconds") {
        let reasons = metric.dimensions.get("noise").and_then(Value::as_array);
        let reasons: Vec<&str> = reasons
            .into_iter()
            .flatten()
            .flat_map(Value::as_str)
            .collect();
        if !reasons.is_empty() {
            let run = text(metric, "run");
            report.note(
                Note::Warning,
                format!("Disturbed: {run}: {}", reasons.join("; ")),
            );
        }
    }
}

/// Figures that differ in these dimensions only.
type Groups<'a> = BTreeMap<(String, Kind), Vec<&'a Metric>>;

fn groups<'a>(metrics: impl Iterator<Item = &'a Metric>, by: &[&str]) -> Groups<'a> {
    let mut groups = Groups::new();
    for metric in metrics {
        let parts = by
            .iter()
            .map(|name| text(metric, name))
            .filter(|part| !part.is_empty());
        let name = parts.collect::<Vec<_>>().join(", ");
        groups.entry((name, metric.kind)).or_default().push(metric);
    }
    groups
}

/// Bandwidth by access size and threads, where both vary.
fn heat_maps(report: &mut Report, metrics: &[Metric]) {
    let by = [
        "operation",
        "pattern",
        "placement",
        "task",
        "writes_percent",
    ];
    for ((name, kind), group) in groups(named(metrics, "bandwidth_bytes_per_s"), &by) {
        let numbers = |dimension: &str| -> BTreeSet<u64> {
            let values = group
                .iter()
                .filter_map(|metric| value_of(metric, dimension));
            values.map(|value| value as u64).collect()
        };
        let (sizes, threads) = (numbers("access_bytes"), numbers("threads"));
        if sizes.len() < 2 || threads.len() * sizes.len() != group.len() {
            continue;
        }
        let columns = threads.iter().map(|threads| format!("{threads} threads"));
        let mut map = HeatMap::new(name, "GB/s", kind, "bytes", columns);
        for size in sizes {
            let cell = |threads: &u64| {
                let found = group.iter().find(|metric| {
                    value_of(metric, "access_bytes") == Some(size as f64)
                        && value_of(metric, "threads") == Some(*threads as f64)
                });
                found
                    .and_then(|metric| metric.value.get())
                    .map(|rate| rate / 1e9)
            };
            map.row(size.to_string(), threads.iter().map(cell));
        }
        report.heat(map);
    }
}

/// Bandwidth by the share of pages far, where placements are splits.
fn splits(report: &mut Report, metrics: &[Metric]) {
    let far_percent = |metric: &Metric| match text(metric, "placement").parse().ok()? {
        PlacementSpec::Split { first_share, .. } => Some(100.0 - first_share * 100.0),
        _ => None,
    };
    let all =
        named(metrics, "bandwidth_bytes_per_s").filter(|metric| far_percent(metric).is_some());
    for ((name, _), group) in groups(all, &["operation", "pattern", "access_bytes"]) {
        let title = format!("{name} B: bandwidth by the share of pages far");
        let mut chart = LineChart::new(title, "pages far in %", "GB/s");
        for ((threads, kind), line) in groups(group.into_iter(), &["threads"]) {
            let point = |metric: &&Metric| Some((far_percent(metric)?, metric.value.get()? / 1e9));
            let mut points: Vec<(f64, f64)> = line.iter().filter_map(point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            chart.line(format!("{threads} threads"), kind, points);
        }
        report.lines(chart);
    }
}

/// Latency of a chase by the bandwidth of the tasks beside it.
fn loaded(report: &mut Report, metrics: &[Metric]) {
    let mut loads: BTreeMap<String, (f64, String)> = BTreeMap::new();
    for metric in named(metrics, "bandwidth_bytes_per_s") {
        if text(metric, "operation") != "chase" {
            let load = loads.entry(text(metric, "run")).or_default();
            load.0 += metric.value.get().unwrap_or(0.0);
            let writes = text(metric, "writes_percent");
            load.1 = if writes.is_empty() {
                "reads".to_owned()
            } else {
                format!("{writes} % stores")
            };
        }
    }
    let mut lines: BTreeMap<(String, String, Kind), Vec<(f64, f64)>> = BTreeMap::new();
    for metric in named(metrics, "latency_ns") {
        if let Some(((rate, mix), latency)) =
            loads.get(&text(metric, "run")).zip(metric.value.get())
        {
            let key = (text(metric, "placement"), mix.clone(), metric.kind);
            lines.entry(key).or_default().push((rate / 1e9, latency));
        }
    }
    if lines.is_empty() {
        return;
    }
    let mut chart = LineChart::new("Latency under load", "load in GB/s", "latency in ns");
    for ((placement, mix, kind), mut points) in lines {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        chart.line(format!("{placement}, {mix}"), kind, points);
    }
    report.lines(chart);
}

/// Percentiles of single accesses.
fn percentiles(report: &mut Report, metrics: &[Metric]) {
    let by = ["operation", "pattern", "placement", "threads"];
    let groups = groups(named(metrics, "sampled_latency_ns"), &by);
    if groups.is_empty() {
        return;
    }
    let percents: BTreeSet<String> = groups
        .values()
        .flatten()
        .map(|metric| text(metric, "percentile"))
        .collect();
    let mut percents: Vec<String> = percents.into_iter().collect();
    let number = |text: &String| text.parse::<f64>().unwrap_or(0.0);
    percents.sort_by(|a, b| number(a).total_cmp(&number(b)));
    let columns = percents
        .iter()
        .map(|percent| Column::number(format!("{percent} %"), "ns", 1));
    let columns: Vec<Column> = [Column::text("Accesses"), Column::text("Kind")]
        .into_iter()
        .chain(columns)
        .collect();
    let mut table = Table::new("Latency of single accesses", columns);
    for ((name, kind), group) in groups {
        let cell = |percent: &String| {
            let found = group
                .iter()
                .find(|metric| text(metric, "percentile") == *percent);
            found
                .and_then(|metric| metric.value.get())
                .map_or(Cell::Empty, Cell::from)
        };
        let cells = percents.iter().map(cell);
        table.row(
            [Cell::from(name.as_str()), Cell::from(kind.name())]
                .into_iter()
                .chain(cells),
        );
    }
    report.table(table);
}

fn all(metrics: &[Metric]) -> Table {
    let columns = [
        Column::text("Run"),
        Column::text("Task"),
        Column::text("Figure"),
        Column::number("Median", "", 2),
        Column::number("95 % from", "", 2),
        Column::number("to", "", 2),
        Column::text("Unit"),
        Column::text("Kind"),
        Column::text("Disturbed"),
    ];
    let mut table = Table::new("", columns);
    for metric in metrics {
        let (scale, unit) = display_unit(&metric.unit);
        let bound = |name: &str| {
            value_of(metric, name).map_or(Cell::Empty, |bound| Cell::from(bound * scale))
        };
        let percentile = text(metric, "percentile");
        let figure = if percentile.is_empty() {
            metric.metric.clone()
        } else {
            format!("{}, {percentile} %", metric.metric)
        };
        table.row([
            Cell::from(text(metric, "run").as_str()),
            Cell::from(text(metric, "task").as_str()),
            Cell::from(figure.as_str()),
            Cell::from(metric.value.clone().map(|value| value * scale)),
            bound("ci95_low"),
            bound("ci95_high"),
            Cell::from(unit),
            Cell::from(metric.kind.name()),
            Cell::from(if text(metric, "noisy") == "true" {
                "yes"
            } else {
                ""
            }),
        ]);
    }
    table
}
