//! Results of access benchmarks as a page: heat maps, curves, percentiles, and all figures.

use std::collections::{BTreeMap, BTreeSet};

use nearfar_memory::PlacementSpec;
use serde_json::Value;

use super::outcome::TIER_TRAFFIC;
use crate::compare::display_unit;
use crate::report::{Cell, Column, HeatMap, LineChart, Report, Table};
use crate::results::{Header, Kind, Metric};

/// Results with the name that tells them apart from others on a page.
pub type Named = (String, Header, Vec<Metric>);

/// The page of these results.
pub fn page(header: &Header, metrics: &[Metric]) -> Report {
    let mut report = Report::new(format!("Access benchmark: {}", name(header)));
    report.legend(kinds(metrics));
    if let Some(profile) = virtual_profile(header) {
        report.subtitle(format!(
            "Run in virtual time on the machine of profile {profile}; the machine in the end only \
             computed it."
        ));
    }
    figures(&mut report, metrics);
    report.heading("Machine and specification").header(header);
    report.footer(format!("nearfar {}", header.version));
    report
}

/// One page of several results, whose figures are named by them.
pub fn page_of_all(results: Vec<Named>) -> Report {
    let mut titles: Vec<&str> = results.iter().map(|(_, header, _)| name(header)).collect();
    titles.dedup();
    let mut report = Report::new(format!("Access benchmarks: {}", titles.join(", ")));
    let mut all = Vec::new();
    let mut headers = Vec::new();
    for (of, header, metrics) in results {
        let of_results = |metric: Metric| metric.with(RESULTS, of.as_str());
        all.extend(metrics.into_iter().map(of_results));
        headers.push((of, header));
    }
    report.legend(kinds(&all));
    let names = headers
        .iter()
        .map(|(of, header)| match virtual_profile(header) {
            Some(profile) => format!("{of}: virtual time, profile {profile}"),
            None => format!("{of}: memory of a machine"),
        });
    report.subtitle(names.collect::<Vec<_>>().join("; "));
    figures(&mut report, &all);
    for (of, header) in &headers {
        report.heading(format!("Machine and specification: {of}"));
        report.header(header);
    }
    report
}

/// The dimension that says which of several results a figure is of.
const RESULTS: &str = "results";

/// What results of a specification are called.
fn name(header: &Header) -> &str {
    let settings = header.configuration.get("settings");
    let name = settings.and_then(|settings| settings.get("name"));
    name.and_then(Value::as_str).unwrap_or("access")
}

fn kinds(metrics: &[Metric]) -> BTreeSet<Kind> {
    metrics.iter().map(|metric| metric.kind).collect()
}

