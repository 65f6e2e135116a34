//! Errors of statements: what is wrong, and where in the text.

use datafusion::common::DataFusionError;
use nearfar_store::error::StoreError;
use nearfar_store::sql::SqlError;
use unicode_width::UnicodeWidthChar;

use crate::exit::{Exit, Failed};
use crate::message;

/// Hints that are shown below an error.
const HINTS_MAX: usize = 3;

/// A text that statements were read from.
pub struct Source<'a> {
    /// The script's file, if it came from one.
    pub name: Option<&'a str>,
    /// Line of the script that the text begins on, from 1.
    pub line: usize,
    pub text: &'a str,
}

/// A place in a text: line and column in characters, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

impl Source<'_> {
    /// `error` as a message that shows where in the text it is, where that is known.
    pub fn explain(&self, error: StoreError) -> Failed {
        let (message, place, hints) = take_apart(&error);
        let exit = Exit::of(&error.into());
        let mut text = message;
        if let Some(place) = place {
            text += &self.show(place);
        }
        for hint in hints.into_iter().take(HINTS_MAX) {
            text += &format!("\nhint: {hint}");
        }
        Failed::new(exit, text)
    }

    /// The line of `place`, and a caret below its column.
    fn show(&self, place: Place) -> String {
        let Some(line) = self.text.lines().nth(place.line - 1) else {
            return String::new();
        };
        let number = self.line + place.line - 1;
        let origin = match self.name {
            Some(name) => format!("\n  --> {name}:{number}:{}", place.column),
            None => String::new(),
        };
        let space: String = line.chars().take(place.column - 1).map(blank).collect();
        format!("{origin}\n  | {line}\n  | {space}^")
    }
}

/// As much white space as the character takes.
fn blank(character: char) -> String {
    match character {
        '\t' => "\t".to_owned(),
        other => " ".repeat(other.width().unwrap_or(0)),
    }
}

/// The message, its place and its hints.
fn take_apart(error: &StoreError) -> (String, Option<Place>, Vec<String>) {
    match error {
        StoreError::Sql(SqlError::Syntax { .. }) => {
            let (message, place) = split_place(&error.to_string());
            (message, place, Vec::new())
        }
        StoreError::DataFusion(error) => take_datafusion_apart(error),
        _ => (message_of(error), None, Vec::new()),
    }
}

fn take_datafusion_apart(error: &DataFusionError) -> (String, Option<Place>, Vec<String>) {
    if let Some(diagnostic) = error.diagnostic() {
        let place = diagnostic.span.map(|span| Place {
            line: span.start.line as usize,
            column: span.start.column as usize,
        });
        let notes = diagnostic.notes.iter().map(|note| note.message.clone());
        let helps = diagnostic.helps.iter().map(|help| help.message.clone());
        let place = place.filter(|place| place.line > 0 && place.column > 0);
        return (
            diagnostic.message.clone(),
            place,
            notes.chain(helps).collect(),
        );
    }
    let root = error.find_root();
    let message = match root {
        DataFusionError::Internal(_) => root.strip_backtrace(),
        _ => root.message().into_owned(),
    };
    let (message, place) = split_place(&message);
    (message, place, Vec::new())
}

/// The error and its causes.
fn message_of(error: &StoreError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source());
    message::join(causes.map(ToString::to_string))
}

/// Cuts ` at Line: 1, Column: 8` from the end of a parser's message.
fn split_place(message: &str) -> (String, Option<Place>) {
    let whole = || (message.to_owned(), None);
    let Some((text, place)) = message.rsplit_once(" at Line: ") else {
        return whole();
    };
    let Some((line, column)) = place.split_once(", Column: ") else {
        return whole();
    };
    let digits = |text: &str| {
        text.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    };
    match (line.parse(), digits(column).parse()) {
        (Ok(line), Ok(column)) if line > 0 && column > 0 => {
            (text.to_owned(), Some(Place { line, column }))
        }
        _ => whole(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_cut_from_messages() {
        let place = Some(Place {
            line: 3,
            column: 12,
        });
        let cut = split_place("Expected: ), found: EOF at Line: 3, Column: 12");
        assert_eq!(cut, ("Expected: ), found: EOF".to_owned(), place));
        assert_eq!(
            split_place("looked at Line: art"),
            ("looked at Line: art".to_owned(), None)
        );
    }

    #[test]
    fn a_caret_stands_below_the_place() {
        let source = Source {
            name: Some("a.sql"),
            line: 10,
            text: "select\n\t日 fro t;\n",
        };
        let shown = source.show(Place { line: 2, column: 4 });
        assert_eq!(shown, "\n  --> a.sql:11:4\n  | \t日 fro t;\n  | \t   ^");
        assert_eq!(source.show(Place { line: 9, column: 1 }), "");
    }
}
