//! Scripts, line by line, so that what is complete runs while the rest is still being written.

use std::collections::VecDeque;
use std::io;

use anyhow::Context;
use nearfar_sql::sql::Completeness;
use tokio::sync::mpsc;

use crate::exit::{Exit, Failed};

/// Lines that a reader may be ahead of the statements.
const LINES_AHEAD: usize = 1024;

/// Where a script comes from.
pub enum Lines {
    Text(VecDeque<String>),
    /// Read by a thread of its own, because reading cannot be interrupted.
    Stdin(mpsc::Receiver<io::Result<String>>),
}

impl Lines {
    /// The lines of a text.
    pub fn of(text: &str) -> Self {
        Self::Text(text.lines().map(str::to_owned).collect())
    }

    /// The lines of stdin, as they come.
    pub fn of_stdin() -> Self {
        let (sender, receiver) = mpsc::channel(LINES_AHEAD);
        std::thread::spawn(move || {
            for line in io::stdin().lines() {
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        Self::Stdin(receiver)
    }

    /// The next line, without its end.
    pub async fn next(&mut self) -> anyhow::Result<Option<String>> {
        match self {
            Self::Text(lines) => Ok(lines.pop_front()),
            Self::Stdin(lines) => lines
                .recv()
                .await
                .transpose()
                .map_err(|error| Failed::new(Exit::Input, error.to_string()))
                .context("cannot read standard input"),
        }
    }
}

/// Something of a script that can be run.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// One or several statements; the last may lack its semicolon at the end of the script.
    Statements {
        text: String,
        /// Line of the script that the text begins on, from 1.
        line: usize,
    },
    /// A command of the shell, such as `\timing`, without its backslash.
    Meta(String),
}

/// Lines that have been read and do not make a statement yet.
#[derive(Debug)]
pub struct Pending {
    text: String,
    line: usize,
    next_line: usize,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            text: String::new(),
            line: 1,
            next_line: 1,
        }
    }
}

impl Pending {
    /// Takes a line; gives what can be run now.
    pub fn push(&mut self, line: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let is_meta = line.trim_start().starts_with('\\') && !self.is_open();
        if is_meta {
            pieces.extend(self.take());
            pieces.push(Piece::Meta(line.trim()[1..].to_owned()));
        }
        self.next_line += 1;
        if is_meta {
            self.line = self.next_line;
            return pieces;
        }
        self.text.push_str(line);
        self.text.push('\n');
        if line.contains(';') && Completeness::of(&self.text) == Completeness::Complete {
            pieces.extend(self.take());
        }
        pieces
    }

    /// What is left at the end of the script.
    pub fn take(&mut self) -> Option<Piece> {
        let text = std::mem::take(&mut self.text);
        let line = std::mem::replace(&mut self.line, self.next_line);
        let is_empty = Completeness::of(&text) == Completeness::Empty;
        (!is_empty).then_some(Piece::Statements { text, line })
    }

    /// Whether a statement has begun and not ended.
    fn is_open(&self) -> bool {
        Completeness::of(&self.text) == Completeness::Incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(script: &str) -> Vec<Piece> {
        let mut pending = Pending::default();
        let mut pieces: Vec<Piece> = script.lines().flat_map(|line| pending.push(line)).collect();
        pieces.extend(pending.take());
        pieces
    }

    fn statements(text: &str, line: usize) -> Piece {
        Piece::Statements {
            text: text.to_owned(),
            line,
        }
    }

    #[test]
    fn statements_end_with_a_line_that_ends_them() {
        let script = "select 1;\n\nselect\n ';' ;\n-- done\n\\timing on\nselect 2";
        let expected = [
            statements("select 1;\n", 1),
            statements("\nselect\n ';' ;\n", 2),
            Piece::Meta("timing on".to_owned()),
            statements("select 2\n", 7),
        ];
        assert_eq!(pieces(script), expected);
    }

    #[test]
    fn a_backslash_inside_of_a_statement_is_text() {
        let script = "select '\n\\q\n';\n";
        assert_eq!(pieces(script), [statements(script, 1)]);
        assert_eq!(pieces("-- nothing\n\n"), []);
    }
}
