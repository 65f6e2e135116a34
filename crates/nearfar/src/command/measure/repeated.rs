//! Figures of programs that are under test: the median of what was repeated, with its range.

use std::io::{self, Write};

use nearfar_measure::results::Metric;
use nearfar_topology::units::Bytes;

use crate::human::BytesPerSecond;
use crate::output::figures::range;
use crate::output::grid::{Align, Grid};

/// Writes the table.
pub fn write(metrics: &[Metric], range_title: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("value", Align::Right),
        (range_title, Align::Right),
    ]);
    for metric in metrics {
        let text = |value: f64| match metric.unit.as_str() {
            "s" => format!("{value:.4} s"),
            "1/s" => format!("{:.1} M/s", value * 1e-6),
            "B/s" => BytesPerSecond(value).to_string(),
            "B" => Bytes(value as u64).to_string(),
            _ => format!("{value}"),
        };
        let value = metric.value.get().map(text).unwrap_or_default();
        grid.row([metric.metric.clone(), value, range(metric, text)]);
    }
    grid.write_page(out)
}
