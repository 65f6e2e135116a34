//! Published ranges of zhao-2026.

use std::io::{self, Write};

use nearfar_index_bench::reproduce::zhao::{
    Figure, FigureOptions, FigureOutcome, run as run_figures,
};
use nearfar_measure::reproduce::FigureOutcome as _;
use nearfar_topology::Profile;

use super::shown::Shown;
use crate::output::grid::{Align, Grid};
use crate::progress::Live;

/// The machine of the paper, as far as it is known.
const PROFILE: &str = "cxl-card";

/// Runs a figure.
pub fn run(figure: Figure, live: &Live) -> anyhow::Result<Box<dyn Shown>> {
    let options = FigureOptions::new(Profile::builtin(PROFILE)?);
    let outcomes = run_figures(&[figure], &options, |claim, done| {
        let percent = done * 100.0;
        live.say(format!("{}: {percent:.0} %: {claim}", figure.name()));
    })?;
    let outcome = outcomes.into_iter().next();
    Ok(Box::new(outcome.unwrap_or(FigureOutcome {
        figure,
        claims: Vec::new(),
    })))
}

impl Shown for FigureOutcome {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.title())?;
        let mut grid = Grid::new([
            ("claim", Align::Left),
            ("published from", Align::Right),
            ("to", Align::Right),
            ("modelled", Align::Right),
            ("off", Align::Right),
        ]);
        for one in &self.claims {
            grid.row([
                one.claim.to_string(),
                format!("{:.1} %", one.claim.low_percent),
                format!("{:.1} %", one.claim.high_percent),
                format!("{:.1} %", one.modelled_percent),
                format!("{:+.1}", one.error_points()),
            ]);
        }
        grid.write_page(out)?;
        writeln!(out, "\n{}\n", self.verdict())
    }
}
