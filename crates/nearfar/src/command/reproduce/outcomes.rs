//! What came of all figures.

use std::io::{self, Write};

use nearfar_measure::Kind;
use nearfar_measure::report::{Cell, Column, Report, Table};
use nearfar_measure::results::Header;

use super::shown::Shown;
use crate::exit::{Exit, Failed};
use crate::message;
use crate::output::grid::{Align, Grid};

/// What figures gave, and why others gave nothing.
#[derive(Default)]
pub struct Outcomes {
    /// Those that ran, in their order.
    pub ran: Vec<Box<dyn Shown>>,
    /// Those that failed, in their order.
    pub failed: Vec<Failure>,
}

/// A figure that could not be run.
pub struct Failure {
    /// Its word in commands; several words, separated by commas, of figures that run together.
    pub name: String,
    /// The reason.
    pub why: anyhow::Error,
}

impl Failure {
    fn text(&self) -> String {
        format!("could not be run: {}", message::of(&self.why))
    }
}

impl Outcomes {
    /// Adds what a figure gave.
    pub fn add(&mut self, name: String, outcome: anyhow::Result<Box<dyn Shown>>) {
        match outcome {
            Ok(outcome) => self.ran.push(outcome),
            Err(why) => self.failed.push(Failure { name, why }),
        }
    }

    /// Whether there is more than one figure, of which a summary tells.
    fn has_summary(&self) -> bool {
        self.ran.len() + self.failed.len() > 1
    }

    /// Every figure with what came of it.
    fn verdicts(&self) -> Vec<(String, String)> {
        let ran = self.ran.iter();
        let ran = ran.map(|outcome| (outcome.title(), outcome.verdict()));
        let failed = self.failed.iter();
        let failed = failed.map(|failure| (failure.name.clone(), failure.text()));
        ran.chain(failed).collect()
    }

    /// Writes all figures as text, and of several what came of each.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for outcome in &self.ran {
            outcome.write(out)?;
        }
        if !self.has_summary() {
            return Ok(());
        }
        let mut grid = Grid::new([("figure", Align::Left), ("in the model", Align::Left)]);
        for (figure, verdict) in self.verdicts() {
            grid.row([figure, verdict]);
        }
        writeln!(out)?;
        grid.write_page(out)
    }

    /// One page of all figures: of several, first a small chart of each and what came of them.
    pub fn page(&self, header: &Header) -> Report {
        let mut report = Report::new("The model against published points");
        report.legend([Kind::Published, Kind::Modelled]);
        if self.has_summary() {
            report.heading("All figures");
            report.small_multiples(self.ran.iter().filter_map(|outcome| outcome.overview()));
            let columns = [Column::text("Figure"), Column::text("In the model")];
            let mut table = Table::new("All figures", columns);
            for (figure, verdict) in self.verdicts() {
                table.row([Cell::from(figure), Cell::from(verdict)]);
            }
            report.table(table);
        }
        for outcome in &self.ran {
            outcome.add_to(&mut report);
        }
        report.heading("Machine and configuration").header(header);
        report
    }

    /// How the command ends: with the first figure that failed, after the others are told.
    ///
    /// # Errors
    /// That of the first figure that failed, with its name; [`Exit::Unavailable`] if nothing could be modelled.
    pub fn ended(self) -> anyhow::Result<()> {
        let has_figures = self.ran.iter().any(|outcome| outcome.has_figures());
        let mut failed = self.failed.into_iter();
        let Some(first) = failed.next() else {
            let nothing = "none of these points can be modelled";
            return match has_figures {
                true => Ok(()),
                false => Err(Failed::new(Exit::Unavailable, nothing).into()),
            };
        };
        for other in failed {
            message::print(&format!("{} {}", other.name, other.text()));
        }
        Err(first
            .why
            .context(format!("{} could not be run", first.name)))
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use nearfar_measure::reproduce::{Claim, Claims};
    use nearfar_topology::Known;

    use super::*;

    fn claims(modelled: Known<f64>) -> Box<dyn Shown> {
        Box::new(Claims {
            name: "ahn-losses",
            title: "Some numbers",
            claims: vec![Claim {
                figure: "ahn-fig4",
                what: "main-far".to_owned(),
                unit: "ratio",
                published: (0.5, 0.5),
                modelled,
            }],
        })
    }

    #[test]
    fn a_figure_that_fails_is_named_and_the_others_are_kept() {
        let mut outcomes = Outcomes::default();
        let failed = Failed::new(Exit::Memory, "there is no room");
        outcomes.add("mao-fig6".to_owned(), Err(failed.into()));
        outcomes.add("ahn-losses".to_owned(), Ok(claims(Known::Value(0.6))));
        outcomes.add("fig4".to_owned(), Err(anyhow!("no such device")));
        let mut text = Vec::new();
        outcomes.write(&mut text).expect("written");
        let text = String::from_utf8(text).expect("text");
        let page = outcomes.page(&crate::output::figures::header(serde_json::Value::Null));
        for text in [text, page.to_html()] {
            for told in [
                "Some numbers",
                "1 of 1 numbers are modelled, 0 of them as published; mean absolute error 20.0 %",
                "could not be run: there is no room",
                "could not be run: no such device",
            ] {
                assert!(text.contains(told), "{told}: {text}");
            }
        }
        let error = outcomes.ended().expect_err("a failure");
        assert_eq!(
            message::of(&error),
            "mao-fig6 could not be run: there is no room"
        );
        assert_eq!(Exit::of(&error), Exit::Memory);
    }

    #[test]
    fn one_figure_without_a_model_is_unavailable() {
        let mut outcomes = Outcomes::default();
        outcomes.add(
            "ahn-rest".to_owned(),
            Ok(claims(Known::unavailable("no program"))),
        );
        let mut text = Vec::new();
        outcomes.write(&mut text).expect("written");
        let text = String::from_utf8(text).expect("text");
        assert!(!text.contains("in the model"), "no summary of one: {text}");
        let error = outcomes.ended().expect_err("nothing is modelled");
        assert_eq!(Exit::of(&error), Exit::Unavailable);
    }
}
