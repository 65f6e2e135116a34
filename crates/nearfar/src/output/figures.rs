//! Figures on stdout: for people as a table, for programs in the results schema.

use std::io::{self, Write};

use nearfar_measure::results::{Header, Metric, ResultsWriter, Spread};
use serde_json::Value;

use super::file::Output;
use crate::args::FigureFormat;

/// The header of results of this run of the program.
pub fn header(configuration: Value) -> Header {
    Header::new(
        env!("CARGO_PKG_VERSION"),
        crate::command_line(),
        configuration,
    )
}

/// Prints `metrics` in the format that was asked for, which `table` writes for people.
pub fn print(
    format: FigureFormat,
    header: &Header,
    metrics: &[Metric],
    table: impl FnOnce(&[Metric], &mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    match format {
        FigureFormat::Table => output.with(|out| table(metrics, out))?,
        FigureFormat::Json => output.with(|out| {
            let mut results = ResultsWriter::new(out, header)?;
            metrics.iter().try_for_each(|metric| results.metric(metric))
        })?,
    }
    output.finish()
}

/// The same for figures of a benchmark with this configuration.
pub fn print_measured(
    format: FigureFormat,
    configuration: Value,
    metrics: &[Metric],
    table: impl FnOnce(&[Metric], &mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    print(format, &header(configuration), metrics, table)
}

/// What a figure belongs to, in one respect.
pub fn dimension(metric: &Metric, name: &str) -> String {
    match metric.dimensions.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

/// The smallest and the largest run of a figure, each as `text` writes it; empty for a single one.
pub fn range(metric: &Metric, text: impl Fn(f64) -> String) -> String {
    let of = |spread: Spread| format!("{} to {}", text(spread.min), text(spread.max));
    metric.spread.map(of).unwrap_or_default()
}
