//! Errors for people: what is wrong, and where in the text.

use datafusion::error::DataFusionError;
use std::error::Error;

use crate::error::EngineError;
use crate::error::SqlError;

/// A place in a text: line and column in characters, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// An error, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What is wrong.
    pub message: String,
    /// Where in the text that was read, if that is known.
    pub place: Option<Place>,
    /// What may help.
    pub hints: Vec<String>,
}

impl EngineError {
    /// The error as one message, and where in the text of the statement it is.
    pub fn explain(&self) -> Explanation {
        match self {
            Self::Sql(SqlError::Syntax { .. }) => placed(&self.to_string()),
            Self::DataFusion(error) => of_datafusion(error),
            _ => {
                let causes = std::iter::successors(Some(self as &dyn Error), |e| (*e).source());
                Explanation {
                    message: join_causes(causes.map(ToString::to_string)),
                    place: None,
                    hints: Vec::new(),
                }
            }
        }
    }
}

fn of_datafusion(error: &DataFusionError) -> Explanation {
    if let Some(diagnostic) = error.diagnostic() {
        let place = diagnostic.span.map(|span| Place {
            line: span.start.line as usize,
            column: span.start.column as usize,
        });
        let notes = diagnostic.notes.iter().map(|note| note.message.clone());
        let helps = diagnostic.helps.iter().map(|help| help.message.clone());
        return Explanation {
            message: diagnostic.message.clone(),
            place: place.filter(|place| place.line > 0 && place.column > 0),
            hints: notes.chain(helps).collect(),
        };
    }
    let root = error.find_root();
    match root {
        DataFusionError::Internal(_) => placed(&root.strip_backtrace()),
        _ => placed(&root.message()),
    }
}

fn placed(message: &str) -> Explanation {
    let (message, place) = split_place(message);
    Explanation {
        message,
        place,
        hints: Vec::new(),
    }
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

/// An error and its causes as one text.
pub fn join_causes(causes: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for cause in causes {
        let cause = tidy(&cause);
        if text.is_empty() {
            text = cause;
        } else if !cause.is_empty() && !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// What DataFusion appends to errors that it takes for its own, as it does with broken files.
const BLAMED_ON_A_BUG: &str = "\nThis issue was likely caused by a bug in DataFusion's code.";

/// One line without repetitions of DataFusion's and Arrow's words for the kind of an error.
fn tidy(text: &str) -> String {
    let text = text.split(BLAMED_ON_A_BUG).next().unwrap_or_default();
    let text = text.trim().replace("\ncaused by\n", ": ");
    let mut parts: Vec<&str> = text.split(": ").collect();
    parts.dedup();
    parts.join(": ")
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
    fn kinds_of_errors_are_told_once() {
        let text = "x: Parquet error: Parquet error: no footer\ncaused by\nArrow error: torn";
        assert_eq!(tidy(text), "x: Parquet error: no footer: Arrow error: torn");
        let blamed = format!("Internal error: odd.{BLAMED_ON_A_BUG} Please help");
        assert_eq!(tidy(&blamed), "Internal error: odd.");
    }
}
