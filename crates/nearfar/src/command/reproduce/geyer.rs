//! `nearfar reproduce geyer`: shapes of geyer-2023.

use std::io::{self, Write};

use nearfar_measure::Kind;
use nearfar_measure::operators::{GeyerFigure, GeyerOutcome, reproduce_geyer};
use nearfar_measure::report::Report;
use serde_json::json;

use crate::args::ReproduceArgs;
use crate::interrupt::run_shown;
use crate::message;
use crate::output::figures;
use crate::output::file::save_page;
use crate::output::grid::{Align, Grid};

/// Runs these figures.
pub fn run(args: &ReproduceArgs, figures: Vec<GeyerFigure>) -> anyhow::Result<()> {
    let names: Vec<&str> = figures.iter().map(|figure| figure.name()).collect();
    let header = figures::header(json!({ "figures": names }));
    let outcome = run_shown(move |_| Ok(reproduce_geyer(&figures)?))?;
    figures::print(
        args.figures.format,
        &header,
        &outcome.metrics(),
        |_, out| table(&outcome, out),
    )?;
    if let Some(path) = &args.report {
        let mut report = Report::new("Operators over near and far buffers");
        report
            .subtitle("geyer-2023 in the model")
            .legend([Kind::Modelled]);
        outcome.add_to(&mut report);
        report.heading("Machine and configuration").header(&header);
        save_page(&report, path)?;
        message::print(&format!("The report is in {}.", path.display()));
    }
    Ok(())
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
