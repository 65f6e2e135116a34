//! Results and comparisons as text.

use std::io::{self, Write};

use nearfar_measure::access::compare::{Comparison, Pair};
use nearfar_measure::results::Metric;
use serde_json::Value;

use crate::human::{BytesPerSecond, Nanoseconds};
use crate::output::grid::{Align, Grid};

fn figure(value: f64, unit: &str) -> String {
    match unit {
        "B/s" => BytesPerSecond(value).to_string(),
        "ns" => Nanoseconds(value).to_string(),
        "1/s" => format!("{:.2} M/s", value / 1e6),
        _ => format!("{value:.2} {unit}"),
    }
}

fn text(metric: &Metric, dimension: &str) -> String {
    match metric.dimensions.get(dimension) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

/// The figures of all runs, and what disturbed them.
pub fn results(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("run", Align::Left),
        ("task", Align::Left),
        ("figure", Align::Left),
        ("median", Align::Right),
        ("95 % of the mean", Align::Right),
        ("kind", Align::Left),
        ("disturbed", Align::Left),
    ]);
    for metric in metrics
        .iter()
        .filter(|metric| metric.metric != "run_seconds")
    {
        let bound = |name: &str| metric.dimensions.get(name).and_then(Value::as_f64);
        let interval = bound("ci95_low").zip(bound("ci95_high"));
        let range = |(low, high)| {
            format!(
                "{} to {}",
                figure(low, &metric.unit),
                figure(high, &metric.unit)
            )
        };
        let percentile = text(metric, "percentile");
        let name = match percentile.as_str() {
            "" => {
                let words = [text(metric, "event"), text(metric, "tier")];
                format!("{} {}", metric.metric, words.concat())
            }
            percent => format!("{} {percent} %", metric.metric),
        };
        grid.row([
            text(metric, "run"),
            text(metric, "task"),
            name.trim().to_owned(),
            match (metric.value.get(), metric.value.reason()) {
                (Some(value), _) => figure(value, &metric.unit),
                (None, reason) => format!("unavailable: {}", reason.unwrap_or_default()),
            },
            interval.map(range).unwrap_or_default(),
            metric.kind.name().to_owned(),
            if text(metric, "noisy") == "true" {
                "yes"
            } else {
                ""
            }
            .to_owned(),
        ]);
    }
    grid.write_page(out)?;
    for metric in metrics
        .iter()
        .filter(|metric| metric.metric == "run_seconds")
    {
        let reasons = metric.dimensions.get("noise").and_then(Value::as_array);
        for reason in reasons.into_iter().flatten().flat_map(Value::as_str) {
            writeln!(out, "disturbed: {}: {reason}", text(metric, "run"))?;
        }
    }
    Ok(())
}

/// Two results side by side.
pub fn comparison(
    names: &[String; 2],
    comparison: &Comparison,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("of", Align::Left),
        (names[0].as_str(), Align::Right),
        (names[1].as_str(), Align::Right),
        ("ratio", Align::Right),
        ("intervals", Align::Left),
    ]);
    for pair in &comparison.pairs {
        grid.row([
            pair.metric.clone(),
            pair.of.clone(),
            format!(
                "{} {}",
                figure(pair.first.value, &pair.unit),
                pair.first.kind.name()
            ),
            format!(
                "{} {}",
                figure(pair.second.value, &pair.unit),
                pair.second.kind.name()
            ),
            format!("{:.3}", pair.ratio()),
            match pair.differs() {
                Some(true) => "apart",
                Some(false) => "overlap",
                None => "",
            }
            .to_owned(),
        ]);
    }
    grid.write_page(out)?;
    for (count, name) in [
        (comparison.only_first, &names[0]),
        (comparison.only_second, &names[1]),
    ] {
        if count > 0 {
            writeln!(out, "{count} figures are in {name} only")?;
        }
    }
    Ok(())
}

/// The ratio of a pair, as a line of the results schema.
pub fn ratio(pair: &Pair) -> Metric {
    let metric = Metric::new("ratio", pair.ratio(), "ratio", pair.second.kind)
        .with("of", pair.metric.as_str())
        .with("figure", pair.of.as_str())
        .with("first", pair.first.value)
        .with("second", pair.second.value)
        .with("first_kind", pair.first.kind.name())
        .with("second_kind", pair.second.kind.name());
    match pair.differs() {
        Some(differs) => metric.with("intervals_apart", differs),
        None => metric,
    }
}
