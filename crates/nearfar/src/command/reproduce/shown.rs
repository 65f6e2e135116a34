//! What a figure gave, as text.

use std::io::{self, Write};

use nearfar_measure::reproduce::{Claims, FigureOutcome};
use nearfar_measure::results::Metric;

use crate::output::figures::dimension;
use crate::output::grid::{Align, Grid};

/// What a figure gave, for terminals too.
pub trait Shown: FigureOutcome {
    /// Writes it as text: by default every figure that is published or modelled.
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.title())?;
        grid(&self.metrics()).write_page(out)?;
        writeln!(out, "\n{}\n", self.verdict())
    }
}

impl Shown for Claims {}

fn grid(metrics: &[Metric]) -> Grid {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("of", Align::Left),
        ("kind", Align::Left),
        ("value", Align::Right),
        ("unit", Align::Left),
    ]);
    // The mean error is told below.
    let of_numbers = metrics
        .iter()
        .filter(|metric| metric.dimensions.contains_key("of"));
    for metric in of_numbers {
        let value = match (metric.value.get(), metric.value.reason()) {
            (Some(value), _) => format!("{value:.2}"),
            (None, reason) => format!("unavailable: {}", reason.unwrap_or_default()),
        };
        grid.row([
            dimension(metric, "figure"),
            dimension(metric, "of"),
            metric.kind.name().to_owned(),
            value,
            metric.unit.clone(),
        ]);
    }
    grid
}
