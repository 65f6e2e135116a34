//! The table of benchmarks that print figures of several units with their ranges.

use std::io::{self, Write};

use nearfar_measure::results::Metric;

use crate::output::figures::range;
use crate::output::grid::{Align, Grid};

/// What a column shows of a figure.
pub type Shown = fn(&Metric) -> String;

/// A row for each figure: its name, what it belongs to, its value and its smallest and largest run.
pub struct FiguresTable {
    /// The columns between name and value: title, side and text.
    pub dimensions: &'static [(&'static str, Align, Shown)],
    /// The title of the column with ranges.
    pub range_title: &'static str,
    /// Writes a value of a unit.
    pub text: fn(&str, f64) -> String,
}

impl FiguresTable {
    /// Writes the table.
    pub fn write(&self, metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
        let dimensions = self
            .dimensions
            .iter()
            .map(|(title, align, _)| (*title, *align));
        let figures = [("value", Align::Right), (self.range_title, Align::Right)];
        let columns = [("figure", Align::Left)].into_iter();
        let mut grid = Grid::new(columns.chain(dimensions).chain(figures));
        for metric in metrics {
            let text = |value| (self.text)(&metric.unit, value);
            let value = metric.value.get().map(text);
            let mut cells = vec![metric.metric.clone()];
            cells.extend(self.dimensions.iter().map(|(.., shown)| shown(metric)));
            cells.push(value.unwrap_or_else(|| "unavailable".to_owned()));
            cells.push(range(metric, text));
            grid.row(cells);
        }
        grid.write_page(out)
    }
}