fn figures(report: &mut Report, metrics: &[Metric]) {
    noise(report, metrics);
    heat_maps(report, metrics);
    splits(report, metrics);
    loaded(report, metrics);
    percentiles(report, metrics);
    traffic(report, metrics);
    report.heading("All figures").table(all(metrics));
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

/// The run of a figure, behind the results that it is of where there are several.
fn run(metric: &Metric) -> String {
    match text(metric, RESULTS).as_str() {
        "" => text(metric, "run"),
        results => format!("{results}: {}", text(metric, "run")),
    }
}

/// One line that unfolds, with the reasons of every disturbed run.
fn noise(report: &mut Report, metrics: &[Metric]) {
    let columns = [Column::text("Run"), Column::text("Why")];
    let mut table = Table::new("Disturbed runs", columns);
    let (mut disturbed, mut runs) = (0, 0);
    for metric in named(metrics, "run_seconds") {
        runs += 1;
        let reasons = metric.dimensions.get("noise").and_then(Value::as_array);
        let reasons: Vec<&str> = reasons
            .into_iter()
            .flatten()
            .flat_map(Value::as_str)
            .collect();
        if !reasons.is_empty() {
            disturbed += 1;
            table.row([Cell::from(run(metric)), Cell::from(reasons.join("; "))]);
        }
    }
    if disturbed > 0 {
        report.folded(
            format!("{disturbed} of {runs} runs were disturbed"),
            [table],
        );
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
        RESULTS,
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
        for ((threads, kind), line) in groups(group.into_iter(), &[RESULTS, "threads"]) {
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
            let load = loads.entry(run(metric)).or_default();
            load.0 += metric.value.get().unwrap_or(0.0);
            let writes = text(metric, "writes_percent");
            load.1 = if writes.is_empty() {
                "reads".to_owned()
            } else {
                format!("{writes} % stores")
            };
        }
    }
    let mut lines: BTreeMap<(String, Kind), Vec<(f64, f64)>> = BTreeMap::new();
    for metric in named(metrics, "latency_ns") {
        if let Some(((rate, mix), latency)) = loads.get(&run(metric)).zip(metric.value.get()) {
            let parts = [
                text(metric, RESULTS),
                text(metric, "placement"),
                mix.clone(),
            ];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            let name = parts.collect::<Vec<_>>().join(", ");
            lines
                .entry((name, metric.kind))
                .or_default()
                .push((rate / 1e9, latency));
        }
    }
    if lines.is_empty() {
        return;
    }
    let mut chart = LineChart::new("Latency under load", "load in GB/s", "latency in ns");
    for ((name, kind), mut points) in lines {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        chart.line(name, kind, points);
    }
    report.lines(chart);
}

/// Percentiles of single accesses.
fn percentiles(report: &mut Report, metrics: &[Metric]) {
    let by = [RESULTS, "operation", "pattern", "placement", "threads"];
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

/// What every tier moved in every run.
fn traffic(report: &mut Report, metrics: &[Metric]) {
    let columns = [
        Column::text("Run"),
        Column::text("Tier"),
        Column::number("Read", "GB/s", 2),
        Column::number("Written", "GB/s", 2),
        Column::text("Kind"),
    ];
    let mut table = Table::new("Traffic of the tiers", columns);
    let mut rows: BTreeMap<(String, String, Kind), [Cell; 2]> = BTreeMap::new();
    for (index, name) in TIER_TRAFFIC.into_iter().enumerate() {
        for metric in metrics.iter().filter(|metric| metric.metric == name) {
            let key = (run(metric), text(metric, "tier"), metric.kind);
            let row = rows.entry(key).or_insert([Cell::Empty, Cell::Empty]);
            row[index] = Cell::from(metric.value.clone().map(|rate| rate / 1e9));
        }
    }
    if rows.is_empty() {
        return;
    }
    for ((run, tier, kind), [read, written]) in rows {
        table.row([
            Cell::from(run),
            Cell::from(tier),
            read,
            written,
            Cell::from(kind.name()),
        ]);
    }
    report.folded("Traffic of the tiers", [table]);
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
        let (percentile, tier) = (text(metric, "percentile"), text(metric, "tier"));
        let figure = match (percentile.as_str(), tier.as_str()) {
            ("", "") => metric.metric.clone(),
            ("", tier) => format!("{}, {tier}", metric.metric),
            (percentile, _) => format!("{}, {percentile} %", metric.metric),
        };
        table.row([
            Cell::from(run(metric)),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn results(noise: &[&str]) -> Vec<Metric> {
        let of_run = |metric: Metric| metric.with("run", "threads=1");
        let value = |name: &str, value, unit: &str| Metric::new(name, value, unit, Kind::Modelled);
        let metrics = [
            value("bandwidth_bytes_per_s", 4e9, "B/s").with("task", "one"),
            value(TIER_TRAFFIC[0], 3e9, "B/s").with("tier", "far"),
            value(TIER_TRAFFIC[1], 1e9, "B/s").with("tier", "far"),
            value("run_seconds", 1.0, "s").with("noise", json!(noise)),
        ];
        metrics.into_iter().map(of_run).collect()
    }

    #[test]
    fn disturbances_are_one_line_that_unfolds() {
        let header = Header::new("1", vec![], json!({}));
        let quiet = page(&header, &results(&[])).to_html();
        assert!(!quiet.contains("disturbed</summary>"), "{quiet}");
        let noisy = page(&header, &results(&["somebody ran", "pages moved"])).to_html();
        assert!(
            noisy.contains("<summary>1 of 1 runs were disturbed</summary>")
                && noisy.contains("somebody ran; pages moved"),
            "{noisy}"
        );
        assert!(!noisy.contains("note warning"), "{noisy}");
    }

    #[test]
    fn several_results_are_one_page_that_names_them() {
        let one = |name: &str| {
            let header = Header::new("1", vec![], json!({ "settings": { "name": "scan" } }));
            (name.to_owned(), header, results(&["somebody ran"]))
        };
        let html = page_of_all(vec![one("before"), one("after")]).to_html();
        for expected in [
            "<h1>Access benchmarks: scan</h1>",
            "2 of 2 runs were disturbed",
            "before: threads=1",
            "after: threads=1",
            "Machine and specification: after",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }
}
