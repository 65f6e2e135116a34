//! Results as text.

use std::io::{self, Write};

use nearfar_measure::results::Metric;
use serde_json::Value;

use crate::output::comparison::figure;
use crate::output::grid::{Align, Grid};

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
