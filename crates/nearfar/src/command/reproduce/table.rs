//! A reproduction as text.

use std::io::{self, Write};

use nearfar_measure::reproduce::{ReproducedPoint, Reproduction};

use super::shown::Shown;
use crate::output::grid::{Align, Grid};

impl Shown for Reproduction {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write(self, out)
    }
}

/// Writes one figure: its points, its series, and the worst point.
fn write(outcome: &Reproduction, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}, profile {}", outcome.title, outcome.profile)?;
    for (reason, points) in &outcome.unavailable {
        writeln!(out, "{points} points are unavailable: {reason}")?;
    }
    let (Some(mape), Some(worst)) = (outcome.mape_percent(), outcome.worst()) else {
        return writeln!(out);
    };
    let unit = outcome.error_unit();
    points(outcome).write_page(out)?;
    writeln!(out)?;
    series(outcome).write_page(out)?;
    writeln!(
        out,
        "\nmean absolute error {mape:.2} {unit} over {} points; worst {:+.1} {unit}: {}\n",
        outcome.points().count(),
        worst.error_percent(),
        description(worst)
    )
}

fn points(outcome: &Reproduction) -> Grid {
    let unit = &outcome.unit;
    let (published, modelled) = (format!("published {unit}"), format!("modelled {unit}"));
    let mut grid = Grid::new([
        ("series", Align::Left),
        (outcome.axis.as_str(), Align::Right),
        (published.as_str(), Align::Right),
        (modelled.as_str(), Align::Right),
        ("error", Align::Right),
    ]);
    for series in &outcome.series {
        for point in &series.points {
            grid.row([
                series.name.clone(),
                point.x.clone(),
                format!("{:.1}", point.published),
                format!("{:.1}", point.modelled),
                format!("{:+.1} {}", point.error_percent(), outcome.error_unit()),
            ]);
        }
    }
    grid
}

fn series(outcome: &Reproduction) -> Grid {
    let mut grid = Grid::new([
        ("series", Align::Left),
        ("points", Align::Right),
        ("mean absolute error", Align::Right),
    ]);
    for series in &outcome.series {
        grid.row([
            series.name.clone(),
            series.points.len().to_string(),
            format!("{:.2} {}", series.mape_percent(), outcome.error_unit()),
        ]);
    }
    grid
}

fn description(point: &ReproducedPoint) -> String {
    let columns = point
        .columns
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    columns.collect::<Vec<_>>().join(" ")
}
