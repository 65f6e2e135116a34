//! Errors of statements: what is wrong, and where in the text.

use nearfar_sql::error::EngineError;
use nearfar_sql::explain::Place;
use unicode_width::UnicodeWidthChar;

use crate::exit::{Exit, Failed};

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

impl Source<'_> {
    /// `error` as a message that shows where in the text it is, where that is known.
    pub fn explain(&self, error: EngineError) -> Failed {
        let explained = error.explain();
        let exit = Exit::of(&error.into());
        let mut text = explained.message;
        if let Some(place) = explained.place {
            text += &self.show(place);
        }
        for hint in explained.hints.into_iter().take(HINTS_MAX) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
