//! `nearfar reproduce`.

use std::ffi::OsStr;
use std::iter::once;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, Command};

use super::FigureArgs;
use super::figure::{Entry, FIGURES, Selection};

/// Hold the model against published points.
///
/// Runs published experiments in the simulator in virtual time and prints published, modelled and
/// error per point, the mean absolute percentage error per series, and the worst point. Of geyer-2023 no points
/// are published here: of its experiments it says which of the shapes that the paper describes the model has.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar reproduce fig4
  nearfar reproduce weisgut --report reproduction.html
  nearfar reproduce all --report everything.html
  nearfar reproduce fig5 --format json
  nearfar reproduce mao-table3 --report interference.html
  nearfar reproduce mao-fig3a
  nearfar reproduce geyer --report geyer.html
  nearfar reproduce weisgut-fig14
  nearfar reproduce --points my-points.csv --profile cxl-blades-4")]
pub struct ReproduceArgs {
    /// A figure, or all of a paper; figures of weisgut-2025 need no name in front, those of others with the same number do
    /// [default: weisgut].
    #[arg(conflicts_with = "points", value_parser = FigureParser)]
    pub figure: Option<Selection>,
    /// Points of your own: CSV with the columns of a published experiment (docs/reproduction.md).
    #[arg(long, value_name = "FILE")]
    pub points: Option<PathBuf>,
    /// The machine to model for figures of weisgut-2025 and points: a built-in profile or a TOML file [default:
    /// cxl-blades-4].
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Write both curves of every series to this HTML page.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// Reads a word for figures. Several papers have a figure of the same number: the help of one that is written without its
/// paper names the others, and a number that stands for none has those of all papers as its hint.
#[derive(Debug, Clone)]
struct FigureParser;

impl TypedValueParser for FigureParser {
    type Value = Selection;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Selection, clap::Error> {
        let known = PossibleValuesParser::new(Selection::words());
        let word = known.parse_ref(command, argument, value);
        let word = word.map_err(|error| hinted(error, &value.to_string_lossy()))?;
        Ok(Selection::named(&word))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Selection::words().into_iter().map(with_others)))
    }
}

/// The error with figures of that number in place of what is merely spelled alike.
fn hinted(mut error: clap::Error, word: &str) -> clap::Error {
    let meant: Vec<String> = numbered(word).map(|entry| entry.name.to_owned()).collect();
    if !meant.is_empty() {
        error.insert(ContextKind::SuggestedValue, ContextValue::Strings(meant));
    }
    error
}

/// The word with what other papers have of its number in its help.
fn with_others(value: PossibleValue) -> PossibleValue {
    let word = value.get_name().to_owned();
    let others: Vec<&str> = numbered(&word)
        .map(|entry| entry.name)
        .filter(|name| *name != word)
        .collect();
    if others.is_empty() {
        return value;
    }
    let help = value.get_help().map(ToString::to_string);
    let help = help.unwrap_or_default();
    value.help(format!(
        "{help} (of this number too: {})",
        others.join(", ")
    ))
}

/// Figures of all papers with the number that a word without a paper has: `mao-fig3a` and `geyer-fig3` for `fig3`.
fn numbered(word: &str) -> impl Iterator<Item = &'static Entry> {
    let of_number = move |entry: &&Entry| {
        let mut words = once(&entry.name).chain(entry.aliases);
        words.any(|name| {
            let paper = entry.paper.word();
            let number = name
                .strip_prefix(paper)
                .and_then(|rest| rest.strip_prefix('-'));
            number.is_some_and(|number| is_or_is_part_of(number, word))
        })
    };
    FIGURES.iter().filter(of_number)
}

/// Whether a figure has this number, such as 3, or is a part of it, such as 3a.
fn is_or_is_part_of(figure: &str, number: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    match figure.strip_prefix(number) {
        Some("") => true,
        Some(part) => number.ends_with(is_digit) && !part.starts_with(is_digit),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(word: &str) -> Result<Selection, String> {
        let command = Command::new("reproduce");
        let command = command.arg(Arg::new("figure").value_parser(FigureParser));
        let matches = command.try_get_matches_from(["reproduce", word]);
        let matches = matches.map_err(|error| error.to_string())?;
        let found = matches.get_one::<Selection>("figure");
        Ok(found.expect("a selection").clone())
    }

    #[test]
    fn a_number_that_stands_for_no_figure_has_those_of_all_papers_as_its_hint() {
        for (word, hint) in [
            ("fig2", "a similar value exists: 'geyer-fig2'"),
            (
                "fig3",
                "some similar values exist: 'mao-fig3a', 'mao-fig3b', 'geyer-fig3'",
            ),
            (
                "table3",
                "some similar values exist: 'mao-table3', 'zhao-table3'",
            ),
            ("table1", "a similar value exists: 'ahn-rest'"),
        ] {
            let error = parsed(word).expect_err(word);
            assert!(error.contains(hint), "{word}: {error}");
        }
        let error = parsed("xyz").expect_err("no figure");
        assert!(!error.contains("tip:"), "{error}");
    }

    #[test]
    fn further_words_are_read_and_not_listed() {
        assert_eq!(
            parsed("fig14").expect("a figure").figures[0].name,
            "weisgut-fig14"
        );
        let error = parsed("moon").expect_err("no figure");
        assert!(
            error.contains("weisgut-fig14") && !error.contains(" fig14"),
            "{error}"
        );
    }

    #[test]
    fn help_names_figures_of_other_papers_with_the_same_number() {
        let values = FigureParser.possible_values().expect("words");
        let helps: Vec<(String, String)> = values
            .map(|value| {
                let help = value.get_help().map(ToString::to_string);
                (value.get_name().to_owned(), help.unwrap_or_default())
            })
            .collect();
        let of = |word: &str| {
            let found = helps.iter().find(|(name, _)| name == word);
            found.map(|(_, help)| help.clone()).expect("a word")
        };
        let others = "(of this number too: mao-fig4, mao-fig4-system-a, geyer-fig4, ahn-losses)";
        assert!(of("fig4").ends_with(others), "{}", of("fig4"));
        for alone in ["fig10", "mao-fig4", "mao", "all"] {
            assert!(!of(alone).contains("number"), "{}", of(alone));
        }
    }
}
