//! Shapes of geyer-2023.

use std::io::{self, Write};

use nearfar_measure::operators::{GeyerFigure, GeyerOutcome, reproduce_geyer};

use super::shown::Shown;
use crate::output::grid::{Align, Grid};

/// Runs these figures.
pub fn run(figures: &[GeyerFigure]) -> anyhow::Result<Box<dyn Shown>> {
    Ok(Box::new(reproduce_geyer(figures)?))
}

impl Shown for GeyerOutcome {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        table(self, out)
    }
}

fn table(outcome: &GeyerOutcome, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("shape", Align::Left),
        ("met", Align::Left),
        ("in the model", Align::Left),
    ]);
    for shape in &outcome.shapes {
        grid.row([
            shape.figure.name().to_owned(),
            shape.name.to_owned(),
            if shape.is_met { "yes" } else { "no" }.to_owned(),
            shape.found.clone(),
        ]);
    }
    grid.write_page(out)?;
    writeln!(
        out,
        "{} of {} shapes are met.",
        outcome.shapes_met(),
        outcome.shapes.len()
    )
}
